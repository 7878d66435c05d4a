//! What is written: campaigns and trials as they are measured, and that they were aborted.

use std::path::Path;

use sqlx::query::Query;
use sqlx::{Any, AnyConnection, AssertSqlSafe, Row};

use super::{History, HistoryError, Outcome, content, is_sqlite};
use crate::campaign::id;
use crate::deploy::registry::Program;
use crate::judgement::used_in_phase;
use crate::results::Report;
use crate::results::report::Phase;
use crate::results::{Results, Trial, TrialState, Usage};
use crate::verdict::cpu_s;

const RUNNING: &str = "running";
const DONE: &str = "done";
const ABORTED: &str = "aborted";
const KILLED: &str = "the program that measured it was killed";

/// A value of a column.
enum Value {
    Text(Option<String>),
    Whole(Option<i64>),
    Real(Option<f64>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(Some(text.to_owned()))
    }
}

impl From<Option<String>> for Value {
    fn from(text: Option<String>) -> Self {
        Value::Text(text)
    }
}

impl From<Option<u64>> for Value {
    fn from(number: Option<u64>) -> Self {
        Value::Whole(number.and_then(|number| i64::try_from(number).ok()))
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Some(number).into()
    }
}

impl From<Option<f64>> for Value {
    fn from(number: Option<f64>) -> Self {
        Value::Real(number.filter(|number| number.is_finite()))
    }
}

type Named = (&'static str, Value);

/// So many rows go into a statement: databases allow 32,766 values and more.
const ROWS: usize = 500;

/// Inserts rows that all have the same columns.
async fn insert(connection: &mut AnyConnection, table: &str, rows: Vec<Vec<Named>>) -> Outcome<()> {
    let mut rows = rows.into_iter().peekable();
    while let Some(first) = rows.peek() {
        let columns: Vec<&str> = first.iter().map(|(name, _)| *name).collect();
        let some: Vec<Vec<Named>> = rows.by_ref().take(ROWS).collect();
        let places = |row: usize| {
            let numbers = (1..=columns.len()).map(|column| format!("${}", row * columns.len() + column));
            format!("({})", numbers.collect::<Vec<_>>().join(", "))
        };
        let all: Vec<String> = (0..some.len()).map(places).collect();
        let sql = format!("INSERT INTO {table} ({}) VALUES {}", columns.join(", "), all.join(", "));
        // Tables and columns are those of this file; whatever was measured is bound.
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for (_, value) in some.into_iter().flatten() {
            query = bind(query, value);
        }
        // Not kept prepared: a null is of another type than the number in its place, and PostgreSQL prepares for the first it sees.
        query.persistent(false).execute(&mut *connection).await?;
    }
    Ok(())
}

fn bind<'q>(query: Query<'q, Any, sqlx::any::AnyArguments>, value: Value) -> Query<'q, Any, sqlx::any::AnyArguments> {
    match value {
        Value::Text(text) => query.bind(text),
        Value::Whole(number) => query.bind(number),
        Value::Real(number) => query.bind(number),
    }
}

/// Who writes a campaign, and where its files are.
pub(super) struct Origin<'o> {
    pub(super) directory: &'o Path,
    pub(super) writer: Option<&'o Program>,
}

pub(super) async fn put(transaction: &mut AnyConnection, results: &Results, origin: &Origin<'_>) -> Outcome<()> {
    let id = id(results);
    only_writer(&mut *transaction, &id).await?;
    sqlx::query("DELETE FROM campaigns WHERE id = $1").bind(id.clone()).execute(&mut *transaction).await?;
    let json = |value: serde_json::Result<String>| value.map_err(content);
    let status = match (origin.writer, results.ended_unix_ms) {
        (Some(_), _) => RUNNING,
        (None, Some(_)) => DONE,
        (None, None) => ABORTED,
    };
    let writer = origin.writer.map(serde_json::to_string).transpose().map_err(content)?;
    let document = Results { trials: Vec::new(), ..results.clone() };
    let campaign: Vec<Named> = vec![
        ("id", id.as_str().into()),
        ("name", results.name.as_str().into()),
        ("status", status.into()),
        ("started_unix_ms", results.started_unix_ms.into()),
        ("ended_unix_ms", results.ended_unix_ms.into()),
        ("gauge_version", results.gauge.as_str().into()),
        ("host", host().as_str().into()),
        ("directory", origin.directory.to_string_lossy().as_ref().into()),
        ("writer", writer.into()),
        ("environment", json(serde_json::to_string(&results.environment))?.as_str().into()),
        ("document", json(serde_json::to_string(&document))?.as_str().into()),
    ];
    insert(transaction, "campaigns", vec![campaign]).await?;
    for trial in &results.trials {
        put_trial(transaction, &id, trial).await?;
    }
    Ok(())
}

