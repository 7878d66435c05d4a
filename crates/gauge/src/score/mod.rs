//! Scores: AGE's in two variants ([`age`]), and Gauge's own ([`gauge`]).

pub mod age;
pub mod gauge;

pub use age::{AgeEndpoint, AgeScore, AgeScores};
pub use gauge::{Cell, Costs, Part, Weight};

#[cfg(test)]
mod tests;
