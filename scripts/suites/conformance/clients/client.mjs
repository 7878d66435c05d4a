// Node's http2: client.mjs URL CA-FILE|-. The cases of the Go and Python clients beside it, on one session.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import http2 from 'node:http2';

const LARGE = 32 << 20;
const MEDIUM = 300_000;
const [url, ca] = process.argv.slice(2);
const session = http2.connect(url, ca === '-' ? {} : { ca: readFileSync(ca) });
session.on('error', (error) => console.log(`session: ${error}`));

const pattern = (size) => Buffer.alloc(size, Buffer.from(Array.from({ length: 251 }, (_, i) => i)));

function equal(got, want, what) {
  const same = Buffer.isBuffer(want) ? want.equals(got) : got === want;
  if (!same) throw new Error(`${what}: ${Buffer.isBuffer(got) ? `${got.length} bytes` : got} in place of ${Buffer.isBuffer(want) ? `${want.length} bytes` : want}`);
}

// One request; `send` writes its body, and ends it.
function request(method, path, { fields = {}, send, options = {} } = {}) {
  return new Promise((resolve, reject) => {
    const stream = session.request({ ':method': method, ':path': path, ...fields }, { endStream: !send, ...options });
    const result = { trailers: {} };
    const pieces = [];
    stream.on('response', (head) => { result.head = head; });
    stream.on('trailers', (trailers) => { result.trailers = trailers; });
    stream.on('data', (piece) => pieces.push(piece));
    stream.on('end', () => resolve({ ...result, body: Buffer.concat(pieces) }));
    stream.on('error', reject);
    stream.setTimeout(60_000, () => stream.destroy(new Error('timeout')));
    if (send) send(stream);
  });
}

const whole = (body) => (stream) => stream.end(body);
async function expect(method, path, want, more) {
  const got = await request(method, path, more);
  equal(got.head[':status'], 200, 'status');
  equal(got.body, want, 'body');
  return got;
}

const cases = {
  get: () => expect('GET', '/bytes/1000', pattern(1000)),
  async head() {
    const { head } = await expect('HEAD', '/bytes/1000', Buffer.alloc(0));
    equal(head['content-length'], '1000', 'content-length');
  },
  large_response: () => expect('GET', `/bytes/${LARGE}`, pattern(LARGE)),
  many_streams: () => Promise.all(Array.from({ length: 90 }, async (_, i) => {
    const size = i % 10 === 0 ? MEDIUM : 1000;
    for (let n = 0; n < 10; n++) await expect('GET', `/bytes/${size}`, pattern(size));
  })),
  async statuses_without_body() {
    for (const status of [204, 304, 404, 503]) {
      const got = await request('GET', `/status/${status}`);
      equal(got.head[':status'], status, 'status');
      equal(got.body.length, 0, 'length');
    }
  },
  post: () => expect('POST', '/echo', pattern(MEDIUM), { send: whole(pattern(MEDIUM)) }),
  empty_post: () => expect('POST', '/echo', Buffer.alloc(0), { send: whole() }),
  // The next piece is sent only when the last one has come back.
  both_directions_at_once: () => new Promise((resolve, reject) => {
    const stream = session.request({ ':method': 'POST', ':path': '/echo' });
    let sent = 0;
    let received = 0;
    const next = () => (sent < 50_000 ? stream.write(pattern(1000), () => {}) && (sent += 1000) : stream.end());
    stream.on('data', (piece) => { received += piece.length; if (received === sent) next(); });
    stream.on('end', () => (received === 50_000 ? resolve() : reject(new Error(`${received} bytes`))));
    stream.on('error', reject);
    stream.setTimeout(20_000, () => reject(new Error(`no byte for 20 s after ${received} of ${sent}`)));
    next();
  }),
  large_request() {
    const body = pattern(LARGE);
    return expect('POST', '/sum', Buffer.from(createHash('sha256').update(body).digest('hex')), { send: whole(body) });
  },
  async trailers() {
    const send = (stream) => { stream.on('wantTrailers', () => stream.sendTrailers({ 'x-sum': '12345' })); stream.end('hello'); };
    const { trailers } = await expect('POST', '/echo', Buffer.from('hello'), { fields: { te: 'trailers', trailer: 'x-sum' }, send, options: { waitForTrailers: true } });
    equal(trailers['x-echo-x-sum'], '12345', 'trailer');
  },
  async cancelled_response() {
    await new Promise((resolve, reject) => {
      const stream = session.request({ ':path': '/endless' });
      let received = 0;
      stream.on('data', (piece) => { received += piece.length; if (received > 100_000) stream.close(http2.constants.NGHTTP2_CANCEL); });
      stream.on('close', resolve);
      stream.on('error', reject);
    });
    for (let n = 0; n < 200; n++) {
      const { body } = await request('GET', '/open');
      if (body.toString() === '0') return expect('GET', '/bytes/1000', pattern(1000));
      await new Promise((resolve) => { setTimeout(resolve, 50); });
    }
    throw new Error('the upstream still sends the response that its client has cancelled');
  },
};

let passed = 0;
let failed = 0;
for (const [name, run] of Object.entries(cases)) {
  try {
    await run();
    passed++;
    console.log(`ok ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAIL ${name}: ${error.message}`);
  }
}
console.log(`${passed} passed, ${failed} failed, 0 skipped`);
session.close();
process.exitCode = failed > 0 ? 1 : 0;