/// Waits for others who write the same campaign. In SQLite nobody else writes.
async fn only_writer(transaction: &mut AnyConnection, campaign: &str) -> Outcome<()> {
    if !is_sqlite(transaction) {
        let lock = sqlx::query("SELECT 1 FROM (SELECT pg_advisory_xact_lock(hashtext($1))) AS locked");
        lock.bind(campaign.to_owned()).execute(transaction).await?;
    }
    Ok(())
}

pub(super) async fn put_trial(transaction: &mut AnyConnection, campaign: &str, trial: &Trial) -> Outcome<()> {
    let id = format!("{campaign}/{}", trial.id);
    sqlx::query("DELETE FROM test_runs WHERE id = $1").bind(id.clone()).execute(&mut *transaction).await?;
    let status = match trial.state {
        TrialState::Planned | TrialState::Starting | TrialState::Warming | TrialState::Measuring => RUNNING,
        _ => trial.state.name(),
    };
    let document = if status == RUNNING { None } else { Some(serde_json::to_string(trial).map_err(content)?) };
    let report = trial.report.as_ref();
    let run: Vec<Named> = vec![
        ("id", id.as_str().into()),
        ("campaign_id", campaign.into()),
        ("api", trial.system.as_str().into()),
        ("workload", trial.workload.as_str().into()),
        ("mode", trial.mode.as_deref().unwrap_or("-").into()),
        ("payload", trial.payload.clone().into()),
        ("protocol", report.and_then(|report| report.generator.protocol.clone()).into()),
        ("round", u64::from(trial.round).into()),
        ("status", status.into()),
        ("reason", trial.state.reason().map(str::to_owned).into()),
        ("started_unix_ms", trial.started_unix_ms.into()),
        ("ended_unix_ms", ended(trial).into()),
        ("document", document.into()),
    ];
    insert(transaction, "test_runs", vec![run]).await?;
    insert(transaction, "performance_metrics", performance(&id, trial).into_iter().collect()).await?;
    insert(transaction, "resource_metrics", resources(&id, trial)).await?;
    let system = trial.observed.as_ref().and_then(|observed| observed.system.as_ref());
    let phases = report.map(|report| test_phases(&id, report, system)).unwrap_or_default();
    insert(transaction, "test_phases", phases).await
}

/// The end of its last phase, warm-up and all.
fn ended(trial: &Trial) -> Option<u64> {
    let report = trial.report.as_ref()?;
    let seconds = match report.phases.last() {
        Some(last) => last.start_s + last.total.duration_s?,
        None => report.total.duration_s?,
    };
    Some(report.started_unix_ms.or(trial.started_unix_ms)? + (seconds * 1e3) as u64)
}

fn performance(run: &str, trial: &Trial) -> Option<Vec<Named>> {
    let total = &trial.report.as_ref()?.total;
    let latency = total.latency.clone().unwrap_or_default();
    let system = trial.observed.as_ref().and_then(|observed| observed.system.as_ref());
    let responses = total.requests.responses.filter(|responses| *responses > 0);
    let cpu = system.and_then(cpu_s).zip(responses).map(|(cpu, responses)| cpu * 1e6 / responses as f64);
    let memory = system.and_then(|usage| usage.pss_peak_bytes.or(usage.rss_peak_bytes));
    // As JSON it is a string: base64.
    let histogram = latency.histogram.as_ref().and_then(|histogram| serde_json::to_value(histogram).ok());
    Some(vec![
        ("run_id", run.into()),
        ("duration_s", total.duration_s.into()),
        ("total_requests", total.ended().into()),
        (
            "successful_requests",
            total.ended().zip(total.errors.total).map(|(all, errors)| all - errors.min(all)).into(),
        ),
        ("failed_requests", total.errors.total.into()),
        ("throughput", total.rate.achieved.into()),
        ("samples", latency.count.into()),
        ("mean_ms", latency.mean_ms.into()),
        ("min_ms", latency.min_ms.into()),
        ("max_ms", latency.max_ms.into()),
        ("stdev_ms", latency.stdev_ms.into()),
        ("p50_ms", latency.p50_ms.into()),
        ("p90_ms", latency.p90_ms.into()),
        ("p95_ms", latency.p95_ms.into()),
        ("p99_ms", latency.p99_ms.into()),
        ("error_rate", total.error_rate().into()),
        ("cpu_us_per_request", cpu.into()),
        ("memory_bytes", memory.map(|bytes| bytes as f64).into()),
        ("histogram", histogram.and_then(|text| text.as_str().map(str::to_owned)).into()),
    ])
}

