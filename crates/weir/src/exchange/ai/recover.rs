//! Streams that break off after content, where the model has `recover: splice`: another attempt repeats what the client has, which is withheld, and
//! goes on from there (`llm::splice`). With `recover: continue` a model that can is told to go on with the text instead (`llm::request::prefilled`).
//!
//! ```text
//! first attempt ---- breaks off ----> another target, else the next candidate, the same target last
//!   | complete                          | repeats it, goes on, complete ------> the client has one response
//!   v                                   | breaks off too ---------------------> once more
//!  as without `recover`                 | says something else, or none is left -> the error event of the first fault
//! ```

use h1::BodyKind;
use llm::error::ApiError;
use llm::fault::{self, Fault};
use llm::request::{Prefill, RequestScan, prefilled, scan};
use llm::splice::{Differs, Splice};
use llm::stream::Failure;

use super::super::{Exchange, SendState};
use super::attempt::{AttemptPlan, Failed};
use super::problem::Stop;
use super::record::Served;
use super::shared::hand_on;
use super::{Call, Record};
use crate::config::Recover;
use crate::error::{Error, Reason};
use crate::policy::ai::metrics::Recovered;

/// A stream is continued so often.
const MOST_TIMES: u32 = 2;

/// A stream of which the client has a part, or will have.
pub(super) struct Begun {
    splice: Splice,
    /// How its body goes to the client.
    pub framing: BodyKind,
    /// Attempts that went on with it.
    times: u32,
    /// The attempt on its way was told to go on with the text.
    pub is_prefilled: bool,
    /// Candidates, by their place in the model, that did not take such a request.
    pub refused_by: Vec<usize>,
    /// It repeats nothing of it.
    goes_on_behind: bool,
    /// Events with content that the client has, about.
    pub delivered: u64,
    /// Why it broke off first.
    broken: Option<Broken>,
    /// The attempt that the client has the last content of.
    served: Option<Served>,
    /// The attempt on its way has gone on with it.
    is_unsaved: bool,
    /// The attempt says something else.
    pub differs: bool,
    /// It has broken off, and no attempt was made since.
    pub is_open: bool,
    /// No attempt may go on.
    pub is_final: bool,
}

/// Why a stream broke off, as its client is told.
pub(super) struct Broken {
    /// Of the error event.
    pub code: &'static str,
    /// For the log.
    pub fault: Fault,
    /// The provider's own error event.
    pub own: Option<Vec<u8>>,
}

impl Begun {
    /// For the first attempt; `None` if nothing could go on with it.
    pub(super) fn watch(call: &Call<'_>, framing: BodyKind) -> Option<Box<Self>> {
        if call.model.recover == Recover::None {
            return None;
        }
        let splice = Splice::new(call.api)?;
        Some(Box::new(Begun {
            splice,
            framing,
            times: 0,
            is_prefilled: false,
            refused_by: Vec::new(),
            goes_on_behind: false,
            delivered: 0,
            broken: None,
            served: None,
            is_unsaved: false,
            differs: false,
            is_open: false,
            is_final: false,
        }))
    }

    /// The request of an attempt that is told to go on with the text, and what it says; `None` if the attempt must repeat it.
    pub(super) fn request(&mut self, call: &Call<'_>, plan: &AttemptPlan<'_>) -> Option<(Vec<u8>, RequestScan)> {
        let is_wanted = call.model.recover == Recover::Continue
            && plan.translated.is_none()
            && plan.may_prefill
            && call.scan.choices(call.api, call.body) == 1;
        let prefill = plan.candidate.prefill.filter(|_| is_wanted);
        let request =
            prefill.zip(self.splice.plain_text()).and_then(|(how, text)| prefilled(call.api, call.body, text, how));
        let request = request.and_then(|body| scan(&body).ok().map(|scan| (body, scan)));
        // A server that sends the text again is one that repeats it.
        self.goes_on_behind = request.is_some() && prefill != Some(Prefill::Prefix);
        self.is_prefilled = request.is_some();
        request
    }

    /// Another attempt has a stream, which must go on with this one.
    pub(super) fn restart(&mut self) {
        self.times += 1;
        if self.goes_on_behind { self.splice.restart_behind() } else { self.splice.restart() }
    }

    /// Whether the attempt on its way goes on behind the text, and so repeats none of it.
    pub(super) fn goes_on_behind(&self) -> bool {
        self.goes_on_behind && self.times > 0
    }

    /// Whether the client has anything of the attempt on its way.
    pub(super) fn has_continued(&self) -> bool {
        self.splice.has_continued()
    }

    /// Whether an attempt goes on with what another one began.
    pub(super) fn is_repeated(&self) -> bool {
        self.times > 0
    }

