//! What is read: campaigns as they were stored, and lists over all of them.

use sqlx::Row;
use sqlx::any::AnyRow;

use super::{History, HistoryError, Outcome, content};
use crate::report::in_order_of_trials;
use crate::results::{Results, Trial};
use crate::stats;
use crate::verdict::needed;
use crate::verdict::words::{number, percent, size, time};

/// The figures of `performance_metrics` that lists and trends have, by their columns.
pub const STORED: &[&str] = &[
    "throughput",
    "mean_ms",
    "min_ms",
    "max_ms",
    "p50_ms",
    "p90_ms",
    "p95_ms",
    "p99_ms",
    "error_rate",
    "cpu_us_per_request",
    "memory_bytes",
];

/// [`STORED`], of one test run, or the medians of several.
pub type Figures = [Option<f64>; STORED.len()];

/// The column of a figure: `p99` is short for `p99_ms`.
pub fn stored(name: &str) -> Option<usize> {
    let name = name.replace('-', "_");
    STORED.iter().position(|column| *column == name || column.strip_suffix("_ms") == Some(&name))
}

/// A figure in words.
pub fn figure_words(column: usize, figure: Option<f64>) -> String {
    let Some(figure) = figure else { return "-".to_owned() };
    match STORED.get(column).copied().unwrap_or_default() {
        "throughput" => format!("{}/s", number(figure)),
        "error_rate" => percent(figure),
        "cpu_us_per_request" => time(figure / 1e3),
        "memory_bytes" => size(figure),
        _ => time(figure),
    }
}

/// Which test runs; what is left out is not looked at.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// One campaign.
    pub campaign: Option<String>,
    /// System.
    pub api: Option<String>,
    /// Workload.
    pub workload: Option<String>,
    /// Load by name: `full`.
    pub mode: Option<String>,
    /// Payload.
    pub payload: Option<String>,
    /// Most groups, the newest campaigns first.
    pub limit: Option<usize>,
}

/// The test runs of one system under one workload in one campaign.
#[derive(Debug, Clone)]
pub struct Group {
    /// Id of the campaign.
    pub campaign: String,
    /// Its name.
    pub name: String,
    /// When it began.
    pub started_unix_ms: u64,
    /// The machine.
    pub host: String,
    /// Version of gauge.
    pub gauge: String,
    /// System.
    pub api: String,
    /// Workload.
    pub workload: String,
    /// Load by name, `-` for any other.
    pub mode: String,
    /// Payload.
    pub payload: Option<String>,
    /// Protocol.
    pub protocol: Option<String>,
    /// State of the campaign while it runs and when it was aborted; else that of the test runs, where they have one in common.
    pub status: String,
    /// How many test runs.
    pub runs: u32,
    /// How many of them are done.
    pub done: u32,
    /// Medians over those that are done.
    pub figures: Figures,
    all: Vec<Figures>,
}

/// A campaign as it is listed.
#[derive(Debug, Clone)]
pub struct StoredCampaign {
    /// Its id.
    pub id: String,
    /// running, done, aborted.
    pub status: String,
    /// Where its files are.
    pub host: String,
    /// See `host`.
    pub directory: String,
    /// Itself.
    pub results: Results,
}

/// The test runs of an API.
#[derive(Debug, Clone)]
pub struct Overview {
    /// Which.
    pub api: String,
    /// Campaigns.
    pub campaigns: i64,
    /// Test runs.
    pub runs: i64,
    /// Those that are done.
    pub done: i64,
    /// Those that failed.
    pub failed: i64,
    /// Those that were aborted.
    pub aborted: i64,
    /// When the first and the last campaign began.
    pub first_unix_ms: i64,
    /// See `first_unix_ms`.
    pub last_unix_ms: i64,
}

