//! One attempt: one candidate, one key, one target of the provider's upstream.

use std::task::Poll;
use std::time::Duration;

use h1::{HeadScanner, Known};
use llm::Api;
use llm::fault::{self, Fault};
use llm::request::{Edits, Wanted};
use rustix::event::PollFlags;

use super::super::Exchange;
use super::super::proxy::{kind_of, moment};
use super::super::stall::Stall;
use super::super::upstream_exchange::{Timing, UpstreamExchange, UpstreamSide};
use super::super::way::{Reached, Way};
use super::pick::{pick, prompt_of};
use super::recover::Begun;
use super::response::{Response, client_lines};
use super::{Call, Shape, opaque, request, span, stream, whole};
use crate::config::{Candidate, Provider, ProviderKey};
use crate::error::{Error, Fault as Side, Reason};
use crate::io::stream::{Outgoing, poll_read};
use crate::runtime::clock;
use crate::runtime::deadline::nanos;
use crate::streams::client_stream::ClientStream;
use crate::upstream::{FailureKind, Lease};

/// Interim responses that are read past; they say nothing about the final one.
const MAX_INTERIM: u32 = 16;

/// What one attempt is made of.
pub(super) struct AttemptPlan<'a> {
    /// Candidate.
    pub candidate: &'a Candidate,
    /// Its provider.
    pub provider: &'a Provider,
    /// Key, where the provider has any.
    pub key: Option<&'a ProviderKey>,
    /// API that the provider is spoken to in.
    pub api: Api,
    /// The request in that API, where it is another one than the client's.
    pub translated: Option<&'a [u8]>,
    /// Hints that the translation left out.
    pub dropped: Vec<String>,
    /// The model's first choice.
    pub is_first: bool,
    /// The request gets `include_usage`, which its client did not set.
    pub adds_usage: bool,
    /// The attempt before was not processed by its target: this one goes to a target that was not tried yet.
    pub is_elsewhere: bool,
    /// The candidate has not refused a request to go on with a text.
    pub may_prefill: bool,
}

/// An attempt that did not lead to a response.
#[derive(Debug)]
pub(super) struct Failed {
    /// What went wrong; `None` if that is not the provider's doing, or nothing else can be tried.
    pub fault: Option<Fault>,
    /// For log and metrics, and for the client when nothing else is tried.
    pub error: Error,
    /// What it means for the target.
    pub kind: Option<FailureKind>,
    /// How long to wait before a retry, as the provider says.
    pub retry_after: Option<Duration>,
    /// What the provider said, to be passed on when nothing helps.
    pub response: Option<Response>,
    /// What the provider says went wrong, where it is passed on in another form.
    pub message: String,
    /// Nothing of a response was read on a connection that was idle before.
    pub is_stale: bool,
    /// The target cannot have processed the request: there was no connection, or it refused the stream (RFC 9113 section 8.7).
    pub is_unprocessed: bool,
}

impl Failed {
    /// A fault of the provider.
    pub(super) fn fault(fault: Fault, kind: Option<FailureKind>) -> Self {
        let detail = detail_of(fault);
        Failed { fault: Some(fault), kind, ..Failed::last(Error::new(reason_of(fault), detail)) }
    }

    /// The end: nothing else is tried.
    pub(super) fn last(error: Error) -> Self {
        Failed {
            fault: None,
            error,
            kind: None,
            retry_after: None,
            response: None,
            message: String::new(),
            is_stale: false,
            is_unprocessed: false,
        }
    }

    /// The provider refuses the prompt in a 200, as only Gemini's API does: a 400 in the other ones.
    pub(super) fn prompt_refused() -> Self {
        let fault = Fault::CONTENT_FILTER;
        let error = Error::new(Reason::AiRequest, detail_of(fault));
        let response = Response { status: 400, lines: Vec::new(), body: Vec::new() };
        let message = "The provider refused the prompt because of its content".to_owned();
        Failed { error, response: Some(response), message, ..Failed::fault(fault, None) }
    }

    /// There was no place in the upstream's queue, or none came: nothing was sent.
    pub(super) fn is_of_queue(&self) -> bool {
        matches!(self.error.reason, Reason::QueueFull | Reason::QueueTooLong | Reason::QueueTimeout)
    }

