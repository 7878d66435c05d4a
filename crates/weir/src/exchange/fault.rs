//! Faults that are injected on purpose: requests that are held back, errors in place of responses.

use std::future::poll_fn;
use std::task::Poll;

use h1::encode;

use super::Exchange;
use crate::config::{InjectedFault, RouteId};
use crate::error::Error;
use crate::error::Reason;
use crate::http::response;
use crate::runtime::clock;
use crate::runtime::deadline::nanos;
use crate::worker::snapshot::Snapshot;

/// Marks what was injected.
const MARK: &[u8] = b"X-Weir-Fault";

/// Whether an event with this probability happens, by a random number.
pub(super) fn happens(share: f64, random: u64) -> bool {
    ((random >> 11) as f64) < share * (1_u64 << 53) as f64
}

impl Exchange<'_> {
    /// Injects the route's fault into the share of requests that get it. True: the client got its response.
    ///
    /// # Errors
    /// When the client does not wait for it.
    pub async fn inject(&mut self, snapshot: &Snapshot, route: RouteId, fault: &InjectedFault) -> Result<bool, Error> {
        if !happens(fault.share, self.worker.random()) {
            return Ok(false);
        }
        let counts = &snapshot.routes[route.0].faults;
        if let Some(delay) = fault.delay {
            if let Some(counts) = counts {
                counts.delayed();
            }
            encode::field(&mut self.scratch.response_lines, MARK, b"delay");
            self.stalls.change(super::stall::Stall::Gateway);
            self.down.deadline.set_at(clock::loop_ns().saturating_add(nanos(delay)));
            poll_fn(|cx| {
                if super::proxy::poll_client_disconnect(self, cx).is_ready() {
                    return Poll::Ready(Err(Error::from(Reason::ClientDisconnected)));
                }
                if self.down.deadline.poll_passed(cx) { Poll::Ready(Ok(())) } else { Poll::Pending }
            })
            .await?;
            self.down.deadline.set(None);
        }
        let Some(status) = fault.status else { return Ok(false) };
        if let Some(counts) = counts {
            counts.refused();
        }
        self.log.own = Some("The route injects a fault");
        let title = b"{\"type\":\"about:blank\",\"title\":\"The gateway injected this fault\",\"status\":";
        let mut body = title.to_vec();
        encode::decimal(&mut body, u64::from(status));
        body.extend_from_slice(b",\"error\":\"injected_fault\"}\n");
        let mut mark = Vec::new();
        encode::field(&mut mark, MARK, b"status");
        self.response(&response::Prepared::new(status, Some("application/problem+json"), &mark, &body)).await?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::happens;

    #[test]
    fn a_share_of_none_never_happens_and_a_share_of_all_always() {
        for random in [0, 1, u64::MAX / 2, u64::MAX] {
            assert!(!happens(0.0, random) && happens(1.0, random));
        }
        assert!(happens(0.5, u64::MAX / 4) && !happens(0.5, u64::MAX / 4 * 3));
    }
}
