// An issuer: the certified OpenID provider `oidc-provider`, with the keys that a test gives it, on an address that it keeps.

import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import http from 'node:http'
import { Provider } from 'oidc-provider'

const KINDS = {
  RS256: () => generateKeyPairSync('rsa', { modulusLength: 2048 }),
  ES256: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  EdDSA: () => generateKeyPairSync('ed25519')
}

export const ALGORITHMS = Object.keys(KINDS)
export const AUDIENCE = 'urn:orders'
// Of the resource `urn:NAME:ALG`.
const AUDIENCES = { alg: AUDIENCE, page: 'orders', other: 'elsewhere' }

// A private key for each algorithm, with ids that end in `name`.
export function keys(name) {
  return ALGORITHMS.map((alg) => ({
    ...KINDS[alg]().privateKey.export({ format: 'jwk' }),
    kid: `${alg}-${name}`,
    alg,
    use: 'sig'
  }))
}

export class Issuer {
  port = 0
  keySets = 0

  get url() {
    return `http://127.0.0.1:${this.port}`
  }

  // Serves, and signs by the first key of an algorithm.
  async start(keys) {
    this.server = http.createServer((request, response) => {
      if (request.url === '/jwks') this.keySets += 1
      this.callback(request, response)
    })
    this.server.listen(this.port, '127.0.0.1')
    await once(this.server, 'listening')
    this.port = this.server.address().port
    this.change(keys)
  }

  change(keys) {
    const provider = new Provider(this.url, {
      jwks: { keys },
      clients: ['shop', 'gold'].map((name) => (
        { client_id: name, client_secret: 'secret', grant_types: ['client_credentials'], redirect_uris: [], response_types: [] }
      )),
      extraTokenClaims: (_, token) => ({ tenant: 'north', plan: token.clientId }),
      features: {
        devInteractions: { enabled: false },
        clientCredentials: { enabled: true },
        resourceIndicators: {
          enabled: true,
          useGrantedResource: () => true,
          getResourceServerInfo: (_, resource) => ({
            scope: 'orders:read orders:write',
            audience: AUDIENCES[resource.split(':')[1]],
            accessTokenFormat: 'jwt',
            accessTokenTTL: 600,
            jwt: { sign: { alg: resource.split(':').at(-1) } }
          })
        }
      }
    })
    this.callback = provider.callback()
  }

  // Ends with every connection.
  async kill() {
    this.server.closeAllConnections()
    this.server.close()
    await once(this.server, 'close')
  }

  async token(alg, { name = 'alg', client = 'shop', scope = 'orders:read' } = {}) {
    const response = await fetch(`${this.url}/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa(`${client}:secret`)}` },
      body: new URLSearchParams({ grant_type: 'client_credentials', resource: `urn:${name}:${alg}`, scope })
    })
    const answer = await response.json()
    if (!answer.access_token) throw new Error(JSON.stringify(answer))
    return answer.access_token
  }
}
