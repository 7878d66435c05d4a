//! Gauge: the instrument that evaluates API gateways and services.
//!
//! [`load`] sends requests at a stated pace and records what came back; [`tools`] lets other generators do it, and [`import`] reads what they recorded. [`plan`] reads an
//! evaluation with its [`profile`], and [`campaign`] runs its systems beside each other, round by round: [`gateway`] configures them, [`deploy`] starts and stops
//! them, [`machines`] makes and destroys the machines for it, [`observe`] sees what they use. [`launch`] starts what must end with this program. All of it is kept as [`results`], which knows no other module but [`stats`]. No two modules know each other (`tests/modules.rs`). [`judgement`] says what follows: [`verdict`] whether a measurement is valid,
//! [`criterion`] what is compared, [`stats`] which differences are real, [`age`] another evaluator's score; [`report`] shows it, and [`ui`] the history and evaluations in a browser.

pub mod age;
pub mod campaign;
pub mod criterion;
pub mod demo;
pub mod deploy;
mod foreign;
pub mod gateway;
pub mod history;
pub mod import;
pub mod judgement;
pub mod launch;
pub mod load;
pub mod machines;
pub mod observe;
pub mod plan;
pub mod profile;
pub mod report;
pub mod results;
pub mod stats;
pub mod tools;
pub mod ui;
pub mod verdict;
mod websocket;
