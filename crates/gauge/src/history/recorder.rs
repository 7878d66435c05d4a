//! A campaign that is stored while it runs.

use std::path::{Path, PathBuf};

use super::write::{Origin, put, put_trial};
use super::{History, HistoryError, Target};
use crate::campaign::id;
use crate::deploy::registry::Program;
use crate::results::{Results, Trial};

/// Stores a campaign while it runs. A database that fails stops no campaign: the result files have everything, and at the end it is tried once more.
#[derive(Debug)]
pub struct Recorder {
    history: History,
    directory: PathBuf,
    campaign: String,
    failed: Option<HistoryError>,
}

impl Recorder {
    /// Of a database, for a campaign in this directory.
    pub fn new(history: History, directory: &Path) -> Self {
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        Recorder { history, directory, campaign: String::new(), failed: None }
    }

    /// The campaign begins, or goes on.
    pub fn begin(&mut self, results: &Results) {
        self.campaign = id(results);
        let writer = Program::this();
        let origin = Origin { directory: &self.directory, writer: Some(&writer) };
        let done = self.history.transaction(async |transaction| put(transaction, results, &origin).await);
        self.failed = done.err();
    }

    /// A trial begins, or has ended.
    pub fn trial(&mut self, trial: &Trial) {
        // One way to wait for a database that does not respond is enough.
        if self.failed.is_some() {
            return;
        }
        let campaign = &self.campaign;
        let done = self.history.transaction(async |transaction| put_trial(transaction, campaign, trial).await);
        self.failed = done.err();
    }

    /// The campaign has ended, or was stopped.
    ///
    /// # Errors
    /// When it could not be stored, not even now.
    pub fn end(self, results: &Results) -> Result<(Target, String), HistoryError> {
        let id = self.history.put(results, &self.directory)?;
        Ok((self.history.target().clone(), id))
    }

    /// Why something was not stored, so far.
    pub fn failed(&self) -> Option<&HistoryError> {
        self.failed.as_ref()
    }
}
