// What gauge writes for Kong, held against Kong's own converter: the same routes, methods and services.
//
//   node kong.mjs REPOSITORY
//
// Three differences are meant: gauge writes the format of Kong 3 (`~` before an expression), passes HEAD with GET, and gives each server its
// own service, where the converter makes all servers of all operations targets of one upstream and so sends bids to the users' service.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { generateFromSpec } from 'openapi-2-kong';
import YAML from 'yaml';

const root = process.argv[2];
const read = (file) => YAML.parse(readFileSync(`${root}/${file}`, 'utf8'));
const spec = read('services/auction/openapi.yaml');
// It refuses bearer tokens; the upstream checks them, and no gateway here is told to.
for (const operations of Object.values(spec.paths)) {
  for (const operation of Object.values(operations)) delete operation.security;
}
const converted = (await generateFromSpec(spec, 'kong-declarative-config', [])).documents[0];
const ours = read('crates/gauge/tests/golden/gateways/auction/kong/kong.yaml');

const expression = (path) => path.replace(/^~/, '').replace(/\[\^[^\]]+\]\+/g, '[^/]+');
const routes = (document) =>
  document.services
    .flatMap((service) => service.routes)
    .map((route) => `${route.methods.filter((method) => method !== 'HEAD').join(',')} ${route.paths.map(expression).join(',')}`)
    .sort();
assert.deepEqual(routes(ours), routes(converted));

const names = (document) => document.services.flatMap((service) => service.routes.map((route) => route.name.split('-').pop())).sort();
assert.deepEqual(names(ours), names(converted));

const theirs = new Set(converted.upstreams.flatMap((upstream) => upstream.targets.map((target) => target.target)));
assert.deepEqual(new Set(ours.services.map((service) => `${service.host}:${service.port}`)), theirs);

// Each route at the service of its own server.
for (const service of ours.services) {
  for (const route of service.routes) {
    const [item, operation] = Object.values(spec.paths)
      .flatMap((item) => Object.values(item).map((operation) => [item, operation]))
      .find(([, operation]) => operation.operationId === route.name);
    const [server] = operation.servers ?? item.servers ?? spec.servers;
    assert.equal(server.url, `http://${service.host}:${service.port}`, route.name);
  }
}
assert.ok(ours.services.every((service) => service.routes.every((route) => route.strip_path === false)));
console.log(`${routes(ours).length} routes, ${theirs.size} services: as openapi-2-kong has them`);
