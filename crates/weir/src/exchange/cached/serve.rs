//! Responses from the cache, whole or as they come.

use std::future::poll_fn;
use std::task::Poll;

use h1::{BodyKind, Method, Version, encode};

use crate::config::{CacheHeaders, RouteId};
use crate::error::{Error, Reason};
use crate::exchange::cached::coded;
use crate::exchange::delivery::{Delivery, Stopped};
use crate::exchange::{Exchange, SendState};
use crate::http::edits::write_connection;
use crate::policy::cache::RouteCache;
use crate::policy::cache::entry::{Entry, Head};
use crate::policy::cache::fill::Reader;
use crate::policy::cache::rules::delivery::{Delivery as Choice, choose};
use crate::policy::cache::rules::status::{self, Outcome};
use crate::policy::cache::rules::{CacheRequest, Class, Freshness, LiveLines, head};
use crate::policy::compress::Plan;
use crate::runtime::clock;
use crate::worker::snapshot::Snapshot;

/// What the gateway calls itself in `Cache-Status`.
const NAME: &[u8] = b"weir";

/// Responds from a whole entry.
pub(super) async fn serve(
    x: &mut Exchange<'_>,
    cache: &RouteCache,
    wanted: &CacheRequest,
    entry: &Entry,
    freshness: &Freshness,
    outcome: Outcome,
) -> Result<(), Error> {
    x.skip_body();
    let lines = LiveLines::new(&x.scratch.request.fields, x.down.buffer.whole());
    // A stored response to HEAD has no body, but knows the length of one.
    let length = match entry.head.class {
        Class::Head => entry.head.length,
        Class::Get | Class::Post => Some(entry.body().len() as u64),
    };
    let choice = choose(wanted, lines, freshness, entry.head.fields(), length.unwrap_or(0));
    let (coding, coded) = match &cache.compression {
        None => (Plan::Plain, None),
        Some(rules) => {
            let plan = coded::plan(x, rules, &entry.head, choice, length);
            coded::body(x, cache, rules, entry, plan).await
        }
    };
    let announced = match (coding, &coded) {
        (Plan::Coded(_), Some(coded)) => Some(coded.len() as u64),
        (Plan::Coded(_), None) => None,
        _ => length.and_then(|length| choice.content_length(freshness, length)),
    };
    let framing = announced.map_or(BodyKind::None, BodyKind::Length);
    write_head(x, cache, &entry.head, freshness, (choice, coding), (framing, length.unwrap_or(0)), outcome);
    let body = match choice {
        _ if x.scratch.request.method == Method::Head => &[],
        Choice::Whole if coded.is_some() => coded.as_deref().unwrap_or_default(),
        Choice::Whole => entry.body(),
        Choice::Part { first, last } => {
            let at = |position: u64| usize::try_from(position).unwrap_or(usize::MAX).min(entry.body().len());
            &entry.body()[at(first)..at(last.saturating_add(1))]
        }
        Choice::NotModified | Choice::Unsatisfiable => &[],
    };
    x.start_response();
    x.log.response_bytes += (x.down.out.bytes.len() + body.len()) as u64;
    let idle = x.snapshot.config().server.body_idle_timeout;
    x.down.send(body, idle).await.map_err(|_| Error::from(Reason::ClientDisconnected))?;
    x.send_state = SendState::Complete;
    Ok(())
}

/// Writes the head of a response whose body is still on its way.
pub(super) fn begin_delivery(
    x: &mut Exchange<'_>,
    cache: &RouteCache,
    wanted: &CacheRequest,
    head: &Head,
    reader: Reader,
    outcome: Outcome,
) -> Delivery {
    x.close |= !x.body.has_read_all();
    let lines = LiveLines::new(&x.scratch.request.fields, x.down.buffer.whole());
    // A request for a part neither leads nor follows: its own fields were passed on.
    let whole = CacheRequest { has_range: false, ..*wanted };
    let choice = choose(&whole, lines, &head.freshness, head.fields(), head.length.unwrap_or(0));
    let (coding, coder) = match &cache.compression {
        None => (Plan::Plain, None),
        Some(rules) => coded::streamed(x, rules, head, choice),
    };
    let known = head.length.filter(|_| !coding.is_coded());
    let framing = match (choice, known, x.scratch.request.version) {
        (Choice::Whole, Some(_), _) if head.freshness.status == 204 => BodyKind::None,
        (Choice::Whole, Some(length), _) => BodyKind::Length(length),
        (Choice::Whole, None, _) if head.class == Class::Head => BodyKind::None,
        (Choice::Whole, None, Version::Http11) => BodyKind::Chunked,
        (Choice::Whole, None, Version::Http10) => BodyKind::UntilClose,
        _ => BodyKind::None,
    };
    x.frame_by_close(framing);
    write_head(x, cache, head, &head.freshness, (choice, coding), (framing, head.length.unwrap_or(0)), outcome);
    x.start_response();
    x.log.response_bytes += x.down.out.bytes.len() as u64;
    let has_body = choice == Choice::Whole && x.scratch.request.method != Method::Head;
    Delivery::new(reader, framing, has_body, coder.filter(|_| has_body))
}

