// OpenAI's client.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import OpenAI from 'openai'
import { GATEWAY_KEY, GATEWAY_URL, PROVIDERS, SCHEMA, TEXT, cancelled, ledger } from './support.js'

const settings = { baseURL: `${GATEWAY_URL}/v1`, apiKey: GATEWAY_KEY, maxRetries: 0 }
const client = new OpenAI(settings)
const messages = [{ role: 'user', content: 'hello' }]
const tools = [{ type: 'function', function: { name: 'weather', description: 'of a city', parameters: SCHEMA } }]
const chat = (model, more = {}, options = {}) => client.chat.completions.create({ model, messages, ...more }, options)

async function textOf(stream) {
  let text = ''
  for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? ''
  return text
}

test('models', async () => {
  const ids = []
  for await (const model of client.models.list()) ids.push(model.id)
  assert.ok(PROVIDERS.every((provider) => ids.includes(provider)))
  assert.equal((await client.models.retrieve('o')).id, 'o')
  await assert.rejects(client.models.retrieve('other'), OpenAI.NotFoundError)
})

for (const provider of PROVIDERS) {
  test(`${provider}: plain and streamed`, async () => {
    const completion = await chat(provider)
    assert.equal(completion.choices[0].message.content, TEXT)
    assert.equal(completion.choices[0].finish_reason, 'stop')
    assert.equal(completion.usage.completion_tokens, 8)
    const chunks = []
    for await (const chunk of await chat(provider, { stream: true, stream_options: { include_usage: true } })) chunks.push(chunk)
    assert.equal(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join(''), TEXT)
    assert.equal(chunks.at(-1).usage.completion_tokens, 8)
    assert.equal(await textOf(await chat(`${provider}-endless`, { stream: true })), TEXT)
  })

  test(`${provider}: two turns with a tool`, async () => {
    const first = await chat(provider, { tools, tool_choice: 'required' })
    const said = first.choices[0].message
    assert.deepEqual(JSON.parse(said.tool_calls[0].function.arguments), { city: 'Paris' })
    const history = [...messages, said, { role: 'tool', tool_call_id: said.tool_calls[0].id, content: 'rain' }]
    assert.equal((await chat(provider, { messages: history, tools })).choices[0].message.content, TEXT)
    const stream = client.chat.completions.stream({ model: provider, messages, tools })
    const streamed = await stream.finalChatCompletion()
    assert.equal(streamed.choices[0].finish_reason, 'tool_calls')
    assert.deepEqual(JSON.parse(streamed.choices[0].message.tool_calls[0].function.arguments), { city: 'Paris' })
  })

  test(`${provider}: errors have their class`, async () => {
    for (const [model, kind, status] of [
      ['limited', OpenAI.RateLimitError, 429],
      ['broken', OpenAI.InternalServerError, 500],
      ['overloaded', OpenAI.InternalServerError, 503],
      ['long', OpenAI.BadRequestError, 400],
      // At Gemini's API it is a response.
      ...(provider === 'g' ? [] : [['filtered', OpenAI.BadRequestError, 400]])
    ]) {
      for (const stream of [false, true]) {
        await assert.rejects(chat(`${provider}-${model}`, { stream }), (error) => error instanceof kind && error.status === status)
      }
    }
  })

  test(`${provider}: the client repeats`, async () => {
    const whole = 'once-openai-node-whole'
    const streamed = 'once-openai-node-stream'
    assert.equal((await chat(`${provider}-${whole}`, {}, { maxRetries: 2 })).choices[0].message.content, TEXT)
    assert.equal(await textOf(await chat(`${provider}-${streamed}`, { stream: true }, { maxRetries: 2 })), TEXT)
    const { calls } = await ledger()
    assert.deepEqual([whole, streamed].map((name) => calls[`sim-f5-${name}-${provider}`]), [2, 2])
  })

  test(`${provider}: a timeout of the client, and an abort in the stream, end the work`, async () => {
    let before = await ledger()
    await assert.rejects(chat(`${provider}-silent`, {}, { timeout: 300 }), OpenAI.APIConnectionTimeoutError)
    await cancelled(before)
    before = await ledger()
    const stream = await chat(`${provider}-slow`, { stream: true })
    for await (const chunk of stream) if (chunk.choices[0].delta.content) break
    await cancelled(before)
  })

  for (const fault of ['cut', 'error', 'malformed']) {
    test(`${provider}: a stream with the fault ${fault} raises`, async () => {
      let text = ''
      const read = async () => {
        for await (const chunk of await chat(`${provider}-${fault}`, { stream: true })) text += chunk.choices[0].delta.content ?? ''
      }
      await assert.rejects(read(), OpenAI.APIError)
      assert.ok(text !== '' && text !== TEXT && TEXT.startsWith(text), text)
    })
  }
}

test('refusals of the gateway are final', async () => {
  const patient = new OpenAI({ ...settings, maxRetries: 2 })
  const create = (body) => patient.chat.completions.create({ messages, ...body })
  await assert.rejects(create({ model: 'other' }), (error) => error instanceof OpenAI.NotFoundError && error.code === 'model_not_found')
  await assert.rejects(create({ model: 'a', n: 2 }), (error) => error instanceof OpenAI.BadRequestError && error.param === 'n')
  const stranger = new OpenAI({ ...settings, apiKey: 'wrong' })
  await assert.rejects(stranger.chat.completions.create({ model: 'o', messages }), OpenAI.AuthenticationError)
})

test('what only OpenAI has', async () => {
  const vectors = await client.embeddings.create({ model: 'o', input: ['a', 'b'] })
  assert.deepEqual(vectors.data.map((item) => [...item.embedding]), [[1, 0, 0, 0], [1, 0, 0, 0]])
  assert.equal((await client.responses.create({ model: 'o', input: 'hello' })).output_text, TEXT)
  let text = ''
  for await (const event of await client.responses.create({ model: 'o', input: 'hello', stream: true })) {
    if (event.type === 'response.output_text.delta') text += event.delta
  }
  assert.equal(text, TEXT)
  await assert.rejects(client.responses.create({ model: 'a', input: 'a' }), (error) => error.code === 'unsupported_api')
})
