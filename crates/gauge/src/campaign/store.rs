//! A campaign's directory: what is measured is in `raw/`, one file a run, so that nothing that ended is ever lost.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::inputs;
use crate::deploy::registry::write_atomically;
use crate::plan::Plan;
use crate::results::{self, Results, Trial, TrialState};

/// The directory of a campaign, held by this program alone.
#[derive(Debug)]
pub struct Store {
    out: PathBuf,
    _lock: File,
}

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file could not be read or written.
    #[error("{}: {error}", .file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Another campaign runs in it.
    #[error("{}: another gauge is writing to this directory; wait for it, or choose another with --out", .0.display())]
    Busy(PathBuf),
    /// It holds results of something else.
    #[error("{}: {why}; choose another directory with --out, or delete its content with --fresh", .out.display())]
    Other {
        /// The directory.
        out: PathBuf,
        /// What is in it.
        why: String,
    },
}

impl StoreError {
    /// Whether nothing could be written.
    pub fn is_unwritable(&self) -> bool {
        matches!(self, StoreError::File { .. } | StoreError::Busy(_))
    }
}

fn file_error(file: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let file = file.to_owned();
    move |error| StoreError::File { file, error }
}

/// What `state.json` says of the run at hand.
#[derive(Debug, Serialize)]
struct State<'r> {
    pid: u32,
    run: &'r str,
    round: u32,
    system: &'r str,
    workload: &'r str,
    state: &'r TrialState,
    since_unix_ms: u64,
}

/// Whether a campaign has begun in a directory, however it ended.
pub fn has_begun(out: &Path) -> bool {
    out.join(LOCK).is_file()
}

/// The first file that is made.
const LOCK: &str = "lock";

/// Why results are not of a plan.
fn different(results: &Results, plan: &Plan) -> Option<String> {
    if results.evaluation != plan.text {
        return Some("it holds results of another evaluation, or of this one before it was changed".to_owned());
    }
    if results.quick != plan.quick {
        let why = "it holds results of the same evaluation, of which one is a first look (--quick) and one is not";
        return Some(why.to_owned());
    }
    let now = inputs::named(plan);
    let changed = inputs::changed(&results.inputs, &now);
    (!changed.is_empty()).then(|| format!("it holds results from before {} changed", changed.join(" and ")))
}

impl Store {
    /// Takes a directory, and reads what an earlier run of the same plan left in it.
    ///
    /// # Errors
    /// When it cannot be used, or holds something else.
    pub fn open(out: &Path, plan: &Plan, fresh: bool) -> Result<(Self, Option<Results>), StoreError> {
        let out = std::path::absolute(out).map_err(file_error(out))?;
        fs::create_dir_all(&out).map_err(file_error(&out))?;
        let lock = out.join(LOCK);
        let file = File::create(&lock).map_err(file_error(&lock))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::Busy(out)),
            Err(TryLockError::Error(error)) => return Err(file_error(&lock)(error)),
        }
        let store = Store { out, _lock: file };
        if fresh {
            for folder in ["raw", "systems", "logs", "tmp"] {
                match fs::remove_dir_all(store.path(folder)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(file_error(&store.path(folder))(error));
                    }
                    _ => {}
                }
            }
        }
        for folder in ["raw", "systems", "logs", "tmp"] {
            fs::create_dir_all(store.path(folder)).map_err(file_error(&store.path(folder)))?;
        }
        let Some(found) = store.read()? else { return Ok((store, None)) };
        match different(&found, plan) {
            None => Ok((store, Some(found))),
            // It ended before anything was measured: nothing would be mixed.
            Some(_) if found.trials.is_empty() && found.searches.is_empty() && found.life.is_empty() => {
                Ok((store, None))
            }
            Some(why) => Err(store.other(why)),
        }
    }

    /// It holds results of something else.
    pub(super) fn other(&self, why: impl Into<String>) -> StoreError {
        StoreError::Other { out: self.out.clone(), why: why.into() }
    }

    /// A path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.out.join(name)
    }

    fn read(&self) -> Result<Option<Results>, StoreError> {
        let file = self.path("raw/campaign.json");
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file_error(&file)(error)),
        };
        let bad = |why: String| self.other(why);
        let mut results: Results = serde_json::from_str(&text)
            .map_err(|error| bad(format!("raw/campaign.json is not what gauge writes ({error})")))?;
        if results.format > results::FORMAT {
            return Err(bad(format!("it was written by a newer gauge (format {})", results.format)));
        }
        let raw = self.path("raw");
        let mut runs = Vec::new();
        for entry in fs::read_dir(&raw).map_err(file_error(&raw))?.flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|extension| extension != "json") || path.ends_with("campaign.json") {
                continue;
            }
            let text = fs::read_to_string(&path).map_err(file_error(&path))?;
            let run: Trial = serde_json::from_str(&text)
                .map_err(|error| bad(format!("{} is not what gauge writes ({error})", path.display())))?;
            runs.push(run);
        }
        runs.sort_by_key(|run| (run.started_unix_ms, run.round, run.place));
        results.trials = runs;
        Ok(Some(results))
    }

    /// Writes everything but the runs.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn campaign(&self, results: &Results) -> Result<(), StoreError> {
        let without = Results { trials: Vec::new(), ..results.clone() };
        self.json(&self.path("raw/campaign.json"), &without)
    }

    /// Writes a run that came to an end.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn run(&self, run: &Trial) -> Result<(), StoreError> {
        self.json(&self.path(&format!("raw/{}.json", run.id)), run)
    }

    /// Removes a run that is made again under another name.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn forget(&self, id: &str) -> Result<(), StoreError> {
        // A name of gauge's, and no path to somewhere else.
        if id.contains(['/', '\\']) {
            return Ok(());
        }
        let file = self.path(&format!("raw/{id}.json"));
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(file_error(&file)(error)),
            _ => Ok(()),
        }
    }

    /// Writes where the run at hand is: what a killed campaign was doing.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn state(&self, run: &Trial) -> Result<(), StoreError> {
        let state = State {
            pid: std::process::id(),
            run: &run.id,
            round: run.round,
            system: &run.system,
            workload: &run.workload,
            state: &run.state,
            since_unix_ms: super::unix_ms(),
        };
        self.json(&self.path("state.json"), &state)
    }

    fn json(&self, file: &Path, value: &impl Serialize) -> Result<(), StoreError> {
        let mut text = serde_json::to_string(value).map_err(io::Error::from).map_err(file_error(file))?;
        text.push('\n');
        write_atomically(file, text.as_bytes()).map_err(file_error(file))
    }

    /// Removes what is of no use once a campaign has ended.
    pub fn tidy(&self) {
        // What stays does no harm.
        let _ = fs::remove_dir_all(self.path("tmp"));
        let _ = fs::remove_file(self.path("state.json"));
    }
}