    /// The whole exchange has taken too long.
    pub(super) fn too_long() -> Self {
        Failed { kind: kind_of(Reason::TotalTimeout), ..Failed::last(Reason::TotalTimeout.into()) }
    }

    /// What an error of the exchange means.
    pub(super) fn of(error: Error) -> Self {
        let fault = match error.reason {
            Reason::ConnectFailed | Reason::ConnectTimeout | Reason::UpstreamTls => Fault::UNREACHABLE,
            // No target to be had: as if none could be reached.
            Reason::Unavailable | Reason::QueueFull | Reason::QueueTooLong | Reason::QueueTimeout => Fault::UNREACHABLE,
            Reason::UpstreamReset => Fault::RESET,
            Reason::FirstByteTimeout | Reason::TryTimeout | Reason::IdleTimeout => Fault::SILENT,
            Reason::BadResponse => Fault::MALFORMED_BODY,
            _ => return Failed { kind: kind_of(error.reason), ..Failed::last(error) },
        };
        Failed { fault: Some(fault), kind: kind_of(error.reason), ..Failed::last(error) }
    }

    /// What an error of the way to a target means.
    fn unreached(error: Error) -> Self {
        let failed = Failed::of(error);
        Failed { is_unprocessed: failed.fault == Some(Fault::UNREACHABLE), ..failed }
    }
}

/// Why a fault is an error of the exchange.
pub(super) fn reason_of(fault: Fault) -> Reason {
    match fault.rule().status {
        429 => Reason::AiLimited,
        504 => Reason::AiTimeout,
        _ => Reason::AiUpstream,
    }
}

/// A fault in the log.
pub(super) fn detail_of(fault: Fault) -> &'static str {
    row(fault.number())
}

/// Name of a row of the table of faults; empty for 0.
pub(super) fn row(number: u8) -> &'static str {
    const NAMES: [&str; 36] = [
        "", "F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F9", "F10", "F11", "F12", "F13", "F14", "F15", "F16",
        "F17", "F18", "F19", "F20", "F21", "F22", "F23", "F24", "F25", "F26", "F27", "F28", "F29", "F30", "F31", "F32",
        "F33", "F34", "F35",
    ];
    NAMES.get(usize::from(number)).copied().unwrap_or_default()
}

/// Makes one attempt. `Ok`: the client has its response. `begun`: the part of a stream that it has, with which the attempt must go on.
///
/// # Errors
/// Why it has not, and what that means.
pub(super) async fn attempt(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    plan: &AttemptPlan<'_>,
    begun: &mut Option<Box<Begun>>,
) -> Result<(), Failed> {
    let prompt = prompt_of(x, call, plan);
    let mut lease = pick(x, call, plan, prompt.as_deref()).await?;
    if let Some(prompt) = &prompt {
        lease.carries_prompt(prompt);
    }
    x.log.attempts += 1;
    let choices = &call.snapshot.routes[call.route.0].choices;
    x.log.slot = 1 + choices.iter().position(|choice| choice.upstream == plan.provider.upstream).unwrap_or(0);
    x.scratch.logged_target.clear();
    x.scratch.logged_target.push_str(lease.target().address_text());
    let client_ns = x.stalls.client_ns();
    let is_traced = x.scratch.trace.own().is_some();
    if is_traced {
        x.scratch.trace.begin_attempt(x.worker.random(), lease.target().address().socket(), clock::loop_ns());
    }
    let began_ns = x.begin_measuring();
    let result = on_connection(x, call, plan, &mut lease, begun).await;
    if is_traced || began_ns.is_some() {
        let outcome = span::outcome(x, &result);
        if is_traced {
            span::end(x, plan, &result, outcome);
        }
        x.end_measuring(began_ns, &lease, outcome.0, outcome.1);
    }
    if let Err(failed) = &result {
        // A call that waited in the queue until its time was over says nothing about the target.
        let is_own = failed.error.reason == Reason::TotalTimeout && x.stalls.larger_fault() != Side::Upstream;
        if let Some(kind) = failed.kind.filter(|_| !is_own) {
            lease.excuse(Duration::from_nanos(x.stalls.client_ns().saturating_sub(client_ns)));
            lease.failure(kind, moment());
        }
        if failed.kind.is_some() || failed.is_unprocessed {
            x.scratch.tried.push(lease.target().id());
        }
        if let (true, Some(prompt)) = (failed.is_unprocessed, &prompt) {
            lease.lost_prompt(prompt);
        }
        if failed.error.reason.fault() == Side::Upstream {
            call.snapshot.upstream_metrics[plan.provider.upstream.0].error(failed.error.reason);
        }
    }
    result
}

