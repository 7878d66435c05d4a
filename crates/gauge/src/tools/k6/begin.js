// Figures by scenario: the summary has those that a threshold names.
const thresholds = {};
const byScenario = (metric) => {
  for (const scenario of scenarios) thresholds[`${metric}{scenario:${scenario}}`] = [];
  return metric;
};
const counter = (name) => new Counter(byScenario(`gauge_${name}`));
for (const metric of ['data_sent', 'data_received', 'dropped_iterations', 'iteration_duration']) byScenario(metric);
const began = new Gauge(byScenario('gauge_began'));
const ended = new Gauge(byScenario('gauge_ended'));
const late = counter('late');
const unexpected = counter('unexpected');
const other = counter('status_other');
const statuses = {};
for (const status of knownStatuses) statuses[status] = counter(`status_${status}`);
const lost = {};
for (const kind of ['connect', 'reset', 'timeout', 'invalid', 'unsent']) lost[kind] = counter(kind);
const responded = (status, expected) => {
  (statuses[status] ?? other).add(1);
  if (!expected) unexpected.add(1);
};

let scenario = 0;
let seen = -1;
let mine = 0;
const captured = {};
const random = (from, to) => from + Math.floor(Math.random() * (to - from + 1));
const json = (value) => JSON.stringify(String(value)).slice(1, -1);
const at = (value, path) => path.reduce((value, key) => (value === null || value === undefined ? undefined : value[key]), value);
// Over all users, and no number in two scenarios.
const step = () => scenario * 100000000 + exec.scenario.iterationInTest;
const lines = (text) => {
  const all = text.split('\n').map((line) => (line.endsWith('\r') ? line.slice(0, -1) : line));
  if (all[all.length - 1] === '') all.pop();
  return all;
};
const iteration = (number, plannedMs, next) => {
  scenario = number;
  if (seen !== number) {
    seen = number;
    began.add(exec.scenario.startTime);
    // What is random is the same for all systems of a round.
    randomSeed(seed + 1000000 * number + exec.vu.idInTest);
  }
  next().run();
  const now = Date.now();
  ended.add(now);
  if (plannedMs !== undefined && now > exec.scenario.startTime + plannedMs) late.add(1);
};
const own = () => operations[mine++ % operations.length];
const together = () => operations[exec.scenario.iterationInTest % operations.length];
const weighted = () => {
  const point = Math.random() * operations[operations.length - 1].upto;
  return operations.find((operation) => point < operation.upto);
};
