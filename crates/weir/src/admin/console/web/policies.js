// Limits and caches.

import { get, post } from './api.js';
import { bytes, count, duration, el, facts, percent, rate, table, tag } from './dom.js';
import { act, area, done, field, output, plural } from './forms.js';

const code = (text) => el('code', {}, text);

/** Requests have no unit; budgets are of tokens or money. */
const amount = ({ unit }, value) => (unit ? `${(unit === 'money' ? rate : count)(value)} ${unit.replace('_', ' ')}` : count(value));

export const limits = {
  id: 'limits',
  title: 'Limits',
  load: () => get('limits'),
  view: (data) => [
    data.store && el('p', { class: 'quiet' }, `Store of limits with store: redis: ${data.store.servers}, `, tag(data.store.state, data.store.state === 'degraded' ? 'bad' : '')),
    table(
      'Limits',
      [
        ['Limit', (limit) => limit.name],
        ['Key', (limit) => limit.key.join(' + ')],
        ['Limit', (limit) => [amount(limit, limit.limit), limit.window_seconds === null ? '' : ` per ${duration(limit.window_seconds)}`], true],
        ['Algorithm', (limit) => limit.algorithm.replace('_', ' ')],
        ['Store', (limit) => [limit.store, limit.enforced ? '' : [' ', tag('not enforced', 'warn')]]],
        ['Allowed', (limit) => count(data.counts[limit.name]?.allowed), true],
        ['Refused', (limit) => count(data.counts[limit.name]?.refused), true],
        ['Keys', (limit) => limit.max_keys === undefined ? count(limit.keys) : `${count(limit.keys)} of ${count(limit.max_keys)}`, true],
      ],
      data.limits,
      'The configuration has no limit.',
    ),
    el('h2', {}, 'Keys that are refused most'),
    table(
      'Keys that are refused most',
      [
        ['Key', (one) => [one.key, ' ', code(one.hash)]],
        ['Limit', (one) => one.limit],
        ['Refused', (one) => (one.error > 0 ? `${count(one.count - one.error)} to ${count(one.count)}` : count(one.count)), true],
      ],
      data.refused,
      'No key was refused in the last minutes.',
    ),
    el('p', { class: 'quiet' }, 'Of the last 5 to 10 minutes. Values of fields and of the query are not shown; the hash tells them apart, and the look-up above shows the hash of a value.'),
  ],
  tools(canAct) {
    const said = output();
    const form = el('form', {});
    const question = () => ({ limit: form.elements.limit.value.trim(), key: form.elements.key.value.split(',').map((part) => part.trim()) });
    const look = async () => {
      const { limit, key } = question();
      const query = new URLSearchParams([...key.map((part) => ['key', part]), ...(limit ? [['limit', limit]] : [])]);
      const found = await get(`limits?${query.toString().replaceAll('+', '%20')}`);
      return table(
        'What the key has left',
        [
          ['Limit', (one) => one.name],
          ['Hash', (one) => (one.hash ? code(one.hash) : '–')],
          ['Left', (one) => (one.state ? amount(one, one.state.remaining) : '–'), true],
          ['Next request', (one) => (one.state ? tag(one.state.allowed ? 'allowed' : 'refused', one.state.allowed ? 'good' : 'bad') : (one.note ?? 'the key is not of this limit'))],
        ],
        found.limits,
        'There is no limit.',
      );
    };
    const reset = async () => {
      const { reset: names } = await post('limits/reset', question());
      return done(names.length > 0 ? `Forgotten: ${names.join(', ')}.` : 'Nothing was charged to this key.');
    };
    form.append(
      field('Key (a part for each part of the limit’s key, with commas)', { name: 'key', required: true, placeholder: '203.0.113.9' }, true),
      field('Limit (empty: all)', { name: 'limit' }),
      el('button', { class: 'main' }, 'Look up'),
      el('button', { type: 'button', disabled: !canAct, onclick: (event) => form.reportValidity() && act(said, reset)(event) }, 'Reset the key'),
    );
    form.addEventListener('submit', act(said, look));
    return el('section', { class: 'panel' }, el('h2', {}, 'What a key has left'), form, said);
  },
};

/** What a cache has for a request. */
function lookUp() {
  const said = output();
  const form = el('form', {});
  const look = async () => {
    const { method, url, fields, consumer } = form.elements;
    const lines = fields.value.split('\n').filter((line) => line.trim());
    return found(await post('caches/look-up', { method: method.value, url: url.value, fields: lines, consumer: consumer.value }));
  };
  form.append(
    el('label', {}, 'Method', el('select', { name: 'method' }, el('option', {}, 'GET'), el('option', {}, 'HEAD'))),
    field('URL, as clients request it', { name: 'url', required: true, placeholder: 'http://api.example.com/items/7' }, true),
    field('Consumer', { name: 'consumer' }),
    area('Header fields, one a line', 'fields', 'Accept-Language: en'),
    el('button', { class: 'main' }, 'Look up response'),
  );
  form.addEventListener('submit', act(said, look));
  return el('section', { class: 'panel' }, el('h2', {}, 'What is stored'), form, said);
}

