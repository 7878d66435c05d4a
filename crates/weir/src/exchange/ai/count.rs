//! Counts of tokens where no provider of the model has the client's API: the gateway's own estimate, marked as one.

use h1::encode;
use llm::Api;
use llm::api::Family;
use serde_json::json;

use super::super::Exchange;
use super::problem::Stop;
use crate::config::{Config, Model};
use crate::http::response::Prepared;

/// Whether a provider of the model can count for a client of this API.
pub(super) fn is_served(config: &Config, model: &Model, api: Api) -> bool {
    model.candidates.iter().any(|candidate| config.providers[candidate.provider.0].family == api.family())
}

/// Whether the prompt is in a request within the request, the other form of Gemini's API: there nothing is estimated, redacted or named anew.
pub(super) fn has_inner_request(api: Api, body: &[u8]) -> bool {
    const NAMES: [&str; 2] = ["generateContentRequest", "generate_content_request"];
    api == Api::Gemini && llm::json::has_member(body, &NAMES)
}

/// Responds with the estimate.
///
/// # Errors
/// The client does not take the response.
pub(super) async fn estimated(x: &mut Exchange<'_>, api: Api, estimate: u64) -> Result<(), Stop> {
    let document = match api.family() {
        Family::Gemini => json!({"totalTokens": estimate}),
        Family::Anthropic | Family::OpenAi => json!({"input_tokens": estimate}),
    };
    let mut fields = Vec::new();
    encode::field(&mut fields, b"X-Weir-Estimate", b"true");
    x.response(&Prepared::new(200, Some("application/json"), &fields, document.to_string().as_bytes())).await?;
    Ok(())
}
