//! Where targets come from that the configuration does not list: services in DNS, services in registries and files. Each is followed by a task of its own on the control
//! thread, and keeps its last good targets while it cannot be read.
//!
//! What changes goes the way of a reload: the upstream gets a new set, in which targets that stay keep their state.

mod consul;
pub(super) mod file;
mod kubernetes;
pub(super) mod registry;
pub(super) mod srv;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) use registry::Registries;
use srv::Service;

/// The services that targets name.
pub(super) type Services = BTreeMap<Arc<str>, Service>;

/// How reading a source went so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Status {
    pub(super) successes: u64,
    pub(super) failures: u64,
    /// Why the targets are those of an earlier reading.
    pub(super) error: Option<String>,
}

impl Status {
    /// Returns whether it had failed before.
    pub(super) fn succeed(&mut self) -> bool {
        self.successes += 1;
        self.error.take().is_some()
    }

    /// Returns whether that is news.
    pub(super) fn fail(&mut self, why: String) -> bool {
        self.failures += 1;
        let is_news = self.error.as_ref() != Some(&why);
        self.error = Some(why);
        is_news
    }
}
