//! The machines of a campaign: where systems, backends and generators run.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::progress::Progress;
use super::{CampaignError, Options, Store, backend};
use crate::deploy::{Clock, DeployError, Deployer, GeneratorHost, Local, Spec, Ssh, pin};
use crate::machines::MachinesError;
use crate::plan::{self, Deploy, Fleet, Pin, Plan};
use crate::results::GeneratorMachine;

/// A machine that was made a moment ago serves ssh within this.
const BOOT: Duration = Duration::from_secs(600);
/// Until the next attempt to reach it.
const AGAIN: Duration = Duration::from_secs(2);
/// Time to say a version.
const VERSION: Duration = Duration::from_secs(60);

/// Where systems run, and the backends behind them.
pub(super) struct Deployers {
    systems: Box<dyn Deployer>,
    /// Of the backends, where they have a machine of their own.
    upstreams: Option<Box<dyn Deployer>>,
}

impl Deployers {
    pub(super) fn as_mut(&mut self) -> &mut dyn Deployer {
        self.systems.as_mut()
    }

    /// Where backends run.
    pub(super) fn upstream(&mut self) -> &mut dyn Deployer {
        self.upstreams.as_mut().unwrap_or(&mut self.systems).as_mut()
    }

    /// Processors of the backends' own machine, if they have one.
    pub(super) fn upstream_cpus(&self) -> Option<u32> {
        self.upstreams.as_ref().map(|machine| machine.cpus().len() as u32)
    }

    /// What generators on other machines reach at an address that is reached from here.
    pub(super) fn seen(&self, here: std::net::SocketAddr) -> std::net::SocketAddr {
        match (self.systems.seen(here), &self.upstreams) {
            (same, Some(upstreams)) if same == here => upstreams.seen(here),
            (seen, _) => seen,
        }
    }
}

impl Deref for Deployers {
    type Target = dyn Deployer;

    fn deref(&self) -> &Self::Target {
        self.systems.as_ref()
    }
}

impl DerefMut for Deployers {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.systems.as_mut()
    }
}

/// A machine that sends.
pub(super) struct GeneratorAt {
    /// `generator`, or `generator-1` and so on where it is another machine than this one.
    pub(super) name: String,
    pub(super) machine: Box<dyn GeneratorHost>,
    /// This program, there.
    pub(super) gauge: PathBuf,
    /// Where workloads and reports lie, there.
    pub(super) folder: PathBuf,
    /// Its clock beside the one here; none on this machine.
    pub(super) clock: Option<Clock>,
    pub(super) remote: bool,
}

impl std::fmt::Debug for GeneratorAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GeneratorAt").field("name", &self.name).field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl GeneratorAt {
    /// For the report; none where it is this machine.
    pub(super) fn described(&self) -> Option<GeneratorMachine> {
        self.remote.then(|| GeneratorMachine {
            name: self.name.clone(),
            place: self.machine.place(),
            cpus: self.machine.cpus().len() as u32,
            clock_offset_ms: self.clock.map(|clock| clock.offset_ms),
            clock_round_trip_ms: self.clock.map(|clock| clock.round_trip_ms),
        })
    }
}

/// All that was opened.
pub(super) struct Opened {
    pub(super) there: Deployers,
    pub(super) generators: Vec<GeneratorAt>,
    pub(super) pin: Pin,
}

/// Builds what is to be built, makes machines where they are to be made, and connects to them. A campaign that is `done` needs none.
pub(super) fn open(
    plan: &Plan,
    store: &Store,
    options: &Options,
    done: bool,
    progress: &mut dyn Progress,
) -> Result<Opened, CampaignError> {
    let mut here = Local::new(&options.gauge, &store.path("tmp"), &store.path("logs"))?;
    backend::build(plan, &mut here, progress)?;
    let opening = Opening { plan, store, options };
    match &plan.deploy {
        Deploy::Ssh(ssh) => {
            let systems = Ssh::open(&options.gauge, ssh, &store.path("logs"), "ssh")?;
            opening.around(systems, None, vec![opening.this(here)])
        }
        Deploy::Hosts(hosts) if !done => {
            let fleet = Fleet::new(hosts, None);
            let fleet = fleet.map_err(|problems| CampaignError::Backend(problems.join("; ")))?;
            opening.fleet(&fleet, here, false, progress)
        }
        Deploy::Terraform(terraform) if !done => {
            let mut say = |line: &str| progress.machines(line);
            let made = options.machines.make(terraform, plan, &options.stop, &mut say);
            let fleet = made.map_err(|error| match error {
                MachinesError::Stopped => CampaignError::Stopped,
                error => CampaignError::Machines(error),
            })?;
            opening.fleet(&fleet, here, true, progress)
        }
        Deploy::Local | Deploy::Hosts(_) | Deploy::Terraform(_) => {
            let systems = Local::new(&options.gauge, &store.path("systems"), &store.path("logs"))?;
            let pin = pin::choose(&plan.hardware, &pin::allowed());
            let there = Deployers { systems: Box::new(systems), upstreams: None };
            Ok(Opened { there, generators: vec![opening.this(here)], pin })
        }
    }
}

