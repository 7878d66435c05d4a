//! Gauge: the instrument that evaluates API gateways and services.
//!
//! [`load`] sends requests at a stated pace and records what came back; [`import`] reads what other generators recorded. [`plan`] reads an
//! evaluation with its [`profile`], and [`campaign`] runs its systems beside each other, round by round: [`gateway`] configures them, [`deploy`] starts and stops
//! them, [`observe`] sees what they use. All of it is kept as [`results`]. [`judgement`] says what follows: [`verdict`] whether a measurement is valid,
//! [`criterion`] what is compared, [`stats`] which differences are real, [`age`] another evaluator's score; [`report`] shows it.

pub mod age;
pub mod campaign;
pub mod criterion;
pub mod demo;
pub mod deploy;
pub mod gateway;
pub mod history;
pub mod import;
pub mod judgement;
pub mod load;
pub mod observe;
pub mod plan;
pub mod profile;
pub mod report;
pub mod results;
pub mod stats;
pub mod verdict;
