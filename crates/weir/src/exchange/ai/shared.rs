//! A call that several clients wait for: an exchange of its own with the provider, by the ordinary way with its attempts, limits, health and
//! counts. None of its clients is necessary for it, not even the one that caused it; it ends early when all of them have disconnected.

use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use auth::Identity;
use h1::{BodyKind, Expect};
use llm::Api;
use llm::api::GeminiMethod;
use llm::request::RequestScan;
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use super::super::Exchange;
use super::super::changed::Changed;
use super::super::pump::Pump;
use super::super::stall::Stall;
use super::attempt::Failed;
use super::problem::Stop;
use super::state::State;
use super::{Call, Record, Shape, budget, candidates, end_of, learn};
use crate::client::downstream::Downstream;
use crate::client::identity::Client;
use crate::config::{ModelId, RouteId};
use crate::error::{Error, Reason};
use crate::io::buffer::Buffer;
use crate::io::life::Life;
use crate::io::stream::{Outgoing, Stream};
use crate::observe::Trace;
use crate::policy::ai::Held;
use crate::policy::cache::calls::{CallLead, Refusal};
use crate::policy::limit::budget::Reservation;
use crate::route::RouteMatch;
use crate::runtime::clock;
use crate::worker::snapshot::Snapshot;
use crate::worker::{KeepOpen, Worker};

/// What came of the call, for the log of the client that caused it.
pub(super) struct Report {
    /// Why there is no response.
    pub result: Result<(), Stop>,
    /// A response that is for that client only.
    pub refusal: Option<Refusal>,
    record: Option<Box<Record>>,
    error: Option<Error>,
    slot: usize,
    attempts: u32,
    upstream_ns: Option<u64>,
    overhead_ns: Option<u64>,
    queue_ns: u64,
    target: String,
    trace: Trace,
}

/// What the call needs of the exchange that caused it.
struct Job {
    snapshot: Rc<Snapshot>,
    route: RouteId,
    found: RouteMatch,
    client: Client,
    /// The request's head, as it came.
    head: Vec<u8>,
    request_id: Vec<u8>,
    identity: Option<Arc<Identity>>,
    identity_lines: Vec<u8>,
    changed: Option<Box<Changed>>,
    api: Api,
    body: Arc<Vec<u8>>,
    /// Room for the body.
    held: Rc<Held>,
    scan: RequestScan,
    method: Option<GeminiMethod>,
    streams: bool,
    counts: bool,
    model: ModelId,
    estimate: u64,
    total_due: u64,
    state: Option<State>,
    record: Option<Box<Record>>,
    reservation: Option<Reservation>,
    lead: CallLead,
    trace: Trace,
    report: oneshot::Sender<Report>,
}

/// Begins the call on this worker.
///
/// # Errors
/// The worker ends.
pub(super) fn begin(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    lead: CallLead,
    held: Rc<Held>,
    reservation: Option<Reservation>,
) -> Result<oneshot::Receiver<Report>, Error> {
    let (Some(worker), (report, reported)) = (x.worker.rc(), oneshot::channel()) else {
        return Err(Reason::Shutdown.into());
    };
    x.ensure_request_id();
    let request = &x.scratch.request;
    let job = Job {
        snapshot: x.snapshot.clone(),
        route: call.route,
        found: x.found,
        client: x.down.client.clone(),
        head: x.down.buffer.whole()[request.method_name.range().start..request.end].to_vec(),
        request_id: x.scratch.request_id.clone(),
        identity: x.identity.clone(),
        identity_lines: x.scratch.identity_lines.clone(),
        changed: x.changed.clone(),
        api: call.api,
        body: call.body.clone(),
        held,
        scan: call.scan.clone(),
        method: call.method,
        streams: call.streams,
        counts: call.counts,
        model: call.model_id,
        estimate: call.estimate,
        total_due: call.total_due,
        state: call.state,
        record: x.ai.clone(),
        reservation,
        lead,
        trace: x.scratch.trace.for_attempts(),
        report,
    };
    // A drain waits for it: its clients may be those of another worker.
    let open = worker.keep_open();
    spawn_local(run(worker, open, job));
    Ok(reported)
}

async fn run(worker: Rc<Worker>, open: KeepOpen, job: Job) {
    let mut scratch = worker.lend_scratch();
    let buffer = Buffer::of(&job.head);
    // It was parsed once; a head that is not parsed again alike is not sent, and those who wait try for themselves.
    if scratch.request.parse(buffer.whole(), 0, job.head.len(), &job.snapshot.head_limits).is_ok() {
        scratch.request.body = BodyKind::None;
        scratch.request.expect = Expect::None;
        let mut down = Downstream {
            stream: Stream::Shared(job.lead.fill().clone()),
            buffer,
            out: Outgoing::default(),
            deadline: worker.deadlines.add(),
            client: job.client.clone(),
            origin: Arc::default(),
            life: Life::ENDLESS,
        };
        let mut x = Exchange::begin(&worker, &mut down, &mut scratch);
        // Its clients are those that wait.
        x.waits = None;
        x.identify_client();
        x.leave_trace();
        serve(x, job).await;
    }
    worker.take_scratch(scratch);
    drop(open);
}

