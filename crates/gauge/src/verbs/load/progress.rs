//! A run with a progress bar, and with Ctrl-C.

use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use gauge::campaign::progress::LoadMoment;
use gauge::load::{Generator, RunError, Watch};
use gauge::results::Report;
use gauge::tools::hand_over;
use indicatif::{ProgressBar, ProgressStyle};

/// Runs the load. The first SIGINT or SIGTERM ends it early, with a report of what was; the second one ends the program.
pub(super) fn run(generator: &Generator, quiet: bool, marks: bool) -> Result<Report, RunError> {
    listen(generator.watch());
    let bar = if quiet || !std::io::stderr().is_terminal() { ProgressBar::hidden() } else { bar(generator) };
    let watch = generator.watch();
    let (done, is_done) = channel::<()>();
    std::thread::scope(|scope| {
        let shown = &bar;
        let planned = generator.prepared().planned();
        scope.spawn(move || {
            let begun = Instant::now();
            let mut moments = Moments { generator, last: (Duration::ZERO, 0) };
            while is_done.recv_timeout(Duration::from_millis(100)) == Err(RecvTimeoutError::Timeout) {
                let counts = watch.counts();
                let elapsed = begun.elapsed();
                shown.set_position(match planned {
                    Some(planned) => elapsed.min(planned).as_millis() as u64,
                    None => counts.responses + counts.errors,
                });
                let rate = counts.responses as f64 / elapsed.as_secs_f64().max(0.001);
                let trouble = match (counts.errors, counts.dropped) {
                    (0, 0) => String::new(),
                    (errors, dropped) => format!(", {errors} errors, {dropped} dropped"),
                };
                shown.set_message(format!("{} responses, {rate:.0}/s{trouble}", counts.responses));
                if marks && elapsed >= moments.last.0 + MOMENT {
                    moments.say(elapsed);
                }
            }
        });
        if marks {
            let watch = generator.watch();
            watch.close(generator.prepared().first_measured().unwrap_or(0));
            scope.spawn(move || {
                while !watch.is_quiet() && !watch.is_stopped() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                hand_over("begin");
                watch.open();
            });
        }
        let report = generator.run();
        if marks {
            generator.watch().stop();
            hand_over("end");
        }
        drop(done);
        bar.finish_and_clear();
        report
    })
}

/// How often a campaign is told how the load goes.
const MOMENT: Duration = Duration::from_secs(1);

/// Tells a campaign how the load goes.
struct Moments<'g> {
    generator: &'g Generator,
    /// When it was told before, and how many responses there were.
    last: (Duration, u64),
}

impl Moments<'_> {
    fn say(&mut self, elapsed: Duration) {
        use std::io::Write;
        let watch = self.generator.watch();
        let (counts, latencies) = (watch.counts(), watch.latencies());
        let (before, responses) = std::mem::replace(&mut self.last, (elapsed, counts.responses));
        let percentile = |share| (!latencies.is_empty()).then(|| latencies.quantile_ns(share) as f64 / 1e6);
        let moment = LoadMoment {
            at_s: elapsed.as_secs_f64(),
            phase: watch.phase().and_then(|phase| self.generator.prepared().phase_name(phase)).map(str::to_owned),
            responses: counts.responses,
            errors: counts.errors,
            dropped: counts.dropped,
            rate: counts.responses.saturating_sub(responses) as f64 / (elapsed - before).as_secs_f64(),
            p50_ms: percentile(0.5),
            p99_ms: percentile(0.99),
        };
        // Whoever started this reads it or has gone.
        if let Ok(json) = serde_json::to_string(&moment) {
            let _ = writeln!(std::io::stdout().lock(), "{}{json}", LoadMoment::MARK);
        }
    }
}

fn bar(generator: &Generator) -> ProgressBar {
    let prepared = generator.prepared();
    let length = prepared.planned().map(|planned| planned.as_millis() as u64).or_else(|| prepared.planned_requests());
    let (bar, template) = match length {
        Some(length) => (ProgressBar::new(length), "{bar:30} {percent:>3}%  {msg}  ({eta} left)"),
        None => (ProgressBar::new_spinner(), "{spinner} {msg}"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Turns signals into a stop, on a thread of its own that ends with the program.
fn listen(watch: Watch) {
    use tokio::signal::unix::{SignalKind, signal};
    let follow = async move {
        let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        else {
            return;
        };
        tokio::select! { _ = interrupt.recv() => {} _ = terminate.recv() => {} }
        watch.stop();
        tokio::select! { _ = interrupt.recv() => {} _ = terminate.recv() => {} }
        std::process::exit(i32::from(crate::cli::INTERRUPTED));
    };
    std::thread::spawn(move || {
        if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() {
            runtime.block_on(follow);
        }
    });
}
