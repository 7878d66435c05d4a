// Settings from the environment, then one server (limits and counts are of the process).
import { createServer } from 'node:http';
import { createApp } from './app.js';
import { BadSetting, fromEnv, port } from './settings.js';
import { stopper } from './stop.js';

const EX_USAGE = 64; // sysexits.h
const STOP_LIMIT_MS = 30_000;

const [settings, number] = readEnvironment();
const server = createServer({ keepAliveTimeout: 75_000 }, createApp(settings)); // longer than gateways keep an idle connection, so that they close first
server.on('error', (error) => {
  console.error(`error: ${error.message}`);
  process.exit(1);
});
server.listen(number, process.env.HOST ?? '127.0.0.1', () => {
  const { address, family, port: bound } = server.address();
  console.log(`listening on http://${family === 'IPv6' ? `[${address}]` : address}:${bound}`);
});
const stop = stopper(server, STOP_LIMIT_MS, () => process.exit(0));
process.on('SIGTERM', stop);
process.once('SIGINT', stop); // a second Ctrl-C ends it at once

function readEnvironment() {
  try {
    return [fromEnv(process.env), port(process.env.PORT ?? '8002', 'PORT')];
  } catch (error) {
    if (!(error instanceof BadSetting)) throw error;
    console.error(`error: ${error.message}`);
    return process.exit(EX_USAGE);
  }
}
