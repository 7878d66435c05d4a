//! `Server-Timing` (W3C): where the time until a response's head went, for those who may know it.

use std::io::Write;

use h1::encode;

use super::Exchange;
use crate::config::ServerTiming;
use crate::runtime::clock;

impl Exchange<'_> {
    /// The line of the field, empty where the client may not have it. What the client itself kept waiting, its body, is in none of the times.
    pub(super) fn server_timing(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        match self.snapshot.config().server_timing {
            ServerTiming::None => return out,
            ServerTiming::Trusted if !self.down.client.peer_is_trusted => return out,
            ServerTiming::Trusted | ServerTiming::All => {}
        }
        let total = clock::loop_ns().saturating_sub(self.log.started_ns);
        let is_stored = matches!(self.log.cache, Some("hit" | "stale" | "revalidated"));
        if self.log.attempts == 0 && !is_stored {
            // The call was made by another exchange, whose times are not those of this client.
            out.extend_from_slice(b"Server-Timing: total");
            duration(&mut out, total);
            self.end_server_timing(&mut out);
            return out;
        }
        let (client, upstream, queue) = (self.stalls.client_ns(), self.stalls.upstream_ns(), self.log.queue_ns);
        let own = total.saturating_sub(client).saturating_sub(upstream).saturating_sub(queue);
        out.extend_from_slice(b"Server-Timing: gw");
        duration(&mut out, own);
        if self.log.attempts > 0 {
            out.extend_from_slice(b", upstream");
            duration(&mut out, upstream);
        }
        if queue > 0 {
            out.extend_from_slice(b", queue");
            duration(&mut out, queue);
        }
        self.end_server_timing(&mut out);
        out
    }

    fn end_server_timing(&self, out: &mut Vec<u8>) {
        if let Some(result) = self.log.cache {
            out.extend_from_slice(b", cache;desc=");
            out.extend_from_slice(result.as_bytes());
        }
        encode::end_field(out);
    }
}

/// `;dur=` in milliseconds, to the microsecond.
fn duration(out: &mut Vec<u8>, ns: u64) {
    let us = ns / 1000;
    write!(out, ";dur={}.{:03}", us / 1000, us % 1000).expect("a Vec takes what is written");
}
