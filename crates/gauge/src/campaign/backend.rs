//! The programs behind the systems: made once, started with free ports and an empty folder when they are to be fresh.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use super::CampaignError;
use super::program::{Names, Placed, STOP, Trouble, cache};
use super::progress::Progress;
use crate::deploy::{DeployError, Deployer, Handle, Local, Spec};
use crate::observe::Reading;
use crate::plan::{Backend, Pin, Plan, Restart, System};
use crate::results::Reached;

/// Time to compile a program.
const BUILD: Duration = Duration::from_secs(900);
/// Time for a command that empties or fills a store.
const RESET: Duration = Duration::from_secs(120);

/// Makes what has to be made: programs of gateways, without which the campaign goes on, and those of backends and services, without which it cannot.
pub(super) fn build(plan: &Plan, here: &mut Local, progress: &mut dyn Progress) -> Result<(), CampaignError> {
    let backends = plan.backends.iter().map(|backend| &backend.program);
    let programs = || backends.clone().chain(plan.systems.iter().filter_map(System::service));
    if plan.builds.is_empty() && programs().all(|program| program.build.is_none()) {
        return Ok(());
    }
    let cache = cache();
    std::fs::create_dir_all(&cache).map_err(|error| DeployError::file(&cache, error))?;
    let mut make = |command: &[String], cwd: &Path| -> Result<(), String> {
        let fill = |text: &String| {
            text.replace("{cache}", &cache.to_string_lossy()).replace("{folder}", &plan.folder.to_string_lossy())
        };
        let argv: Vec<String> = command.iter().map(fill).collect();
        progress.building(&argv.join(" "));
        let spec = Spec { name: "build".to_owned(), argv, cwd: cwd.to_owned(), ..Spec::default() };
        match here.run(&spec, BUILD) {
            Ok(output) if output.success => Ok(()),
            Ok(output) => Err(format!("`{}` failed:\n{}", spec.argv.join(" "), output.text)),
            Err(error) => Err(error.to_string()),
        }
    };
    let mut failed = Vec::new();
    for (command, cwd) in &plan.builds {
        failed.extend(make(command, cwd).err());
    }
    let mut made = Vec::new();
    for program in programs() {
        // Services of one workspace are often made by one command.
        if let Some(build) = program.build.as_ref().filter(|build| !made.contains(build)) {
            make(&build.0, &build.1).map_err(|why| CampaignError::Backend(format!("`{}`: {why}", program.name)))?;
            made.push(build);
        }
    }
    for why in failed {
        progress.warning(&why);
    }
    Ok(())
}

/// The backends of a campaign.
#[derive(Debug)]
pub(super) struct Backends {
    list: Vec<One>,
    /// What braces stand for in their commands, and in those of services.
    pub(super) names: Names,
}

#[derive(Debug)]
struct One {
    backend: Backend,
    placed: Placed,
    running: Option<Handle>,
    /// It is to be started anew before it is used again.
    stale: bool,
}

impl Backends {
    pub(super) fn new(plan: &Plan, there: &mut dyn Deployer, pin: &Pin, gauge: &Path) -> Result<Self, CampaignError> {
        let mut list = Vec::new();
        let mut ports = BTreeMap::new();
        for backend in &plan.backends {
            let name = ("backend", backend.program.name.as_str());
            let placed = Placed::new(&backend.program, name, there, &pin.upstream, None)?;
            for (name, port) in &placed.ports {
                ports.entry(name.clone()).or_insert(*port);
            }
            list.push(One { backend: backend.clone(), placed, running: None, stale: true });
        }
        let names = Names { folder: plan.folder.clone(), gauge: gauge.to_owned(), ports };
        Ok(Backends { list, names })
    }

