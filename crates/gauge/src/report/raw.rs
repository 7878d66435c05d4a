//! A campaign as it lies on disk, run by run.

use std::cmp::Ordering;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::results::Results;
use crate::results::Trial;

/// Why raw data could not be read.
#[derive(Debug, thiserror::Error)]
pub enum RawError {
    /// A file or directory.
    #[error("cannot read {path}: {error}")]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// What is in it.
    #[error("{path}: {problem}")]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

/// Reads `DIR/raw/campaign.json` and every `DIR/raw/RUN.json`; the runs in the order of the rounds and of their places in them.
///
/// # Errors
/// The first file that cannot be read or is not what it should be.
pub fn read_raw(dir: &Path) -> Result<Results, RawError> {
    let raw = dir.join("raw");
    let campaign = raw.join("campaign.json");
    let mut results =
        super::from_json(&text(&campaign)?).map_err(|problem| RawError::Content { path: campaign.clone(), problem })?;
    results.trials.clear();
    let entries = fs::read_dir(&raw).map_err(|error| RawError::Read { path: raw.clone(), error })?;
    for entry in entries {
        let path = entry.map_err(|error| RawError::Read { path: raw.clone(), error })?.path();
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        // A leading dot: a file that is still being written.
        let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        if !is_json || hidden || path == campaign || path.is_dir() {
            continue;
        }
        let run: Trial = serde_json::from_str(&text(&path)?).map_err(|error| RawError::Content {
            path: path.clone(),
            problem: format!("not a trial of a campaign: {error}"),
        })?;
        results.trials.push(run);
    }
    results.trials.sort_by(order);
    Ok(results)
}

/// The order of runs: as they were made, which is by round and place, and within a place, which is a system's, by when they began.
pub(crate) fn order(a: &Trial, b: &Trial) -> Ordering {
    let key = |run: &Trial| (run.round, run.place, run.started_unix_ms);
    key(a).cmp(&key(b)).then_with(|| a.id.cmp(&b.id))
}

fn text(path: &Path) -> Result<String, RawError> {
    fs::read_to_string(path).map_err(|error| RawError::Read { path: path.to_owned(), error })
}
