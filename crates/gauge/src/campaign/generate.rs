//! One measurement: the generator runs in a process of its own, and what system, upstreams and generator use is looked at from the
//! begin of the load that counts to its end.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::lane::{self, Made};
use super::progress::{LoadMoment, Moment};
use super::start::Running;
use super::{Campaign, CampaignError, Options, Store};
use crate::deploy::{DeployError, Deployer, Handle, Local, Spec};
use crate::gateway::{Signal, Stop};
use crate::load::workload::{self, Load, Mark};
use crate::observe::{Usages, Watcher};
use crate::plan::{Pin, Sender, Workload};
use crate::results::Report;
use crate::results::report::Measurement;
use crate::results::{Observed, Reached, Treatment};

/// A generator that has been told to end ends within this.
const STOP: Stop = Stop { signal: Signal::Term, grace: Duration::from_secs(2) };
/// Beyond the plan, before the generator is taken to hang.
const SLACK: Duration = Duration::from_secs(60);
/// For a load whose length its requests decide.
const LONGEST: Duration = Duration::from_secs(1800);

/// Why there is no measurement.
pub(super) enum Failure {
    /// The system failed: it counts against it, and the campaign goes on.
    Trial(String),
    /// The upstream or the generator failed: the trial says nothing of the system, and is repeated.
    Condition(String),
    /// Somebody stopped the campaign.
    Stopped,
    /// The campaign cannot go on.
    Campaign(CampaignError),
}

impl From<CampaignError> for Failure {
    fn from(error: CampaignError) -> Self {
        Failure::Campaign(error)
    }
}

/// Runs the generator.
#[derive(Debug)]
pub(super) struct Generate {
    here: Local,
    gauge: PathBuf,
    folder: PathBuf,
    cpus: Vec<u32>,
    pub(super) made: Made,
}

impl Generate {
    /// Makes the large bodies.
    pub(super) fn new(
        here: Local,
        store: &Store,
        workloads: &[Workload],
        pin: &Pin,
        options: &Options,
    ) -> Result<Self, CampaignError> {
        let folder = store.path("tmp");
        let mut made = Made::new();
        for workload in workloads {
            for planned in workload.operations.iter().chain(&workload.setup) {
                let Some(body) = &planned.made else { continue };
                let id = &planned.operation.id;
                let file = folder.join(format!("{}-{}.body", crate::plan::slug(&workload.name), crate::plan::slug(id)));
                std::fs::write(&file, body.make()).map_err(|error| DeployError::file(&file, error))?;
                made.insert((workload.name.clone(), id.clone()), body.body(file));
            }
        }
        let (gauge, cpus) = (options.gauge.clone(), pin.generator.clone());
        Ok(Generate { here, gauge, folder, cpus, made })
    }

    /// A workload as a file for the generator.
    fn write(&self, id: &str, workload: &workload::Workload) -> Result<PathBuf, CampaignError> {
        let file = self.folder.join(format!("{id}.workload.json"));
        let text = serde_json::to_string(workload).map_err(std::io::Error::from)?;
        std::fs::write(&file, text).map_err(|error| DeployError::file(&file, error))?;
        Ok(file)
    }

    fn spec(&self, sender: &Sender, threads: Option<u32>, workload: &Path, report: &Path) -> Spec {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut argv = vec![text(&self.gauge), "load".to_owned(), "--workload".to_owned(), text(workload)];
        argv.extend(["--json".to_owned(), text(report), "--quiet".to_owned()]);
        match sender {
            Sender::Gauge => argv.push("--marks".to_owned()),
            Sender::External { tool, script } => {
                argv.extend(["--tool".to_owned(), tool.name().to_owned()]);
                if let Some(script) = script {
                    argv.extend(["--script".to_owned(), text(script)]);
                }
            }
        }
        if let Some(threads) = threads {
            argv.extend(["--threads".to_owned(), threads.to_string()]);
        }
        Spec {
            name: "generator".to_owned(),
            argv,
            cwd: self.folder.clone(),
            cpus: self.cpus.clone(),
            ..Spec::default()
        }
    }
}

