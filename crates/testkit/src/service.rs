//! What Redis, PostgreSQL and nginx have in common here: a process that can be killed, paused, and started again.

use std::sync::{Arc, Mutex, PoisonError};

use crate::Process;

/// A server whose process may be replaced; shared by the threads of a test.
#[derive(Debug)]
pub(crate) struct Service {
    process: Mutex<Arc<Process>>,
}

impl Service {
    pub(crate) fn new(process: Process) -> Self {
        Self { process: Mutex::new(Arc::new(process)) }
    }

    pub(crate) fn process(&self) -> Arc<Process> {
        Arc::clone(&self.process.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Kills the process if it still runs and puts a new one in its place.
    #[track_caller]
    pub(crate) fn restart(&self, start: impl FnOnce() -> Process) {
        self.process().kill();
        let process = start();
        *self.process.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(process);
    }
}

/// Gives a server's type the methods that all of them have. `restart` is the type's own, since it knows how to start.
macro_rules! service_methods {
    ($server:ty) => {
        impl $server {
            /// The process that serves now; after a restart it is another.
            pub fn process(&self) -> std::sync::Arc<$crate::Process> {
                self.service.process()
            }

            /// SIGKILL, to its children too: connections are cut and the port refuses. The port stays reserved.
            #[track_caller]
            pub fn kill(&self) {
                self.process().kill();
            }

            /// SIGSTOP, to its children too: connections stay open and nothing responds.
            #[track_caller]
            pub fn pause(&self) {
                self.process().pause();
            }

            /// SIGCONT: ends a pause.
            #[track_caller]
            pub fn resume(&self) {
                self.process().resume();
            }
        }
    };
}

pub(crate) use service_methods;
