// Routes, and which of them takes a request.

import { get, post } from './api.js';
import { bytes, count, el, facts, milliseconds, rate, table, tag } from './dom.js';
import { act, area, field, output } from './forms.js';

const code = (text) => el('code', {}, text);

/** The quantile in milliseconds of what was added between two lists of bucket counts. */
function quantile(bounds, now, before, share) {
  const added = now.map((value, index) => value - (before?.[index] ?? 0));
  const rank = share * added.reduce((sum, value) => sum + value, 0);
  let below = 0;
  for (const [index, value] of added.entries()) {
    const lower = bounds[index - 1] ?? 0;
    if (value > 0 && below + value >= rank) return lower + ((bounds[index] ?? lower) - lower) * ((rank - below) / value);
    below += value;
  }
  return null;
}

function routeRow(route, before, data, seconds) {
  const { statuses, durations } = route.traffic ?? { statuses: [0, 0, 0, 0, 0], durations: [] };
  const sum = (list) => (list ?? []).reduce((all, value) => all + value, 0);
  const old = before?.traffic;
  return {
    ...route,
    requests: sum(statuses),
    failed: statuses[4],
    rate: seconds ? (sum(statuses) - sum(old?.statuses)) / seconds : null,
    // Of the last seconds where there was traffic, else since the start.
    p50: quantile(data.bounds_ms, durations, old?.durations, 0.5) ?? quantile(data.bounds_ms, durations, null, 0.5),
    p99: quantile(data.bounds_ms, durations, old?.durations, 0.99) ?? quantile(data.bounds_ms, durations, null, 0.99),
  };
}

export const routes = {
  id: 'routes',
  title: 'Routes',
  changes: false,
  load: () => get('routes'),
  view(data, before, seconds) {
    const old = new Map(before?.routes.map((route) => [route.name, route]));
    const unmatched = { name: '–', path: 'no route matches', to: '404 or 405', traffic: data.unmatched };
    const rows = data.routes.map((route) => routeRow(route, old.get(route.name), data, seconds));
    if (data.unmatched) rows.push(routeRow(unmatched, before && { traffic: before.unmatched }, data, seconds));
    const matcher = (row) => [
      row.methods?.length > 0 ? `${row.methods.join(', ')} ` : '',
      code(`${row.host ?? ''}${row.path}`),
      Object.entries(row.headers ?? {}).map(([name, value]) => [' ', code(`${name}: ${value}`)]),
    ];
    return table(
      'Routes',
      [
        ['Route', (row) => row.name],
        ['Matches', matcher],
        ['Goes to', (row) => row.to],
        ['Requests/s', (row) => rate(row.rate), true],
        ['p50', (row) => milliseconds(row.p50), true],
        ['p99', (row) => milliseconds(row.p99), true],
        ['Requests', (row) => count(row.requests), true],
        ['5xx', (row) => count(row.failed), true],
      ],
      rows,
      'There is no route.',
    );
  },
  tools() {
    const said = output();
    const form = el('form', {});
    const test = async () => {
      const { method, host, path, fields } = form.elements;
      const lines = fields.value.split('\n').filter((line) => line.trim());
      return outcome(await post('routes/test', { method: method.value, host: host.value, path: path.value, fields: lines }));
    };
    form.append(
      field('Method', { name: 'method', value: 'GET', required: true }),
      field('Host (empty: any)', { name: 'host', placeholder: 'api.example.com' }),
      field('Path, with query', { name: 'path', required: true, placeholder: '/items/7' }, true),
      area('Header fields, one a line', 'fields', 'X-Tier: gold'),
      el('button', { class: 'main' }, 'Test'),
    );
    form.addEventListener('submit', act(said, test));
    return el('section', { class: 'panel' }, el('h2', {}, 'Which route takes a request'), el('p', { class: 'quiet' }, 'Nothing is sent to an upstream.'), form, said);
  },
};

const list = (items) => items.map((item) => el('div', {}, item));

/** Who may send requests: any of the alternatives, each with all of its members. */
function access({ auth, allow }) {
  const names = auth.map((all) => all.join(' and ')).join(', or ');
  return list([names || 'none', ...allow]);
}

function destination({ forwards, location, to }) {
  if (location !== null) return code(location);
  if (forwards.length === 0) return to;
  return forwards.map(({ upstream, percent, target, sources }) =>
    el('div', {}, el('a', { href: '#/upstreams' }, upstream), percent === null ? '' : ` (${percent} %)`, ' as ', code(target), sources.map((source) => ` targets of ${source}`)),
  );
}

function outcome({ route, refusal, matched_path: path, is_preflight: preflight, others }) {
  return el(
    'div',
    {},
    route
      ? facts([
          ['Route', el('b', {}, route.name), preflight && ' (preflight)'],
          ['Matches', list(route.because)],
          path !== null && ['Path', code(path)],
          ['Goes to', destination(route)],
          ['Authentication', access(route)],
          ['Limits', route.limits.join(', ') || 'none'],
          ['Cache', route.cache ?? 'none'],
          route.body_bytes !== null && ['Body', `up to ${bytes(route.body_bytes)}`],
          route.checked && ['Checked by', route.checked],
        ])
      : el('p', { class: 'failed' }, tag(refusal.status, 'bad'), ` ${refusal.why}`, path !== null && [', as ', code(path)]),
    others.length > 0 && el('h3', {}, 'Other routes of this path'),
    others.length > 0 && table('Other routes of this path', [['Not', (other) => other.route], ['Because', (other) => other.why]], others),
  );
}
