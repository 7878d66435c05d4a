//! One system in one round: it is started, runs every workload, and is stopped.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use super::backend::Backends;
use super::lane::Lane;
use super::{Campaign, CampaignError, aborted, probe, search, unix_ms};
use crate::deploy::{Deployer, Handle, Spec};
use crate::gateway::{self, Gateway, Model, Place, Ready, Signals, Stop, Written};
use crate::plan::{Plan, PlannedLoad, System, Variant, Workload, slug};
use crate::results::{Trial, TrialState};

/// Time for a gateway to start: a JVM on a slow machine.
const START: Duration = Duration::from_secs(90);
/// Time for a gateway to look at its own configuration or to say its version.
const CHECK: Duration = Duration::from_secs(90);

/// What was made for a gateway.
#[derive(Debug, Default)]
pub(super) struct Configured {
    pub(super) version: Option<String>,
    pub(super) files: Vec<gateway::File>,
    pub(super) command: Vec<String>,
    /// Fingerprint of its program, where that was asked.
    pub(super) program: Option<String>,
}

/// A system that serves.
#[derive(Debug)]
pub(super) struct Running {
    /// `None` for the lane without a gateway.
    pub(super) handle: Option<(Handle, Stop)>,
    pub(super) lane: Lane,
    /// Where it runs; `None` without a gateway.
    pub(super) place: Option<Place>,
    pub(super) signals: Signals,
}

/// What a system is in front of, where that is not the backends of the campaign.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InFront {
    /// One port for all origins of the API.
    pub(super) upstream: Option<u16>,
    /// Routes more than the API has.
    pub(super) routes: u32,
}

/// How a start went.
#[derive(Debug)]
pub(super) enum Started {
    Runs(Configured, Running),
    NotHere(Configured, String),
    /// It cannot do what the profile asks for; why.
    NotSupported(String),
    Failed(Option<Configured>, String),
    /// It ended before it served; why.
    Ended(Configured, String),
    /// There was no port for it, which is not its doing; why.
    NoPort(String),
}

/// How often another port is tried.
const PORTS: usize = 3;

/// The trials of a turn that are repeated: their workloads, by place in the plan, and the conditions that were not met each time. Empty: the whole turn is
/// run for the first time.
pub(super) type Repeated = BTreeMap<usize, Vec<String>>;

/// Why a gateway does not serve.
enum Trouble {
    Ended(String),
    Silent(String),
}

/// Configures and starts a system. The upstreams run.
pub(super) fn start(campaign: &mut Campaign<'_>, system: &System) -> Result<Started, CampaignError> {
    start_before(campaign, system, InFront::default())
}

/// The same in front of something else than the backends.
pub(super) fn start_before(
    campaign: &mut Campaign<'_>,
    system: &System,
    before: InFront,
) -> Result<Started, CampaignError> {
    let Some(variant) = system.variant() else {
        let lane = Lane::Direct(campaign.backends.for_generator(campaign.there.as_mut())?);
        return Ok(Started::Runs(
            Configured::default(),
            Running { handle: None, lane, place: None, signals: Signals::default() },
        ));
    };
    // A port that was free a moment ago may be taken meanwhile, by a connection of anybody's: that is not the gateway's fault. Whatever else ends a
    // gateway at its start is.
    let mut said = String::new();
    for _ in 0..PORTS {
        match start_gateway(campaign, system, variant, before)? {
            Started::Ended(_, why) if port_was_taken(&why) => {
                campaign.progress.warning(&format!("{}: started again on another port, {why}", system.name));
                said = why;
            }
            started => return Ok(started),
        }
    }
    Ok(Started::NoPort(format!("{PORTS} ports that were free were taken before the gateway could bind them; {said}")))
}

/// Whether the last lines of a gateway say that its address was in use, in the words of the C library, of Go, Java and Windows.
fn port_was_taken(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    ["address already in use", "address in use", "eaddrinuse", "os error 98"].iter().any(|words| said.contains(words))
}

