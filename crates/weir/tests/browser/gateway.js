// A gateway with everything that the console shows, and the service behind it.

import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const DEADLINE = 20_000;

/** Waits until the condition holds, and returns what it gave. */
export async function until(what, condition) {
  const end = Date.now() + DEADLINE;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`not within ${DEADLINE} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export async function startService() {
  const server = http.createServer((request, response) => {
    if (request.url.startsWith('/broken')) return request.socket.destroy();
    response.writeHead(request.url.startsWith('/missing') ? 404 : 200, { 'Cache-Control': 'max-age=60', 'Cache-Tag': 'items' });
    return response.end('hello');
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { port: server.address().port, stop: () => server.close() };
}

export const SECRETS = ['canary-redis', 'canary-provider-key', 'canary-header', 'canary-match', 'canary-pepper-of-keys', 'canary-jwt-secret', 'canary-url'];

/** Signs tokens that the gateway accepts. */
export const JWT_SECRET = 'canary-jwt-secret-0123456789abcdef0123456789';
/** An API key that it accepts. */
export const API_KEY = 'sk-browser-key-0123456789abcdef';

/** A page would run this if it were ever read as HTML. */
export const MARKUP = '<img src=x onerror=window.hacked=1>';

export function configuration(service, { admin = '127.0.0.1:0', console = '', quota = 3, more = '' } = {}) {
  return `listen:
  - 127.0.0.1:0
  - {bind: 127.0.0.1:0, tls: {certificates: [{cert: shop.pem, key: shop.key}]}}
admin: ${admin}
${console}
workers: 1
upstreams:
  shop: {targets: [http://127.0.0.1:${service}], health: {path: /health, interval: 1s}, breaker: {failures: 50%, of_last: 20}}
  reports: {targets: [http://127.0.0.1:1], health: {path: /health, interval: 1s}}
  openai: {targets: [http://127.0.0.1:${service}]}
limits:
  per_client: {key: client_ip, algorithm: fixed_window, quota: ${quota}, window: 1h}
  tokens: {unit: tokens, algorithm: fixed_window, quota: 100000, window: day, key: client_ip}
caches:
  pages: {mode: http, shared: true}
providers:
  openai: {api: openai, upstream: openai, keys: [sk-canary-provider-key-0123456789]}
models:
  assistant: {candidates: [{provider: openai, model: gpt-5}]}
auth:
  staff: {jwt: {issuer: me, audience: api, secret: ${JWT_SECRET}}}
  keys: {api_key: {store: {file: keys.yaml}}}
  far: {jwt: {issuer: 'http://127.0.0.1:1/', audience: api, jwks: {url: 'http://127.0.0.1:1/keys?token=canary-url'}}}
  asked: {forward: {upstream: reports, path: /check}}
routes:
  - {name: staff, match: {path: /staff/*}, upstream: shop, auth: [staff, keys], allow: {scopes: [orders]}}
  - {name: items, match: {path: /items/*}, upstream: shop, cache: pages}
  - {name: orders, match: {path: /orders/*, methods: [GET, POST]}, upstream: shop, headers: {request: {set: {X-Token: canary-header}}}}
  - {name: reports, match: {path: /reports/*}, upstream: reports}
  - {name: limited, match: {path: /limited}, upstream: shop, limits: [per_client]}
  - {name: markup, match: {path: /markup, headers: {X-Tag: "${MARKUP}", X-Api-Key: canary-match}}, upstream: shop}
  - {name: chat, match: {path: /v1/chat/completions, methods: [POST]}, ai: {models: [assistant]}, limits: [tokens]}
${more}`;
}

/** Starts a gateway; `configure` gets a folder in which a certificate lies. */
export async function startGateway(text) {
  const folder = mkdtempSync(join(tmpdir(), 'weir-console-'));
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '10',
    '-subj', '/CN=shop.example.test', '-addext', 'subjectAltName=DNS:shop.example.test', '-keyout', join(folder, 'shop.key'), '-out', join(folder, 'shop.pem')], { stdio: 'pipe' });
  const path = join(folder, 'weir.yaml');
  const write = (content) => writeFileSync(path, content.replaceAll(/shop\.(?:pem|key)|keys\.yaml/g, (name) => join(folder, name)));
  const digest = createHash('sha256').update(API_KEY).digest('hex');
  writeFileSync(join(folder, 'keys.yaml'), `- ${JSON.stringify({ id: 'k1', sha256: digest, consumer: MARKUP, scopes: ['orders'] })}\n`);
  write(text);
  const process_ = spawn(process.env.WEIR, ['--config', path], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  process_.stdout.on('data', (data) => (output += data));
  process_.stderr.on('data', (data) => (output += data));
  const ended = new Promise((resolve) => process_.on('exit', resolve));
  const line = (pattern) =>
    until(`${pattern} in: ${output}`, () => {
      if (process_.exitCode !== null) throw new Error(output);
      return output.match(pattern)?.[1];
    });
  const url = await line(/listening on (http:\S+)/);
  const console_ = await line(/console on (http:\S+)/);
  return {
    url,
    console: console_,
    admin: new URL(console_).origin,
    write,
    output: () => output,
    async stop() {
      process_.kill('SIGKILL');
      await ended;
      rmSync(folder, { recursive: true });
    },
  };
}
