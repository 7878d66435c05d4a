//! Campaigns as rows of a list, page by page, without their documents.

use std::collections::BTreeMap;

use sqlx::{AssertSqlSafe, Row};

use super::{History, HistoryError, Outcome, content};
use crate::results::Results;

/// Which campaigns.
#[derive(Debug, Clone, Default)]
pub struct CampaignFilter {
    /// A system that they have.
    pub api: Option<String>,
    /// `running`, `done` or `aborted`.
    pub status: Option<String>,
    /// A part of the name, small and capital letters alike.
    pub name: Option<String>,
    /// So many of the newest are left out.
    pub skip: u32,
    /// So many at most.
    pub limit: u32,
}

/// A campaign as a row.
#[derive(Debug, Clone)]
pub struct CampaignRow {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `running`, `done` or `aborted`.
    pub status: String,
    /// When it began.
    pub started_unix_ms: u64,
    /// When it ended.
    pub ended_unix_ms: Option<u64>,
    /// Its machine.
    pub host: String,
    /// Its systems that were measured.
    pub apis: Vec<String>,
    /// Trials.
    pub runs: u32,
    /// Those that are done.
    pub done: u32,
    /// Those that failed.
    pub failed: u32,
}

/// Rows of a list, and how many there are in all.
#[derive(Debug, Clone, Default)]
pub struct CampaignRows {
    /// The newest first.
    pub rows: Vec<CampaignRow>,
    /// All that the filter lets pass.
    pub all: u64,
}

/// A campaign without its trials.
#[derive(Debug, Clone)]
pub struct StoredHead {
    /// Its id.
    pub id: String,
    /// `running`, `done` or `aborted`.
    pub status: String,
    /// Where its files are.
    pub host: String,
    /// See `host`.
    pub directory: String,
    /// Itself, without trials.
    pub results: Results,
}

const WHERE: &str = "($1 IS NULL OR EXISTS (SELECT 1 FROM test_runs r WHERE r.campaign_id = c.id AND r.api = $1)) \
                     AND ($2 IS NULL OR c.status = $2) AND ($3 IS NULL OR LOWER(c.name) LIKE $3 ESCAPE '!')";

impl History {
    /// Campaigns, the newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn campaigns(&self, filter: &CampaignFilter) -> Result<CampaignRows, HistoryError> {
        let name = filter.name.as_ref().map(|name| {
            let quoted = name.to_lowercase().replace('!', "!!").replace('%', "!%").replace('_', "!_");
            format!("%{quoted}%")
        });
        self.with(async |connection| {
            let all = sqlx::query(AssertSqlSafe(format!("SELECT COUNT(*) FROM campaigns c WHERE {WHERE}")));
            let all = all.bind(filter.api.clone()).bind(filter.status.clone()).bind(name.clone());
            let all: i64 = all.fetch_one(&mut *connection).await?.try_get(0)?;
            let sql = format!(
                "SELECT c.id, c.name, c.status, c.started_unix_ms, c.ended_unix_ms, c.host FROM campaigns c WHERE {WHERE} \
                 ORDER BY c.started_unix_ms DESC, c.id LIMIT $4 OFFSET $5"
            );
            let query = sqlx::query(AssertSqlSafe(sql)).bind(filter.api.clone()).bind(filter.status.clone()).bind(name);
            let query = query.bind(i64::from(filter.limit)).bind(i64::from(filter.skip));
            let mut rows = Vec::new();
            for row in query.fetch_all(&mut *connection).await? {
                rows.push(CampaignRow {
                    id: row.try_get(0)?,
                    name: row.try_get(1)?,
                    status: row.try_get(2)?,
                    started_unix_ms: u64::try_from(row.try_get::<i64, _>(3)?).unwrap_or(0),
                    ended_unix_ms: row.try_get::<Option<i64>, _>(4)?.and_then(|ended| u64::try_from(ended).ok()),
                    host: row.try_get(5)?,
                    apis: Vec::new(),
                    runs: 0,
                    done: 0,
                    failed: 0,
                });
            }
            add_trials(connection, &mut rows).await?;
            Ok(CampaignRows { rows, all: u64::try_from(all).unwrap_or(0) })
        })
    }

    /// A campaign without its trials.
    ///
    /// # Errors
    /// When there is none, or it is not what gauge writes.
    pub fn head(&self, id: &str) -> Result<StoredHead, HistoryError> {
        let id = self.resolve(id)?;
        self.with(async |connection| {
            let sql = "SELECT status, host, directory, document FROM campaigns WHERE id = $1";
            let row = sqlx::query(sql).bind(id.clone()).fetch_one(&mut *connection).await?;
            let results = crate::report::from_json(row.try_get(3)?).map_err(content)?;
            Ok(StoredHead {
                id: id.clone(),
                status: row.try_get(0)?,
                host: row.try_get(1)?,
                directory: row.try_get(2)?,
                results,
            })
        })
    }
}

/// Adds what the trials of these campaigns say.
async fn add_trials(connection: &mut sqlx::AnyConnection, rows: &mut [CampaignRow]) -> Outcome<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let places: Vec<String> = (1..=rows.len()).map(|place| format!("${place}")).collect();
    let sql = format!(
        "SELECT campaign_id, api, status, COUNT(*) FROM test_runs WHERE campaign_id IN ({}) GROUP BY campaign_id, api, status ORDER BY campaign_id, api",
        places.join(", ")
    );
    let mut query = sqlx::query(AssertSqlSafe(sql)).persistent(false);
    for row in rows.iter() {
        query = query.bind(row.id.clone());
    }
    let mut by_id: BTreeMap<String, &mut CampaignRow> = rows.iter_mut().map(|row| (row.id.clone(), row)).collect();
    for counted in query.fetch_all(connection).await? {
        let (id, api, status): (String, String, String) =
            (counted.try_get(0)?, counted.try_get(1)?, counted.try_get(2)?);
        let count = u32::try_from(counted.try_get::<i64, _>(3)?).unwrap_or(0);
        let Some(row) = by_id.get_mut(&id) else { continue };
        if row.apis.last() != Some(&api) {
            row.apis.push(api);
        }
        row.runs += count;
        match status.as_str() {
            "done" => row.done += count,
            "failed" => row.failed += count,
            _ => {}
        }
    }
    Ok(())
}
