import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Completion, parseChat } from '../src/chat.js';
import { defaults } from '../src/settings.js';
import { Draws } from '../src/tokens.js';

const vectors = JSON.parse(readFileSync(new URL('../../inference.vectors.json', import.meta.url)));

for (const { seed, prompt, latency_ms } of vectors.infer) {
  test(`latency of "${prompt.slice(0, 20)}" with seed ${seed}`, () => {
    assert.equal(new Draws(seed, prompt).latencyMs, latency_ms);
  });
}

for (const { seed, messages, id, latency_ms, prompt_tokens, tokens } of vectors.chat) {
  test(`completion ${id}`, () => {
    const chat = parseChat({ model: 'm', messages });
    const completion = new Completion(chat, { ...defaults, seed, tokens: tokens.length });
    assert.equal(completion.id, id);
    assert.deepEqual([completion.firstDue, completion.count], [latency_ms, tokens.length]);
    assert.equal(completion.usage.prompt_tokens, prompt_tokens);
    assert.deepEqual(tokens.map((_, i) => completion.draws.token(i)), tokens);
  });
}
