//! The machinery: threads that send, and what they share.

mod assemble;
mod chat;
mod clock;
mod http1;
pub(crate) mod http2;
mod once;
mod pacer;
mod recorder;
mod requester;
mod stream;
mod websocket;
mod wire;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

use super::prepare::Prepared;
use super::workload::Protocol;
use crate::results::Report;
use crate::results::report::Histogram;
pub(crate) use assemble::add_phases;
pub(crate) use once::Lost;
pub use once::{Exchange, Fetched};
use pacer::Pacer;
use recorder::{Live, Recorder};
use requester::{Requester, Shared};
pub(crate) use websocket::{Incoming, Opening, Socket};

/// How the generator runs; none of it changes the requests.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Threads that send; one for each core that this process may use unless told, and never more than there are users or connections.
    pub threads: Option<u32>,
    /// How long before a request is due the thread stops sleeping and watches the clock instead (default 0: it always sleeps). It makes
    /// the send some tens of microseconds more punctual, and costs up to a whole core per thread, of which a server on the same machine is then
    /// robbed.
    pub busy_poll: Duration,
}

/// Why a run failed as a whole.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The system refused what the generator needs.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The system has no thread left.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// A refusal by the operating system.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {error}")]
pub struct TransportError {
    what: &'static str,
    error: io::Error,
}

impl TransportError {
    fn new(what: &'static str, error: impl Into<io::Error>) -> Self {
        TransportError { what, error: error.into() }
    }
}

/// How requests travel. A transport gets the request of a slot from the pacer and reports its outcome to it.
trait Transport {
    /// Sends the request that the slot has now.
    fn start(&mut self, pacer: &mut Pacer<'_>, slot: u32);

    /// Waits until something happened, at most until a moment, and deals with it.
    fn wait(&mut self, pacer: &mut Pacer<'_>, until: u64) -> Result<(), TransportError>;

    /// Gives up requests that have taken too long.
    fn sweep(&mut self, pacer: &mut Pacer<'_>, now: u64);
}

/// What the threads of a run share.
#[derive(Debug)]
struct Control {
    stop: AtomicBool,
    live: Box<[Live]>,
    /// When each phase begins; 0 until that is known.
    starts: Box<[AtomicU64]>,
    /// How many threads are done with each phase.
    arrived: Box<[AtomicU32]>,
    /// The phase that begins only when it is let; none: beyond the last.
    gate: AtomicUsize,
}

impl Control {
    fn is_gate(&self, phase: usize) -> bool {
        self.gate.load(Ordering::Acquire) == phase
    }
}

/// A load that is ready to run.
#[derive(Debug)]
pub struct Generator {
    prepared: Prepared,
    options: Options,
    threads: u32,
    control: Arc<Control>,
}

/// Watches a run from another thread, and ends it early.
#[derive(Debug, Clone)]
pub struct Watch(Arc<Control>);

/// Counts so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Complete responses.
    pub responses: u64,
    /// Requests that went wrong.
    pub errors: u64,
    /// Requests given up before they were sent.
    pub dropped: u64,
}

impl Watch {
    /// Ends the run within 50 ms. What was measured until then is reported, marked as truncated.
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }

    /// Whether it was told to end.
    pub fn is_stopped(&self) -> bool {
        self.0.stop.load(Ordering::Relaxed)
    }

    /// Keeps a phase (an index into those of the workload, the setup included) from beginning until [`Watch::open`], which may come before the run.
    /// To be called before each run.
    pub fn close(&self, phase: usize) {
        if let Some(start) = self.0.starts.get(phase) {
            start.store(0, Ordering::Release);
        }
        self.0.gate.store(phase, Ordering::Release);
    }

    /// Whether all is quiet before the phase that was closed: every thread is done with the phase before it, and no request is in flight.
    pub fn is_quiet(&self) -> bool {
        let before = self.0.gate.load(Ordering::Acquire).checked_sub(1);
        before.is_none_or(|before| self.0.arrived[before].load(Ordering::Acquire) as usize == self.0.live.len())
    }

    /// Lets the phase that was closed begin.
    pub fn open(&self) {
        let phase = self.0.gate.load(Ordering::Acquire);
        self.0.starts[phase].store(clock::now() + HEAD_START_NS, Ordering::Release);
    }

    /// Counts so far, at most 50 ms old.
    pub fn counts(&self) -> Counts {
        let sum = |of: fn(&Live) -> &AtomicU64| self.0.live.iter().map(|live| of(live).load(Ordering::Relaxed)).sum();
        Counts {
            responses: sum(|live| &live.responses),
            errors: sum(|live| &live.errors),
            dropped: sum(|live| &live.dropped),
        }
    }

    /// Latencies of the last full second in which responses came, of all threads.
    pub fn latencies(&self) -> Histogram {
        let seconds = self.0.live.iter().map(|live| live.second.lock().unwrap_or_else(PoisonError::into_inner).clone());
        let seconds: Vec<(u32, Vec<(u64, u64)>)> = seconds.collect();
        let last = seconds.iter().map(|(at, _)| *at).max();
        let mut all = Histogram::with_digits(2);
        for (_, latencies) in seconds.iter().filter(|(at, _)| Some(*at) == last) {
            latencies.iter().for_each(|(latency, count)| all.record_n(*latency, *count));
        }
        all
    }

    /// The phase that runs, as an index into those of the workload; none before the first.
    pub fn phase(&self) -> Option<usize> {
        let now = clock::now();
        let begun = |start: &AtomicU64| (1..=now).contains(&start.load(Ordering::Acquire));
        self.0.starts.iter().rposition(begun)
    }
}

/// Threads get this long to start before the load begins, so that they begin together.
const HEAD_START_NS: u64 = 5_000_000;

impl Generator {
    /// Makes a workload ready; nothing is sent yet.
    pub fn new(prepared: Prepared, options: Options) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let busiest = match prepared.protocol {
            Protocol::Http1 => prepared.slots(),
            Protocol::Http2 { streams } => prepared.slots().div_ceil(streams),
        };
        let threads = options.threads.unwrap_or(cores).clamp(1, busiest.max(1));
        let phases = prepared.phases.len();
        let control = Control {
            stop: AtomicBool::new(false),
            live: (0..threads).map(|_| Live::default()).collect(),
            starts: (0..phases).map(|_| AtomicU64::new(0)).collect(),
            arrived: (0..phases).map(|_| AtomicU32::new(0)).collect(),
            gate: AtomicUsize::new(usize::MAX),
        };
        Generator { prepared, options, threads, control: Arc::new(control) }
    }

