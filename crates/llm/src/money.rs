//! Prices, reservations and settlements: whole millionths of a currency unit, 64 bits, no floating point.

use crate::Api;
use crate::response::Usage;

/// Tokens that a price is for.
const PER: u128 = 1_000_000;

/// Prices of a model: millionths of the currency unit per million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Price {
    /// Input that no cache of the provider held.
    pub input: u64,
    /// Input read from a cache; `None` costs as `input`.
    pub cached_input: Option<u64>,
    /// Input written to a cache; `None` costs as `input`.
    pub cache_write: Option<u64>,
    /// Output.
    pub output: u64,
    /// Millionths for each request.
    pub request: u64,
}

/// Tokens by their price.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// All input, cached or not.
    pub input: u64,
    /// The part of it that was read from a cache.
    pub cached: u64,
    /// The part of it that was written to a cache.
    pub cache_write: u64,
    /// Output.
    pub output: u64,
}

impl Tokens {
    /// The counts of a provider's report.
    pub fn of(usage: &Usage, api: Api) -> Self {
        Tokens {
            input: usage.total_input(api),
            cached: usage.cached.unwrap_or(0),
            cache_write: usage.cache_write.unwrap_or(0),
            output: usage.total_output(),
        }
    }

    /// Input and output.
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

impl Price {
    /// The cost in millionths; a fraction of one counts as one.
    pub fn cost(&self, tokens: &Tokens) -> u64 {
        let cached = tokens.cached.min(tokens.input);
        let written = tokens.cache_write.min(tokens.input - cached);
        let plain = tokens.input - cached - written;
        let sum = [
            (plain, self.input),
            (cached, self.cached_input.unwrap_or(self.input)),
            (written, self.cache_write.unwrap_or(self.input)),
            (tokens.output, self.output),
        ]
        .into_iter()
        .fold(0_u128, |sum, (count, price)| sum.saturating_add(u128::from(count) * u128::from(price)));
        u64::try_from(sum.div_ceil(PER)).unwrap_or(u64::MAX).saturating_add(self.request)
    }
}

/// Millionths of a decimal number as a file or a person writes it: `2.50`, `0.075`, `1e-3` is refused.
pub fn parse_millionths(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty()
        || !digits(whole)
        || !digits(fraction)
        || fraction.len() > 6
        || (fraction.is_empty() && text.contains('.'))
    {
        return None;
    }
    let fraction = format!("{fraction:0<6}").parse::<u64>().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(fraction)
}

/// What is reserved before a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    /// Estimated input tokens.
    pub input: u64,
    /// Output tokens that the response can have at most, or the default for requests without a limit.
    pub output: u64,
    /// Money at the dearest candidate, in millionths.
    pub money: u64,
}

/// What the output of a call is limited by.
#[derive(Debug, Clone, Copy)]
pub struct OutputLimit {
    /// Requested choices.
    pub choices: u64,
    /// Tokens that the request allows per choice.
    pub requested: Option<u64>,
    /// Tokens that the candidate allows per choice.
    pub max_output: Option<u64>,
    /// Tokens reserved when neither says anything.
    pub reserve_output: u64,
}

impl Reservation {
    /// `estimate + choices x min(asked, max_output, else reserve_output)`, money at the dearest of `candidates`.
    pub fn new(estimate: u64, limit: OutputLimit, candidates: &[Price]) -> Self {
        let per_choice = match (limit.requested, limit.max_output) {
            (Some(requested), Some(most)) => requested.min(most),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => limit.reserve_output,
        };
        let output = limit.choices.max(1).saturating_mul(per_choice);
        let tokens = Tokens { input: estimate, output, ..Tokens::default() };
        // a prompt may be written to a cache, which can cost more than plain input
        let written = Tokens { cache_write: estimate, ..tokens };
        let dearest = candidates.iter().map(|price| price.cost(&tokens).max(price.cost(&written))).max();
        Reservation { input: estimate, output, money: dearest.unwrap_or(0) }
    }

    /// Input and output.
    pub fn tokens(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// How a call ended, for its settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The provider reported its tokens.
    Reported(Tokens),
    /// The response is complete, and nothing was reported: input as estimated, output as delivered.
    Unreported {
        /// Estimated tokens of what was delivered.
        delivered: u64,
    },
    /// The client disconnected, or the stream was cut: input, and what was delivered.
    Partial {
        /// Estimated tokens of what was delivered.
        delivered: u64,
        /// What was reported until then: Anthropic reports input at the start.
        reported: Option<Tokens>,
    },
    /// Refused, failed before the commit, or served from the cache: everything is given back.
    Nothing,
}

/// What a call has cost, and the correction of the window that was charged. A correction above 0 is a debt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settlement {
    /// What is settled.
    pub tokens: Tokens,
    /// Millionths.
    pub money: u64,
    /// Tokens to add to what was reserved.
    pub token_correction: i64,
    /// Millionths to add to what was reserved.
    pub money_correction: i64,
    /// Not all of it was reported by the provider.
    pub estimated: bool,
}

impl Reservation {
    /// Settles the call, at the price of the candidate that served it.
    pub fn settle(&self, end: End, price: &Price) -> Settlement {
        let (tokens, estimated) = match end {
            End::Reported(tokens) => (tokens, false),
            End::Unreported { delivered } | End::Partial { delivered, reported: None } => {
                (Tokens { input: self.input, output: delivered, ..Tokens::default() }, true)
            }
            End::Partial { delivered, reported: Some(reported) } => {
                (Tokens { output: reported.output.max(delivered), ..reported }, true)
            }
            End::Nothing => (Tokens::default(), false),
        };
        let money = if end == End::Nothing { 0 } else { price.cost(&tokens) };
        Settlement {
            tokens,
            money,
            token_correction: difference(tokens.total(), self.tokens()),
            money_correction: difference(money, self.money),
            estimated,
        }
    }
}

fn difference(now: u64, before: u64) -> i64 {
    i64::try_from(i128::from(now) - i128::from(before)).unwrap_or(if now > before { i64::MAX } else { i64::MIN })
}

#[cfg(test)]
mod tests;
