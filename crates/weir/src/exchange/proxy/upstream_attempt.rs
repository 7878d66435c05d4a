//! One exchange on one connection of an upstream: the request goes out, the response comes back.

use std::time::Duration;

use h1::{BodyKind, HeadScanner, RequestHead, ResponseHead, Version, encode};

use super::super::cached::{self, Received};
use super::super::forward::write_interim_head;
use super::super::grpc::CallHead;
use super::super::mirror::MOST_RESPONSE;
use super::super::pump::Pump;
use super::super::trailers::Towards;
use super::super::upstream_exchange::{Timing, UpstreamExchange, UpstreamSide};
use super::super::{Exchange, SendState};
use super::call;
use super::failed::Failed;
use super::heads::{write_request_head, write_response_head};
use super::upgrade::{switch_protocols, upgrade_over_http2, wanted_upgrade};
use super::{Plan, moment};
use crate::error::{Error, Reason};
use crate::io::stream::Stream;
use crate::runtime::clock;
use crate::runtime::deadline::nanos;
use crate::streams::client_stream::ClientStream;
use crate::upstream::retry::may_repeat;
use crate::upstream::{FailureKind, Lease};

/// Interim responses that one exchange relays; an upstream that sends more is broken.
const MAX_INTERIM: u32 = 16;

/// Sends the request and relays the reply. `Ok` says whether the upstream's connection may carry another exchange.
pub(super) async fn upstream_attempt(
    x: &mut Exchange<'_>,
    plan: &Plan<'_>,
    lease: &mut Lease,
    up: &mut UpstreamSide,
    number: u32,
) -> Result<bool, Failed> {
    let keep = x.scratch.request.end;
    let limit = x.body_limit();
    if plan.forwards_trailers {
        let is_trusted = x.down.client.peer_is_trusted;
        let rules = plan.trailer_rules(x, Towards::Upstream { is_trusted });
        x.body.forward_trailers(rules);
    }
    if !x.body.restart(&mut x.down.buffer, keep, limit) {
        let error = Error::new(Reason::BadResponse, "the request body cannot be sent a second time");
        return Err(Failed { kind: None, ..Failed::new(error, false, false) });
    }
    let mut upgrade = wanted_upgrade(x, plan.action);
    if upgrade.is_some() && up.stream.http2_upstream().is_some() {
        upgrade = upgrade_over_http2(x, plan.action, upgrade).map_err(|error| Failed::new(error, false, false))?;
    }
    if plan.is_grpc {
        x.body.hold();
    }
    write_request_head(x, plan, lease, up, upgrade);
    if x.expects_continue() {
        send_continue(x).await.map_err(|error| Failed::new(error, false, false))?;
    }

    let per_try = plan.choice.timeouts.per_try;
    let timing = Timing {
        client_idle: plan.snapshot.config().server.body_idle_timeout,
        first_byte: plan.choice.timeouts.first_byte,
        idle: plan.choice.timeouts.idle,
        try_due: per_try.map_or(u64::MAX, |per_try| clock::loop_ns().saturating_add(nanos(per_try))),
        client_ns: x.stalls.client_ns(),
        total_due: plan.total_due,
    };
    let mut exchange =
        UpstreamExchange::new(&mut *x.down, up, &mut x.body, keep, &x.worker.buffers, timing, &mut x.stalls);
    let head = &mut x.scratch.response;
    let own_field = plan.own_field();
    let got_head = final_head(&mut exchange, head, &x.scratch.request, own_field).await;
    let sent = exchange.has_sent() && !exchange.up.stream.http2_upstream().is_some_and(ClientStream::is_unprocessed);
    let sent_at = exchange.sent_at;
    let request_sent = exchange.request_sent;
    let response_started = exchange.response_started;
    got_head.map_err(|error| Failed::of(x, error, sent, response_started))?;
    // A response that came while the client held its body back says nothing about the target's speed.
    if request_sent {
        let latency = clock::loop_ns().saturating_sub(sent_at);
        lease.first_byte(Duration::from_nanos(latency), moment());
    }

    let status = x.scratch.response.status;
    if let Some(kind) = FailureKind::of_status(status) {
        let mut failed = Failed::new(Reason::BadResponse.into(), true, true);
        failed.kind = Some(kind);
        failed.error = Error::new(Reason::Unavailable, "the upstream responded that it cannot serve");
        let tried = failed.as_attempt(x, kind.into());
        let is_granted = plan.view.may_retry(&tried, number, moment()).is_ok();
        failed.retry = Some(is_granted);
        let falls_back = plan.has_fallback && may_repeat(&tried, lease.spec().retry.on).is_ok();
        if is_granted || falls_back {
            return Err(failed);
        }
    }
    let grpc = plan.is_grpc.then(|| CallHead::read(&x.scratch.response, up.buffer.whole()));
    if let Some(grpc) = &grpc
        && let Some(failed) = call::repeats(x, plan, up, lease, grpc, number)
    {
        return Err(failed);
    }
    if x.down.stream.is_tunnel() && (200..300).contains(&status) {
        return Err(Failed::new(Error::new(Reason::BadResponse, "a success in place of a 101"), true, true));
    }
    if status == 101 {
        return Box::pin(switch_protocols(x, plan, lease, up, upgrade)).await.map(|()| false);
    }

    // On a route with a cache the reply may be kept, or stand for something that is kept.
    let received = plan.route.map(|route| cached::receive(x, plan.snapshot, route, &up.buffer));
    let mut keeping = match received.unwrap_or(Received::Forward) {
        Received::Forward => None,
        Received::Keep(keeping) => Some(keeping),
        Received::Kept(body) => {
            up.buffer.consume(body);
            note_upstream_time(x, sent_at, clock::now_ns());
            succeed(lease, status);
            return Ok(request_sent && x.scratch.response.keep_alive);
        }
        Received::Replaced => {
            succeed(lease, status);
            let is_empty = x.scratch.response.body == BodyKind::None;
            return Ok(is_empty && request_sent && x.scratch.response.keep_alive);
        }
        Received::Again => {
            let detail = "a 304 for another response than the stored one";
            return Err(Failed { kind: None, ..Failed::new(Error::new(Reason::BadResponse, detail), true, true) });
        }
        Received::Unwanted => return Err(Failed::new(Reason::ClientDisconnected.into(), true, true)),
    };

    if status >= 400 && keeping.is_none() && plan.route.is_some() && x.replace_error(status, up.buffer.whole()) {
        note_upstream_time(x, sent_at, clock::now_ns());
        succeed(lease, status);
        let is_empty = x.scratch.response.body == BodyKind::None;
        return Ok(is_empty && request_sent && x.scratch.response.keep_alive);
    }

    // The head says how long the connection lives, so what it depends on is decided now.
    x.close |= !x.body.has_read_all();
    let (framing, coder) = match keeping {
        None => write_response_head(x, plan, up, lease),
        Some(_) => (BodyKind::None, None),
    };
    let head_bytes = if keeping.is_none() { x.down.out.bytes.len() as u64 } else { 0 };
    x.start_response();
    let head = &x.scratch.response;
    // Nobody reads the response of a copy; one without end must not keep the worker busy.
    let most = (plan.route.is_none() && matches!(x.down.stream, Stream::Subrequest)).then_some(MOST_RESPONSE);
    let mut response = Pump::new(head.body, framing, most);
    response.code(coder);
    if plan.accepts_trailers && framing == BodyKind::Chunked {
        response.forward_trailers(plan.trailer_rules(x, Towards::Client));
        x.may_end_with_trailers = true;
    }
    let mut exchange =
        UpstreamExchange::new(&mut *x.down, up, &mut x.body, keep, &x.worker.buffers, timing, &mut x.stalls);
    exchange.request_sent = request_sent;
    exchange.sent_at = sent_at;
    let result = match &mut keeping {
        None => std::future::poll_fn(|cx| exchange.poll_body(cx, &mut response)).await,
        Some(keeping) => std::future::poll_fn(|cx| exchange.poll_keep(cx, keeping)).await,
    };
    let request_sent = exchange.request_sent;
    let done_ns = clock::now_ns();
    x.log.ended_ns = done_ns;
    x.log.response_bytes += head_bytes + response.sent_bytes();
    if let Some(coder) = response.coder() {
        x.worker.metrics.compressed(coder.coding(), response.bytes, response.sent_bytes());
    }
    if most.is_some_and(|most| response.bytes > most) {
        succeed(lease, status);
        return Ok(false);
    }
    result.map_err(|error| Failed::of(x, error, true, true))?;

    match keeping {
        None => x.send_state = SendState::Complete,
        Some(keeping) => {
            if let Some(route) = plan.route {
                cached::kept(x, plan.snapshot, route, *keeping);
            }
        }
    }
    note_upstream_time(x, sent_at, done_ns);
    match grpc {
        None => succeed(lease, status),
        Some(grpc) => {
            let end = grpc.end(response.trailers());
            x.log.grpc_status = Some(end.status);
            match FailureKind::of_grpc_status(end.status).filter(|_| end.is_told) {
                Some(kind) => lease.failure(kind, moment()),
                None => succeed(lease, status),
            }
        }
    }
    Ok(request_sent && x.scratch.response.keep_alive)
}

