//! Migrations. Each is applied once, by one program at a time, in one transaction with its number.

use sqlx::{AnyConnection, Executor};

use super::{Outcome, begin, content, count, is_sqlite};

/// The schema, version by version. What was released is never changed; a change is one more entry.
pub(super) const MIGRATIONS: &[&str] =
    &[include_str!("schema.sql"), include_str!("phases.sql"), include_str!("modes.sql")];

/// Any number that nobody else takes for a lock of PostgreSQL.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7315930)";

const VERSIONS: &str = "SELECT COUNT(*) FROM gauge_schema";

pub(super) async fn migrate(connection: &mut AnyConnection) -> Outcome<()> {
    // Nothing is written, and no lock taken, by a look at a history that has it all. (Without the table this is an error, and so not that.)
    let applied = count(connection, VERSIONS).await;
    if applied.is_ok_and(|applied| applied == MIGRATIONS.len() as i64) {
        return Ok(());
    }
    let sqlite = is_sqlite(connection);
    let mut transaction = begin(connection).await?;
    if !sqlite {
        transaction.execute(LOCK).await?;
    }
    let versions = "CREATE TABLE IF NOT EXISTS gauge_schema (version BIGINT PRIMARY KEY)";
    transaction.execute(versions).await?;
    let done = count(&mut transaction, VERSIONS).await?;
    let done = usize::try_from(done).unwrap_or(usize::MAX);
    if done > MIGRATIONS.len() {
        let problem =
            format!("a later gauge wrote it (schema {done}; this one knows {}): use a later gauge", MIGRATIONS.len());
        return Err(content(problem));
    }
    for (index, migration) in MIGRATIONS.iter().enumerate().skip(done) {
        transaction.execute(sqlx::raw_sql(*migration)).await?;
        let applied = sqlx::query("INSERT INTO gauge_schema (version) VALUES ($1)").bind(index as i64 + 1);
        applied.execute(&mut *transaction).await?;
    }
    transaction.commit().await
}