struct Opening<'o> {
    plan: &'o Plan,
    store: &'o Store,
    options: &'o Options,
}

impl Opening<'_> {
    fn this(&self, here: Local) -> GeneratorAt {
        GeneratorAt {
            name: "generator".to_owned(),
            gauge: self.options.gauge.clone(),
            folder: self.store.path("tmp"),
            machine: Box::new(here),
            clock: None,
            remote: false,
        }
    }

    fn fleet(
        &self,
        fleet: &Fleet,
        here: Local,
        fresh: bool,
        progress: &mut dyn Progress,
    ) -> Result<Opened, CampaignError> {
        let mut connect = |ssh: &plan::Ssh, name: &str| self.connect(ssh, name, fresh, progress);
        plan::suits(self.plan, fleet).map_err(CampaignError::Backend)?;
        // The generators first: others may be reached through them.
        let mut generators = Vec::new();
        for (number, ssh) in (1..).zip(&fleet.generators) {
            let name = format!("generator-{number}");
            let machine = connect(ssh, &format!("ssh-{name}"))?;
            generators.push(self.generator(name, machine)?);
        }
        if generators.is_empty() {
            generators.push(self.this(here));
        }
        let systems = connect(&fleet.gateway, "ssh")?;
        let upstream = fleet.upstream.as_ref().map(|ssh| connect(ssh, "ssh-upstream")).transpose()?;
        self.around(systems, upstream, generators)
    }

    /// Connects to a machine; one that was made a moment ago may have to start first.
    fn connect(
        &self,
        ssh: &plan::Ssh,
        name: &str,
        fresh: bool,
        progress: &mut dyn Progress,
    ) -> Result<Ssh, CampaignError> {
        let deadline = Instant::now() + BOOT;
        let mut said = false;
        loop {
            match Ssh::open(&self.options.gauge, ssh, &self.store.path("logs"), name) {
                Err(error @ DeployError::NoConnection { .. }) if fresh && Instant::now() < deadline => {
                    if !said {
                        said = true;
                        progress.machines(&format!("waiting up to {} minutes for ssh: {error}", BOOT.as_secs() / 60));
                    }
                }
                opened => return Ok(opened?),
            }
            let again = Instant::now() + AGAIN;
            while Instant::now() < again {
                if self.options.stopped() {
                    return Err(CampaignError::Stopped);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }

    /// Copies this program to a machine, where it must run.
    fn generator(&self, name: String, mut machine: Ssh) -> Result<GeneratorAt, CampaignError> {
        let gauge = machine.upload(&self.options.gauge)?;
        let folder = machine.directory().join("generator");
        machine.clear(&folder)?;
        let argv = vec![gauge.to_string_lossy().into_owned(), "--version".to_owned()];
        let spec = Spec { name: name.clone(), argv, cwd: folder.clone(), ..Spec::default() };
        let said = machine.run(&spec, VERSION)?;
        if !said.success {
            let why = format!(
                "this program does not run there: {}; a machine with the role `generator` needs the same processor architecture and a C library \
                 that is not older than the one here",
                said.text
            );
            return Err(DeployError::Remote { host: machine.place(), why }.into());
        }
        let clock = machine.clock();
        Ok(GeneratorAt { name, machine: Box::new(machine), gauge, folder, clock, remote: true })
    }

    /// Puts the parts together, and distributes the processors.
    fn around(
        &self,
        mut systems: Ssh,
        upstream: Option<Ssh>,
        generators: Vec<GeneratorAt>,
    ) -> Result<Opened, CampaignError> {
        let hardware = &self.plan.hardware;
        let mut pin = pin::choose_without_generator(hardware, &systems.cpus());
        pin.generator = hardware.pin.as_ref().map_or_else(Vec::new, |pin| pin.generator.clone());
        if upstream.is_some() && hardware.pin.is_none() {
            // They have a machine of their own, all of it.
            pin.upstream.clear();
        }
        if !(pin.system.is_empty() && pin.upstream.is_empty()) {
            systems.require_pinning()?;
        }
        let upstreams = upstream.map(|ssh| Box::new(ssh) as Box<dyn Deployer>);
        Ok(Opened { there: Deployers { systems: Box::new(systems), upstreams }, generators, pin })
    }
}
