// The cache of the inference gateway: 40 users for 20 s on /slow, which takes its upstream 120 ms. Run twice, with the cache off and on;
// `make perf-all` does both and compares them.
//
//   RATE_LIMIT_ENABLED=false CACHE_ENABLED=false weir &      k6 run -e CACHE=off -e K6_SUMMARY_OUT=baseline.json load/k6/cache_test.js
//   RATE_LIMIT_ENABLED=false weir &                          k6 run -e CACHE=on  -e K6_SUMMARY_OUT=cached.json   load/k6/cache_test.js
//
// CACHE says which of the two is meant, and the run fails unless the responses prove it: no hit with off, 60 % of hits or more with on. So no
// comparison comes of two runs that were the same. Without CACHE nothing is demanded. BASE_URL, USERS (40), DURATION (20s), TARGET (/slow).
import { check } from 'k6';
import http from 'k6/http';
import { Rate } from 'k6/metrics';
import { base, number, seconds, summary, trend } from './summary.js';

const hit = new Rate('cache_hit'); // of all responses
const cache = __ENV.CACHE || '';
if (!['', 'on', 'off'].includes(cache)) throw new Error(`CACHE: ${cache} is neither on nor off`);
const demanded = { on: ['rate>=0.6'], off: ['rate==0'] }[cache];

export const options = {
  vus: number('USERS', 40),
  duration: `${seconds('DURATION', '20s')}s`,
  summaryTrendStats: trend,
  thresholds: { http_req_failed: ['rate<0.001'], http_reqs: ['count>0'], ...(demanded ? { cache_hit: demanded } : {}) },
};

const target = __ENV.TARGET || '/slow';

export default function () {
  const answer = http.get(`${base}${target}`, { tags: { name: target } });
  hit.add(answer.headers['X-Cache'] === 'HIT');
  check(answer, { 'status is 200': (a) => a.status === 200 });
}

export function handleSummary(data) {
  const out = summary({ ...data, cache: cache || null }, ['cache_hit']);
  if (Object.values((data.metrics.cache_hit || {}).thresholds || {}).some((threshold) => !threshold.ok)) {
    const ratio = data.metrics.cache_hit.values.rate;
    const why = cache === 'on' ? `but the cache answered ${(100 * ratio).toFixed(1)} % of the requests` : `but ${(100 * ratio).toFixed(1)} % were cache hits`;
    out.stderr = `NOT VALID: this run is meant to have the cache ${cache}, ${why}. Look at CACHE_ENABLED of the gateway at ${base}.\n`;
  }
  return out;
}
