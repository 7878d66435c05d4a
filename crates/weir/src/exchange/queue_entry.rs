//! The place of a request in a queue: its class, its tenant, and what serving it costs.

use std::time::Duration;

use super::Exchange;
use super::checks::input;
use crate::config::UpstreamId;
use crate::runtime::clock;
use crate::upstream::QueueEntry;
use crate::worker::snapshot::Snapshot;
use auth::Priority;

/// A field by which clients lower the class of a request. What its key says is the highest.
const PRIORITY: &[u8] = b"x-weir-priority";

/// A call costs no more than this: one with an absurd number of tokens would otherwise put its tenant, and sums, beyond all others.
const MOST: u64 = 1 << 24;

/// Its turn at an upstream; the default one where the queue is first come, first served. `model` is the AI model that it calls, `cost` what serving it costs.
pub(super) fn queue_entry(
    x: &Exchange<'_>,
    snapshot: &Snapshot,
    upstream: UpstreamId,
    model: Option<&str>,
    total_due: u64,
    cost: impl FnOnce() -> u64,
) -> QueueEntry {
    let config = snapshot.config();
    let Some(fair) = config.upstreams[upstream.0].queue.as_ref().and_then(|queue| queue.fair.as_ref()) else {
        return QueueEntry::default();
    };
    let route = x.route.map_or("", |route| &*config.routes[route.0].name);
    let input = input(&x.scratch.request, x.down, x.identity.as_deref(), route, model);
    let fields = input.head.fields.iter().filter(|field| field.name.of_buf(input.buf).eq_ignore_ascii_case(PRIORITY));
    let lowered = fields.filter_map(|field| Priority::of_name(field.value.of_buf(input.buf))).max();
    let own = input.identity.map_or_else(Priority::default, |who| who.priority);
    QueueEntry {
        priority: lowered.map_or(own, |lowered| lowered.max(own)),
        tenant: snapshot.limits.shared.tenant(&fair.key, &input),
        cost: cost().clamp(1, MOST),
        left: (total_due < u64::MAX).then(|| Duration::from_nanos(total_due.saturating_sub(clock::loop_ns()))),
    }
}
