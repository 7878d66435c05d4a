//! Forwarding: which upstream, which target, which connection, and what to do when one of them fails.

mod call;
mod choose;
mod failed;
mod heads;
mod upgrade;
mod upstream_attempt;

use std::task::{Context, Poll};
use std::time::Duration;

use h1::BodyKind;

use super::queue_entry::queue_entry;
use super::stall::Stall;
use super::trailers::{Towards, TrailerRules};
use super::upstream_exchange::UpstreamSide;
use super::way::{Reached, Way};
use super::{Exchange, SendState, affinity, grpc};
use crate::config::{HeaderEdits, Proxy, RouteId};
use crate::error::{Error, Fault, Reason};
use crate::io::stream::Outgoing;
use crate::observe::UpstreamMetrics;
use crate::policy::auth::RouteEdits;
use crate::runtime::clock;
use crate::runtime::deadline::nanos;
use crate::streams::client_stream::ClientStream;
use crate::upstream::retry::may_repeat;
use crate::upstream::{FailureKind, Lease, Moment, Pick, Request, View, WaitError};
use crate::worker::snapshot::{Choice, Snapshot};

pub(super) use call::Spared;
pub(super) use choose::hash_of;
pub(super) use failed::kind_of;
pub(super) use upstream_attempt::send_continue;

use call::wait_before_retry;
use choose::pick_member;
use failed::Failed;
use upstream_attempt::upstream_attempt;

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
    /// The exchange's total deadline, in nanoseconds since process start.
    total_due: u64,
    /// When the client of a gRPC call stops to wait for it.
    grpc_due: Option<u64>,
    /// Whether the request is a gRPC call.
    is_grpc: bool,
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

/// Forwards the request to the route's upstream, or to its fallbacks.
///
/// # Errors
/// Why there is no complete response.
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
    let (first, members) = action.split.as_ref().map_or((0, 1), |split| (pick_member(x, split), split.members.len()));
    let (mut position, mut rest) = (first, members..choices.len());
    loop {
        let choice = &choices[position];
        // A fallback that was the first choice has failed already.
        let fallback = rest.find(|&other| choices[other].upstream != choices[first].upstream);
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
            has_fallback: fallback.is_some(),
            total_due: total_due.min(grpc_due.unwrap_or(u64::MAX)),
            grpc_due,
            is_grpc,
            forwards_trailers,
            accepts_trailers,
        };
        let Err((error, may_fall_back)) = try_upstream(x, &plan).await else {
            let due = plan.total_due;
            return match x.replaced.take() {
                None => Ok(()),
                Some(replaced) => Box::pin(x.send_page_for(*replaced, due)).await,
            };
        };
        if error.reason.fault() == Fault::Upstream {
            plan.metrics.error(error.reason);
        }
        match fallback {
            Some(fallback) if may_fall_back => {
                // What one upstream said of its queue is not for the error of another.
                x.retry_after = None;
                position = fallback;
            }
            _ if x.spared.is_some() => return x.send_spared(error).await,
            _ => return Err(error),
        }
    }
}

