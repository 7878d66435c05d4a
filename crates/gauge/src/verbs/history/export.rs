//! `gauge export`

use std::path::PathBuf;
use std::process::ExitCode;

use gauge::judgement::judge;
use gauge::report::{to_csv, to_json};

use super::{StoreOption, failed, or_code};
use crate::cli::{UNWRITABLE, print};

/// Writes a campaign of the history into a file: as results.json or results.csv of `gauge run`.
#[derive(clap::Args)]
pub(crate) struct Export {
    /// Its id, or the first characters of it
    id: String,
    /// The file; `-` is standard output
    file: PathBuf,
    /// What is written [default: csv for a file whose name ends so, else json]
    #[arg(long, value_enum)]
    format: Option<Format>,
    #[command(flatten)]
    store: StoreOption,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// All of it, with every histogram; `gauge import` reads it again where it is called results.json
    Json,
    /// A line for each trial
    Csv,
}

impl Export {
    pub(crate) fn run(self) -> ExitCode {
        or_code(self.export())
    }

    fn export(self) -> Result<ExitCode, ExitCode> {
        let results = self.store.open()?.load(&self.id).map_err(|error| failed(&error))?.results;
        let is_csv = self.file.extension().is_some_and(|extension| extension == "csv");
        let format = self.format.unwrap_or(if is_csv { Format::Csv } else { Format::Json });
        let judgement = judge(&results);
        let text = match format {
            Format::Json => to_json(&results, &judgement),
            Format::Csv => to_csv(&results, &judgement),
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
