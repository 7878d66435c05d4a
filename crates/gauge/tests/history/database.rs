//! Databases of the tests, what is in them, and campaigns to put there.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use gauge::history::{History, Target};
use gauge::report::read_directory;
use gauge::results::Results;
use sqlx::{Connection, Row};
use tempfile::TempDir;
use testkit::Postgres;

/// A database of a test's own.
pub(crate) struct Database {
    folder: TempDir,
    /// For `--store`.
    pub(crate) store: String,
}

fn server() -> &'static Postgres {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    SERVER.get_or_init(Postgres::start)
}

impl Database {
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // A name that a URL must not take for its own.
        let store = folder.path().join("what ever?#%41.db").to_string_lossy().into_owned();
        Database { folder, store }
    }

    pub(crate) fn postgres(name: &str) -> Self {
        Database::at(server().create_database(name))
    }

    /// Wherever this says.
    pub(crate) fn at(store: impl Into<String>) -> Self {
        Database { folder: tempfile::tempdir().expect("a folder"), store: store.into() }
    }

    /// One of each kind.
    pub(crate) fn both(name: &str) -> [Self; 2] {
        [Self::sqlite(), Self::postgres(name)]
    }

    pub(crate) fn open(&self) -> History {
        let target = Target::find(Some(&self.store)).expect("a store").expect("not none");
        History::open(&target).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gauge"));
        command.args(arguments).args(["--store", &self.store]).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// `gauge ARGUMENTS --store STORE`: exit code and both outputs.
    pub(crate) fn gauge(&self, arguments: &[&str]) -> (i32, String) {
        said(&self.command(arguments).output().expect("gauge starts"))
    }

    /// The rows of a query, columns apart by `|`.
    pub(crate) fn query(&self, sql: &str) -> Vec<String> {
        sqlx::any::install_default_drivers();
        let url = match self.store.contains("://") {
            true => self.store.clone(),
            false => format!("sqlite://{}", self.store.replace('%', "%25").replace('?', "%3F").replace('#', "%23")),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut connection = sqlx::AnyConnection::connect(&url).await.expect("a connection");
            let query = sqlx::query(sqlx::AssertSqlSafe(sql.to_owned()));
            let rows = query.fetch_all(&mut connection).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            connection.close().await.expect("closed");
            let cell = |row: &sqlx::any::AnyRow, column: usize| {
                let text = row.try_get::<Option<String>, _>(column).ok().flatten();
                let whole = || row.try_get::<Option<i64>, _>(column).ok().flatten().map(|number| number.to_string());
                let real = || row.try_get::<Option<f64>, _>(column).ok().flatten().map(|number| number.to_string());
                text.or_else(whole).or_else(real).unwrap_or_default()
            };
            let line = |row: &sqlx::any::AnyRow| (0..row.len()).map(|column| cell(row, column)).collect::<Vec<_>>();
            rows.iter().map(|row| line(row).join("|")).collect()
        })
    }
}

pub(crate) fn said(output: &Output) -> (i32, String) {
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

/// A campaign that is committed with its raw data: 5 systems and a control, 8 rounds.
pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/runs/2026-11-22-vm/congestion/cubic")
}

pub(crate) fn campaign() -> Results {
    static READ: OnceLock<Results> = OnceLock::new();
    READ.get_or_init(|| read_directory(&directory()).unwrap_or_else(|error| panic!("{error}"))).clone()
}

/// The same so many days later.
pub(crate) fn later(mut results: Results, days: i64) -> Results {
    let ms = days * 86_400_000;
    results.started_unix_ms = results.started_unix_ms.saturating_add_signed(ms);
    for time in results.trials.iter_mut().map(|trial| &mut trial.started_unix_ms).chain([&mut results.ended_unix_ms]) {
        *time = time.map(|time| time.saturating_add_signed(ms));
    }
    results
}

/// Makes a system slower and dearer.
pub(crate) fn slower(mut results: Results, system: &str, factor: f64) -> Results {
    for trial in results.trials.iter_mut().filter(|trial| trial.system == system) {
        let total = &mut trial.report.as_mut().expect("measured").total;
        total.rate.achieved = total.rate.achieved.map(|rate| rate / factor);
        let latency = total.latency.as_mut().expect("measured");
        for figure in [
            &mut latency.mean_ms,
            &mut latency.min_ms,
            &mut latency.max_ms,
            &mut latency.p50_ms,
            &mut latency.p90_ms,
            &mut latency.p95_ms,
            &mut latency.p99_ms,
        ] {
            *figure = figure.map(|ms| ms * factor);
        }
        let observed = trial.observed.as_mut().expect("observed");
        // What is slow in the baseline is the upstream.
        if let Some(usage) = observed.system.as_mut().or(observed.upstream.as_mut()) {
            usage.user_s = usage.user_s.map(|seconds| seconds * factor);
            usage.system_s = usage.system_s.map(|seconds| seconds * factor);
        }
    }
    results
}

/// A little smaller, for tests that store many: one round.
pub(crate) fn small(mut results: Results) -> Results {
    results.trials.retain(|trial| trial.round == 1);
    results
}
