//! `gauge run`

mod progress;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use gauge::campaign::events::{self, Events};
use gauge::campaign::metrics::RunMetrics;
use gauge::campaign::{self, CampaignError, Options};
use gauge::deploy::{DeployError, registry};
use gauge::history::{History, Recorder, Target, TargetError};
use gauge::judgement;
use gauge::machines::{self, Machines, MachinesError};
use gauge::plan::{Deploy, Plan, PlanError};
use gauge::report;
use gauge::results::{Judgement, Results, SystemState, TrialState};

use super::history::StoreOption;
use crate::cli::{BAD_INPUT, INTERRUPTED, SYSTEM, THRESHOLD, UNAVAILABLE, UNREADABLE, UNWRITABLE, print};

const EXAMPLES: &str = "\
Examples:
  gauge run examples/evaluations/quickstart.yaml           two minutes: whatever of Weir, nginx and HAProxy is here
  gauge run evaluation.yaml --quick                        a first look: fewer and shorter rounds
  gauge run evaluation.yaml --out runs/today               where results go

A run that was stopped or killed goes on where it was when the same command is given again; --resume makes sure that it does not begin, --fresh begins
anew. The directory then holds
report.html, report.md, results.json, results.csv, samples.csv and raw/.";

/// Runs an evaluation: systems beside each other, round by round, and a report.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    /// The evaluation (YAML)
    file: PathBuf,
    /// Directory for the results [default: gauge-NAME, in this directory]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A first look: at most three rounds, two seconds each
    #[arg(long)]
    quick: bool,
    /// Begin anew, and lose what an earlier run left in the directory
    #[arg(long)]
    fresh: bool,
    /// Only go on with what an earlier run left in the directory; refuse where there is nothing
    #[arg(long, conflicts_with = "fresh")]
    resume: bool,
    /// Read the evaluation and say what would be run; start nothing
    #[arg(long)]
    check: bool,
    /// File for events while it runs, a line of JSON each, or `none` [default: events.jsonl in the directory of the results]
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Serve metrics for Prometheus at /metrics of this address while it runs; a port alone is one of the loopback interface, and port 0 a free one
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = metrics_address)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    store: StoreOption,
}

impl Run {
    pub(crate) fn run(self) -> ExitCode {
        for name in registry::clean_up() {
            eprintln!("gauge: ended `{name}`, which a killed run had left running");
        }
        let plan = match Plan::read(&self.file) {
            Ok(plan) => plan,
            Err(error) => {
                eprintln!("gauge: {error}");
                return ExitCode::from(match error {
                    PlanError::Unreadable { .. } => UNREADABLE,
                    PlanError::Wrong { .. } => BAD_INPUT,
                });
            }
        };
        let plan = if self.quick { plan.quick() } else { plan };
        if matches!(plan.deploy, Deploy::Terraform(_)) {
            // What cannot be listed is no reason not to run; `gauge machines` says it.
            for left in machines::left().unwrap_or_default().iter().filter(|left| !left.busy) {
                eprintln!(
                    "gauge: an earlier run has left machines; to destroy them: gauge machines destroy {}",
                    left.name
                );
            }
        }
        if self.check {
            if let Deploy::Terraform(terraform) = &plan.deploy
                && let Err(error) = machines::check(terraform)
            {
                return super::machines::failed(&error);
            }
            return print(&progress::what(&plan));
        }
        let gauge = match std::env::current_exe() {
            Ok(gauge) => gauge,
            Err(error) => {
                eprintln!("gauge: cannot find this program's own file, which it starts as generator: {error}");
                return ExitCode::from(SYSTEM);
            }
        };
        let out = self.out.clone().unwrap_or_else(|| format!("gauge-{}", gauge::plan::file_name(&plan.name)).into());
        if self.resume && !campaign::has_begun(&out) {
            eprintln!(
                "gauge: nothing to resume in {}; leave out --resume to begin, or name another --out",
                out.display()
            );
            return ExitCode::from(BAD_INPUT);
        }
        let options = Options {
            gauge,
            command: self.command(),
            fresh: self.fresh,
            stop: Arc::default(),
            machines: Arc::default(),
        };
        listen(Arc::clone(&options.stop), Arc::clone(&options.machines));
        let recorder = match self.recorder(&out) {
            Ok(recorder) => recorder,
            Err(code) => return code,
        };
        let metrics = match self.serve_metrics() {
            Ok(metrics) => metrics,
            Err(code) => return code,
        };
        let mut shown = progress::Shown::new(&plan, recorder, self.events(&out), metrics);
        let outcome = campaign::run(&plan, &out, &options, &mut shown);
        shown.end();
        // Before the report: they cost money.
        let destroyed = options.machines.end(&mut |line| eprintln!("{line}"));
        let code = self.told(&out, outcome, &shown);
        match destroyed {
            Ok(()) => code,
            Err(error) => super::machines::failed(&error),
        }
    }

