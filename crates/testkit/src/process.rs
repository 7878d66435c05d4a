//! A child process that a test starts, reads, signals and never leaves behind.

mod builder;
mod output;
mod usage;

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, kill_process, kill_process_group};

pub use builder::ProcessBuilder;
pub use output::Mark;
pub use rustix::process::Signal;
pub use usage::Usage;

use crate::{DEADLINE, wait};
use output::Output;

/// A running (or ended) child, in a process group of its own.
///
/// Its stdout and stderr are read line by line. On drop it is killed with all that is below it; if the test process dies first,
/// the kernel kills the child, though not the child's children (see [`ProcessBuilder::death_signal`]). When it is dropped by a
/// panicking test its last lines are printed.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Mutex<Child>,
    pid: Pid,
    output: Output,
}

impl Process {
    /// A builder for `program`: a path, or a name that is looked up in PATH.
    pub fn builder(program: impl Into<std::ffi::OsString>) -> ProcessBuilder {
        ProcessBuilder::new(program.into())
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_pid().unsigned_abs()
    }

    /// The exit status, once it has ended.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        let mut child = self.child.lock().expect("no panic while the lock is held");
        child.try_wait().unwrap_or_else(|error| panic!("{}: cannot ask for its state: {error}", self.name))
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait_for_exit(&self, deadline: Duration) -> ExitStatus {
        wait::try_some(deadline, || self.exit_status())
            .unwrap_or_else(|| panic!("{} still runs after {deadline:?}\n{}", self.name, self.tail()))
    }

    /// The first value that `find` makes of a line of stdout or stderr; lines from before the call count. Panics with
    /// the output when there is none by the deadline, or when the process ends without one.
    #[track_caller]
    pub fn wait_for_line<T>(&self, what: &str, find: impl FnMut(&str) -> Option<T>) -> T {
        self.wait_for_line_after(Mark::START, what, DEADLINE, find)
    }

    /// Like [`Process::wait_for_line`], among the lines after `mark`.
    #[track_caller]
    pub fn wait_for_line_after<T>(
        &self,
        mark: Mark,
        what: &str,
        deadline: Duration,
        mut find: impl FnMut(&str) -> Option<T>,
    ) -> T {
        let end = Instant::now() + deadline;
        let mut next = mark;
        loop {
            // Checked before the lines are read: what it wrote before it ended is still found.
            let ended = self.exit_status().filter(|_| self.output.is_closed());
            let (found, seen) = self.output.find_from(next, &mut find);
            next = seen;
            if let Some(value) = found {
                return value;
            }
            if let Some(status) = ended {
                panic!("{} ended ({status}) without {what}\n{}", self.name, self.tail());
            }
            if Instant::now() >= end {
                panic!("{} did not print {what} within {deadline:?}\n{}", self.name, self.tail());
            }
            self.output.wait_for_news(next, Duration::from_millis(20));
        }
    }

    /// The place in the output where it stands now, for [`Process::wait_for_line_after`] and [`Process::lines_after`].
    pub fn mark(&self) -> Mark {
        self.output.mark()
    }

    /// The lines of stdout and stderr after `mark`, in the order in which they arrived.
    pub fn lines_after(&self, mark: Mark) -> Vec<String> {
        self.settle();
        self.output.lines_after(mark, None)
    }

    /// All of stdout so far. Only the last 100,000 lines of both streams together are kept.
    pub fn stdout(&self) -> String {
        self.settle();
        self.output.lines_after(Mark::START, Some(output::Stream::Stdout)).join("\n")
    }

    /// All of stderr so far; see [`Process::stdout`].
    pub fn stderr(&self) -> String {
        self.settle();
        self.output.lines_after(Mark::START, Some(output::Stream::Stderr)).join("\n")
    }