impl History {
    /// Test runs, grouped, the newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn list(&self, filter: &Filter) -> Result<Vec<Group>, HistoryError> {
        let limit = filter.limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(i64::MAX);
        // Each of the newest campaigns has a group at least, so no more of them are needed.
        const SQL: &str = "SELECT c.id, c.name, c.started_unix_ms, c.host, c.gauge_version, c.status, COALESCE(t.api, '-'), COALESCE(t.workload, '-'), t.payload, t.protocol, t.status, \
             m.throughput, m.mean_ms, m.min_ms, m.max_ms, m.p50_ms, m.p90_ms, m.p95_ms, m.p99_ms, m.error_rate, m.cpu_us_per_request, m.memory_bytes, m.samples, COALESCE(t.mode, '-') \
             FROM campaigns c LEFT JOIN test_runs t ON t.campaign_id = c.id LEFT JOIN performance_metrics m ON m.run_id = t.id \
             WHERE c.id IN (SELECT n.id FROM campaigns n WHERE ($1 IS NULL OR n.id = $1) AND ($2 IS NULL AND $3 IS NULL AND $4 IS NULL AND $6 IS NULL OR EXISTS (SELECT 1 FROM test_runs r \
             WHERE r.campaign_id = n.id AND ($2 IS NULL OR r.api = $2) AND ($3 IS NULL OR r.workload = $3) AND ($4 IS NULL OR r.payload = $4) \
             AND ($6 IS NULL OR r.mode = $6))) \
             ORDER BY n.started_unix_ms DESC, n.id LIMIT $5) \
             AND ($2 IS NULL OR t.api = $2) AND ($3 IS NULL OR t.workload = $3) AND ($4 IS NULL OR t.payload = $4) \
             AND ($6 IS NULL OR t.mode = $6) \
             ORDER BY c.started_unix_ms DESC, c.id, t.workload, t.mode, t.payload, t.api, t.round";
        let rows = self.with(async |connection| {
            let query = sqlx::query(SQL).bind(filter.campaign.clone()).bind(filter.api.clone());
            let query =
                query.bind(filter.workload.clone()).bind(filter.payload.clone()).bind(limit).bind(filter.mode.clone());
            let rows = query.fetch_all(connection).await?;
            group(&rows)
        });
        let mut groups = rows?;
        groups.truncate(filter.limit.unwrap_or(usize::MAX));
        Ok(groups)
    }

    /// The whole id of a campaign of which the first characters are known; those of a test run say its campaign.
    ///
    /// # Errors
    /// When none or several begin so.
    pub fn resolve(&self, start: &str) -> Result<String, HistoryError> {
        let start = start.split('/').next().unwrap_or_default();
        let plain = !start.is_empty() && start.chars().all(|c| c.is_ascii_hexdigit());
        let found = self.with(async |connection| {
            let query = sqlx::query("SELECT id FROM campaigns WHERE id LIKE $1 ORDER BY started_unix_ms DESC LIMIT 2");
            let rows = query.bind(format!("{}%", start.to_ascii_lowercase())).fetch_all(connection).await?;
            rows.iter().map(|row| row.try_get(0)).collect::<Outcome<Vec<String>>>()
        })?;
        match found.as_slice() {
            [one] if plain => Ok(one.clone()),
            [_, _] if plain => {
                Err(self.not_found(format!("several campaigns begin with `{start}`: write more of the id")))
            }
            _ => Err(self.not_found(format!("no campaign `{start}`; `gauge list` shows those that there are"))),
        }
    }

    /// A campaign with all of its trials, as it was measured.
    ///
    /// # Errors
    /// When there is none, or it is not what gauge writes.
    pub fn load(&self, id: &str) -> Result<StoredCampaign, HistoryError> {
        let id = self.resolve(id)?;
        self.with(async |connection| {
            let sql = "SELECT status, host, directory, document FROM campaigns WHERE id = $1";
            let campaign = sqlx::query(sql).bind(id.clone()).fetch_one(&mut *connection).await?;
            let document: String = campaign.try_get(3)?;
            let mut results = crate::report::from_json(&document).map_err(content)?;
            let sql = "SELECT document FROM test_runs WHERE campaign_id = $1 AND document IS NOT NULL";
            for row in sqlx::query(sql).bind(id.clone()).fetch_all(&mut *connection).await? {
                let trial: Trial = serde_json::from_str(row.try_get(0)?).map_err(content)?;
                results.trials.push(trial);
            }
            results.trials.sort_by(in_order_of_trials);
            Ok(StoredCampaign {
                id: id.clone(),
                status: campaign.try_get(0)?,
                host: campaign.try_get(1)?,
                directory: campaign.try_get(2)?,
                results,
            })
        })
    }

    /// How much there is of each API.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn overview(&self) -> Result<Vec<Overview>, HistoryError> {
        const SQL: &str = "SELECT t.api, COUNT(DISTINCT c.id), COUNT(*), SUM(CASE WHEN t.status = 'done' THEN 1 ELSE 0 END), \
             SUM(CASE WHEN t.status = 'failed' THEN 1 ELSE 0 END), SUM(CASE WHEN t.status = 'aborted' THEN 1 ELSE 0 END), \
             MIN(c.started_unix_ms), MAX(c.started_unix_ms) FROM campaigns c JOIN test_runs t ON t.campaign_id = c.id GROUP BY t.api ORDER BY t.api";
        self.with(async |connection| {
            let rows = sqlx::query(SQL).fetch_all(connection).await?;
            let of = |row: &AnyRow| {
                Ok(Overview {
                    api: row.try_get(0)?,
                    campaigns: row.try_get(1)?,
                    runs: row.try_get(2)?,
                    done: row.try_get(3)?,
                    failed: row.try_get(4)?,
                    aborted: row.try_get(5)?,
                    first_unix_ms: row.try_get(6)?,
                    last_unix_ms: row.try_get(7)?,
                })
            };
            rows.iter().map(of).collect()
        })
    }
}