    /// Says how it went.
    fn told(&self, out: &Path, outcome: Result<Results, CampaignError>, shown: &progress::Shown) -> ExitCode {
        let unstored = shown.unstored();
        if let Some(why) = unstored {
            eprintln!(
                "gauge: not stored: {why}; nothing is lost: `gauge import {}` stores it from its files",
                out.display()
            );
        }
        match outcome {
            Ok(results) => match report_on(out, &results) {
                // Somebody who names a history wants it there.
                code if code == ExitCode::SUCCESS && unstored.is_some() && self.store.store.is_some() => {
                    ExitCode::from(UNWRITABLE)
                }
                code => code,
            },
            Err(error) => {
                eprintln!("gauge: {error}");
                ExitCode::from(match &error {
                    CampaignError::Stopped => INTERRUPTED,
                    CampaignError::Store(error) if error.is_unwritable() => UNWRITABLE,
                    CampaignError::Store(_) | CampaignError::Model(_) => BAD_INPUT,
                    CampaignError::Deploy(DeployError::File { .. }) => UNWRITABLE,
                    CampaignError::Machines(MachinesError::Module { .. } | MachinesError::NoHome) => BAD_INPUT,
                    CampaignError::Machines(MachinesError::File { .. }) => UNWRITABLE,
                    CampaignError::Deploy(_) | CampaignError::Backend(_) | CampaignError::Machines(_) => UNAVAILABLE,
                })
            }
        }
    }

    /// Opens the history. One that nobody named can be done without, and is said; one that was named is needed before anything is measured.
    fn recorder(&self, out: &Path) -> Result<Option<Recorder>, ExitCode> {
        let target = match Target::find(self.store.store.as_deref()) {
            Ok(target) => target,
            Err(TargetError::NoHome) => {
                eprintln!("gauge: {}; this run is stored in its files only", TargetError::NoHome);
                None
            }
            Err(error) => {
                eprintln!("gauge: {error}");
                return Err(ExitCode::from(BAD_INPUT));
            }
        };
        let Some(target) = target else { return Ok(None) };
        match History::open(&target) {
            Ok(history) => Ok(Some(Recorder::new(history, out))),
            Err(error) if target.requested => Err(super::history::failed(&error)),
            Err(error) => {
                eprintln!("gauge: {error}; this run is stored in its files only, and `gauge import` stores them later");
                Ok(None)
            }
        }
    }

    /// Serves metrics where that was requested; without them nothing is measured.
    fn serve_metrics(&self) -> Result<Option<Arc<RunMetrics>>, ExitCode> {
        let Some(address) = self.metrics else { return Ok(None) };
        match RunMetrics::serve(address) {
            Ok((address, metrics)) => {
                eprintln!("metrics on http://{address}/metrics");
                Ok(Some(metrics))
            }
            Err(error) => {
                eprintln!(
                    "gauge: cannot serve metrics on {address}: {error}; stop the other process, or set --metrics to another port"
                );
                Err(ExitCode::from(SYSTEM))
            }
        }
    }

    fn events(&self, out: &Path) -> Option<Events> {
        match &self.events {
            Some(none) if none.as_os_str() == "none" => None,
            Some(file) => Some(Events::new(file, self.fresh)),
            None => Some(Events::new(&out.join(events::FILE), self.fresh)),
        }
    }

    /// The command line that reproduces it.
    fn command(&self) -> String {
        let mut text = format!("gauge run {}", self.file.display());
        if let Some(out) = &self.out {
            text.push_str(&format!(" --out {}", out.display()));
        }
        if self.quick {
            text.push_str(" --quick");
        }
        text
    }
}

/// `9105` is one of the loopback interface.
fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse::<u16>().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|_| text.parse()).map_err(|_| "expected ADDRESS:PORT or a port".to_owned())
}

/// Findings that are printed; the others are in the reports.
const FINDINGS: usize = 20;

