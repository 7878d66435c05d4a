// Made by gauge from a workload.
import http from 'k6/http';
import { randomSeed, sleep } from 'k6';
import exec from 'k6/execution';
import { Counter, Gauge, Trend } from 'k6/metrics';
import { SharedArray } from 'k6/data';
const scenarios = ['p0', 'p1', 'p2', 'p3', 'p4'];
const knownStatuses = [200, 201, 202, 203, 204, 205, 206, 207, 300, 301, 302, 303, 304, 307, 308, 400, 401, 402, 403, 404, 405, 406, 408, 409, 410, 412, 413, 415, 422, 429, 500, 501, 502, 503, 504];
const seed = 0;
// begin.js
export const options = {
  discardResponseBodies: false,
  thresholds,
  setupTimeout: '1h',
  teardownTimeout: '1h',
  summaryTrendStats: ['avg', 'min', 'med', 'max', 'p(75)', 'p(90)', 'p(95)', 'p(99)', 'p(99.9)', 'count'],
  scenarios: {
    p0: { exec: 'p0', startTime: '0s', gracefulStop: '5s', tags: {}, executor: 'constant-vus', vus: 2, duration: '1s' },
    p1: { exec: 'p1', startTime: '1s', gracefulStop: '5s', tags: { measured: 'yes' }, executor: 'constant-vus', vus: 10, duration: '2s' },
    p2: { exec: 'p2', startTime: '3s', gracefulStop: '5s', tags: { measured: 'yes' }, executor: 'per-vu-iterations', vus: 4, iterations: 10, maxDuration: '3s' },
    p3: { exec: 'p3', startTime: '6s', gracefulStop: '5s', tags: { measured: 'yes' }, executor: 'ramping-arrival-rate', startRate: 10, timeUnit: '1s', stages: [{ target: 50, duration: '1.5s' }], preAllocatedVUs: 8, maxVUs: 8 },
    p4: { exec: 'p4', startTime: '7.5s', gracefulStop: '5s', tags: { measured: 'yes' }, executor: 'shared-iterations', vus: 4, iterations: 6, maxDuration: '86400s' },
  },
};
// http.js
thresholds['gauge_took{measured:yes}'] = [];
const expected0 = http.expectedStatuses({ min: 200, max: 299 }, { min: 300, max: 399 });
const expected2 = http.expectedStatuses(201, { min: 400, max: 499 });
const operations = [
  { upto: 1, run: () => {
    const v = {};
    v["page"] = random(1, 9);
    const r = request("GET", "http://127.0.0.1:1234" + "/api/list/" + encodeURIComponent(v["page"]), null, { headers: {  }, timeout: 5000, redirects: 0, responseType: 'none', tags: { name: "list" }, responseCallback: expected0 }, (status) => (status >= 200 && status <= 299) || (status >= 300 && status <= 399));
  } },
  { upto: 2, run: () => {
    const v = {};
    v["n"] = 1 + step();
    const r = request("POST", "http://127.0.0.1:1234" + "/api/add", "{\"n\":" + json(v["n"]) + "}", { headers: { "Content-Type": "application/json" }, timeout: 5000, redirects: 0, responseType: 'text', tags: { name: "add" }, responseCallback: expected2 }, (status) => status === 201 || (status >= 400 && status <= 499));
    { const found = (() => { try { return at(JSON.parse(r.body), ["id"]); } catch (_) { return undefined; } })(); if (found !== undefined) captured["id"] = found; }
  } },
];
export function p0() {
  iteration(0, 1000, own);
}
export function p1() {
  iteration(1, 2000, own);
  sleep(0.1);
}
export function p2() {
  iteration(2, 3000, own);
}
export function p3() {
  iteration(3, 1500, together);
}
export function p4() {
  iteration(4, undefined, own);
}
export function handleSummary(data) {
  return { "FOLDER/k6-summary.json": JSON.stringify(data) };
}
