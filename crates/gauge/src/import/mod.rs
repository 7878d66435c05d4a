//! Results of other load generators, read into [`Report`]. What a tool does not say stays null.

mod ab;
mod hey;
mod jmeter;
mod k6;
mod oha;
mod text;
mod vegeta;
mod wrk;

use std::fmt;

use crate::results::Report;
pub(crate) use text::set_percentile;

/// A form of results that is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The JSON of `gauge load --json`.
    Gauge,
    /// What wrk (or wrk2) prints.
    Wrk,
    /// What hey prints.
    Hey,
    /// What hey prints with `-o csv`.
    HeyCsv,
    /// What ab prints.
    Ab,
    /// k6: `--summary-export`, or the object that `handleSummary` gets.
    K6,
    /// vegeta: `report -type=json`.
    Vegeta,
    /// oha: `--output-format json`.
    Oha,
    /// JMeter: a results file (JTL) in CSV, one sample a line.
    Jtl,
    /// JMeter: the table of its Aggregate Report or Summary Report in CSV.
    JmeterTable,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Gauge => "gauge",
            Format::Wrk => "wrk",
            Format::Hey => "hey",
            Format::HeyCsv => "hey, CSV",
            Format::Ab => "ab",
            Format::K6 => "k6 summary",
            Format::Vegeta => "vegeta report",
            Format::Oha => "oha",
            Format::Jtl => "JMeter results (JTL)",
            Format::JmeterTable => "JMeter table",
        })
    }
}

/// Why results could not be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// None of the forms.
    #[error(
        "not a result that gauge reads (its own JSON, wrk, hey, ab, k6 summary JSON, vegeta report JSON, oha JSON, JMeter CSV)"
    )]
    Unknown,
    /// One of the forms, and not whole.
    #[error("this looks like {format}, but {problem}")]
    Broken {
        /// What it looks like.
        format: Format,
        /// What is missing or wrong.
        problem: String,
    },
}

impl Format {
    fn broken(self, problem: impl fmt::Display) -> ReadError {
        ReadError::Broken { format: self, problem: problem.to_string() }
    }
}

/// Tells which form a text has.
pub fn sniff(text: &str) -> Option<Format> {
    let start = text.trim_start_matches('\u{feff}').trim_start();
    if start.starts_with('{') {
        let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(start).ok()?;
        return [
            ("generator", Format::Gauge),
            ("metrics", Format::K6),
            ("latencies", Format::Vegeta),
            ("latencyPercentiles", Format::Oha),
        ]
        .into_iter()
        .find_map(|(key, format)| object.contains_key(key).then_some(format));
    }
    let first = start.lines().next().unwrap_or_default();
    if first.starts_with("response-time,") {
        return Some(Format::HeyCsv);
    }
    if first.contains(',') && first.contains("timeStamp") && first.contains("elapsed") {
        return Some(Format::Jtl);
    }
    if first.contains(',') && first.contains("Label") && first.contains("# Samples") {
        return Some(Format::JmeterTable);
    }
    if start.contains("This is ApacheBench") {
        return Some(Format::Ab);
    }
    if start.contains("Summary:") && start.contains("Requests/sec:") && start.contains("Slowest:") {
        return Some(Format::Hey);
    }
    if start.contains("Running ") && start.contains(" test @ ") {
        return Some(Format::Wrk);
    }
    None
}

/// Reads results in any of the forms.
///
/// # Errors
/// When the text has none of the forms, or is not whole.
pub fn read(text: &str) -> Result<Report, ReadError> {
    let text = text.trim_start_matches('\u{feff}');
    let format = sniff(text).ok_or(ReadError::Unknown)?;
    match format {
        Format::Gauge => Report::from_json(text).map_err(|error| format.broken(error)),
        Format::Wrk => wrk::read(text),
        Format::Hey => hey::read(text),
        Format::HeyCsv => hey::read_csv(text),
        Format::Ab => ab::read(text),
        Format::K6 => k6::read(text),
        Format::Vegeta => vegeta::read(text),
        Format::Oha => oha::read(text),
        Format::Jtl => jmeter::read_jtl(text),
        Format::JmeterTable => jmeter::read_table(text),
    }
}

#[cfg(test)]
mod tests;
