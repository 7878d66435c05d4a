//! Event streams: nothing is sent before content, and afterwards a stream ends complete or with an error event, never otherwise.

use h1::{BodyDecoder, BodyEvent, BodyKind, encode};
use llm::fault::{self, Fault};
use llm::stream::{BodyEnd, EventReader, EventSplitter, Failure, Handling, Outcome, StreamState};

use super::super::Exchange;
use super::super::upstream_exchange::UpstreamSide;
use super::attempt::{AttemptPlan, Ended, Failed, ProviderResponse, Waited, read_more};
use super::recover::{Begun, Broken};
use super::shared::hand_on;
use super::translation::StreamTranslation;
use super::{Call, recover, state, storable};
use crate::error::{Error, Reason};
use crate::policy::ai::metrics::Recovered;
use crate::runtime::clock;
use crate::runtime::deadline::nanos;
use crate::upstream::FailureKind;

/// Bytes before content that are held; no provider sends a hundredth of it.
const HELD: usize = 1 << 20;
/// Bytes behind the last event that are read, so that the connection can go on.
const BEHIND_END: u64 = 64 * 1024;
/// How long its end is waited for.
const END_NS: u64 = 50_000_000;
/// Most bytes of one event: a larger one cuts the stream.
const LARGEST_EVENT: u64 = 64 << 20;
/// Bytes for the client that are put together before they are written.
const WRITTEN: usize = 64 * 1024;

/// One stream on its way.
struct Relay<'a> {
    call: &'a Call<'a>,
    plan: &'a AttemptPlan<'a>,
    response: &'a ProviderResponse,
    splitter: EventSplitter,
    reader: EventReader,
    state: StreamState,
    translation: Option<StreamTranslation>,
    framing: BodyKind,
    /// What came before content.
    held: Vec<u8>,
    /// The head of the response is written.
    is_begun: bool,
    /// Another attempt may go on with this stream, or it goes on with another one's.
    begun: Option<Box<Begun>>,
    /// The provider's error event, until it is known whether another attempt goes on.
    own_error: Option<Vec<u8>>,
    /// A piece of a larger event has left, and its end has not.
    in_event: bool,
    event_bytes: u64,
    /// Events with content: about as many tokens.
    delivered: u64,
    /// When the last of them came.
    content_ns: u64,
    /// The end, once it is known before the body's.
    end: Option<BodyEnd>,
    /// The provider refused the prompt, and the client's API says that with a status.
    is_refused: bool,
    /// The whole exchange has taken too long.
    is_too_late: bool,
}

/// Relays a stream, or goes on with the one in `begun`.
///
/// # Errors
/// Before content, every failure after which another attempt may succeed; later only that the client disconnected, or, with what the client has in
/// `begun`, that another attempt may go on.
pub(super) async fn run(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    plan: &AttemptPlan<'_>,
    up: &mut UpstreamSide,
    response: &ProviderResponse,
    begun: &mut Option<Box<Begun>>,
) -> Result<Ended, Failed> {
    let choices = call.scan.choices(call.api, call.body);
    let mut goes_on = begun.take();
    if let Some(begun) = &mut goes_on {
        begun.restart();
        if begun.goes_on_behind() {
            // A reader of the stream may know where another response begins.
            x.put(begun.framing, b": weir-recovered\n\n");
        }
    }
    let framing = match &goes_on {
        Some(begun) => begun.framing,
        None => x.client_framing(call, BodyKind::Chunked),
    };
    let mut relay = Relay {
        call,
        plan,
        response,
        splitter: EventSplitter::new(),
        reader: EventReader::new(plan.api),
        state: StreamState::new(plan.api, choices, plan.adds_usage),
        translation: plan.translated.is_some().then(|| StreamTranslation::new(call, plan.api, x.worker.random())),
        framing,
        held: Vec::new(),
        is_begun: goes_on.is_some(),
        begun: goes_on.or_else(|| Begun::watch(call, framing)),
        own_error: None,
        in_event: false,
        event_bytes: 0,
        delivered: 0,
        content_ns: 0,
        end: None,
        is_refused: false,
        is_too_late: false,
    };
    let result = relay.run(x, up).await;
    if result.is_err() && relay.is_begun && !relay.in_event {
        *begun = relay.begun;
    }
    result
}

