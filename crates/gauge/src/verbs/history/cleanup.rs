//! `gauge cleanup`

use std::process::ExitCode;
use std::time::Duration;

use gauge::history::Cleanup;

use super::{StoreOption, failed, or_code, table};
use crate::cli::print;

/// Removes old runs from the history; result files stay. Without --execute it only says what it would remove.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("kept").required(true).args(["days", "keep"])))]
pub(crate) struct CleanUp {
    /// Remove what began more than so many days ago
    #[arg(long, value_name = "N")]
    days: Option<u32>,
    /// Keep the newest N campaigns of each system, and remove older runs of it
    #[arg(long, value_name = "N")]
    keep: Option<u64>,
    /// Do it
    #[arg(long)]
    execute: bool,
    #[command(flatten)]
    store: StoreOption,
}

impl CleanUp {
    pub(crate) fn run(self) -> ExitCode {
        or_code(self.clean_up())
    }

    fn clean_up(self) -> Result<ExitCode, ExitCode> {
        let kept = match (self.days, self.keep) {
            (Some(days), _) => Cleanup::Newer(Duration::from_secs(u64::from(days) * 86_400)),
            (None, keep) => Cleanup::Newest(keep.unwrap_or(u64::MAX)),
        };
        let history = self.store.open()?;
        let removed = history.clean_up(kept, self.execute).map_err(|error| failed(&error))?;
        let runs: u64 = removed.iter().map(|one| one.runs).sum();
        let mut rows = vec![["id", "campaign", "api", "runs"].map(str::to_owned).to_vec()];
        rows.extend(removed.into_iter().map(|one| vec![one.campaign, one.name, one.api, one.runs.to_string()]));
        let mut text = if rows.len() > 1 { table(&rows) } else { String::new() };
        text.push_str(&match self.execute {
            true => format!("{runs} runs removed\n"),
            false => format!("{runs} runs would be removed; --execute does it\n"),
        });
        Ok(print(&text))
    }
}
