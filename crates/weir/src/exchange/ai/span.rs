//! What a trace says of an attempt.

use llm::Api;
use llm::api::Family;

use super::super::Exchange;
use super::attempt::{AttemptPlan, Failed, detail_of, row};
use crate::observe::traces::Generation;
use crate::runtime::clock;

/// Status and error of an attempt; 0 without a response.
pub(super) fn outcome(x: &Exchange<'_>, result: &Result<(), Failed>) -> (u16, Option<&'static str>) {
    match result {
        Ok(()) => (x.log.status, x.log.error.map(|error| error.reason.label())),
        Err(failed) => {
            let status = failed.response.as_ref().map_or(0, |response| response.status);
            (status, Some(failed.error.reason.label()))
        }
    }
}

/// Ends the span of an attempt. The provider sees nothing of the trace: it is the gateway's own.
pub(super) fn end(
    x: &mut Exchange<'_>,
    plan: &AttemptPlan<'_>,
    result: &Result<(), Failed>,
    (status, error): (u16, Option<&'static str>),
) {
    let record = x.ai.as_ref();
    let fault = match result {
        Ok(()) => row(record.map_or(0, |record| record.fault)),
        Err(failed) => failed.fault.map_or("", detail_of),
    };
    let generation = Generation {
        operation: match plan.api {
            Api::Completions => "text_completion",
            Api::Gemini => "generate_content",
            Api::Chat | Api::Responses | Api::Messages => "chat",
            api => api.name(),
        },
        api: match plan.api.family() {
            Family::OpenAi => "openai",
            Family::Anthropic => "anthropic",
            Family::Gemini => "gcp.gemini",
        },
        provider: plan.provider.name.clone(),
        model: plan.candidate.model.clone(),
        tokens: record.filter(|record| result.is_ok() && !record.estimated).and_then(|record| record.tokens),
        fault,
    };
    x.scratch.trace.generated(generation);
    x.scratch.trace.end_attempt(status, None, error, clock::loop_ns());
}