/// Judges, writes the files, and says on standard output where they are and who is first.
fn report_on(out: &Path, results: &Results) -> ExitCode {
    let judgement = judgement::judge(results);
    if let Err(error) = report::write(out, results, &judgement) {
        eprintln!("gauge: {error}");
        return ExitCode::from(UNWRITABLE);
    }
    let printed = print(&summary(out, results, &judgement));
    let any = !results.life.is_empty()
        || results.trials.iter().any(|run| run.state == TrialState::Done)
        || results.searches.iter().any(|search| !search.points.is_empty());
    if !any {
        return ExitCode::FAILURE;
    }
    let failures = judgement::failures(&judgement);
    for line in &failures {
        eprintln!("gauge: fail: {line}");
    }
    if failures.is_empty() { printed } else { ExitCode::from(THRESHOLD) }
}

fn summary(out: &Path, results: &Results, judgement: &Judgement) -> String {
    let mut text = report::headline(judgement) + "\n";
    for place in &judgement.ranking {
        let tied = if place.tied_with.is_empty() {
            String::new()
        } else {
            format!("  tied with {}", place.tied_with.join(", "))
        };
        let score = &place.score;
        let interval = match (score.low, score.high) {
            (Some(low), Some(high)) => format!("  [{low:.1}, {high:.1}]"),
            _ => String::new(),
        };
        let at = if judgement.decision.decided { format!("{:>3}.", place.place) } else { "  - ".to_owned() };
        let rounds = score.rounds;
        text.push_str(&format!("{at} {:<20} {:>7.1}{interval}  n = {rounds}{tied}\n", place.system, score.value));
    }
    if let Some(line) = report::outcome_line(judgement) {
        text.push_str(&format!("{line}\n"));
    }
    for one in &judgement.outcomes {
        text.push_str(&format!("  {:<4} {}\n", one.outcome.name(), one.system));
    }
    if results.life.is_empty() {
        for line in report::finding_lines(results, judgement, FINDINGS) {
            text.push_str(&format!("  {line}\n"));
        }
    }
    for line in report::life_lines(results) {
        text.push_str(&format!("  {line}\n"));
    }
    for system in &results.systems {
        let why = match &system.state {
            SystemState::Ready => continue,
            SystemState::NotHere(hint) => format!("configured, not run here ({hint})"),
            SystemState::NotSupported(why) => format!("not supported: {why}"),
            SystemState::Failed(why) => format!("failed: {}", why.lines().next().unwrap_or_default()),
            SystemState::NotConforming => {
                let differences = system.conformance.iter().flat_map(|conformance| &conformance.differences);
                let list: Vec<String> = differences
                    .take(3)
                    .map(|one| format!("{}: {}: {} instead of {}", one.operation, one.what, one.found, one.expected))
                    .collect();
                format!("{}: {}", judgement.subject.not_conforming(), list.join("; "))
            }
        };
        text.push_str(&format!("  -  {:<20} {why}\n", system.name));
    }
    let failed = results.trials.iter().filter(|run| matches!(run.state, TrialState::Failed(_))).count();
    text.push_str(&format!("{} trials", results.trials.len()));
    if failed > 0 {
        text.push_str(&format!(", {failed} of them failed"));
    }
    text.push_str(&format!("; report: {}\n", out.join("report.html").display()));
    text
}

/// The first SIGINT, SIGTERM or SIGHUP ends the campaign in order; the second one kills what runs and ends the program, which says which machines it leaves.
fn listen(stop: Arc<AtomicBool>, machines: Arc<Machines>) {
    use tokio::signal::unix::{SignalKind, signal};
    let follow = async move {
        let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) =
            (signal(SignalKind::interrupt()), signal(SignalKind::terminate()), signal(SignalKind::hangup()))
        else {
            return;
        };
        tokio::select! { _ = interrupt.recv() => {} _ = terminate.recv() => {} _ = hangup.recv() => {} }
        stop.store(true, Ordering::Relaxed);
        eprintln!("gauge: stopping; once more to stop at once");
        tokio::select! { _ = interrupt.recv() => {} _ = terminate.recv() => {} _ = hangup.recv() => {} }
        registry::end_own();
        if let Some(left) = machines.abandoned() {
            eprintln!("gauge: {left}");
        }
        std::process::exit(i32::from(INTERRUPTED));
    };
    std::thread::spawn(move || {
        if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() {
            runtime.block_on(follow);
        }
    });
}
