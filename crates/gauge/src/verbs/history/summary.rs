//! `gauge summary`

use std::collections::BTreeMap;
use std::process::ExitCode;

use gauge::history::{Filter, Group, STORED, figure_words};
use gauge::report::date;

use super::{StoreOption, failed, or_code, table};
use crate::cli::print;

/// Says what the history has of each system, or shows the latest run of each side by side.
#[derive(clap::Args)]
pub(crate) struct Summary {
    /// The latest run of each system under each workload, side by side
    #[arg(long)]
    comparison: bool,
    #[command(flatten)]
    store: StoreOption,
}

impl Summary {
    pub(crate) fn run(self) -> ExitCode {
        or_code(self.text().map(|text| print(&text)))
    }

    fn text(self) -> Result<String, ExitCode> {
        let history = self.store.open()?;
        if self.comparison {
            let groups = history.list(&Filter::default()).map_err(|error| failed(&error))?;
            return Ok(side_by_side(&groups));
        }
        let head = ["api", "campaigns", "runs", "done", "failed", "aborted", "first", "latest"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for one in history.overview().map_err(|error| failed(&error))? {
            let day = |unix_ms: i64| date(u64::try_from(unix_ms).unwrap_or(0));
            let counts = [one.campaigns, one.runs, one.done, one.failed, one.aborted].map(|count| count.to_string());
            let mut row = vec![one.api];
            row.extend(counts);
            row.extend([day(one.first_unix_ms), day(one.last_unix_ms)]);
            rows.push(row);
        }
        Ok(format!("{}\n{}", history.target(), table(&rows)))
    }
}

/// For each workload a table with a column for each system. Groups come with the newest first.
fn side_by_side(groups: &[Group]) -> String {
    let mut latest: BTreeMap<(&str, Option<&str>), BTreeMap<&str, &Group>> = BTreeMap::new();
    for group in groups.iter().filter(|group| group.done > 0) {
        let workload = latest.entry((&group.workload, group.payload.as_deref())).or_default();
        workload.entry(&group.api).or_insert(group);
    }
    let mut text = String::new();
    for ((name, payload), systems) in latest {
        let payload = payload.map_or(String::new(), |payload| format!(", {payload}"));
        let line = |name: &str, of: &dyn Fn(&Group) -> String| {
            [name.to_owned()].into_iter().chain(systems.values().map(|group| of(group))).collect::<Vec<_>>()
        };
        let mut rows = vec![
            line(&format!("{name}{payload}"), &|group| group.api.clone()),
            line("campaign", &|group| group.campaign.clone()),
            line("started", &|group| date(group.started_unix_ms)),
            line("runs", &|group| group.done.to_string()),
        ];
        for (column, name) in STORED.iter().enumerate() {
            rows.push(line(name, &|group| figure_words(column, group.figures[column])));
        }
        text.push_str(&table(&rows));
        text.push('\n');
    }
    text
}