fn resources(run: &str, trial: &Trial) -> Vec<Vec<Named>> {
    let Some(observed) = &trial.observed else { return Vec::new() };
    let parts = [("system", &observed.system), ("upstream", &observed.upstream), ("generator", &observed.generator)];
    let mut rows = Vec::new();
    for (part, usage) in parts.into_iter().filter_map(|(part, usage)| Some((part, usage.as_ref()?))) {
        let mut last = None;
        for sample in
            usage.samples.iter().filter(|sample| last.replace(sample.at_s.to_bits()) != Some(sample.at_s.to_bits()))
        {
            rows.push(vec![
                ("run_id", run.into()),
                ("part", part.into()),
                ("at_s", Some(sample.at_s).into()),
                ("cpu_percent", Some(sample.cpu * 100.0).into()),
                ("memory_bytes", sample.rss_bytes.into()),
                ("pss_bytes", sample.pss_bytes.into()),
                ("context_switches", sample.context_switches.into()),
                ("throttled_s", sample.throttled_s.into()),
            ]);
        }
    }
    rows
}

fn test_phases(run: &str, report: &Report, system: Option<&Usage>) -> Vec<Vec<Named>> {
    let row = |(position, phase): (usize, &Phase)| {
        let total = &phase.total;
        let latency = total.latency.clone().unwrap_or_default();
        let used = used_in_phase(system.filter(|_| phase.measured), report, phase);
        let each = used.and_then(|used| used.per_request(total.ended()?));
        vec![
            ("run_id", run.into()),
            ("position", (position as u64).into()),
            ("name", phase.name.as_str().into()),
            ("target_users", total.concurrency.into()),
            ("duration_s", total.duration_s.into()),
            ("requests", total.ended().into()),
            ("planned_rate", total.rate.requested.into()),
            ("throughput", total.rate.achieved.into()),
            ("failed_requests", total.errors.total.into()),
            ("mean_ms", latency.mean_ms.into()),
            ("p50_ms", latency.p50_ms.into()),
            ("p90_ms", latency.p90_ms.into()),
            ("p95_ms", latency.p95_ms.into()),
            ("p99_ms", latency.p99_ms.into()),
            ("cpu_percent", used.map(|used| used.cpu_percent()).into()),
            ("memory_bytes", used.map(|used| used.memory_bytes).into()),
            ("cpu_percent_per_request", each.map(|(cpu, _)| cpu).into()),
            ("memory_mb_per_request", each.map(|(_, memory)| memory).into()),
        ]
    };
    report.phases.iter().enumerate().map(row).collect()
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Campaigns whose program has ended without saying so. What runs on another machine is left to that machine.
pub(super) async fn killed(connection: &mut AnyConnection) -> Outcome<Vec<String>> {
    let rows = sqlx::query("SELECT id, host, writer FROM campaigns WHERE status = $1").bind(RUNNING);
    let mut killed = Vec::new();
    for row in rows.fetch_all(connection).await? {
        let (id, on, writer): (String, String, Option<String>) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let writer: Option<Program> = writer.and_then(|writer| serde_json::from_str(&writer).ok());
        let ended = |writer: Program| writer.has_ended().unwrap_or_else(|| on == host() && writer.is_of_earlier_boot());
        if writer.is_none_or(ended) {
            killed.push(id);
        }
    }
    Ok(killed)
}

pub(super) async fn mark_aborted(transaction: &mut AnyConnection) -> Outcome<()> {
    // Looked at again, now that nobody else writes.
    for id in killed(&mut *transaction).await? {
        let runs = "UPDATE test_runs SET status = $1, reason = $2 WHERE campaign_id = $3 AND status = $4";
        let runs = sqlx::query(runs).bind(ABORTED).bind(KILLED).bind(id.clone()).bind(RUNNING);
        runs.execute(&mut *transaction).await?;
        let campaign = sqlx::query("UPDATE campaigns SET status = $1, writer = NULL WHERE id = $2 AND status = $3");
        campaign.bind(ABORTED).bind(id).bind(RUNNING).execute(&mut *transaction).await?;
    }
    Ok(())
}

impl History {
    /// Stores a campaign as it is; an earlier state of it is replaced.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub fn put(&self, results: &Results, directory: &Path) -> Result<String, HistoryError> {
        let origin = Origin { directory, writer: None };
        self.transaction(async |transaction| put(transaction, results, &origin).await)?;
        Ok(id(results))
    }
}
