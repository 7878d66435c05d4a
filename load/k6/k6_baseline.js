// The inference gateway at a constant rate: 80 % GETs that may be cached, 20 % POSTs, payloads of 0.5 to 2 KB. A warm-up, which does not count,
// comes first.
//
//   RATE_LIMIT_ENABLED=false weir &
//   k6 run load/k6/k6_baseline.js
//
// BASE_URL (http://127.0.0.1:8080), RATE (200 requests/s), DURATION (60s), WARMUP (10s), K6_SUMMARY_OUT (a file for the summary as JSON).
// RATE_LIMIT_ENABLED=false at the gateway: all of this comes from one client, whose share is 20 requests/s.
import { check } from 'k6';
import exec from 'k6/execution';
import http from 'k6/http';
import { Rate } from 'k6/metrics';
import { base, number, seconds, summary, trend } from './summary.js';

const rate = number('RATE', 200);
const warmup = seconds('WARMUP', '10s');
const duration = seconds('DURATION', '60s');
const limited = new Rate('limited'); // 429

const arrivals = { executor: 'constant-arrival-rate', rate, timeUnit: '1s', preAllocatedVUs: Math.ceil(rate / 2), maxVUs: rate * 2 };

export const options = {
  scenarios: {
    warmup: { ...arrivals, duration: `${warmup}s`, gracefulStop: '5s' },
    measured: { ...arrivals, duration: `${duration}s`, startTime: `${warmup + 1}s` },
  },
  summaryTrendStats: trend,
  thresholds: {
    'http_req_duration{scenario:measured}': ['p(95)<=140', 'p(99)<=280'],
    'http_req_failed{scenario:measured}': ['rate<0.001'],
    'http_reqs{scenario:measured}': [`count>=${Math.floor(0.99 * rate * duration)}`],
    'limited{scenario:measured}': ['rate<0.02'],
    dropped_iterations: [`count<=${Math.ceil(0.001 * rate * (duration + warmup))}`],
  },
};

const json = { headers: { 'Content-Type': 'application/json' } };

export default function () {
  const turn = exec.scenario.iterationInTest % 10;
  let answer;
  if (turn < 8) {
    answer = http.get(`${base}/slow`, { tags: { name: 'GET /slow' } });
  } else {
    const path = turn === 8 ? '/infer/python' : '/infer/node';
    const prompt = 'weir '.repeat(100 + Math.floor(Math.random() * 300));
    answer = http.post(`${base}${path}`, JSON.stringify({ prompt }), { ...json, tags: { name: `POST ${path}` } });
  }
  limited.add(answer.status === 429);
  check(answer, { 'status is 200': (a) => a.status === 200 });
}

export function handleSummary(data) {
  return summary(data, ['checks']);
}