fn start_gateway(
    campaign: &mut Campaign<'_>,
    system: &System,
    variant: &Variant,
    before: InFront,
) -> Result<Started, CampaignError> {
    let there = campaign.there.as_mut();
    let Some(adapter) = gateway::by_name(&variant.gateway) else {
        return Ok(Started::Failed(None, format!("there is no gateway `{}`", variant.gateway)));
    };
    let profile = &campaign.plan.profile;
    // A variant with files of its own may do what the adapter cannot.
    if let Err(why) = adapter.profile(profile)
        && variant.files.is_empty()
    {
        return Ok(Started::NotSupported(why.to_owned()));
    }
    let model = model(campaign.plan, &campaign.backends, there.listen(), before)?;
    let ports = there.free_ports(1 + adapter.extra_ports().len())?;
    let Some((port, extra)) = ports.split_first() else {
        return Ok(Started::NoPort("there is no free port".to_owned()));
    };
    let hardware = &campaign.plan.hardware;
    let place = Place {
        listen: SocketAddr::new(there.listen(), *port),
        extra: extra.to_vec(),
        // Backends have directories there too, and what is copied there: no system's name may be one of theirs.
        directory: there.directory().join(format!("system-{}", slug(&system.name))),
        cpus: hardware.cpus,
        memory: hardware.memory_bytes,
    };
    let mut written = match adapter.files(&model, &place) {
        Ok(written) => written,
        Err(_) if !variant.files.is_empty() => Written::default(),
        Err(unsupported) => return Ok(Started::Failed(None, unsupported.to_string())),
    };
    variant.apply(&mut written, &model, &place);
    there.clear(&place.directory)?;
    for file in &written.files {
        there.write(&place.directory.join(&file.path), file.text.as_bytes())?;
    }
    let mut configured = Configured { files: written.files, ..Configured::default() };
    let Some(program) = locate(there, adapter)? else {
        return Ok(Started::NotHere(configured, adapter.locator().hint.to_owned()));
    };
    let spec = |command: gateway::Command, what: &str| Spec {
        name: format!("{what}{}", slug(&system.name)),
        argv: command.argv,
        env: command.env.into_iter().chain(variant.env.clone()).collect(),
        cwd: place.directory.clone(),
        cpus: campaign.pin.system.clone(),
        memory_bytes: hardware.memory_bytes,
    };
    let known = campaign.results.systems.iter().find(|found| found.name == system.name);
    if known.is_none_or(|known| known.command.is_empty()) {
        // Asked once, at the first start, whether it can be read or not.
        let said = there.run(&spec(adapter.version_command(&program), "version-"), CHECK)?;
        configured.program = there.fingerprint(&program.path);
        configured.version = Some(adapter.read_version(&said.text)).filter(|version| !version.is_empty());
        if let Some(check) = adapter.check(&program, &place) {
            let checked = there.run(&spec(check, "check-"), CHECK)?;
            if !checked.success {
                let why = format!("its own check refuses the configuration:\n{}", checked.text);
                return Ok(Started::Failed(Some(configured), why));
            }
        }
    }
    let start = spec(adapter.command(&program, &place), "system-");
    configured.command = start.argv.clone();
    let handle = there.start(&start)?;
    match wait(there, handle, adapter, &place)? {
        None => {
            let lane = Lane::Gateway(there.reach(*port)?);
            Ok(Started::Runs(
                configured,
                Running {
                    handle: Some((handle, adapter.stop())),
                    lane,
                    place: Some(place),
                    signals: adapter.signals(),
                },
            ))
        }
        Some(trouble) => {
            there.stop(handle, adapter.stop());
            Ok(match trouble {
                Trouble::Ended(why) => Started::Ended(configured, why),
                Trouble::Silent(why) => Started::Failed(Some(configured), why),
            })
        }
    }
}

/// The program of a gateway, on the machine or made by the evaluation.
pub(super) fn locate(
    there: &mut dyn Deployer,
    adapter: &dyn Gateway,
) -> Result<Option<gateway::Program>, CampaignError> {
    match there.locate(adapter)? {
        None => built(there, adapter),
        found => Ok(found),
    }
}

/// A program that a `build` of the evaluation made.
fn built(there: &mut dyn Deployer, adapter: &dyn Gateway) -> Result<Option<gateway::Program>, CampaignError> {
    let cache = super::backend::cache();
    let made = adapter.locator().names.iter().map(|name| cache.join(name)).find(|file| file.is_file());
    match made {
        Some(file) => Ok(Some(gateway::Program { path: there.bring(&file)? })),
        None => Ok(None),
    }
}

/// What a gateway has to do.
fn model(plan: &Plan, backends: &Backends, listen: IpAddr, before: InFront) -> Result<Model, CampaignError> {
    let mut api = Cow::Borrowed(&plan.api);
    if let Some(first) = plan.api.operations.first().filter(|_| before.routes > 0) {
        let more = (1..=before.routes).map(|n| apidoc::Operation {
            id: format!("gauge-life-{n}"),
            method: apidoc::Method::Get,
            endpoint_path: format!("/gauge-life-{n}/{{id}}"),
            body: None,
            path_params: BTreeMap::new(),
            query_params: BTreeMap::new(),
            ..first.clone()
        });
        api.to_mut().operations.extend(more);
    }
    let mut upstreams = backends.for_gateways(&api, listen);
    if let Some(port) = before.upstream {
        let origins = api.operations.iter().map(|operation| operation.origin().unwrap_or("").to_owned());
        let url = format!("http://{}", SocketAddr::new(listen, port));
        upstreams = origins.map(|origin| (origin, url.clone())).collect();
    }
    let settings = gateway::Settings { profile: plan.profile.clone(), ..gateway::Settings::default() };
    Ok(Model::new(&api, &gateway::Options { upstreams, settings })?)
}

