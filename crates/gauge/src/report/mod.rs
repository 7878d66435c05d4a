//! Reports of a campaign: one offline HTML file, Markdown, CSV and JSON, all of them from [`Results`] and [`Judgement`] alone, and always the same bytes for
//! the same campaign.
//!
//! `results.json` is [`Results`] with one more field, `judgement`: [`Judgement`]. `results.csv` has one line for each run.

mod csv;
mod findings;
mod html;
mod life;
mod markdown;
mod measures;
mod outcomes;
mod phases;
mod protocols;
mod rankings;
mod raw;
mod view;

use std::borrow::Cow;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::results::Results;
use crate::results::{FORMAT, Judgement, Trial, TrialJudgement};

pub use findings::{Finding, Findings, finding_lines, findings};
pub(crate) use raw::order as in_order_of_trials;
pub use raw::{RawError, read_raw};

/// What a score of 100 is.
fn unit(judgement: &Judgement) -> &'static str {
    if judgement.reference.as_deref() == Some(crate::results::DIRECT) {
        "latency and rate as without a gateway, and as much CPU time for each request as the upstream itself uses"
    } else {
        "its own figures in the same rounds"
    }
}

/// `results.json`.
#[derive(Serialize)]
struct Document<'d> {
    #[serde(flatten)]
    results: &'d Results,
    judgement: &'d Judgement,
}

/// Writes `report.html`, `report.md`, `results.csv`, `samples.csv` and `results.json` into `dir`, which is there. Each is written beside its place and then renamed,
/// so that a reader never sees half of one.
///
/// # Errors
/// The first file that could not be written.
pub fn write(dir: &Path, results: &Results, judgement: &Judgement) -> Result<(), WriteError> {
    let (results, judgement) = &in_order(results, judgement);
    let html = html::page(results, judgement);
    let markdown = markdown::page(results, judgement);
    let csv = csv::table(results, judgement);
    let json = to_json(results, judgement);
    let samples = csv::samples(results);
    let files = [
        ("report.html", html),
        ("report.md", markdown),
        ("results.csv", csv),
        ("samples.csv", samples),
        ("results.json", json),
    ];
    for (name, text) in files {
        put(dir, name, text.as_bytes()).map_err(|error| WriteError { path: dir.join(name), error })?;
    }
    Ok(())
}

/// The same with the runs in the order in which [`read_raw`] gives them: what was measured may have been collected in another.
fn in_order<'r>(results: &'r Results, judgement: &'r Judgement) -> (Cow<'r, Results>, Cow<'r, Judgement>) {
    let ordered = |a: &Trial, b: &Trial| raw::order(a, b).is_le();
    if results.trials.is_sorted_by(ordered) || results.trials.len() != judgement.trials.len() {
        return (Cow::Borrowed(results), Cow::Borrowed(judgement));
    }
    let mut pairs: Vec<(Trial, TrialJudgement)> =
        results.trials.iter().cloned().zip(judgement.trials.iter().cloned()).collect();
    pairs.sort_by(|(a, _), (b, _)| raw::order(a, b));
    let (mut results, mut judgement) = (results.clone(), judgement.clone());
    (results.trials, judgement.trials) = pairs.into_iter().unzip();
    (Cow::Owned(results), Cow::Owned(judgement))
}

/// What became of requests in the scenarios of `life`, a line for each.
pub fn life_lines(results: &Results) -> Vec<String> {
    life::rows(results).into_iter().map(|row| row.join("  ")).collect()
}

/// Whether anything is decided, why not and what would help, or who is first.
pub fn headline(judgement: &Judgement) -> String {
    view::headline(judgement)
}

/// How many systems pass, have warnings and fail; null where nothing is required of them.
pub fn outcome_line(judgement: &Judgement) -> Option<String> {
    outcomes::sentence(judgement)
}

/// `report.html` as text.
pub fn to_html(results: &Results, judgement: &Judgement) -> String {
    let (results, judgement) = &in_order(results, judgement);
    html::page(results, judgement)
}

/// `results.csv` as text.
pub fn to_csv(results: &Results, judgement: &Judgement) -> String {
    csv::table(results, judgement)
}

/// A line of CSV for each phase of each trial.
pub fn phases_csv(results: &Results) -> String {
    csv::phases(results)
}

/// `samples.csv` as text.
pub fn samples_csv(results: &Results) -> String {
    csv::samples(results)
}

/// The phases of a workload: a head, and a line for each phase and system; none where its load has one phase.
pub fn phase_table(
    results: &Results,
    judgement: &Judgement,
    workload: &str,
) -> Option<(Vec<&'static str>, Vec<Vec<String>>)> {
    let rows = phases::rows(results, judgement, workload);
    let line = |(mut cells, findings): (Vec<String>, Vec<&str>)| {
        cells.push(findings.join(", "));
        cells
    };
    (!rows.is_empty())
        .then(|| ([&phases::HEAD[..], &["validity findings"]].concat(), rows.into_iter().map(line).collect()))
}

/// UTC, `2026-11-22 03:10 UTC`.
pub fn date(unix_ms: u64) -> String {
    view::date(unix_ms)
}

/// Reads what a campaign left in a directory: `raw/`, or else `results.json`.
///
/// # Errors
/// When it has neither, or one that is not what gauge writes.
pub fn read_directory(dir: &Path) -> Result<Results, RawError> {
    let json = dir.join("results.json");
    if dir.join("raw/campaign.json").exists() || !json.exists() {
        return read_raw(dir);
    }
    let text = std::fs::read_to_string(&json).map_err(|error| RawError::Read { path: json.clone(), error })?;
    from_json(&text).map_err(|problem| RawError::Content { path: json, problem })
}

/// `results.json` as text.
pub fn to_json(results: &Results, judgement: &Judgement) -> String {
    // Nothing in either cannot be JSON: keys are text or numbers, and numbers that are none become null.
    let mut json = serde_json::to_string_pretty(&Document { results, judgement }).expect("results are JSON");
    json.push('\n');
    json
}

/// Reads `results.json`, without the judgement: that is made again.
///
/// # Errors
/// What is wrong, with line and column; also for a later format.
pub fn from_json(text: &str) -> Result<Results, String> {
    let results: Results =
        serde_json::from_str(text).map_err(|error| format!("not the results of a campaign: {error}"))?;
    if results.format > FORMAT {
        return Err(format!(
            "the results have format {}, and this gauge reads formats up to {FORMAT}: use a later gauge",
            results.format
        ));
    }
    Ok(results)
}

fn put(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(&format!(".{name}.")).tempfile_in(dir)?;
    file.write_all(bytes)?;
    // A temporary file is for its owner only; a report is for others too.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    }
    file.persist(dir.join(name)).map_err(|error| error.error)?;
    Ok(())
}

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {error}")]
pub struct WriteError {
    /// Which file.
    pub path: PathBuf,
    /// What the system said.
    pub error: io::Error,
}

#[cfg(test)]
mod tests;
