//! A campaign: rounds in which every system runs every workload.
//!
//! A *turn* is one system in one round: its upstreams are started (anew, unless the evaluation says otherwise), then the system, then each
//! workload runs in order, and both are stopped. Turns are what a campaign goes on from after it was killed: a finished one is kept, one that was
//! cut short is done again from its beginning, since its workloads may build on each other.

mod addressed;
mod backend;
mod certificate;
mod conformance;
mod environment;
pub mod estimate;
pub mod events;
mod fleet;
mod generate;
mod id;
mod inputs;
mod life;
pub mod metrics;
mod probe;
mod profile;
mod program;
pub mod progress;
mod search;
mod service;
mod share;
mod start;
mod store;
mod system_round;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::deploy::DeployError;
use crate::machines::{Machines, MachinesError};
use crate::plan::{Pin, Plan, PlannedLoad, System, SystemKind};
use crate::profile::Clients;
use backend::Backends;
use certificate::Certificate;
use fleet::{Deployers, Opened};
use generate::Generate;
use progress::Progress;
use system_round::Repeated;

use crate::results::{
    self, ConfigurationFile, Conformance, Results, Role, SystemState, Trial, TrialState, WorkloadPlan,
};
pub(crate) use addressed::describe as load_words;
pub use id::id;
pub use store::{Store, StoreError, has_begun};

/// How a campaign is run; none of it changes what is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// This program: it is started again as generator and as launcher.
    pub gauge: PathBuf,
    /// The command line, for the report.
    pub command: String,
    /// Forget what an earlier run left in the directory.
    pub fresh: bool,
    /// Becomes true when somebody wants it to end.
    pub stop: Arc<AtomicBool>,
    /// Machines that are made for it. Whoever runs the campaign destroys them after it, whatever came of it.
    pub machines: Arc<Machines>,
}

