//! Responses that are no streams, and errors: held until they are judged, so that a broken one can still be replaced.

use h1::{BodyDecoder, BodyEvent, BodyKind, encode};
use llm::api::GeminiMethod;
use llm::fault::{self, Fault, Head, Next};
use llm::response::{Facts, ResponseReader};

use super::super::Exchange;
use super::super::SendState;
use super::super::upstream_exchange::UpstreamSide;
use super::attempt::{AttemptPlan, Ended, Failed, ProviderResponse, Waited, read_more, reason_of};
use super::response::Response;
use super::shared::hand_on;
use super::{Call, Shape, state, storable, translation};
use crate::error::{Error, Reason};
use crate::runtime::clock;
use crate::runtime::deadline::nanos;
use crate::upstream::FailureKind;

/// A response up to this size is judged before any of it is sent.
const HELD: usize = 1 << 20;
/// A response that must be held whole, because it is translated, may have so many bytes.
const MOST: usize = 64 << 20;

/// How reading a body ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Proper,
    Truncated,
    Late,
}

/// Reads a response that is not a stream and passes it on, unless the client has part of another one.
///
/// # Errors
/// What is wrong with it.
pub(super) async fn run(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    plan: &AttemptPlan<'_>,
    up: &mut UpstreamSide,
    received: &mut ProviderResponse,
    may_pass: bool,
) -> Result<Ended, Failed> {
    let kind = x.scratch.response.body;
    let mut decoder = BodyDecoder::new(kind);
    let mut reader = ResponseReader::new(plan.api);
    let mut body = Vec::new();
    let is_success = (200..300).contains(&received.status);
    let passes_large = is_success && plan.translated.is_none() && !call.streams;
    let mut first_ns = None;
    let mut bytes = 0_u64;
    let mut passing: Option<BodyKind> = None;
    let mut ended = kind == BodyKind::None;
    let end = loop {
        while !ended {
            let (consumed, event) = match decoder.decode(up.buffer.filled()) {
                Ok(step) => step,
                Err(_) => break,
            };
            match event {
                BodyEvent::NeedMore => {
                    up.buffer.consume(consumed);
                    break;
                }
                BodyEvent::End => ended = true,
                BodyEvent::Data(range) => {
                    let data = &up.buffer.filled()[range];
                    first_ns.get_or_insert_with(clock::loop_ns);
                    reader.read(data);
                    bytes += data.len() as u64;
                    match passing {
                        Some(framing) => x.put(framing, data),
                        None => body.extend_from_slice(data),
                    }
                    ended = decoder.is_done();
                }
            }
            up.buffer.consume(consumed);
        }
        if passing.is_none() && body.len() > HELD && passes_large && !ended {
            // Too large to be held: from here on a cut closes the client's connection too.
            state::note(call, plan, reader.response_id());
            let framing = x.client_framing(call, kind);
            x.begin_response(call, plan, received.status, &received.lines, framing);
            x.put(framing, &body);
            body = Vec::new();
            passing = Some(framing);
        }
        if passing.is_some() && !x.down.out.is_empty() {
            send(x, call).await?;
        }
        if ended {
            break End::Proper;
        }
        if body.len() > MOST {
            break End::Truncated;
        }
        let idle = call.model.token_idle.map_or(u64::MAX, |idle| clock::loop_ns().saturating_add(nanos(idle)));
        let due = if first_ns.is_none() { received.first_due } else { idle };
        match read_more(x, call, up, due).await? {
            Waited::Bytes => {}
            Waited::Closed if decoder.close().is_ok() => break End::Proper,
            Waited::Closed => break End::Truncated,
            Waited::Late => break End::Late,
            Waited::TooLong => return Err(Failed::too_long()),
        }
    };
    let facts = reader.finish();
    if is_success {
        state::note(call, plan, facts.response_id.as_deref());
    }
    if let Some(record) = x.ai.as_mut().filter(|_| may_pass) {
        record.first_token_ns = first_ns.map(|first| first.saturating_sub(received.sent_at));
    }
    if let Some(framing) = passing {
        if end != End::Proper || is_unfinished(call, &facts) || facts.malformed {
            // The client has part of it: its connection ends without an end.
            count(x, call, plan, (&facts, bytes), false);
            return Err(Failed { kind: Some(FailureKind::IncompleteResponse), ..Failed::last(Reason::AiCut.into()) });
        }
        if framing == BodyKind::Chunked {
            encode::last_chunk(&mut x.down.out.bytes);
            send(x, call).await?;
        }
        x.send_state = SendState::Complete;
        storable::mark_whole(call, received.status, &facts);
        count(x, call, plan, (&facts, bytes), true);
        return Ok(Ended { is_clean: true, failure: None });
    }
    let response = Response { status: received.status, lines: std::mem::take(&mut received.lines), body };
    match judge(call, plan, received, &facts, end, first_ns.is_some()) {
        None if !may_pass => Err(Failed::fault(Fault::BAD_REQUEST, None)),
        None => {
            let random = x.worker.random();
            let response = match plan.translated {
                Some(_) if facts.refuses_prompt() => return Err(Failed::prompt_refused()),
                Some(_) => translation::response(call.api, plan.api, response, random).map_err(|_| malformed())?,
                None => response,
            };
            if is_success {
                count(x, call, plan, (&facts, bytes), true);
                storable::mark_whole(call, received.status, &facts);
            }
            x.send_response(call, plan, &response).await.map_err(Failed::last)?;
            Ok(Ended { is_clean: end == End::Proper, failure: FailureKind::of_status(received.status) })
        }
        Some(fault) => {
            let message = facts.error.map(|error| error.message).unwrap_or_default();
            let kind = FailureKind::of_status(if received.status == 529 { 503 } else { received.status })
                .or_else(|| failure_of(fault, received.status));
            // The request is at fault, not the provider.
            let is_refused = (400..500).contains(&received.status) && fault.rule().next == Next::Nothing;
            let reason = if is_refused { Reason::AiRequest } else { reason_of(fault) };
            let error = Error::new(reason, Failed::fault(fault, None).error.detail);
            let response = Some(response).filter(|_| !is_success && end == End::Proper);
            let retry_after = received.retry_after;
            Err(Failed { error, retry_after, response, message, ..Failed::fault(fault, kind) })
        }
    }
}

