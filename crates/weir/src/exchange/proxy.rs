//! Forwarding: which upstream, which target, which connection, and what to do when one of them fails.

use std::fmt::Write;
use std::net::IpAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use h1::{BodyKind, HeadScanner, Known, RequestHead, ResponseHead, Version, encode};

use super::affinity;
use super::cached::{self, Received};
use super::coded::Coder;
use super::conversation::{Conversation, Timing, UpstreamSide};
use super::forward::{ToClient, ToUpstream, is_edited, write_interim_head, write_upgrade_head};
use super::mirror::MOST_RESPONSE;
use super::pump::Pump;
use super::stall::Stall;
use super::stream::{Outgoing, Stream};
use super::trailers::{Towards, TrailerRules};
use super::way::{Reached, Way};
use super::{Answer, Exchange, changed, grpc, tunnel};
use crate::config::{Balance, Compression, Edits, HashKey, HeaderEdits, Proxy, Rewrite, RouteId, Split, UpstreamId};
use crate::error::{Error, Fault, Reason};
use crate::observe::UpstreamMetrics;
use crate::policy::auth::RouteEdits;
use crate::policy::cache::rules::LiveLines;
use crate::policy::compress;
use crate::route::path::Target;
use crate::route::rewrite::upstream_target;
use crate::route::split::{self, Sender};
use crate::server::clock;
use crate::server::deadline::nanos;
use crate::server::snapshot::{Choice, Snapshot};
use crate::upstream::http2::ClientStream;
use crate::upstream::retry::{Attempt, may_repeat};
use crate::upstream::{FailureKind, Lease, Moment, Pick, Request, View, WaitError, hash_key};

/// Interim answers that one exchange relays; an upstream that sends more is broken.
const MAX_INTERIM: u32 = 16;

/// A way to upstreams: a route's, or that of a request which the gateway makes by itself.
pub(super) struct Leg<'a> {
    /// The route; none for a request of the gateway's own.
    pub(super) route: Option<RouteId>,
    /// Upstreams in the order in which they are tried.
    pub(super) choices: &'a [Choice],
    /// Edits of both heads.
    pub(super) edits: &'a HeaderEdits,
    /// What is removed of credentials.
    pub(super) auth_edits: &'a RouteEdits,
}

/// One way to one upstream.
struct Plan<'a> {
    snapshot: &'a Snapshot,
    route: Option<RouteId>,
    auth_edits: &'a RouteEdits,
    action: &'a Proxy,
    edits: &'a HeaderEdits,
    choice: &'a Choice,
    view: &'a View,
    metrics: &'a UpstreamMetrics,
    /// Whether another upstream could be tried after this one.
    has_fallback: bool,
    /// End of the exchange's patience, in nanoseconds since process start.
    total_due: u64,
    /// When the client of a gRPC call stops to wait for it.
    grpc_due: Option<u64>,
    /// Whether trailers pass, in both directions.
    forwards_trailers: bool,
    /// Whether the client takes them.
    accepts_trailers: bool,
}

impl Plan<'_> {
    /// Name of the field that the gateway writes into responses in place of the upstream's.
    fn own_field(&self) -> Option<&str> {
        let config = self.snapshot.config();
        config.server.returns_request_id.then_some(&*config.request_id)
    }

    /// What trailers pass.
    fn trailer_rules(&self, x: &Exchange<'_>, towards: Towards) -> TrailerRules {
        TrailerRules { snapshot: x.snapshot.clone(), route: self.route, towards }
    }
}

/// An attempt that did not lead to an answer.
struct Failed {
    error: Error,
    /// What it means for the target; `None` when it is not the target's fault.
    kind: Option<FailureKind>,
    /// Whether a byte of the request was handed to the kernel.
    sent: bool,
    /// Whether a byte of a reply was read.
    reply_started: bool,
    /// Whether a retry was asked for and granted already.
    retry_granted: bool,
}

