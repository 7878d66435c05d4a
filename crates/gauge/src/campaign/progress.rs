//! What a campaign tells while it runs.

use crate::results::{Results, Trial};

/// Somebody who is told how far a campaign is. Nothing that it does changes what is measured.
pub trait Progress {
    /// It begins, or goes on with what an earlier run left.
    fn begun(&mut self, results: &Results) {
        let _ = results;
    }

    /// It has ended, or was stopped; what was measured is in the directory.
    fn ended(&mut self, results: &Results) {
        let _ = results;
    }

    /// So many turns (one system in one round) are planned, and so many are done already.
    fn planned(&mut self, turns: usize, done: usize) {
        let _ = (turns, done);
    }

    /// A command runs that makes a program.
    fn building(&mut self, command: &str) {
        let _ = command;
    }

    /// Something is wrong that the campaign can do without.
    fn warning(&mut self, text: &str) {
        let _ = text;
    }

    /// A system is asked whether it answers as it must.
    fn checking(&mut self, system: &str) {
        let _ = system;
    }

    /// A scenario of the profile `life` begins.
    fn scenario(&mut self, system: &str, scenario: &str, round: u32) {
        let _ = (system, scenario, round);
    }

    /// A run is in another state.
    fn state(&mut self, run: &Trial) {
        let _ = run;
    }

    /// A rate is tried.
    fn searching(&mut self, run: &str, rate: f64) {
        let _ = (run, rate);
    }

    /// A turn is done.
    fn turn_done(&mut self) {}
}