    /// To watch and to end it from another thread.
    pub fn watch(&self) -> Watch {
        Watch(Arc::clone(&self.control))
    }

    /// The workload.
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// Runs the load to its end, on threads of its own.
    ///
    /// # Errors
    /// When the system refuses what the generator needs. Whatever the server does is part of the report.
    pub fn run(&self) -> Result<Report, RunError> {
        let shared = Shared::new(&self.prepared);
        let (cpu, wall) = (assemble::cpu_times(), clock::process_cpu());
        let start = clock::now() + HEAD_START_NS;
        let started = SystemTime::now() + Duration::from_nanos(HEAD_START_NS);
        for phase in 0..self.control.starts.len() {
            self.control.arrived[phase].store(0, Ordering::Release);
            // One that is closed may be open by now, and would then never begin.
            if !self.control.is_gate(phase) {
                self.control.starts[phase].store(if phase == 0 { start } else { 0 }, Ordering::Release);
            }
        }
        let outcomes = std::thread::scope(|scope| -> Result<Vec<_>, RunError> {
            let mut handles = Vec::new();
            for thread in 0..self.threads {
                let shared = &shared;
                let builder = std::thread::Builder::new().name(format!("load-{thread}"));
                let spawned = builder.spawn_scoped(scope, move || self.work(thread, start, shared));
                handles.push(spawned.map_err(|error| {
                    self.control.stop.store(true, Ordering::Relaxed);
                    RunError::Thread(error)
                })?);
            }
            handles
                .into_iter()
                .map(|handle| match handle.join() {
                    Ok(outcome) => outcome.map_err(RunError::from),
                    Err(panic) => std::panic::resume_unwind(panic),
                })
                .collect()
        })?;
        let cpu = assemble::cpu_since(cpu, clock::process_cpu() - wall);
        let truncated = outcomes.iter().any(|(_, complete)| !complete);
        let recorders: Vec<Recorder<'_>> = outcomes.into_iter().map(|(recorder, _)| recorder).collect();
        let mut report = assemble::report(&self.prepared, recorders, start);
        report.generator.version = Some(env!("CARGO_PKG_VERSION").to_owned());
        report.generator.threads = Some(self.threads);
        report.generator.cpu = Some(cpu);
        report.started_unix_ms =
            started.duration_since(SystemTime::UNIX_EPOCH).ok().and_then(|since| u64::try_from(since.as_millis()).ok());
        if truncated {
            report.truncated = Some("interrupted".to_owned());
        }
        Ok(report)
    }