impl Failed {
    fn new(error: Error, sent: bool, reply_started: bool) -> Self {
        Failed { error, kind: kind_of(error.reason), sent, reply_started, retry_granted: false }
    }

    /// A failure that counts against the target only if the target kept the exchange waiting: not when the total timeout passed for other
    /// reasons, and not when it closed its connection while the client kept back the rest of the request.
    fn of(x: &mut Exchange<'_>, error: Error, sent: bool, reply_started: bool) -> Self {
        let mut failed = Failed::new(error, sent, reply_started);
        let is_shared = match error.reason {
            // How little time a client gives its call says nothing about the target.
            Reason::TotalTimeout if x.has_own_deadline => {
                failed.kind = None;
                return failed;
            }
            Reason::TotalTimeout => true,
            Reason::UpstreamReset => !x.body.has_read_all(),
            _ => false,
        };
        if is_shared && x.stalls.larger_fault() != Fault::Upstream {
            failed.kind = None;
        }
        failed
    }

    fn as_attempt(&self, x: &Exchange<'_>, kind: FailureKind) -> Attempt {
        Attempt {
            failure: kind,
            idempotent: x.scratch.request.method.is_idempotent(),
            sent: self.sent,
            body_replayable: x.body.is_replayable(),
            reply_started: self.reply_started,
        }
    }
}

/// Forwards the request to the route's upstream, or to those that stand in for it.
///
/// # Errors
/// Why there is no complete answer.
pub async fn run(x: &mut Exchange<'_>, snapshot: &Snapshot, route: RouteId, action: &Proxy) -> Result<(), Error> {
    let state = &snapshot.routes[route.0];
    let leg = Leg {
        route: Some(route),
        choices: &state.choices,
        edits: &snapshot.config().routes[route.0].headers,
        auth_edits: &state.auth_edits,
    };
    run_leg(x, snapshot, &leg, action).await
}

/// Forwards the request to the first upstream of a way that serves it.
///
/// # Errors
/// Why there is no complete response.
pub(super) async fn run_leg(
    x: &mut Exchange<'_>,
    snapshot: &Snapshot,
    leg: &Leg<'_>,
    action: &Proxy,
) -> Result<(), Error> {
    let choices = leg.choices;
    let buf = x.down.buffer.whole();
    let is_grpc = grpc::is_call(&x.scratch.request, buf);
    let forwards_trailers = is_grpc || action.forwards_trailers;
    let accepts_trailers = forwards_trailers && grpc::accepts_trailers(&x.scratch.request, buf);
    let timeout = if is_grpc { grpc::timeout_ns(&x.scratch.request, buf) } else { None };
    let grpc_due = timeout.map(|timeout| x.log.started_ns.saturating_add(timeout));
    let mut last = Error::from(Reason::Unavailable);
    let (first, members) = action.split.as_ref().map_or((0, 1), |split| (pick_member(x, split), split.members.len()));
    // A fallback that was the first choice has failed already.
    let fallbacks = (members..choices.len()).filter(|&other| choices[other].upstream != choices[first].upstream);
    let mut order = std::iter::once(first).chain(fallbacks).peekable();
    while let Some(position) = order.next() {
        let choice = &choices[position];
        x.log.slot = position + 1;
        x.log.fell_back = position >= members;
        if x.log.fell_back {
            snapshot.upstream_metrics[choices[first].upstream.0].fallback();
        }
        let total = choice.timeouts.total;
        let total_due = total.map_or(u64::MAX, |total| x.log.started_ns.saturating_add(nanos(total)));
        x.has_own_deadline = grpc_due.is_some_and(|due| due <= total_due);
        let plan = Plan {
            snapshot,
            route: leg.route,
            auth_edits: leg.auth_edits,
            action,
            edits: leg.edits,
            choice,
            view: snapshot.views.get(choice.upstream),
            metrics: &snapshot.upstream_metrics[choice.upstream.0],
            has_fallback: order.peek().is_some(),
            total_due: total_due.min(grpc_due.unwrap_or(u64::MAX)),
            grpc_due,
            forwards_trailers,
            accepts_trailers,
        };
        match try_upstream(x, &plan).await {
            Ok(()) => {
                let due = plan.total_due;
                return match x.replaced.take() {
                    None => Ok(()),
                    Some(replaced) => Box::pin(x.send_page_for(*replaced, due)).await,
                };
            }
            Err((error, may_fall_back)) => {
                if error.reason.fault() == Fault::Upstream {
                    plan.metrics.error(error.reason);
                }
                last = error;
                if !may_fall_back {
                    break;
                }
            }
        }
    }
    Err(last)
}

