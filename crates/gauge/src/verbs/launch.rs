//! `gauge launch`: executes a program of a campaign. Not for people.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use gauge::launch;

/// A program that was to be started and is not there, as in shells.
const NOT_FOUND: u8 = 127;

#[derive(Args)]
pub(crate) struct Launch {
    /// Process that it dies with
    #[arg(long)]
    parent: i32,
    /// Be told to end then (SIGTERM) instead of being killed
    #[arg(long)]
    term: bool,
    /// Processor that it may use
    #[arg(long = "cpu")]
    cpus: Vec<u32>,
    /// Control group to join
    #[arg(long = "cgroup")]
    cgroups: Vec<PathBuf>,
    /// Wait for a byte on standard input
    #[arg(long)]
    wait: bool,
    #[arg(long)]
    keep_stdin: bool,
    /// Stay until the program ends, and end all that it started
    #[arg(long)]
    supervise: bool,
    /// Program and arguments
    #[arg(last = true, required = true)]
    argv: Vec<OsString>,
}

impl Launch {
    pub(crate) fn run(self) -> ExitCode {
        let launch = launch::Launch {
            parent: self.parent,
            term: self.term,
            cpus: self.cpus,
            cgroups: self.cgroups,
            wait: self.wait,
            keep_stdin: self.keep_stdin,
            supervise: self.supervise,
            argv: self.argv,
        };
        match launch.exec() {
            Ok(code) => ExitCode::from(code),
            Err((what, error)) => {
                eprintln!("{what}: {error}");
                ExitCode::from(NOT_FOUND)
            }
        }
    }
}