/// Makes attempts at one upstream until one leads to a response, or no further one is allowed. An error comes with whether another
/// upstream may be tried.
async fn try_upstream(x: &mut Exchange<'_>, plan: &Plan<'_>) -> Result<(), (Error, bool)> {
    let hash = if plan.choice.is_hashed { Some(hash_of(x, plan.snapshot, plan.choice.upstream)) } else { None };
    let wanted = plan.choice.cookie.as_deref().and_then(|cookie| affinity::wanted(x, cookie));
    x.scratch.tried.clear();
    let mut attempts = 0;
    loop {
        let request = Request { hash, wanted, tried: &x.scratch.tried, ..Request::default() };
        let mut lease = match plan.view.pick(&request, moment()) {
            Pick::Target(lease) => lease,
            // A list without targets is a controller's: for backends that it cannot find.
            Pick::Unavailable if plan.snapshot.config().upstreams[plan.choice.upstream.0].has_no_backend() => {
                return Err((Reason::InvalidBackend.into(), false));
            }
            Pick::Unavailable => return Err((Reason::Unavailable.into(), true)),
            Pick::Busy => {
                x.stalls.change(Stall::Gateway);
                let queue_entry = queue_entry(x, plan.snapshot, plan.choice.upstream, None, plan.total_due, || 1);
                let place = plan.view.wait_for_untried(queue_entry, &x.scratch.tried);
                wait(x, place, plan.total_due).await?
            }
        };
        attempts += 1;
        x.log.attempts += 1;
        if x.worker.log.borrow().is_some() {
            x.scratch.logged_target.clear();
            x.scratch.logged_target.push_str(lease.target().address_text());
        }
        let client_ns = x.stalls.client_ns();
        if x.scratch.trace.own().is_some() {
            x.scratch.trace.begin_attempt(x.worker.random(), lease.target().address().socket(), clock::loop_ns());
        }
        let began_ns = x.begin_measuring();
        let failed = match attempt(x, plan, &mut lease, attempts).await {
            Ok(()) => {
                x.scratch.trace.end_attempt(x.scratch.response.status, x.log.grpc_status, None, clock::loop_ns());
                x.end_measuring(began_ns, &lease, x.scratch.response.status, None);
                return Ok(());
            }
            Err(failed) => failed,
        };
        let (status, error) = match (failed.grpc_status, failed.kind.and_then(FailureKind::status)) {
            (Some(_), _) => (x.scratch.response.status, None),
            (None, Some(status)) => (status, None),
            // It responded, and what broke off was the body.
            (None, None) if x.send_state != SendState::None => {
                (x.scratch.response.status, Some(failed.error.reason.label()))
            }
            (None, None) => (0, Some(failed.error.reason.label())),
        };
        x.scratch.trace.end_attempt(status, failed.grpc_status, error, clock::loop_ns());
        x.end_measuring(began_ns, &lease, status, error);
        let Some(cause) = failed.cause() else { return Err((failed.error, false)) };
        lease.excuse(Duration::from_nanos(x.stalls.client_ns().saturating_sub(client_ns)));
        match failed.kind {
            Some(kind) => lease.failure(kind, moment()),
            // The application's response, which is not the target's failure.
            None => lease.success(moment()),
        }
        if x.send_state != SendState::None {
            return Err((failed.error, false));
        }
        let tried = failed.as_attempt(x, cause);
        let is_granted = failed.retry.unwrap_or_else(|| plan.view.may_retry(&tried, attempts, moment()).is_ok());
        if !is_granted {
            return Err((failed.error, may_repeat(&tried, lease.spec().retry.on).is_ok()));
        }
        plan.metrics.retried();
        x.scratch.tried.push(lease.target().id());
        if failed.wait_ns > 0 {
            // Others may have the place meanwhile.
            drop(lease);
            wait_before_retry(x, failed.wait_ns, plan.total_due).await.map_err(|error| (error, false))?;
        }
    }
}

/// Seconds after which a client may come again at the latest, however long the line is.
const LONGEST_RETRY_AFTER: u64 = 3600;

/// Waits in the upstream's queue, as long as the client does.
pub(super) async fn wait(
    x: &mut Exchange<'_>,
    place: impl Future<Output = Result<Lease, WaitError>>,
    total_due: u64,
) -> Result<Lease, (Error, bool)> {
    x.down.deadline.set_at(total_due);
    let began = clock::loop_ns();
    let mut place = std::pin::pin!(place);
    let waited = std::future::poll_fn(|cx| {
        if let Poll::Ready(result) = place.as_mut().poll(cx) {
            return Poll::Ready(result.map_err(|error| match error {
                WaitError::QueueFull => (Reason::QueueFull.into(), true),
                WaitError::TooLong(time) => {
                    x.retry_after = Some(time.as_secs().saturating_add(1).min(LONGEST_RETRY_AFTER));
                    (Reason::QueueTooLong.into(), true)
                }
                WaitError::TimedOut => (Reason::QueueTimeout.into(), true),
                WaitError::Unavailable => (Reason::Unavailable.into(), true),
            }));
        }
        if x.down.deadline.poll_passed(cx) {
            return Poll::Ready(Err((Reason::TotalTimeout.into(), false)));
        }
        poll_client_disconnect(x, cx).map(|()| Err((Reason::ClientDisconnected.into(), false)))
    })
    .await;
    x.log.queue_ns += clock::loop_ns().saturating_sub(began);
    waited
}