/// The upstream of a split that takes the request.
fn pick_member(x: &Exchange<'_>, split: &Split) -> usize {
    let Some(by) = &split.by else { return split.member_at(x.worker.random()) };
    let (fields, buf) = (&x.scratch.request.fields, x.down.buffer.whole());
    let consumer = x.identity.as_deref().and_then(|who| who.consumer.as_deref());
    let sender = Sender { address: x.down.client.address, consumer };
    split.member_at(split::point(by, sender, |name| {
        let is_named = move |name_in_head: &[u8]| name_in_head.eq_ignore_ascii_case(name.as_bytes());
        let named = fields.iter().filter(move |field| is_named(field.name.of_buf(buf)));
        named.map(|field| field.value.of_buf(buf))
    }))
}

/// Makes attempts at one upstream until one leads to an answer, or no further one is allowed. An error comes with whether another
/// upstream may be tried.
async fn try_upstream(x: &mut Exchange<'_>, plan: &Plan<'_>) -> Result<(), (Error, bool)> {
    let hash = if plan.choice.is_hashed { Some(hash_of(x, plan.snapshot, plan.choice.upstream)) } else { None };
    let wanted = plan.choice.cookie.as_deref().and_then(|cookie| affinity::wanted(x, cookie));
    x.scratch.tried.clear();
    let mut attempts = 0;
    loop {
        let mut lease = match plan.view.pick(&Request { hash, wanted, tried: &x.scratch.tried }, moment()) {
            Pick::Target(lease) => lease,
            // Only a controller makes upstreams without targets: for backends that it cannot find.
            Pick::Unavailable if plan.snapshot.config().upstreams[plan.choice.upstream.0].targets.is_empty() => {
                return Err((Reason::InvalidBackend.into(), false));
            }
            Pick::Unavailable => return Err((Reason::Unavailable.into(), true)),
            Pick::Busy => {
                x.stalls.change(Stall::Gateway);
                wait(x, plan.view.wait(), plan.total_due).await?
            }
        };
        attempts += 1;
        x.log.attempts += 1;
        if x.worker.log.borrow().is_some() {
            x.scratch.logged_target.clear();
            // Writing to a string cannot fail.
            let _ = write!(x.scratch.logged_target, "{}", lease.target().address());
        }
        let client_ns = x.stalls.client_ns();
        if x.scratch.trace.own().is_some() {
            x.scratch.trace.begin_attempt(x.worker.random(), lease.target().address().socket(), clock::turn_ns());
        }
        let failed = match attempt(x, plan, &mut lease, attempts).await {
            Ok(()) => {
                x.scratch.trace.end_attempt(x.scratch.response.status, None, clock::turn_ns());
                return Ok(());
            }
            Err(failed) => failed,
        };
        let (status, error) = match failed.kind.and_then(FailureKind::status) {
            Some(status) => (status, None),
            None => (0, Some(failed.error.reason.label())),
        };
        x.scratch.trace.end_attempt(status, error, clock::turn_ns());
        let Some(kind) = failed.kind else { return Err((failed.error, false)) };
        lease.excuse(Duration::from_nanos(x.stalls.client_ns().saturating_sub(client_ns)));
        lease.failure(kind, moment());
        if x.answer != Answer::None {
            return Err((failed.error, false));
        }
        let tried = failed.as_attempt(x, kind);
        if failed.retry_granted || plan.view.may_retry(&tried, attempts, moment()).is_ok() {
            plan.metrics.retried();
            x.scratch.tried.push(lease.target().id());
        } else {
            return Err((failed.error, may_repeat(&tried, lease.spec().retry.on).is_ok()));
        }
    }
}

