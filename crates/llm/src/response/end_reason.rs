//! Why a choice ended, in one vocabulary.

use crate::Api;
use crate::api::Family;

/// Why a choice ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// The model was done, or met a stop sequence.
    Stop,
    /// The limit of output tokens or the context was reached.
    Length,
    /// The model calls tools.
    ToolCalls,
    /// A filter of the provider, or a refusal of the model that the API reports as an end reason.
    ContentFilter,
    /// The provider reports a fault of its own or of the model: nothing that another API has a name for.
    Fault,
    /// A reason that this gateway does not know.
    Unknown,
}

impl EndReason {
    /// Reads the reason of an API.
    pub fn of(api: Api, text: &[u8]) -> EndReason {
        match (api.family(), text) {
            (Family::OpenAi, b"stop" | b"completed") => EndReason::Stop,
            (Family::OpenAi, b"length" | b"max_output_tokens" | b"max_tokens") => EndReason::Length,
            (Family::OpenAi, b"tool_calls" | b"function_call") => EndReason::ToolCalls,
            (Family::OpenAi, b"content_filter") => EndReason::ContentFilter,
            (Family::Anthropic, b"end_turn" | b"stop_sequence") => EndReason::Stop,
            (Family::Anthropic, b"max_tokens" | b"model_context_window_exceeded") => EndReason::Length,
            (Family::Anthropic, b"tool_use") => EndReason::ToolCalls,
            (Family::Anthropic, b"refusal") => EndReason::ContentFilter,
            (Family::Anthropic, b"pause_turn") => EndReason::Fault,
            (Family::Gemini, b"STOP") => EndReason::Stop,
            (Family::Gemini, b"MAX_TOKENS") => EndReason::Length,
            (Family::Gemini, b"SAFETY" | b"RECITATION" | b"BLOCKLIST" | b"PROHIBITED_CONTENT" | b"SPII") => {
                EndReason::ContentFilter
            }
            (Family::Gemini, text) if text.starts_with(b"IMAGE_") => EndReason::ContentFilter,
            (
                Family::Gemini,
                b"MALFORMED_FUNCTION_CALL" | b"UNEXPECTED_TOOL_CALL" | b"TOO_MANY_TOOL_CALLS" | b"LANGUAGE" | b"OTHER",
            ) => EndReason::Fault,
            _ => EndReason::Unknown,
        }
    }

    /// Whether a response that ended so may be stored in a cache.
    pub fn is_cacheable(self) -> bool {
        matches!(self, EndReason::Stop | EndReason::ToolCalls)
    }
}
