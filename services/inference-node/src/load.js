// What this process is doing with requests: which are admitted, which fail, how many are in flight.
import { Refusal, overloaded } from './errors.js';

const MILLION = 1_000_000;

export class Load {
  inFlight = 0;
  admitted = 0;
  failed = 0;
  refused = 0;
  cancelled = 0;

  /** Takes a place in flight, which `paced` gives back; throws the response of a request that gets none. */
  admit({ concurrency, errorRate, errorStatus }) {
    if (concurrency && this.inFlight >= concurrency) {
      this.refused += 1;
      throw overloaded();
    }
    const before = this.admitted++;
    if (Math.floor((this.admitted * errorRate) / MILLION) > Math.floor((before * errorRate) / MILLION)) {
      this.failed += 1;
      throw new Refusal(errorStatus, 'simulated error', { type: 'server_error', code: 'simulated_error' });
    }
    this.inFlight += 1;
  }

  toJSON() {
    const { inFlight, admitted, failed, refused, cancelled } = this;
    return { in_flight: inFlight, admitted, failed, refused, cancelled };
  }
}
