// Every error response, in its two forms: OpenAI's below /v1/, a short one elsewhere.
import { BadSetting } from './settings.js';

export const BODY_LIMIT_BYTES = 10 * 1024 * 1024;

/** A response that is not a success. */
export class Refusal extends Error {
  constructor(status, message, { type = 'invalid_request_error', param = null, code = null, headers = {} } = {}) {
    super(message);
    Object.assign(this, { status, type, param, code, headers });
  }
}

export const overloaded = () =>
  new Refusal(503, 'overloaded', { type: 'server_error', code: 'overloaded', headers: { 'Retry-After': '1' } });

export const notFound = () => {
  throw new Refusal(404, 'not found');
};

/** For what a path does not take; after its real methods. */
export const only = (method) => () => {
  throw new Refusal(405, 'method not allowed', { headers: { Allow: method } });
};

const isOpenAi = (req) => req.path.startsWith('/v1/');

/** Express knows an error handler by its four parameters. */
// eslint-disable-next-line no-unused-vars
export function errorHandler(error, req, res, next) {
  const { status, message, type, param, code, headers } = asRefusal(error, req);
  if (res.headersSent) return res.destroy();
  res.status(status).set(headers);
  res.json(isOpenAi(req) ? { error: { message, type, param, code } } : { error: message });
}

function asRefusal(error, req) {
  if (error instanceof Refusal) return error;
  if (error instanceof BadSetting) return new Refusal(400, error.message, { param: error.setting });
  if (error.type === 'entity.too.large') return new Refusal(413, `body larger than ${BODY_LIMIT_BYTES} bytes`);
  // What express.json could not read: no JSON, not UTF-8, compressed.
  if (error.status >= 400 && error.status < 500) {
    return new Refusal(400, isOpenAi(req) ? 'body: must be a JSON object' : 'prompt required');
  }
  console.error(error);
  return new Refusal(500, 'internal error', { type: 'server_error' });
}
