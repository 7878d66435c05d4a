//! Another machine, over OpenSSH: its own `ssh` and `scp`-like copying through it, so that keys, agents, jump hosts and `~/.ssh/config` work as its user
//! knows them. One connection carries a shell there, copies, and tunnels; when it ends, by whatever cause, that shell ends what was started.
//!
//! Needed there: a POSIX shell, `ps`, `setsid`, `timeout`, `taskset` when systems are pinned, and the gateways' programs. Caps of memory are not enforced.

mod piped;
mod remote;
mod shell;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{CONGESTION_CONTROL, DeployError, Deployer, Facts, Handle, Output, Spec};
use crate::gateway::{Gateway, Program, Signal, Stop};
use crate::launch::tail;
use crate::observe::Reading;
use crate::observe::machine::{self, Ticks};
use crate::observe::process::{self, Units};
use crate::plan;
use shell::{Shell, quoted};

/// How long a response to "does it still run?" is valid: each check costs a round trip.
const BELIEVED: Duration = Duration::from_secs(1);

/// A machine that is reached over OpenSSH.
#[derive(Debug)]
pub struct Ssh {
    config: plan::Ssh,
    shell: Shell,
    directory: PathBuf,
    logs: PathBuf,
    cpus: Vec<u32>,
    units: Units,
    started: BTreeMap<Handle, Started>,
    tunnels: BTreeMap<u16, u16>,
    /// What was copied, and to where.
    brought: BTreeMap<PathBuf, PathBuf>,
    /// Processes whose output is read here.
    piped: BTreeMap<Handle, Child>,
    next: u32,
}

#[derive(Debug)]
struct Started {
    /// Its first process, which leads a session and a group of its own.
    pid: i32,
    name: String,
    log: PathBuf,
    /// The last response to whether it runs.
    seen: Option<(Instant, bool)>,
}

impl Ssh {
    /// Connects. `gauge` is this program; logs are fetched into `logs`, where that of the connection has its `name`.
    ///
    /// # Errors
    /// When the machine cannot be reached without a password, or lacks what is needed.
    pub fn open(gauge: &Path, config: &plan::Ssh, logs: &Path, name: &str) -> Result<Self, DeployError> {
        let mut shell = Shell::open(gauge, config, &logs.join(format!("{name}.log")))?;
        require(&mut shell, &["ps", "setsid", "mktemp", "timeout"])?;
        let parent = config.directory.as_deref().unwrap_or(Path::new("/tmp"));
        let parent = quoted(&parent.to_string_lossy());
        let made = shell.exchange(&format!("mkdir -p {parent} && mktemp -d {parent}/gauge-XXXXXX"))?;
        let directory = PathBuf::from(made.trim());
        shell.exchange(&format!("gauge_dir={0}; chmod 755 {0}", quoted(made.trim())))?;
        let allowed = shell.exchange("grep Cpus_allowed_list /proc/self/status")?;
        let cpus = remote::cpu_list(allowed.rsplit(':').next().unwrap_or_default());
        let numbers = shell.exchange("getconf CLK_TCK; getconf PAGESIZE")?;
        let mut numbers = numbers.lines().filter_map(|line| line.trim().parse().ok());
        let units = Units { ticks: numbers.next().unwrap_or(100), page: numbers.next().unwrap_or(4096) };
        Ok(Ssh {
            config: config.clone(),
            shell,
            directory,
            logs: logs.to_owned(),
            cpus,
            units,
            started: BTreeMap::new(),
            tunnels: BTreeMap::new(),
            brought: BTreeMap::new(),
            piped: BTreeMap::new(),
            next: 0,
        })
    }

    /// Whether systems can be pinned there.
    ///
    /// # Errors
    /// When the program for it is missing.
    pub fn require_pinning(&mut self) -> Result<(), DeployError> {
        require(&mut self.shell, &["taskset"])
    }