/// Waits in the upstream's queue, as long as the client does.
pub(super) async fn wait(
    x: &mut Exchange<'_>,
    place: impl Future<Output = Result<Lease, WaitError>>,
    total_due: u64,
) -> Result<Lease, (Error, bool)> {
    x.down.deadline.set_at(total_due);
    let mut place = std::pin::pin!(place);
    std::future::poll_fn(|cx| {
        if let Poll::Ready(result) = place.as_mut().poll(cx) {
            return Poll::Ready(result.map_err(|error| match error {
                WaitError::QueueFull => (Reason::QueueFull.into(), true),
                WaitError::TimedOut => (Reason::QueueTimeout.into(), true),
                WaitError::Unavailable => (Reason::Unavailable.into(), true),
            }));
        }
        if x.down.deadline.poll_passed(cx) {
            return Poll::Ready(Err((Reason::TotalTimeout.into(), false)));
        }
        poll_client_gone(x, cx).map(|()| Err((Reason::ClientGone.into(), false)))
    })
    .await
}

/// Ready when the client went away while it has nothing more to say. A body on its way is left where it is: it would fill the
/// buffer, and shows neither that the client is there nor that it has gone. For AI traffic all of it was read before.
pub(super) fn poll_client_gone(x: &mut Exchange<'_>, cx: &mut Context<'_>) -> Poll<()> {
    if x.down.stream.is_reset() {
        return Poll::Ready(());
    }
    if x.scratch.request.body == BodyKind::None || x.ai.is_some() { x.down.poll_gone(cx) } else { Poll::Pending }
}

/// One attempt at one target: a pooled connection or a new one, and the exchange on it.
async fn attempt(x: &mut Exchange<'_>, plan: &Plan<'_>, lease: &mut Lease, number: u32) -> Result<(), Failed> {
    let target = lease.target().id();
    let mut may_reuse = true;
    loop {
        let way = Way { metrics: plan.metrics, timeout: plan.choice.timeouts.connect, total_due: plan.total_due };
        let found = way.stream_to(x, lease, may_reuse).await;
        let Reached { stream, life, carries, is_reused } = found.map_err(|error| Failed::of(x, error, false, false))?;
        let out = Outgoing::with(std::mem::take(&mut x.scratch.to_upstream));
        let mut up = UpstreamSide { stream, buffer: x.worker.buffers.small(), out };
        let result = converse(x, plan, lease, &mut up, number).await;
        let UpstreamSide { stream, buffer, out } = up;
        x.scratch.to_upstream = out.into_bytes();
        let is_clean = buffer.is_empty();
        x.worker.buffers.put_back(buffer);
        match result {
            // Rule 16 of the safety rules: whole request sent, whole reply read, both sides willing, nothing left over.
            Ok(reusable) => {
                if reusable && is_clean && !x.worker.draining.get() && stream.http2_upstream().is_none() {
                    x.worker.pool.put(target, stream, life, carries, lease.spec().keep_alive, clock::turn_ns());
                }
                return Ok(());
            }
            // An idle connection may be closed by its upstream at any time. That says nothing about the target, and what was sent on it
            // was most likely never read: an idempotent request gets a fresh connection to the same target.
            Err(failed)
                if may_reuse
                    && is_reused
                    && is_stale(x, &failed)
                    && !stream.http2_upstream().is_some_and(ClientStream::is_refused) =>
            {
                plan.metrics.connection_discarded();
                may_reuse = false;
            }
            Err(failed) => return Err(failed),
        }
    }
}