/// Rows that follow each other as one group each, with medians.
fn group(rows: &[AnyRow]) -> Outcome<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    for row in rows {
        let (campaign, api, workload): (String, String, String) = (row.try_get(0)?, row.try_get(6)?, row.try_get(7)?);
        let payload: Option<String> = row.try_get(8)?;
        let mode: String = row.try_get(12 + STORED.len())?;
        let same = |group: &Group| {
            (&group.campaign, &group.api, &group.workload, &group.mode, &group.payload)
                == (&campaign, &api, &workload, &mode, &payload)
        };
        if !groups.last().is_some_and(same) {
            groups.push(Group {
                name: row.try_get(1)?,
                started_unix_ms: u64::try_from(row.try_get::<i64, _>(2)?).unwrap_or(0),
                host: row.try_get(3)?,
                gauge: row.try_get(4)?,
                status: row.try_get(5)?,
                protocol: row.try_get(9)?,
                runs: 0,
                done: 0,
                figures: Figures::default(),
                all: Vec::new(),
                campaign,
                api,
                workload,
                mode,
                payload,
            });
        }
        // One was pushed if there was none.
        let Some(group) = groups.last_mut() else { continue };
        // A campaign of the profile `life`, or one that was stopped early, has none.
        let Some(status): Option<String> = row.try_get(10)? else { continue };
        group.runs += 1;
        if group.protocol.is_none() {
            group.protocol = row.try_get(9)?;
        }
        if status == "done" {
            group.done += 1;
            let mut figures = Figures::default();
            for (index, figure) in figures.iter_mut().enumerate() {
                *figure = row.try_get(11 + index)?;
            }
            let samples =
                row.try_get::<Option<i64>, _>(11 + STORED.len())?.and_then(|samples| u64::try_from(samples).ok());
            for (index, column) in STORED.iter().enumerate() {
                // A percentile of too few responses is none.
                let percentile = column.strip_prefix('p').and_then(|rest| rest.strip_suffix("_ms")?.parse().ok());
                if percentile.is_some_and(|percentile| samples.is_none_or(|samples| samples < needed(percentile))) {
                    figures[index] = None;
                }
            }
            group.all.push(figures);
        } else if group.status == "done" {
            // Of a campaign that ran to its end: what became of its trials.
            group.status = status;
        }
    }
    for group in &mut groups {
        for (index, figure) in group.figures.iter_mut().enumerate() {
            let values: Vec<f64> = group.all.iter().filter_map(|figures| figures[index]).collect();
            *figure = stats::median(&values);
        }
        group.all.clear();
    }
    Ok(groups)
}