    /// Origin in the API to where a gateway on the same machine finds it.
    pub(super) fn for_gateways(&self, api: &apidoc::Api, at: IpAddr) -> BTreeMap<String, String> {
        let used = |origin: &str| api.operations.iter().any(|operation| operation.origin().unwrap_or("") == origin);
        let origins = self.list.iter().flat_map(|one| one.placed.origins());
        origins
            .filter(|(origin, _)| used(origin))
            .map(|(origin, port)| (origin.to_owned(), format!("http://{}", SocketAddr::new(at, port))))
            .collect()
    }

    /// Origin in the API to where the generator finds it.
    pub(super) fn for_generator(&self, there: &mut dyn Deployer) -> Result<BTreeMap<String, String>, DeployError> {
        let mut all = BTreeMap::new();
        for one in &self.list {
            all.extend(one.placed.for_generator(there)?);
        }
        Ok(all)
    }

    /// Those that live for a round are started anew before they are used again.
    pub(super) fn new_round(&mut self) {
        for one in &mut self.list {
            one.stale |= one.backend.restart == Restart::Round;
        }
    }

    /// Makes every backend ready for the next trials: started anew with an empty folder, or reset, as the plan says.
    pub(super) fn fresh(&mut self, there: &mut dyn Deployer) -> Result<(), CampaignError> {
        for one in self.list.iter_mut().rev() {
            let ended = one.running.is_some_and(|handle| !there.is_running(handle));
            if (one.backend.restart == Restart::System || one.stale || ended)
                && let Some(handle) = one.running.take()
            {
                there.stop(handle, STOP);
            }
        }
        for one in &mut self.list {
            let name = &one.backend.program.name;
            if one.running.is_none() {
                let (spec, started) = one.placed.start(&self.names, there)?;
                let handle = started.map_err(|trouble| {
                    let (Trouble::Ended(why) | Trouble::Silent(why)) = trouble;
                    CampaignError::Backend(format!("backend `{name}` (`{}`): {why}", spec.argv.join(" ")))
                })?;
                (one.running, one.stale) = (Some(handle), false);
            }
            if let Some(reset) = &one.backend.reset {
                let spec = one.placed.spec("reset-", reset, &one.backend.program.cwd, &self.names, there)?;
                let output = there.run(&spec, RESET)?;
                if !output.success {
                    let why = format!("backend `{name}`: its reset failed:\n{}", output.text);
                    return Err(CampaignError::Backend(why));
                }
            }
        }
        Ok(())
    }

    /// What all of them use together; `None` when gauge runs no backend.
    pub(super) fn reading(&self, there: &mut dyn Deployer) -> Option<Reading> {
        let handles: Vec<Handle> = self.list.iter().filter_map(|one| one.running).collect();
        let readings: Option<Vec<Reading>> = handles.into_iter().map(|handle| there.reading(handle)).collect();
        Reading::sum(readings?)
    }

    /// What has reached them so far; none where none of them counts.
    ///
    /// # Errors
    /// Why one that should say does not.
    pub(super) fn reached(&self, there: &mut dyn Deployer) -> Result<Option<Reached>, String> {
        let mut all = None;
        for one in &self.list {
            for url in &one.backend.counts {
                let counts: Reached = one.placed.read(url, &self.names, there)?;
                let sum: &mut Reached = all.get_or_insert_default();
                sum.requests += counts.requests;
                sum.body_bytes += counts.body_bytes;
            }
        }
        Ok(all)
    }

    /// Name and last lines of one that has ended by itself.
    pub(super) fn ended(&self, there: &mut dyn Deployer) -> Option<String> {
        let ended = self.list.iter().find_map(|one| {
            let handle = one.running?;
            (!there.is_running(handle)).then_some((one, handle))
        });
        let (one, handle) = ended?;
        let name = &one.backend.program.name;
        Some(format!("the backend `{name}` ended; its last lines:\n{}", there.log_tail(handle)))
    }

    pub(super) fn stop(&mut self, there: &mut dyn Deployer) {
        for one in self.list.iter_mut().rev() {
            if let Some(handle) = one.running.take() {
                there.stop(handle, STOP);
            }
        }
    }
}