/// A path of the last of the routes that a model has more than its API.
pub(super) fn life_route(api: &apidoc::Api, routes: u32) -> String {
    let base = api.operations.first().map_or_else(String::new, |first| {
        let whole = first.full_path();
        whole.strip_suffix(first.endpoint_path.as_str()).unwrap_or_default().to_owned()
    });
    format!("{base}/gauge-life-{routes}/7")
}

/// Writes the files of a system that runs anew, for something else to be in front of.
pub(super) fn rewrite(
    campaign: &mut Campaign<'_>,
    system: &System,
    running: &Running,
    before: InFront,
) -> Result<(), CampaignError> {
    let (Some(place), Some(variant)) = (&running.place, system.variant()) else { return Ok(()) };
    let there = campaign.there.as_mut();
    let model = model(campaign.plan, &campaign.backends, there.listen(), before)?;
    let written = gateway::by_name(&variant.gateway).and_then(|adapter| adapter.files(&model, place).ok());
    let mut written = written.unwrap_or_default();
    variant.apply(&mut written, &model, place);
    for file in &written.files {
        there.write(&place.directory.join(&file.path), file.text.as_bytes())?;
    }
    Ok(())
}

/// Waits until a gateway serves; why it does not, if so.
fn wait(
    there: &mut dyn Deployer,
    handle: Handle,
    adapter: &dyn Gateway,
    place: &Place,
) -> Result<Option<Trouble>, CampaignError> {
    let deadline = Instant::now() + START;
    loop {
        let answered = match adapter.ready(place) {
            // Any answer will do: through a tunnel everything seems to listen.
            Ready::Tcp(address) => probe::answers(there.reach(address.port())?, "/").is_some(),
            Ready::Http { address, path, status } => {
                probe::answers(there.reach(address.port())?, &path) == Some(status)
            }
        };
        if !there.is_running(handle) {
            let said = there.log_tail(handle);
            return Ok(Some(Trouble::Ended(format!("it ended at its start; its last lines:\n{said}"))));
        }
        if answered {
            return Ok(None);
        }
        if Instant::now() > deadline {
            let said = there.log_tail(handle);
            let why = format!("it did not serve within {} s; its last lines:\n{said}", START.as_secs());
            return Ok(Some(Trouble::Silent(why)));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(super) fn stop(there: &mut dyn Deployer, running: &Running) {
    if let Some((handle, stop)) = running.handle {
        there.stop(handle, stop);
    }
}

impl Campaign<'_> {
    /// A turn. Failures of the system are results; what is returned as an error ends the campaign. With `repeated` only those trials are made again, and what
    /// the others were stays, failures too.
    pub(super) fn turn(
        &mut self,
        round: u32,
        place: u32,
        system: &System,
        repeated: &Repeated,
    ) -> Result<(), CampaignError> {
        let plan = self.plan;
        let mut runs: Vec<Trial> =
            plan.workloads.iter().map(|workload| planned(round, place, system, workload)).collect();
        for (index, why) in repeated {
            runs[*index].repeated.clone_from(why);
        }
        let whole = repeated.is_empty();
        let made = |name: &str| {
            whole || plan.workloads.iter().position(|own| own.name == name).is_none_or(|at| repeated.contains_key(&at))
        };
        // What an earlier, unfinished turn left. Its files are written over, but for those that an earlier version named otherwise.
        let of_turn = |run: &Trial| (run.round, &run.system) == (round, &system.name) && made(&run.workload);
        for left in self.results.trials.iter().filter(|run| of_turn(run)) {
            if !runs.iter().any(|run| run.id == left.id) {
                self.store.forget(&left.id)?;
            }
        }
        self.results.trials.retain(|run| !of_turn(run));
        self.results
            .searches
            .retain(|search| (search.round, &search.system) != (round, &system.name) || !made(&search.workload));
        if let Some(first) = runs.first_mut() {
            first.state = TrialState::Starting;
            self.note(first)?;
        }
        self.backends.fresh(self.there.as_mut())?;
        let state = match start(self, system)? {
            Started::Runs(_, running) => {
                let outcome = self.workloads(round, system, &running, &mut runs, repeated);
                stop(self.there.as_mut(), &running);
                return outcome;
            }
            Started::NotHere(_, why)
            | Started::NotSupported(why)
            | Started::Failed(_, why)
            | Started::Ended(_, why) => TrialState::Failed(why),
            Started::NoPort(why) => TrialState::Void(why),
        };
        for (run, workload) in runs.iter_mut().zip(&plan.workloads).filter(|(run, _)| made(&run.workload)) {
            if matches!(&workload.load, PlannedLoad::Search(search) if round <= search.rounds) {
                let mut found = search::nothing(round, system, workload);
                match &state {
                    TrialState::Void(why) => found.invalid = Some(search::not_measured(why)),
                    TrialState::Failed(why) => found.failed = Some(why.clone()),
                    _ => {}
                }
                self.results.searches.push(found);
            }
            run.state = state.clone();
            self.finish(run, workload)?;
        }
        Ok(())
    }

    fn workloads(
        &mut self,
        round: u32,
        system: &System,
        running: &Running,
        runs: &mut [Trial],
        repeated: &Repeated,
    ) -> Result<(), CampaignError> {
        let plan = self.plan;
        let mut places: Vec<usize> = (0..plan.workloads.len()).collect();
        if !plan.fixed_order {
            places = super::order(round, &places);
        }
        let made = |index: &usize| repeated.is_empty() || repeated.contains_key(index);
        // Where workloads build on each other, those before a repeated one come first again.
        let last = repeated.keys().last().copied();
        places.retain(|index| made(index) || (plan.fixed_order && Some(*index) < last));
        for index in places {
            let counts = made(&index);
            let (workload, run) = (&plan.workloads[index], &mut runs[index]);
            match &workload.load {
                PlannedLoad::Search(search) if round <= search.rounds && counts => {
                    run.state = TrialState::Measuring;
                    self.note(run)?;
                    let found = search::search(self, round, system, workload, search, running)?;
                    self.results.searches.push(found);
                    self.store.campaign(&self.results)?;
                }
                PlannedLoad::Search(_) => {}
                PlannedLoad::Fixed(load) => {
                    run.state = TrialState::Warming;
                    run.started_unix_ms = Some(unix_ms());
                    self.note(run)?;
                    match self.measure(&run.id, round, workload, load, run.treatment.as_ref(), running) {
                        Ok((report, observed)) => {
                            run.treated = report.total.marked_share();
                            run.report = Some(report);
                            run.observed = Some(observed);
                            run.state = TrialState::Done;
                        }
                        Err(super::generate::Failure::Stopped) => {
                            aborted(run, "stopped by Ctrl-C or a signal");
                            self.finish(run, workload)?;
                            return Err(CampaignError::Stopped);
                        }
                        Err(super::generate::Failure::Trial(why)) => run.state = TrialState::Failed(why),
                        Err(super::generate::Failure::Condition(why)) => run.state = TrialState::Void(why),
                        Err(super::generate::Failure::Campaign(error)) => return Err(error),
                    }
                    match (&run.state, counts) {
                        (_, true) => self.finish(run, workload)?,
                        // A gateway that fails in what was only to lead up to another trial has failed in it.
                        (TrialState::Failed(_), false) => {
                            let same = |other: &Trial| other.id != run.id;
                            self.results.trials.retain(same);
                            self.finish(run, workload)?;
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }

    /// Keeps a run that came to an end.
    fn finish(&mut self, run: &Trial, workload: &Workload) -> Result<(), CampaignError> {
        if matches!(workload.load, PlannedLoad::Search(_)) {
            return Ok(());
        }
        self.store.run(run)?;
        self.note(run)?;
        self.results.trials.push(run.clone());
        Ok(())
    }
}

/// Names a run and its file. The dot keeps names apart that a dash would not: `a` under `b c` and `a b` under `c`.
pub(super) fn id(round: u32, system: &System, workload: &Workload) -> String {
    format!("r{round:02}-{}.{}", slug(&system.name), slug(&workload.name))
}

fn planned(round: u32, place: u32, system: &System, workload: &Workload) -> Trial {
    Trial {
        id: id(round, system, workload),
        round,
        place,
        system: system.name.clone(),
        workload: workload.name.clone(),
        state: TrialState::Planned,
        started_unix_ms: None,
        report: None,
        observed: None,
        treatment: system.treatment.clone().or_else(|| workload.treatment.clone()),
        treated: None,
        repeated: Vec::new(),
    }
}
