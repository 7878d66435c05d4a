//! This machine.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal as Kill, kill_process, kill_process_group};

use super::cgroup::{self, Cgroups};
use super::registry::{Entry, Registry, kill_group};
use super::{CONGESTION_CONTROL, Clock, DeployError, Deployer, Facts, GeneratorHost, Handle, Output, Piped, Spec, pin};
use crate::gateway::{Gateway, Program, Signal, Stop};
use crate::launch::{Launch, tail};
use crate::observe::Reading;
use crate::observe::machine::{self, Ticks};
use crate::observe::process::{self, Process, Stat, Units};

/// Processes on this machine.
#[derive(Debug)]
pub struct Local {
    /// This program, which launches the others.
    gauge: PathBuf,
    directory: PathBuf,
    logs: PathBuf,
    registry: Registry,
    cgroups: Option<Cgroups>,
    units: Units,
    /// Processors for what is not pinned: this program pins itself later.
    all: Vec<u32>,
    started: BTreeMap<Handle, Started>,
    next: u32,
    /// Of the ports that were found last.
    claims: VecDeque<UnixDatagram>,
}

/// Ports that are claimed at once; earlier ones have had their listener for long.
pub(super) const CLAIMS: usize = 64;

/// Claims a port until the result is dropped, for the time until the program that is to listen on it does: another `gauge` could find it free too, and
/// two servers that set `SO_REUSEPORT` would share it. The name is of the network namespace, as ports are.
pub(super) fn claim(port: u16) -> io::Result<UnixDatagram> {
    UnixDatagram::bind_addr(&UnixAddress::from_abstract_name(format!("gauge-port-{port}"))?)
}

#[derive(Debug)]
struct Started {
    child: Child,
    group: i32,
    cgroups: Vec<PathBuf>,
    log: PathBuf,
    /// Where its part of the log begins.
    log_from: u64,
}

impl Local {
    /// `gauge` is this program; files go below `directory`, logs below `logs`.
    ///
    /// # Errors
    /// When those cannot be made.
    pub fn new(gauge: &Path, directory: &Path, logs: &Path) -> Result<Self, DeployError> {
        for folder in [directory, logs] {
            fs::create_dir_all(folder).map_err(|error| DeployError::file(folder, error))?;
        }
        let registry = Registry::open().map_err(|error| DeployError::file(std::env::temp_dir(), error))?;
        Ok(Local {
            gauge: gauge.to_owned(),
            directory: directory.to_owned(),
            logs: logs.to_owned(),
            registry,
            cgroups: Cgroups::find(),
            units: Units::here(),
            all: pin::allowed(),
            started: BTreeMap::new(),
            next: 0,
            claims: VecDeque::new(),
        })
    }