/// Ready when the client disconnected while it has nothing more to send. A body on its way is left where it is: it would fill the
/// buffer, and shows neither that the client is there nor that it has gone. For AI traffic all of it was read before.
pub(super) fn poll_client_disconnect(x: &mut Exchange<'_>, cx: &mut Context<'_>) -> Poll<()> {
    if x.down.stream.is_reset() {
        return Poll::Ready(());
    }
    let has_all = match x.scratch.request.body {
        BodyKind::None => true,
        // Nothing of it was sent on yet: all of it lies in the buffer.
        BodyKind::Length(length) => x.log.attempts == 0 && x.down.buffer.filled().len() as u64 >= length,
        BodyKind::Chunked | BodyKind::UntilClose => false,
    };
    if has_all || x.ai.is_some() { x.down.poll_disconnect(cx, &x.worker.buffers) } else { Poll::Pending }
}

/// One attempt at one target: a pooled connection or a new one, and the exchange on it.
async fn attempt(x: &mut Exchange<'_>, plan: &Plan<'_>, lease: &mut Lease, number: u32) -> Result<(), Failed> {
    let target = lease.target().id();
    let mut may_reuse = true;
    loop {
        let way = Way { metrics: plan.metrics, timeout: plan.choice.timeouts.connect, total_due: plan.total_due };
        let Reached { stream, life, carries, is_reused } = match way.idle(x, lease, may_reuse) {
            Some(reached) => reached,
            None => {
                let found = way.stream_to(x, lease, may_reuse).await;
                found.map_err(|error| Failed::of(x, error, false, false))?
            }
        };
        x.log.upstream_version = Some(stream.http_version());
        let out = Outgoing::with(std::mem::take(&mut x.scratch.to_upstream));
        let mut up = UpstreamSide::new(stream, out);
        let result = upstream_attempt(x, plan, lease, &mut up, number).await;
        let UpstreamSide { stream, buffer, out, .. } = up;
        x.scratch.to_upstream = out.into_bytes();
        let is_clean = buffer.is_empty();
        x.worker.buffers.put_back(buffer);
        match result {
            // Rule 16 of the safety rules: whole request sent, whole reply read, both sides willing, nothing left over.
            Ok(reusable) => {
                if reusable && is_clean && !x.worker.draining.get() && stream.http2_upstream().is_none() {
                    x.worker.pool.put(target, stream, life, carries, lease.spec().keep_alive, clock::loop_ns());
                }
                return Ok(());
            }
            // An idle connection may be closed by its upstream at any time. That says nothing about the target, and what was sent on it
            // was most likely never read: an idempotent request gets a fresh connection to the same target. Most likely: a target that fails by
            // the request itself must not get everything twice, so the budget of retries bounds it.
            Err(failed)
                if may_reuse
                    && is_reused
                    && is_stale(x, &failed)
                    && !stream.http2_upstream().is_some_and(ClientStream::is_reset)
                    && plan.view.spend_retry(moment()) =>
            {
                plan.metrics.connection_discarded();
                x.log.attempts += 1;
                may_reuse = false;
            }
            Err(failed) => return Err(failed),
        }
    }
}

fn is_stale(x: &Exchange<'_>, failed: &Failed) -> bool {
    failed.kind == Some(FailureKind::Reset)
        && !failed.response_started
        && x.body.is_replayable()
        && (x.scratch.request.method.is_idempotent() || !failed.sent)
}

/// The loop time, cached per event-loop iteration.
pub(super) fn moment() -> Moment {
    Moment::from_micros(clock::loop_ns() / 1000)
}
