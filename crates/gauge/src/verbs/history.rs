//! What looks at the history, or changes it: `list`, `show`, `export`, `import`, `cleanup` and `summary`.

mod cleanup;
mod export;
mod import;
mod list;
mod show;
mod summary;

use std::process::ExitCode;

use gauge::history::{History, HistoryError, Target};

pub(crate) use cleanup::CleanUp;
pub(crate) use export::Export;
pub(crate) use import::Import;
pub(crate) use list::List;
pub(crate) use show::Show;
pub(crate) use summary::Summary;

use crate::cli::{BAD_INPUT, UNAVAILABLE, UNREADABLE};

/// Where the history is.
#[derive(clap::Args)]
pub(crate) struct StoreOption {
    /// The history: a file (SQLite), `postgres://USER:PASSWORD@HOST/DATABASE`, or `none` [default: PostgreSQL by DB_HOST, DB_PORT, DB_NAME, DB_USER
    /// and DB_PASSWORD where DB_HOST is set, else ~/.local/share/gauge/history.db]
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<String>,
}

impl StoreOption {
    /// Where it is; `None` for none.
    pub(crate) fn target(&self) -> Result<Option<Target>, ExitCode> {
        Target::find(self.store.as_deref()).map_err(|error| {
            eprintln!("gauge: {error}");
            ExitCode::from(BAD_INPUT)
        })
    }

    /// Opens it, for a command that is nothing without it.
    pub(crate) fn open(&self) -> Result<History, ExitCode> {
        let Some(target) = self.target()? else {
            eprintln!("gauge: --store none: this command reads the history; name a file or postgres://...");
            return Err(ExitCode::from(BAD_INPUT));
        };
        History::open(&target).map_err(|error| failed(&error))
    }
}

/// Says why, as exit code too.
pub(crate) fn failed(error: &HistoryError) -> ExitCode {
    eprintln!("gauge: {error}");
    ExitCode::from(if error.is_of_database() { UNAVAILABLE } else { UNREADABLE })
}

/// Runs what ends early with an exit code.
pub(crate) fn or_code(result: Result<ExitCode, ExitCode>) -> ExitCode {
    result.unwrap_or_else(|code| code)
}

/// Columns as wide as their widest cell; the first line is the head.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |row: &Vec<String>, column: usize| row.get(column).map_or(0, |cell| cell.chars().count());
    let widths: Vec<usize> =
        (0..columns).map(|column| rows.iter().map(|row| cell(row, column)).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}
