// Which page is shown, and how it is kept up to date.

import { Refused, get, loadSession, post } from './api.js';
import { duration, el, patch } from './dom.js';
import { pages } from './pages.js';

const $ = (id) => document.getElementById(id);
const main = $('main');
const SECONDS = 2;

let session = null;
let page = null;
let live = null;
/** What operators keep requests away from, on every page. */
let note = null;
let timer = 0;
/** What was shown last, to tell rates. */
let before = null;

function setState(text, isGood) {
  // Written only when it changes: screen readers say it then.
  if ($('state').textContent !== text) $('state').textContent = text;
  $('state').className = `state ${isGood ? 'good' : 'bad'}`;
}

async function refresh() {
  clearTimeout(timer);
  const shown = page;
  try {
    const [data, { drained }] = await Promise.all([shown.load(), get('drained')]);
    if (shown !== page) return;
    patch(note, drainedNote(drained));
    const at = performance.now();
    const content = shown.view(data, before?.data, before && (at - before.at) / 1000);
    patch(live, el('div', { id: 'live' }, [content].flat(Infinity)));
    before = { data, at };
    setState('live', true);
  } catch (error) {
    if (shown !== page) return;
    if (error.isRestart || (error instanceof Refused && error.status === 401)) return start();
    setState(error instanceof Refused ? error.message : 'no connection', false);
    if (!(error instanceof Refused || error instanceof TypeError)) throw error;
  }
  schedule();
}

function drainedNote(drained) {
  const one = ({ upstream, target, ms }) => `${target} of ${upstream} for ${duration(ms / 1000)}`;
  const text = drained.length > 0 && el('p', { class: 'note' }, el('a', { href: '#/upstreams' }, 'Drained by an operator'), `: ${drained.map(one).join(', ')}.`);
  return el('div', { id: 'note' }, text);
}

function schedule() {
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(refresh, (page.seconds ?? SECONDS) * 1000);
}

function show() {
  const id = location.hash.match(/^#\/(\w+)/)?.[1];
  // Any other fragment is a place on the page.
  if (!id && page) return;
  const next = pages.find((known) => known.id === id) ?? pages[0];
  const isFirst = page === null;
  page = next;
  before = null;
  note = el('div', { id: 'note' });
  main.onclick = null;
  live = el('div', { id: 'live' }, el('p', { class: 'quiet' }, 'Loading'));
  document.title = `${page.title} – Weir`;
  for (const link of $('pages').querySelectorAll('a')) {
    if (link.hash === `#/${page.id}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  $('pages').querySelector('[aria-current]').scrollIntoView({ block: 'nearest', inline: 'center' });
  const canAct = !session.read_only;
  const tools = page.tools?.(canAct, refresh);
  main.replaceChildren(
    el('h1', {}, page.title),
    note,
    ...(tools && !canAct && page.changes !== false ? [el('p', { class: 'note' }, 'The console is read-only.')] : []),
    ...(tools ? [tools] : []),
    live,
  );
  if (!isFirst) {
    window.scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
  refresh();
}

function showLogin() {
  const said = el('div', { class: 'said', role: 'alert' });
  const token = el('input', { type: 'password', name: 'token', required: true, autocomplete: 'current-password' });
  const form = el('form', {}, el('label', {}, 'Token', token), el('button', { class: 'main' }, 'Log in'));
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    try {
      await post('login', { token: token.value });
      await start();
    } catch (error) {
      said.replaceChildren(el('p', { class: 'failed' }, error.message));
      token.select();
    }
  });
  document.title = 'Log in – Weir';
  main.replaceChildren(el('section', { class: 'panel login' }, el('h1', {}, 'Log in'), form, said));
  token.focus();
}

async function start() {
  clearTimeout(timer);
  page = null;
  try {
    session = await loadSession();
  } catch (error) {
    setState('no connection', false);
    if (error instanceof Refused) main.replaceChildren(el('h1', {}, 'No access'), el('p', {}, error.message));
    else timer = setTimeout(start, SECONDS * 1000);
    return;
  }
  const isIn = session.csrf !== null;
  $('version').textContent = session.version;
  $('logout').hidden = !session.has_login || !isIn;
  $('pages').replaceChildren(...(isIn ? pages.map(({ id, title }) => el('li', {}, el('a', { href: `#/${id}` }, title))) : []));
  if (isIn) show();
  else {
    $('state').textContent = '';
    showLogin();
  }
}

// Light, dark, or as the system says.
const THEMES = ['auto', 'light', 'dark'];
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $('theme').textContent = `Theme: ${theme}`;
}
let theme = 'auto';
try {
  theme = localStorage.getItem('theme') ?? 'auto';
} catch {
  // Storage is switched off: the theme lasts as long as the page.
}
setTheme(THEMES.includes(theme) ? theme : 'auto');
$('theme').addEventListener('click', () => {
  const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
  setTheme(next);
  try {
    localStorage.setItem('theme', next);
  } catch {
    // As above.
  }
});

$('logout').addEventListener('click', async () => {
  await post('logout');
  await start();
});
window.addEventListener('hashchange', () => session?.csrf && show());
document.addEventListener('visibilitychange', () => {
  if (!document.hidden && page) refresh();
});
start();