async fn on_connection(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    plan: &AttemptPlan<'_>,
    lease: &mut Lease,
    begun: &mut Option<Box<Begun>>,
) -> Result<(), Failed> {
    let target = lease.target().id();
    // A connection that was idle may be closed by now, and what was made in the background would be made twice.
    let mut may_reuse = !call.state.is_some_and(|state| state.is_background);
    let metrics = &call.snapshot.upstream_metrics[plan.provider.upstream.0];
    let timeout = call.snapshot.config().upstreams[plan.provider.upstream.0].timeouts.connect;
    loop {
        let way = Way { metrics, timeout, total_due: call.total_due };
        let Reached { stream, life, carries, is_reused } = match way.idle(x, lease, may_reuse) {
            Some(reached) => reached,
            None => way.stream_to(x, lease, may_reuse).await.map_err(Failed::unreached)?,
        };
        x.log.upstream_version = Some(stream.http_version());
        let out = Outgoing::with(std::mem::take(&mut x.scratch.to_upstream));
        let mut up = UpstreamSide::new(stream, out);
        let result = exchange_with(x, call, plan, (&mut *lease, &mut up), begun).await;
        let UpstreamSide { stream, buffer, out, .. } = up;
        let is_reset = stream.http2_upstream().is_some_and(ClientStream::is_reset);
        let is_unprocessed = stream.http2_upstream().is_some_and(ClientStream::is_unprocessed);
        // A prompt's memory goes back to the system, an ordinary head's stays.
        x.scratch.to_upstream =
            Some(out.into_bytes()).filter(|bytes| bytes.capacity() <= 64 * 1024).unwrap_or_default();
        let is_clean = buffer.is_empty();
        x.worker.buffers.put_back(buffer);
        match result {
            Ok(reusable) => {
                if reusable && is_clean && !x.worker.draining.get() && stream.http2_upstream().is_none() {
                    x.worker.pool.put(target, stream, life, carries, lease.spec().keep_alive, clock::loop_ns());
                }
                return Ok(());
            }
            // An idle connection may be closed by its upstream at any time: that says nothing about the target.
            Err(failed)
                if may_reuse
                    && is_reused
                    && failed.is_stale
                    && !is_reset
                    && call.snapshot.views.get(plan.provider.upstream).spend_retry(moment()) =>
            {
                metrics.connection_discarded();
                x.log.attempts += 1;
                may_reuse = false;
            }
            Err(failed) => return Err(Failed { is_unprocessed: is_unprocessed && failed.is_stale, ..failed }),
        }
    }
}

