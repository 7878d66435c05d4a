// Authenticators, and what they make of a token.

import { get, post } from './api.js';
import { count, duration, el, facts, table, tag, time } from './dom.js';
import { act, area, output, plural } from './forms.js';

const code = (text) => el('code', {}, text);
const list = (items) => items.map((item) => el('div', {}, item));
const GOOD = { ok: 'good', failed_open: 'warn', unavailable: 'bad' };

function keyTable(policy) {
  const { count: all, listed } = policy.keys;
  return [
    el('p', { class: 'quiet' }, `${plural(all, 'key')}${listed.length < all ? `; the ${count(listed.length)} that end first` : ''}.`),
    table(
      `Keys of ${policy.name}`,
      [
        ['Id', (key) => key.id],
        ['Consumer', (key) => key.consumer],
        ['State', (key) => tag(key.state, key.state === 'valid' ? 'good' : 'bad')],
        ['Ends', (key) => (key.expires === null ? 'never' : time(key.expires * 1000))],
      ],
      listed,
      'There is no key.',
    ),
  ];
}

function fetches({ age, usable, ok, failed, last_failure: failure }) {
  return [
    ['Keys', [usable ? tag('usable', 'good') : tag('not usable', 'bad'), age === null ? ' never fetched' : ` fetched ${duration(age)} ago`, `; ${count(ok)} fetches, ${count(failed)} failed`]],
    failure && ['Last failure', `${duration(failure.ago)} ago: ${failure.error}`],
  ];
}

function policyView(policy, counts = {}) {
  const outcomes = Object.entries(counts);
  const { routes } = policy;
  const shown = routes.names.join(', ') + (routes.count > routes.names.length ? ` and ${routes.count - routes.names.length} more` : '');
  return [
    el('h2', {}, policy.name),
    facts([
      ['Method', policy.method],
      ['Source', code(policy.source)],
      policy.places && ['Read from', policy.places.join(', then ')],
      policy.expects && ['Expects', policy.expects],
      policy.users !== undefined && ['Users', count(policy.users)],
      policy.fails_open !== undefined && ['Without a response', policy.fails_open ? 'requests pass' : 'requests are refused'],
      policy.cached_seconds && ['Verdicts cached', `${policy.cached_seconds} s`],
      policy.lookups && ['Look-ups', Object.entries(policy.lookups).map(([name, number]) => `${name} ${count(number)}`).join(', ')],
      ...(policy.fetches ? fetches(policy.fetches) : []),
      ['Outcomes', outcomes.length > 0 ? outcomes.map(([name, number]) => [tag(`${name.replaceAll('_', ' ')} ${count(number)}`, GOOD[name]), ' ']) : 'no request yet'],
      ['Routes', shown || 'none'],
    ]),
    policy.key_set &&
      table(
        `Key set of ${policy.name}`,
        [
          ['Key (kid)', (key) => code(key.kid ?? 'without kid')],
          ['Algorithms', (key) => key.algorithms.join(', ') || '–'],
          ['State', (key) => (key.problem ? [tag('left out', 'warn'), ` ${key.problem}`] : tag('usable', 'good'))],
        ],
        policy.key_set,
        'The set is empty.',
      ),
    policy.keys && keyTable(policy),
  ];
}

const verdict = (passes) => (passes === null ? tag('not decided') : tag(passes ? 'passes' : 'refused', passes ? 'good' : 'bad'));

function identity(who) {
  if (!who) return '–';
  const parts = [['consumer', who.consumer], ['tier', who.tier], ['key', who.key], ['scopes', who.scopes.join(' ')]];
  return list(parts.filter(([, value]) => value).map(([name, value]) => `${name} ${value}`));
}

const TIMES = ['exp', 'nbf', 'iat'];
function part(title, members) {
  if (!members) return [el('h3', {}, title), el('p', { class: 'failed' }, 'It cannot be read: not JSON, or a name occurs twice.')];
  const rows = Object.entries(members).map(([name, value]) => {
    const moment = TIMES.includes(name) && Number.isFinite(value) && Math.abs(value) < 1e11 ? ` ${time(value * 1000)}` : '';
    return [name, code(typeof value === 'string' ? value : JSON.stringify(value)), moment];
  });
  return [el('h3', {}, title), facts(rows)];
}

function judged({ is_jwt: isJwt, header, claims, policies, routes }) {
  return el(
    'div',
    {},
    isJwt ? [...part('Header', header), ...part('Claims, whether or not they hold', claims)] : el('p', {}, 'It is not a JSON Web Token.'),
    el('h3', {}, 'Authenticators'),
    table(
      'What each authenticator says',
      [
        ['Authenticator', (one) => one.name],
        ['Token', (one) => verdict(one.passes)],
        ['Why', (one) => [one.why, one.passes === false && one.expects && el('div', { class: 'quiet' }, `expects ${one.expects}`)].filter(Boolean)],
        ['Sender', (one) => identity(one.who)],
      ],
      policies,
      'The configuration has no authenticator.',
    ),
    routes.length > 0 && el('h3', {}, 'Routes that it opens'),
    routes.length > 0 && table('Routes that it opens', [['Route', (one) => one.route], ['Request', (one) => verdict(one.passes)], ['Why', (one) => one.why ?? '']], routes),
  );
}

export const auth = {
  id: 'auth',
  title: 'Authentication',
  changes: false,
  load: () => get('auth'),
  seconds: 5,
  view: (data) =>
    data.policies?.length > 0 ? data.policies.map((policy) => policyView(policy, data.counts[policy.name])) : el('p', { class: 'quiet' }, 'The configuration has no authenticator.'),
  tools() {
    const said = output();
    const form = el('form', {});
    const judge = async () => judged(await post('auth/token', { token: form.elements.token.value }));
    form.append(area('Token or API key', 'token', 'eyJhbGciOi…'), el('button', { class: 'main' }, 'Check'));
    form.elements.token.required = true;
    form.addEventListener('submit', act(said, judge));
    return el('section', { class: 'panel' }, el('h2', {}, 'How a token is treated'), el('p', { class: 'quiet' }, 'It is neither logged nor stored, and no service is called.'), form, said);
  },
};
