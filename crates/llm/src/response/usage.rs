//! Tokens as providers report them.

use crate::Api;
use crate::api::Family;

/// Counts as one response or its events reported them; `None` where nothing was said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// `prompt_tokens`, `input_tokens`, `promptTokenCount`.
    pub input: Option<u64>,
    /// `completion_tokens`, `output_tokens`, `candidatesTokenCount`.
    pub output: Option<u64>,
    /// Read from a cache of the provider.
    pub cached: Option<u64>,
    /// Written to a cache of the provider.
    pub cache_write: Option<u64>,
    /// Gemini's `thoughtsTokenCount`, which its output does not include.
    pub thoughts: Option<u64>,
    /// Gemini's `toolUsePromptTokenCount`, which its input does not include.
    pub tool_input: Option<u64>,
}

impl Usage {
    /// Whether nothing was reported.
    pub fn is_empty(&self) -> bool {
        *self == Usage::default()
    }

    /// Takes over what a later report says. Counts are cumulative in every API.
    pub fn update(&mut self, later: &Usage) {
        for (count, new) in [
            (&mut self.input, later.input),
            (&mut self.output, later.output),
            (&mut self.cached, later.cached),
            (&mut self.cache_write, later.cache_write),
            (&mut self.thoughts, later.thoughts),
            (&mut self.tool_input, later.tool_input),
        ] {
            *count = new.or(*count);
        }
    }

    /// All input tokens, cached or not. Anthropic reports what is not cached beside what is.
    pub fn total_input(&self, api: Api) -> u64 {
        let parts = match api.family() {
            Family::OpenAi => [self.input, None, None],
            Family::Anthropic => [self.input, self.cached, self.cache_write],
            Family::Gemini => [self.input, self.tool_input, None],
        };
        parts.into_iter().flatten().fold(0, u64::saturating_add)
    }

    /// All output tokens, reasoning included.
    pub fn total_output(&self) -> u64 {
        self.output.unwrap_or(0).saturating_add(self.thoughts.unwrap_or(0))
    }
}
