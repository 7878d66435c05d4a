// What handleSummary of the three scripts returns: the whole summary as JSON to K6_SUMMARY_OUT, when that is set, and a few lines to the terminal.
const FIGURES = ['http_reqs', 'http_req_duration', 'http_req_failed', 'dropped_iterations'];

function line(name, metric) {
  const values = Object.entries(metric.values).map(([key, value]) => `${key}=${Number(value.toPrecision(5))}`);
  const broken = Object.entries(metric.thresholds || {}).filter(([, threshold]) => !threshold.ok);
  return [`  ${name}: ${values.join(' ')}`, ...broken.map(([rule]) => `    BROKEN: ${name} ${rule}`)].join('\n');
}

export function summary(data, more = []) {
  const names = Object.keys(data.metrics).filter((name) => FIGURES.includes(name) || more.includes(name) || data.metrics[name].thresholds);
  const out = { stdout: `${names.sort().map((name) => line(name, data.metrics[name])).join('\n')}\n` };
  if (__ENV.K6_SUMMARY_OUT) out[__ENV.K6_SUMMARY_OUT] = JSON.stringify(data, null, 1);
  return out;
}

export const trend = ['avg', 'min', 'med', 'p(90)', 'p(95)', 'p(99)', 'max'];

export const base = (__ENV.BASE_URL || 'http://127.0.0.1:8080').replace(/\/+$/, '');

export function seconds(name, otherwise) {
  const text = __ENV[name] || otherwise;
  const found = /^(\d+)s?$/.exec(text);
  if (!found) throw new Error(`${name}: ${text} is not a number of seconds`);
  return Number(found[1]);
}

export function number(name, otherwise) {
  const value = Number(__ENV[name] || otherwise);
  if (!(value > 0)) throw new Error(`${name}: ${__ENV[name]} is not a number above 0`);
  return value;
}
