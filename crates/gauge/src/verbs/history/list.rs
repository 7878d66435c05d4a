//! `gauge list`

use std::process::ExitCode;

use gauge::history::{Filter, Group, figure_words, stored};
use gauge::report::date;

use super::{StoreOption, failed, or_code, table};
use crate::cli::print;

/// Lists what the history has, the newest first: a line for each system and workload of a campaign, with medians over its rounds.
#[derive(clap::Args)]
pub(crate) struct List {
    /// Only this system
    #[arg(long, value_name = "SYSTEM")]
    api: Option<String>,
    /// Only this workload
    #[arg(long, value_name = "WORKLOAD")]
    workload: Option<String>,
    /// Only this load by name: smoke, short, full, saturation; - is any other
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    /// Only this payload
    #[arg(long)]
    payload: Option<String>,
    /// Most lines
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    #[command(flatten)]
    store: StoreOption,
}

/// Columns of figures.
const FIGURES: [&str; 6] = ["throughput", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "error_rate"];

impl List {
    pub(crate) fn run(self) -> ExitCode {
        or_code(self.lines().map(|text| print(&text)))
    }

    fn lines(self) -> Result<String, ExitCode> {
        let history = self.store.open()?;
        let limit = Some(self.limit);
        let (api, workload, mode, payload) = (self.api, self.workload, self.mode, self.payload);
        let filter = Filter { campaign: None, api, workload, mode, payload, limit };
        let groups = history.list(&filter).map_err(|error| failed(&error))?;
        if groups.is_empty() {
            return Ok(format!("{}: no such runs\n", history.target()));
        }
        Ok(lines(&groups))
    }
}

/// A table of groups.
pub(super) fn lines(groups: &[Group]) -> String {
    let head = [
        "id", "started", "campaign", "api", "workload", "mode", "payload", "status", "runs", "rate", "mean", "p50",
        "p95", "p99", "errors",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for group in groups {
        let mut row = vec![
            group.campaign.clone(),
            date(group.started_unix_ms),
            group.name.clone(),
            group.api.clone(),
            group.workload.clone(),
            group.mode.clone(),
            group.payload.clone().unwrap_or_else(|| "-".to_owned()),
            group.status.clone(),
            if group.done == group.runs { group.runs.to_string() } else { format!("{} of {}", group.done, group.runs) },
        ];
        row.extend(
            FIGURES.iter().filter_map(|name| stored(name)).map(|column| figure_words(column, group.figures[column])),
        );
        rows.push(row);
    }
    table(&rows)
}