fn is_stale(x: &Exchange<'_>, failed: &Failed) -> bool {
    failed.kind == Some(FailureKind::Reset)
        && !failed.reply_started
        && x.body.is_replayable()
        && (x.scratch.request.method.is_idempotent() || !failed.sent)
}

/// Sends the request and relays the reply. `Ok` says whether the upstream's connection may carry another exchange.
async fn converse(
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
    // HTTP/2 has no upgrades; a request for one is an ordinary request there.
    let upgrade = wanted_upgrade(x, plan.action).filter(|_| up.stream.http2_upstream().is_none());
    write_request_head(x, plan, lease, up, upgrade);
    if x.expects_continue() {
        send_continue(x).await.map_err(|error| Failed::new(error, false, false))?;
    }

    let per_try = plan.choice.timeouts.per_try;
    let timing = Timing {
        client_idle: plan.snapshot.config().server.body_idle_timeout,
        first_byte: plan.choice.timeouts.first_byte,
        idle: plan.choice.timeouts.idle,
        try_due: per_try.map_or(u64::MAX, |per_try| clock::turn_ns().saturating_add(nanos(per_try))),
        client_ns: x.stalls.client_ns(),
        total_due: plan.total_due,
    };
    let mut talk = Conversation::new(&mut *x.down, up, &mut x.body, keep, &x.worker.buffers, timing, &mut x.stalls);
    let head = &mut x.scratch.response;
    let own_field = plan.own_field();
    let got_head = final_head(&mut talk, head, &x.scratch.request, own_field).await;
    let sent = talk.has_sent() && !talk.up.stream.http2_upstream().is_some_and(ClientStream::is_unprocessed);
    let sent_at = talk.sent_at;
    let request_sent = talk.request_sent;
    let reply_started = talk.reply_started;
    got_head.map_err(|error| Failed::of(x, error, sent, reply_started))?;
    // A response that came while the client held its body back says nothing about the target's speed.
    if request_sent {
        let latency = clock::turn_ns().saturating_sub(sent_at);
        lease.first_byte(Duration::from_nanos(latency), moment());
    }

    let status = x.scratch.response.status;
    if let Some(kind) = FailureKind::of_status(status) {
        let mut failed = Failed::new(Reason::BadResponse.into(), true, true);
        failed.kind = Some(kind);
        failed.error = Error::new(Reason::Unavailable, "the upstream responded that it cannot serve");
        let tried = failed.as_attempt(x, kind);
        failed.retry_granted = plan.view.may_retry(&tried, number, moment()).is_ok();
        let falls_back = plan.has_fallback && may_repeat(&tried, lease.spec().retry.on).is_ok();
        if failed.retry_granted || falls_back {
            return Err(failed);
        }
    }
    if status == 101 {
        return switch_protocols(x, plan, lease, up, upgrade.is_some()).await.map(|()| false);
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
        Received::Unwanted => return Err(Failed::new(Reason::ClientGone.into(), true, true)),
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
    x.begin_answer();
    let head = &x.scratch.response;
    // Nobody reads the response of a copy; one without end must not keep the worker busy.
    let most = (plan.route.is_none() && matches!(x.down.stream, Stream::Subrequest)).then_some(MOST_RESPONSE);
    let mut response = Pump::new(head.body, framing, most);
    response.code(coder);
    if plan.accepts_trailers && framing == BodyKind::Chunked {
        response.forward_trailers(plan.trailer_rules(x, Towards::Client));
        x.may_end_with_trailers = true;
    }
    let mut talk = Conversation::new(&mut *x.down, up, &mut x.body, keep, &x.worker.buffers, timing, &mut x.stalls);
    talk.request_sent = request_sent;
    talk.sent_at = sent_at;
    let result = match &mut keeping {
        None => std::future::poll_fn(|cx| talk.poll_body(cx, &mut response)).await,
        Some(keeping) => std::future::poll_fn(|cx| talk.poll_keep(cx, keeping)).await,
    };
    let request_sent = talk.request_sent;
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
        None => x.answer = Answer::Complete,
        Some(keeping) => {
            if let Some(route) = plan.route {
                cached::kept(x, plan.snapshot, route, *keeping);
            }
        }
    }
    note_upstream_time(x, sent_at, done_ns);
    succeed(lease, status);
    Ok(request_sent && x.scratch.response.keep_alive)
}