fn write_head(
    x: &mut Exchange<'_>,
    cache: &RouteCache,
    head: &Head,
    freshness: &Freshness,
    (choice, coding): (Choice, Plan),
    (framing, length): (BodyKind, u64),
    outcome: Outcome,
) {
    let status = choice.status(freshness);
    let timing = x.server_timing();
    let out = &mut x.down.out.bytes;
    encode::status_line(out, status, encode::reason(status).as_bytes());
    if coding == Plan::Plain {
        head::write_fields(head.lines(), choice, length, out);
    } else {
        let mut lines = Vec::new();
        head::write_fields(head.lines(), choice, length, &mut lines);
        coding.write_stored(out, &lines);
    }
    status::write(cache.policy.headers, outcome, Some(freshness), clock::unix_ms(), NAME, out);
    out.extend_from_slice(&x.scratch.response_lines);
    out.extend_from_slice(&timing);
    match framing {
        BodyKind::Length(length) => encode::content_length(out, length),
        BodyKind::Chunked => encode::chunked(out),
        BodyKind::None | BodyKind::UntilClose => {}
    }
    write_connection(out, x.scratch.request.version, x.close);
    encode::end_head(out);
    x.log.status = status;
}

/// Appends what the client of a response that is forwarded as it is learns of the cache.
pub(in crate::exchange) fn tell(out: &mut Vec<u8>, told: Option<Outcome>, snapshot: &Snapshot, route: RouteId) {
    if let (Some(outcome), Some(cache)) = (told, &snapshot.routes[route.0].cache) {
        // `X-Cache` is for what was cacheable.
        let headers = CacheHeaders { x_cache: false, ..cache.policy.headers };
        status::write(headers, outcome, None, clock::unix_ms(), NAME, out);
    }
}

/// Writes the rest of a response to the client.
pub(super) async fn deliver(x: &mut Exchange<'_>, mut delivery: Delivery) -> Result<(), Error> {
    let idle = x.snapshot.config().server.body_idle_timeout;
    let mut was_blocked = false;
    let result = poll_fn(|cx| {
        let mut progress = false;
        if let Poll::Ready(result) = delivery.poll(cx, x.down, false, &mut progress) {
            return Poll::Ready(result);
        }
        let is_blocked = delivery.is_blocked(&x.down.out);
        if progress || is_blocked != was_blocked {
            // While the client waits for the origin, only the deadline of the exchange that fetches counts.
            x.down.deadline.set(if is_blocked { idle } else { None });
            was_blocked = is_blocked;
        }
        let is_disconnected = if is_blocked {
            let stalled = delivery.poll_stalled(cx, x.down);
            if stalled == Some(false) {
                x.down.deadline.set(idle);
            }
            stalled == Some(true)
        } else {
            x.down.poll_disconnect(cx, &x.worker.buffers).is_ready()
        };
        if is_disconnected { Poll::Ready(Err(Stopped::Disconnected)) } else { Poll::Pending }
    })
    .await;
    delivery.count(x.worker);
    x.log.response_bytes += delivery.sent_bytes();
    match result {
        Ok(()) => {
            x.send_state = SendState::Complete;
            Ok(())
        }
        Err(Stopped::Disconnected) => Err(Reason::ClientDisconnected.into()),
        Err(Stopped::Broken) if delivery.is_cut() => Err(Error::new(
            Reason::ClientDisconnected,
            "others waited for this client, which read a shared fetch too slowly",
        )),
        Err(Stopped::Broken) => Err(Error::new(Reason::BodyTruncated, "the fetch that this request shared broke off")),
    }
}