    /// A command line there: directory, variables, processors, program.
    fn line(spec: &Spec) -> String {
        let mut line = format!("cd {} && exec env", quoted(&spec.cwd.to_string_lossy()));
        for (name, value) in &spec.env {
            line.push_str(&format!(" {}", quoted(&format!("{name}={value}"))));
        }
        if !spec.cpus.is_empty() {
            let list: Vec<String> = spec.cpus.iter().map(u32::to_string).collect();
            line.push_str(&format!(" taskset -c {}", list.join(",")));
        }
        for argument in &spec.argv {
            line.push_str(&format!(" {}", quoted(argument)));
        }
        line
    }

    /// Copies bytes into a file there.
    fn copy(&mut self, file: &Path, mode: &str, bytes: &[u8]) -> Result<(), DeployError> {
        let path = quoted(&file.to_string_lossy());
        let folder = file.parent().unwrap_or(Path::new("/"));
        self.shell.exchange(&format!("mkdir -p {}", quoted(&folder.to_string_lossy())))?;
        let mut command = self.shell.beside();
        command.arg(format!("cat >{path} && chmod {mode} {path}"));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let failed = |error: std::io::Error| DeployError::file("ssh", error);
        let mut child = command.spawn().map_err(failed)?;
        let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(bytes));
        let output = child.wait_with_output().map_err(failed)?;
        if output.status.success() && written.is_ok() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(self.shell.error(format!("cannot copy to {}: {said}", file.display())))
    }

    fn is_below(&self, path: &Path) -> bool {
        path.starts_with(&self.directory)
            && path.components().all(|part| !matches!(part, std::path::Component::ParentDir))
    }

    fn end(&mut self, handle: Handle, stop: Option<Stop>) {
        let Some(started) = self.started.remove(&handle) else { return };
        let (signal, grace) = match stop {
            Some(stop) => (
                match stop.signal {
                    Signal::Term => "TERM",
                    Signal::Int => "INT",
                    Signal::Quit => "QUIT",
                    Signal::Hup => "HUP",
                    Signal::Usr1 => "USR1",
                    Signal::Usr2 => "USR2",
                    Signal::Kill => "KILL",
                    Signal::Stop => "STOP",
                    Signal::Cont => "CONT",
                },
                stop.grace,
            ),
            None => ("KILL", Duration::ZERO),
        };
        let tenths = grace.as_millis() / 100;
        // A closed connection has ended everything already.
        let _ = self.shell.exchange(&format!("gauge_stop {} {signal} {tenths}", started.pid));
        if let Some(mut child) = self.piped.remove(&handle) {
            // The connection's own end of it: nothing of it runs any more.
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Ok(text) = self.shell.exchange(&format!("tail -c 1000000 {}", quoted(&started.log.to_string_lossy()))) {
            let log = self.logs.join(format!("{}.log", started.name));
            let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
            // Logs are for people who look for a reason; without one there is still a result.
            let _ = file.and_then(|mut file| writeln!(file, "--- {}\n{text}", self.config.host));
        }
    }
}

/// Programs that must be there.
fn require(shell: &mut Shell, programs: &[&str]) -> Result<(), DeployError> {
    let missing =
        shell.exchange(&format!("for p in {}; do command -v $p >/dev/null || echo $p; done", programs.join(" ")))?;
    let missing: Vec<&str> = missing.split_whitespace().collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(shell.error(format!("these programs are missing there: {}", missing.join(", "))))
}

impl Drop for Ssh {
    fn drop(&mut self) {
        for handle in self.started.keys().copied().collect::<Vec<_>>() {
            self.end(handle, None);
        }
    }
}

impl Deployer for Ssh {
    fn place(&self) -> String {
        match &self.config.user {
            Some(user) => format!("ssh {user}@{}", self.config.host),
            None => format!("ssh {}", self.config.host),
        }
    }

