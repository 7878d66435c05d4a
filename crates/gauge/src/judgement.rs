//! What follows from a campaign's results. [`judge`] makes a [`crate::results::Judgement`] of nothing but [`crate::results::Results`], and always the same.
//!
//! 1. Each trial is checked ([`crate::verdict`]). A trial that did not meet its conditions, which are the machine's and the generator's, takes its round out
//!    for all systems alike; a trial that failed counts against its system, as worse than any value.
//! 2. Of each criterion ([`crate::criterion`]) two systems are compared by the ratio of their costs in the same rounds ([`crate::stats`]).
//! 3. The score is the weighted sum of the logarithms of the costs over the reference's, in each round; it is compared in the same way.
//! 4. Differences are declared among all that are tested together. With too few valid rounds there is no decision, which is said first.

mod age;
mod between;
mod decision;
mod judge;
mod phases;
mod ranking;
mod rows;
mod thresholds;
mod trials;

pub use between::{Between, Change, Ends, between};
pub use judge::judge;
pub(crate) use phases::used as used_in_phase;
pub use thresholds::{failures, words as threshold_words};
pub(crate) use trials::unmet;
