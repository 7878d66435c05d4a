//! A program of the evaluation on its machine: its ports and its folder, how its commands are filled in, and how it is started and probed until it is
//! ready. Backends and services are such programs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use super::{CampaignError, probe};
use crate::deploy::{DeployError, Deployer, Handle, Spec};
use crate::gateway::{Signal, Stop};
use crate::load::workload::{self, Operation};
use crate::load::{Prepared, Url};
use crate::plan::{Program, Ready};

/// Time to start: a JVM on a slow machine.
pub(super) const START: Duration = Duration::from_secs(90);
/// Time for a small response of a program.
const READ: Duration = Duration::from_secs(5);
pub(super) const STOP: Stop = Stop { signal: Signal::Term, grace: Duration::from_secs(10) };

/// A folder for what is made once and used again, such as compiled programs.
pub(super) fn cache() -> PathBuf {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    of("GAUGE_CACHE")
        .or_else(|| of("XDG_CACHE_HOME").map(|cache| cache.join("gauge")))
        .or_else(|| of("HOME").map(|home| home.join(".cache/gauge")))
        .unwrap_or_else(|| std::env::temp_dir().join("gauge-cache"))
}

/// What braces stand for in every command of a campaign.
#[derive(Debug, Clone)]
pub(super) struct Names {
    pub(super) folder: PathBuf,
    pub(super) gauge: PathBuf,
    /// Ports of the backends, by name.
    pub(super) ports: BTreeMap<String, u16>,
}

/// A program with what it was given on its machine.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) program: Program,
    /// Port by name.
    pub(super) ports: BTreeMap<String, u16>,
    /// Of its log and its folder.
    label: String,
    cpus: Vec<u32>,
    memory_bytes: Option<u64>,
}

/// Why a program that was started does not serve.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It ended; why.
    Ended(String),
    /// It did not become ready; why.
    Silent(String),
}

impl Placed {
    /// Gives a program free ports. `what` it is begins the names of its log and folder; `system` is the name that it goes by.
    pub(super) fn new(
        program: &Program,
        (what, system): (&str, &str),
        there: &mut dyn Deployer,
        cpus: &[u32],
        memory_bytes: Option<u64>,
    ) -> Result<Self, DeployError> {
        let numbers = there.free_ports(program.ports.len())?;
        let ports = program.ports.keys().cloned().zip(numbers).collect();
        let label = format!("{what}-{}", crate::plan::slug(system));
        Ok(Placed { program: program.clone(), ports, label, cpus: cpus.to_vec(), memory_bytes })
    }

    /// Origins of the API that it stands for, each with its port.
    pub(super) fn origins(&self) -> impl Iterator<Item = (&str, u16)> {
        self.program.ports.iter().filter_map(|(name, origin)| Some((origin.as_str(), *self.ports.get(name)?)))
    }

    /// Origin in the API to the URL at which the generator finds it.
    pub(super) fn for_generator(&self, there: &mut dyn Deployer) -> Result<BTreeMap<String, String>, DeployError> {
        let reach = |(origin, port): (&str, u16)| Ok((origin.to_owned(), format!("http://{}", there.reach(port)?)));
        self.origins().map(reach).collect()
    }

    fn data(&self, there: &dyn Deployer) -> PathBuf {
        there.directory().join(&self.label)
    }

    /// What a URL of it responds with, as JSON.
    pub(super) fn read<T: DeserializeOwned>(
        &self,
        url: &str,
        names: &Names,
        there: &mut dyn Deployer,
    ) -> Result<T, String> {
        let text = self.fill(url, names, there);
        let url = Url::parse(&text).map_err(|error| error.to_string())?;
        let mut operation = Operation::get("read", &url.path);
        operation.base = Some(format!("http://{}", address(&url, there)?));
        let request = workload::Workload::single(operation, workload::Protocol::Http1, READ);
        let prepared = Prepared::new(&request).map_err(|error| error.to_string())?;
        let response = prepared.once().pop().ok_or("nothing was sent")?.response;
        let response = response.map_err(|error| format!("{text}: {error}"))?;
        if response.status != 200 {
            return Err(format!("{text}: status {}", response.status));
        }
        serde_json::from_slice(&response.body).map_err(|error| format!("{text}: {error}"))
    }

    /// A text with what its braces stand for; its own ports go before those of backends.
    fn fill(&self, text: &str, names: &Names, there: &dyn Deployer) -> String {
        let mut out = text
            .replace("{data}", &self.data(there).to_string_lossy())
            .replace("{folder}", &names.folder.to_string_lossy())
            .replace("{cache}", &cache().to_string_lossy())
            .replace("{gauge}", &names.gauge.to_string_lossy())
            .replace("{system}", &self.program.name)
            .replace("{address}", &there.listen().to_string());
        for (name, port) in self.ports.iter().chain(&names.ports) {
            out = out.replace(&format!("{{{name}}}"), &port.to_string());
        }
        out
    }

