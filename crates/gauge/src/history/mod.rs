//! The history: campaigns in one database, SQLite in a file of the user's or PostgreSQL.
//!
//! It holds the results model as it is: a campaign and its trials are stored as the documents that `raw/` holds, and come back as the same
//! [`crate::results::Results`]. Columns beside the documents are copies for queries. Both databases have one schema (`schema.sql`) and one set of statements.
//!
//! A campaign is written when it begins, trial by trial, and once more as a whole when it ends, each time in one transaction. What was killed says so
//! when it is next seen: [`History::open`] marks campaigns whose program has ended.

mod campaigns;
mod cleanup;
mod read;
mod recorder;
mod schema;
mod target;
mod write;

use std::fs;
use std::time::Duration;

use sqlx::any::AnyConnectOptions;
use sqlx::{AnyConnection, Connection, Row, Transaction};

pub use campaigns::{CampaignFilter, CampaignRow, CampaignRows, StoredHead};
pub use cleanup::{Cleanup, Removed};
pub use read::{Figures, Filter, Group, Overview, STORED, StoredCampaign, figure_words, stored};
pub use recorder::Recorder;
pub use target::{Target, TargetError};

use target::Kind;

/// An operation that takes longer has failed: a campaign must not hang on a database.
const DEADLINE: Duration = Duration::from_secs(120);

/// What a writer waits for another one.
const BUSY: &str = "PRAGMA busy_timeout = 60000";

/// A database with the schema.
#[derive(Debug)]
pub struct History {
    target: Target,
    runtime: tokio::runtime::Runtime,
}

/// Why the history cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The database.
    #[error("history in {store}: {error}")]
    Database {
        /// Where.
        store: Target,
        /// What it said.
        error: String,
    },
    /// No campaign has this id, or several have.
    #[error("history in {store}: {problem}")]
    NotFound {
        /// Where.
        store: Target,
        /// What is wrong, and what to do.
        problem: String,
    },
}

impl HistoryError {
    /// Whether the database itself is at fault.
    pub fn is_of_database(&self) -> bool {
        matches!(self, HistoryError::Database { .. })
    }
}

/// What goes wrong in a statement, or in what it gave.
type Outcome<T> = Result<T, sqlx::Error>;

/// A document that is not what gauge writes.
fn content(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> sqlx::Error {
    sqlx::Error::Decode(error.into())
}

impl History {
    /// Opens the database, makes or migrates its schema, and marks campaigns as aborted whose program has ended.
    ///
    /// # Errors
    /// When it cannot be used, or a later version wrote it.
    pub fn open(target: &Target) -> Result<Self, HistoryError> {
        sqlx::any::install_default_drivers();
        let error = |error: std::io::Error| HistoryError::Database { store: target.clone(), error: error.to_string() };
        if let Kind::Sqlite(file) = &target.kind
            && let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty())
        {
            fs::create_dir_all(folder).map_err(error)?;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(error)?;
        let history = History { target: target.clone(), runtime };
        history.with(async |connection| schema::migrate(connection).await)?;
        if !history.with(async |connection| write::killed(connection).await)?.is_empty() {
            history.transaction(async |transaction| write::mark_aborted(transaction).await)?;
        }
        Ok(history)
    }

    /// Where it is.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Does something over a connection of its own: between two trials of a campaign hours may pass, and a server may have started anew.
    fn with<T>(&self, work: impl AsyncFnOnce(&mut AnyConnection) -> Outcome<T>) -> Result<T, HistoryError> {
        let all = async {
            let mut connection = connect(&self.target).await?;
            let result = work(&mut connection).await;
            // SQLite says here what it could not write.
            match result {
                Ok(value) => connection.close().await.map(|()| value),
                Err(error) => Err(error),
            }
        };
        let outcome = self.runtime.block_on(async { tokio::time::timeout(DEADLINE, all).await });
        let error = match outcome {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => words(&error),
            Err(_) => format!("no response within {} s", DEADLINE.as_secs()),
        };
        Err(HistoryError::Database { store: self.target.clone(), error })
    }

    /// Does something that is done as a whole or not at all.
    fn transaction<T>(
        &self,
        work: impl AsyncFnOnce(&mut Transaction<'_, sqlx::Any>) -> Outcome<T>,
    ) -> Result<T, HistoryError> {
        self.with(async |connection| {
            let mut transaction = begin(connection).await?;
            let value = work(&mut transaction).await?;
            transaction.commit().await?;
            Ok(value)
        })
    }

    fn not_found(&self, problem: String) -> HistoryError {
        HistoryError::NotFound { store: self.target.clone(), problem }
    }
}

async fn connect(target: &Target) -> Outcome<AnyConnection> {
    let options: AnyConnectOptions = target.url().parse()?;
    let mut connection = AnyConnection::connect_with(&options).await?;
    if is_sqlite(&connection) {
        sqlx::query(BUSY).execute(&mut connection).await?;
    }
    Ok(connection)
}

fn is_sqlite(connection: &AnyConnection) -> bool {
    connection.backend_name() == "SQLite"
}

/// A transaction that writes. SQLite must know that when it begins: one that read before could not wait for another writer.
async fn begin(connection: &mut AnyConnection) -> Outcome<Transaction<'_, sqlx::Any>> {
    let statement = if is_sqlite(connection) { "BEGIN IMMEDIATE" } else { "BEGIN" };
    connection.begin_with(statement).await
}

/// What a database says, and what to do where that is known.
fn words(error: &sqlx::Error) -> String {
    let text = match error {
        sqlx::Error::Database(error) => error.message().to_owned(),
        sqlx::Error::Decode(error) => error.to_string(),
        other => other.to_string(),
    };
    let code = match error {
        sqlx::Error::Database(error) => error.code().unwrap_or_default().into_owned(),
        _ => String::new(),
    };
    // https://www.sqlite.org/rescode.html and appendix A of PostgreSQL's manual.
    let help = match code.as_str() {
        "13" | "53100" => "make room, or choose another place with --store",
        "14" => "check that the folder can be written, or choose another place with --store",
        "26" => "not an SQLite database; choose another file with --store",
        "3D000" => "create the database first, or name another one (DB_NAME)",
        "28P01" | "28000" => "check the user and the password (DB_USER, DB_PASSWORD)",
        "42P07" => "its tables are not gauge's; choose another database",
        _ => return text,
    };
    format!("{text}; {help}")
}

/// A number that a query counted.
async fn count(connection: &mut AnyConnection, sql: &'static str) -> Outcome<i64> {
    sqlx::query(sql).fetch_one(connection).await?.try_get(0)
}

#[cfg(test)]
mod tests;
