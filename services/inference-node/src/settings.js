// The settings of the simulator: from the environment at start, from X-Sim-* headers for one request.

/** A value that cannot be used; `setting` is the variable or the header, the message says what would do. */
export class BadSetting extends Error {
  constructor(setting, wanted) {
    super(`${setting} must be ${wanted}`);
    this.setting = setting;
  }
}

const whole = (low, high) => (text, name) => {
  const value = /^[0-9]{1,10}$/.test(text) ? Number(text) : NaN;
  if (!(value >= low && value <= high)) throw new BadSetting(name, `a whole number from ${low} to ${high}`);
  return value;
};

/** A rate as a whole number of millionths: exact, the same in every language. */
const millionths = (text, name) => {
  const [, ones, decimals = ''] = /^([01])(?:\.([0-9]{1,6}))?$/.exec(text) ?? [];
  const value = Number(ones) * 1_000_000 + Number(decimals.padEnd(6, '0'));
  if (!(value <= 1_000_000)) throw new BadSetting(name, 'a number from 0 to 1 with at most 6 decimals');
  return value;
};

export const port = whole(0, 65535);

const SETTINGS = [
  { field: 'latencyMs', variable: 'SIM_LATENCY_MS', header: 'X-Sim-Latency-Ms', read: whole(0, 600_000) },
  { field: 'tokens', variable: 'SIM_TOKENS', header: 'X-Sim-Tokens', read: whole(1, 100_000) },
  { field: 'tokenIntervalMs', variable: 'SIM_TOKEN_INTERVAL_MS', header: 'X-Sim-Token-Interval-Ms', read: whole(0, 60_000) },
  { field: 'errorRate', variable: 'SIM_ERROR_RATE', header: 'X-Sim-Error-Rate', read: millionths },
  { field: 'errorStatus', variable: 'SIM_ERROR_STATUS', header: 'X-Sim-Error-Status', read: whole(400, 599) },
  { field: 'concurrency', variable: 'SIM_CONCURRENCY', header: 'X-Sim-Concurrency', read: whole(0, 1_000_000) },
  // The seed has no header: one process, one set of responses.
  { field: 'seed', variable: 'SIM_SEED', read: whole(0, 0xffffffff) },
];

/** latencyMs null: 30 to 50, by the prompt. errorRate in millionths. concurrency 0: no limit. */
export const defaults = Object.freeze({
  latencyMs: null,
  tokens: 32,
  tokenIntervalMs: 20,
  errorRate: 0,
  errorStatus: 500,
  concurrency: 0,
  seed: 0,
});

export function fromEnv(env) {
  const settings = { ...defaults };
  for (const { field, variable, read } of SETTINGS) {
    if (env[variable] !== undefined) settings[field] = read(env[variable], variable);
  }
  return Object.freeze(settings);
}

/** `settings` with what the headers of one request (names in lower case, as Node has them) say instead. */
export function forRequest(settings, headers) {
  let changed = settings;
  for (const { field, header, read } of SETTINGS) {
    const text = header && headers[header.toLowerCase()];
    if (text !== undefined) changed = { ...changed, [field]: read(text, header) };
  }
  return changed;
}
