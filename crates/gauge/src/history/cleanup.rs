//! What is removed.

use std::time::Duration;

use sqlx::{Any, Row, Transaction};

use super::{History, HistoryError, Outcome};

/// What is kept; the rest is removed.
#[derive(Debug, Clone, Copy)]
pub enum Cleanup {
    /// Campaigns that began within this.
    Newer(Duration),
    /// The newest campaigns of each API.
    Newest(u64),
}

/// What is removed, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// Of which campaign.
    pub campaign: String,
    /// Its name.
    pub name: String,
    /// Which API.
    pub api: String,
    /// How many test runs.
    pub runs: u64,
}

impl History {
    /// Removes what is not kept, with all that belongs to it, or only says what that is. What runs is kept.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub fn clean_up(&self, kept: Cleanup, execute: bool) -> Result<Vec<Removed>, HistoryError> {
        self.transaction(async |transaction| clean_up(transaction, kept, execute).await)
    }
}

async fn clean_up(transaction: &mut Transaction<'_, Any>, kept: Cleanup, execute: bool) -> Outcome<Vec<Removed>> {
    // A campaign without test runs has an API without a name.
    let sql = "SELECT c.id, c.name, COALESCE(t.api, ''), COUNT(t.id), c.started_unix_ms FROM campaigns c LEFT JOIN test_runs t \
               ON t.campaign_id = c.id WHERE c.status <> 'running' GROUP BY c.id, c.name, COALESCE(t.api, ''), c.started_unix_ms \
               ORDER BY COALESCE(t.api, ''), c.started_unix_ms DESC, c.id";
    let rows = sqlx::query(sql).fetch_all(&mut **transaction).await?;
    let now = crate::campaign::unix_ms();
    let (mut removed, mut last, mut seen) = (Vec::new(), None, 0);
    for row in rows {
        let api: String = row.try_get(2)?;
        seen = if last.as_ref() == Some(&api) { seen + 1 } else { 1 };
        last = Some(api.clone());
        let keep = match kept {
            Cleanup::Newer(age) => {
                let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
                row.try_get::<i64, _>(4)? >= i64::try_from(now.saturating_sub(age)).unwrap_or(i64::MAX)
            }
            Cleanup::Newest(count) => seen <= count,
        };
        if !keep {
            let runs = u64::try_from(row.try_get::<i64, _>(3)?).unwrap_or(0);
            removed.push(Removed { campaign: row.try_get(0)?, name: row.try_get(1)?, api, runs });
        }
    }
    for one in removed.iter().filter(|_| execute) {
        let runs = sqlx::query("DELETE FROM test_runs WHERE campaign_id = $1 AND api = $2");
        runs.bind(one.campaign.clone()).bind(one.api.clone()).execute(&mut **transaction).await?;
        let empty =
            "DELETE FROM campaigns WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM test_runs WHERE campaign_id = $1)";
        sqlx::query(empty).bind(one.campaign.clone()).execute(&mut **transaction).await?;
    }
    Ok(removed)
}
