// The pages: `load` gets the data, `view` makes what follows it, `tools` makes forms, once; `changes` is false where they change nothing.

import { get, post } from './api.js';
import { count, duration, el, milliseconds, table, tag } from './dom.js';
import { act, done, output } from './forms.js';
import { auth } from './auth.js';
import { overview } from './overview.js';
import { caches, limits } from './policies.js';
import { errors } from './errors.js';
import { routes } from './routes.js';
import { ai, config, tls } from './settings.js';

const code = (text) => el('code', {}, text);

const STATES = { ready: 'good', full: 'warn', drained: 'warn', unhealthy: 'bad', breaker_open: 'bad', ejected: 'warn' };

function lastProbe(target) {
  if (!target.last_probe) return 'not checked';
  const { ok, status, error, ago_ms: ago } = target.last_probe;
  return `${ok ? `status ${status}` : error}, ${duration(ago / 1000)} ago`;
}

function details(target) {
  const failures = Object.entries(target.failures).filter(([, number]) => number > 0);
  const ejected = target.ejected_for_ms === null ? null : `ejected for ${duration(target.ejected_for_ms / 1000)} more`;
  const drained = target.drained_ms === null ? null : `drained ${duration(target.drained_ms / 1000)} ago`;
  const breaker = target.breaker && `breaker ${target.breaker}`;
  return [drained, ejected, breaker, ...failures.map(([kind, number]) => `${kind} ${count(number)}`)].filter(Boolean).join(', ') || '–';
}

/** All targets of a service have its name as their authority: the address tells them apart. */
function name(target) {
  const shown = target.source && !target.source.startsWith('file:') ? target.address : (target.authority ?? target.address);
  return [code(shown), target.tier > 0 && ` backup ${target.tier}`].filter(Boolean);
}

function sourceView({ source, targets, error }) {
  const state = error === null ? `names ${count(targets)} targets.` : `cannot be read, its last ${count(targets)} targets stay: ${error}`;
  return el('p', error === null ? { class: 'quiet' } : {}, [code(source), ` ${state}`]);
}

/** Where the last action's outcome goes; none where nobody may act. */
let said = null;

/** What may be done to a target in its state. Attributes say which target it is: they follow what is shown. */
function actions(upstream, target) {
  const names = [target.drained_ms === null ? 'drain' : 'undrain'];
  names.push(target.ejected_for_ms === null ? 'eject' : 'readmit');
  if (target.breaker && target.breaker !== 'closed') names.push('reset-breaker');
  const button = (action) =>
    el(
      'button',
      { type: 'button', 'data-upstream': upstream.name, 'data-target': target.address, 'data-action': action, 'aria-label': `${LABELS[action]} ${target.address}` },
      LABELS[action],
    );
  return el('div', { class: 'actions' }, names.map(button));
}

const LABELS = { drain: 'Drain', undrain: 'Undrain', eject: 'Eject for 1 min', readmit: 'Readmit', 'reset-breaker': 'Reset breaker' };

const perform = (refresh) => (event) => {
  const { upstream, target, action } = event.target.dataset ?? {};
  if (!action) return;
  act(said, async () => {
    const question = `${LABELS[action]}: ${target} of ${upstream}?`;
    if (action === 'drain' && !window.confirm(`${question} It gets no new requests until somebody undrains it or this process ends.`)) {
      return el('p', {}, 'Nothing was done.');
    }
    await post('targets', { upstream, target, action, ...(action === 'eject' && { seconds: 60 }) });
    refresh();
    return done(`${LABELS[action]}: ${target} of ${upstream}.`);
  })(event);
};

function upstreamView(upstream, counts = {}) {
  const { queue } = upstream;
  const flight = (target) => count(target.in_flight) + (target.max_in_flight === null ? '' : ` of ${count(target.max_in_flight)}`);
  return [
    el('h2', {}, upstream.name),
    table(
      `Targets of ${upstream.name}`,
      [
        ['Target', name],
        ['State', (target) => tag(target.state.replace('_', ' '), STATES[target.state])],
        ['Last health check', lastProbe],
        ['In flight', flight, true],
        ['Latency (EWMA)', (target) => milliseconds(target.ewma_ms), true],
        ['Requests', (target) => count(target.requests), true],
        ['Failures', details],
        ...(said ? [['Actions', (target) => actions(upstream, target)]] : []),
      ],
      upstream.targets,
      'No target has an address.',
    ),
    ...upstream.sources.map(sourceView),
    el('p', { class: 'quiet' }, [
      `Connections: ${count(counts.opened)} opened, ${count(counts.reused)} reused. `,
      `Retries: ${count(upstream.retries)}, ${count(upstream.retries_over_budget)} refused by the budget. `,
      queue && `Queue: ${count(queue.waiting)} of ${count(queue.size)} waiting, ${count(queue.refused)} refused, ${count(queue.timed_out)} timed out.`,
    ]),
  ];
}

const upstreams = {
  id: 'upstreams',
  title: 'Upstreams',
  load: () => get('upstreams'),
  view: (data) =>
    data.upstreams.length > 0
      ? el('div', { class: 'targets' }, data.upstreams.map((upstream) => upstreamView(upstream, data.counts[upstream.name])))
      : el('p', { class: 'quiet' }, 'The configuration has no upstream.'),
  tools(canAct, refresh) {
    said = canAct ? output() : null;
    document.getElementById('main').onclick = canAct ? perform(refresh) : null;
    return said ?? el('div', {});
  },
};

export const pages = [overview, errors, routes, upstreams, auth, limits, caches, ai, tls, config];
