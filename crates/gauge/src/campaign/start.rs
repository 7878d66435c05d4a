//! How a system comes to serve: a gateway is configured and started, a service is started, and without either requests go to the upstreams.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::addressed::Addressed;
use super::backend::Backends;
use super::certificate::Certificate;
use super::program::{self, Placed, Trouble};
use super::{Campaign, CampaignError, probe};
use crate::deploy::{Deployer, Handle, Spec};
use crate::gateway::{self, Gateway, Model, Placement, Ready, Signals, Stop, Written};
use crate::plan::{Deploy, Plan, Program, System, SystemKind, Variant, slug};
use crate::profile::Clients;

/// Time for a gateway to look at its own configuration or to say its version.
const CHECK: Duration = Duration::from_secs(90);

/// What was made for a gateway.
#[derive(Debug, Default)]
pub(super) struct Configured {
    pub(super) version: Option<String>,
    pub(super) files: Vec<gateway::File>,
    pub(super) command: Vec<String>,
    /// Fingerprint of its program, where that was taken.
    pub(super) program: Option<String>,
}

/// A system that serves.
#[derive(Debug)]
pub(super) struct Running {
    /// `None` for the baseline.
    pub(super) handle: Option<(Handle, Stop)>,
    pub(super) addressed: Addressed,
    /// Where a gateway runs.
    pub(super) place: Option<Placement>,
    pub(super) signals: Signals,
    /// A service, with its ports.
    pub(super) service: Option<Box<Placed>>,
}

impl Running {
    fn of(addressed: Addressed) -> Self {
        Running { handle: None, addressed, place: None, signals: Signals::default(), service: None }
    }
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
    /// It cannot do what the profile requires; why.
    NotSupported(String),
    Failed(Option<Configured>, String),
    /// It ended before it served; why.
    Ended(Configured, String),
    /// There was no port for it, which is not its doing; why.
    NoPort(String),
}