impl Relay<'_> {
    async fn run(&mut self, x: &mut Exchange<'_>, up: &mut UpstreamSide) -> Result<Ended, Failed> {
        let (call, kind) = (self.call, x.scratch.response.body);
        let mut decoder = BodyDecoder::new(kind);
        let mut ended = kind == BodyKind::None;
        let end = loop {
            while !ended && self.end.is_none() {
                let (consumed, event) = match decoder.decode(up.buffer.filled()) {
                    Ok(step) => step,
                    Err(_) => {
                        self.end = Some(BodyEnd::Cut);
                        break;
                    }
                };
                match event {
                    BodyEvent::NeedMore => {
                        up.buffer.consume(consumed);
                        break;
                    }
                    BodyEvent::End => ended = true,
                    BodyEvent::Data(range) => {
                        self.data(x, &up.buffer.filled()[range]);
                        ended = decoder.is_done();
                    }
                }
                up.buffer.consume(consumed);
                if x.down.out.bytes.len() > WRITTEN {
                    self.flush(x).await?;
                }
            }
            if !x.down.out.is_empty() {
                self.flush(x).await?;
            }
            if let Some(end) = self.end {
                break end;
            }
            if ended || self.state.is_done() {
                break BodyEnd::Proper;
            }
            let idle = call.model.token_idle.map_or(u64::MAX, |idle| clock::loop_ns().saturating_add(nanos(idle)));
            let due = if self.state.is_committed() { idle } else { self.response.first_due };
            match read_more(x, call, up, due).await {
                Ok(Waited::Bytes) => {}
                Ok(Waited::Closed) if decoder.close().is_ok() => break BodyEnd::Proper,
                Ok(Waited::Closed) => break BodyEnd::Cut,
                Ok(Waited::Late) => break BodyEnd::Idle,
                Ok(Waited::TooLong) if !self.is_begun => return Err(Failed::too_long()),
                Ok(Waited::TooLong) => {
                    self.is_too_late = true;
                    break BodyEnd::Idle;
                }
                Err(gone) => {
                    self.count(x, false);
                    return Err(gone);
                }
            }
        };
        let failure = self.finish(x, end).await?;
        if let Some(lead) = call.lead {
            lead.end();
        }
        // The client has all of it. The connection goes on if nothing more than the end of its body comes, and soon.
        let mut behind = self.state.dropped_bytes();
        let due = clock::loop_ns().saturating_add(END_NS);
        while !ended && self.state.is_done() && behind < BEHIND_END {
            match decoder.decode(up.buffer.filled()) {
                Ok((consumed, BodyEvent::Data(range))) => {
                    behind += range.len() as u64;
                    up.buffer.consume(consumed);
                }
                Ok((consumed, BodyEvent::End)) => {
                    up.buffer.consume(consumed);
                    ended = true;
                }
                Ok((consumed, BodyEvent::NeedMore)) => {
                    up.buffer.consume(consumed);
                    if !matches!(read_more(x, call, up, due).await, Ok(Waited::Bytes)) {
                        break;
                    }
                }
                Err(_) => break,
            }
        }
        Ok(Ended { is_clean: ended && behind == 0, failure })
    }

    /// Takes bytes of the body; what goes to the client is put into `down.out`.
    fn data(&mut self, x: &mut Exchange<'_>, data: &[u8]) {
        let mut at = 0;
        let is_whole_wanted = self.translation.is_some() || self.is_repeated();
        while self.end.is_none() {
            // Borrowed from the splitter, which holds nothing while events come whole.
            let Some(piece) = self.splitter.next(data, &mut at) else { return };
            let (bytes, first, last) = (piece.bytes, piece.first, piece.last);
            self.event_bytes = if first { 0 } else { self.event_bytes } + bytes.len() as u64;
            self.reader.read(bytes);
            let handling = if !last {
                if self.event_bytes > LARGEST_EVENT {
                    self.end = Some(BodyEnd::Cut);
                    return;
                }
                if is_whole_wanted { Handling::Hold } else { self.state.large_piece() }
            } else {
                let facts = self.reader.finish();
                state::note(self.call, self.plan, facts.response_id.as_deref());
                if self.translation.is_some() && !self.is_begun && facts.refuses_prompt() {
                    self.is_refused = true;
                    self.end = Some(BodyEnd::Proper);
                    return;
                }
                if facts.content {
                    self.delivered += 1;
                    self.content_ns = clock::loop_ns();
                }
                self.state.event(&facts, self.event_bytes)
            };
            let (is_begun, is_translated) = (self.is_begun, self.translation.is_some());
            let emitted = Emit {
                translation: self.translation.as_mut(),
                begun: self.begun.as_deref_mut(),
                held: &mut self.held,
                is_begun: &mut self.is_begun,
                framing: self.framing,
            };
            match handling {
                Handling::Hold => {
                    if !emitted.push(x, bytes, last, None) || self.held.len() > HELD {
                        self.end = Some(BodyEnd::Cut);
                    }
                }
                Handling::Pass => {
                    let head = (self.call, self.plan, self.response);
                    if !emitted.push(x, bytes, last, Some(head)) {
                        self.end = Some(BodyEnd::Cut);
                    }
                    self.in_event = !last;
                }
                Handling::Drop | Handling::Remove => {}
                Handling::Fail(failure) => {
                    let is_own = matches!(failure, Failure::Error(_)) && !is_translated;
                    // The provider's own error event, and nothing behind it.
                    if is_own && is_begun && last && first {
                        self.own_error = Some(bytes.to_vec());
                        self.in_event = false;
                    } else if !first && !is_whole_wanted {
                        self.in_event = true;
                    }
                    self.end = Some(BodyEnd::Proper);
                }
            }
        }
    }

    /// The end of the stream: complete, an error event, or a fault after which another attempt may succeed.
    async fn finish(&mut self, x: &mut Exchange<'_>, end: BodyEnd) -> Result<Option<FailureKind>, Failed> {
        let has_rest = self.splitter.finish().is_some_and(|piece| !piece.bytes.trim_ascii().is_empty());
        // A last event without its blank line says all that it has to say.
        let in_event = has_rest && {
            let facts = self.reader.finish();
            !facts.done || self.state.event(&facts, 0) == Handling::Drop
        };
        if self.is_refused {
            return Err(Failed::prompt_refused());
        }
        let outcome = match self.state.end(end, in_event) {
            // The event with the first content could not be translated: the client has nothing yet.
            Outcome::Failed(_) if !self.is_begun => Outcome::Uncommitted(Failure::Malformed),
            outcome => outcome,
        };
        let fault = fault::of_stream(&outcome, self.state.in_tool_call(), self.state.dropped_bytes());
        self.count(x, matches!(outcome, Outcome::Complete { .. }));
        if let Some(failed) = self.breaks_off(x, &outcome, fault) {
            return Err(failed);
        }
        match outcome {
            Outcome::Uncommitted(failure) => {
                let fault = match (end, fault) {
                    (BodyEnd::Idle, _) => Fault::NO_CONTENT_IN_TIME,
                    (_, fault) => fault.unwrap_or(Fault::EMPTY),
                };
                let kind = match (end, &failure) {
                    (BodyEnd::Idle, _) => FailureKind::FirstByteTimeout,
                    (BodyEnd::Cut, _) | (_, Failure::Cut) => FailureKind::IncompleteResponse,
                    _ => FailureKind::InvalidResponse,
                };
                let message = if let Failure::Error(error) = failure { error.message } else { String::new() };
                Err(Failed { message, retry_after: self.response.retry_after, ..Failed::fault(fault, Some(kind)) })
            }
            Outcome::Complete { missing } => {
                let mut last = Vec::new();
                let translated = match &mut self.translation {
                    Some(translation) => translation.finish(missing, &mut last),
                    None => {
                        last.extend_from_slice(missing);
                        Ok(())
                    }
                };
                if translated.is_err() {
                    if let Some(begun) = self.begun.as_mut().filter(|begun| begun.is_repeated()) {
                        begun.is_final = true;
                        return Err(Failed::fault(Fault::MALFORMED_EVENT, Some(FailureKind::InvalidResponse)));
                    }
                    return self.fail(x, "upstream_malformed", Fault::MALFORMED_EVENT).await;
                }
                if let Some(begun) = &mut self.begun {
                    let mut new = Vec::new();
                    if begun.piece(&last, true, &mut new).is_err() {
                        return Err(Failed::last(Error::new(Reason::AiCut, "another attempt differs")));
                    }
                    last = new;
                }
                x.put(self.framing, &last);
                if let (Some(record), Some(fault)) = (&mut x.ai, fault) {
                    record.fault = fault.number();
                }
                if self.is_repeated() {
                    recover::count(x, self.call, Recovered::Complete);
                } else {
                    storable::mark_stream(self.call, self.state.end_reason(), fault);
                }
                self.begun = None;
                recover::close(x, self.call, self.framing).await.map(|()| None)
            }
            Outcome::Failed(Failure::Error(_)) if self.own_error.is_some() => {
                let event = self.own_error.take().unwrap_or_default();
                self.begun = None;
                recover::end_with(x, self.call, self.framing, &event, Fault::ERROR_AFTER_CONTENT).await?;
                Ok(Some(FailureKind::IncompleteResponse))
            }
            Outcome::Failed(failure) => self.fail(x, failure.code(), fault.unwrap_or(Fault::CUT)).await,
        }
    }

    /// Ends the client's stream with an error event; where a piece of an event has left, without an end.
    async fn fail(
        &mut self,
        x: &mut Exchange<'_>,
        code: &'static str,
        fault: Fault,
    ) -> Result<Option<FailureKind>, Failed> {
        if self.in_event {
            let error = Error::new(Reason::AiCut, Failed::fault(fault, None).error.detail);
            return Err(Failed { kind: Some(FailureKind::IncompleteResponse), ..Failed::last(error) });
        }
        self.begun = None;
        recover::end_with_own(x, self.call, (self.framing, self.delivered), code, fault).await?;
        let kind = if code == "upstream_stalled" { FailureKind::IdleTimeout } else { FailureKind::IncompleteResponse };
        Ok(Some(kind))
    }

    /// The client has part of a response, and another attempt may go on with it, or this one went on with something else.
    fn breaks_off(&mut self, x: &Exchange<'_>, outcome: &Outcome, fault: Option<Fault>) -> Option<Failed> {
        let delivered = self.delivered();
        let begun = self.begun.as_mut().filter(|_| self.is_begun)?;
        begun.delivered = delivered;
        if begun.differs {
            return Some(Failed::last(Error::new(Reason::AiCut, "another attempt differs")));
        }
        let Outcome::Failed(failure) = outcome else { return None };
        begun.is_final = !begun.may_go_on(failure) || self.is_too_late || self.in_event;
        if begun.is_final && !begun.is_repeated() {
            return None;
        }
        let fault = fault.unwrap_or(Fault::CUT);
        begun.broke_off(Broken { code: failure.code(), fault, own: self.own_error.take() }, x.ai.as_deref());
        let kind =
            if *failure == Failure::Stalled { FailureKind::IdleTimeout } else { FailureKind::IncompleteResponse };
        Some(Failed::fault(fault, Some(kind)))
    }

    /// It goes on with what another attempt began.
    fn is_repeated(&self) -> bool {
        self.begun.as_ref().is_some_and(|begun| begun.is_repeated())
    }

    /// Events with content that the client has, about; those that repeat others are not counted again.
    fn delivered(&self) -> u64 {
        // An event may have several tokens, of which a provider may tell before the end.
        let own = self.delivered.max(self.state.usage().total_output());
        match &self.begun {
            None => self.delivered,
            Some(begun) if begun.goes_on_behind() => begun.delivered.saturating_add(own),
            Some(begun) if begun.is_repeated() && !begun.has_continued() => begun.delivered,
            Some(begun) => own.max(begun.delivered),
        }
    }

    /// Writes what there is for the client. A call whose client has disconnected costs what was delivered until now.
    async fn flush(&self, x: &mut Exchange<'_>) -> Result<(), Failed> {
        let sent = self.write(x).await;
        if sent.is_err() {
            self.count(x, false);
        }
        sent
    }

    async fn write(&self, x: &mut Exchange<'_>) -> Result<(), Failed> {
        match self.call.lead {
            Some(lead) => hand_on(x, self.call, lead, !self.in_event).await,
            None => x.send_put(&[]).await.map_err(Failed::last),
        }
    }

    fn count(&self, x: &mut Exchange<'_>, is_complete: bool) {
        if let Some(record) = &mut x.ai
            && self.is_begun
        {
            record.count(self.state.usage(), self.plan.api, self.delivered(), is_complete);
            if let Some(tokens) = self.call.background_tokens().filter(|_| !is_complete) {
                record.tokens = Some(tokens);
            }
            // What the provider reports is of this attempt only.
            let before = self.begun.as_ref().filter(|begun| begun.goes_on_behind()).map_or(0, |begun| begun.delivered);
            if let (Some([_, output, _]), false) = (&mut record.tokens, record.estimated) {
                *output = output.saturating_add(before);
                record.estimated = before > 0;
            }
            record.is_prefilled = self.begun.as_ref().is_some_and(|begun| begun.is_prefilled);
            // Between the pieces of this attempt; what a stream waited for another one is no pace of a model.
            let first =
                record.first_token_ns.filter(|_| !self.is_repeated()).map(|first| self.response.sent_at + first);
            let lasted = first.map(|first| self.content_ns.saturating_sub(first));
            record.inter_token_ns = lasted.and_then(|lasted| lasted.checked_div(self.delivered.saturating_sub(1)));
        }
    }
}

