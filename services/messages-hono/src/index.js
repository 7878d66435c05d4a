// One program, two ports.
import { serve } from '@hono/node-server';
import { auth, messages } from './app.js';

const EX_USAGE = 64; // sysexits.h

const ports = { auth: port('AUTH_PORT', '5002'), messages: port('MESSAGES_PORT', '5001') };
const servers = [listen('auth', auth), listen('messages', messages)];
for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, stop);

function port(name, preset) {
  const text = process.env[name] ?? preset;
  if (/^[0-9]{1,5}$/.test(text) && Number(text) <= 65535) return Number(text);
  console.error(`error: ${name} must be a whole number from 0 to 65535`);
  return process.exit(EX_USAGE);
}

function listen(name, { fetch }) {
  const options = {
    fetch,
    port: ports[name],
    hostname: process.env.HOST ?? '127.0.0.1',
    serverOptions: { keepAliveTimeout: 75_000 }, // longer than gateways keep an idle connection, so that they close first
  };
  const server = serve(options, ({ address, family, port: bound }) => {
    console.log(`listening on http://${family === 'IPv6' ? `[${address}]` : address}:${bound} (${name})`);
  });
  server.on('error', (error) => {
    console.error(`error: ${error.message}`);
    process.exit(1);
  });
  return server;
}

/** Every response is written in the event-loop iteration that read its request, so nothing is in flight in the next one. */
function stop() {
  for (const server of servers) {
    server.close();
    setImmediate(() => server.closeAllConnections());
  }
}
