// The application and its routes.
import { isUtf8 } from 'node:buffer';
import express from 'express';
import { CREATED, Completion, parseChat } from './chat.js';
import { BODY_LIMIT_BYTES, Refusal, errorHandler, notFound, only } from './errors.js';
import { Load } from './load.js';
import { paced } from './paced.js';
import { defaults, forRequest } from './settings.js';
import { Draws } from './tokens.js';

const MODEL = 'node-dummy-v0';
const SERVICE = 'inference-node';
const STREAM_HEADERS = { 'Content-Type': 'text/event-stream; charset=utf-8', 'Cache-Control': 'no-cache' };

export function createApp(settings = defaults) {
  const load = new Load();
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  const json = express.json({ limit: BODY_LIMIT_BYTES, inflate: false, verify: refuseWhatIsNoJson });

  app
    .route('/infer')
    .post(json, async (req, res) => {
      const prompt = req.body?.prompt;
      if (typeof prompt !== 'string' || prompt === '' || !prompt.isWellFormed()) throw new Refusal(400, 'prompt required');
      const mine = forRequest(settings, req.headers);
      const latencyMs = mine.latencyMs ?? new Draws(mine.seed, prompt).latencyMs;
      const answer = JSON.stringify({ result: `echo: ${prompt}`, latency_ms: latencyMs, model: MODEL });
      load.admit(mine);
      await plain(res, load, [latencyMs, answer]);
    })
    .all(only('POST'));

  app
    .route('/v1/chat/completions')
    .post(json, async (req, res) => {
      const chat = parseChat(req.body);
      const mine = forRequest(settings, req.headers);
      const completion = new Completion(chat, mine);
      load.admit(mine);
      if (chat.stream) await paced(res, load, STREAM_HEADERS, completion.events());
      else await plain(res, load, completion.plain());
    })
    .all(only('POST'));

  const get = (path, answer) =>
    app
      .route(path)
      .get((req, res) => res.json(answer()))
      .all(only('GET'));
  get('/v1/models', () => ({ object: 'list', data: [{ id: MODEL, object: 'model', created: CREATED, owned_by: 'weir' }] }));
  get('/healthz', () => ({ ok: true, service: SERVICE }));
  get('/metrics', () => ({ ok: true, uptime_s: process.uptime(), service: SERVICE }));
  get('/sim', () => load);

  app.use(notFound);
  app.use(errorHandler);
  return app;
}

const plain = (res, load, [due, body]) =>
  paced(res, load, { 'Content-Type': 'application/json; charset=utf-8', 'Content-Length': Buffer.byteLength(body) }, [[due, body]]);

/** express.json would take nothing at all as {}, and replace what is not UTF-8. */
function refuseWhatIsNoJson(req, res, bytes) {
  if (bytes.length === 0 || !isUtf8(bytes)) throw new Error('no JSON');
}
