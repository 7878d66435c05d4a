//! The one statement that an event is.

use sqlx::{
    ConnectOptions, Executor, PgConnection, PgPool, Postgres,
    pool::PoolConnection,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use std::{str::FromStr, time::Duration};

use crate::{check::Event, settings::Settings};

/// A connection that rested longer is prompted for a sign of life before it gets a statement, so that the first request after
/// a restart of PostgreSQL does not pay for it. Under load no connection rests.
const TRUSTED_IDLE: Duration = Duration::from_secs(1);
/// How often PostgreSQL looks whether the client of a running statement is still there (`client_connection_check_interval`, in ms).
const CLIENT_CHECK_MS: &str = "250";
/// How long a health check waits.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// The database.
#[derive(Clone, Debug)]
pub struct Store {
    pool: PgPool,
}

/// Why an event was not stored. Nothing of it was written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is away, overloaded or refused to work now; the same event may succeed later.
    #[error("database is unavailable: {0}")]
    Unavailable(sqlx::Error),
    /// The event holds what PostgreSQL cannot store, such as a number outside of `numeric`'s range.
    #[error("attributes cannot be stored: {0}")]
    Refused(sqlx::Error),
    /// Anything else; a table that is missing, for one.
    #[error("statement failed: {0}")]
    Failed(sqlx::Error),
}

impl Store {
    /// Makes the pool. No connection is opened yet: a service starts, and responds with 503, also while the database is away.
    ///
    /// # Errors
    /// A `DATABASE_URL` that cannot be read.
    pub fn new(settings: &Settings, service: &str) -> Result<Self, sqlx::Error> {
        let connection = PgConnectOptions::from_str(&settings.database_url)?
            .application_name(service)
            .options([
                ("statement_timeout", settings.statement_timeout_ms.to_string()),
                ("client_connection_check_interval", CLIENT_CHECK_MS.to_owned()),
            ])
            .disable_statement_logging();
        let pool = PgPoolOptions::new()
            .max_connections(settings.pool_size)
            .min_connections(0)
            .acquire_timeout(settings.acquire_timeout)
            .idle_timeout(Duration::from_secs(600))
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    if meta.idle_for > TRUSTED_IDLE {
                        connection.execute(";").await?;
                    }
                    Ok(true)
                })
            })
            .connect_lazy_with(connection);
        Ok(Self { pool })
    }

    /// Stores an event in one transaction: every entity of it, or none. The rows are locked in the order of their keys, so
    /// that two events with entities in common never wait for each other in a circle.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn store(&self, event: &Event) -> Result<(), StoreError> {
        // Whatever keeps a connection away (refused, no such role, no such database) means that the database is away.
        let mut statement = Statement::on(self.pool.acquire().await.map_err(StoreError::Unavailable)?);
        let result = sqlx::query_file!("../sql/store_event.sql", &event.types, &event.ids, &event.attributes)
            .execute(statement.connection()?)
            .await;
        statement.end();
        result.map_err(classify)?;
        Ok(())
    }

    /// Whether the database responds within two seconds.
    pub async fn is_up(&self) -> bool {
        let request = async {
            let mut connection = self.pool.acquire().await?;
            connection.execute("SELECT 1").await
        };
        matches!(tokio::time::timeout(PING_TIMEOUT, request).await, Ok(Ok(_)))
    }

    /// Connections that are open: at work and idle.
    pub fn connections(&self) -> (usize, usize) {
        let idle = self.pool.num_idle();
        ((self.pool.size() as usize).saturating_sub(idle), idle)
    }

    /// Closes every connection.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// A connection while a statement runs on it. Dropped before its end, because the call's time is over or its client has gone, it is closed:
/// PostgreSQL then ends the statement. Given back to the pool, the statement would run on, and its event be stored after all.
struct Statement {
    connection: Option<PoolConnection<Postgres>>,
}

impl Statement {
    fn on(connection: PoolConnection<Postgres>) -> Self {
        Self { connection: Some(connection) }
    }

    fn connection(&mut self) -> Result<&mut PgConnection, StoreError> {
        self.connection.as_deref_mut().ok_or(StoreError::Unavailable(sqlx::Error::PoolClosed))
    }

    /// The statement has ended; the connection goes back to the pool.
    fn end(mut self) {
        self.connection.take();
    }
}

impl Drop for Statement {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(connection.detach());
        }
    }
}

/// Sorts an error by its SQLSTATE class (PostgreSQL's appendix A); without one the connection broke.
fn classify(error: sqlx::Error) -> StoreError {
    let Some(code) = error.as_database_error().and_then(|e| e.code()).map(|code| code.into_owned()) else {
        return match error {
            sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::PoolClosed | sqlx::Error::PoolTimedOut => {
                StoreError::Unavailable(error)
            }
            _ => StoreError::Failed(error),
        };
    };
    match (code.get(..2).unwrap_or_default(), code.as_str()) {
        // connection, resources, operator's intervention, conflict with another writer, standby
        ("08" | "40" | "53" | "57", _) | (_, "25006") => StoreError::Unavailable(error),
        ("22", _) => StoreError::Refused(error),
        _ => StoreError::Failed(error),
    }
}
