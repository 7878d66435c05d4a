// The limits of the inference gateway: one client sends more than its share, CLIENT_RPS 20 with CLIENT_BURST 40. What is refused must be
// refused as the contract has it, and as many must pass as the bucket holds: the burst, and the rate for as long as the test lasts.
//
//   weir &
//   k6 run load/k6/rate_limit_test.js
//
// BASE_URL, RATE (60 requests/s), DURATION (10s), CLIENT_RPS (20) and CLIENT_BURST (40) as the gateway has them, K6_SUMMARY_OUT.
import { check } from 'k6';
import http from 'k6/http';
import { Counter } from 'k6/metrics';
import { base, number, seconds, summary, trend } from './summary.js';

const rate = number('RATE', 60);
const duration = seconds('DURATION', '10s');
const share = number('CLIENT_RPS', 20) * duration + number('CLIENT_BURST', 40);
const passed = new Counter('passed'); // 200
const refused = new Counter('refused'); // 429
const other = new Counter('other');
if (rate * duration <= share) throw new Error(`RATE ${rate} for ${duration} s is within the limits: nothing would be refused`);

export const options = {
  scenarios: { client: { executor: 'constant-arrival-rate', rate, timeUnit: '1s', duration: `${duration}s`, preAllocatedVUs: rate } },
  summaryTrendStats: trend,
  thresholds: {
    // A tenth, and what a second gives, for the time it takes to start and end.
    passed: [`count>=${Math.floor(0.9 * share)}`, `count<=${Math.ceil(1.1 * share + number('CLIENT_RPS', 20))}`],
    refused: ['count>0'],
    other: ['count==0'],
    checks: ['rate==1'],
  },
};

http.setResponseCallback(http.expectedStatuses(200, 429));

export default function () {
  const answer = http.get(`${base}/limited`, { tags: { name: '/limited' } });
  (answer.status === 200 ? passed : answer.status === 429 ? refused : other).add(1);
  if (answer.status !== 429) return;
  check(answer, {
    'problem+json': (a) => (a.headers['Content-Type'] || '').startsWith('application/problem+json'),
    'says too_many_requests': (a) => a.json('error') === 'too_many_requests',
    'Retry-After in whole seconds from 1': (a) => /^[1-9]\d*$/.test(a.headers['Retry-After']),
    'RateLimit-Scope': (a) => ['client', 'global'].includes(a.headers['Ratelimit-Scope']),
    'RateLimit-Remaining': (a) => a.headers['Ratelimit-Remaining'] === '0',
    'RateLimit-Policy': (a) => /^"(client|global)";q=\d+;w=\d+/.test(a.headers['Ratelimit-Policy'] || ''),
  });
}

export function handleSummary(data) {
  const out = summary(data, ['checks', 'passed', 'refused']);
  if (!data.metrics.refused || data.metrics.refused.values.count === 0) {
    out.stderr = `NOT VALID: nothing was refused. Look at RATE_LIMIT_ENABLED, CLIENT_RPS and CLIENT_BURST of the gateway at ${base}.\n`;
  }
  return out;
}