/// Time until the reply's last bytes were there, as the event loop saw them; the rest is the gateway's own.
fn note_upstream_time(x: &mut Exchange<'_>, sent_at: u64, done_ns: u64) {
    let last_read = clock::turn_ns().max(sent_at);
    x.log.upstream_ns = Some(last_read - sent_at);
    x.log.overhead_ns = Some(sent_at.saturating_sub(x.log.started_ns) + done_ns.saturating_sub(last_read));
}

/// The target answered; some statuses say that it cannot serve.
fn succeed(lease: &mut Lease, status: u16) {
    match FailureKind::of_status(status) {
        Some(kind) => lease.failure(kind, moment()),
        None => lease.success(moment()),
    }
}

/// Waits for the final head of the reply; interim ones are relayed on the way.
async fn final_head(
    talk: &mut Conversation<'_>,
    head: &mut ResponseHead,
    request: &RequestHead,
    own_field: Option<&str>,
) -> Result<(), Error> {
    let limits = h1::Limits::default();
    let mut scanner = HeadScanner::for_response();
    let mut interim = 0;
    loop {
        std::future::poll_fn(|cx| talk.poll_head(cx, &mut scanner, head, request.method, &limits)).await?;
        if !head.is_interim() {
            return Ok(());
        }
        if interim == MAX_INTERIM {
            return Err(Error::new(Reason::BadResponse, "too many interim responses"));
        }
        interim += 1;
        // 100 was for us, and a client of HTTP/1.0 knows no interim answers (RFC 9110 section 15.2).
        if head.status != 100 && request.version == Version::Http11 {
            write_interim_head(&mut talk.down.out.bytes, talk.up.buffer.whole(), head, own_field);
            talk.down.flush().await.map_err(|_| Error::from(Reason::ClientGone))?;
        }
    }
}

/// Asks the client for its body, once.
pub(super) async fn send_continue(x: &mut Exchange<'_>) -> Result<(), Error> {
    x.continued = true;
    x.down.out.bytes.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
    x.down.deadline.set(x.snapshot.config().server.body_idle_timeout);
    x.down.flush().await.map_err(|_| Reason::ClientGone.into())
}

/// The protocol to ask for, if the client wants one that the route allows.
fn wanted_upgrade(x: &Exchange<'_>, action: &Proxy) -> Option<usize> {
    let request = &x.scratch.request;
    if !request.upgrade || action.upgrade.is_empty() || request.body != BodyKind::None {
        return None;
    }
    let wanted = request.fields.first(Known::Upgrade, x.down.buffer.whole())?;
    action.upgrade.iter().position(|allowed| wanted.eq_ignore_ascii_case(allowed.as_bytes()))
}

