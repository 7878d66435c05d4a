//! What a model's name says.

use std::time::Duration;

/// What happens to a call, read from the model's name: words between dashes, in any order.
///
/// `fN` fault F`N`; `once` only on the first call of this name; `tokensN`; `gapN` milliseconds between tokens; `firstN` milliseconds before
/// the first; `sizeN` KiB of the large event of F28, and of audio; `gN` fault F`N` when a stored response is read; `done` a `[DONE]` behind the cut of F10. Other words say nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scenario {
    /// 1 to 35, 0 for none.
    pub fault: u8,
    /// The fault happens on the first call only.
    pub once: bool,
    /// Output tokens.
    pub tokens: u64,
    /// Between tokens.
    pub gap: Duration,
    /// Before the first token.
    pub first: Duration,
    /// Fault of reads of a stored response, 0 for none.
    pub stored_fault: u8,
    /// KiB of a large event, and of audio.
    pub size: usize,
    /// A `[DONE]` behind a cut.
    pub done: bool,
}

impl Scenario {
    /// Reads a model's name.
    pub fn of(model: &str) -> Self {
        let mut scenario = Scenario {
            fault: 0,
            once: false,
            stored_fault: 0,
            tokens: 8,
            gap: Duration::ZERO,
            first: Duration::ZERO,
            size: 256,
            done: false,
        };
        for word in model.split('-') {
            let number = |name: &str| word.strip_prefix(name).and_then(|number| number.parse::<u64>().ok());
            if let Some(fault @ 1..=35) = number("f") {
                scenario.fault = fault as u8;
            } else if let Some(fault @ 1..=35) = number("g") {
                scenario.stored_fault = fault as u8;
            } else if let Some(tokens) = number("tokens") {
                scenario.tokens = tokens;
            } else if let Some(ms) = number("gap") {
                scenario.gap = Duration::from_millis(ms);
            } else if let Some(ms) = number("first") {
                scenario.first = Duration::from_millis(ms);
            } else if let Some(size) = number("size") {
                scenario.size = size as usize;
            }
            scenario.once |= word == "once";
            scenario.done |= word == "done";
        }
        scenario
    }
}
