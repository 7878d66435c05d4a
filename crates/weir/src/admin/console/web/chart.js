// Line charts over the last minutes. The drawing is stretched to its box, so its text is HTML beside it.

import { el, svg } from './dom.js';

const WIDTH = 600;
const HEIGHT = 100;

/** The smallest of 1, 2, 5 times a power of ten that is not below the value. */
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 5, 10].find((step) => step * power >= value);
}

function line(values, slots, top) {
  let path = '';
  let pen = 'M';
  values.forEach((value, index) => {
    if (value === null) {
      pen = 'M';
      return;
    }
    const x = ((slots - values.length + index) / (slots - 1)) * WIDTH;
    path += `${pen}${x.toFixed(1)} ${(HEIGHT - (Math.min(value, top) / top) * HEIGHT).toFixed(1)}`;
    pen = 'L';
  });
  return path;
}

const legend = (lines, format, at) =>
  lines.map(({ name, values }, index) =>
    el('span', {}, el('i', { class: `c${index + 1}` }), `${name} `, el('b', {}, format(values[at] ?? null))),
  );

/** Shows the values under the pointer, and holds the chart still meanwhile. */
function point(event) {
  const figure = event.currentTarget;
  const { lines, format, slots, times } = figure.series;
  const box = figure.querySelector('.plot').getBoundingClientRect();
  const length = lines[0].values.length;
  const slot = Math.round(((event.clientX - box.left) / box.width) * (slots - 1));
  const at = Math.min(Math.max(slot - (slots - length), 0), length - 1);
  if (length === 0) return;
  figure.held = true;
  figure.querySelector('.legend').replaceChildren(...legend(lines, format, at));
  const x = ((slots - length + at) / (slots - 1)) * WIDTH;
  figure.querySelector('.cursor').setAttribute('d', `M${x.toFixed(1)} 0V${HEIGHT}`);
  figure.querySelector('.now').textContent = new Date(times[at]).toLocaleTimeString('en', { hourCycle: 'h23' });
}

function release(event) {
  event.currentTarget.held = false;
}

/** Lines are `{name, values}` with `null` for what is not known; the newest value is the last. */
export function chart(title, lines, format, times, slots) {
  const highest = Math.max(...lines.flatMap(({ values }) => values.map((value) => value ?? 0)), 0);
  const top = highest > 0 ? ceiling(highest) : 1;
  const last = lines[0].values.length - 1;
  const spoken = lines.map(({ name, values }) => `${name} ${format(values[last] ?? null)}`).join(', ');
  const drawing = svg(
    'svg',
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `${title}: ${spoken}` },
    [0, 0.5, 1].map((share) => svg('path', { class: 'grid', d: `M0 ${HEIGHT * share}H${WIDTH}` })),
    lines.map(({ values }, index) => svg('path', { class: `c${index + 1}`, d: line(values, slots, top) })).reverse(),
    svg('path', { class: 'cursor', d: '' }),
  );
  const figure = el(
    'figure',
    { onpointermove: point, onpointerleave: release },
    el('figcaption', {}, el('span', {}, title), el('span', { class: 'legend' }, legend(lines, format, last))),
    el('div', { class: 'plot' }, drawing, el('span', {}, highest > 0 ? format(top) : '')),
    el('div', { class: 'times' }, el('span', {}, `−${Math.round(slots / 60)} min`), el('span', { class: 'now' }, 'now')),
  );
  figure.series = { lines, format, slots, times };
  return figure;
}
