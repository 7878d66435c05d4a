//! Limits of tokens and of money.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::{LimitHeaders, LimitKey, LimitStore, LimitTiers, MissingKey, OnStoreFailure};

/// Index of a limit in [`Config::budgets`](super::Config::budgets).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BudgetId(pub usize);

/// A limit of tokens or of money.
#[derive(Debug, Clone, PartialEq)]
pub struct Budget {
    /// Name of what is counted: that in the file or, of one window of several, that with the window behind it.
    pub name: Arc<str>,
    /// Name in the file.
    pub group: Arc<str>,
    /// Whom it is about.
    pub tiers: LimitTiers,
    /// Whether it refuses calls; else it only says that it would.
    pub enforce: bool,
    /// What is counted.
    pub unit: BudgetUnit,
    /// Algorithm with its numbers, in tokens or in millionths of the currency unit.
    pub algorithm: BudgetAlgorithm,
    /// Whose count; several parts together make one key.
    pub key: Vec<LimitKey>,
    /// Where counts live.
    pub store: LimitStore,
    /// Keys held by the memory store.
    pub max_keys: usize,
    /// What holds when the store fails.
    pub on_store_failure: OnStoreFailure,
    /// Divisor of the quota when `on_store_failure: local`.
    pub replicas: NonZeroU32,
    /// What happens to a call without the key.
    pub missing_key: MissingKey,
    /// Status of a refusal.
    pub refusal_status: u16,
    /// Which header families are written.
    pub headers: LimitHeaders,
}

/// What is counted of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetUnit {
    /// Input and output.
    Tokens,
    /// Input.
    InputTokens,
    /// Output.
    OutputTokens,
    /// Millionths of the currency unit.
    Money,
}

/// Algorithm of a limit of tokens or money.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BudgetAlgorithm {
    /// `burst` at once, then `rate_per_second`.
    TokenBucket {
        /// What comes back each second.
        rate_per_second: f64,
        /// What a full bucket holds.
        burst: u64,
    },
    /// `quota` in each window.
    FixedWindow {
        /// Per window; 0 switches the limit off.
        quota: u64,
        /// Which windows.
        window: BudgetWindow,
    },
}

/// Windows of a limit of tokens or money.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetWindow {
    /// From a key's first call on.
    First(Duration),
    /// From multiples of the length since 1970 on.
    Aligned(Duration),
    /// Days of the calendar, so many minutes east of UTC.
    Day(i32),
    /// Months of the calendar, so many minutes east of UTC.
    Month(i32),
}
