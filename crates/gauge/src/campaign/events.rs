//! What a campaign says while it runs, as lines of JSON in a file that others can follow.
//!
//! Each line has `event` and `at_unix_ms`. A reader must expect a last line that is not complete yet, and events that it does not know.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::progress::Moment;
use super::unix_ms;
use crate::results::{Results, Trial};

/// Name of the file in the directory of the results.
pub const FILE: &str = "events.jsonl";

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Milliseconds since 1970.
    pub at_unix_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The campaign begins, or goes on.
    Begun {
        /// Its id in the history.
        campaign: String,
        /// Its name.
        name: String,
        /// Its systems.
        systems: Vec<String>,
        /// Its workloads.
        workloads: Vec<String>,
        /// Its rounds.
        rounds: u32,
    },
    /// So many rounds of systems (one system in one round) are planned and done.
    Planned {
        /// All.
        runs: usize,
        /// Of them.
        done: usize,
    },
    /// A step outside of trials, or a warning: `building`, `checking`, `scenario`, `searching`, `warning`.
    Step {
        /// Which of these.
        step: String,
        /// Of what.
        text: String,
    },
    /// A trial is in another state.
    Trial {
        /// Its id.
        trial: String,
        /// From 1.
        round: u32,
        /// The system.
        system: String,
        /// The workload.
        workload: String,
        /// As in the history, or `planned`, `starting`, `warming`, `measuring`.
        state: String,
        /// Why it did not come to its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Responses per second, when it is done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<f64>,
        /// Percentiles of the latency, when it is done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        p50_ms: Option<f64>,
        /// See `p50_ms`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        p99_ms: Option<f64>,
    },
    /// A second of a load.
    Moment(Moment),
    /// The campaign has ended, or was stopped.
    Ended {
        /// Whether it came to its end.
        complete: bool,
    },
    /// An event of a later version.
    #[serde(other)]
    Unknown,
}

/// Writes the events of a campaign.
#[derive(Debug)]
pub struct Events {
    path: PathBuf,
    anew: bool,
    /// Opened when the campaign has its directory: until then another one may be writing there.
    file: Option<File>,
}

impl Events {
    /// Appends to a file, or begins it anew. Its folder is made.
    pub fn new(path: &Path, anew: bool) -> Self {
        Events { path: path.to_owned(), anew, file: None }
    }

    fn open(&self) -> io::Result<File> {
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        options.create(true);
        let options = if self.anew { options.write(true).truncate(true) } else { options.append(true) };
        let mut file = options.open(&self.path)?;
        // A killed run may have left it in the middle of a line.
        if file.metadata()?.len() > 0 {
            file.write_all(b"\n")?;
        }
        Ok(file)
    }

    /// Where they are written.
    pub fn file(&self) -> &Path {
        &self.path
    }

    fn write(&mut self, event: Event) -> io::Result<()> {
        let mut line = serde_json::to_string(&Line { at_unix_ms: unix_ms(), event })?;
        line.push('\n');
        // Before the campaign begins there is nothing to write.
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(line.as_bytes()))
    }

    /// The campaign begins, or goes on; `id` is its id in the history.
    ///
    /// # Errors
    /// When the file cannot be written; so with all of these.
    pub fn begun(&mut self, results: &Results, id: &str) -> io::Result<()> {
        self.file = Some(self.open()?);
        self.write(Event::Begun {
            campaign: id.to_owned(),
            name: results.name.clone(),
            systems: results.systems.iter().map(|system| system.name.clone()).collect(),
            workloads: results.workloads.iter().map(|workload| workload.name.clone()).collect(),
            rounds: results.rounds,
        })
    }

    /// So many rounds of systems are planned and done.
    pub fn planned(&mut self, runs: usize, done: usize) -> io::Result<()> {
        self.write(Event::Planned { runs, done })
    }

    /// A step outside of trials.
    pub fn step(&mut self, step: &str, text: &str) -> io::Result<()> {
        self.write(Event::Step { step: step.to_owned(), text: text.to_owned() })
    }

    /// A trial is in another state.
    pub fn trial(&mut self, trial: &Trial) -> io::Result<()> {
        let total = trial.report.as_ref().map(|report| &report.total);
        let latency = total.and_then(|total| total.latency.as_ref());
        self.write(Event::Trial {
            trial: trial.id.clone(),
            round: trial.round,
            system: trial.system.clone(),
            workload: trial.workload.clone(),
            state: trial.state.name().to_owned(),
            reason: trial.state.reason().map(str::to_owned),
            rate: total.and_then(|total| total.rate.achieved),
            p50_ms: latency.and_then(|latency| latency.p50_ms),
            p99_ms: latency.and_then(|latency| latency.p99_ms),
        })
    }

    /// A second of a load.
    pub fn moment(&mut self, moment: &Moment) -> io::Result<()> {
        self.write(Event::Moment(moment.clone()))
    }

    /// The campaign has ended, or was stopped.
    pub fn ended(&mut self, results: &Results) -> io::Result<()> {
        self.write(Event::Ended { complete: results.ended_unix_ms.is_some() })
    }
}