    /// One thread's part. The flag says whether it ran to its end.
    fn work<'p>(&'p self, thread: u32, start: u64, shared: &'p Shared) -> Result<(Recorder<'p>, bool), TransportError> {
        let _on_panic = StopOnPanic(&self.control);
        let prepared = &self.prepared;
        let requester = Requester::new(prepared, shared, thread, self.threads);
        let live = &self.control.live[thread as usize];
        let recorder = Recorder::new(prepared.phases.len(), prepared.operations.len(), start, live);
        let mut pacer = Pacer::new(prepared, &self.control, requester, recorder, thread, self.threads);
        let spin = pacer::nanoseconds(self.options.busy_poll);
        let outcome = match prepared.protocol {
            Protocol::Http1 => http1::Http1::new(pacer.slots.len(), prepared.authorities.len(), spin)
                .and_then(|mut transport| drive(&mut pacer, &mut transport, &self.control, self.threads)),
            Protocol::Http2 { streams } => http2::Http2::new(prepared, pacer.slots.len(), streams, spin)
                .and_then(|mut transport| drive(&mut pacer, &mut transport, &self.control, self.threads)),
        };
        // The others must not wait for a thread that has ended.
        let complete = outcome.inspect_err(|_| self.control.stop.store(true, Ordering::Relaxed))?;
        pacer.recorder.finish();
        Ok((pacer.recorder, complete))
    }
}

/// Ends the run when its thread panics: the others must not wait for one that has ended.
struct StopOnPanic<'c>(&'c Control);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Phase after phase. `false` when it was stopped.
fn drive<T: Transport>(
    pacer: &mut Pacer<'_>,
    transport: &mut T,
    control: &Control,
    threads: u32,
) -> Result<bool, TransportError> {
    let phases = control.starts.len();
    for phase in 0..phases {
        let Some(start) = begin_of(phase, pacer, transport, control)? else { return Ok(false) };
        pacer.begin(phase, start);
        let end = loop {
            let now = clock::now();
            while let Some(slot) = pacer.due(now) {
                transport.start(pacer, slot);
            }
            if pacer.is_over(now) {
                break pacer.finish_phase(now);
            }
            if pacer.tick(now) {
                transport.sweep(pacer, now);
                if pacer.should_stop() {
                    pacer.finish_phase(now);
                    pacer.abandon();
                    return Ok(false);
                }
            }
            transport.wait(pacer, pacer.wake())?;
        };
        let gated = control.is_gate(phase + 1);
        if gated && !drain(pacer, transport)? {
            return Ok(false);
        }
        let done = control.arrived[phase].fetch_add(1, Ordering::AcqRel) + 1;
        if let Some(next) = control.starts.get(phase + 1).filter(|_| !gated) {
            if pacer.prepared.phases[phase].duration().is_some() {
                // Known to everybody: the next one begins without a gap.
                next.store(end, Ordering::Release);
            } else if done == threads {
                next.store(clock::now() + HEAD_START_NS, Ordering::Release);
            }
        }
    }
    drain(pacer, transport)
}

/// Takes the responses to the requests in flight; those that do not come run into their timeout. `false` when the run was stopped.
fn drain<T: Transport>(pacer: &mut Pacer<'_>, transport: &mut T) -> Result<bool, TransportError> {
    while pacer.in_flight() > 0 {
        let now = clock::now();
        if pacer.tick(now) {
            transport.sweep(pacer, now);
            if pacer.should_stop() {
                pacer.abandon();
                return Ok(false);
            }
        }
        transport.wait(pacer, pacer.wake())?;
    }
    Ok(true)
}

/// Waits until a phase begins, and meanwhile takes the responses that are still due. `None` when the run was stopped.
fn begin_of<T: Transport>(
    phase: usize,
    pacer: &mut Pacer<'_>,
    transport: &mut T,
    control: &Control,
) -> Result<Option<u64>, TransportError> {
    loop {
        let start = control.starts[phase].load(Ordering::Acquire);
        let now = clock::now();
        if start > 0 && now >= start {
            return Ok(Some(start));
        }
        if pacer.tick(now) {
            transport.sweep(pacer, now);
            if pacer.should_stop() {
                pacer.abandon();
                return Ok(None);
            }
        }
        let grace = now + 1_000_000;
        transport.wait(pacer, if start > 0 { start.min(grace) } else { grace })?;
    }
}
