//! `gauge export`

use std::path::PathBuf;
use std::process::ExitCode;

use gauge::judgement::judge;
use gauge::report::{phases_csv, samples_csv, to_csv, to_json};

use super::{StoreOption, failed, or_code};
use crate::cli::{BAD_INPUT, UNWRITABLE, print};

/// Writes a campaign of the history into a file: as results.json or results.csv of `gauge run`, or as CSV of phases or samples.
#[derive(clap::Args)]
pub(crate) struct Export {
    /// Its id, or the first characters of it
    id: String,
    /// The file; `-` is standard output
    file: PathBuf,
    /// What is written [default: csv for a file whose name ends so, else json]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// What a CSV has a line for
    #[arg(long, value_enum, default_value = "trials")]
    rows: Rows,
    #[command(flatten)]
    store: StoreOption,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// All of it, with every histogram; `gauge import` reads it again where it is called results.json
    Json,
    /// A line for each trial, or what --rows says
    Csv,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Rows {
    /// Each trial
    Trials,
    /// Each phase of each trial
    Phases,
    /// Each sample of CPU and memory: about two a second
    Samples,
}

impl Export {
    pub(crate) fn run(self) -> ExitCode {
        or_code(self.export())
    }

    fn export(self) -> Result<ExitCode, ExitCode> {
        let results = self.store.open()?.load(&self.id).map_err(|error| failed(&error))?.results;
        let is_csv = self.file.extension().is_some_and(|extension| extension == "csv");
        let format = self.format.unwrap_or(if is_csv { Format::Csv } else { Format::Json });
        if matches!(format, Format::Json) && self.rows != Rows::Trials {
            eprintln!(
                "gauge: JSON has trials, phases and samples in one document: leave out --rows, or write --format csv"
            );
            return Err(ExitCode::from(BAD_INPUT));
        }
        let text = match (format, self.rows) {
            (Format::Json, _) => to_json(&results, &judge(&results)),
            (Format::Csv, Rows::Trials) => to_csv(&results, &judge(&results)),
            (Format::Csv, Rows::Phases) => phases_csv(&results),
            (Format::Csv, Rows::Samples) => samples_csv(&results),
        };
        if self.file.as_os_str() == "-" {
            return Ok(print(&text));
        }
        std::fs::write(&self.file, text).map_err(|error| {
            eprintln!("gauge: cannot write {}: {error}", self.file.display());
            ExitCode::from(UNWRITABLE)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