    fn caps(&self) -> &'static str {
        "affinity"
    }

    fn cpus(&self) -> Vec<u32> {
        self.cpus.clone()
    }

    fn directory(&self) -> &Path {
        &self.directory
    }

    fn listen(&self) -> IpAddr {
        self.config.address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    fn clear(&mut self, directory: &Path) -> Result<(), DeployError> {
        if !self.is_below(directory) {
            return Err(self
                .shell
                .error(format!("{} is not a directory of gauge: it is not emptied", directory.display())));
        }
        let path = quoted(&directory.to_string_lossy());
        self.shell.exchange(&format!("rm -rf {path} && mkdir -p {path}")).map(drop)
    }

    fn write(&mut self, file: &Path, bytes: &[u8]) -> Result<(), DeployError> {
        if !self.is_below(file) {
            return Err(self.shell.error(format!("{} is not a directory of gauge: it is not written", file.display())));
        }
        self.copy(file, "644", bytes)
    }

    fn free_ports(&mut self, count: usize) -> Result<Vec<u16>, DeployError> {
        let used = remote::used_ports(&self.shell.exchange("cat /proc/net/tcp /proc/net/tcp6 2>/dev/null")?);
        // Below those that systems give to clients, so that no connection takes one before its server does.
        let mut candidates: Vec<u16> = (20_000..30_000).filter(|port| !used.contains(port)).collect();
        fastrand::shuffle(&mut candidates);
        candidates.truncate(count);
        if candidates.len() == count { Ok(candidates) } else { Err(self.shell.error("no port is free".to_owned())) }
    }

    fn locate(&mut self, gateway: &dyn Gateway) -> Result<Option<Program>, DeployError> {
        let locator = gateway.locator();
        // Named on this machine: meant to be used, and copied.
        if std::env::var_os(locator.variable).is_some_and(|path| !path.is_empty()) {
            let Some(program) = gateway.locate() else { return Ok(None) };
            return self.upload(&program.path).map(|path| Some(Program { path }));
        }
        let names: Vec<String> = locator.names.iter().map(|name| quoted(name)).collect();
        let found = self.shell.exchange(&format!(
            "PATH=$PATH:/usr/sbin:/usr/local/sbin; for p in {}; do command -v $p && break; done",
            names.join(" ")
        ))?;
        Ok(Some(found.trim()).filter(|path| path.starts_with('/')).map(|path| Program { path: path.into() }))
    }

    fn upload(&mut self, program: &Path) -> Result<PathBuf, DeployError> {
        if let Some(there) = self.brought.get(program) {
            return Ok(there.clone());
        }
        // Each in a folder of its own: two programs may have one name.
        let folder = self.directory.join("bin").join(self.brought.len().to_string());
        let there = folder.join(program.file_name().unwrap_or_default());
        let bytes = std::fs::read(program).map_err(|error| DeployError::file(program, error))?;
        self.copy(&there, "755", &bytes)?;
        self.brought.insert(program.to_owned(), there.clone());
        Ok(there)
    }

    fn fingerprint(&mut self, file: &Path) -> Option<String> {
        let line = format!("cksum <{}", quoted(&file.to_string_lossy()));
        let said = self.shell.exchange(&line).ok()?;
        let said = said.trim();
        let is_sum = !said.is_empty() && said.bytes().all(|byte| byte.is_ascii_digit() || byte == b' ');
        is_sum.then(|| said.to_owned())
    }

    fn cwd(&self, _here: &Path) -> PathBuf {
        self.directory.clone()
    }

    fn run(&mut self, spec: &Spec, timeout: Duration) -> Result<Output, DeployError> {
        let line = quoted(&Self::line(spec));
        let (status, text) =
            self.shell.status(&format!("timeout {} sh -c {line}", timeout.as_secs().max(1)), timeout + BELIEVED)?;
        Ok(Output { success: status == 0, text: tail(&text, 15) })
    }

    fn start(&mut self, spec: &Spec) -> Result<Handle, DeployError> {
        self.next += 1;
        let log = self.directory.join("logs").join(format!("{}-{}.log", self.next, spec.name));
        let line = quoted(&Self::line(spec));
        let (folder, file) = (quoted(&self.directory.join("logs").to_string_lossy()), quoted(&log.to_string_lossy()));
        let said = self.shell.exchange(&format!(
            "mkdir -p {folder}; setsid sh -c {line} >{file} 2>&1 </dev/null & gauge_groups=\"$gauge_groups $!\"; echo $!"
        ))?;
        let pid = said.trim().parse().map_err(|_| self.shell.error(format!("cannot start {}: {said}", spec.name)))?;
        let handle = Handle(self.next);
        self.started.insert(handle, Started { pid, name: spec.name.clone(), log, seen: None });
        Ok(handle)
    }

    fn is_running(&mut self, handle: Handle) -> bool {
        if let Some(child) = self.piped.get_mut(&handle) {
            return matches!(child.try_wait(), Ok(None));
        }
        let Some(started) = self.started.get_mut(&handle) else { return false };
        if let Some((when, running)) = started.seen
            && when.elapsed() < BELIEVED
        {
            return running;
        }
        let pid = started.pid;
        let running =
            self.shell.exchange(&format!("gauge_alive {pid} && echo yes")).is_ok_and(|said| said.trim() == "yes");
        if let Some(started) = self.started.get_mut(&handle) {
            started.seen = Some((Instant::now(), running));
        }
        running
    }

    fn reading(&mut self, handle: Handle) -> Option<Reading> {
        let pid = self.started.get(&handle)?.pid;
        let text = self.shell.exchange(&format!("gauge_look {pid}")).ok()?;
        Some(process::reading(&remote::processes(&text), self.units))
    }

    fn machine(&mut self) -> (Option<Ticks>, Option<f64>) {
        let Ok(text) = self.shell.exchange("cat /proc/loadavg; grep ^cpu /proc/stat") else { return (None, None) };
        (Ticks::parse(&text), text.lines().next().and_then(machine::load1))
    }

    fn log_tail(&mut self, handle: Handle) -> String {
        let Some(started) = self.started.get(&handle) else { return String::new() };
        let line = format!("tail -n 15 {}", quoted(&started.log.to_string_lossy()));
        self.shell.exchange(&line).unwrap_or_default().trim_end().to_owned()
    }

    fn stop(&mut self, handle: Handle, stop: Stop) {
        self.end(handle, Some(stop));
    }

    fn reach(&mut self, port: u16) -> Result<SocketAddr, DeployError> {
        if let Some(address) = self.config.address.filter(|_| !self.config.tunnel) {
            return Ok(SocketAddr::new(address, port));
        }
        let local = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        if let Some(tunnel) = self.tunnels.get(&port) {
            return Ok(local(*tunnel));
        }
        let free = TcpListener::bind(local(0)).and_then(|listener| listener.local_addr());
        let free = free.map_err(|error| self.shell.error(format!("no port is free here: {error}")))?.port();
        let mut command: Command = self.shell.control();
        command
            .args(["-O", "forward", "-L", &format!("127.0.0.1:{free}:{}", SocketAddr::new(self.listen(), port)), "--"])
            .arg(&self.config.host);
        let output = command.stdin(Stdio::null()).output().map_err(|error| DeployError::file("ssh", error))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(self.shell.error(format!("no tunnel to port {port}: {said}")));
        }
        self.tunnels.insert(port, free);
        Ok(local(free))
    }

    fn seen(&self, here: SocketAddr) -> SocketAddr {
        let tunnel = self.tunnels.iter().find(|(_, local)| here.ip().is_loopback() && **local == here.port());
        tunnel.map_or(here, |(port, _)| SocketAddr::new(self.listen(), *port))
    }

    fn facts(&mut self) -> Facts {
        let mut exchange = |line: &str| {
            let said = self.shell.exchange(line).unwrap_or_default();
            Some(said.trim().to_owned()).filter(|said| !said.is_empty())
        };
        let after = |text: String| text.rsplit(':').next().map(|text| text.trim().to_owned());
        Facts {
            host: exchange("uname -n"),
            system: exchange("uname -srm"),
            processor: exchange("grep -m 1 'model name' /proc/cpuinfo").and_then(after),
            memory_bytes: exchange("grep MemTotal /proc/meminfo")
                .and_then(after)
                .and_then(|text| text.split(' ').next()?.parse::<u64>().ok())
                .map(|kib| kib * 1024),
            congestion_control: exchange(&format!("cat {CONGESTION_CONTROL}")),
        }
    }
}
