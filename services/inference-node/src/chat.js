// The chat completions of OpenAI's API: what a request says, and the bytes of the response.
import { Refusal } from './errors.js';
import { Draws, chatBytes } from './tokens.js';

export const CREATED = 1735689600; // always: equal requests have equal responses

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const isText = (value) => typeof value === 'string' && value.isWellFormed();
const isAbsent = (value) => value === undefined || value === null;
const isCount = (value) => isAbsent(value) || (Number.isInteger(value) && value >= 1);
const isFlag = (value) => isAbsent(value) || typeof value === 'boolean';
const isPart = (part) =>
  isObject(part) && isText(part.type) && (isText(part.text) || (isAbsent(part.text) && part.type !== 'text'));
const isContent = (value) => isAbsent(value) || isText(value) || (Array.isArray(value) && value.every(isPart));
const isMessage = (message) => isObject(message) && isText(message.role) && message.role !== '' && isContent(message.content);

// In the order in which a wrong member is named.
const MEMBERS = [
  ['model', 'a non-empty string', (value) => isText(value) && value !== ''],
  ['messages', 'a non-empty array of messages with a role and a content', (value) => Array.isArray(value) && value.length > 0 && value.every(isMessage)],
  ['stream', 'a boolean', isFlag],
  ['stream_options', 'an object', (value) => isAbsent(value) || (isObject(value) && isFlag(value.include_usage))],
  ['max_completion_tokens', 'a whole number from 1', isCount],
  ['max_tokens', 'a whole number from 1', isCount],
  ['n', '1', (value) => isAbsent(value) || value === 1],
];

function check(body) {
  if (!isObject(body)) throw new Refusal(400, 'body: must be a JSON object');
  for (const [param, wanted, isGood] of MEMBERS) {
    if (!isGood(body[param])) throw new Refusal(400, `${param}: must be ${wanted}`, { param });
  }
  if (body.stream_options && !body.stream) {
    throw new Refusal(400, 'stream_options is only allowed with stream', { param: 'stream_options' });
  }
}

const textOf = (content) =>
  Array.isArray(content)
    ? content.filter((part) => part.type === 'text').map((part) => part.text).join('')
    : (content ?? '');

/** What a request says, in this service's terms; throws a Refusal for a body that cannot be served. */
export function parseChat(body) {
  check(body);
  return {
    model: body.model,
    messages: body.messages.map(({ role, content }) => ({ role, text: textOf(content) })),
    stream: body.stream ?? false,
    withUsage: body.stream_options?.include_usage ?? false,
    maxTokens: body.max_completion_tokens ?? body.max_tokens ?? Infinity,
  };
}

/** One response: plain, or as the events of a stream, each with the milliseconds after which it is due. */
export class Completion {
  constructor(chat, settings) {
    this.draws = new Draws(settings.seed, chatBytes(chat.messages));
    const count = Math.min(settings.tokens, chat.maxTokens);
    const bytes = chat.messages.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0);
    const promptTokens = Math.max(1, Math.floor((bytes + 3) / 4));

    this.model = chat.model;
    this.withUsage = chat.withUsage;
    this.count = count;
    this.finishReason = count === settings.tokens ? 'stop' : 'length';
    this.id = `chatcmpl-${this.draws.hash.toString(16).padStart(8, '0')}`;
    this.usage = { prompt_tokens: promptTokens, completion_tokens: count, total_tokens: promptTokens + count };
    this.firstDue = settings.latencyMs ?? this.draws.latencyMs;
    this.intervalMs = settings.tokenIntervalMs;
  }

  plain() {
    const content = Array.from({ length: this.count }, (_, i) => this.draws.token(i)).join('');
    const message = { role: 'assistant', content };
    const body = {
      ...this.#head('chat.completion'),
      choices: [{ index: 0, message, finish_reason: this.finishReason }],
      usage: this.usage,
    };
    return [this.firstDue + (this.count - 1) * this.intervalMs, JSON.stringify(body)];
  }

  *events() {
    yield [this.firstDue, this.#chunk({ role: 'assistant', content: '' })];
    let due = this.firstDue;
    for (let i = 0; i < this.count; i += 1) {
      due = this.firstDue + i * this.intervalMs;
      yield [due, this.#chunk({ content: this.draws.token(i) })];
    }
    yield [due, this.#chunk({}, this.finishReason)];
    if (this.withUsage) yield [due, event({ ...this.#head('chat.completion.chunk'), choices: [], usage: this.usage })];
    yield [due, 'data: [DONE]\n\n'];
  }

  #chunk(delta, finishReason = null) {
    const choices = [{ index: 0, delta, finish_reason: finishReason }];
    return event({ ...this.#head('chat.completion.chunk'), choices, ...(this.withUsage && { usage: null }) });
  }

  #head(object) {
    return { id: this.id, object, created: CREATED, model: this.model };
  }
}

const event = (value) => `data: ${JSON.stringify(value)}\n\n`;
