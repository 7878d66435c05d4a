//! `gauge trend`

use std::collections::BTreeMap;
use std::process::ExitCode;

use gauge::history::{Filter, Group, STORED, figure_words, stored};
use gauge::report::date;
use gauge::stats::{LEAST, change_points};

use super::history::{StoreOption, failed, or_code, table};
use crate::cli::{BAD_INPUT, print};

/// Shows a figure of a system over time, and where its level changed (E-divisive on ranks, permutation test, 5 %).
#[derive(clap::Args)]
pub(crate) struct Trend {
    /// The system
    system: String,
    /// The figure: throughput, mean, min, max, p50, p90, p95, p99, error_rate, cpu_us_per_request, memory_bytes
    metric: String,
    /// Only this workload
    #[arg(long, value_name = "WORKLOAD")]
    workload: Option<String>,
    /// Only this load by name: smoke, short, full, saturation; - is any other
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    #[command(flatten)]
    store: StoreOption,
}

impl Trend {
    pub(crate) fn run(self) -> ExitCode {
        or_code(self.text().map(|text| print(&text)))
    }

    fn text(self) -> Result<String, ExitCode> {
        let Some(column) = stored(&self.metric) else {
            eprintln!("gauge: unknown figure `{}`; expected one of {}", self.metric, STORED.join(", "));
            return Err(ExitCode::from(BAD_INPUT));
        };
        let history = self.store.open()?;
        let filter =
            Filter { api: Some(self.system.clone()), workload: self.workload, mode: self.mode, ..Filter::default() };
        let mut groups = history.list(&filter).map_err(|error| failed(&error))?;
        groups.reverse();
        // Another machine is another level, and no change of the system.
        let mut series: BTreeMap<(&str, Option<&str>, &str), Vec<&Group>> = BTreeMap::new();
        for group in groups.iter().filter(|group| group.figures[column].is_some()) {
            series.entry((&group.workload, group.payload.as_deref(), &group.host)).or_default().push(group);
        }
        if series.is_empty() {
            return Ok(format!("{}: no {} of `{}`\n", history.target(), STORED[column], self.system));
        }
        let mut text = String::new();
        for ((workload, payload, host), groups) in series {
            let payload = payload.map_or(String::new(), |payload| format!(", {payload}"));
            text.push_str(&format!("{} of {} under {workload}{payload} on {host}\n", STORED[column], self.system));
            text.push_str(&lines(column, &groups));
        }
        Ok(text)
    }
}

fn lines(column: usize, groups: &[&Group]) -> String {
    let values: Vec<f64> = groups.iter().filter_map(|group| group.figures[column]).collect();
    let changes = change_points(&values);
    let mut rows = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        let change = changes.iter().find(|change| change.at == index).map_or(String::new(), |change| {
            let words = |value: f64| figure_words(column, Some(value));
            format!("changed: {} -> {}, p = {:.4}", words(change.before), words(change.after), change.p)
        });
        let figure = figure_words(column, group.figures[column]);
        rows.push(vec![date(group.started_unix_ms), group.campaign.clone(), figure, change]);
    }
    let end = match (changes.len(), values.len()) {
        (0, count) if count < LEAST => format!("{count} campaigns; a change can be seen in {LEAST} or more\n\n"),
        (0, count) => format!("{count} campaigns, no change\n\n"),
        (changes, count) => format!("{count} campaigns, changes: {changes}\n\n"),
    };
    table(&rows) + &end
}