impl Options {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Why a campaign ended before its plan did.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// Its directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A machine or a process did not do what it must.
    #[error(transparent)]
    Deploy(#[from] DeployError),
    /// The machines could not be made.
    #[error(transparent)]
    Machines(MachinesError),
    /// The upstreams did not start, or do not respond as the workload expects: then nothing can be compared.
    #[error("{0}")]
    Backend(String),
    /// The description does not say where requests go.
    #[error("the API cannot be turned into a gateway's configuration:\n{0}")]
    Model(#[from] crate::gateway::ModelError),
    /// Somebody stopped it.
    #[error("stopped; finished rounds are kept, and the same command continues")]
    Stopped,
}

/// How often a trial is repeated when the machine or the generator did not meet its conditions. At most half of the rounds of a campaign's
/// systems are repeated.
const REPEATS: usize = 2;

/// Milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// What a campaign works with.
struct Campaign<'p> {
    plan: &'p Plan,
    options: &'p Options,
    store: Store,
    results: Results,
    /// Where systems and upstreams run.
    there: Deployers,
    generate: Generate,
    backends: Backends,
    /// How gateways are reached.
    clients: Clients,
    /// What gateways show to clients that use TLS.
    certificate: Option<Certificate>,
    pin: Pin,
    progress: &'p mut dyn Progress,
    /// Something was here from an earlier run.
    resumed: bool,
    /// What is otherwise than it was then.
    otherwise: Vec<String>,
}

/// Runs a plan, or what is left of it, in the directory `out`.
///
/// # Errors
/// When it cannot go on. What was measured until then is in the directory; the same call goes on from there.
pub fn run(plan: &Plan, out: &Path, options: &Options, progress: &mut dyn Progress) -> Result<Results, CampaignError> {
    let (store, found) = Store::open(out, plan, options.fresh)?;
    let done = found.as_ref().is_some_and(|results| results.ended_unix_ms.is_some());
    let Opened { mut there, generators, pin } = fleet::open(plan, &store, options, done, progress)?;
    let generate = Generate::new(generators, &store, plan, &pin)?;
    let environment = environment::environment(plan, &mut there, &generate, &pin);
    let backends = Backends::new(plan, there.upstream(), &pin, &options.gauge)?;
    let resumed = found.is_some();
    let mut results = found.unwrap_or_else(|| begin(plan, options, environment.clone()));
    if results.trials.is_empty() && results.searches.is_empty() {
        results.environment = environment.clone();
    }
    let otherwise = environment::differences(&results.environment, &environment);
    let mut clients = plan.profile.clients();
    let certificate = Certificate::make(&mut clients, there.listen(), &store)?;
    let mut campaign = Campaign {
        plan,
        options,
        store,
        results,
        there,
        generate,
        backends,
        clients,
        certificate,
        pin,
        progress,
        resumed,
        otherwise,
    };
    // Before it is in the history: a campaign that is killed then goes on as the same one.
    campaign.store.campaign(&campaign.results)?;
    campaign.progress.begun(&campaign.results);
    // Looking at processes must not take time from the system's processors.
    if !campaign.pin.generator.is_empty() {
        pin_self(&campaign.pin.generator);
    }
    let outcome = campaign.rounds();
    campaign.backends.stop(campaign.there.upstream());
    campaign.store.campaign(&campaign.results)?;
    campaign.progress.ended(&campaign.results);
    outcome?;
    campaign.store.tidy();
    Ok(campaign.results)
}

fn pin_self(cpus: &[u32]) {
    let mut set = rustix::thread::CpuSet::new();
    for cpu in cpus {
        set.set(*cpu as usize);
    }
    // Without it figures are a little noisier, no more.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

fn begin(plan: &Plan, options: &Options, environment: results::Environment) -> Results {
    let role = |system: &System| match (&system.control_of, &system.kind) {
        (Some(of), _) => Role::ControlOf(of.clone()),
        (None, SystemKind::Direct) => Role::Direct,
        (None, SystemKind::Gateway(_)) => Role::Gateway,
        (None, SystemKind::Service(_)) => Role::Service,
    };
    let system = |system: &System| results::System {
        name: system.name.clone(),
        role: role(system),
        gateway: system.variant().map(|variant| variant.gateway.clone()),
        language: system.service().and_then(|service| service.language.clone()),
        version: None,
        state: SystemState::Ready,
        configuration: Vec::new(),
        command: Vec::new(),
        conformance: None,
    };
    let allowed = |workload: &crate::plan::Workload| {
        plan.profile.allowed_rate(workload.operations.iter().map(|planned| &planned.operation))
    };
    let workload = |workload: &crate::plan::Workload| WorkloadPlan {
        name: workload.name.clone(),
        operations: workload.operations.iter().map(|planned| planned.operation.id.clone()).collect(),
        generator: workload.generator.name().to_owned(),
        load: addressed::describe(&workload.load),
        weight: workload.weight,
        planned: results::Planned { allowed_rate: allowed(workload), ..addressed::figures(&workload.load) },
        phases: addressed::phases(&workload.load),
        payload: workload.payload(),
        mode: workload.mode.map(str::to_owned),
        treatment: workload.treatment.clone(),
    };
    Results {
        format: results::FORMAT,
        name: plan.name.clone(),
        description: plan.description.clone(),
        gauge: env!("CARGO_PKG_VERSION").to_owned(),
        command: options.command.clone(),
        evaluation: plan.text.clone(),
        started_unix_ms: unix_ms(),
        ended_unix_ms: None,
        quick: plan.quick,
        rounds: plan.repeats,
        profile: plan.profile.name().to_owned(),
        slo: plan.slo,
        fail: plan.fail.clone(),
        reference: plan.reference.clone(),
        weights: plan.weights.clone(),
        price: plan.price,
        inputs: inputs::named(plan),
        environment,
        systems: plan.systems.iter().map(system).collect(),
        workloads: plan.workloads.iter().map(workload).collect(),
        trials: Vec::new(),
        continued: Vec::new(),
        searches: Vec::new(),
        life: Vec::new(),
    }
}

impl Campaign<'_> {
    fn rounds(&mut self) -> Result<(), CampaignError> {
        self.check_conformance()?;
        self.store.campaign(&self.results)?;
        if let Some(life) = self.scenarios() {
            self.life(&life)?;
            self.results.ended_unix_ms = Some(unix_ms());
            return Ok(());
        }
        let ready: Vec<&System> = self.plan.systems.iter().filter(|system| self.takes_part(system)).collect();
        let places =
            |round| order(round, &ready).into_iter().zip(0..).map(move |(system, place)| (round, place, system));
        let planned: Vec<(u32, u32, &System)> = (1..=self.plan.repeats).flat_map(places).collect();
        let left: Vec<_> = planned.iter().filter(|(round, _, system)| !self.is_done(*round, system)).collect();
        self.progress.planned(planned.len(), planned.len() - left.len());
        if self.resumed && !left.is_empty() {
            self.same_as_before()?;
        }
        let (mut last, mut budget) = (0, planned.len().div_ceil(2));
        for (round, place, system) in left {
            if self.options.stopped() {
                return Err(CampaignError::Stopped);
            }
            if *round != last {
                self.backends.new_round();
                last = *round;
            }
            self.system_round(*round, *place, system, &Repeated::new())?;
            let mut reasons = Repeated::new();
            loop {
                let repeated = self.to_repeat(*round, system, &mut reasons);
                if repeated.is_empty() || budget == 0 {
                    break;
                }
                budget -= 1;
                for (index, why) in &repeated {
                    let (workload, why) = (&self.plan.workloads[*index].name, why.last().map_or("", String::as_str));
                    self.progress.warning(&format!("round {round}, {} under {workload}: repeated, {why}", system.name));
                }
                self.system_round(*round, *place, system, &repeated)?;
            }
            self.store.campaign(&self.results)?;
            self.progress.system_done();
        }
        self.results.ended_unix_ms = Some(unix_ms());
        Ok(())
    }

    /// The trials of a system in a round that did not meet a condition, so that they say nothing of the system, and were not repeated too often. `reasons`
    /// collects why.
    fn to_repeat(&self, round: u32, system: &System, reasons: &mut Repeated) -> Repeated {
        let mut repeated = Repeated::new();
        for (index, workload) in self.plan.workloads.iter().enumerate() {
            let own = |of: (u32, &String, &String)| of == (round, &system.name, &workload.name);
            let trial = self.results.trials.iter().find(|trial| own((trial.round, &trial.system, &trial.workload)));
            let mut searches = self.results.searches.iter();
            let search = searches.find(|search| own((search.round, &search.system, &search.workload)));
            let of_search = || search.and_then(search::to_repeat);
            let why = trial.and_then(|trial| crate::judgement::unmet(&self.results, trial)).or_else(of_search);
            let all = reasons.entry(index).or_default();
            if let Some(why) = why.filter(|_| all.len() < REPEATS) {
                all.push(why);
                repeated.insert(index, all.clone());
            }
        }
        repeated
    }

    /// Figures of two programs under one name are refused; other circumstances are said, since rounds are compared with themselves.
    fn same_as_before(&mut self) -> Result<(), CampaignError> {
        let mut now = BTreeMap::new();
        let ready: Vec<&System> = self.plan.systems.iter().filter(|system| self.takes_part(system)).collect();
        for system in ready {
            let Some(variant) = system.variant() else { continue };
            let Some(adapter) = crate::gateway::by_name(&variant.gateway) else { continue };
            let there = self.there.as_mut();
            let Some(program) = start::locate(there, adapter)? else { continue };
            now.extend(there.fingerprint(&program.path).map(|found| (inputs::program(&system.name), found)));
        }
        let changed = inputs::changed(&self.results.inputs, &now);
        if !changed.is_empty() {
            let why = format!("it holds results from before {} changed", changed.join(" and "));
            return Err(self.store.other(why).into());
        }
        if !self.otherwise.is_empty() {
            let differences = self.otherwise.join(", ");
            self.progress.warning(&format!("differences from the rounds before: {differences}"));
            if self.results.continued.last() != Some(&differences) {
                self.results.continued.push(differences);
            }
        }
        Ok(())
    }

    /// Whether a system is loaded at all.
    fn takes_part(&self, system: &System) -> bool {
        let original = system.control_of.as_ref().unwrap_or(&system.name);
        let state = |name: &str| self.results.systems.iter().find(|found| found.name == name).map(|found| &found.state);
        state(&system.name) == Some(&SystemState::Ready) && state(original) == Some(&SystemState::Ready)
    }

    /// Whether every workload of a system in a round has come to an end by itself.
    fn is_done(&self, round: u32, system: &System) -> bool {
        self.plan.workloads.iter().all(|workload| match &workload.load {
            PlannedLoad::Search(search) if round > search.rounds => true,
            PlannedLoad::Search(_) => self.results.searches.iter().any(|search| {
                search.round == round && search.system == system.name && search.workload == workload.name
            }),
            PlannedLoad::Fixed(_) => self.results.trials.iter().any(|run| {
                (run.round, &run.system, &run.workload) == (round, &system.name, &workload.name)
                    && matches!(run.state, TrialState::Done | TrialState::Failed(_) | TrialState::Void(_))
            }),
        })
    }

    /// Writes down where a run is.
    fn note(&mut self, run: &Trial) -> Result<(), CampaignError> {
        self.progress.state(run);
        self.store.state(run).map_err(CampaignError::from)
    }

    fn system_mut(&mut self, name: &str) -> Option<&mut results::System> {
        self.results.systems.iter_mut().find(|system| system.name == name)
    }

    /// Tries every system once, before any load: is it here, does it start, does it respond as `direct` does?
    fn check_conformance(&mut self) -> Result<(), CampaignError> {
        let tried = |system: &results::System| system.conformance.is_some() || system.state != SystemState::Ready;
        if self.results.systems.iter().all(tried) {
            // Done before it was stopped.
            return Ok(());
        }
        // Never begun, or stopped in the middle: what was found then, of upstreams that have ended, is nothing to compare with.
        for system in &mut self.results.systems {
            (system.state, system.conformance, system.version) = (SystemState::Ready, None, None);
            system.configuration.clear();
            system.command.clear();
        }
        // There is nothing that the responses of services could be compared with.
        let services = self.plan.systems.iter().all(|system| system.service().is_some());
        let expected = if services { conformance::Expected::default() } else { conformance::expected(self)? };
        for system in &self.plan.systems {
            if self.options.stopped() {
                return Err(CampaignError::Stopped);
            }
            self.progress.checking(&system.name);
            match (&system.control_of, &system.kind) {
                (None, SystemKind::Direct) => self.record(system, Some(conformance::of_direct(&expected))),
                (None, SystemKind::Gateway(_) | SystemKind::Service(_)) => {
                    let conformance = self.try_system(system, &expected)?;
                    self.record(system, conformance);
                }
                (Some(of), _) => {
                    let original = self.results.systems.iter().find(|found| found.name == *of).cloned();
                    if let (Some(original), Some(control)) = (original, self.system_mut(&system.name)) {
                        control.version = original.version;
                        control.state = original.state;
                        control.configuration = original.configuration;
                        control.command = original.command;
                        control.conformance = original.conformance;
                    }
                }
            }
        }
        Ok(())
    }

    fn record(&mut self, system: &System, conformance: Option<Conformance>) {
        if let Some(found) = self.system_mut(&system.name) {
            if conformance.as_ref().is_some_and(|conformance| !conformance.differences.is_empty()) {
                found.state = SystemState::NotConforming;
            }
            found.conformance = conformance;
        }
    }

    /// Configures, starts and checks a system; `None` when it does not come so far, with the reason in its state.
    fn try_system(
        &mut self,
        system: &System,
        expected: &conformance::Expected,
    ) -> Result<Option<Conformance>, CampaignError> {
        self.backends.new_round();
        self.backends.fresh(self.there.upstream())?;
        let started = start::start(self, system)?;
        let (configured, state) = match started {
            start::Started::Runs(configured, running) => {
                let found = match running.service {
                    Some(_) => self.check_service(&running),
                    None => conformance::compare(self, expected, &running),
                };
                start::stop(self.there.as_mut(), &running);
                self.keep(system, configured);
                let mut found = found?;
                if system.variant().is_some() {
                    found.differences.extend(self.check_profile(system)?);
                }
                return Ok(Some(found));
            }
            start::Started::NotSupported(why) => (None, SystemState::NotSupported(why)),
            start::Started::NotHere(configured, hint) => (Some(configured), SystemState::NotHere(hint)),
            start::Started::Failed(configured, why) => (configured, SystemState::Failed(why)),
            start::Started::Ended(configured, why) => (Some(configured), SystemState::Failed(why)),
            start::Started::NoPort(why) => return Err(CampaignError::Backend(format!("{}: {why}", system.name))),
        };
        if let Some(configured) = configured {
            self.keep(system, configured);
        }
        if let Some(found) = self.system_mut(&system.name) {
            found.state = state;
        }
        Ok(None)
    }

    fn keep(&mut self, system: &System, configured: start::Configured) {
        let program = configured.program.map(|program| (inputs::program(&system.name), program));
        self.results.inputs.extend(program);
        let secrets = &self.plan.secrets;
        if let Some(found) = self.system_mut(&system.name) {
            found.version = configured.version;
            let command = configured.command.into_iter().map(|word| crate::plan::redact(&word, secrets));
            found.command = command.collect();
            let file = |file: crate::gateway::File| ConfigurationFile {
                path: file.path,
                text: crate::plan::redact(&file.text, secrets),
            };
            found.configuration = configured.files.into_iter().map(file).collect();
        }
    }
}

/// The order of a round, from 1: a row of the Latin square of E. J. Williams, "Experimental designs balanced for the estimation of residual effects of
/// treatments", 1949. What a system leaves on the machine (heat, a cache) hits whoever comes next; after as many rounds as there are systems (twice as
/// many where their number is odd), each has had each place equally often and followed each other equally often. Every second round is the one before
/// it backwards, so that a drift inside of rounds hits all alike from the second round on.
fn order<T: Copy>(round: u32, systems: &[T]) -> Vec<T> {
    let count = systems.len();
    let shift = (round.saturating_sub(1) / 2) as usize;
    // From both ends to the middle, 0, 1, -1, 2, -2: each step is another distance on the circle, and all rows together make each step from each system.
    let zigzag = |place: usize| if place.is_multiple_of(2) { count - place / 2 } else { place.div_ceil(2) };
    let mut order: Vec<T> = (0..count).map(|place| systems[(zigzag(place) + shift) % count]).collect();
    if round.is_multiple_of(2) {
        order.reverse();
    }
    order
}

/// Marks a run that was cut short.
fn aborted(run: &mut Trial, why: &str) {
    run.state = TrialState::Aborted(why.to_owned());
}

impl From<io::Error> for CampaignError {
    fn from(error: io::Error) -> Self {
        CampaignError::Backend(error.to_string())
    }
}

#[cfg(test)]
mod tests;
