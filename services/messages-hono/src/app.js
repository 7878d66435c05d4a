// The two services of the gateway comparison. Each is an app of its own, so that a request that a gateway sends to the wrong one is a 404.
import { Hono } from 'hono';

function service(name, path, sample) {
  const app = new Hono();
  const notAllowed = (c) => c.json({ error: 'method not allowed' }, 405, { Allow: 'GET, HEAD' });
  app.get(path, (c) => c.json({ ok: true, service: name, message: sample })).all(notAllowed);
  app.get('/healthz', (c) => c.json({ ok: true, service: name })).all(notAllowed);
  app.notFound((c) => c.json({ error: 'not found' }, 404));
  return app;
}

export const auth = service('auth', '/api/auth/sample', 'hello from auth');
export const messages = service('messages', '/api/messages/sample', 'hello from messages');
