// What the tests of the Node clients share: where the gateway and the simulator are, and what the simulator says.

import assert from 'node:assert/strict'

export const { GATEWAY_URL, SIMULATOR_URL, GATEWAY_KEY } = process.env
export const TEXT = 'The quick brown fox jumps over lazy dögs. '
// Models at a provider of OpenAI's API, at one of Anthropic's and at one of Gemini's: two of the three are translated.
export const PROVIDERS = ['o', 'a', 'g']
export const SCHEMA = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false }

export async function ledger() {
  return (await fetch(`${SIMULATOR_URL}/simulator/ledger`)).json()
}

/** Waits until the provider has seen one more client that no longer waits. */
export async function cancelled(before) {
  const end = Date.now() + 20_000
  while ((await ledger()).cancelled <= before.cancelled) {
    assert.ok(Date.now() < end, 'the provider is not told that nobody waits')
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}
