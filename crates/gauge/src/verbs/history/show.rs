//! `gauge show`

use std::process::ExitCode;

use gauge::history::Filter;
use gauge::judgement::judge;
use gauge::report::{date, headline, outcome_line, phase_table};
use gauge::results::TrialState;

use super::{StoreOption, failed, list, or_code, table};
use crate::cli::print;

/// Shows a campaign of the history: where and of what it was measured, its figures, and what follows from them.
#[derive(clap::Args)]
pub(crate) struct Show {
    /// Its id, or the first characters of it
    id: String,
    #[command(flatten)]
    store: StoreOption,
}

impl Show {
    pub(crate) fn run(self) -> ExitCode {
        or_code(self.text().map(|text| print(&text)))
    }

    fn text(self) -> Result<String, ExitCode> {
        let history = self.store.open()?;
        let stored = history.load(&self.id).map_err(|error| failed(&error))?;
        let filter = Filter { campaign: Some(stored.id.clone()), ..Filter::default() };
        let groups = history.list(&filter).map_err(|error| failed(&error))?;
        let results = &stored.results;
        let environment = &results.environment;
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let ended = results.ended_unix_ms.map_or("-".to_owned(), date);
        let mut text = format!("{}  {}\n", stored.id, results.name);
        for (name, value) in [
            ("status", stored.status.clone()),
            ("started", date(results.started_unix_ms)),
            ("ended", ended),
            ("command", results.command.clone()),
            ("files", format!("{}:{}", stored.host, stored.directory)),
            ("machine", known(&environment.host)),
            ("system", known(&environment.system)),
            ("processor", known(&environment.processor)),
            ("cpus", environment.cpus.map_or("-".to_owned(), |cpus| cpus.to_string())),
            ("commit", known(&environment.commit)),
            ("gauge", results.gauge.clone()),
        ] {
            text.push_str(&format!("  {name:<10} {value}\n"));
        }
        for system in &results.systems {
            text.push_str(&format!(
                "  {:<10} {} {}\n",
                "api",
                system.name,
                system.version.as_deref().unwrap_or_default()
            ));
        }
        if !groups.is_empty() {
            text.push_str(&format!("\n{}", list::lines(&groups)));
        }
        for trial in &results.trials {
            if let TrialState::Failed(why) | TrialState::Void(why) | TrialState::Aborted(why) = &trial.state {
                let why = why.lines().next().unwrap_or_default();
                text.push_str(&format!("{}: {}: {why}\n", trial.id, trial.state.name()));
            }
        }
        let judgement = judge(results);
        for workload in &results.workloads {
            let Some((head, rows)) = phase_table(results, &judgement, &workload.name) else { continue };
            let mut lines = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
            lines.extend(rows);
            text.push_str(&format!("\nphases of {}\n{}", workload.name, table(&lines)));
        }
        text.push_str(&format!("\n{}\n", headline(&judgement)));
        if let Some(line) = outcome_line(&judgement) {
            text.push_str(&format!("{line}\n"));
        }
        Ok(text)
    }
}
