// The last requests that were not served.

import { get } from './api.js';
import { count, el, faultTag, milliseconds, table, time } from './dom.js';

const code = (text) => el('code', {}, text);

/** What tells one request from others, to look for in logs and traces. */
function ids(error) {
  const known = [['request', error.request_id], ['trace', error.trace_id]].filter(([, id]) => id);
  return known.map(([name, id]) => el('div', {}, `${name} `, code(id)));
}

function where(error) {
  const parts = [error.route && `route ${error.route}`, error.upstream && `upstream ${error.upstream}`, error.target];
  return parts.filter(Boolean).join(', ') || '–';
}

function why(error, titles) {
  return [code(error.reason), ` ${titles[error.reason] ?? ''}`, error.detail && `: ${error.detail}`].filter(Boolean);
}

export const errors = {
  id: 'errors',
  title: 'Errors',
  load: () => get('errors'),
  view: (data) => [
    el('p', { class: 'quiet' }, 'The last 100 requests of each fault that were not served; at most ten a second of each worker.'),
    table(
      'Errors',
      [
        ['Time', (error) => time(Date.parse(error.time))],
        ['Fault', (error) => faultTag(error.fault)],
        ['Why', (error) => why(error, data.titles)],
        ['Request', (error) => [error.method, ' ', code(`${error.host ?? ''}${error.path}`)]],
        ['Status', (error) => String(error.status), true],
        ['Where', where],
        ['Attempts', (error) => count(error.attempts ?? 0), true],
        ['Took', (error) => milliseconds(error.duration_ms), true],
        ['Client', (error) => error.client],
        ['Ids', ids],
      ],
      [...data.errors].sort((a, b) => (a.time < b.time ? 1 : a.time > b.time ? -1 : 0)),
      'Every request was served.',
    ),
  ],
};
