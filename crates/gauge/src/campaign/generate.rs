//! One measurement: the generator runs in a process of its own, and what system, upstreams and generator use is looked at from the
//! begin of the load that counts to its end.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender as Sending, channel};
use std::time::{Duration, Instant};

use super::addressed::{self, Made};
use super::fleet::GeneratorAt;
use super::progress::{LoadMoment, Moment};
use super::start::Running;
use super::{Campaign, CampaignError, Store, share};
use crate::deploy::{DeployError, Handle, Spec};
use crate::gateway::{Signal, Stop};
use crate::load::workload::{self, Load, Mark};
use crate::observe::{Reading, Usages, Watcher};
use crate::plan::{Pin, Plan, Sender, Workload};
use crate::results::Report;
use crate::results::report::Measurement;
use crate::results::{GeneratorPart, Observed, Reached, Treatment};

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

/// Runs the generators.
#[derive(Debug)]
pub(super) struct Generate {
    /// At least one: that of this machine, or those on others.
    pub(super) machines: Vec<GeneratorAt>,
    cpus: Vec<u32>,
    pub(super) made: Made,
}

impl Generate {
    /// Makes the large bodies.
    pub(super) fn new(
        machines: Vec<GeneratorAt>,
        store: &Store,
        plan: &Plan,
        pin: &Pin,
    ) -> Result<Self, CampaignError> {
        let folder = store.path("tmp");
        let mut made = Made::new();
        for workload in &plan.workloads {
            for planned in workload.operations.iter().chain(&workload.setup) {
                let Some(body) = &planned.made else { continue };
                let id = &planned.operation.id;
                let file = folder.join(format!("{}-{}.body", crate::plan::slug(&workload.name), crate::plan::slug(id)));
                std::fs::write(&file, body.make()).map_err(|error| DeployError::file(&file, error))?;
                made.insert((workload.name.clone(), id.clone()), body.body(file));
            }
        }
        Ok(Generate { machines, cpus: pin.generator.clone(), made })
    }

    /// Processors of all generators, where they are known.
    fn processors(&self) -> Option<u32> {
        let own = |at: &GeneratorAt| {
            if at.remote && self.cpus.is_empty() { at.machine.cpus().len() } else { self.cpus.len() }
        };
        Some(self.machines.iter().map(|at| own(at) as u32).sum()).filter(|sum| *sum > 0)
    }
}

/// A workload as a file for a generator, and where its report will be.
struct Task {
    workload: PathBuf,
    report: PathBuf,
}

/// A generator at work.
struct Working {
    handle: Handle,
    task: Task,
}

impl GeneratorAt {
    /// Writes a workload where the generator reads it, with the files that it names.
    fn write(&mut self, id: &str, mut workload: workload::Workload) -> Result<Task, CampaignError> {
        let mut failed = None;
        if self.remote {
            workload.each_file(|file| match self.machine.upload_data(file) {
                Ok(there) => *file = there,
                Err(error) => failed = Some(error),
            });
        }
        if let Some(error) = failed {
            return Err(error.into());
        }
        let file = self.folder.join(format!("{id}.workload.json"));
        let text = serde_json::to_vec(&workload).map_err(std::io::Error::from)?;
        self.machine.write(&file, &text)?;
        Ok(Task { workload: file, report: self.folder.join(format!("{id}.report.json")) })
    }

    fn spec(&self, sender: &Sender, threads: Option<u32>, task: &Task, cpus: &[u32]) -> Spec {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut argv = vec![text(&self.gauge), "load".to_owned(), "--workload".to_owned(), text(&task.workload)];
        argv.extend(["--json".to_owned(), text(&task.report), "--quiet".to_owned()]);
        if sender.has_marks() {
            argv.push("--marks".to_owned());
        }
        match sender {
            Sender::Gauge => {}
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
        Spec { name: self.name.clone(), argv, cwd: self.folder.clone(), cpus: cpus.to_vec(), ..Spec::default() }
    }
}

/// A line of a generator, by its number; none at the end of its output.
type Line = (usize, Option<String>);

/// Passes on the lines that a process prints.
fn follow(number: usize, stdout: std::process::ChildStdout, to: Sending<Line>) {
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if to.send((number, Some(line))).is_err() {
                return;
            }
        }
        let _ = to.send((number, None));
    });
}