    /// Takes bytes of an event, `last` with its end; appends what the client gets.
    ///
    /// # Errors
    /// The attempt says something else than the one before.
    pub(super) fn piece(&mut self, bytes: &[u8], last: bool, out: &mut Vec<u8>) -> Result<(), Differs> {
        let taken = self.splice.piece(bytes, last, out);
        self.differs |= taken.is_err();
        self.is_unsaved |= self.splice.has_continued();
        taken
    }

    /// Whether another attempt may go on after this failure.
    pub(super) fn may_go_on(&self, failure: &Failure) -> bool {
        let is_passing = match failure {
            Failure::Cut | Failure::Stalled | Failure::Malformed => true,
            Failure::Error(error) => {
                matches!(fault::of_error(error, None, None), Fault::SERVER_ERROR | Fault::OVERLOADED)
            }
        };
        is_passing && self.times < MOST_TIMES && self.splice.can_go_on()
    }

    /// The stream broke off; the first reason stays. `record`: of the attempt, which has sent content unless it only repeated another one.
    pub(super) fn broke_off(&mut self, broken: Broken, record: Option<&Record>) {
        if self.broken.is_none() || self.is_unsaved {
            self.served = record.map(Record::served);
            self.is_unsaved = false;
        }
        self.broken.get_or_insert(broken);
        self.is_open = true;
    }

    /// No attempt went on with it: the call costs what the client has.
    pub(super) fn abandon(&mut self, x: &mut Exchange<'_>, call: &Call<'_>) {
        if self.broken.is_none() {
            return;
        }
        if let (Some(record), Some(served), false) = (&mut x.ai, self.served.take(), self.is_unsaved) {
            record.restore(served);
        }
        count(x, call, if self.differs { Recovered::Differs } else { Recovered::Failed });
    }
}

/// No attempt went on with the stream: it ends as it would have ended without any.
///
/// # Errors
/// The client has disconnected.
pub(super) async fn give_up(x: &mut Exchange<'_>, call: &Call<'_>, mut begun: Begun) -> Result<(), Stop> {
    begun.abandon(x, call);
    let broken = begun.broken.unwrap_or(Broken { code: "upstream_cut", fault: Fault::CUT, own: None });
    let ended = match broken.own {
        Some(event) => end_with(x, call, begun.framing, &event, broken.fault).await,
        None => end_with_own(x, call, (begun.framing, begun.delivered), broken.code, broken.fault).await,
    };
    ended.map_err(|failed| failed.error.into())
}

/// Counts what came of a stream that broke off.
pub(super) fn count(x: &mut Exchange<'_>, call: &Call<'_>, result: Recovered) {
    if let Some(record) = &mut x.ai {
        record.recovered = Some(result);
        call.snapshot.generation.ai.pair(call.model_id, record.candidate).recovered(result);
    }
}

/// Ends a client's stream with the gateway's error event; `delivered`: events with content before it.
///
/// # Errors
/// The client has disconnected.
pub(super) async fn end_with_own(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    (framing, delivered): (BodyKind, u64),
    code: &'static str,
    fault: Fault,
) -> Result<(), Failed> {
    let message = match code {
        "upstream_stalled" => "The provider's response stalled before its end",
        "upstream_malformed" => "The provider's response cannot be read any further",
        "upstream_error" => "The provider reported an error before the end of its response",
        _ => "The provider's response broke off before its end",
    };
    let own = ApiError { status: 502, code, message, param: None };
    let event = x.error_event(call.api, &own, delivered);
    end_with(x, call, framing, &event, fault).await
}

/// Ends a client's stream with an error event.
///
/// # Errors
/// The client has disconnected.
pub(super) async fn end_with(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    framing: BodyKind,
    event: &[u8],
    fault: Fault,
) -> Result<(), Failed> {
    if let Some(lead) = call.lead {
        lead.broke_off();
    }
    x.put(framing, event);
    x.log.error = Some(Error::new(Reason::AiCut, Failed::fault(fault, None).error.detail));
    x.worker.metrics.not_served(Reason::AiCut);
    if let Some(record) = &mut x.ai {
        record.fault = fault.number();
    }
    close(x, call, framing).await
}

/// Ends the body of a client's stream.
///
/// # Errors
/// The client has disconnected.
pub(super) async fn close(x: &mut Exchange<'_>, call: &Call<'_>, framing: BodyKind) -> Result<(), Failed> {
    let Some(lead) = call.lead else { return x.end_body(framing).await.map_err(Failed::last) };
    // Each client's body has an end of its own.
    hand_on(x, call, lead, true).await?;
    x.send_state = SendState::Complete;
    Ok(())
}
