//! Why the process did not serve, and its exit code.

use std::fmt;
use std::io;

use crate::config::LoadError;
use crate::demo;

/// Why the process could not start, or ended other than by a drain. Each has its exit code (sysexits.h).
#[derive(Debug)]
pub enum ServeError {
    /// The configuration is wrong or cannot be read.
    Config(LoadError),
    /// An address cannot be listened on.
    Listen {
        /// The key of the configuration that names it.
        key: &'static str,
        /// The address or path.
        address: String,
        /// Why.
        error: io::Error,
    },
    /// The running process goes on, so this one does not serve.
    TakeOver {
        /// The Unix socket of take-overs.
        path: String,
        /// Why the running process goes on.
        why: String,
    },
    /// A variable that sets up a demo service is wrong.
    Demo(demo::BadSetting),
    /// A worker thread ended while it should have served.
    WorkerEnded {
        /// Its number.
        index: usize,
    },
    /// Something else that the system refuses.
    System {
        /// What was tried.
        what: String,
        /// Why.
        error: io::Error,
    },
}

impl ServeError {
    /// Exit code: 64 for a wrong configuration, 66 for an unreadable one, 69 for an address in use, 70 for a defect of this program, 71 for what
    /// the system refuses, 75 for a take-over that did not happen.
    pub fn exit_code(&self) -> u8 {
        match self {
            ServeError::Config(LoadError::Invalid(_)) | ServeError::Demo(_) => 64,
            ServeError::Config(LoadError::Unreadable { .. }) => 66,
            ServeError::Listen { .. } => 69,
            ServeError::WorkerEnded { .. } => 70,
            ServeError::System { .. } => 71,
            ServeError::TakeOver { .. } => 75,
        }
    }

    pub(super) fn system(what: impl Into<String>, error: io::Error) -> Self {
        ServeError::System { what: what.into(), error }
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Config(error) => error.fmt(f),
            ServeError::Demo(error) => error.fmt(f),
            ServeError::Listen { key, address, error } => match error.kind() {
                // It says by itself what to do.
                _ if error.get_ref().is_some() => write!(f, "cannot listen on {address} (`{key}`): {error}"),
                io::ErrorKind::AddrInUse => write!(
                    f,
                    "cannot listen on {address} (`{key}`): another process listens there already. Stop it, choose another \
                     address (port 0 takes a free port), or set `takeover` in both to replace a running weir without losing a connection."
                ),
                io::ErrorKind::PermissionDenied => write!(
                    f,
                    "cannot listen on {address} (`{key}`): permission denied. Ports below 1024 need CAP_NET_BIND_SERVICE; choose a higher one or grant it."
                ),
                _ => write!(f, "cannot listen on {address} (`{key}`): {error}"),
            },
            ServeError::WorkerEnded { index } => write!(
                f,
                "worker {index} ended unexpectedly, see the messages above; the others have drained. This is a defect, please report it"
            ),
            ServeError::TakeOver { path, why } => write!(
                f,
                "cannot take over from the process at {path}: {why}. That process goes on serving; start this one again, or stop that one first"
            ),
            ServeError::System { what, error } => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for ServeError {}
