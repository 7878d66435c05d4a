//! `gauge import`

use std::path::PathBuf;
use std::process::ExitCode;

use gauge::report::read_directory;

use super::{StoreOption, failed, or_code};
use crate::cli::{UNREADABLE, print};

/// Stores result directories in the history; one that is there already is replaced.
#[derive(clap::Args)]
pub(crate) struct Import {
    /// Directories that `gauge run --out DIR` wrote: with raw/, or with results.json
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    #[command(flatten)]
    store: StoreOption,
}

impl Import {
    pub(crate) fn run(self) -> ExitCode {
        or_code(self.import())
    }

    fn import(self) -> Result<ExitCode, ExitCode> {
        let history = self.store.open()?;
        let mut code = ExitCode::SUCCESS;
        for dir in &self.dirs {
            let results = match read_directory(dir) {
                Ok(results) => results,
                Err(error) => {
                    // The others are stored.
                    eprintln!("gauge: {error}");
                    code = ExitCode::from(UNREADABLE);
                    continue;
                }
            };
            let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
            let id = history.put(&results, &absolute).map_err(|error| failed(&error))?;
            print(&format!("{id}  {}: {} trials\n", results.name, results.trials.len()));
        }
        Ok(code)
    }
}