/// Sends the request and relays the response. `Ok` says whether the connection may carry another exchange.
async fn exchange_with(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    plan: &AttemptPlan<'_>,
    (lease, up): (&mut Lease, &mut UpstreamSide),
    begun: &mut Option<Box<Begun>>,
) -> Result<bool, Failed> {
    write_request(x, call, plan, (lease, up), begun.as_deref_mut());
    if let Some(record) = &mut x.ai {
        record.was_sent = true;
    }
    let keep = x.scratch.request.end;
    let began = clock::loop_ns();
    let timing = Timing {
        client_idle: None,
        first_byte: call.model.first_token,
        idle: call.model.first_token,
        try_due: u64::MAX,
        client_ns: x.stalls.client_ns(),
        total_due: call.total_due,
    };
    let mut exchange =
        UpstreamExchange::new(&mut *x.down, up, &mut x.body, keep, &x.worker.buffers, timing, &mut x.stalls);
    let head = &mut x.scratch.response;
    let limits = h1::Limits::default();
    let mut scanner = HeadScanner::for_response();
    let mut interim = 0;
    let got_head = loop {
        let method = x.scratch.request.method;
        let got = std::future::poll_fn(|cx| exchange.poll_head(cx, &mut scanner, head, method, &limits)).await;
        match got {
            Err(error) => break Err(error),
            Ok(()) if !head.is_interim() => break Ok(()),
            Ok(()) if interim == MAX_INTERIM => {
                break Err(Error::new(Reason::BadResponse, "too many interim responses"));
            }
            Ok(()) => interim += 1,
        }
    };
    let sent_at = if exchange.sent_at > 0 { exchange.sent_at } else { began };
    let (request_sent, response_started) = (exchange.request_sent, exchange.response_started);
    if let Err(error) = got_head {
        let is_stale = matches!(error.reason, Reason::UpstreamReset) && !response_started;
        return Err(Failed { is_stale, ..Failed::of(error) });
    }
    if request_sent {
        lease.first_byte(Duration::from_nanos(clock::loop_ns().saturating_sub(sent_at)), moment());
    }
    let mut response = ProviderResponse::new(x, call, &up.buffer, sent_at);
    let may_reuse = request_sent && x.scratch.response.keep_alive;
    if (300..400).contains(&response.status) || response.is_encoded || response.status == 101 {
        return Err(Failed::fault(Fault::UNEXPECTED_FORM, Some(FailureKind::InvalidResponse)));
    }
    let ended = if response.is_events && call.streams && response.status == 200 {
        stream::run(x, call, plan, up, &response, begun).await?
    } else if opaque::is_opaque(call, &response) {
        opaque::run(x, call, plan, up, &response).await?
    } else {
        whole::run(x, call, plan, up, &mut response, begun.is_none()).await?
    };
    match ended.failure {
        Some(kind) => lease.failure(kind, moment()),
        None => lease.success(moment()),
    }
    let done = clock::now_ns();
    x.log.ended_ns = done;
    x.log.upstream_ns = Some(clock::loop_ns().max(sent_at) - sent_at);
    x.log.overhead_ns = Some(sent_at.saturating_sub(x.log.started_ns));
    Ok(ended.is_clean && may_reuse)
}

fn write_request(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    plan: &AttemptPlan<'_>,
    (lease, up): (&Lease, &mut UpstreamSide),
    begun: Option<&mut Begun>,
) {
    let target = lease.target();
    let place = (&**target.base_path(), target.authority().map_or("localhost", |authority| authority));
    if let Some(begun) = begun
        && let Some((body, scan)) = begun.request(call, plan)
    {
        // The client has a part of what it may get.
        let max_output = scan.max_output(call.api, &body).map(|most| most.saturating_sub(begun.delivered).max(1));
        let wanted = Wanted { model: Some(&*plan.candidate.model), include_usage: plan.adds_usage, max_output };
        let body = Edits::of(&scan, &body, &wanted).apply(&body);
        request::write_head(x, call, plan, place, body.len(), &mut up.out.bytes);
        up.out.bytes.extend_from_slice(&body);
        return;
    }
    if let Some(body) = plan.translated {
        request::write_head(x, call, plan, place, body.len(), &mut up.out.bytes);
        up.out.bytes.extend_from_slice(body);
        return;
    }
    let edits = match call.shape {
        Shape::Stored(_) => return request::write_head(x, call, plan, place, 0, &mut up.out.bytes),
        Shape::Form(form) => form.edits(call.body, &plan.candidate.model),
        Shape::Json => json_edits(call, plan),
    };
    let length = edits.len_after(call.body);
    request::write_head(x, call, plan, place, length, &mut up.out.bytes);
    // What lies behind the last change, nearly all of a long prompt, is not copied.
    let rest = edits.unchanged_from();
    edits.pieces(&call.body[..rest]).for_each(|piece| up.out.bytes.extend_from_slice(piece));
    up.out.share(call.body, rest);
}

fn json_edits(call: &Call<'_>, plan: &AttemptPlan<'_>) -> Edits {
    // Gemini's model is in the path.
    let model = Some(&*plan.candidate.model).filter(|_| call.method.is_none());
    let wanted = Wanted { model, include_usage: plan.adds_usage, max_output: None };
    Edits::of(call.scan, call.body, &wanted)
}