async fn serve(mut x: Exchange<'_>, job: Job) {
    let Job { snapshot, route, found, identity, changed, body, held, scan, lead, reservation, report, .. } = job;
    x.identity = identity;
    x.scratch.identity_lines.extend_from_slice(&job.identity_lines);
    x.scratch.request_id.clone_from(&job.request_id);
    x.scratch.trace = job.trace;
    x.changed = changed;
    x.apply_changes();
    x.body = Pump::new(BodyKind::None, BodyKind::None, None);
    // It was read alike once.
    let is_read = x.normalise_path();
    x.snapshot = snapshot.clone();
    x.route = Some(route);
    x.found = found;
    x.ai = job.record;
    let call = Call {
        snapshot: &snapshot,
        route,
        api: job.api,
        body: &body,
        scan: &scan,
        method: job.method,
        streams: job.streams,
        counts: job.counts,
        model: &snapshot.config().models[job.model.0],
        model_id: job.model,
        estimate: job.estimate,
        total_due: job.total_due,
        lead: Some(&lead),
        heartbeat: None,
        guard: None,
        shape: Shape::Json,
        state: job.state,
    };
    let state = &snapshot.generation.ai;
    let result = match is_read {
        Ok(()) => candidates::run(&mut x, &call, state).await,
        Err(error) => Err(error.into()),
    };
    // First those who wait.
    match &result {
        // Another call may be served: an error is for the one client only.
        Ok(()) if lead.is_refused() => lead.fail(None),
        Ok(()) => lead.end(),
        Err(Stop::Sent) => lead.fail(x.log.error),
        Err(Stop::Error(error)) => lead.fail(Some(*error).filter(|error| error.reason != Reason::ClientDisconnected)),
        Err(Stop::Problem(problem)) => lead.fail(Some(problem.error())),
    }
    budget::settle(&mut x, &call, &result, reservation).await;
    learn(&x, &call, state);
    drop(held);
    let told = Report {
        result,
        refusal: lead.take_refusal(),
        error: x.log.error,
        record: x.ai.take(),
        slot: x.log.slot,
        attempts: x.log.attempts,
        upstream_ns: x.log.upstream_ns,
        overhead_ns: x.log.overhead_ns,
        queue_ns: x.log.queue_ns,
        target: std::mem::take(&mut x.scratch.logged_target),
        trace: std::mem::take(&mut x.scratch.trace),
    };
    // The client that caused it has disconnected and its line is written: what the call used counts all the same.
    if let Err(Report { record: Some(record), .. }) = report.send(told) {
        let name = &snapshot.config().routes[route.0].name;
        state.pair(record.model_id, record.candidate).usage(&record.counted(name, end_of(x.log.error)));
    }
}

impl Report {
    /// Puts what is known of the call into the log of the exchange that caused it.
    pub(super) fn note(&mut self, x: &mut Exchange<'_>) {
        if let Some(record) = self.record.take() {
            x.ai = Some(record);
        }
        x.log.error = self.error.or(x.log.error);
        x.log.slot = self.slot;
        x.log.attempts = self.attempts;
        x.log.upstream_ns = self.upstream_ns;
        x.log.overhead_ns = self.overhead_ns;
        x.log.queue_ns = self.queue_ns;
        std::mem::swap(&mut x.scratch.logged_target, &mut self.target);
        x.scratch.trace.take_attempts(std::mem::take(&mut self.trace));
    }
}

/// Gives what was put together to all who wait for the call, and waits until there is room for more; `is_between`: it ends where an event does.
///
/// # Errors
/// All clients have disconnected, or the call takes too long.
pub(super) async fn hand_on(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    lead: &CallLead,
    is_between: bool,
) -> Result<(), Failed> {
    if !x.down.out.bytes.is_empty() {
        lead.push(&x.down.out.bytes, is_between);
        x.down.out.bytes.clear();
    }
    let fill = lead.fill();
    // A provider that sends without a pause would go on for nobody.
    if fill.readers() == 0 {
        return Err(Failed::last(Reason::ClientDisconnected.into()));
    }
    if !fill.is_oversize() {
        return Ok(());
    }
    x.stalls.change(Stall::ClientReceives);
    let mut set_to = None;
    let waited = std::future::poll_fn(|cx| {
        // After a deadline has passed once more: behind a reader that was cut off there may be room.
        for _ in 0..2 {
            if fill.poll_unread(cx).is_ready() {
                return Poll::Ready(Err(Failed::last(Reason::ClientDisconnected.into())));
            }
            if fill.poll_room(cx, clock::loop_ns()).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let due = fill.cut_due_ns().unwrap_or(u64::MAX).min(call.total_due);
            if set_to.replace(due) != Some(due) {
                x.down.deadline.set_at(due);
            }
            if !x.down.deadline.poll_passed(cx) {
                return Poll::Pending;
            }
            if clock::loop_ns() >= call.total_due {
                return Poll::Ready(Err(Failed::too_long()));
            }
            set_to = None;
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    });
    let waited = waited.await;
    x.stalls.change(Stall::None);
    waited
}
