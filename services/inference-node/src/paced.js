// A response whose pieces are sent when they are due, for as long as the client is there.
import { once } from 'node:events';
import { setTimeout } from 'node:timers/promises';

/**
 * Sends each piece, [due, text], when it is due, in milliseconds from now; status and header go with the first one.
 * Gives back the place in flight that Load.admit took, and counts a client that left before the end.
 */
export async function paced(res, load, headers, pieces) {
  const start = performance.now();
  const gone = new AbortController();
  const leave = () => gone.abort();
  res.once('close', leave);
  try {
    for (const [due, text] of pieces) {
      await until(start + due, gone.signal);
      if (!res.headersSent) res.writeHead(200, headers);
      if (!res.write(text)) await once(res, 'drain', { signal: gone.signal });
    }
    res.end();
  } catch (error) {
    if (error.name !== 'AbortError') throw error;
    load.cancelled += 1;
  } finally {
    res.off('close', leave);
    load.inFlight -= 1;
  }
}

async function until(due, signal) {
  signal.throwIfAborted();
  // A timer may fire a fraction of a millisecond early.
  for (let ms; (ms = due - performance.now()) > 0; ) await setTimeout(Math.ceil(ms), undefined, { signal });
}
