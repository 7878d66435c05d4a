//! The programs behind the gateways: made once, started with free ports and an empty folder, asked whether they are ready.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::progress::Progress;
use super::{CampaignError, probe};
use crate::deploy::{DeployError, Deployer, Handle, Local, Spec};
use crate::gateway::{Signal, Stop};
use crate::load::Url;
use crate::observe::Reading;
use crate::plan::{Backend, Pin, Plan, Restart};

/// Time to compile a program.
const BUILD: Duration = Duration::from_secs(900);
/// Time for a command that empties or fills a store.
const RESET: Duration = Duration::from_secs(120);
/// Time to start.
const START: Duration = Duration::from_secs(90);
const STOP: Stop = Stop { signal: Signal::Term, grace: Duration::from_secs(10) };

/// A folder for what is made once and used again, such as compiled programs.
pub(super) fn cache() -> PathBuf {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    of("GAUGE_CACHE")
        .or_else(|| of("XDG_CACHE_HOME").map(|cache| cache.join("gauge")))
        .or_else(|| of("HOME").map(|home| home.join(".cache/gauge")))
        .unwrap_or_else(|| std::env::temp_dir().join("gauge-cache"))
}

/// Makes what has to be made: programs of gateways, without which the campaign goes on, and of backends, without which it cannot.
pub(super) fn build(plan: &Plan, here: &mut Local, progress: &mut dyn Progress) -> Result<(), CampaignError> {
    if plan.builds.is_empty() && plan.backends.iter().all(|backend| backend.build.is_none()) {
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
    for backend in &plan.backends {
        if let Some((command, cwd)) = &backend.build {
            make(command, cwd).map_err(|why| CampaignError::Backend(format!("backend `{}`: {why}", backend.name)))?;
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
    cpus: Vec<u32>,
    folder: PathBuf,
    gauge: PathBuf,
}

#[derive(Debug)]
struct One {
    backend: Backend,
    /// Port by name.
    ports: BTreeMap<String, u16>,
    running: Option<Handle>,
    /// It is to be started anew before it is used again.
    stale: bool,
}

impl Backends {
    pub(super) fn new(plan: &Plan, there: &mut dyn Deployer, pin: &Pin, gauge: &Path) -> Result<Self, CampaignError> {
        let mut list = Vec::new();
        for backend in &plan.backends {
            let numbers = there.free_ports(backend.ports.len())?;
            let ports = backend.ports.keys().cloned().zip(numbers).collect();
            list.push(One { backend: backend.clone(), ports, running: None, stale: true });
        }
        let (cpus, folder) = (pin.upstream.clone(), plan.folder.clone());
        Ok(Backends { list, cpus, folder, gauge: gauge.to_owned() })
    }

    /// The ports that stand for an origin of the API.
    fn origins(&self) -> impl Iterator<Item = (&str, u16)> {
        self.list.iter().flat_map(|one| {
            one.backend.ports.iter().filter_map(|(name, origin)| Some((origin.as_str(), *one.ports.get(name)?)))
        })
    }

    /// Origin in the API to where a gateway on the same machine finds it.
    pub(super) fn for_gateways(&self, api: &apidoc::Api, at: IpAddr) -> BTreeMap<String, String> {
        let used = |origin: &str| api.operations.iter().any(|operation| operation.origin().unwrap_or("") == origin);
        self.origins()
            .filter(|(origin, _)| used(origin))
            .map(|(origin, port)| (origin.to_owned(), format!("http://{}", SocketAddr::new(at, port))))
            .collect()
    }

    /// Origin in the API to where the generator finds it.
    pub(super) fn for_generator(&self, there: &mut dyn Deployer) -> Result<BTreeMap<String, String>, DeployError> {
        let reach = |(origin, port): (&str, u16)| Ok((origin.to_owned(), format!("http://{}", there.reach(port)?)));
        self.origins().map(reach).collect()
    }

    /// Those that live for a round are started anew before they are used again.
    pub(super) fn new_round(&mut self) {
        for one in &mut self.list {
            one.stale |= one.backend.restart == Restart::Round;
        }
    }

    /// Makes every backend ready for a turn: started anew with an empty folder, or reset, as it wants it.
    pub(super) fn fresh(&mut self, there: &mut dyn Deployer) -> Result<(), CampaignError> {
        for index in (0..self.list.len()).rev() {
            let one = &mut self.list[index];
            let ended = one.running.is_some_and(|handle| !there.is_running(handle));
            if (one.backend.restart == Restart::Turn || one.stale || ended)
                && let Some(handle) = one.running.take()
            {
                there.stop(handle, STOP);
            }
        }
        for index in 0..self.list.len() {
            if self.list[index].running.is_none() {
                self.start(index, there)?;
            }
            if let Some(reset) = &self.list[index].backend.reset {
                let spec = self.spec(index, "reset", reset, there)?;
                let output = there.run(&spec, RESET)?;
                if !output.success {
                    let name = &self.list[index].backend.name;
                    return Err(CampaignError::Backend(format!(
                        "backend `{name}`: its reset failed:\n{}",
                        output.text
                    )));
                }
            }
        }
        Ok(())
    }

    fn data(&self, index: usize, there: &dyn Deployer) -> PathBuf {
        there.directory().join(format!("backend-{}", crate::plan::slug(&self.list[index].backend.name)))
    }

    /// `{NAME}` of ports of all backends, and the folders.
    fn fill(&self, index: usize, text: &str, there: &dyn Deployer) -> String {
        let mut out = text
            .replace("{data}", &self.data(index, there).to_string_lossy())
            .replace("{folder}", &self.folder.to_string_lossy())
            .replace("{cache}", &cache().to_string_lossy())
            .replace("{gauge}", &self.gauge.to_string_lossy())
            .replace("{address}", &there.listen().to_string());
        let own = std::iter::once(&self.list[index]);
        for (name, port) in own.chain(&self.list).flat_map(|one| &one.ports) {
            out = out.replace(&format!("{{{name}}}"), &port.to_string());
        }
        out
    }

    /// A command of a backend as it is run there: the program itself, or what resets it.
    fn spec(
        &self,
        index: usize,
        what: &str,
        command: &[String],
        there: &mut dyn Deployer,
    ) -> Result<Spec, DeployError> {
        let backend = &self.list[index].backend;
        let mut argv: Vec<String> = command.iter().map(|text| self.fill(index, text, there)).collect();
        if let Some(program) = argv.first_mut() {
            // As in a shell: a slash makes it a path, here from the evaluation's folder.
            if program.contains('/') {
                let brought = there.bring(&self.folder.join(program.as_str()))?;
                *program = brought.to_string_lossy().into_owned();
            }
        }
        let env = backend.env.iter().map(|(name, value)| (name.clone(), self.fill(index, value, there))).collect();
        let name = format!("{what}-{}", crate::plan::slug(&backend.name));
        Ok(Spec { name, argv, env, cwd: there.cwd(&backend.cwd), cpus: self.cpus.clone(), memory_bytes: None })
    }

    fn start(&mut self, index: usize, there: &mut dyn Deployer) -> Result<(), CampaignError> {
        let data = self.data(index, there);
        there.clear(&data)?;
        let backend = self.list[index].backend.clone();
        let spec = self.spec(index, "backend", &backend.command, there)?;
        let handle = there.start(&spec)?;
        let urls: Vec<String> = backend.ready.iter().map(|url| self.fill(index, url, there)).collect();
        self.list[index].running = Some(handle);
        self.list[index].stale = false;
        let fail = |what: String| CampaignError::Backend(format!("backend `{}` {what}", backend.name));
        let deadline = Instant::now() + START;
        let ports: Vec<u16> = self.list[index].ports.values().copied().collect();
        loop {
            let ready = if urls.is_empty() {
                ports.iter().all(|port| there.reach(*port).is_ok_and(|address| probe::answers(address, "/").is_some()))
            } else {
                let mut all = true;
                for url in &urls {
                    all &= is_ready(url, there).map_err(|why| fail(format!("cannot be asked: {why}")))?;
                }
                all
            };
            if ready {
                return Ok(());
            }
            if !there.is_running(handle) {
                let said = there.log_tail(handle);
                return Err(fail(format!("ended at its start (`{}`); its last lines:\n{said}", spec.argv.join(" "))));
            }
            if Instant::now() > deadline {
                let said = there.log_tail(handle);
                let waited = START.as_secs();
                return Err(fail(format!(
                    "was not ready within {waited} s ({}); its last lines:\n{said}",
                    urls.join(", ")
                )));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// What all of them use; `None` when there is none of ours.
    pub(super) fn reading(&self, there: &mut dyn Deployer) -> Option<Reading> {
        let handles: Vec<Handle> = self.list.iter().filter_map(|one| one.running).collect();
        let readings: Option<Vec<Reading>> = handles.into_iter().map(|handle| there.reading(handle)).collect();
        Reading::sum(readings?)
    }

    /// Name and last lines of one that has ended by itself.
    pub(super) fn ended(&self, there: &mut dyn Deployer) -> Option<String> {
        let ended = self.list.iter().find_map(|one| {
            let handle = one.running?;
            (!there.is_running(handle)).then_some((one, handle))
        });
        let (one, handle) = ended?;
        Some(format!("the backend `{}` ended; its last lines:\n{}", one.backend.name, there.log_tail(handle)))
    }

    pub(super) fn stop(&mut self, there: &mut dyn Deployer) {
        for one in self.list.iter_mut().rev() {
            if let Some(handle) = one.running.take() {
                there.stop(handle, STOP);
            }
        }
    }
}

/// Whether a URL is answered with 2xx.
fn is_ready(url: &str, there: &mut dyn Deployer) -> Result<bool, String> {
    let url = Url::parse(url).map_err(|error| error.to_string())?;
    let host = url.authority.rsplit_once(':').map_or(url.authority.as_str(), |(host, _)| host);
    let address = if matches!(host, "127.0.0.1" | "localhost" | "[::1]") {
        there.reach(url.port).map_err(|error| error.to_string())?
    } else {
        url.address().map_err(|error| error.to_string())?
    };
    Ok(probe::answers(address, &url.path).is_some_and(|status| (200..300).contains(&status)))
}
