//! Responses that nobody here reads: audio, subtitles, events of stored responses. The client gets the head with the first byte of the body, so that
//! until then another attempt can take the place of one that fails; a body that is cut later ends the client's connection without an end.

use h1::{BodyDecoder, BodyEvent, BodyKind, encode};
use llm::Api;
use llm::fault::Fault;
use llm::response::Usage;

use super::super::upstream_exchange::UpstreamSide;
use super::super::{Exchange, SendState};
use super::attempt::{AttemptPlan, Ended, Failed, ProviderResponse, Waited, read_more};
use super::{Call, Shape};
use crate::error::Reason;
use crate::runtime::clock;
use crate::runtime::deadline::nanos;
use crate::upstream::FailureKind;

/// Bytes for the client that are put together before they are written.
const WRITTEN: usize = 64 * 1024;

/// Whether the body of a response passes unread.
pub(super) fn is_opaque(call: &Call<'_>, response: &ProviderResponse) -> bool {
    let is_unread = match (call.shape, call.api) {
        (Shape::Stored(_), _) | (_, Api::ImageEdits | Api::ImageVariations) => response.is_events,
        (_, api) => api.is_opaque() && !response.is_document,
    };
    is_unread && (200..300).contains(&response.status)
}

/// Passes a response on as it comes.
///
/// # Errors
/// Before the first byte of the body, every failure after which another attempt may succeed; later that the response is cut, or the client has
/// disconnected.
pub(super) async fn run(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    plan: &AttemptPlan<'_>,
    up: &mut UpstreamSide,
    response: &ProviderResponse,
) -> Result<Ended, Failed> {
    let kind = x.scratch.response.body;
    let framing = x.client_framing(call, kind);
    let mut decoder = BodyDecoder::new(kind);
    let mut has_begun = false;
    let mut ended = kind == BodyKind::None;
    let cut = loop {
        let mut is_malformed = false;
        while !ended {
            let Ok((consumed, event)) = decoder.decode(up.buffer.filled()) else {
                is_malformed = true;
                break;
            };
            match event {
                BodyEvent::NeedMore => {
                    up.buffer.consume(consumed);
                    break;
                }
                BodyEvent::End => ended = true,
                BodyEvent::Data(range) => {
                    if !has_begun && !range.is_empty() {
                        has_begun = true;
                        if let Some(record) = &mut x.ai {
                            record.first_token_ns = Some(clock::loop_ns().saturating_sub(response.sent_at));
                        }
                        x.begin_response(call, plan, response.status, &response.lines, framing);
                    }
                    x.put(framing, &up.buffer.filled()[range]);
                    ended = decoder.is_done();
                }
            }
            up.buffer.consume(consumed);
            if x.down.out.bytes.len() > WRITTEN {
                send(x).await?;
            }
        }
        if has_begun && !x.down.out.is_empty() {
            send(x).await?;
        }
        if ended {
            break None;
        }
        if is_malformed {
            break Some(FailureKind::IncompleteResponse);
        }
        let idle = call.model.token_idle.map_or(u64::MAX, |idle| clock::loop_ns().saturating_add(nanos(idle)));
        match read_more(x, call, up, if has_begun { idle } else { response.first_due }).await? {
            Waited::Bytes => {}
            Waited::Closed if decoder.close().is_ok() => break None,
            Waited::Closed => break Some(FailureKind::IncompleteResponse),
            Waited::Late if !has_begun => break Some(FailureKind::FirstByteTimeout),
            Waited::Late => break Some(FailureKind::IdleTimeout),
            Waited::TooLong => return Err(Failed::too_long()),
        }
    };
    match cut {
        None if !has_begun => Err(Failed::fault(Fault::EMPTY, Some(FailureKind::InvalidResponse))),
        None => {
            if framing == BodyKind::Chunked {
                encode::last_chunk(&mut x.down.out.bytes);
                send(x).await?;
            }
            x.send_state = SendState::Complete;
            count(x, call, plan);
            Ok(Ended { is_clean: true, failure: None })
        }
        Some(kind) => {
            let is_late = matches!(kind, FailureKind::FirstByteTimeout | FailureKind::IdleTimeout);
            // Events of a stored response may be long in coming, whenever a client wants to wait for them: the target is not at fault.
            let charged = Some(kind).filter(|_| !(is_late && matches!(call.shape, Shape::Stored(_))));
            if !has_begun {
                let fault = if is_late { Fault::NO_CONTENT_IN_TIME } else { Fault::TRUNCATED };
                return Err(Failed::fault(fault, charged));
            }
            count(x, call, plan);
            Err(Failed { kind: charged, ..Failed::last(Reason::AiCut.into()) })
        }
    }
}

/// A call costs its input, as estimated: nothing here says what else.
fn count(x: &mut Exchange<'_>, call: &Call<'_>, plan: &AttemptPlan<'_>) {
    if let Some(record) = x.ai.as_mut().filter(|_| !call.counts) {
        record.count(&Usage::default(), plan.api, 0, false);
    }
}

async fn send(x: &mut Exchange<'_>) -> Result<(), Failed> {
    x.send_put(&[]).await.map_err(Failed::last)
}
