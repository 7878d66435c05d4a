//! The last steps before a program becomes what was requested. They are done by this program itself, started once more with the hidden
//! verb `launch`: it pins itself, joins its control groups, tells the kernel to end it with its parent, and then turns into the program. So
//! nothing has to run between fork and exec, and no moment is left in which the program runs unpinned.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Resource, Rlimit, Signal, getpid, getppid, getrlimit, kill_process, set_child_subreaper,
    set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::observe::process::descendants;

/// What `gauge launch` is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Launch {
    /// Process that it dies with.
    pub parent: i32,
    /// It is then told to end (SIGTERM), so that a server ends its workers too; else it is killed.
    pub term: bool,
    /// Processors; all when empty.
    pub cpus: Vec<u32>,
    /// Control groups to join.
    pub cgroups: Vec<PathBuf>,
    /// Wait for a byte on standard input, which is then /dev/null: until the parent has noted what it started. Without the byte it ends.
    pub wait: bool,
    /// Standard input stays what it was, after that byte.
    pub keep_stdin: bool,
    /// Stay, as parent of the program, and end all that it started when it ends, or when standard input does: with the process that started this one. A
    /// script that starts another program cannot be told to end with its parent and that one with it.
    pub supervise: bool,
    /// Program and arguments.
    pub argv: Vec<OsString>,
}

impl Launch {
    /// The arguments of `gauge` that say this.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut out: Vec<OsString> = vec!["launch".into(), "--parent".into(), self.parent.to_string().into()];
        if self.term {
            out.push("--term".into());
        }
        for cpu in &self.cpus {
            out.extend(["--cpu".into(), cpu.to_string().into()]);
        }
        for cgroup in &self.cgroups {
            out.extend(["--cgroup".into(), cgroup.into()]);
        }
        if self.wait {
            out.push("--wait".into());
        }
        if self.keep_stdin {
            out.push("--keep-stdin".into());
        }
        if self.supervise {
            out.push("--supervise".into());
        }
        out.push("--".into());
        out.extend(self.argv.iter().cloned());
        out
    }

    /// Turns into the program. Comes back only when that fails, or when a supervised program has ended, with its exit code.
    pub fn exec(&self) -> Result<u8, (String, io::Error)> {
        self.prepare()?;
        let Some((program, arguments)) = self.argv.split_first() else {
            return Err(("gauge launch".to_owned(), io::Error::other("no program was named")));
        };
        let name = || program.to_string_lossy().into_owned();
        let mut command = Command::new(program);
        command.args(arguments);
        if self.supervise {
            return supervise(&mut command).map_err(|error| (name(), error));
        }
        Err((name(), command.exec()))
    }

    /// What comes before the program.
    fn prepare(&self) -> Result<(), (String, io::Error)> {
        let own = |error: rustix::io::Errno| Err(("gauge launch".to_owned(), error.into()));
        let signal = if self.term { Signal::TERM } else { Signal::KILL };
        // One that supervises has to outlive its parent, to end the others; the end of its standard input tells it.
        if !self.supervise
            && let Err(error) = set_parent_process_death_signal(Some(signal))
        {
            return own(error);
        }
        // The parent may have ended before the kernel was told.
        if self.parent != 0 && getppid().map(rustix::process::Pid::as_raw_nonzero).map(i32::from) != Some(self.parent) {
            return Err(("gauge launch".to_owned(), io::Error::other("the process that started it has ended")));
        }
        for cgroup in &self.cgroups {
            let file = cgroup.join("cgroup.procs");
            if let Err(error) = std::fs::write(&file, "0") {
                return Err((file.display().to_string(), error));
            }
        }
        if !self.cpus.is_empty() {
            let mut set = CpuSet::new();
            for cpu in &self.cpus {
                set.set(*cpu as usize);
            }
            if let Err(error) = sched_setaffinity(None, &set) {
                return Err((format!("processors {:?}", self.cpus), error.into()));
            }
        }
        open_files();
        if self.wait
            && let Err(error) = go_ahead(self.keep_stdin)
        {
            return Err(("gauge launch".to_owned(), error));
        }
        Ok(())
    }
}

/// Runs a program to its end, and ends what it left running; also when standard input ends before. Its exit code.
fn supervise(command: &mut Command) -> io::Result<u8> {
    // What its descendants leave behind becomes a child of this process, and can be found.
    set_child_subreaper(Some(getpid()))?;
    let mut child = command.stdin(Stdio::null()).spawn()?;
    std::thread::spawn(|| {
        // Nobody writes; it ends with the process that holds the other end.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        end_descendants();
        std::process::exit(1);
    });
    let status = child.wait();
    end_descendants();
    Ok(status?.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Ends all that this process started, and what that started, until nothing is left.
fn end_descendants() {
    let deadline = Instant::now() + Duration::from_secs(5);
    while let left = descendants(std::process::id())
        && !left.is_empty()
        && Instant::now() < deadline
    {
        for pid in left.into_iter().filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Descriptors that every program may have, where that is allowed: some refuse to start with fewer than they were configured for.
const DESCRIPTORS: u64 = 65_536;

/// Raises the limit of open files: to [`DESCRIPTORS`], or as far as this user may.
fn open_files() {
    let now = getrlimit(Resource::Nofile);
    let most = now.maximum.map_or(DESCRIPTORS, |most| most.max(DESCRIPTORS));
    for limit in [Some(most), now.maximum] {
        if setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: limit }).is_ok() {
            return;
        }
    }
}

/// Waits for the parent's byte; nothing may be started that is not noted, and so could not be found when the parent is killed.
fn go_ahead(keep_stdin: bool) -> io::Result<()> {
    let mut byte = [0];
    io::stdin().read_exact(&mut byte).map_err(|_| io::Error::other("the process that started it has ended"))?;
    if keep_stdin {
        return Ok(());
    }
    let nothing = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    Ok(())
}

/// The last lines of a text.
pub(crate) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
