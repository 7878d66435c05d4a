//! The profile `life`: what happens to requests while a gateway is reloaded, drained and slowed, and while its upstream fails; what many routes cost.
//!
//! Each scenario is run in each round on a gateway that was started for it, in front of an upstream of gauge's own. Requests come at a constant rate; for a
//! second nothing happens, then the event, then the rate goes on. A trial in which requests fail before the event, or in which this process was held up,
//! says nothing of the gateway: it is void, and run again.

mod client;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::profile::ProbeUpstream;
use super::start::{self, InFront, Running, Started};
use super::{Campaign, CampaignError, addressed, order};
use crate::gateway::Signal;
use crate::load::Prepared;
use crate::load::workload::{Operation, Protocol, Workload};
use crate::observe::Reading;
use crate::observe::machine::{self, Ticks};
use crate::observe::process::{self, Process, Units};
use crate::plan::System;
use crate::profile::{Life, Profile, Scenario};
use crate::results::{LifeState, LifeTrial};
use client::{PAUSE, Sent};

/// Nothing happens for so long.
const BEFORE: Duration = Duration::from_secs(1);
/// The rate goes on for so long after the event.
const AFTER: Duration = Duration::from_secs(2);
/// A request that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Time for a reload or for a drain.
const LONGEST: Duration = Duration::from_secs(15);
/// Where others use more of the processors, that a request timed out says nothing of the gateway.
const MOST_OF_OTHERS: f64 = 0.2;
/// How often a trial that is void is run again.
const AGAIN: usize = 2;
/// Where it is seen that a new configuration is in force.
const RELOADED: u32 = 1;

