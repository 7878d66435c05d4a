//! Gauge: the instrument that evaluates API gateways and services.
//!
//! [`load`] sends requests at a stated pace and records what came back; [`results`] reads what other generators recorded. [`plan`] reads an
//! evaluation, and [`campaign`] runs its systems beside each other, round by round: [`gateway`] configures them, [`deploy`] starts and stops
//! them, [`observe`] sees what they use. [`judgement`] says what follows: [`verdict`] what is wrong with a measurement, [`stats`]
//! which differences are real, [`score`] who is better by how much; [`report`] shows it.

pub mod campaign;
pub mod demo;
pub mod deploy;
pub mod gateway;
pub mod judgement;
pub mod load;
pub mod observe;
pub mod plan;
pub mod report;
pub mod results;
pub mod score;
pub mod stats;
pub mod verdict;
