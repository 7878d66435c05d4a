//! How a campaign's progress is shown: a bar on a terminal, a line for each run elsewhere.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gauge::campaign;
use gauge::campaign::events::Events;
use gauge::campaign::metrics::RunMetrics;
use gauge::campaign::progress::{Moment, Progress};
use gauge::history::Recorder;
use gauge::plan::{Plan, compared};
use gauge::results::{Results, Trial, TrialState};
use indicatif::{ProgressBar, ProgressStyle};

/// What would be run, in a few lines.
pub(super) fn what(plan: &Plan) -> String {
    let systems: Vec<&str> = plan.systems.iter().map(|system| system.name.as_str()).collect();
    let workloads: Vec<String> =
        plan.workloads.iter().map(|workload| format!("  {} ({})", workload.name, workload.generator.name())).collect();
    format!(
        "{}: {} rounds, {} systems: {}\n{} workloads:\n{}\n",
        plan.name,
        plan.repeats,
        systems.len(),
        systems.join(", "),
        workloads.len(),
        workloads.join("\n")
    )
}

/// Progress on standard error.
pub(super) struct Shown {
    bar: Option<ProgressBar>,
    begun: Instant,
    runs: usize,
    /// Turns done before, and now.
    before: usize,
    done: usize,
    recorder: Option<Recorder>,
    events: Option<Events>,
    metrics: Option<Arc<RunMetrics>>,
    /// Why the history does not have it all.
    unstored: Option<String>,
}

impl Shown {
    pub(super) fn new(
        plan: &Plan,
        recorder: Option<Recorder>,
        events: Option<Events>,
        metrics: Option<Arc<RunMetrics>>,
    ) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        let compared = compared(&plan.systems).count();
        let what = plan.subject().many();
        let shown = Shown {
            bar,
            begun: Instant::now(),
            runs: 0,
            before: 0,
            done: 0,
            recorder,
            events,
            metrics,
            unstored: None,
        };
        shown.say(&format!("{}: {compared} {what}, {} rounds", plan.name, plan.repeats));
        shown
    }

    /// What is done now.
    fn step(&self, text: String) {
        match &self.bar {
            Some(bar) => bar.set_message(text),
            None => self.say(&text),
        }
    }

    /// A line that stays.
    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Why the history does not have what was measured, if so.
    pub(super) fn unstored(&self) -> Option<&str> {
        self.unstored.as_deref()
    }

    /// Tells the history; the first thing that goes wrong is said once.
    fn record(&mut self, what: impl FnOnce(&mut Recorder)) {
        let Some(recorder) = &mut self.recorder else { return };
        let before = recorder.failed().is_some();
        what(recorder);
        if let Some(error) = recorder.failed().filter(|_| !before) {
            let text =
                format!("gauge: {error}; the result files are complete; at the end Gauge tries again to store the run");
            self.say(&text);
        }
    }

    /// Writes an event; the first one that cannot be written ends the stream, not the campaign.
    fn event(&mut self, what: impl FnOnce(&mut Events) -> std::io::Result<()>) {
        let Some(events) = &mut self.events else { return };
        if let Err(error) = what(events) {
            let text = format!("gauge: {}: {error}; no more events are written there", events.file().display());
            self.events = None;
            self.say(&text);
        }
    }

    /// Tells whoever scrapes.
    fn metric(&self, what: impl FnOnce(&RunMetrics)) {
        if let Some(metrics) = &self.metrics {
            what(metrics);
        }
    }

    /// As the turns so far took; nothing before there was one.
    fn left(&self) -> Option<Duration> {
        let now = self.done.checked_sub(self.before).filter(|now| *now > 0)?;
        let left = self.runs.saturating_sub(self.done) as f64;
        Some(Duration::from_secs_f64(self.begun.elapsed().as_secs_f64() / now as f64 * left))
    }

    fn with_time(&self, text: &str) -> String {
        match self.left() {
            Some(left) => format!("{text} (about {} left)", words(left)),
            None => text.to_owned(),
        }
    }
}

fn words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=89 => format!("{seconds} s"),
        seconds @ 90..=5399 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

impl Progress for Shown {
    fn begun(&mut self, results: &Results) {
        self.metric(|metrics| metrics.begun(results));
        self.event(|events| events.begun(results, &campaign::id(results)));
        self.record(|recorder| recorder.begin(results));
    }

