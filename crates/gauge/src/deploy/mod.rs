//! Where systems run: an interface, this machine ([`Local`]) and another one over OpenSSH ([`Ssh`]).
//!
//! Whatever is started is a process group of its own, with its output in a log file, pinned to processors and capped where that is
//! allowed; and it is stopped, also when this program is killed: see [`registry`].

mod cgroup;
mod local;
pub mod pin;
pub mod registry;
mod ssh;

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ChildStdout;
use std::time::Duration;

use crate::gateway::{Gateway, Program, Signal, Stop};
use crate::observe::Reading;
use crate::observe::machine::Ticks;

pub use local::Local;
pub use ssh::Ssh;

/// A process to start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spec {
    /// For messages and for the name of its log: small letters, digits and dashes.
    pub name: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Variables beside the inherited ones.
    pub env: Vec<(String, String)>,
    /// Working directory, on the machine where it runs.
    pub cwd: PathBuf,
    /// Processors that it may use; all when empty.
    pub cpus: Vec<u32>,
    /// Memory that it may use.
    pub memory_bytes: Option<u64>,
}

/// A process that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handle(pub(crate) u32);

/// What a command that ran to its end said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// Whether it ended with 0.
    pub success: bool,
    /// Both streams.
    pub text: String,
}

/// What went wrong with a machine or a process.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// One of Gauge's own files could not be written or read.
    #[error("{}: {error}", .file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A program could not be started.
    #[error("cannot start {program}: {why}")]
    Start {
        /// Its name.
        program: String,
        /// What to do, or what the system said.
        why: String,
    },
    /// The other machine cannot be reached.
    #[error("{host}: {why}")]
    NoConnection {
        /// Which.
        host: String,
        /// What it said, and what to do.
        why: String,
    },
    /// The other machine did not do what it was told.
    #[error("{host}: {why}")]
    Remote {
        /// Which.
        host: String,
        /// What it said, and what to do.
        why: String,
    },
}

impl DeployError {
    pub(crate) fn file(file: impl Into<PathBuf>, error: impl Into<io::Error>) -> Self {
        DeployError::File { file: file.into(), error: error.into() }
    }
}

/// A machine on which systems run.
pub trait Deployer {
    /// For reports: `local`, `ssh user@host`.
    fn place(&self) -> String;

    /// How the caps of `hardware` hold there: `cgroup`, `affinity`, `none`.
    fn caps(&self) -> &'static str;

    /// Processors that may be used there.
    fn cpus(&self) -> Vec<u32>;

    /// The directory there for everything that is written; absolute.
    fn directory(&self) -> &Path;

