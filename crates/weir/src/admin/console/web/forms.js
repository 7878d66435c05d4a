// Forms that do something, and say what came of it.

import { count, el } from './dom.js';

/** Runs what a form does, and says what came of it. */
export function act(said, run) {
  return async (event) => {
    event.preventDefault();
    said.replaceChildren();
    try {
      said.replaceChildren(await run(event));
    } catch (error) {
      said.replaceChildren(el('pre', { class: 'failed' }, error.message));
    }
  };
}

export const output = () => el('div', { class: 'said', role: 'status' });
export const field = (label, attributes, wide = false) => el('label', { class: wide && 'wide' }, label, el('input', attributes));
/** Several lines. */
export const area = (label, name, placeholder) => el('label', { class: 'area' }, label, el('textarea', { name, placeholder, rows: 2, spellcheck: 'false', autocomplete: 'off' }));
export const done = (text) => el('p', { class: 'fine' }, text);
export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? '' : 's'}`;
