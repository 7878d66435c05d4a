//! `gauge recompute`: the report again, from raw data.

use std::path::PathBuf;
use std::process::ExitCode;

use gauge::judgement::judge;
use gauge::report;

use crate::cli::{UNREADABLE, UNWRITABLE, print};

/// Writes report.html, report.md, results.csv and results.json from DIR/raw/ alone.
#[derive(clap::Args)]
pub(crate) struct Recompute {
    /// The directory that `gauge run --out DIR` wrote.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

impl Recompute {
    pub(crate) fn run(self) -> ExitCode {
        let results = match report::read_raw(&self.dir) {
            Ok(results) => results,
            Err(error) => {
                eprintln!("gauge: {error}");
                return ExitCode::from(UNREADABLE);
            }
        };
        let judgement = judge(&results);
        if let Err(error) = report::write(&self.dir, &results, &judgement) {
            eprintln!("gauge: {error}");
            return ExitCode::from(UNWRITABLE);
        }
        let runs = results.trials.len();
        print(&format!("{}: judged {runs} runs again\n", self.dir.join("report.html").display()))
    }
}