/// How often another port is tried.
const PORTS: usize = 3;

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
    let variant = match &system.kind {
        SystemKind::Gateway(variant) => variant,
        SystemKind::Service(service) => return start_service(campaign, system, service),
        SystemKind::Direct => {
            let origins = campaign.backends.for_generator(campaign.there.upstream())?;
            let addressed = Addressed::Direct(origins, Box::new(campaign.plan.profile.baseline()));
            return Ok(Started::Runs(Configured::default(), Running::of(addressed)));
        }
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

/// The name of a service's program where `PATH` does not have it: then others can still be compared.
fn missing<'p>(plan: &'p Plan, service: &'p Program) -> Option<&'p str> {
    let name = service.command.first().filter(|name| !name.contains(['/', '{']) && plan.deploy == Deploy::Local)?;
    let paths = service.env.get("PATH").map(Into::into).or_else(|| std::env::var_os("PATH"))?;
    let found = std::env::split_paths(&paths).any(|folder| folder.join(name).is_file());
    (!found).then_some(name)
}

/// Starts a service. The programs behind it run.
fn start_service(campaign: &mut Campaign<'_>, system: &System, service: &Program) -> Result<Started, CampaignError> {
    if let Some(name) = missing(campaign.plan, service) {
        return Ok(Started::NotHere(Configured::default(), format!("`{name}` is not on PATH")));
    }
    let there = campaign.there.as_mut();
    let (cpus, memory) = (&campaign.pin.system, campaign.plan.hardware.memory_bytes);
    let mut said = String::new();
    for _ in 0..PORTS {
        let placed = Placed::new(service, ("system", &system.name), there, cpus, memory)?;
        let (spec, started) = placed.start(&campaign.backends.names, there)?;
        let configured = Configured {
            program: there.fingerprint(spec.argv.first().map_or("".as_ref(), |program| program.as_ref())),
            command: spec.argv,
            ..Configured::default()
        };
        match started {
            Ok(handle) => {
                let origins = placed.for_generator(there)?;
                let addressed = match &service.grpc {
                    Some(calls) => Addressed::Grpc(origins, calls.clone()),
                    None => Addressed::Direct(origins, Box::default()),
                };
                let handle = Some((handle, program::STOP));
                return Ok(Started::Runs(
                    configured,
                    Running { handle, service: Some(Box::new(placed)), ..Running::of(addressed) },
                ));
            }
            Err(Trouble::Ended(why)) if port_was_taken(&why) => said = why,
            Err(Trouble::Ended(why)) => return Ok(Started::Ended(configured, why)),
            Err(Trouble::Silent(why)) => return Ok(Started::Failed(Some(configured), why)),
        }
    }
    Ok(Started::NoPort(format!("{PORTS} ports that were free were taken before the service could bind them; {said}")))
}

fn start_gateway(
    campaign: &mut Campaign<'_>,
    system: &System,
    variant: &Variant,
    before: InFront,
) -> Result<Started, CampaignError> {
    let behind = campaign.there.upstream().listen();
    let there = campaign.there.as_mut();
    let Some(adapter) = gateway::by_name(&variant.gateway) else {
        return Ok(Started::Failed(None, format!("unknown gateway `{}`", variant.gateway)));
    };
    let profile = &campaign.plan.profile;
    // A variant with files of its own may do what the adapter cannot.
    if let Err(why) = adapter.profile(profile)
        && variant.files.is_empty()
    {
        return Ok(Started::NotSupported(why.to_owned()));
    }
    let model = model(campaign.plan, &campaign.backends, behind, there.listen(), before)?;
    let ports = there.free_ports(1 + adapter.extra_ports().len())?;
    let Some((port, extra)) = ports.split_first() else {
        return Ok(Started::NoPort("there is no free port".to_owned()));
    };
    let hardware = &campaign.plan.hardware;
    let place = Placement {
        listen: SocketAddr::new(there.listen(), *port),
        extra: extra.to_vec(),
        // Backends have directories there too, and what is copied there: no system's name may collide with those.
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
    for (file, text) in campaign.certificate.iter().flat_map(Certificate::files) {
        there.write(&place.directory.join(file), text.as_bytes())?;
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
        // Once, at the first start, whether it can be read or not.
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
    let (ready, clients) = (adapter.ready(&place), campaign.clients.clone());
    match program::wait(there, handle, |there| serves(there, &ready, &clients)) {
        None => {
            let running = Running {
                handle: Some((handle, adapter.stop())),
                place: Some(place),
                signals: adapter.signals(),
                ..Running::of(Addressed::Gateway(there.reach(*port)?, Box::new(clients)))
            };
            Ok(Started::Runs(configured, running))
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
    let cache = program::cache();
    let made = adapter.locator().names.iter().map(|name| cache.join(name)).find(|file| file.is_file());
    match made {
        Some(file) => Ok(Some(gateway::Program { path: there.upload(&file)? })),
        None => Ok(None),
    }
}

/// What a gateway has to do: `behind` is where backends listen, `beside` where programs on its own machine do.
fn model(
    plan: &Plan,
    backends: &Backends,
    behind: IpAddr,
    beside: IpAddr,
    before: InFront,
) -> Result<Model, CampaignError> {
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
    let mut upstreams = backends.for_gateways(&api, behind);
    if let Some(port) = before.upstream {
        let origins = api.operations.iter().map(|operation| operation.origin().unwrap_or("").to_owned());
        let url = format!("http://{}", SocketAddr::new(beside, port));
        upstreams = origins.map(|origin| (origin, url.clone())).collect();
    }
    let settings = gateway::Settings::of_profile(plan.profile.clone());
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
    let behind = campaign.there.upstream().listen();
    let there = campaign.there.as_mut();
    let model = model(campaign.plan, &campaign.backends, behind, there.listen(), before)?;
    let written = gateway::by_name(&variant.gateway).and_then(|adapter| adapter.files(&model, place).ok());
    let mut written = written.unwrap_or_default();
    variant.apply(&mut written, &model, place);
    for file in &written.files {
        there.write(&place.directory.join(&file.path), file.text.as_bytes())?;
    }
    Ok(())
}

/// Whether a gateway serves. Any response will do where only a connection is wanted: through a tunnel everything seems to listen.
fn serves(there: &mut dyn Deployer, ready: &Ready, clients: &Clients) -> bool {
    match ready {
        Ready::Tcp(address) => there.reach(address.port()).is_ok_and(|address| probe::responds(address, clients)),
        Ready::Http { address, path, status } => {
            there.reach(address.port()).is_ok_and(|address| probe::has_status(address, path, *status, clients))
        }
    }
}

pub(super) fn stop(there: &mut dyn Deployer, running: &Running) {
    if let Some((handle, stop)) = running.handle {
        there.stop(handle, stop);
    }
}