/// Where the text of events goes.
struct Emit<'e> {
    translation: Option<&'e mut StreamTranslation>,
    begun: Option<&'e mut Begun>,
    held: &'e mut Vec<u8>,
    is_begun: &'e mut bool,
    framing: BodyKind,
}

impl Emit<'_> {
    /// Takes bytes of an event, `last` with its end. With a head the response begins, unless it has. False if they cannot be translated.
    fn push(
        self,
        x: &mut Exchange<'_>,
        bytes: &[u8],
        last: bool,
        head: Option<(&Call<'_>, &AttemptPlan<'_>, &ProviderResponse)>,
    ) -> bool {
        let mut translated = Vec::new();
        let mut dropped: &[String] = &[];
        let text = match self.translation {
            None => bytes,
            Some(translation) => {
                if translation.piece(bytes, last, &mut translated).is_err() {
                    return false;
                }
                dropped = translation.dropped();
                &translated
            }
        };
        let mut new = Vec::new();
        let text = match self.begun {
            None => text,
            Some(begun) => {
                if begun.piece(text, last, &mut new).is_err() {
                    return false;
                }
                &new
            }
        };
        if let Some((call, plan, response)) = head
            && !*self.is_begun
        {
            *self.is_begun = true;
            if let Some(record) = &mut x.ai {
                record.first_token_ns = Some(clock::loop_ns().saturating_sub(response.sent_at));
            }
            let mut lines = Vec::new();
            let lines = if plan.translated.is_some() {
                encode::field(&mut lines, b"Content-Type", b"text/event-stream; charset=utf-8");
                encode::field(&mut lines, b"Cache-Control", b"no-cache");
                if !dropped.is_empty() {
                    encode::field(&mut lines, b"X-Weir-Dropped", dropped.join(", ").as_bytes());
                }
                &lines
            } else {
                &response.lines
            };
            x.begin_response(call, plan, response.status, lines, self.framing);
            x.put(self.framing, self.held);
            *self.held = Vec::new();
        }
        if *self.is_begun {
            x.put(self.framing, text);
        } else {
            self.held.extend_from_slice(text);
        }
        true
    }
}