fn write_request_head(
    x: &mut Exchange<'_>,
    plan: &Plan<'_>,
    lease: &Lease,
    up: &mut UpstreamSide,
    upgrade: Option<usize>,
) {
    x.ensure_request_id();
    x.write_variable_lines(&plan.edits.request.templates);
    let buf = x.down.buffer.whole();
    let head = &x.scratch.request;
    let target = lease.target();
    let query = changed::query(x.changed.as_deref(), head, buf);
    let conditions = x.cache.lead.as_mut().and_then(|lead| lead.conditions());
    let trace = x.scratch.trace.lines();
    let is_as_routed = query.is_none() && plan.action.rewrite == Rewrite::None && target.base_path().is_empty();
    if !is_as_routed {
        x.scratch.target.clear();
        let forwarded = Target { path: &x.scratch.path, query };
        upstream_target(&mut x.scratch.target, target.base_path(), &plan.action.rewrite, x.found, forwarded);
    }
    let host = match (&plan.action.host, head.authority, target.authority()) {
        (Some(host), _, _) => host.as_bytes(),
        (None, Some(authority), _) => authority.of_buf(buf),
        // Only HTTP/1.0 comes without a host.
        (None, None, Some(authority)) => authority.as_bytes(),
        (None, None, None) => b"localhost",
    };
    ToUpstream {
        buf,
        head,
        target: if is_as_routed { &x.scratch.path } else { &x.scratch.target },
        host,
        client: &x.down.client,
        request_id: (&plan.snapshot.config().request_id, &x.scratch.request_id),
        trace,
        auth: (plan.auth_edits, &plan.snapshot.auth.shared().forged),
        identity: &x.scratch.identity_lines,
        variables: &x.scratch.variable_lines,
        edits: &plan.edits.request,
        upgrade: upgrade.map(|index| plan.action.upgrade[index].as_bytes()),
        body: head.body,
        accepts_trailers: plan.accepts_trailers,
        grpc_timeout: plan.grpc_due.map(|due| due.saturating_sub(clock::turn_ns())),
        conditions: conditions.as_deref(),
    }
    .write(&mut up.out.bytes);
}

/// Writes the reply's head for the client; returns how the body goes out, and what codes it.
fn write_response_head(
    x: &mut Exchange<'_>,
    plan: &Plan<'_>,
    up: &UpstreamSide,
    lease: &Lease,
) -> (BodyKind, Option<Box<Coder>>) {
    let compression = plan.route.and_then(|route| plan.snapshot.config().routes[route.0].compress.as_deref());
    let (coding, coder) = match compression {
        None => (compress::Plan::Plain, None),
        Some(rules) => plan_coding(x, rules, up),
    };
    let cookie = plan.choice.cookie.as_deref().and_then(|cookie| affinity::set_cookie(x, cookie, lease));
    let version = x.scratch.request.version;
    let mut head = ToClient {
        buf: up.buffer.whole(),
        head: &x.scratch.response,
        edits: &plan.edits.response,
        own_field: plan.own_field(),
        version,
        close: false,
        is_coded: coding.is_coded(),
    };
    let framing = head.framing();
    x.close |= framing == BodyKind::UntilClose;
    head.close = x.close;
    let out = &mut x.down.out.bytes;
    if coding == compress::Plan::Plain {
        head.write(out);
    } else {
        head.write_without(out, |field| coding.drops(field.known, field.name.of_buf(head.buf)));
        let edits = &plan.edits.response;
        let is_edited = |name: &[u8]| *edits != Edits::default() && is_edited(edits, name);
        coding.write(out, LiveLines::new(&x.scratch.response.fields, head.buf), is_edited);
    }
    if x.log.fell_back {
        encode::field(out, b"X-Fallback", lease.spec().name.as_bytes());
    }
    x.log.status = x.scratch.response.status;
    out.extend_from_slice(&x.scratch.answer_lines);
    // Another client would get a page for it.
    if x.log.status >= 400 && plan.route.is_some() && x.replaces_error(x.log.status) {
        encode::field(&mut x.down.out.bytes, b"Vary", b"Accept");
    }
    let out = &mut x.down.out.bytes;
    if let Some(cookie) = &cookie {
        encode::field(out, b"Set-Cookie", cookie);
    }
    if let Some(route) = plan.route {
        cached::tell(out, x.cache.told, plan.snapshot, route);
    }
    head.end(out);
    x.frame_by_close(framing);
    (framing, coder)
}

