// Anthropic's client.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import Anthropic from '@anthropic-ai/sdk'
import { GATEWAY_KEY, GATEWAY_URL, PROVIDERS, SCHEMA, TEXT, cancelled, ledger } from './support.js'

const settings = { baseURL: GATEWAY_URL, apiKey: GATEWAY_KEY, maxRetries: 0 }
const client = new Anthropic(settings)
const base = { max_tokens: 64, messages: [{ role: 'user', content: 'hello' }] }
const tools = [{ name: 'weather', description: 'of a city', input_schema: SCHEMA }]
const message = (model, more = {}, options = {}) => client.messages.create({ ...base, model, ...more }, options)

test('models', async () => {
  const ids = []
  for await (const model of client.models.list()) ids.push(model.id)
  assert.ok(ids.includes('o') && ids.includes('a'))
  assert.equal((await client.models.retrieve('a')).id, 'a')
  await assert.rejects(client.models.retrieve('other'), Anthropic.NotFoundError)
})

for (const provider of PROVIDERS) {
  test(`${provider}: plain and streamed`, async () => {
    const said = await message(provider)
    assert.deepEqual([said.content[0].text, said.stop_reason, said.usage.output_tokens], [TEXT, 'end_turn', 8])
    // A provider of the other API may count nothing; of its own API the client takes no stream without counts.
    for (const model of [provider, `${provider}-endless`, 'o-uncounted']) {
      let text = ''
      const stream = client.messages.stream({ ...base, model }).on('text', (part) => (text += part))
      const whole = await stream.finalMessage()
      assert.deepEqual([text, whole.content[0].text, whole.stop_reason], [TEXT, TEXT, 'end_turn'], model)
    }
  })

  test(`${provider}: two turns with a tool`, async () => {
    for (const send of [(body) => client.messages.create(body), (body) => client.messages.stream(body).finalMessage()]) {
      const said = await send({ ...base, model: provider, tools, tool_choice: { type: 'any' } })
      const call = said.content.at(-1)
      assert.deepEqual([said.stop_reason, call.name, call.input], ['tool_use', 'weather', { city: 'Paris' }])
      const result = { type: 'tool_result', tool_use_id: call.id, content: 'rain' }
      const history = [...base.messages, { role: 'assistant', content: said.content }, { role: 'user', content: [result] }]
      assert.equal((await send({ ...base, model: provider, tools, messages: history })).content[0].text, TEXT)
    }
  })

  test(`${provider}: errors have their class`, async () => {
    for (const [model, kind, status] of [
      ['limited', Anthropic.RateLimitError, 429],
      ['broken', Anthropic.InternalServerError, 500],
      ['overloaded', Anthropic.InternalServerError, 529],
      ['long', Anthropic.BadRequestError, 400],
      // At Gemini's API it is a response.
      ...(provider === 'g' ? [] : [['filtered', Anthropic.BadRequestError, 400]])
    ]) {
      for (const stream of [false, true]) {
        await assert.rejects(message(`${provider}-${model}`, { stream }), (error) => error instanceof kind && error.status === status)
      }
    }
  })

  test(`${provider}: the client repeats`, async () => {
    const whole = 'once-anthropic-node-whole'
    const streamed = 'once-anthropic-node-stream'
    assert.equal((await message(`${provider}-${whole}`, {}, { maxRetries: 2 })).content[0].text, TEXT)
    const stream = client.messages.stream({ ...base, model: `${provider}-${streamed}` }, { maxRetries: 2 })
    assert.equal((await stream.finalMessage()).content[0].text, TEXT)
    const { calls } = await ledger()
    assert.deepEqual([whole, streamed].map((name) => calls[`sim-f5-${name}-${provider}`]), [2, 2])
  })

  test(`${provider}: a timeout of the client, and an abort in the stream, end the work`, async () => {
    let before = await ledger()
    await assert.rejects(message(`${provider}-silent`, {}, { timeout: 300 }), Anthropic.APIConnectionTimeoutError)
    await cancelled(before)
    before = await ledger()
    const stream = await message(`${provider}-slow`, { stream: true })
    for await (const event of stream) if (event.type === 'content_block_delta') break
    await cancelled(before)
  })

  for (const fault of ['cut', 'error', 'malformed']) {
    test(`${provider}: a stream with the fault ${fault} raises`, async () => {
      let text = ''
      const stream = client.messages.stream({ ...base, model: `${provider}-${fault}` }).on('text', (part) => (text += part))
      await assert.rejects(stream.finalMessage(), Anthropic.APIError)
      assert.ok(text !== '' && text !== TEXT && TEXT.startsWith(text), text)
    })
  }
}

test('refusals of the gateway are final', async () => {
  const patient = new Anthropic({ ...settings, maxRetries: 2 })
  await assert.rejects(patient.messages.create({ ...base, model: 'other' }), Anthropic.NotFoundError)
  await assert.rejects(patient.messages.create({ ...base, model: 'o', top_k: 5 }), Anthropic.BadRequestError)
  const stranger = new Anthropic({ ...settings, apiKey: 'wrong' })
  await assert.rejects(stranger.messages.create({ ...base, model: 'a' }), Anthropic.AuthenticationError)
})
