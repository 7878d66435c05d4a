//! Gauge: the instrument that evaluates API gateways and services.
//!
//! [`load`] sends requests at a stated pace and records what came back; [`results`] reads what other generators recorded; [`campaign`]
//! runs systems beside each other, round by round. [`judgement`] says what follows: [`verdict`] what is wrong with a measurement, [`stats`]
//! which differences are real, [`score`] who is better by how much; [`report`] shows it.

pub mod campaign;
pub mod gateway;
pub mod judgement;
pub mod load;
pub mod report;
pub mod results;
pub mod score;
pub mod stats;
pub mod verdict;
