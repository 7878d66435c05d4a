// The last requests that were not served.

import { get } from './api.js';
import { count, el, faultTag, milliseconds, table, time } from './dom.js';

const code = (text) => el('code', {}, text);

/** What tells one request from others, to look for in logs and traces. */
function ids(error) {
  const known = [['request', error.request_id], ['trace', error.trace_id], ['tried', error.ai?.tried]].filter(([, id]) => id);
  return known.map(([name, id]) => el('div', {}, `${name} `, code(id)));
}

function where(error) {
  const parts = [error.route && `route ${error.route}`, error.upstream && `upstream ${error.upstream}`, error.target];
  return parts.filter(Boolean).join(', ') || '–';
}

/** Text with code between backticks. */
const prose = (text) => text.split('`').map((part, index) => (index % 2 === 1 ? code(part) : part));

function why(error, reasons) {
  const { title, advice } = reasons[error.reason] ?? {};
  return [code(error.reason), ` ${error.why ?? title ?? ''}`, advice && el('div', { class: 'quiet' }, prose(advice))].filter(Boolean);
}

function took(error) {
  const parts = [['last attempt', error.upstream_ms], ['queue', error.queue_ms], ['first token', error.ai?.first_token_ms]];
  const known = parts.filter(([, ms]) => ms !== undefined);
  return [el('div', {}, milliseconds(error.duration_ms)), ...known.map(([name, ms]) => el('div', { class: 'quiet' }, `${name} ${milliseconds(ms)}`))];
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
        ['Why', (error) => why(error, data.reasons)],
        ['Request', (error) => [error.method, ' ', code(`${error.host ?? ''}${error.path}`)]],
        ['Status', (error) => String(error.status), true],
        ['Where', where],
        ['Attempts', (error) => count(error.attempts ?? 0), true],
        ['Took', took, true],
        ['Client', (error) => error.client],
        ['Ids', ids],
      ],
      [...data.errors].sort((a, b) => (a.time < b.time ? 1 : a.time > b.time ? -1 : 0)),
      'Every request was served.',
    ),
  ],
};
