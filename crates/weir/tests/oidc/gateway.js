// Weir in front of an upstream that says who the gateway takes the sender for.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { ALGORITHMS, AUDIENCE } from './issuer.js'

export class Gateway {
  async start(issuer) {
    this.upstream = http.createServer((request, response) => response.end(request.headers['x-user'] ?? ''))
    this.upstream.listen(0, '127.0.0.1')
    await once(this.upstream, 'listening')
    const file = join(mkdtempSync(join(tmpdir(), 'weir-oidc-')), 'weir.yaml')
    // JSON is YAML.
    const jwt = { issuer, audience: AUDIENCE, jwks: { url: 'discover' }, algorithms: ALGORITHMS, headers: { 'X-User': 'sub' } }
    const config = {
      listen: '127.0.0.1:0',
      upstreams: { u: { targets: [`http://127.0.0.1:${this.upstream.address().port}`] } },
      auth: { staff: { jwt } },
      routes: [
        { match: { path: '/open' }, upstream: 'u' },
        { match: { path: '/*' }, auth: 'staff', allow: { scopes: ['orders:read'] }, upstream: 'u' }
      ]
    }
    writeFileSync(file, JSON.stringify(config))
    this.process = spawn(process.env.WEIR, ['--config', file], { stdio: ['ignore', 'pipe', 'inherit'] })
    for await (const line of createInterface({ input: this.process.stdout })) {
      this.url = line.match(/listening on (http:\S+)/)?.[1]
      if (this.url) return
    }
    throw new Error('the gateway did not start')
  }

  async status(path, token) {
    const headers = token ? { authorization: `Bearer ${token}` } : {}
    const response = await fetch(`${this.url}${path}`, { headers })
    return { status: response.status, user: await response.text() }
  }

  async stop() {
    this.process.kill()
    if (this.process.exitCode === null) await once(this.process, 'exit')
    this.upstream.closeAllConnections()
    this.upstream.close()
  }
}

// Waits for a condition, for 20 s at most.
export async function until(what, condition) {
  const end = Date.now() + 20_000
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`not within 20 s: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
