//! Machines by role: those that an evaluation names, and those that OpenTofu or Terraform made for it.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Plan, PlannedLoad, Sender, Ssh};
use crate::foreign::shown;
use crate::load::workload::{Closed, Load};

/// What a machine is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostRole {
    /// It sends the load. Without one, the load is sent from the machine on which Gauge runs.
    Generator,
    /// It runs the systems.
    Gateway,
    /// It runs the backends; without one, they run beside the systems.
    Upstream,
}

impl fmt::Display for HostRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HostRole::Generator => "generator",
            HostRole::Gateway => "gateway",
            HostRole::Upstream => "upstream",
        })
    }
}

/// A machine that is reached over OpenSSH: an element of `deploy: {hosts: [..]}`, and of the output `gauge_hosts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// What it is for.
    pub role: HostRole,
    /// Name or address at which ssh reaches it.
    pub address: String,
    /// Port of ssh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// User there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// File with the private key. In an output it may be the key itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Address at which the other machines reach it; `address` without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private: Option<IpAddr>,
    /// The role of the machine through which ssh reaches it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<HostRole>,
    /// Directory there (default `/tmp/gauge-` and a number); emptied at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// Further options of ssh. Not in an output: a module must not be able to set `ProxyCommand`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

impl Host {
    /// `generator gauge@203.0.113.7`.
    pub fn words(&self) -> String {
        let user = self.user.as_ref().map_or_else(String::new, |user| format!("{user}@"));
        let port = self.port.map_or_else(String::new, |port| format!(":{port}"));
        format!("{} {user}{}{port}", self.role, self.address)
    }

    /// Where the other machines reach it.
    fn inside(&self) -> Option<IpAddr> {
        self.private.or_else(|| self.address.parse().ok())
    }

    /// Takes a relative file of its key to be in a folder. `~` is left to ssh.
    pub fn key_from(&mut self, folder: &Path) {
        if let Some(key) = self.key.as_mut().filter(|key| !key.starts_with('~')) {
            *key = folder.join(&*key).to_string_lossy().into_owned();
        }
    }

    /// The file of its key for ssh, which replaces what begins with a percent sign.
    fn identity(&self) -> Option<String> {
        self.key.as_ref().map(|key| key.replace('%', "%%"))
    }

    fn ssh(&self, hosts: &[Host], known_hosts: Option<&Path>) -> Ssh {
        let mut options = self.options.clone();
        options.extend(trust(known_hosts));
        let jump = self.via.and_then(|via| hosts.iter().find(|host| host.role == via));
        options.extend(jump.map(|jump| jump.proxy(known_hosts)));
        Ssh {
            host: self.address.clone(),
            port: self.port,
            user: self.user.clone(),
            identity: self.identity().map(PathBuf::from),
            options,
            address: self.inside(),
            directory: self.directory.clone(),
            tunnel: true,
        }
    }

    /// The option with which ssh goes through this machine. `ProxyJump` would not use the key.
    fn proxy(&self, known_hosts: Option<&Path>) -> String {
        let mut words: Vec<String> = ["ssh", "-o", "BatchMode=yes", "-S", "none"].map(str::to_owned).to_vec();
        if let Some(port) = self.port {
            words.extend(["-p".to_owned(), port.to_string()]);
        }
        if let Some(user) = &self.user {
            words.extend(["-l".to_owned(), user.clone()]);
        }
        if let Some(key) = self.identity() {
            words.extend(["-i".to_owned(), key]);
        }
        for option in self.options.iter().cloned().chain(trust(known_hosts)) {
            words.extend(["-o".to_owned(), option]);
        }
        // A shell reads it, after ssh has replaced what begins with a percent sign.
        let quoted = |word: &String| {
            if word.chars().all(|c| c.is_ascii_alphanumeric() || "-=._/:@".contains(c)) {
                return word.clone();
            }
            format!("'{}'", word.replace('%', "%%").replace('\'', r"'\''"))
        };
        let words: Vec<String> = words.iter().map(quoted).collect();
        format!("ProxyCommand={} -W '[%h]:%p' -- {}", words.join(" "), self.address)
    }
}

/// Keys of machines that were made a moment ago are unknown: they are taken at the first connection, and kept for this run alone.
fn trust(known_hosts: Option<&Path>) -> Vec<String> {
    let Some(file) = known_hosts else { return Vec::new() };
    let file = file.to_string_lossy().replace('%', "%%");
    vec!["StrictHostKeyChecking=accept-new".to_owned(), format!("UserKnownHostsFile=\"{file}\"")]
}

/// The machines of a campaign, as they are reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fleet {
    /// Those that send; none: the load is sent from here.
    pub generators: Vec<Ssh>,
    /// Where systems run.
    pub gateway: Ssh,
    /// Where backends run, if not beside the systems.
    pub upstream: Option<Ssh>,
}

impl Fleet {
    /// Arranges machines by role. Those that were made a moment ago have a file for the keys that they show.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn new(hosts: &[Host], known_hosts: Option<&Path>) -> Result<Self, Vec<String>> {
        let problems = problems(hosts);
        if !problems.is_empty() {
            return Err(problems);
        }
        let of = |role: HostRole| hosts.iter().filter(move |host| host.role == role);
        let generators: Vec<Ssh> = of(HostRole::Generator).map(|host| host.ssh(hosts, known_hosts)).collect();
        let upstream = of(HostRole::Upstream).next().map(|host| host.ssh(hosts, known_hosts));
        let Some(host) = of(HostRole::Gateway).next() else { return Err(vec![no_gateway()]) };
        let mut gateway = host.ssh(hosts, known_hosts);
        // Alone, it is reached as a machine that the evaluation names with `ssh`.
        gateway.tunnel = !generators.is_empty() || host.via.is_some() || host.private.is_some();
        Ok(Fleet { generators, gateway, upstream })
    }
}

