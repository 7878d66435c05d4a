// The console's data and actions. Everything is of this origin.

/** The gateway's error response. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let session = null;

async function send(path, options) {
  const response = await fetch(`api/${path}`, { credentials: 'same-origin', redirect: 'error', ...options });
  const body = response.status === 204 ? null : await response.json();
  if (!response.ok) throw new Refused(response.status, body?.detail ?? `Status ${response.status}`);
  return body;
}

/** Whether there is a login, the secret of actions, and the version. */
export async function loadSession() {
  session = await send('session');
  return session;
}

/** Whether the page still belongs to the process that responds. */
export const isCurrent = (instance) => session?.instance === instance;

export const get = (path) => send(path);

export const post = (path, body = {}) =>
  send(path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Weir-CSRF': session?.csrf ?? '' },
    body: JSON.stringify(body),
  });
