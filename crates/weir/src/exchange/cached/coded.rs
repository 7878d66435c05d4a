//! Stored responses in other codings: made once, when the first client takes one, and kept beside the response.

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use h1::Method;

use crate::config::Compression;
use crate::exchange::Exchange;
use crate::exchange::coded::{BYTES_AT_ONCE, Coder};
use crate::policy::cache::RouteCache;
use crate::policy::cache::entry::{Entry, Head};
use crate::policy::cache::rules::LiveLines;
use crate::policy::cache::rules::delivery::Delivery as Choice;
use crate::policy::cache::store::Slot;
use crate::policy::compress::Plan;

/// Decides whether the client gets a stored response compressed.
#[cold]
pub(super) fn plan(x: &Exchange<'_>, rules: &Compression, head: &Head, choice: Choice, length: Option<u64>) -> Plan {
    let wanted = LiveLines::new(&x.scratch.request.fields, x.down.buffer.whole());
    let plan = Plan::of_lines(
        rules,
        wanted,
        head.freshness.status,
        crate::policy::cache::rules::StoredLines(head.lines()),
        length,
    );
    match choice {
        Choice::Whole => plan,
        Choice::NotModified => plan.confirming(),
        // Parts are those of the body as it is stored.
        Choice::Part { .. } | Choice::Unsatisfiable => {
            if plan == Plan::Plain {
                plan
            } else {
                Plan::Varies
            }
        }
    }
}

/// The body of a plan, and the plan where it comes to nothing.
pub(super) async fn body(
    x: &mut Exchange<'_>,
    cache: &RouteCache,
    rules: &Compression,
    entry: &Entry,
    plan: Plan,
) -> (Plan, Option<Bytes>) {
    let Plan::Coded(coding) = plan else { return (plan, None) };
    let is_head = x.scratch.request.method == Method::Head;
    let coded = match entry.coded(coding) {
        Some(coded) => coded,
        // A HEAD request alone is no reason to compress a body.
        None if is_head => return (plan, None),
        None => Box::pin(make(x, cache, rules, entry, coding)).await,
    };
    match coded {
        Some(_) if is_head => (plan, None),
        Some(coded) => (plan, Some(coded)),
        None => (Plan::Varies, None),
    }
}

/// Codes a stored body, a piece per turn. `None` if it does not get shorter, or somebody else does it: this client then gets it as it is.
async fn make(
    x: &mut Exchange<'_>,
    cache: &RouteCache,
    rules: &Compression,
    entry: &Entry,
    coding: ::compress::Coding,
) -> Option<Bytes> {
    let making = entry.begin_coding(coding)?;
    let body = entry.body();
    let Some((mut encoder, _held)) = x.worker.coding_memory.encoder(rules, coding, Some(body.len() as u64)) else {
        x.worker.metrics.not_compressed();
        return None;
    };
    let mut coded = Vec::new();
    for piece in body.chunks(BYTES_AT_ONCE) {
        encoder.push(piece, &mut coded).ok()?;
        if coded.len() >= body.len() {
            break;
        }
        next_iteration().await;
    }
    if coded.len() < body.len() {
        encoder.finish(&mut coded).ok()?;
    }
    let coded = (coded.len() < body.len()).then(|| Bytes::from(coded.into_boxed_slice()));
    making.done(coded.clone());
    if let Some(coded) = &coded {
        x.worker.metrics.compressed(coding, body.len() as u64, coded.len() as u64);
        // Filed once more, so that the store weighs it anew.
        cache.cache.state.memory.update(&entry.head.key, |slot| match slot {
            Some(Slot::Response(found)) if found.is(entry) => Some(Slot::Response(found.weighed())),
            _ => None,
        });
    }
    coded
}

/// Lets others of the worker go first.
async fn next_iteration() {
    let mut is_first = true;
    poll_fn(|cx| {
        if !std::mem::take(&mut is_first) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The same for a response whose body is still being read: it is coded for this client alone.
#[cold]
pub(super) fn streamed(
    x: &Exchange<'_>,
    rules: &Compression,
    head: &Head,
    choice: Choice,
) -> (Plan, Option<Box<Coder>>) {
    let plan = plan(x, rules, head, choice, head.length);
    let Plan::Coded(coding) = plan else { return (plan, None) };
    if x.scratch.request.method == Method::Head {
        return (plan, None);
    }
    match x.worker.coding_memory.encoder(rules, coding, head.length) {
        Some(encoder) => (plan, Some(Box::new(Coder::new(encoder)))),
        None => {
            x.worker.metrics.not_compressed();
            (Plan::Varies, None)
        }
    }
}
