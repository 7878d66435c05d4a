// Tokens of a certified OpenID provider through Weir: discovery, algorithms, rotation under load, an issuer that is killed.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Gateway, until } from './gateway.js'
import { ALGORITHMS, Issuer, keys } from './issuer.js'

const issuer = new Issuer()
const gateway = new Gateway()
const old = keys('old')

before(async () => {
  await issuer.start(old)
  await gateway.start(issuer.url)
})

after(async () => {
  await gateway.stop()
  await issuer.kill().catch(() => {})
})

test('tokens of each algorithm are accepted', async () => {
  for (const alg of ALGORITHMS) {
    const token = await issuer.token(alg)
    const header = JSON.parse(Buffer.from(token.split('.')[0], 'base64url'))
    assert.equal(header.alg, alg)
    assert.equal(header.typ, 'at+jwt')
    await until('the keys are fetched', async () => (await gateway.status('/a', token)).status !== 503)
    assert.deepEqual(await gateway.status('/a', token), { status: 200, user: 'shop' })
    const [head, claims, signature] = token.split('.')
    const damaged = signature[9] === 'A' ? 'B' : 'A'
    const forged = `${head}.${claims}.${signature.slice(0, 9)}${damaged}${signature.slice(10)}`
    assert.equal((await gateway.status('/a', forged)).status, 401)
  }
  assert.equal((await gateway.status('/a')).status, 401)
  assert.equal(issuer.keySets, 1)
})

test('a rotation while requests flow refuses no token', async () => {
  const seen = { old: 0, new: 0 }
  const refused = []
  let ends = false
  const flow = async (alg) => {
    while (!ends) {
      const token = await issuer.token(alg)
      const { status } = await gateway.status('/a', token)
      const kid = JSON.parse(Buffer.from(token.split('.')[0], 'base64url')).kid
      if (status === 200) seen[kid.split('-')[1]] += 1
      else refused.push(`${kid}: ${status}`)
    }
  }
  const flows = [...ALGORITHMS, ...ALGORITHMS].map(flow)
  await until('tokens of the old keys', () => seen.old > 50)
  const kept = await issuer.token('ES256')
  issuer.change([...keys('new'), ...old])
  await until('tokens of the new keys', () => seen.new > 50)
  ends = true
  await Promise.all(flows)
  assert.deepEqual(refused, [])
  assert.equal((await gateway.status('/a', kept)).status, 200, 'a token from before')
  assert.equal(issuer.keySets, 2, 'one fetch for all of them')
})

test('an issuer that is killed costs nobody their token, and keeps a new gateway at 503', async () => {
  const tokens = []
  for (let number = 0; number < 30; number += 1) tokens.push(await issuer.token(ALGORITHMS[number % ALGORITHMS.length]))
  await issuer.kill()
  for (const token of tokens) assert.equal((await gateway.status('/a', token)).status, 200)
  const late = new Gateway()
  await late.start(issuer.url)
  try {
    assert.equal((await late.status('/a', tokens[0])).status, 503)
    assert.equal((await late.status('/a')).status, 401)
    assert.equal((await late.status('/open')).status, 200)
    await issuer.start([...keys('later'), ...old])
    const token = await issuer.token('RS256')
    await until('the keys are fetched', async () => (await late.status('/a', token)).status === 200)
  } finally {
    await late.stop()
  }
})