/// What is known of a response from its head.
pub(super) struct ProviderResponse {
    /// Status.
    pub status: u16,
    /// Field lines for the client.
    pub lines: Vec<u8>,
    /// It is an event stream.
    pub is_events: bool,
    /// It is a document in JSON, or a page for people: the one is read, and the other is none.
    pub is_document: bool,
    /// It has a content coding, which the request did not accept.
    pub is_encoded: bool,
    /// How long to wait before a retry, as the provider says.
    pub retry_after: Option<Duration>,
    /// When the request was sent.
    pub sent_at: u64,
    /// When there must be content.
    pub first_due: u64,
}

impl ProviderResponse {
    fn new(x: &Exchange<'_>, call: &Call<'_>, buffer: &crate::io::buffer::Buffer, sent_at: u64) -> Self {
        let head = &x.scratch.response;
        let buf = buffer.whole();
        let edits = &call.snapshot.config().routes[call.route.0].headers.response;
        let is_type = |wanted: &[u8]| {
            head.fields.first(Known::ContentType, buf).is_some_and(|value| {
                let kind = value.split(|byte| *byte == b';').next().unwrap_or_default();
                kind.trim_ascii().eq_ignore_ascii_case(wanted)
            })
        };
        let coding = head.fields.first(Known::ContentEncoding, buf);
        ProviderResponse {
            status: head.status,
            lines: client_lines(head, buf, edits, &call.snapshot.config().request_id),
            is_events: is_type(b"text/event-stream"),
            is_document: is_type(b"application/json") || is_type(b"text/html"),
            is_encoded: coding.is_some_and(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity")),
            retry_after: fault::retry_hint(
                head.fields.get(b"retry-after-ms", buf),
                head.fields.first(Known::RetryAfter, buf),
            ),
            sent_at,
            first_due: call.model.first_token.map_or(u64::MAX, |first| sent_at.saturating_add(nanos(first))),
        }
    }
}

/// How a response ended that the client has.
pub(super) struct Ended {
    /// Nothing more of it is on the way: the connection may carry another exchange.
    pub is_clean: bool,
    /// What was wrong with it all the same.
    pub failure: Option<FailureKind>,
}

/// What came of waiting for bytes of a response.
pub(super) enum Waited {
    /// Bytes are there.
    Bytes,
    /// The connection ended or failed.
    Closed,
    /// The deadline passed.
    Late,
    /// The whole exchange has taken too long.
    TooLong,
}

/// Reads more of a response into `up.buffer`, all of which was used up. Ends when the client disconnects.
///
/// # Errors
/// The client disconnected.
pub(super) async fn read_more(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    up: &mut UpstreamSide,
    due: u64,
) -> Result<Waited, Failed> {
    let late = || if clock::loop_ns() >= call.total_due { Waited::TooLong } else { Waited::Late };
    let due = due.min(call.total_due);
    if up.overtime.is_spent(due) {
        return Ok(late());
    }
    up.buffer.rewind(0);
    x.stalls.change(Stall::UpstreamBody);
    x.down.deadline.set_at(due);
    let buffers = &x.worker.buffers;
    let mut has_waited = false;
    let waited = std::future::poll_fn(|cx| {
        if !up.buffer.has_space() {
            buffers.grow(&mut up.buffer);
        }
        match poll_read(cx, &mut up.stream, &mut up.buffer) {
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(Ok(Waited::Closed)),
            Poll::Ready(Ok(_)) => Poll::Ready(Ok(Waited::Bytes)),
            Poll::Pending => {
                has_waited = true;
                buffers.release(&mut up.buffer);
                buffers.shrink(&mut x.down.buffer);
                if x.down.poll_disconnect(cx, buffers).is_ready() {
                    return Poll::Ready(Err(Failed::last(Reason::ClientDisconnected.into())));
                }
                let is_late = x.down.deadline.poll_passed_without(cx, up.stream.socket(), PollFlags::IN);
                if is_late { Poll::Ready(Ok(Waited::Late)) } else { Poll::Pending }
            }
        }
    })
    .await?;
    x.stalls.change(Stall::None);
    up.overtime.moved();
    if !has_waited {
        // A provider that sends without a pause must not keep the worker to itself.
        tokio::task::yield_now().await;
    }
    Ok(match waited {
        Waited::Late => late(),
        waited => waited,
    })
}