    /// How a process ended; `None` while it runs.
    fn code(&mut self, handle: Handle) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        let started = self.started.get_mut(&handle)?;
        let status = started.child.try_wait().ok()??;
        Some(status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1))
    }

    fn spawn(&mut self, spec: &Spec, piped: bool) -> Result<Handle, DeployError> {
        let fail = |why: String| DeployError::Start { program: spec.name.clone(), why };
        self.next += 1;
        let handle = Handle(self.next);
        let log = self.logs.join(format!("{}.log", spec.name));
        let file = OpenOptions::new().create(true).append(true).open(&log);
        let mut file = file.map_err(|error| DeployError::file(&log, error))?;
        let _ = writeln!(file, "--- {}", spec.argv.join(" "));
        let log_from = file.metadata().map_or(0, |found| found.len());
        let stderr = file.try_clone().map_err(|error| DeployError::file(&log, error))?;
        let cgroups = match &self.cgroups {
            Some(cgroups) => {
                cgroups.make(&format!("gauge-{}-{}-{}", std::process::id(), self.next, spec.name), spec.memory_bytes)
            }
            None => Vec::new(),
        };
        let launch = Launch {
            supervise: false,
            parent: std::process::id() as i32,
            term: true,
            cpus: if spec.cpus.is_empty() { self.all.clone() } else { spec.cpus.clone() },
            cgroups: cgroups.clone(),
            wait: true,
            keep_stdin: piped,
            argv: spec.argv.iter().map(Into::into).collect(),
        };
        let mut command = Command::new(&self.gauge);
        command.args(launch.arguments()).envs(spec.env.iter().map(|(name, value)| (name, value)));
        command.current_dir(&spec.cwd).stdin(Stdio::piped()).stderr(stderr).process_group(0);
        if piped {
            command.stdout(Stdio::piped());
        } else {
            command.stdout(file);
        }
        let mut child = command.spawn().map_err(|error| {
            cgroup::remove(&cgroups);
            fail(format!("{error} (in {})", spec.cwd.display()))
        })?;
        let group = child.id() as i32;
        let start_ticks = Stat::of(child.id()).map_or(0, |stat| stat.start_ticks);
        let entry = Entry { group, start_ticks, cgroups: cgroups.clone(), name: spec.name.clone() };
        let noted = self.registry.add(entry);
        let go = child.stdin.take();
        self.started.insert(handle, Started { child, group, cgroups, log, log_from });
        if let Err(error) = noted {
            self.end(handle, None);
            return Err(fail(format!("it cannot be noted as running: {error}")));
        }
        // Noted: now it may become the program. One that has ended already says so in its log.
        if let Some(mut go) = go {
            let _ = go.write_all(b"!");
            if piped && let Some(started) = self.started.get_mut(&handle) {
                started.child.stdin = Some(go);
            }
        }
        Ok(handle)
    }

    /// Ends a process and everything that came of it.
    fn end(&mut self, handle: Handle, stop: Option<Stop>) {
        let Some(mut started) = self.started.remove(&handle) else { return };
        if let (Some(stop), Some(pid)) = (stop, Pid::from_raw(started.group)) {
            let running = matches!(started.child.try_wait(), Ok(None));
            if running && kill_process(pid, number(stop.signal)).is_ok() {
                let deadline = Instant::now() + stop.grace;
                while matches!(started.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        }
        kill_group(started.group);
        let _ = started.child.kill();
        let _ = started.child.wait();
        // Those that made a group of their own.
        cgroup::kill(&started.cgroups);
        cgroup::remove(&started.cgroups);
        self.registry.remove(started.group);
    }

    fn pids(started: &Started) -> Vec<u32> {
        match cgroup::members(&started.cgroups) {
            pids if pids.is_empty() => process::of_group(started.group),
            pids => pids,
        }
    }
}

fn number(signal: Signal) -> Kill {
    match signal {
        Signal::Term => Kill::TERM,
        Signal::Int => Kill::INT,
        Signal::Quit => Kill::QUIT,
        Signal::Hup => Kill::HUP,
        Signal::Usr1 => Kill::USR1,
        Signal::Usr2 => Kill::USR2,
        Signal::Kill => Kill::KILL,
        Signal::Stop => Kill::STOP,
        Signal::Cont => Kill::CONT,
    }
}

/// Most of a log that is read for its last lines: one of many rounds under load may not fit into memory.
const LOG_END: u64 = 64 * 1024;

/// The last [`LOG_END`] bytes of a file, or what there is of them from `begin` on.
pub(super) fn end_of(file: &Path, begin: u64) -> io::Result<String> {
    let mut file = fs::File::open(file)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(LOG_END).max(begin);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    // What is written meanwhile is left out: a program that writes all the time would never be read to its end.
    file.take(length.saturating_sub(from)).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Drop for Local {
    fn drop(&mut self) {
        for handle in self.started.keys().copied().collect::<Vec<_>>() {
            self.end(handle, None);
        }
    }
}

impl Deployer for Local {
    fn place(&self) -> String {
        "local".to_owned()
    }

    fn caps(&self) -> &'static str {
        if self.cgroups.as_ref().is_some_and(Cgroups::caps_memory) { "cgroup" } else { "affinity" }
    }

    fn cpus(&self) -> Vec<u32> {
        pin::allowed()
    }

    fn directory(&self) -> &Path {
        &self.directory
    }

    fn clear(&mut self, directory: &Path) -> Result<(), DeployError> {
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(DeployError::file(directory, error)),
            _ => {}
        }
        fs::create_dir_all(directory).map_err(|error| DeployError::file(directory, error))
    }

    fn write(&mut self, file: &Path, bytes: &[u8]) -> Result<(), DeployError> {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(|error| DeployError::file(folder, error))?;
        }
        fs::write(file, bytes).map_err(|error| DeployError::file(file, error))
    }

    fn free_ports(&mut self, count: usize) -> Result<Vec<u16>, DeployError> {
        let mut find = || -> io::Result<Vec<u16>> {
            // All are held until the last is found, so that they differ.
            let mut bound = Vec::new();
            let mut ports = Vec::new();
            while ports.len() < count {
                let one = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
                let port = one.local_addr()?.port();
                bound.push(one);
                match claim(port) {
                    Ok(claim) => self.claims.push_back(claim),
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse => continue,
                    Err(error) => return Err(error),
                }
                ports.push(port);
            }
            Ok(ports)
        };
        let ports = find();
        while self.claims.len() > CLAIMS.max(count) {
            self.claims.pop_front();
        }
        ports.map_err(|error| DeployError::Start { program: "a listener".to_owned(), why: error.to_string() })
    }

    fn locate(&mut self, gateway: &dyn Gateway) -> Result<Option<Program>, DeployError> {
        Ok(gateway.locate())
    }

    fn upload(&mut self, program: &Path) -> Result<PathBuf, DeployError> {
        Ok(program.to_owned())
    }

    fn fingerprint(&mut self, file: &Path) -> Option<String> {
        super::fingerprint(fs::File::open(file).ok()?).ok()
    }

    fn cwd(&self, here: &Path) -> PathBuf {
        here.to_owned()
    }

    fn run(&mut self, spec: &Spec, timeout: Duration) -> Result<Output, DeployError> {
        let handle = self.spawn(spec, false)?;
        let deadline = Instant::now() + timeout;
        let code = loop {
            match self.code(handle) {
                Some(code) => break Some(code),
                None if Instant::now() > deadline => break None,
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        let text = self.log_tail(handle);
        self.end(handle, None);
        match code {
            Some(code) => Ok(Output { success: code == 0, text }),
            None => Err(DeployError::Start {
                program: spec.name.clone(),
                why: format!("it did not end within {} s; its last lines:\n{text}", timeout.as_secs()),
            }),
        }
    }

    fn start(&mut self, spec: &Spec) -> Result<Handle, DeployError> {
        self.spawn(spec, false)
    }

    fn is_running(&mut self, handle: Handle) -> bool {
        self.started.get_mut(&handle).is_some_and(|started| matches!(started.child.try_wait(), Ok(None)))
    }

    fn reading(&mut self, handle: Handle) -> Option<Reading> {
        let started = self.started.get(&handle)?;
        let processes: Vec<Process> = Self::pids(started).into_iter().filter_map(Process::of).collect();
        let mut reading = process::reading(&processes, self.units);
        if let Some((user_s, system_s, both)) = cgroup::cpu_s(&started.cgroups) {
            (reading.user_s, reading.system_s, reading.on_cpu_s) = (Some(user_s), Some(system_s), Some(both));
        }
        reading.throttled_s = cgroup::throttled_s(&started.cgroups);
        Some(reading)
    }

    fn machine(&mut self) -> (Option<Ticks>, Option<f64>) {
        let load = fs::read_to_string("/proc/loadavg").ok().as_deref().and_then(machine::load1);
        (Ticks::here(), load)
    }

    fn log_tail(&mut self, handle: Handle) -> String {
        let Some(started) = self.started.get(&handle) else { return String::new() };
        tail(&end_of(&started.log, started.log_from).unwrap_or_default(), 15)
    }

    fn signal(&mut self, handle: Handle, signal: Signal) -> Result<(), DeployError> {
        let Some(pid) = self.started.get(&handle).and_then(|started| Pid::from_raw(started.group)) else {
            return Ok(());
        };
        let all = matches!(signal, Signal::Kill | Signal::Stop | Signal::Cont);
        let sent = if all { kill_process_group(pid, number(signal)) } else { kill_process(pid, number(signal)) };
        // One that has ended is found to have.
        match sent {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(DeployError::Start { program: "a signal".to_owned(), why: error.to_string() }),
        }
    }

    fn stop(&mut self, handle: Handle, stop: Stop) {
        self.end(handle, Some(stop));
    }

    fn reach(&mut self, port: u16) -> Result<SocketAddr, DeployError> {
        Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
    }

    fn facts(&mut self) -> Facts {
        let uname = rustix::system::uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        let field = |file: &str, name: &str| {
            let text = fs::read_to_string(file).ok()?;
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = field("/proc/meminfo", "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        Facts {
            host: Some(text(uname.nodename())),
            system: Some(format!("{} {} {}", text(uname.sysname()), text(uname.release()), text(uname.machine()))),
            processor: field("/proc/cpuinfo", "model name"),
            memory_bytes: memory.map(|kib| kib * 1024),
            congestion_control: fs::read_to_string(CONGESTION_CONTROL).ok().map(|text| text.trim().to_owned()),
        }
    }
}

impl GeneratorHost for Local {
    fn start_piped(&mut self, spec: &Spec) -> Result<Piped, DeployError> {
        let handle = self.spawn(spec, true)?;
        let stdout = self.started.get_mut(&handle).and_then(|started| started.child.stdout.take());
        let gone = || DeployError::Start { program: spec.name.clone(), why: "its output is not available".to_owned() };
        stdout.map(|stdout| Piped { handle, stdout }).ok_or_else(gone)
    }

    fn say(&mut self, handle: Handle, line: &str) {
        if let Some(stdin) = self.started.get_mut(&handle).and_then(|started| started.child.stdin.as_mut()) {
            let _ = writeln!(stdin, "{line}").and_then(|()| stdin.flush());
        }
    }

    fn exit_code(&mut self, handle: Handle) -> Option<i32> {
        self.code(handle)
    }

    fn read(&mut self, file: &Path) -> Result<String, DeployError> {
        fs::read_to_string(file).map_err(|error| DeployError::file(file, error))
    }

    fn upload_data(&mut self, file: &Path) -> Result<PathBuf, DeployError> {
        Ok(file.to_owned())
    }

    fn clock(&mut self) -> Option<Clock> {
        None
    }
}
