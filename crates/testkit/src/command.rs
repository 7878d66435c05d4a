//! Programs that are run to their end: the tools beside the servers.

use crate::{DEADLINE, ProcessBuilder};

/// Runs a program; returns its stdout, without the line end. Panics with all its output when it fails or does not end.
#[track_caller]
pub(crate) fn run(builder: ProcessBuilder) -> String {
    let process = builder.start();
    let status = process.wait_for_exit(DEADLINE);
    assert!(status.success(), "{status}\n{}", process.tail());
    process.stdout()
}

/// What to do when a program is missing.
pub(crate) fn install(package: &str) -> String {
    format!("It comes with the Debian package {package}; `make test` installs it, or: apt-get install {package}")
}