    fn ended(&mut self, results: &Results) {
        if let Some(recorder) = self.recorder.take() {
            match recorder.end(results) {
                Ok((store, id)) => self.say(&format!("stored as {id} in {store}")),
                Err(error) => self.unstored = Some(error.to_string()),
            }
        }
        self.event(|events| events.ended(results));
        self.metric(RunMetrics::ended);
    }

    fn planned(&mut self, runs: usize, done: usize) {
        self.event(|events| events.planned(runs, done));
        self.metric(|metrics| metrics.planned(runs, done));
        (self.runs, self.before, self.done, self.begun) = (runs, done, done, Instant::now());
        if let Some(bar) = &self.bar {
            bar.set_length(runs as u64);
            bar.set_position(done as u64);
        }
        if done > 0 {
            self.say(&format!("continuing: {done} of {runs} system runs are done"));
        }
    }

    fn building(&mut self, command: &str) {
        self.event(|events| events.step("building", command));
        match &self.bar {
            Some(bar) => bar.set_message(command.to_owned()),
            None => self.say(command),
        }
    }

    fn machines(&mut self, text: &str) {
        self.event(|events| events.step("machines", text));
        self.say(text);
    }

    fn warning(&mut self, text: &str) {
        self.event(|events| events.step("warning", text));
        self.say(&format!("gauge: {text}"));
    }

    fn checking(&mut self, system: &str) {
        self.event(|events| events.step("checking", system));
        self.step(format!("checking conformance: {system}"));
    }

    fn scenario(&mut self, system: &str, scenario: &str, round: u32) {
        self.event(|events| events.step("scenario", &format!("round {round}, {system}: {scenario}")));
        self.step(format!("round {round}, {system}: {scenario}"));
    }

    fn state(&mut self, run: &Trial) {
        self.event(|events| events.trial(run));
        self.metric(|metrics| metrics.trial(run));
        self.record(|recorder| recorder.trial(run));
        let place = format!("round {}, {}, {}", run.round, run.system, run.workload);
        match &run.state {
            TrialState::Done => {
                if self.bar.is_none() {
                    let total = run.report.as_ref().map(|report| &report.total);
                    let rate = total.and_then(|total| total.rate.achieved);
                    let p50 = total.and_then(|total| total.latency.as_ref()?.p50_ms);
                    let figures = match (rate, p50) {
                        (Some(rate), Some(p50)) => format!("{rate:.0}/s, p50 {p50:.2} ms"),
                        _ => "done".to_owned(),
                    };
                    self.say(&self.with_time(&format!("{place}: {figures}")));
                }
            }
            TrialState::Failed(why) => {
                self.say(&format!("{place}: failed: {}", why.lines().next().unwrap_or_default()));
            }
            TrialState::Void(why) => {
                self.say(&format!("{place}: no figures: {}", why.lines().next().unwrap_or_default()));
            }
            TrialState::Aborted(why) => self.say(&format!("{place}: {why}")),
            state => {
                if let Some(bar) = &self.bar {
                    let doing = match state {
                        TrialState::Starting => "starting",
                        TrialState::Warming | TrialState::Measuring => "under load",
                        _ => "",
                    };
                    bar.set_message(self.with_time(&format!("{place}: {doing}")));
                }
            }
        }
    }

    fn moment(&mut self, moment: &Moment) {
        self.event(|events| events.moment(moment));
        self.metric(|metrics| metrics.moment(moment));
    }

    fn searching(&mut self, run: &str, rate: f64) {
        self.event(|events| events.step("searching", &format!("{run}: {rate:.0}/s")));
        self.metric(|metrics| metrics.searching(run, rate));
        match &self.bar {
            Some(bar) => bar.set_message(self.with_time(&format!("{run}: {rate:.0}/s"))),
            None => self.say(&format!("{run}: trying {rate:.0}/s")),
        }
    }

    fn system_done(&mut self) {
        self.done += 1;
        let (runs, done) = (self.runs, self.done);
        self.event(|events| events.planned(runs, done));
        self.metric(|metrics| metrics.planned(runs, done));
        if let Some(bar) = &self.bar {
            bar.set_position(self.done as u64);
        }
    }
}
