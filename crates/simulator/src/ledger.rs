//! What the simulator has done: the truth that a gateway's books are compared with.

use crate::stored::Stored;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Counts of one simulator.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    calls: HashMap<String, u64>,
    cancelled: u64,
    input_tokens: u64,
    output_tokens: u64,
    metrics: Option<String>,
    /// Calls that are not over.
    running: u64,
    /// Responses by their ids.
    stored: HashMap<String, Stored>,
}

/// A call that is not over; ends when it is dropped.
pub(crate) struct Running<'l>(&'l Ledger);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.with(|counts| counts.running -= 1);
    }
}

impl Ledger {
    fn with<T>(&self, change: impl FnOnce(&mut Counts) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts a call; how many there were of this model, with this one.
    pub(crate) fn call(&self, model: &str) -> u64 {
        self.with(|counts| {
            let calls = counts.calls.entry(model.to_owned()).or_default();
            *calls += 1;
            *calls
        })
    }

    pub(crate) fn begin(&self) -> Running<'_> {
        self.with(|counts| counts.running += 1);
        Running(self)
    }

    /// The stored responses.
    pub(crate) fn stored<T>(&self, change: impl FnOnce(&mut HashMap<String, Stored>) -> T) -> T {
        self.with(|counts| change(&mut counts.stored))
    }

    pub(crate) fn cancelled(&self) {
        self.with(|counts| counts.cancelled += 1);
    }

    /// Counts tokens that a response reported.
    pub(crate) fn reported(&self, input: u64, output: u64) {
        self.with(|counts| {
            counts.input_tokens += input;
            counts.output_tokens += output;
        });
    }

    /// What engine metrics say from now on; see the crate's documentation for `none` and `stall`.
    pub fn set_metrics(&self, text: impl Into<String>) {
        self.with(|counts| counts.metrics = Some(text.into()));
    }

    pub(crate) fn metrics(&self) -> String {
        self.with(|counts| {
            let running = counts.running;
            let own = || {
                format!(
                    "vllm:num_requests_waiting 0\nvllm:num_requests_running {running}\nvllm:kv_cache_usage_perc 0\n"
                )
            };
            counts.metrics.clone().unwrap_or_else(own)
        })
    }

    /// Calls by model, responses that their clients did not wait for, and tokens that responses reported.
    pub fn to_json(&self) -> Value {
        self.with(|counts| {
            json!({"calls": counts.calls, "cancelled": counts.cancelled, "input_tokens": counts.input_tokens,
                "output_tokens": counts.output_tokens})
        })
    }
}
