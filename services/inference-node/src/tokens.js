// What the model "says": a pure function of the seed and the prompt, equal in every implementation.
import { crc32 } from 'node:zlib';

const WORDS = (
  'river weir water flow stone bank level gauge stream gate lock mill pool rapid delta source mouth reed heron ' +
  'otter trout bridge ferry canal sluice basin Flüsse źródło río вода 水 🌊'
).split(' ');

/** The finalizer of MurmurHash3: every bit of x moves every bit of the result. */
function mix(x) {
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return (x ^ (x >>> 16)) >>> 0;
}

/** The numbers drawn for one prompt. */
export class Draws {
  constructor(seed, prompt) {
    this.hash = mix(crc32(prompt) ^ seed);
  }

  draw(i) {
    return mix(this.hash + Math.imul(i, 0x9e3779b9));
  }

  get latencyMs() {
    return 30 + (this.draw(0) % 21);
  }

  token(i) {
    return (i ? ' ' : '') + WORDS[this.draw(i + 1) >>> 27];
  }
}

/** The bytes of a chat: role, zero, text, zero for each message. */
export const chatBytes = (messages) => messages.map(({ role, text }) => `${role}\0${text}\0`).join('');
