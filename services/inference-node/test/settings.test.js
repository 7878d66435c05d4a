import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Load } from '../src/load.js';
import { defaults, forRequest, fromEnv } from '../src/settings.js';

test('the environment sets and headers override', () => {
  const settings = fromEnv({ SIM_TOKENS: '7', SIM_ERROR_RATE: '0.25', SIM_SEED: '4294967295', PATH: '/bin' });
  assert.deepEqual(settings, { ...defaults, tokens: 7, errorRate: 250_000, seed: 4294967295 });
  assert.equal(forRequest(settings, { host: 'x' }), settings);
  assert.deepEqual(forRequest(settings, { 'x-sim-tokens': '9', 'x-sim-latency-ms': '0' }), { ...settings, tokens: 9, latencyMs: 0 });
});

test('whole numbers are digits within bounds', () => {
  for (const text of ['', ' 1', '+1', '-1', '1.5', '1e3', '0', '100001', '٣', '0x1', '99999999999']) {
    assert.throws(() => fromEnv({ SIM_TOKENS: text }), { message: 'SIM_TOKENS must be a whole number from 1 to 100000' }, text);
  }
});

test('rates are exact', () => {
  for (const [text, millionths] of [['0', 0], ['1', 1_000_000], ['1.0', 1_000_000], ['0.1', 100_000], ['0.000001', 1]]) {
    assert.equal(fromEnv({ SIM_ERROR_RATE: text }).errorRate, millionths);
  }
  for (const text of ['', '1.000001', '2', '.5', '0.', '0.0000001', '1e-3', '-0', 'nan', '50%']) {
    assert.throws(
      () => forRequest(defaults, { 'x-sim-error-rate': text }),
      { message: 'X-Sim-Error-Rate must be a number from 0 to 1 with at most 6 decimals' },
      text,
    );
  }
});

test('failures are spread by the counter', () => {
  for (const [errorRate, failing] of [[250_000, [4, 8, 12]], [300_000, [4, 7, 10]], [0, []]]) {
    const load = new Load();
    const failed = [];
    for (let k = 1; k <= 12; k += 1) {
      try {
        load.admit({ ...defaults, errorRate });
      } catch {
        failed.push(k);
      }
    }
    assert.deepEqual(failed, failing);
    assert.deepEqual({ ...load }, { inFlight: 12 - failing.length, admitted: 12, failed: failing.length, refused: 0, cancelled: 0 });
  }
});