    /// The address on which systems and upstreams listen there.
    fn listen(&self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::LOCALHOST)
    }

    /// Empties a directory below [`Deployer::directory`], and makes it when it is not there.
    ///
    /// # Errors
    /// When the machine refuses.
    fn clear(&mut self, directory: &Path) -> Result<(), DeployError>;

    /// Writes a file below [`Deployer::directory`], with the directories above it.
    ///
    /// # Errors
    /// When the machine refuses.
    fn write(&mut self, file: &Path, bytes: &[u8]) -> Result<(), DeployError>;

    /// Ports on which nobody listens, all different.
    ///
    /// # Errors
    /// When the machine has none left.
    fn free_ports(&mut self, count: usize) -> Result<Vec<u16>, DeployError>;

    /// The program of a gateway there.
    ///
    /// # Errors
    /// When the machine cannot be reached.
    fn locate(&mut self, gateway: &dyn Gateway) -> Result<Option<Program>, DeployError>;

    /// Makes a program of this machine available there; the path that it has there.
    ///
    /// # Errors
    /// When it cannot be copied.
    fn upload(&mut self, program: &Path) -> Result<PathBuf, DeployError>;

    /// A short text that another content of a file there would not have; `None` when it cannot be read.
    fn fingerprint(&mut self, file: &Path) -> Option<String>;

    /// The directory there that stands for one of this machine.
    fn cwd(&self, here: &Path) -> PathBuf;

    /// Runs a command to its end.
    ///
    /// # Errors
    /// When it cannot be started, or does not end before the deadline.
    fn run(&mut self, spec: &Spec, timeout: Duration) -> Result<Output, DeployError>;

    /// Starts a process.
    ///
    /// # Errors
    /// When that cannot be done.
    fn start(&mut self, spec: &Spec) -> Result<Handle, DeployError>;

    /// Whether the first process of what was started still runs.
    fn is_running(&mut self, handle: Handle) -> bool;

    /// What all of its processes use.
    fn reading(&mut self, handle: Handle) -> Option<Reading>;

    /// Processor time of the whole machine, and its load average.
    fn machine(&mut self) -> (Option<Ticks>, Option<f64>);

    /// The last lines of its log, for messages.
    fn log_tail(&mut self, handle: Handle) -> String;

    /// Sends a signal: one that ends or stops a process to all of its processes, others to its first.
    ///
    /// # Errors
    /// Where that cannot be done from here.
    fn signal(&mut self, _handle: Handle, _signal: Signal) -> Result<(), DeployError> {
        let (host, why) = (self.place(), "signals are sent on this machine only; leave `deploy` out".to_owned());
        Err(DeployError::Remote { host, why })
    }

    /// Ends it with all of its processes.
    fn stop(&mut self, handle: Handle, stop: Stop);

    /// Where the generator reaches a port of that machine's loopback.
    ///
    /// # Errors
    /// When there is no way.
    fn reach(&mut self, port: u16) -> Result<SocketAddr, DeployError>;

    /// Where a generator on another machine reaches what this program reaches at an address of [`Deployer::reach`].
    fn seen(&self, here: SocketAddr) -> SocketAddr {
        here
    }

    /// Facts for the report.
    fn facts(&mut self) -> Facts;
}

/// A machine on which a generator runs: what it prints is read at once, and it is told when to go on.
pub trait GeneratorHost: Deployer {
    /// Starts a process and reads what it prints.
    ///
    /// # Errors
    /// As [`Deployer::start`].
    fn start_piped(&mut self, spec: &Spec) -> Result<Piped, DeployError>;

    /// Writes a line to a process that was started with its output at hand; one that has ended needs none.
    fn say(&mut self, handle: Handle, line: &str);

    /// How a process ended; `None` while it runs.
    fn exit_code(&mut self, handle: Handle) -> Option<i32>;

    /// The text of a file there.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&mut self, file: &Path) -> Result<String, DeployError>;

    /// Makes a file of this machine available there, readable for the user of the machine alone; the path that it has there. A file of which others are
    /// found from its folder (`.proto`) comes with those.
    ///
    /// # Errors
    /// When it cannot be copied.
    fn upload_data(&mut self, file: &Path) -> Result<PathBuf, DeployError>;

    /// How far its clock is from the one here; none where they are one.
    fn clock(&mut self) -> Option<Clock>;
}

/// A process whose standard output is read.
#[derive(Debug)]
pub struct Piped {
    /// To request it and to stop it.
    pub handle: Handle,
    /// What it prints.
    pub stdout: ChildStdout,
}

/// Another machine's clock beside the one here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clock {
    /// How far it is ahead; half of the round trip is the error.
    pub offset_ms: f64,
    /// The shortest round trip that was seen.
    pub round_trip_ms: f64,
}

/// What a machine says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its name.
    pub host: Option<String>,
    /// Operating system and kernel.
    pub system: Option<String>,
    /// Name of the processor.
    pub processor: Option<String>,
    /// Memory.
    pub memory_bytes: Option<u64>,
    /// Congestion control of TCP that sockets begin with.
    pub congestion_control: Option<String>,
}

/// Where a machine says that.
const CONGESTION_CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Length and checksum (FNV-1a, 64 bits) of a content: the same content has the same ones on every machine and in every version of this
/// program. It tells a file that was changed, not one that somebody forged.
pub(crate) fn fingerprint(mut content: impl Read) -> io::Result<String> {
    let (mut length, mut sum, mut buffer) = (0_u64, 0xCBF2_9CE4_8422_2325_u64, vec![0; 64 * 1024]);
    loop {
        let read = match content.read(&mut buffer) {
            Ok(0) => return Ok(format!("{length} {sum:016x}")),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        length += read as u64;
        for byte in &buffer[..read] {
            sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
}

#[cfg(test)]
mod tests;