/// The fault of a response; `None` if it goes to the client as it is, or translated.
fn judge(
    call: &Call<'_>,
    plan: &AttemptPlan<'_>,
    received: &ProviderResponse,
    facts: &Facts,
    end: End,
    has_body: bool,
) -> Option<Fault> {
    if end == End::Late && !has_body {
        return Some(Fault::NO_CONTENT_IN_TIME);
    }
    let head = Head { status: received.status, retry_after: received.retry_after };
    let is_success = (200..300).contains(&received.status);
    if is_success && end != End::Proper {
        return Some(Fault::TRUNCATED);
    }
    if let Shape::Stored(_) = call.shape {
        return match received.status {
            // What is stored may say anything: that its call has failed, or is not over.
            200..=299 => (has_body && facts.malformed).then_some(Fault::MALFORMED_BODY),
            // A 404 is about the response.
            400 | 404 | 409 if end == End::Proper => None,
            _ => fault::of_response(head, facts, end != End::Proper),
        };
    }
    if is_success && facts.error.is_none() && call.streams != received.is_events {
        return Some(Fault::MALFORMED_BODY);
    }
    if is_success && facts.error.is_none() && facts.json && !facts.malformed && is_unfinished(call, facts) {
        return Some(Fault::EMPTY);
    }
    let fault = fault::of_response(head, facts, end != End::Proper)?;
    // A count is neither content nor an end.
    if fault == Fault::EMPTY && (call.counts || is_in_background(call, facts)) {
        return None;
    }
    // An error in the form of another API is written anew.
    let is_foreign = plan.translated.is_some() && !is_success;
    let rule = fault.rule();
    let passes = rule.next == Next::Nothing && rule.status == 0 && end == End::Proper && !is_foreign;
    (!passes).then_some(fault)
}

/// The provider works on it, and has said so.
fn is_in_background(call: &Call<'_>, facts: &Facts) -> bool {
    facts.pending && call.state.is_some_and(|state| state.is_background)
}

/// A stream in the form of an array is a whole response, but its elements may end before the model did.
fn is_unfinished(call: &Call<'_>, facts: &Facts) -> bool {
    call.method == Some(GeminiMethod::Stream) && facts.end_reason.is_none()
}

fn failure_of(fault: Fault, status: u16) -> Option<FailureKind> {
    match fault {
        Fault::MALFORMED_BODY | Fault::EMPTY => Some(FailureKind::InvalidResponse),
        Fault::TRUNCATED => Some(FailureKind::IncompleteResponse),
        Fault::NO_CONTENT_IN_TIME => Some(FailureKind::FirstByteTimeout),
        _ => FailureKind::of_status(status),
    }
}

/// A response that has no meaning in the client's API.
fn malformed() -> Failed {
    Failed::fault(Fault::MALFORMED_BODY, Some(FailureKind::InvalidResponse))
}

/// Counts the tokens of a response of so many bytes. A provider that does not report them must not make calls free: where the model has produced
/// something, which ends for a reason, they are estimated by the bytes, the JSON around the text included.
fn count(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    plan: &AttemptPlan<'_>,
    (facts, bytes): (&Facts, u64),
    is_complete: bool,
) {
    if let Some(record) = x.ai.as_mut().filter(|_| !call.counts) {
        if let Some(tokens) = call.background_tokens().filter(|_| facts.pending) {
            record.tokens = Some(tokens);
            record.estimated = true;
            return;
        }
        let is_reported = facts.usage.output.is_some() || facts.end_reason.is_none();
        let delivered = if is_reported { 0 } else { (bytes as f64 / llm::tokens::START_RATIO).ceil() as u64 };
        record.count(&facts.usage, plan.api, delivered, is_complete);
    }
}

async fn send(x: &mut Exchange<'_>, call: &Call<'_>) -> Result<(), Failed> {
    match call.lead {
        Some(lead) => hand_on(x, call, lead, true).await,
        None => x.send_put(&[]).await.map_err(Failed::last),
    }
}
