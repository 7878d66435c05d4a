import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const index = fileURLToPath(new URL('../src/index.js', import.meta.url));
const run = (env) => spawn(process.execPath, [index], { env: { ...process.env, AUTH_PORT: '0', MESSAGES_PORT: '0', ...env } });

test('two ports are served, and a stop leaves nothing open', async () => {
  const program = run();
  const base = {};
  for await (const line of createInterface(program.stdout)) {
    const [, address, name] = /^listening on (\S+) \((\w+)\)$/.exec(line);
    base[name] = address;
    if (base.auth && base.messages) break;
  }
  for (const name of ['auth', 'messages']) {
    const health = await fetch(`${base[name]}/healthz`); // its connection stays open
    assert.deepEqual(await health.json(), { ok: true, service: name });
  }
  const unused = connect(new URL(base.auth).port, '127.0.0.1');
  await once(unused, 'connect');
  program.kill('SIGTERM');
  assert.deepEqual(await once(program, 'exit'), [0, null]);
});

for (const variable of ['AUTH_PORT', 'MESSAGES_PORT']) {
  test(`a bad ${variable} stops the start`, async () => {
    const program = run({ [variable]: '70000' });
    const [errors, [code]] = await Promise.all([text(program.stderr), once(program, 'exit')]);
    assert.deepEqual([code, errors], [64, `error: ${variable} must be a whole number from 0 to 65535\n`]);
  });
}
