import assert from 'node:assert/strict';
import { test } from 'node:test';
import { auth, messages } from '../src/app.js';

test('each app answers its own sample and not the other', async () => {
  const sample = await auth.request('/api/auth/sample');
  assert.equal(sample.status, 200);
  assert.equal(await sample.text(), '{"ok":true,"service":"auth","message":"hello from auth"}');
  assert.equal((await auth.request('/api/messages/sample')).status, 404);
  assert.equal((await messages.request('/api/messages/sample')).status, 200);
  assert.equal((await messages.request('/api/auth/sample')).status, 404);
});

test('a wrong method is told which ones there are', async () => {
  for (const path of ['/api/auth/sample', '/healthz']) {
    const answer = await auth.request(path, { method: 'POST', body: 'x' });
    assert.deepEqual([answer.status, answer.headers.get('allow')], [405, 'GET, HEAD'], path);
  }
});