/// Whether an evaluation can run on these machines.
///
/// # Errors
/// Why it cannot.
pub fn suits(plan: &Plan, fleet: &Fleet) -> Result<(), String> {
    let external = plan.workloads.iter().find(|workload| workload.generator != Sender::Gauge);
    if let Some(workload) = external.filter(|_| !fleet.generators.is_empty()) {
        return Err(format!(
            "workload `{}` is sent by {}; machines with the role `generator` send with Gauge's own generator only",
            workload.name,
            workload.generator.name()
        ));
    }
    let generators = u32::try_from(fleet.generators.len()).unwrap_or(u32::MAX);
    for workload in &plan.workloads {
        let fits = match &workload.load {
            PlannedLoad::Fixed(load) => fits(load, generators),
            PlannedLoad::Search(search) => fits_connections(search.connections, generators),
        };
        fits.map_err(|why| format!("workload `{}`: {why}", workload.name))?;
    }
    if fleet.upstream.is_some() && plan.systems.iter().any(|system| system.service().is_some()) {
        return Err(
            "a host with the role `upstream` is for the backends of gateways; what services need runs beside them"
                .to_owned(),
        );
    }
    Ok(())
}

/// Whether so many generators can share a load: each needs a user, or a connection, in each phase that counts.
///
/// # Errors
/// Why they cannot.
pub(crate) fn fits(load: &Load, generators: u32) -> Result<(), String> {
    if generators < 2 {
        return Ok(());
    }
    let closed = |load: &Closed| {
        let most = load.users.most();
        if most < generators {
            return Err(format!("a load of {most} users cannot be spread over {generators} generators"));
        }
        match load.iterations.filter(|iterations| *iterations < u64::from(most)) {
            Some(few) => Err(format!("{few} requests of {most} users cannot be spread over {generators} generators")),
            None => Ok(()),
        }
    };
    match load {
        Load::Closed(load) => closed(load),
        Load::Open(load) => fits_connections(load.connections, generators),
        Load::Phases(phases) => phases.iter().try_for_each(|phase| {
            // A warm-up gets the users that it needs.
            let users = phase.closed.as_ref().filter(|_| !phase.warmup);
            users.map_or(Ok(()), closed)?;
            phase.open.as_ref().map_or(Ok(()), |load| fits_connections(load.connections, generators))
        }),
    }
}

fn fits_connections(connections: u32, generators: u32) -> Result<(), String> {
    if generators > 1 && connections < generators {
        return Err(format!("{connections} connections cannot be spread over {generators} generators"));
    }
    Ok(())
}

fn no_gateway() -> String {
    "no host has the role `gateway`, which runs the systems".to_owned()
}

/// What is wrong with a list of machines.
fn problems(hosts: &[Host]) -> Vec<String> {
    let mut problems = Vec::new();
    let count = |role: HostRole| hosts.iter().filter(|host| host.role == role).count();
    match count(HostRole::Gateway) {
        0 => problems.push(no_gateway()),
        1 => {}
        many => problems.push(format!("{many} hosts have the role `gateway`; systems run on one machine")),
    }
    if count(HostRole::Upstream) > 1 {
        problems.push("several hosts have the role `upstream`; backends run on one machine".to_owned());
    }
    for host in hosts {
        let what = format!("host with the role `{}`", host.role);
        if !is_name(&host.address) && host.address.parse::<IpAddr>().is_err() {
            problems.push(format!(
                "{what}: the address `{}` is neither an IP address nor a name of letters, digits, dots, dashes and underscores that begins with a \
                 letter or digit",
                shown(&host.address)
            ));
        }
        if let Some(user) = host.user.as_ref().filter(|user| !is_name(user)) {
            problems.push(format!(
                "{what}: the user `{}` is not a name of letters, digits, dots, dashes and underscores that begins with a letter or digit",
                shown(user)
            ));
        }
        if host.port == Some(0) {
            problems.push(format!("{what}: a port is a number from 1 to 65535"));
        }
        if let Some(key) = host.key.as_ref().filter(|key| key.is_empty() || key.chars().any(char::is_control)) {
            problems.push(format!("{what}: the key `{}` is not the path of a file", shown(key)));
        }
        if let Some(via) = host.via {
            let jump = hosts.iter().find(|other| other.role == via);
            if via == host.role {
                problems.push(format!("{what}: `via` names its own role"));
            } else if jump.is_none_or(|jump| jump.via.is_some()) {
                problems
                    .push(format!("{what}: `via: {via}` needs a host with that role that is reached without `via`"));
            }
        }
        let others = hosts.iter().any(|other| other.role != HostRole::Gateway);
        if others && host.role != HostRole::Generator && host.inside().is_none() {
            problems.push(format!(
                "{what}: the other machines reach it at an IP address; write it into `private`, or into `address`"
            ));
        }
    }
    problems
}

/// Not an option of ssh, and nothing to a shell.
fn is_name(text: &str) -> bool {
    let first = text.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    first && text.len() < 254 && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

#[cfg(test)]
mod tests;
