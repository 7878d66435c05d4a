//! CSV files whose values a script uses: all users share their lines.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::super::{ExternalError, absolute, quoted, write};
use crate::load::workload::Pick;

/// The tables of a script.
pub(super) struct Tables<'f> {
    folder: &'f Path,
    known: Vec<PathBuf>,
}

impl<'f> Tables<'f> {
    pub(super) fn new(folder: &'f Path) -> Self {
        Tables { folder, known: Vec::new() }
    }

    /// The number of a file's table. `before` gets its definition the first time.
    pub(super) fn of(&mut self, file: &Path, before: &mut String) -> Result<usize, ExternalError> {
        if let Some(number) = self.known.iter().position(|known| known == file) {
            return Ok(number);
        }
        let number = self.known.len();
        let rows = absolute(&write(self.folder, &format!("table{number}.txt"), &rows(file)?)?)?;
        // Writing to a string cannot fail.
        let _ = writeln!(
            before,
            "const table{number} = new SharedArray('table{number}', () => lines(open({})).map(JSON.parse));",
            quoted(&rows.to_string_lossy())
        );
        self.known.push(file.to_owned());
        Ok(number)
    }
}

/// A line of a table, which is chosen once for all columns of it.
pub(super) fn row(number: usize, pick: Pick) -> String {
    match pick {
        Pick::Random => format!("table{number}[random(0, table{number}.length - 1)]"),
        Pick::Sequence => format!("table{number}[step() % table{number}.length]"),
    }
}

/// Each line as an object of JSON with the names of its columns.
fn rows(file: &Path) -> Result<String, ExternalError> {
    let failed = |error: csv::Error| ExternalError::File { file: file.to_owned(), error: std::io::Error::other(error) };
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::Headers).from_path(file).map_err(failed)?;
    let names: Vec<String> = reader.headers().map_err(failed)?.iter().map(str::to_owned).collect();
    let mut text = String::new();
    for line in reader.byte_records() {
        let line = line.map_err(failed)?;
        let value = |bytes: &[u8]| Value::String(String::from_utf8_lossy(bytes).into_owned());
        let row: Map<String, Value> = names.iter().cloned().zip(line.iter().map(value)).collect();
        let _ = writeln!(text, "{}", Value::Object(row));
    }
    Ok(text)
}