/// Decides whether the response is compressed.
#[cold]
fn plan_coding(x: &Exchange<'_>, rules: &Compression, up: &UpstreamSide) -> (compress::Plan, Option<Box<Coder>>) {
    let (request, response) = (&x.scratch.request, &x.scratch.response);
    let plan = compress::Plan::new(rules, (request, x.down.buffer.whole()), (response, up.buffer.whole()));
    let compress::Plan::Coded(coding) = plan else { return (plan, None) };
    let length = match response.body {
        BodyKind::None => return (plan, None),
        BodyKind::Length(length) => Some(length),
        BodyKind::Chunked | BodyKind::UntilClose => None,
    };
    match x.worker.coding_memory.encoder(rules, coding, length) {
        Some(encoder) => (plan, Some(Box::new(Coder::new(encoder)))),
        None => {
            x.worker.metrics.not_compressed();
            (compress::Plan::Varies, None)
        }
    }
}

/// The upstream agreed to another protocol: from here on the connection is a tunnel, and never again HTTP.
async fn switch_protocols(
    x: &mut Exchange<'_>,
    plan: &Plan<'_>,
    lease: &mut Lease,
    up: &mut UpstreamSide,
    asked: bool,
) -> Result<(), Failed> {
    if !asked {
        return Err(Failed::new(Error::new(Reason::BadResponse, "101 without an upgrade"), true, true));
    }
    let protocol = x.scratch.response.fields.first(Known::Upgrade, up.buffer.whole()).unwrap_or_default();
    let out = &mut x.down.out.bytes;
    let own = plan.own_field().map(|name| (name, &*x.scratch.request_id));
    write_upgrade_head(out, up.buffer.whole(), &x.scratch.response, protocol, own);
    x.log.response_bytes += out.len() as u64;
    x.begin_answer();
    x.log.status = 101;
    x.close = true;
    x.down.flush().await.map_err(|_| Failed::new(Reason::ClientGone.into(), true, true))?;
    lease.success(moment());
    let keep = x.scratch.request.end;
    let moved = tunnel::run(x.down, up, keep, &x.worker.buffers, plan.choice.timeouts.tunnel_idle).await;
    x.log.tunnelled_bytes += moved.up;
    x.log.response_bytes += moved.down;
    x.answer = Answer::Complete;
    Ok(())
}

/// What a consistent hash is taken of.
pub(super) fn hash_of(x: &Exchange<'_>, snapshot: &Snapshot, upstream: UpstreamId) -> u64 {
    let buf = x.down.buffer.whole();
    let by_client = || match x.down.client.address {
        IpAddr::V4(address) => hash_key(&address.octets()),
        IpAddr::V6(address) => hash_key(&address.octets()),
    };
    match &snapshot.config().upstreams[upstream.0].balance {
        Balance::Hash(HashKey::Header(name)) => {
            x.scratch.request.fields.get(name.as_bytes(), buf).map_or_else(by_client, hash_key)
        }
        Balance::Hash(HashKey::Path) => hash_key(&x.scratch.path),
        _ => by_client(),
    }
}

/// The moment of the event loop's last turn.
pub(super) fn moment() -> Moment {
    Moment::from_micros(clock::turn_ns() / 1000)
}

pub(super) fn kind_of(reason: Reason) -> Option<FailureKind> {
    Some(match reason {
        Reason::ConnectFailed | Reason::ConnectTimeout | Reason::UpstreamTls => FailureKind::Connect,
        Reason::UpstreamReset => FailureKind::Reset,
        Reason::TryTimeout => FailureKind::TryTimeout,
        Reason::FirstByteTimeout => FailureKind::FirstByteTimeout,
        Reason::IdleTimeout => FailureKind::IdleTimeout,
        Reason::TotalTimeout => FailureKind::TotalTimeout,
        Reason::BadResponse => FailureKind::InvalidReply,
        Reason::BodyTruncated => FailureKind::IncompleteReply,
        _ => return None,
    })
}