/// The lines that a process prints; the end of the channel is the end of its output.
fn lines(stdout: std::process::ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// How long a generator may take: its load as planned, and each request that it waits for outside of that, of the setup and at the end, as long as
/// a request may take.
fn limit(request: &workload::Workload) -> Duration {
    let waits = request.timeout * (1 + request.setup.len() as u32);
    lane::planned_duration(&request.load, true).map_or(LONGEST, |planned| planned + waits + SLACK)
}

impl Campaign<'_> {
    /// Loads a system and watches.
    pub(super) fn measure(
        &mut self,
        id: &str,
        round: u32,
        workload: &Workload,
        load: &Load,
        treatment: Option<&Treatment>,
        running: &Running,
    ) -> Result<(Report, Observed), Failure> {
        self.before_each(workload, running)?;
        let made = &self.generate.made;
        let (sender, own) = (&workload.generator, workload.generator == Sender::Gauge);
        if !own && let Some(mut warmup) = lane::warmup_only(workload, &running.lane, made, load) {
            warmup.seed = seed(round, workload);
            let file = self.generate.write(&format!("{id}-warmup"), &warmup)?;
            self.generate_once(&format!("{id}-warmup"), &Sender::Gauge, workload.threads, &file, &warmup, running)?;
        }
        let made = &self.generate.made;
        let request = if own {
            lane::measured(workload, &running.lane, made, load)
        } else {
            lane::plain(workload, &running.lane, made, load)
        };
        let mut request = request;
        request.seed = seed(round, workload);
        request.mark = treatment.and_then(mark);
        let file = self.generate.write(id, &request)?;
        self.generate_once(id, sender, workload.threads, &file, &request, running)
    }

    fn usages(&mut self, generator: Handle, running: &Running) -> Usages {
        let there = self.there.as_mut();
        Usages {
            generator: self.generate.here.reading(generator),
            system: running.handle.and_then(|(handle, _)| there.reading(handle)),
            upstream: self.backends.reading(there),
            ticks: there.machine().0,
        }
    }

    /// What has reached the upstreams so far, where they count it.
    fn reached(&mut self) -> Result<Option<Reached>, Failure> {
        let counts = self.backends.reached(self.there.as_mut());
        counts.map_err(|why| Failure::Condition(format!("the upstream does not say what reached it: {why}")))
    }

    /// Whether system and upstreams run: that the first ended is its own failure, and nobody's that another did.
    fn all_run(&mut self, running: &Running) -> Result<(), Failure> {
        let there = self.there.as_mut();
        if let Some((handle, _)) = running.handle
            && !there.is_running(handle)
        {
            let said = there.log_tail(handle);
            return Err(Failure::Trial(format!("the system ended under load; its last lines:\n{said}")));
        }
        self.backends.ended(there).map_or(Ok(()), |ended| Err(Failure::Condition(ended)))
    }

    fn generate_once(
        &mut self,
        id: &str,
        sender: &Sender,
        threads: Option<u32>,
        file: &Path,
        request: &workload::Workload,
        running: &Running,
    ) -> Result<(Report, Observed), Failure> {
        let report = self.generate.folder.join(format!("{id}.report.json"));
        let _ = std::fs::remove_file(&report);
        let spec = self.generate.spec(sender, threads, file, &report);
        let limit = limit(request);
        let piped = self.generate.here.start_piped(&spec).map_err(CampaignError::from)?;
        let outcome = self.watch(id, piped.handle, &lines(piped.stdout), sender, limit, running);
        let code = self.generate.here.exit_code(piped.handle);
        let said = self.generate.here.log_tail(piped.handle);
        self.generate.here.stop(piped.handle, STOP);
        let mut observed = outcome?;
        // 1 says that there was no response, which the report says too.
        if !matches!(code, Some(0 | 1)) {
            let code = code.map_or("a signal".to_owned(), |code| code.to_string());
            return Err(Failure::Condition(format!("the generator ended with {code}: {said}")));
        }
        let unreadable =
            |error: String| Failure::Condition(format!("the generator's report cannot be read: {error}; {said}"));
        let text = std::fs::read_to_string(&report).map_err(|error| unreadable(error.to_string()))?;
        let mut report = Report::from_json(&text).map_err(|error| unreadable(error.to_string()))?;
        setup_failed(&report).map_or(Ok(()), |why| Err(Failure::Trial(why)))?;
        // What was sent in a warm-up between two phases is in no figure.
        let first = report.phases.iter().position(|phase| phase.measured).unwrap_or(0);
        if report.phases[first..].iter().any(|phase| !phase.measured) {
            observed.reached = None;
        }
        slim(&mut report);
        Ok((report, observed))
    }

    /// Tells what is seen of the load at this moment.
    fn moment(&mut self, id: &str, load: Option<LoadMoment>, watcher: Option<&Watcher>) {
        let [system, upstream, generator] = watcher.map_or([None; 3], Watcher::latest).map(|part| part.map(Into::into));
        self.progress.moment(&Moment { trial: id.to_owned(), load, system, upstream, generator });
    }

    /// From the generator's first line to its end.
    fn watch(
        &mut self,
        id: &str,
        generator: Handle,
        lines: &Receiver<String>,
        sender: &Sender,
        limit: Duration,
        running: &Running,
    ) -> Result<Observed, Failure> {
        let deadline = Instant::now() + limit;
        // Generators of others say nothing while they run: all of their process counts.
        let mut watcher = (*sender != Sender::Gauge).then(|| Watcher::begin(self.usages(generator, running)));
        let mut before = if watcher.is_some() { self.reached()? } else { None };
        let mut reached = None;
        let mut ended = false;
        loop {
            match lines.recv_timeout(Duration::from_millis(20)) {
                // Nothing is in flight until it is told to go on, so what is read here is of the load and of nothing else.
                Ok(line) if line == "begin" => {
                    before = self.reached()?;
                    watcher = Some(Watcher::begin(self.usages(generator, running)));
                    self.generate.here.say(generator, "go");
                }
                Ok(line) if line == "end" => {
                    ended = true;
                    let last = self.usages(generator, running);
                    if let Some(watcher) = &mut watcher {
                        watcher.take(last);
                    }
                    reached = self.reached()?;
                    self.generate.here.say(generator, "go");
                }
                Ok(line) => {
                    let load = line.strip_prefix(LoadMoment::MARK).and_then(|json| serde_json::from_str(json).ok());
                    if load.is_some() && !ended {
                        self.moment(id, load, watcher.as_ref());
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.options.stopped() {
                return Err(Failure::Stopped);
            }
            if let Some(watcher) = watcher.as_mut().filter(|watcher| !ended && Instant::now() >= watcher.next()) {
                let now = self.usages(generator, running);
                watcher.take(now);
                if *sender != Sender::Gauge {
                    self.moment(id, None, Some(watcher));
                }
            }
            self.all_run(running)?;
            if Instant::now() > deadline {
                return Err(Failure::Condition(format!("the generator did not end within {} s", limit.as_secs())));
            }
        }
        // What ended last may have ended the generator.
        self.all_run(running)?;
        if !ended {
            let last = self.usages(generator, running);
            if let Some(watcher) = &mut watcher {
                watcher.take(last);
            }
            reached = self.reached()?;
        }
        // The output ends a moment before the process does.
        let gone = Instant::now() + Duration::from_secs(5);
        while self.generate.here.is_running(generator) && Instant::now() < gone {
            std::thread::sleep(Duration::from_millis(1));
        }
        let load1 = self.there.machine().1;
        let count = |cpus: &[u32]| (!cpus.is_empty()).then_some(cpus.len() as u32);
        let cpus = [
            Some(self.plan.hardware.cpus).filter(|_| !self.pin.system.is_empty()),
            count(&self.pin.upstream),
            count(&self.pin.generator),
        ];
        let mut observed = watcher.map_or_else(Observed::default, |watcher| watcher.finish(cpus, load1));
        observed.reached = before.zip(reached).map(|(before, after)| Reached {
            requests: after.requests.saturating_sub(before.requests),
            body_bytes: after.body_bytes.saturating_sub(before.body_bytes),
        });
        Ok(observed)
    }
}

/// What is random in a round is the same for all systems, and another in each round.
fn seed(round: u32, workload: &Workload) -> u64 {
    let start = u64::from(round).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    workload.name.bytes().fold(start, |seed, byte| (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

/// The responses that show a treatment.
fn mark(treatment: &Treatment) -> Option<Mark> {
    Some(Mark { header: treatment.header.clone()?, value: treatment.value.clone() })
}

/// Why a load cannot count: what its users do first did not work for all of them.
fn setup_failed(report: &Report) -> Option<String> {
    let setup = report.phases.iter().find(|phase| phase.name == "setup" && !phase.measured)?;
    let errors = setup.total.errors.total.filter(|errors| *errors > 0)?;
    let statuses: Vec<String> =
        setup.total.statuses.iter().flatten().map(|(status, count)| format!("{count} times {status}")).collect();
    let of = setup.total.ended().unwrap_or(errors);
    Some(format!(
        "{errors} of {of} requests of the setup failed ({}): the load would not be as planned",
        statuses.join(", ")
    ))
}

/// Up to so many samples are kept one by one beside the histogram: where a percentile needs no more than a sample's quantile.
const SAMPLES: usize = 1000;

/// Takes out of a report what is in it twice or what nobody requests, so that hundreds of runs stay a document that can be opened.
fn slim(report: &mut Report) {
    fn samples(measurement: &mut Measurement) {
        let all = [
            &mut measurement.latency,
            &mut measurement.corrected,
            &mut measurement.lag,
            &mut measurement.generator_lag,
            &mut measurement.connect,
            &mut measurement.first_byte,
        ];
        let chat = measurement.chat.as_mut().map(|chat| [&mut chat.ttft, &mut chat.inter_token]);
        let streams = measurement.grpc.as_mut().and_then(|grpc| grpc.streams.as_mut());
        let streams = streams.map(|streams| [&mut streams.first_message, &mut streams.round_trip]);
        for latency in all.into_iter().chain(chat.into_iter().chain(streams).flatten()).flatten() {
            latency.samples_ns = latency.samples_ns.take().filter(|samples| samples.len() <= SAMPLES);
        }
    }
    samples(&mut report.total);
    report.operations.iter_mut().for_each(|operation| samples(&mut operation.total));
    let single = report.phases.iter().filter(|phase| phase.measured).count() < 2;
    for phase in &mut report.phases {
        samples(&mut phase.total);
        if single || !phase.measured {
            // Of the one measured phase all is in the totals; of the others nothing is judged.
            phase.operations.clear();
            for latency in [&mut phase.total.latency, &mut phase.total.corrected].into_iter().flatten() {
                (latency.histogram, latency.samples_ns) = (None, None);
            }
        }
        phase.operations.iter_mut().for_each(|operation| samples(&mut operation.total));
    }
}

#[cfg(test)]
mod tests;