/// How long a generator may take: its load as planned, and each request that it waits for outside of that, of the setup and at the end, as long as
/// a request may take.
fn limit(request: &workload::Workload) -> Duration {
    let waits = request.timeout * (1 + request.setup.len() as u32);
    addressed::planned_duration(&request.load, true).map_or(LONGEST, |planned| planned + waits + SLACK)
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
        if !own && let Some(mut warmup) = addressed::warmup_only(workload, &running.addressed, made, load) {
            warmup.seed = seed(round, workload);
            self.generate_once(&format!("{id}-warmup"), &Sender::Gauge, workload.threads, &warmup, running)?;
        }
        let made = &self.generate.made;
        let request = if own {
            addressed::measured(workload, &running.addressed, made, load)
        } else {
            addressed::plain(workload, &running.addressed, made, load)
        };
        let mut request = request;
        request.seed = seed(round, workload);
        request.mark = treatment.and_then(mark);
        self.generate_once(id, sender, workload.threads, &request, running)
    }

    /// What each generator uses.
    fn senders(&mut self, working: &[Working]) -> Vec<Option<Reading>> {
        let machines = self.generate.machines.iter_mut().zip(working);
        machines.map(|(at, working)| at.machine.reading(working.handle)).collect()
    }

    fn usages(&mut self, working: &[Working], running: &Running) -> Usages {
        let generators: Option<Vec<Reading>> = self.senders(working).into_iter().collect();
        let system = running.handle.and_then(|(handle, _)| self.there.reading(handle));
        let ticks = self.there.machine().0;
        Usages {
            generator: generators.and_then(Reading::sum),
            system,
            upstream: self.backends.reading(self.there.upstream()),
            ticks,
        }
    }

    /// What has reached the upstreams so far, where they count it.
    fn reached(&mut self) -> Result<Option<Reached>, Failure> {
        let counts = self.backends.reached(self.there.upstream());
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
        self.backends.ended(self.there.upstream()).map_or(Ok(()), |ended| Err(Failure::Condition(ended)))
    }

    /// Starts a generator on each machine that sends, with its share of the load.
    fn start_all(
        &mut self,
        id: &str,
        (sender, threads): (&Sender, Option<u32>),
        request: &workload::Workload,
    ) -> Result<(Vec<Working>, Receiver<Line>), Failure> {
        let shares = share::split(request, self.generate.machines.len());
        let shares = shares.map_err(|why| CampaignError::Backend(format!("{id}: {why}")))?;
        let (to, lines) = channel();
        let mut all = Vec::new();
        for (number, mut own) in shares.into_iter().enumerate() {
            let at = &mut self.generate.machines[number];
            if at.remote {
                share::seen_from(&mut own, |here| self.there.seen(here));
            }
            let started = at.write(id, own).and_then(|task| {
                // That of an earlier attempt; on another machine the folder was empty.
                let _ = std::fs::remove_file(&task.report);
                let spec = at.spec(sender, threads, &task, &self.generate.cpus);
                let piped = at.machine.start_piped(&spec)?;
                Ok((piped, task))
            });
            match started {
                Ok((piped, task)) => {
                    follow(number, piped.stdout, to.clone());
                    all.push(Working { handle: piped.handle, task });
                }
                Err(error) => {
                    self.stop_all(&all);
                    return Err(error.into());
                }
            }
        }
        Ok((all, lines))
    }

    fn stop_all(&mut self, working: &[Working]) {
        for (at, working) in self.generate.machines.iter_mut().zip(working) {
            at.machine.stop(working.handle, STOP);
        }
    }

    fn say_all(&mut self, working: &[Working], line: &str) {
        for (at, working) in self.generate.machines.iter_mut().zip(working) {
            at.machine.say(working.handle, line);
        }
    }

    fn generate_once(
        &mut self,
        id: &str,
        sender: &Sender,
        threads: Option<u32>,
        request: &workload::Workload,
        running: &Running,
    ) -> Result<(Report, Observed), Failure> {
        let limit = limit(request);
        let (working, lines) = self.start_all(id, (sender, threads), request)?;
        let outcome = self.watch(id, &working, &lines, sender, limit, running);
        let mut reports = Vec::new();
        for (at, working) in self.generate.machines.iter_mut().zip(&working) {
            let code = at.machine.exit_code(working.handle);
            let said = at.machine.log_tail(working.handle);
            let text = if outcome.is_ok() { at.machine.read(&working.task.report) } else { Ok(String::new()) };
            reports.push((code, report_of(&at.name, code, &said, text)));
        }
        self.stop_all(&working);
        let (mut observed, parts) = outcome?;
        // Those that were stopped because another one had failed say nothing of the reason.
        let of_itself = |(code, report): &(Option<i32>, Result<Report, Failure>)| code.is_some() && report.is_err();
        if let Some(at) = reports.iter().position(of_itself) {
            reports.swap(0, at);
        }
        let reports: Vec<Report> = reports.into_iter().map(|(_, report)| report).collect::<Result<_, Failure>>()?;
        for report in &reports {
            setup_failed(report).map_or(Ok(()), |why| Err(Failure::Trial(why)))?;
        }
        observed.generators = self.parts(&reports, &parts);
        let mut reports = reports.into_iter();
        let nothing = || Failure::Condition("there is no generator".to_owned());
        let mut report = reports.next().ok_or_else(nothing)?;
        reports.for_each(|other| report.merge(&other));
        // What was sent in a warm-up between two phases is in no figure.
        let first = report.phases.iter().position(|phase| phase.measured).unwrap_or(0);
        if report.phases[first..].iter().any(|phase| !phase.measured) {
            observed.reached = None;
        }
        slim(&mut report);
        Ok((report, observed))
    }

    /// What each generator did by itself; nothing where it is that of this machine.
    fn parts(&self, reports: &[Report], cpu_s: &[Option<f64>]) -> Vec<GeneratorPart> {
        let machines = self.generate.machines.iter().zip(reports).zip(cpu_s);
        let remote = machines.filter(|((at, _), _)| at.remote);
        let part = |((at, report), cpu_s): ((&GeneratorAt, &Report), &Option<f64>)| GeneratorPart {
            name: at.name.clone(),
            cpus: match self.generate.cpus.len() {
                0 => at.machine.cpus().len() as u32,
                pinned => pinned as u32,
            },
            cpu_s: *cpu_s,
            requests: report.total.requests,
            achieved: report.total.rate.achieved,
            lag: report.total.generator_lag.clone().map(|mut lag| {
                (lag.histogram, lag.samples_ns) = (None, None);
                lag
            }),
        };
        remote.map(part).collect()
    }

    /// Tells what is seen of the load at this moment.
    fn moment(&mut self, id: &str, load: Option<LoadMoment>, watcher: Option<&Watcher>) {
        let [system, upstream, generator] = watcher.map_or([None; 3], Watcher::latest).map(|part| part.map(Into::into));
        self.progress.moment(&Moment { trial: id.to_owned(), load, system, upstream, generator });
    }

    /// From the generators' first line to the end of all; with the seconds of CPU time that each of them used.
    fn watch(
        &mut self,
        id: &str,
        working: &[Working],
        lines: &Receiver<Line>,
        sender: &Sender,
        limit: Duration,
        running: &Running,
    ) -> Result<(Observed, Vec<Option<f64>>), Failure> {
        let deadline = Instant::now() + limit;
        // Most generators of others say nothing while they run: all of their process counts.
        let mut watcher = (!sender.has_marks()).then(|| Watcher::begin(self.usages(working, running)));
        let mut before = if watcher.is_some() { self.reached()? } else { None };
        let (mut first, mut last) = (vec![None; working.len()], vec![None; working.len()]);
        let mut reached = None;
        let mut ended = false;
        // How many have said so, and how many may still say something.
        let (mut begun, mut done, mut open) = (0, 0, working.len());
        loop {
            match lines.recv_timeout(Duration::from_millis(20)) {
                // Nothing is in flight until all are told to go on, so what is read here is of the load and of nothing else.
                Ok((_, Some(line))) if line == "begin" => {
                    begun += 1;
                    if begun == working.len() {
                        before = self.reached()?;
                        first = self.senders(working);
                        watcher = Some(Watcher::begin(self.usages(working, running)));
                        self.say_all(working, "go");
                    }
                }
                Ok((_, Some(line))) if line == "end" => {
                    done += 1;
                    if done == working.len() {
                        ended = true;
                        last = self.senders(working);
                        let now = self.usages(working, running);
                        if let Some(watcher) = &mut watcher {
                            watcher.take(now);
                        }
                        reached = self.reached()?;
                        self.say_all(working, "go");
                    }
                }
                Ok((number, Some(line))) => {
                    let load = line.strip_prefix(LoadMoment::MARK).and_then(|json| serde_json::from_str(json).ok());
                    // Of several generators the first one stands for all, as many times as there are.
                    if let Some(load) = load.filter(|_| !ended && number == 0) {
                        self.moment(id, Some(times(load, working.len())), watcher.as_ref());
                    }
                }
                Ok((_, None)) => {
                    open -= 1;
                    // One that ended before the others could: they would wait for it.
                    if open == 0 || (!ended && sender.has_marks()) {
                        break;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.options.stopped() {
                return Err(Failure::Stopped);
            }
            if let Some(watcher) = watcher.as_mut().filter(|watcher| !ended && Instant::now() >= watcher.next()) {
                let now = self.usages(working, running);
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
            let now = self.usages(working, running);
            if let Some(watcher) = &mut watcher {
                watcher.take(now);
            }
            reached = self.reached()?;
        }
        // The output ends a moment before the process does.
        let gone = Instant::now() + Duration::from_secs(5);
        while Instant::now() < gone && self.any_sends(working) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let load1 = self.there.machine().1;
        let count = |cpus: &[u32]| (!cpus.is_empty()).then_some(cpus.len() as u32);
        let cpus = [
            Some(self.plan.hardware.cpus).filter(|_| !self.pin.system.is_empty()),
            count(&self.pin.upstream).or_else(|| self.there.upstream_cpus()),
            self.generate.processors(),
        ];
        let mut observed = watcher.map_or_else(Observed::default, |watcher| watcher.finish(cpus, load1));
        observed.reached = before.zip(reached).map(|(before, after)| Reached {
            requests: after.requests.saturating_sub(before.requests),
            body_bytes: after.body_bytes.saturating_sub(before.body_bytes),
        });
        let used = |(first, last): (&Option<Reading>, &Option<Reading>)| {
            let cpu_s =
                |reading: &Option<Reading>| reading.and_then(|reading| Some(reading.user_s? + reading.system_s?));
            Some(cpu_s(last)? - cpu_s(first)?)
        };
        Ok((observed, first.iter().zip(&last).map(used).collect()))
    }

    /// Whether any generator still runs.
    fn any_sends(&mut self, working: &[Working]) -> bool {
        let mut machines = self.generate.machines.iter_mut().zip(working);
        machines.any(|(at, working)| at.machine.is_running(working.handle))
    }
}

/// The report of a generator that has ended.
fn report_of(name: &str, code: Option<i32>, said: &str, text: Result<String, DeployError>) -> Result<Report, Failure> {
    // 1 says that there was no response, which the report says too.
    if !matches!(code, Some(0 | 1)) {
        let code = code.map_or("a signal".to_owned(), |code| code.to_string());
        return Err(Failure::Condition(format!("the {name} ended with {code}: {said}")));
    }
    let unreadable =
        |error: String| Failure::Condition(format!("the report of the {name} cannot be read: {error}; {said}"));
    let text = text.map_err(|error| unreadable(error.to_string()))?;
    Report::from_json(&text).map_err(|error| unreadable(error.to_string()))
}

/// What so many generators count that each do the same.
fn times(load: LoadMoment, count: usize) -> LoadMoment {
    let times = count as u64;
    LoadMoment {
        responses: load.responses * times,
        errors: load.errors * times,
        dropped: load.dropped * times,
        rate: load.rate * count as f64,
        ..load
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
