// What the configuration made: AI models, certificates, and the configuration itself.

import { get, post } from './api.js';
import { count, duration, el, facts, table, tag, time } from './dom.js';
import { act, done, output } from './forms.js';

const code = (text) => el('code', {}, text);

export const ai = {
  id: 'ai',
  title: 'AI',
  load: () => get('ai'),
  view(data) {
    if (data.models.length === 0) return el('p', { class: 'quiet' }, 'The configuration has no AI model.');
    const candidate = (one) => el('div', {}, code(`${one.provider}/${one.model}`), ` tier ${one.tier}, weight ${one.weight} `, one.is_out && tag('out', 'bad'));
    const key = (one) => el('div', {}, code(one.shown), ` weight ${one.weight} `, one.is_out && tag('refused', 'bad'));
    return [
      el('h2', {}, 'Models'),
      table(
        'Models',
        [
          ['Model', (model) => model.name],
          ['Served by', (model) => model.candidates.map(candidate)],
          ['Requests', (model) => count(model.requests), true],
          ['Failed', (model) => count(model.failed), true],
          ['Input tokens', (model) => count(model.input_tokens), true],
          ['Output tokens', (model) => count(model.output_tokens), true],
        ],
        data.models,
      ),
      el('h2', {}, 'Providers'),
      table(
        'Providers',
        [
          ['Provider', (provider) => provider.name],
          ['API', (provider) => provider.api],
          ['Upstream', (provider) => el('a', { href: '#/upstreams' }, provider.upstream)],
          ['Keys', (provider) => (provider.keys.length > 0 ? provider.keys.map(key) : 'none')],
        ],
        data.providers,
      ),
    ];
  },
};

const KINDS = { '+': 'added', '-': 'removed', ' ': null, '@': 'quiet' };
const DAY = 86_400;
function left(seconds) {
  if (seconds < 0) return tag('expired', 'bad');
  return tag(duration(seconds), seconds < 14 * DAY ? 'warn' : 'good');
}

export const tls = {
  id: 'tls',
  title: 'TLS',
  load: () => get('tls'),
  view: (data) => [
    el('p', { class: 'quiet' }, `Listens on ${data.listeners.join(', ')}.`),
    table(
      'Certificates',
      [
        ['Host', (one) => one.host],
        ['Expires', (one) => time(one.not_after_ms)],
        ['Left', (one) => left(one.seconds_left)],
      ],
      data.certificates,
      'No listener speaks TLS.',
    ),
  ],
};

export const config = {
  id: 'config',
  title: 'Configuration',
  load: () => get('config'),
  view: (data) => [
    el('h2', {}, 'Reloads'),
    data.reloads.length > 0
      ? el('ol', { class: 'events', reversed: true }, data.reloads.map(reload))
      : el('p', { class: 'quiet' }, 'None since the start.'),
    el('h2', {}, 'In force'),
    facts([
      ['File', data.file ?? 'environment variables'],
      ['Digest', code(data.digest)],
    ]),
    el('p', { class: 'quiet' }, 'With every default filled in; secrets are blanked.'),
    el('pre', { tabindex: 0, role: 'region', 'aria-label': 'Configuration in force' }, data.yaml),
  ],
  tools(canAct, refresh) {
    const said = output();
    const reloadNow = async () => {
      try {
        const { changes } = await post('reload');
        return done(changes.length > 0 ? `Put in force: ${changes.join('; ')}.` : 'Put in force; nothing changed.');
      } finally {
        refresh();
      }
    };
    const compare = async () => {
      const { lines, differs_in_secrets: differs } = await get('config/difference');
      if (lines === null) return el('p', {}, 'The file differs in too many lines to be shown.');
      if (lines.length === 0) return done(differs ? 'The file differs only in values that are blanked.' : 'The file says what is in force.');
      const line = ({ kind, text }) => el('span', { class: KINDS[kind] }, `${kind} ${text}\n`);
      return el('div', {}, el('p', {}, 'From what is in force (-) to the file (+):'), el('pre', { class: 'difference', tabindex: 0, role: 'region', 'aria-label': 'Difference' }, lines.map(line)));
    };
    const button = el('button', { type: 'button', class: 'main', disabled: !canAct, onclick: act(said, reloadNow) }, 'Reload');
    const comparing = el('button', { type: 'button', onclick: act(said, compare) }, 'Compare with the file');
    return el('section', { class: 'panel' }, el('p', {}, 'Reload reads the file again. A wrong one changes nothing.'), el('div', { class: 'actions' }, button, comparing), said);
  },
};

function reload(event) {
  const changes = event.changes.length > 0 ? event.changes.join('; ') : 'nothing changed';
  return el(
    'li',
    { class: 'panel' },
    el('p', {}, tag(event.error ? 'refused' : 'in force', event.error ? 'bad' : 'good'), ` ${time(event.at_ms)}, ${event.why}`),
    event.error ? el('pre', { class: 'failed' }, event.error) : el('span', { class: 'quiet' }, changes),
  );
}
