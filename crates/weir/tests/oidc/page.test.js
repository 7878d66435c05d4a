// docs/howto-jwt.md, as it is written, with the addresses of this test: each row of its table.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createPrivateKey, sign } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'
import { until } from './gateway.js'
import { Issuer, keys } from './issuer.js'

const page = new URL('../../../../docs/howto-jwt.md', import.meta.url)
const issuer = new Issuer()
const signing = keys('page')
const seen = []
let upstream, weir, url

// The page's file, in which each of these occurs.
function configuration(replaced) {
  let text = readFileSync(page, 'utf8').match(/```yaml weir.yaml\n([^]*?)```/)[1]
  for (const [from, to] of Object.entries(replaced)) {
    assert.ok(text.includes(from), from)
    text = text.replaceAll(from, to)
  }
  return text
}

before(async () => {
  await issuer.start(signing)
  upstream = http.createServer((request, response) => {
    seen.push(request.headers)
    response.end('an item')
  })
  upstream.listen(0, '127.0.0.1')
  await once(upstream, 'listening')
  const file = join(mkdtempSync(join(tmpdir(), 'weir-page-')), 'weir.yaml')
  writeFileSync(
    file,
    configuration({
      'https://id.example.com/': issuer.url,
      '127.0.0.1:8080': '127.0.0.1:0',
      'http://127.0.0.1:3000': `http://127.0.0.1:${upstream.address().port}`
    })
  )
  weir = spawn(process.env.WEIR, ['--config', file], { stdio: ['ignore', 'pipe', 'inherit'] })
  for await (const line of createInterface({ input: weir.stdout })) {
    url = line.match(/listening on (http:\S+)/)?.[1]
    if (url) return
  }
  throw new Error('the gateway did not start')
})

after(async () => {
  weir?.kill()
  upstream?.closeAllConnections()
  upstream?.close()
  await issuer.kill().catch(() => {})
})

async function ask(token, { method = 'GET', path = '/items/1', headers = {} } = {}) {
  const credential = token ? { authorization: `Bearer ${token}` } : {}
  const response = await fetch(`${url}${path}`, { method, headers: { ...headers, ...credential } })
  await response.arrayBuffer()
  return { status: response.status, challenge: response.headers.get('www-authenticate'), retry: response.headers.get('retry-after') }
}

// The token, signed again with these claims changed.
function again(token, change) {
  const [head, claims] = token.split('.').slice(0, 2).map((part) => JSON.parse(Buffer.from(part, 'base64url')))
  const text = [head, { ...claims, ...change }].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
  const key = createPrivateKey({ key: signing.find(({ kid }) => kid === head.kid), format: 'jwk' })
  return `${text}.${sign('sha256', Buffer.from(text), key).toString('base64url')}`
}

const of = (options) => issuer.token(options.alg ?? 'RS256', { name: 'page', ...options })

test('without a token', async () => {
  assert.equal((await ask(null, { path: '/health' })).status, 200)
  for (const path of ['/items/1', '/nowhere']) {
    const reply = await ask(null, { path })
    assert.deepEqual([reply.status, reply.challenge], [401, 'Bearer realm="weir"'], path)
  }
  assert.equal(seen.length, 0)
})

test('a token with the scope, of each algorithm of the page', async () => {
  const first = await of({})
  await until('the keys are fetched', async () => (await ask(first)).status !== 503)
  for (const alg of ['RS256', 'ES256']) {
    seen.length = 0
    const reply = await ask(await of({ alg }), { headers: { 'X-User': 'root', X_Tenant: 'south' } })
    assert.equal(reply.status, 200, alg)
    assert.equal(seen[0]['x-user'], 'shop')
    assert.equal(seen[0]['x-tenant'], 'north')
    assert.equal(seen[0].x_tenant, undefined)
    assert.equal(seen[0].authorization, undefined)
  }
})

test('a token that does not hold', async () => {
  seen.length = 0
  const token = await of({})
  const stranger = new Issuer()
  await stranger.start(signing)
  const now = Math.floor(Date.now() / 1000)
  assert.equal((await ask(again(token, { jti: 'again' }))).status, 200, 'what is signed again holds')
  seen.length = 0
  for (const [what, bad] of Object.entries({
    expired: again(token, { exp: now - 60 }),
    'not yet valid': again(token, { nbf: now + 60 }),
    'another audience': await of({ name: 'other' }),
    'another algorithm': await of({ alg: 'EdDSA' }),
    'another issuer with the same keys': await stranger.token('RS256', { name: 'page' }),
    damaged: `${token.slice(0, -9)}${token.at(-9) === 'A' ? 'B' : 'A'}${token.slice(-8)}`
  })) {
    const reply = await ask(bad)
    assert.equal(reply.status, 401, what)
    assert.match(reply.challenge, /error="invalid_token"/, what)
  }
  await stranger.kill()
  assert.equal(seen.length, 0)
})

test('scopes say what a token may do', async () => {
  const refused = await ask(await of({}), { method: 'POST' })
  assert.equal(refused.status, 403)
  assert.match(refused.challenge, /error="insufficient_scope", scope="orders:write"/)
  assert.equal((await ask(await of({ scope: 'orders:write' }), { method: 'POST' })).status, 200)
  assert.equal((await ask(await of({ scope: 'orders:write' }))).status, 403)
})

test('the plan of the token says how much', async () => {
  const statuses = async (token) => {
    const replies = []
    for (let number = 0; number < 60; number += 1) replies.push(await ask(token))
    return replies
  }
  const basic = await statuses(await of({}))
  const last = basic.find(({ status }) => status !== 200)
  assert.equal(last?.status, 429)
  assert.ok(last.retry)
  const gold = await statuses(await of({ client: 'gold' }))
  assert.ok(gold.every(({ status }) => status === 200))
})
