//! How a child is started: the one place that forks.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, mpsc};

use rustix::process::{Pid, Signal, set_parent_process_death_signal};

use super::{Output, Process};

/// Collects what a child is started with. The environment is empty but for PATH, HOME, TMPDIR and what makes Rust programs write
/// backtraces and coverage: a variable in the shell of whoever runs the tests must not decide them.
#[derive(Debug)]
pub struct ProcessBuilder {
    command: Command,
    program: OsString,
    hint: Option<String>,
    death_signal: Signal,
}

const KEPT_ENVIRONMENT: [&str; 6] =
    ["PATH", "HOME", "TMPDIR", "RUST_BACKTRACE", "LLVM_PROFILE_FILE", "LD_LIBRARY_PATH"];

impl ProcessBuilder {
    pub(super) fn new(program: OsString) -> Self {
        let mut command = Command::new(&program);
        command.env_clear();
        for name in KEPT_ENVIRONMENT {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        Self { command, program, hint: None, death_signal: Signal::KILL }
    }

    /// Adds one argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// Adds arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// The working directory; that of the test when not set.
    pub fn current_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.command.current_dir(dir.into());
        self
    }

    /// Runs as this user and group, without further groups. Needs root.
    pub fn user(mut self, uid: u32, gid: u32) -> Self {
        self.command.uid(uid).gid(gid);
        self
    }

    /// What the kernel sends when the test process dies: KILL unless set. A program that has children of its own wants the signal
    /// on which it takes them along.
    pub fn death_signal(mut self, signal: Signal) -> Self {
        self.death_signal = signal;
        self
    }

    /// The end of the message when the program cannot be started: what to install.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Starts it. Panics when that cannot be done.
    #[track_caller]
    pub fn start(mut self) -> Process {
        let name = self.program.to_string_lossy().into_owned();
        self.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        die_with_parent(&mut self.command, self.death_signal);
        let mut child = spawn(self.command)
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}. {}", self.hint.unwrap_or_default()));
        let pid = Pid::from_child(&child);
        let output = Output::read(child.stdout.take(), child.stderr.take());
        Process { name: name.rsplit('/').next().unwrap_or_default().to_owned(), child: Mutex::new(child), pid, output }
    }
}

/// Makes the child query the kernel for `signal` when its parent dies.
#[allow(unsafe_code)]
fn die_with_parent(command: &mut Command, signal: Signal) {
    // SAFETY: between fork and exec only async-signal-safe work is allowed; this closure is a single prctl system call that touches
    // no memory of the process. std offers no other way to run something in the child.
    unsafe {
        command.pre_exec(move || set_parent_process_death_signal(Some(signal)).map_err(io::Error::from));
    }
}

/// Starts the child from a thread that lives as long as the test process does.
///
/// The kernel's "parent" of the death signal is the thread that forked, and every test has a thread of its own: a server that
/// several tests share would die with the first of them.
fn spawn(command: Command) -> io::Result<Child> {
    type Job = (Command, mpsc::Sender<io::Result<Child>>);
    static SPAWNER: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, jobs) = mpsc::channel::<Job>();
        std::thread::Builder::new()
            .name("spawner".to_owned())
            .spawn(move || {
                for (mut command, response) in jobs {
                    let _ = response.send(command.spawn());
                }
            })
            .expect("a thread");
        sender
    });
    let (response, child) = mpsc::channel();
    spawner.send((command, response)).expect("the spawner never ends");
    child.recv().expect("the spawner answers")
}