    /// Waits for the rest of the output of a process that has ended; not without limit, since a child of its own may hold the pipes.
    fn settle(&self) {
        if self.exit_status().is_some() {
            wait::try_some(Duration::from_secs(1), || self.output.is_closed().then_some(()));
        }
    }

    /// Sends a signal to the process itself (not to its children). One that has ended is left alone.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        // Until it is waited for, the pid of a child that ended stays its own: no stranger is hit.
        if self.exit_status().is_none() {
            kill_process(self.pid, signal).unwrap_or_else(|error| panic!("{}: {signal:?}: {error}", self.name));
        }
    }

    /// SIGSTOP to it and its children: they stand still, their sockets stay open and take what the kernel's buffers hold.
    #[track_caller]
    pub fn pause(&self) {
        self.signal_all(Signal::STOP);
    }

    /// SIGCONT to it and its children: ends a pause.
    #[track_caller]
    pub fn resume(&self) {
        self.signal_all(Signal::CONT);
    }

    /// SIGTERM, then SIGKILL if it has not ended by the deadline; what its group left behind is killed too.
    #[track_caller]
    pub fn stop(&self, deadline: Duration) -> ExitStatus {
        self.signal(Signal::TERM);
        match wait::try_some(deadline, || self.exit_status()) {
            Some(status) => {
                let _ = kill_process_group(self.pid, Signal::KILL);
                status
            }
            None => self.kill(),
        }
    }

    /// SIGKILL to it, its children and its group; returns when all no longer exist.
    #[track_caller]
    pub fn kill(&self) -> ExitStatus {
        if self.exit_status().is_none() {
            let children = self.signal_all(Signal::KILL);
            let gone = |pid: &Pid| matches!(usage::state(pid.as_raw_pid().unsigned_abs()), None | Some('Z' | 'X'));
            wait::until(DEADLINE, "the end of the children", || children.iter().all(gone));
        }
        let _ = kill_process_group(self.pid, Signal::KILL);
        self.wait_for_exit(DEADLINE)
    }

    /// Signals it and all processes below it, whatever their groups (those of PostgreSQL have their own); returns the latter.
    #[track_caller]
    fn signal_all(&self, signal: Signal) -> Vec<Pid> {
        // What stands still starts no further children while they are looked up. It may be a moment until it does: a process that
        // waits for its vfork stops only after that.
        if signal != Signal::CONT {
            self.signal(Signal::STOP);
            let stopped = || usage::state(self.pid()).is_none_or(|state| matches!(state, 'T' | 'Z')).then_some(());
            wait::try_some(Duration::from_millis(200), stopped);
        }
        let below = usage::descendants(self.pid());
        let below: Vec<Pid> = below.into_iter().filter_map(|pid| Pid::from_raw(pid as i32)).collect();
        for pid in &below {
            let _ = kill_process(*pid, signal);
        }
        self.signal(signal);
        below
    }

    /// What it uses now, read from /proc.
    #[track_caller]
    pub fn usage(&self) -> Usage {
        Usage::of(self.pid())
            .unwrap_or_else(|error| panic!("{}: /proc/{}: {error}\n{}", self.name, self.pid(), self.tail()))
    }

    /// The last 100 lines of its output, for a failure message.
    pub fn tail(&self) -> String {
        self.settle();
        format!("--- output of {} (pid {}), last lines ---\n{}\n---", self.name, self.pid(), self.output.tail(100))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let state = match self.exit_status() {
                None => "was still running".to_owned(),
                Some(status) => match status.signal() {
                    Some(signal) => format!("had been killed by signal {signal}"),
                    None => format!("had ended with {status}"),
                },
            };
            eprintln!("{} {state}\n{}", self.name, self.tail());
        }
        // Not `kill`: a panic in a drop would abort the whole test run.
        if self.exit_status().is_none() {
            self.signal_all(Signal::KILL);
        }
        let _ = kill_process_group(self.pid, Signal::KILL);
        let _ = self.child.lock().map(|mut child| child.wait());
    }
}
