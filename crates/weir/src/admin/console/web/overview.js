// What happens now, and what happened in the last ten minutes.

import { get, isCurrent } from './api.js';
import { chart } from './chart.js';
import { bytes, count, duration, el, facts, faultTag, milliseconds, percent, rate, table, time } from './dom.js';

const SLOTS = 600;

let rows = [];
let next = 0;

async function load() {
  const [live, overview] = await Promise.all([get(`live?from=${next}`), get('overview')]);
  if (!isCurrent(live.instance)) {
    [rows, next] = [[], 0];
    // The gateway was started anew: its session, and the secret of actions, are others.
    throw Object.assign(new Error('The gateway was restarted.'), { isRestart: true });
  }
  next = live.next;
  const named = live.rows.map((row) => Object.fromEntries(live.columns.map((name, index) => [name, row[index]])));
  rows = [...rows, ...named].slice(-SLOTS);
  return overview;
}

const tile = (name, value) => el('div', {}, el('dt', {}, name), el('dd', {}, value));

function view(data) {
  const now = rows.at(-1) ?? {};
  const times = rows.map((row) => row.time);
  // Young processes have their few values over the whole width.
  const slots = [60, 120, 300, SLOTS].find((number) => number >= rows.length);
  const values = (name) => rows.map((row) => row[name]);
  const lines = (names) => Object.entries(names).map(([name, column]) => ({ name, values: values(column) }));
  const draw = (title, names, format) => chart(title, lines(names), format, times, slots);
  const failed = now.requests > 0 ? now.status_5xx / now.requests : null;
  return [
    data.problems.length > 0
      ? el('ul', { class: 'problems', 'aria-label': 'Problems' }, data.problems.map(({ page, text }) => el('li', {}, el('a', { href: `#/${page}` }, text))))
      : el('p', { class: 'fine' }, 'No problem is known.'),
    el(
      'dl',
      { class: 'tiles' },
      tile('Requests/s', rate(now.requests)),
      tile('Status 5xx', percent(failed)),
      tile('Latency p99', milliseconds(now.p99)),
      tile('In flight', count(now.in_flight)),
      tile('Connections', count(now.connections)),
      tile('Cache hit ratio', percent(now.hit_ratio)),
      tile('CPU cores', rate(now.cpu)),
      tile('Memory', bytes(now.memory)),
    ),
    el(
      'div',
      { class: 'charts' },
      draw('Requests/s', { all: 'requests', '4xx': 'status_4xx', '5xx': 'status_5xx' }, rate),
      draw('Latency', { p50: 'p50', p95: 'p95', p99: 'p99' }, milliseconds),
      draw('Errors/s by fault', { client: 'errors_client', upstream: 'errors_upstream', gateway: 'errors_gateway' }, rate),
      draw('Load', { 'in flight': 'in_flight', connections: 'connections' }, count),
    ),
    el('h2', {}, 'Errors since the start'),
    table(
      'Errors since the start',
      [
        ['Reason', (error) => el('code', {}, error.reason)],
        ['Meaning', (error) => error.title],
        ['Fault', (error) => faultTag(error.fault)],
        ['Requests', (error) => count(error.count), true],
      ],
      [...data.errors].sort((a, b) => b.count - a.count),
      'Every request was served.',
    ),
    el('h2', {}, 'Process'),
    el(
      'div',
      { class: 'panel' },
      facts([
        ['Listens on', data.listeners.join(', ')],
        ['Configuration', data.file ?? 'environment variables'],
        ['Digest', el('code', {}, data.digest)],
        data.last_reload && ['Last reload', `${time(data.last_reload.at_ms)}, ${data.last_reload.refused ? 'refused' : 'put in force'}`],
        ['Reloads', `${count(data.reloads.applied)} put in force, ${count(data.reloads.refused)} refused`],
        ['Workers', count(data.workers)],
        ['Runs for', duration((Date.now() - data.started_ms) / 1000)],
      ]),
    ),
  ];
}

export const overview = { id: 'overview', title: 'Overview', seconds: 1, load, view };
