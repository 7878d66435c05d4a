// Made by gauge from a workload.
import http from 'k6/http';
import grpc from 'k6/net/grpc';
import { randomSeed, sleep } from 'k6';
import exec from 'k6/execution';
import { Counter, Gauge, Trend } from 'k6/metrics';
import { SharedArray } from 'k6/data';
const scenarios = ['p0'];
const knownStatuses = [200, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
const seed = 0;
// begin.js
export const options = {
  discardResponseBodies: false,
  thresholds,
  setupTimeout: '1h',
  teardownTimeout: '1h',
  summaryTrendStats: ['avg', 'min', 'med', 'max', 'p(75)', 'p(90)', 'p(95)', 'p(99)', 'p(99.9)', 'count'],
  scenarios: {
    p0: { exec: 'p0', startTime: '0s', gracefulStop: '2s', tags: { measured: 'yes' }, executor: 'constant-vus', vus: 4, duration: '2s' },
  },
};
const address = "127.0.0.1:1234";
const descriptors = ["FOLDER/descriptors0.binpb"];
const messages = {"lab.Part":{"size":["number","one"],"theName":["text","one"],"the_name":["text","one"],"whole":["lab.Word","one"]},"lab.Word":{"count":["number","one"],"kind":["other","one"],"large":["number","one"],"more":["text","map"],"parts":["lab.Part","list"],"text":["text","one"]}};
// grpc.js
const message1 = JSON.parse("{\"count\":7,\"large\":\"9007199254740993\",\"text\":\"8\"}");
const operations = [
  { upto: 3, run: () => {
    const v = {};
    v["n"] = random(1, 9);
    const r = call("lab.Lab/One", () => fitted(parsed("{\"count\":" + json(v["n"]) + ",\"text\":" + json(v["n"]) + "}"), "lab.Word"), { metadata: { "x-tier": "gold " + String(v["n"]) }, timeout: 2000, tags: { name: "get" } }, () => false);
    { const found = at(r.message, ["large"]); if (found !== undefined) captured["last"] = found; }
    { const found = ((Object.entries(r.headers).find(([name]) => name.toLowerCase() === "x-tier") ?? [])[1] ?? [])[0]; if (found !== undefined) captured["tier"] = found; }
  } },
  { upto: 4, run: () => {
    const v = {};
    const r = call("lab.Lab/Store", () => message1, { metadata: {  }, timeout: 2000, tags: { name: "fixed" } }, (message) => message["success"] !== true);
  } },
];
export function p0() {
  iteration(0, 2000, weighted);
}
export function handleSummary(data) {
  return { "FOLDER/k6-summary.json": JSON.stringify(data) };
}
