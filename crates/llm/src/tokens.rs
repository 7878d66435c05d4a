//! Tokens before the call: the estimate, and the ratio of bytes to tokens that it learns from what providers report.

use crate::request::RequestScan;
use std::collections::VecDeque;

/// Bytes per token before anything is learned.
pub const START_RATIO: f64 = 4.0;
const LOWEST_RATIO: f64 = 1.5;
const HIGHEST_RATIO: f64 = 8.0;
/// Calls that the ratio is learned from.
const CALLS: usize = 1000;
/// Tokens of the frame of a message.
const PER_MESSAGE: u64 = 4;
/// Tokens of an image.
const PER_IMAGE: u64 = 1000;

/// What the estimate is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PromptSize {
    /// Bytes of text.
    pub text_bytes: u64,
    /// Messages.
    pub messages: u64,
    /// Images.
    pub images: u64,
    /// Tokens that the request holds as numbers.
    pub token_ids: u64,
}

impl From<&RequestScan> for PromptSize {
    fn from(request: &RequestScan) -> Self {
        PromptSize {
            text_bytes: request.text_bytes,
            messages: u64::from(request.messages),
            images: u64::from(request.images),
            token_ids: request.token_ids,
        }
    }
}

impl PromptSize {
    /// Tokens that do not depend on the ratio.
    fn fixed(&self) -> u64 {
        (PER_MESSAGE * self.messages).saturating_add(PER_IMAGE * self.images).saturating_add(self.token_ids)
    }
}

/// The ratio of one model, learned from its last 1,000 calls.
#[derive(Debug, Clone, Default)]
pub struct Ratio {
    calls: VecDeque<(u32, u32)>,
    bytes: u64,
    tokens: u64,
}

impl Ratio {
    /// Nothing learned.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes per token, from 1.5 to 8.
    pub fn get(&self) -> f64 {
        match self.tokens {
            0 => START_RATIO,
            tokens => (self.bytes as f64 / tokens as f64).clamp(LOWEST_RATIO, HIGHEST_RATIO),
        }
    }

    /// Learns from a call. Calls whose images and frames are most of their tokens teach nothing about text.
    pub fn learn(&mut self, size: &PromptSize, input_tokens: u64) {
        let tokens = input_tokens.saturating_sub(size.fixed());
        if tokens == 0 || size.text_bytes == 0 || size.images > 0 {
            return;
        }
        let cap = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let call = (cap(size.text_bytes), cap(tokens));
        if self.calls.len() == CALLS
            && let Some((bytes, tokens)) = self.calls.pop_front()
        {
            self.bytes -= u64::from(bytes);
            self.tokens -= u64::from(tokens);
        }
        self.calls.push_back(call);
        self.bytes += u64::from(call.0);
        self.tokens += u64::from(call.1);
    }

    /// Input tokens of a prompt.
    pub fn estimate(&self, size: &PromptSize) -> u64 {
        ((size.text_bytes as f64 / self.get()).ceil() as u64).saturating_add(size.fixed())
    }
}

/// `estimate / true - 1`, for the metric of the estimate's error; `None` without a true count.
pub fn error_ratio(estimate: u64, reported: u64) -> Option<f64> {
    (reported > 0).then(|| estimate as f64 / reported as f64 - 1.0)
}

#[cfg(test)]
mod tests;