impl Campaign<'_> {
    /// Runs what is left of all rounds.
    pub(super) fn life(&mut self, life: &Life) -> Result<(), CampaignError> {
        let ready: Vec<&System> = self.plan.systems.iter().filter(|system| self.takes_part(system)).collect();
        for round in 1..=self.plan.repeats {
            for system in order(round, &ready) {
                for scenario in life.all() {
                    let done = |trial: &LifeTrial| {
                        (trial.round, &trial.system, &trial.scenario) == (round, &system.name, &scenario.name())
                    };
                    if self.results.life.iter().any(done) {
                        continue;
                    }
                    if self.options.stopped() {
                        return Err(CampaignError::Stopped);
                    }
                    self.progress.scenario(&system.name, &scenario.name(), round);
                    let mut trial = self.life_trial(system, scenario, life)?;
                    for _ in 0..AGAIN {
                        if !matches!(trial.state, LifeState::Void(_)) || self.options.stopped() {
                            break;
                        }
                        trial = self.life_trial(system, scenario, life)?;
                    }
                    (trial.round, trial.system, trial.scenario) = (round, system.name.clone(), scenario.name());
                    self.results.life.push(trial);
                    self.store.campaign(&self.results)?;
                }
            }
        }
        Ok(())
    }

    fn life_trial(&mut self, system: &System, scenario: Scenario, life: &Life) -> Result<LifeTrial, CampaignError> {
        let void = |why: String| LifeTrial { state: LifeState::Void(why), ..LifeTrial::default() };
        let direct = system.variant().is_none();
        let adapter = system.variant().and_then(|variant| crate::gateway::by_name(&variant.gateway));
        let signals = adapter.map(crate::gateway::Gateway::signals).unwrap_or_default();
        let why = match scenario {
            Scenario::Reload | Scenario::Drain | Scenario::SlowClients | Scenario::Routes(_) if direct => {
                Some("the baseline has no gateway")
            }
            Scenario::Reload if signals.reload.is_none() => Some("no signal reloads it as its adapter configures it"),
            _ => None,
        };
        if let Some(why) = why {
            return Ok(LifeTrial { state: LifeState::NotSupported(why.to_owned()), ..LifeTrial::default() });
        }
        let mut upstream = match ProbeUpstream::start(self)? {
            Ok(upstream) => upstream,
            Err(why) => return Ok(void(why)),
        };
        let routes = if let Scenario::Routes(routes) = scenario { routes } else { 0 };
        let begun = Instant::now();
        let trial = match start::start_before(self, system, InFront { upstream: Some(upstream.port), routes })? {
            Started::Runs(_, running) => {
                let started = begun.elapsed();
                let trial = self.in_scenario(system, scenario, life, &running, &mut upstream, started);
                start::stop(self.there.as_mut(), &running);
                trial
            }
            Started::NotSupported(why) => Ok(LifeTrial { state: LifeState::NotSupported(why), ..LifeTrial::default() }),
            Started::NotHere(_, why) | Started::Failed(_, why) | Started::Ended(_, why) => {
                Ok(LifeTrial { state: LifeState::Failed(why), ..LifeTrial::default() })
            }
            Started::NoPort(why) => Ok(void(why)),
        };
        upstream.stop(self);
        trial
    }

    fn in_scenario(
        &mut self,
        system: &System,
        scenario: Scenario,
        life: &Life,
        running: &Running,
        upstream: &mut ProbeUpstream,
        started: Duration,
    ) -> Result<LifeTrial, CampaignError> {
        let void = |why: String| Ok(LifeTrial { state: LifeState::Void(why), ..LifeTrial::default() });
        let (base, address) = match &running.addressed {
            addressed::Addressed::Gateway(address, clients) => (clients.base(*address), *address),
            addressed::Addressed::Direct(..) | addressed::Addressed::Grpc(..) => {
                (format!("http://{}", upstream.address), upstream.address)
            }
        };
        let mut operation = self.operations(&running.addressed).into_iter().find(|operation| operation.method == "GET");
        if let Scenario::Routes(routes) = scenario {
            operation = Some(Operation::get("route", &start::life_route(&self.plan.api, routes)));
        }
        let Some(mut operation) = operation else { return void("no workload has a GET".to_owned()) };
        operation.base = Some(base);
        if scenario == Scenario::Drain {
            // So that requests are in flight when it begins.
            operation.headers.insert("X-Probe-Delay".to_owned(), "100".to_owned());
        }
        let workload = Workload::single(operation, Protocol::Http1, TIMEOUT);
        let prepared = match Prepared::new(&workload) {
            Ok(prepared) => prepared,
            Err(error) => return void(error.to_string()),
        };
        let memory_before_bytes = self.memory(running);
        let cpu = self.cpu(running);
        let (machine, own, since) = (self.there.machine().0, self.own_cpu(running, upstream), Instant::now());
        let stop = AtomicBool::new(false);
        let (outcome, (sent, pause)) = std::thread::scope(|scope| {
            let users = scope.spawn(|| client::send(&prepared, life.rate, &stop));
            let outcome = self.event(system, scenario, life, running, upstream, address, &stop);
            stop.store(true, Ordering::Relaxed);
            (outcome, users.join().unwrap_or_default())
        });
        let happened = match outcome? {
            Ok(happened) => happened,
            Err(state) => return Ok(LifeTrial { state, ..LifeTrial::default() }),
        };
        let mut trial = judge(scenario, &sent, &happened);
        trial.memory_before_bytes = memory_before_bytes;
        trial.memory_peak_bytes = happened.memory.into_iter().max().max(memory_before_bytes);
        trial.took_ms = match scenario {
            Scenario::Routes(_) => Some(started.as_secs_f64() * 1e3),
            _ => happened.took.map(|took| took.as_secs_f64() * 1e3),
        };
        let used = self.cpu(running).zip(cpu).map(|(after, before)| (after[0] - before[0]).max(after[1] - before[1]));
        let enough =
            used.filter(|used| *used >= crate::verdict::LEAST_CPU_S && matches!(scenario, Scenario::Routes(_)));
        trial.cpu_us_per_request = enough.map(|used| used * 1e6 / sent.len().max(1) as f64);
        let used = (self.own_cpu(running, upstream) - own).max(0.0);
        let others = others(machine.as_ref(), self.there.machine().0.as_ref(), used, since.elapsed());
        let timeouts = trial.failed.get("timeout").copied().unwrap_or(0);
        if others > MOST_OF_OTHERS && timeouts > 0 {
            let share = others * 100.0;
            let why = format!("{timeouts} requests timed out, and other programs used {share:.0} % of the processors");
            trial.state = LifeState::Void(why);
        }
        if pause > PAUSE {
            trial.state = LifeState::Void(format!("the machine held this process up for {} ms", pause.as_millis()));
        }
        Ok(trial)
    }

    /// What happens, and when; an error is why it did not.
    #[allow(clippy::too_many_arguments)]
    fn event(
        &mut self,
        system: &System,
        scenario: Scenario,
        life: &Life,
        running: &Running,
        upstream: &mut ProbeUpstream,
        address: SocketAddr,
        stop: &AtomicBool,
    ) -> Result<Result<Happened, LifeState>, CampaignError> {
        std::thread::sleep(BEFORE);
        let mut happened = Happened { begun: Instant::now(), ended: Instant::now(), took: None, memory: Vec::new() };
        match scenario {
            Scenario::Reload => {
                start::rewrite(self, system, running, InFront { upstream: Some(upstream.port), routes: RELOADED })?;
                happened.begun = Instant::now();
                self.signal(running, scenario)?;
                let path = start::life_route(&self.plan.api, RELOADED);
                let found = || super::probe::responses(address, &path) == Some(200);
                happened.took = wait(&mut happened.memory, || self.memory(running), found);
                if happened.took.is_none() {
                    let why = format!("the new configuration was not in force within {} s", LONGEST.as_secs());
                    return Ok(Err(LifeState::Failed(why)));
                }
                happened.ended = happened.begun;
            }
            Scenario::Drain => {
                happened.begun = Instant::now();
                happened.ended = happened.begun;
                self.signal(running, scenario)?;
                let mut none = Vec::new();
                let handle = running.handle.map(|(handle, _)| handle);
                let ended = || handle.is_none_or(|handle| !self.there.is_running(handle));
                happened.took = wait(&mut none, || None, ended);
                return Ok(Ok(happened));
            }
            Scenario::UpstreamKilled => {
                upstream.signal(self, Signal::Kill)?;
                std::thread::sleep(life.hold);
                if let Err(why) = upstream.restart(self)? {
                    return Ok(Err(LifeState::Void(why)));
                }
            }
            Scenario::UpstreamStopped => {
                upstream.signal(self, Signal::Stop)?;
                std::thread::sleep(life.hold);
                upstream.signal(self, Signal::Cont)?;
            }
            Scenario::UpstreamSlow => {
                let until = Instant::now() + life.hold;
                while Instant::now() < until {
                    upstream.signal(self, Signal::Stop)?;
                    std::thread::sleep(Duration::from_millis(60));
                    upstream.signal(self, Signal::Cont)?;
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
            Scenario::SlowClients => {
                let enough = AtomicBool::new(false);
                std::thread::scope(|scope| {
                    scope.spawn(|| client::dribble(address, life.slow_clients, [&enough, stop]));
                    let until = Instant::now() + life.hold;
                    while Instant::now() < until {
                        happened.memory.extend(self.memory(running));
                        std::thread::sleep(Duration::from_millis(50));
                    }
                    enough.store(true, Ordering::Relaxed);
                });
            }
            Scenario::Routes(_) => std::thread::sleep(life.hold),
        }
        if !matches!(scenario, Scenario::Reload) {
            happened.ended = Instant::now();
        }
        happened.memory.extend(self.memory(running));
        std::thread::sleep(AFTER);
        happened.memory.extend(self.memory(running));
        Ok(Ok(happened))
    }

    fn signal(&mut self, running: &Running, scenario: Scenario) -> Result<(), CampaignError> {
        let Some((handle, _)) = running.handle else { return Ok(()) };
        let signal = match scenario {
            Scenario::Reload => running.signals.reload.unwrap_or(Signal::Hup),
            _ => running.signals.drain,
        };
        Ok(self.there.signal(handle, signal)?)
    }

    fn memory(&mut self, running: &Running) -> Option<u64> {
        let reading = self.there.reading(running.handle?.0)?;
        reading.pss_bytes.or(reading.rss_bytes)
    }

    /// CPU time so far: by the clock of threads, which loses those that have ended, or by ticks.
    fn cpu(&mut self, running: &Running) -> Option<[f64; 2]> {
        let reading = self.there.reading(running.handle?.0)?;
        Some([reading.on_cpu_s.unwrap_or(0.0), reading.user_s.unwrap_or(0.0) + reading.system_s.unwrap_or(0.0)])
    }

    /// CPU time so far of all that belongs to a trial: gateway, upstream and this process.
    fn own_cpu(&mut self, running: &Running, upstream: &ProbeUpstream) -> f64 {
        let here = Process::of(std::process::id());
        let here = process::reading(&here.into_iter().collect::<Vec<_>>(), Units::here());
        let upstream = upstream.reading(self);
        let of = |reading: Reading| reading.on_cpu_s.unwrap_or(0.0);
        self.cpu(running).map_or(0.0, |cpu| cpu[0]) + upstream.map_or(0.0, of) + of(here)
    }

    /// The scenarios of the plan, if there are any.
    pub(super) fn scenarios(&self) -> Option<Life> {
        if let Profile::Life(life) = &self.plan.profile { Some(life.clone()) } else { None }
    }
}

/// When something happened, and what was seen meanwhile.
struct Happened {
    begun: Instant,
    /// The end of the fault.
    ended: Instant,
    took: Option<Duration>,
    memory: Vec<u64>,
}

/// Waits until something is so; how long that took.
fn wait(
    memory: &mut Vec<u64>,
    mut used: impl FnMut() -> Option<u64>,
    mut so: impl FnMut() -> bool,
) -> Option<Duration> {
    let begun = Instant::now();
    while begun.elapsed() < LONGEST {
        if so() {
            return Some(begun.elapsed());
        }
        memory.extend(used());
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

/// The share of all processors that programs used which do not belong to the trial, and that the host gave to others.
fn others(begin: Option<&Ticks>, end: Option<&Ticks>, used_s: f64, elapsed: Duration) -> f64 {
    let machine = machine::between(begin, end, None);
    let cpus = end.map_or(1, |ticks| ticks.by_cpu.len().max(1)) as f64;
    let own = used_s / (elapsed.as_secs_f64() * cpus).max(1e-9);
    (machine.busy.unwrap_or(0.0) + machine.steal.unwrap_or(0.0) - own).max(0.0)
}

/// What the requests say.
fn judge(scenario: Scenario, sent: &[Sent], happened: &Happened) -> LifeTrial {
    // Once a gateway that drains accepts no more, a refused connection is what it promises.
    let counts = |one: &&Sent| {
        !(scenario == Scenario::Drain && one.due >= happened.begun && one.outcome == Err(crate::load::Lost::Refused))
    };
    let failed: Vec<&Sent> = sent.iter().filter(counts).filter(|one| one.failure().is_some()).collect();
    let early = failed.iter().filter(|one| one.done < happened.begun).count();
    let last = failed.iter().map(|one| one.done).filter(|done| *done >= happened.begun).max();
    let took = |one: &Sent| one.done.saturating_duration_since(one.due).as_secs_f64() * 1e3;
    let good = sent.iter().filter(|one| one.failure().is_none());
    LifeTrial {
        state: match early {
            0 => LifeState::Counts,
            _ => LifeState::Void(format!("{early} requests went wrong before anything had happened")),
        },
        sent: sent.iter().filter(counts).count() as u64,
        failed: client::kinds(failed.iter().copied()),
        recovery_ms: Some(last.map_or(0.0, |last| last.saturating_duration_since(happened.ended).as_secs_f64() * 1e3)),
        slowest_ms: good.map(took).reduce(f64::max),
        ..LifeTrial::default()
    }
}

#[cfg(test)]
mod tests;