/// Time until the reply's last bytes were there, as the event loop saw them; the rest is the gateway's own.
fn note_upstream_time(x: &mut Exchange<'_>, sent_at: u64, done_ns: u64) {
    let last_read = clock::loop_ns().max(sent_at);
    x.log.upstream_ns = Some(last_read - sent_at);
    x.log.overhead_ns = Some(sent_at.saturating_sub(x.log.started_ns) + done_ns.saturating_sub(last_read));
}

/// The target responded; some statuses say that it cannot serve.
fn succeed(lease: &mut Lease, status: u16) {
    match FailureKind::of_status(status) {
        Some(kind) => lease.failure(kind, moment()),
        None => lease.success(moment()),
    }
}

/// Waits for the final head of the reply; interim ones are relayed on the way.
async fn final_head(
    exchange: &mut UpstreamExchange<'_>,
    head: &mut ResponseHead,
    request: &RequestHead,
    own_field: Option<&str>,
) -> Result<(), Error> {
    let limits = h1::Limits::default();
    let mut scanner = HeadScanner::for_response();
    let mut interim = 0;
    loop {
        std::future::poll_fn(|cx| exchange.poll_head(cx, &mut scanner, head, request.method, &limits)).await?;
        if !head.is_interim() {
            return Ok(());
        }
        if interim == MAX_INTERIM {
            return Err(Error::new(Reason::BadResponse, "too many interim responses"));
        }
        interim += 1;
        // 100 was for us, and a client of HTTP/1.0 knows no interim responses (RFC 9110 section 15.2).
        if head.status != 100 && request.version == Version::Http11 {
            write_interim_head(&mut exchange.down.out.bytes, exchange.up.buffer.whole(), head, own_field);
            exchange.down.flush().await.map_err(|_| Error::from(Reason::ClientDisconnected))?;
        }
    }
}

/// Tells the client to send its body, once.
pub(in super::super) async fn send_continue(x: &mut Exchange<'_>) -> Result<(), Error> {
    x.continued = true;
    x.down.out.bytes.extend_from_slice(encode::CONTINUE);
    x.down.deadline.set(x.snapshot.config().server.body_idle_timeout);
    x.down.flush().await.map_err(|_| Reason::ClientDisconnected.into())
}