    /// A command with the program's environment: the program itself, or what is run for it.
    pub(super) fn spec(
        &self,
        what: &str,
        command: &[String],
        cwd: &Path,
        names: &Names,
        there: &mut dyn Deployer,
    ) -> Result<Spec, DeployError> {
        let mut argv: Vec<String> = command.iter().map(|text| self.fill(text, names, there)).collect();
        if let Some(program) = argv.first_mut() {
            // As in a shell: a slash makes it a path, here from the evaluation's folder.
            if program.contains('/') {
                let brought = there.upload(&names.folder.join(program.as_str()))?;
                *program = brought.to_string_lossy().into_owned();
            }
        }
        let fill = |(name, value): (&String, &String)| (name.clone(), self.fill(value, names, there));
        let env = self.program.env.iter().map(fill).collect();
        Ok(Spec {
            name: format!("{what}{}", self.label),
            argv,
            env,
            cwd: there.cwd(cwd),
            cpus: self.cpus.clone(),
            memory_bytes: self.memory_bytes,
        })
    }

    /// Starts it with an empty folder, and waits until it is ready.
    pub(super) fn start(
        &self,
        names: &Names,
        there: &mut dyn Deployer,
    ) -> Result<(Spec, Result<Handle, Trouble>), CampaignError> {
        there.clear(&self.data(there))?;
        let spec = self.spec("", &self.program.command, &self.program.cwd, names, there)?;
        let handle = there.start(&spec)?;
        let probes: Vec<Ready> = self.program.ready.iter().map(|ready| self.filled(ready, names, there)).collect();
        let ports: Vec<u16> = self.ports.values().copied().collect();
        let mut wrong = None;
        let trouble = wait(there, handle, |there| {
            let any = |port: &u16| there.reach(*port).is_ok_and(|address| probe::responses(address, "/").is_some());
            if probes.is_empty() {
                return ports.iter().all(any);
            }
            probes.iter().all(|ready| {
                is_ready(ready, there).unwrap_or_else(|why| {
                    wrong = Some(why);
                    false
                })
            })
        });
        let trouble = match (trouble, wrong) {
            (Some(Trouble::Silent(_)), Some(why)) => Some(Trouble::Silent(format!("it cannot be probed: {why}"))),
            (trouble, _) => trouble,
        };
        let started = match trouble {
            None => Ok(handle),
            Some(trouble) => {
                there.stop(handle, STOP);
                Err(trouble)
            }
        };
        Ok((spec, started))
    }

    fn filled(&self, ready: &Ready, names: &Names, there: &dyn Deployer) -> Ready {
        match ready {
            Ready::Http(url) => Ready::Http(self.fill(url, names, there)),
            Ready::Tcp(address) => Ready::Tcp(self.fill(address, names, there)),
            Ready::Grpc(address) => Ready::Grpc(self.fill(address, names, there)),
        }
    }
}

/// Waits until a process serves; why it does not, if so.
pub(super) fn wait(
    there: &mut dyn Deployer,
    handle: Handle,
    mut serves: impl FnMut(&mut dyn Deployer) -> bool,
) -> Option<Trouble> {
    let deadline = Instant::now() + START;
    loop {
        let serving = serves(there);
        if !there.is_running(handle) {
            let said = there.log_tail(handle);
            return Some(Trouble::Ended(format!("it ended at its start; its last lines:\n{said}")));
        }
        if serving {
            return None;
        }
        if Instant::now() > deadline {
            let said = there.log_tail(handle);
            let why = format!("it did not serve within {} s; its last lines:\n{said}", START.as_secs());
            return Some(Trouble::Silent(why));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Where a URL of a program is reached from here.
fn address(url: &Url, there: &mut dyn Deployer) -> Result<SocketAddr, String> {
    let host = url.authority.rsplit_once(':').map_or(url.authority.as_str(), |(host, _)| host);
    if matches!(host, "127.0.0.1" | "localhost" | "[::1]") {
        there.reach(url.port).map_err(|error| error.to_string())
    } else {
        url.address().map_err(|error| error.to_string())
    }
}

/// Whether one thing that shows that a program is ready is there.
fn is_ready(ready: &Ready, there: &mut dyn Deployer) -> Result<bool, String> {
    match ready {
        Ready::Http(url) => {
            let url = Url::parse(url).map_err(|error| error.to_string())?;
            let status = probe::responses(address(&url, there)?, &url.path);
            Ok(status.is_some_and(|status| (200..300).contains(&status)))
        }
        Ready::Tcp(text) | Ready::Grpc(text) => {
            let url = Url::parse(&format!("http://{text}")).map_err(|error| error.to_string())?;
            let probe = if matches!(ready, Ready::Grpc(_)) { probe::serves_grpc } else { probe::accepts };
            Ok(probe(address(&url, there)?))
        }
    }
}
