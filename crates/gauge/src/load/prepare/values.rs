//! Where values come from, with files read and cursors distributed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::PrepareError;
use crate::load::workload::{Pick, Source};

/// Values of a list or a file that are tried: this many take a tenth of a second.
const MOST_TRIED: usize = 10_000;

/// A source that is ready to give values.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Fixed(Arc<[u8]>),
    Int {
        from: i64,
        to: i64,
        cursor: Option<usize>,
    },
    List {
        values: Arc<[Box<[u8]>]>,
        cursor: Option<usize>,
    },
    /// The line is chosen once per request for all columns of a table.
    Csv {
        table: usize,
        column: usize,
    },
    Counter {
        first: i64,
        cursor: usize,
    },
    /// `index` is set when all operations are known.
    Captured {
        name: String,
        index: usize,
        or: Option<Arc<[u8]>>,
    },
}

/// A CSV file.
#[derive(Debug)]
pub(crate) struct Table {
    file: PathBuf,
    pick: Pick,
    columns: Vec<String>,
    pub(crate) lines: Vec<Vec<Box<[u8]>>>,
    pub(crate) cursor: Option<usize>,
}

/// What sources share.
#[derive(Debug, Default)]
pub(crate) struct Values {
    pub(crate) tables: Vec<Table>,
    pub(crate) cursors: usize,
}

impl Values {
    fn cursor(&mut self, pick: Pick) -> Option<usize> {
        (pick == Pick::Sequence).then(|| self.next_cursor())
    }

    fn next_cursor(&mut self) -> usize {
        self.cursors += 1;
        self.cursors - 1
    }

    /// These, one after the other over the whole run.
    pub(crate) fn in_order(&mut self, values: Vec<Vec<u8>>) -> Value {
        Value::List {
            values: values.into_iter().map(Vec::into_boxed_slice).collect(),
            cursor: Some(self.next_cursor()),
        }
    }

    /// Makes a source ready. The error says what is wrong with it.
    pub(crate) fn value(&mut self, source: &Source) -> Result<Value, PrepareOr> {
        Ok(match source {
            Source::Fixed(value) => Value::Fixed(value.as_bytes().into()),
            Source::Int { from, to, .. } if from > to => {
                return Err(PrepareOr::Problem(format!("[{from}, {to}] is an empty range")));
            }
            Source::Int { from, to, pick } => Value::Int { from: *from, to: *to, cursor: self.cursor(*pick) },
            Source::List { values, .. } if values.is_empty() => {
                return Err(PrepareOr::Problem("a list needs a value".to_owned()));
            }
            Source::List { values, pick } => Value::List {
                values: values.iter().map(|value| Box::from(value.as_bytes())).collect(),
                cursor: self.cursor(*pick),
            },
            Source::Counter(first) => Value::Counter { first: *first, cursor: self.next_cursor() },
            Source::Captured { name, or } => {
                Value::Captured { name: name.clone(), index: 0, or: or.as_ref().map(|or| or.as_bytes().into()) }
            }
            Source::Csv { file, column, pick } => {
                let table = self.table(file, *pick)?;
                let columns = &self.tables[table].columns;
                let Some(column) = columns.iter().position(|known| known == column) else {
                    let known = columns.join(", ");
                    return Err(PrepareOr::Problem(format!(
                        "{} has no column `{column}`; it has {known}",
                        file.display()
                    )));
                };
                Value::Csv { table, column }
            }
        })
    }

    /// Tries what values there can be, each beside the first ones of the others: what a message cannot have is known before the load. What a response
    /// will give is known only then.
    pub(crate) fn try_messages(
        &self,
        values: &[Value],
        check: impl Fn(&[Vec<u8>]) -> Result<(), String>,
    ) -> Result<(), String> {
        let all: Option<Vec<Vec<Vec<u8>>>> = values.iter().map(|value| self.samples(value)).collect();
        let Some(all) = all else { return Ok(()) };
        let mut drawn: Vec<Vec<u8>> = all.iter().map(|samples| samples[0].clone()).collect();
        for (index, samples) in all.iter().enumerate() {
            for sample in samples {
                drawn[index].clone_from(sample);
                check(&drawn)?;
            }
            drawn[index].clone_from(&samples[0]);
        }
        Ok(())
    }

    /// Some of the values of a source, one at least; `None` where nothing is known of them.
    fn samples(&self, value: &Value) -> Option<Vec<Vec<u8>>> {
        let number = |number: i64| number.to_string().into_bytes();
        Some(match value {
            Value::Fixed(bytes) => vec![bytes.to_vec()],
            Value::Int { from, to, .. } => vec![number(*from), number(*to)],
            Value::List { values, .. } => values.iter().take(MOST_TRIED).map(|value| value.to_vec()).collect(),
            Value::Csv { table, column } => {
                self.tables[*table].lines.iter().take(MOST_TRIED).map(|line| line[*column].to_vec()).collect()
            }
            Value::Counter { first, .. } => vec![number(*first)],
            Value::Captured { or, .. } => vec![or.as_ref()?.to_vec()],
        })
    }

    fn table(&mut self, file: &Path, pick: Pick) -> Result<usize, PrepareOr> {
        if let Some(index) = self.tables.iter().position(|table| table.file == file && table.pick == pick) {
            return Ok(index);
        }
        let failed = |error: csv::Error| {
            let error = match error.into_kind() {
                csv::ErrorKind::Io(error) => error,
                csv::ErrorKind::UnequalLengths { pos, expected_len, len } => io::Error::other(format!(
                    "line {}: {len} values where the first line names {expected_len}",
                    pos.map_or(0, |pos| pos.line())
                )),
                other => io::Error::other(format!("{other:?}")),
            };
            PrepareOr::Error(PrepareError::File { file: file.to_owned(), error })
        };
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::Headers).from_path(file).map_err(failed)?;
        let columns = reader.headers().map_err(failed)?.iter().map(str::to_owned).collect();
        let mut lines = Vec::new();
        for line in reader.byte_records() {
            lines.push(line.map_err(failed)?.iter().map(Box::from).collect());
        }
        if lines.is_empty() {
            return Err(PrepareOr::Problem(format!("{} has no line of values below its header line", file.display())));
        }
        let cursor = self.cursor(pick);
        self.tables.push(Table { file: file.to_owned(), pick, columns, lines, cursor });
        Ok(self.tables.len() - 1)
    }
}

/// A finished error, or a problem for which the caller knows the place.
#[derive(Debug)]
pub(crate) enum PrepareOr {
    Problem(String),
    Error(PrepareError),
}
