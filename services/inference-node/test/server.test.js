import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const index = fileURLToPath(new URL('../src/index.js', import.meta.url));
const run = (env) => spawn(process.execPath, [index], { env: { ...process.env, PORT: '0', ...env } });

const services = [];

/** Starts the service as a user does, on a free port; it is stopped, and must stop well, at the end of the test. */
async function start(t, env = {}) {
  const service = run(env);
  services.push(service);
  const errors = text(service.stderr);
  t.after(async () => {
    service.kill('SIGTERM');
    const [code] = service.exitCode === null ? await once(service, 'exit') : [service.exitCode];
    assert.deepEqual({ code, errors: await errors }, { code: 0, errors: '' });
  });
  const [line] = await once(createInterface(service.stdout), 'line');
  assert.match(line, /^listening on http:/);
  return line.replace('listening on ', '');
}

const chat = (base, headers = {}, signal) =>
  fetch(`${base}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }], stream: true }),
    signal,
  });
const sim = async (base) => (await fetch(`${base}/sim`)).json();

test('streams that wait leave room for others and end with their clients', async (t) => {
  const base = await start(t);
  const leave = new AbortController();
  // The second token would come after the test.
  const slow = { 'X-Sim-Latency-Ms': '0', 'X-Sim-Token-Interval-Ms': '60000' };
  const streams = await Promise.all(Array.from({ length: 100 }, () => chat(base, slow, leave.signal)));
  assert.ok(streams.every(({ status }) => status === 200));
  assert.equal((await sim(base)).in_flight, 100);
  leave.abort();
  const deadline = Date.now() + 30_000;
  let now;
  do now = await sim(base);
  while (now.in_flight > 0 && Date.now() < deadline);
  assert.deepEqual(now, { in_flight: 0, admitted: 100, failed: 0, refused: 0, cancelled: 100 });
});

test('a stream without pauses stops for a client that does not read', async (t) => {
  const base = await start(t, { SIM_TOKENS: '100000', SIM_TOKEN_INTERVAL_MS: '0', SIM_LATENCY_MS: '0' });
  const response = await chat(base);
  // More than the sockets' buffers hold, so that it cannot have ended.
  assert.equal((await sim(base)).in_flight, 1);
  const body = await response.text();
  assert.equal(body.match(/^data: /gm).length, 100_003);
});

test('a body over the limit is refused in both forms', async (t) => {
  const base = await start(t);
  const post = (path) =>
    fetch(base + path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: ' '.repeat(10 * 1024 * 1024 + 1) });
  const message = 'body larger than 10485760 bytes';
  const infer = await post('/infer');
  assert.deepEqual([infer.status, await infer.json()], [413, { error: message }]);
  const completions = await post('/v1/chat/completions');
  assert.deepEqual([completions.status, (await completions.json()).error.message], [413, message]);
});

for (const [variable, value] of [['PORT', '65536'], ['PORT', 'http'], ['SIM_LATENCY_MS', 'fast'], ['SIM_SEED', '4294967296']]) {
  test(`${variable}=${value} stops the start`, async () => {
    const service = run({ [variable]: value });
    const [out, errors, [code]] = await Promise.all([text(service.stdout), text(service.stderr), once(service, 'exit')]);
    assert.deepEqual([code, out], [64, '']);
    assert.ok(errors.startsWith(`error: ${variable} must be a whole number from `), errors);
  });
}

// The timeout is below the 30 s after which a stop cuts off what still has not ended.
test('a stop closes what is unused at once, lets a stream end, and waits for no client', { timeout: 20_000 }, async (t) => {
  const base = await start(t);
  const service = services.at(-1);
  const to = { port: new URL(base).port, host: '127.0.0.1', allowHalfOpen: true };
  const unused = connect(to);
  await once(unused, 'connect');

  const client = connect(to); // never closes its side
  const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }], stream: true });
  client.write(
    'POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-Sim-Token-Interval-Ms: 50\r\n' +
      `Content-Length: ${body.length}\r\n\r\n${body}`,
  );
  let answer = '';
  client.setEncoding('utf8').on('data', (piece) => (answer += piece));
  const ended = once(client, 'end');
  await once(client, 'data');
  service.kill('SIGTERM');
  await once(unused.resume(), 'end');
  assert.equal(service.exitCode, null);
  await ended;
  assert.equal(answer.match(/^data: /gm).length, 35);
  assert.ok(answer.endsWith('data: [DONE]\n\n\r\n0\r\n\r\n'));
  if (service.exitCode === null) await once(service, 'exit');
  assert.equal(service.exitCode, 0);
  client.destroy();
});