const fresh = (one) => {
  if (one.must_validate) return tag('must be validated', 'warn');
  const left = duration(Math.abs(one.fresh_for));
  return one.fresh ? tag(`fresh for ${left}`, 'good') : tag(`stale since ${left}`, 'warn');
};

function found({ route, cache, url, class: method, key, note, stored, variants }) {
  return el(
    'div',
    {},
    facts([
      route && ['Route', route],
      cache && ['Cache', cache],
      key && ['Key', [code(key), ' ', code(`${method} ${url}`)]],
      note && ['Stored', note],
      stored && ['Stored', [`Status ${stored.status} in ${stored.level}: it ${stored.use}.`]],
      stored && ['Freshness', [fresh(stored), ` age ${duration(stored.age)} of ${duration(stored.lifetime)} (${stored.source})`]],
      stored && ['Varies by', stored.varies ?? 'nothing'],
      stored && ['Tags', stored.tags.join(', ') || 'none'],
    ]),
    variants?.length > 0 && el('h3', {}, 'Variants of the URL in memory'),
    variants?.length > 0 &&
      table(
        'Variants of the URL in memory',
        [
          ['Status', (one) => String(one.status)],
          ['Method', (one) => one.class],
          ['Varies by', (one) => one.varies ?? '–'],
          ['Freshness', fresh],
          ['Age', (one) => duration(one.age), true],
          ['Tags', (one) => one.tags.join(', ') || '–'],
          ['Size', (one) => bytes(one.bytes), true],
        ],
        variants,
      ),
  );
}

export const caches = {
  id: 'caches',
  title: 'Caches',
  load: () => get('caches'),
  view(data) {
    if (!data.totals) return el('p', { class: 'quiet' }, 'The configuration has no cache.');
    const rows = Object.entries(data.counts).map(([name, counts]) => ({ name, ...counts }));
    const columns = ['hits', 'misses', 'stale', 'coalesced', 'bypassed', 'stored', 'uncacheable', 'store_errors'];
    const title = (name) => name[0].toUpperCase() + name.slice(1).replace('_', ' ');
    return [
      el('p', { class: 'quiet' }, `${plural(data.totals.entries, 'response')} in memory, ${bytes(data.totals.bytes)}, ${plural(data.totals.evictions, 'eviction')}.`),
      table(
        'Caches',
        [
          ['Cache', (row) => row.name],
          ['Hit ratio', (row) => percent(row.hits / (row.hits + row.misses)), true],
          ...columns.map((name) => [title(name), (row) => count(row[name]), true]),
        ],
        rows,
        'No cache was used yet.',
      ),
    ];
  },
  tools(canAct) {
    const said = output();
    const form = el('form', {});
    const what = el('select', { name: 'what' }, ...['url', 'prefix', 'tag', 'all'].map((value) => el('option', { value }, { url: 'One URL', prefix: 'URLs with a prefix', tag: 'A tag', all: 'Everything' }[value])));
    const value = el('input', { name: 'value', required: true, placeholder: 'http://api.example.com/items/7' });
    what.addEventListener('change', () => {
      value.disabled = what.value === 'all';
      value.placeholder = { url: 'http://api.example.com/items/7', prefix: 'http://api.example.com/items/', tag: 'items', all: '' }[what.value];
    });
    const purge = async () => {
      const { cache, soft } = form.elements;
      if (what.value === 'all' && !window.confirm('Purge everything?')) return el('p', {}, 'Nothing was purged.');
      const { purged } = await post('purge', {
        [what.value]: what.value === 'all' ? true : value.value.trim(),
        ...(cache.value.trim() && { cache: cache.value.trim() }),
        soft: soft.checked,
      });
      return done(`${plural(purged, 'response')} ${soft.checked ? 'marked as stale' : 'purged'}.`);
    };
    form.append(
      el('label', {}, 'What', what),
      el('label', { class: 'wide' }, 'URL, prefix or tag', value),
      field('Cache (empty: all)', { name: 'cache' }),
      el('label', { class: 'check' }, el('input', { type: 'checkbox', name: 'soft' }), 'Only mark as stale'),
      el('button', { class: 'main', disabled: !canAct }, 'Purge'),
    );
    form.addEventListener('submit', act(said, purge));
    return el('div', { class: 'panels' }, lookUp(), el('section', { class: 'panel' }, el('h2', {}, 'Purge'), form, said));
  },
};
