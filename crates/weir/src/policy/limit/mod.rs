//! Rate limits: what a request is charged, where counts live, what a client is told.
//!
//! From the configuration to a response:
//!
//! - [`Limits`] belongs to a configuration and is made once for all workers; a limit that did not change takes its counts over from
//!   the configuration before. Each [`Limit`] has an [`Algorithm`] with its numbers and a [`Memory`] with its counts.
//! - A request makes one [`LimitCheck`] of each limit of its route: whose count ([`Key`]), and how much ([`LimitCheck::cost`]).
//! - A store responds to each with a [`Decision`]. Header fields and refusals are made of decisions alone; they do not care who counted.
//!
//! # All or nothing
//!
//! A request that one limit refuses is charged by none. Limits in memory come first. They are looked at, which writes nothing, and
//! charged only if all of them would allow it; one that another request exhausted in between has the others give back what they
//! took. So a limit never admits more than it should, and for the moment between charge and give-back may admit one less.
//!
//! # Tokens and money
//!
//! Limits of tokens and of money are reserved and settled: [`budget`].
//!
//! # A shared store
//!
//! Limits with `store: redis` are checked after those in memory, all of a request in one call ([`Remote::ask`]), and only if memory allows:
//!
//! - It fills in every [`LimitCheck::decision`]. If any of them refuses, none is charged: neither in the store nor in what replaces it. Then
//!   limits in memory get back what they took.
//! - While the store cannot be reached, each limit's `on_store_failure` decides. `local` charges [`Limit::memory`], which for such a
//!   limit counts with the numbers divided by `replicas` and stands by empty otherwise. `open` is [`Decision::unlimited`]. `closed`
//!   is an error: 503, with nothing charged.
//! - [`Limit::identity`] and [`Key::shared`] make the name of a count in the store: the same in every replica, another one once the
//!   definition changes, and not to be read back.

pub mod budget;
mod check;
mod explain;
mod failures;
mod fields;
mod key;
mod lease;
mod memory;
mod refusal;
mod refused;
mod remote;
mod shared;
mod worker;

pub use ::limiter::{Algorithm, Decision, Now};
pub use check::{LimitInput, Permit, Stage, Verdict, Work, check, identity_value};
pub use explain::{BadQuestion, Question};
pub use key::{Key, KeyBytes, KeySecret};
pub use memory::{Memory, Receipt};
pub use refusal::Refusal;
pub use remote::{Remote, StoreFailed, Workers};
pub use shared::{Limit, Limits};
pub use worker::{RouteLimits, WorkerLimit, WorkerLimits};

/// What a request requires of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitCheck {
    /// Index of the limit in the configuration, as [`LimitId`](crate::config::LimitId).
    pub limit: usize,
    /// Whose count.
    pub key: Key,
    /// How much; at least 1.
    pub cost: u64,
    /// What came of it.
    pub decision: Decision,
}
