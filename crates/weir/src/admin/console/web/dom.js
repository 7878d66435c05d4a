// Elements and formats. Text is always set as text: nothing that the gateway or a client says is ever read as HTML.

const SVG = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** An element; `null` children are left out. */
export const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** Makes `old` what `next` is, in place: focus, selection and scroll positions stay. */
export function patch(old, next) {
  if (old.held) return;
  if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName) {
    old.replaceWith(next);
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== next.data) old.data = next.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (!next.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (next.series) old.series = next.series;
  const wanted = [...next.childNodes];
  while (old.childNodes.length > wanted.length) old.lastChild.remove();
  wanted.forEach((child, index) => {
    if (index < old.childNodes.length) patch(old.childNodes[index], child);
    else old.append(child);
  });
}

const locale = 'en';
const whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat(locale, { maximumSignificantDigits: 3 });
const shorter = new Intl.NumberFormat(locale, { maximumSignificantDigits: 2 });
const clock = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'medium', hourCycle: 'h23' });
const NONE = '–';
const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

export const count = (value) => (known(value) ? whole.format(value) : NONE);
export const rate = (value) => (known(value) ? (value >= 1000 ? whole : short).format(value) : NONE);
export const percent = (value) => (known(value) ? `${short.format(value * 100)} %` : NONE);
export const milliseconds = (value) => {
  if (!known(value)) return NONE;
  return value >= 1000 ? `${short.format(value / 1000)} s` : `${(value < 10 ? shorter : short).format(value)} ms`;
};
export const bytes = (value) => {
  if (!known(value)) return NONE;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const step = value < 1 ? 0 : Math.min(Math.floor(Math.log2(value) / 10), units.length - 1);
  return `${short.format(value / 1024 ** step)} ${units[step]}`;
};
export const time = (ms) => clock.format(ms);
export const duration = (seconds) => {
  const units = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const at = units.findIndex(([size]) => seconds >= size);
  if (at < 0 || at === 3) return `${Math.max(0, Math.floor(seconds))} s`;
  const [[size, unit], [next, small]] = [units[at], units[at + 1]];
  const rest = Math.floor((seconds % size) / next);
  return `${Math.floor(seconds / size)} ${unit}${rest > 0 ? ` ${rest} ${small}` : ''}`;
};

export const tag = (text, kind = '') => el('span', { class: `tag ${kind}` }, text);
const FAULTS = { client: '', upstream: 'warn', gateway: 'bad' };
/** Who has to change something. */
export const faultTag = (fault) => tag(fault, FAULTS[fault]);
export const facts = (pairs) => el('dl', { class: 'facts' }, pairs.filter(Boolean).map(([name, ...value]) => [el('dt', {}, name), el('dd', {}, ...value)]));

/** Columns are `[title, cell of a row, is a number]`; the first one names the row. */
export function table(label, columns, rows, empty) {
  if (rows.length === 0) return el('p', { class: 'quiet' }, empty);
  const head = columns.map(([title, , number]) => el('th', { scope: 'col', class: number && 'number' }, title));
  const cells = (row) =>
    columns.map(([title, cell, number], index) =>
      index === 0
        ? el('th', { scope: 'row' }, cell(row))
        : el('td', { 'data-label': title, class: number && 'number' }, el('span', {}, cell(row))),
    );
  // Wide tables scroll by keyboard too.
  return el(
    'div',
    { class: 'table', role: 'region', 'aria-label': label, tabindex: 0 },
    el('table', {}, el('thead', {}, el('tr', {}, head)), el('tbody', {}, rows.map((row) => el('tr', {}, cells(row))))),
  );
}
