//! Which responses of models may be stored: the one place that decides it.
//!
//! Complete ones whose model ended by itself, or calls tools. Never one that was cut, whose length a limit ended, that a filter stopped, or whose
//! provider left its form. What the gateway itself puts into a response is no part of what another client must get: one that was recovered from two
//! attempts, or that has heartbeats in it, is marked by nobody here.

use llm::Api;
use llm::fault::Fault;
use llm::response::{EndReason, Facts};

use super::Call;

/// Marks a complete stream.
pub(super) fn mark_stream(call: &Call<'_>, end: Option<EndReason>, fault: Option<Fault>) {
    // A provider that leaves out its last event is complete all the same: it is added.
    let is_well = fault.is_none_or(|fault| fault == Fault::NO_LAST_EVENT);
    if let Some(lead) = call.lead
        && is_well
        && end.is_some_and(EndReason::is_cacheable)
    {
        lead.may_be_stored();
    }
}

/// Marks a complete whole response.
pub(super) fn mark_whole(call: &Call<'_>, status: u16, facts: &Facts) {
    let has_ended = match call.api {
        // Vectors have no end of their own.
        Api::Embeddings => facts.json,
        _ => facts.end_reason.is_some_and(EndReason::is_cacheable),
    };
    if let Some(lead) = call.lead
        && status == 200
        && has_ended
        && facts.error.is_none()
        && !facts.malformed
    {
        lead.may_be_stored();
    }
}
