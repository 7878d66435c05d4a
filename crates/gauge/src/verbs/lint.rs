//! `gauge lint`: can these results be believed?

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use gauge::import;
use gauge::judgement::judge;
use gauge::load::units;
use gauge::load::workload::Statuses;
use gauge::results::Planned;
use gauge::results::Report;
use gauge::results::Results;
use gauge::verdict::{self, Context, Verdict};
use serde::Serialize;

use crate::cli::print;

/// Something was found.
const FINDINGS: u8 = 1;
/// A file could not be read.
const UNREADABLE: u8 = 2;

/// What a tool's output does not say can be said here; more is found then.
#[derive(clap::Args)]
pub(crate) struct Lint {
    /// Results: of `gauge load --json`, wrk, hey, ab, k6 (summary JSON), vegeta, oha (JSON), JMeter (JTL, Aggregate Report), or a campaign's results.json.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Users or connections that there were.
    #[arg(short, long, value_name = "N")]
    concurrency: Option<f64>,
    /// Requests per second that the load tool was told to send.
    #[arg(short, long, value_name = "RATE", value_parser = units::rate)]
    rate: Option<f64>,
    /// How long it was planned to run.
    #[arg(short, long, value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,
    /// How many requests were planned.
    #[arg(short = 'n', long, value_name = "N")]
    requests: Option<u64>,
    /// How long a user thinks between a response and the next request (the mean).
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    think: Option<Duration>,
    /// Statuses that are no error, such as `2xx,429`.
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    expect: Vec<Statuses>,
    /// Results of the same load without a gateway.
    #[arg(long, value_name = "FILE")]
    direct: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A file's outcome.
#[derive(Serialize)]
struct Outcome {
    file: String,
    /// Why it could not be read.
    error: Option<String>,
    verdicts: Vec<Verdict>,
}

/// What a file holds.
enum Content {
    Report(Box<Report>),
    Campaign(Box<Results>),
}

fn read(path: &Path) -> Result<Content, String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| "not valid UTF-8".to_owned())?;
    let object: Option<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(&text).ok();
    let has = |object: &serde_json::Map<String, serde_json::Value>, key: &str| object.contains_key(key);
    if object.is_some_and(|object| has(&object, "systems") && (has(&object, "trials") || has(&object, "runs"))) {
        return gauge::report::from_json(&text).map(|results| Content::Campaign(Box::new(results)));
    }
    import::read(&text).map(|report| Content::Report(Box::new(report))).map_err(|error| error.to_string())
}

impl Lint {
    /// Looks at every file and says what is wrong.
    pub(crate) fn run(self) -> ExitCode {
        let direct = match self.direct.as_deref().map(|path| (path, read(path))) {
            None => None,
            Some((_, Ok(Content::Report(report)))) => Some(report),
            Some((path, Ok(Content::Campaign(_)))) => {
                eprintln!(
                    "gauge: {}: a campaign has its own baseline; --direct takes the results of one load",
                    path.display()
                );
                return ExitCode::from(UNREADABLE);
            }
            Some((path, Err(error))) => {
                eprintln!("gauge: {}: {error}", path.display());
                return ExitCode::from(UNREADABLE);
            }
        };
        let outcomes: Vec<Outcome> = self.files.iter().map(|path| self.look(path, direct.as_deref())).collect();
        let mut text = String::new();
        if self.json {
            match serde_json::to_string_pretty(&outcomes) {
                Ok(json) => text = json + "\n",
                Err(error) => eprintln!("gauge: {error}"),
            }
        }
        for outcome in &outcomes {
            if let Some(error) = &outcome.error {
                eprintln!("gauge: {}: {error}", outcome.file);
            }
            if !self.json {
                for verdict in &outcome.verdicts {
                    text.push_str(&format!("{}: {}: {}\n", outcome.file, verdict.name, verdict.evidence));
                }
            }
        }
        let printed = print(&text);
        if outcomes.iter().any(|outcome| outcome.error.is_some()) {
            ExitCode::from(UNREADABLE)
        } else if outcomes.iter().any(|outcome| !outcome.verdicts.is_empty()) {
            ExitCode::from(FINDINGS)
        } else {
            printed
        }
    }

    fn look(&self, path: &Path, direct: Option<&Report>) -> Outcome {
        let file = path.display().to_string();
        match read(path) {
            Err(error) => Outcome { file, error: Some(error), verdicts: Vec::new() },
            Ok(Content::Campaign(results)) => Outcome { file, error: None, verdicts: of_campaign(&results) },
            Ok(Content::Report(mut report)) => {
                self.expect(&mut report);
                let planned = Planned {
                    allowed_rate: None,
                    concurrency: self.concurrency,
                    rate: self.rate,
                    think_s: self.think.map(|think| think.as_secs_f64()),
                    duration_s: self.duration.map(|duration| duration.as_secs_f64()),
                    requests: self.requests,
                };
                let context = Context { planned, direct: direct.map(|report| &report.total), ..Context::default() };
                Outcome { file, error: None, verdicts: verdict::look(&report, &context) }
            }
        }
    }

    /// Counts again which statuses are errors, where the results say how many responses had which.
    fn expect(&self, report: &mut Report) {
        let total = &mut report.total;
        let Some(statuses) = total.statuses.as_ref().filter(|_| !self.expect.is_empty()) else {
            return;
        };
        let expected = |status: u16| self.expect.iter().any(|statuses| statuses.contains(status));
        let unexpected: u64 = statuses.iter().filter(|(status, _)| !expected(**status)).map(|(_, count)| count).sum();
        let without_response = total.errors.total.map(|all| all - total.errors.status.unwrap_or(0).min(all));
        total.errors.total = without_response.map(|others| others + unexpected);
        total.errors.status = Some(unexpected);
    }
}

/// What is wrong with a campaign, run by run and row by row.
fn of_campaign(results: &Results) -> Vec<Verdict> {
    let judgement = judge(results);
    let runs = results.trials.iter().zip(&judgement.trials).flat_map(|(run, judged)| {
        let place = format!("{} under {}, round {}", run.system, run.workload, run.round);
        judged.verdicts.iter().map(move |verdict| (place.clone(), verdict))
    });
    let rows = judgement.rows.iter().flat_map(|row| {
        let place = format!("{} under {}, all rounds", row.system, row.workload);
        row.verdicts.iter().map(move |verdict| (place.clone(), verdict))
    });
    runs.chain(rows)
        .map(|(place, verdict)| Verdict { name: verdict.name, evidence: format!("{place}: {}", verdict.evidence) })
        .collect()
}
