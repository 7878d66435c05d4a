//! What is known of services in registries, whichever registry that is.
//!
//! The endpoints of a service are taken in whole or not at all. A failure of any kind keeps those that were known; an empty list is no failure: the
//! registry says that nothing can serve.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::{Status, consul, kubernetes};
use crate::config::{MAX_TARGETS, Registry};
use crate::upstream::resolve::Pace;
use crate::upstream::rng::Rng;
use crate::upstream::{Resolver, Upstreams, lock};

/// The services in registries that targets name.
pub(in crate::upstream) type Registries = BTreeMap<Arc<Registry>, Registered>;

/// Bytes of a response of a registry: more than 10,000 endpoints need.
pub(super) const MAX_BYTES: usize = 32 << 20;

/// Bytes of a reason in the log and on the admin listener.
const MAX_WHY: usize = 300;

/// What is known of a service.
#[derive(Debug)]
pub(in crate::upstream) struct Registered {
    /// See [`Registry::label`].
    pub(in crate::upstream) label: Arc<str>,
    /// In order; `None` until there was a response.
    pub(in crate::upstream) endpoints: Option<Vec<Endpoint>>,
    pub(in crate::upstream) status: Status,
}

/// Where an instance of a service listens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::upstream) struct Endpoint {
    pub(in crate::upstream) host: Host,
    pub(in crate::upstream) port: u16,
    pub(in crate::upstream) weight: NonZeroU32,
}

/// Host of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::upstream) enum Host {
    Ip(IpAddr),
    /// In lower case; resolved as other names are.
    Name(Arc<str>),
}

/// The endpoints of a service, or why there is no newer response.
pub(in crate::upstream) type Response = Result<Vec<Endpoint>, String>;

/// Endpoints in order, each host and port once.
pub(super) fn in_order(mut endpoints: Vec<Endpoint>) -> Response {
    endpoints.sort_unstable();
    let mut seen = HashSet::with_capacity(endpoints.len());
    endpoints.retain(|endpoint| seen.insert((endpoint.host.clone(), endpoint.port)));
    if endpoints.len() > MAX_TARGETS {
        return Err(format!("the service has {} endpoints; at most {MAX_TARGETS} are taken", endpoints.len()));
    }
    Ok(endpoints)
}

/// Why a registry cannot be read, as far as it is shown.
fn shortened(mut why: String) -> String {
    if why.len() > MAX_WHY {
        why.truncate(why.floor_char_boundary(MAX_WHY));
        why.push('…');
    }
    why
}

/// Reads the endpoints of a service once.
pub(in crate::upstream) async fn look_up(registry: &Registry, resolver: &Resolver) -> Response {
    match registry {
        Registry::Kubernetes(service) => kubernetes::look_up(service).await,
        Registry::Consul(service) => consul::look_up(service, resolver).await,
    }
}

/// Follows one service until no configuration uses it.
pub(in crate::upstream) async fn follow(
    registry: Arc<Registry>,
    newest: watch::Receiver<Arc<Upstreams>>,
    resolver: Resolver,
) {
    let sink = Sink { registry: registry.clone(), newest };
    match &*registry {
        Registry::Kubernetes(service) => kubernetes::follow(service, &sink, resolver.pace()).await,
        Registry::Consul(service) => consul::follow(service, &sink, &resolver).await,
    }
}

/// Where the endpoints of a service go.
pub(super) struct Sink {
    registry: Arc<Registry>,
    newest: watch::Receiver<Arc<Upstreams>>,
}

impl Sink {
    /// Takes in a response for the newest configuration.
    pub(super) fn take_in(&self, response: Response) {
        let upstreams = self.newest.borrow().clone();
        upstreams.set_registry(&self.registry, response);
    }
}

/// Pauses after failures, so that many gateways do not come back at the same moment: half of the usual pause to all of it.
pub(super) struct Backoff {
    rng: Rng,
    failures: u32,
}

impl Backoff {
    pub(super) fn new() -> Backoff {
        Backoff { rng: Rng::from_entropy(), failures: 0 }
    }

    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Counts a failure; how long to wait.
    pub(super) fn fail(&mut self, pace: &Pace) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.stray(pace.after_failures(self.failures))
    }

    /// It went well for so long: longer than the present pause is as good as never failed.
    pub(super) fn held(&mut self, time: Duration, pace: &Pace) {
        if self.failures > 0 && time >= pace.after_failures(self.failures) {
            self.reset();
        }
    }

    /// Half of a time to all of it.
    pub(super) fn stray(&mut self, pause: Duration) -> Duration {
        pause.mul_f64(0.5 + 0.5 * self.rng.unit())
    }
}

impl Upstreams {
    /// Takes in a response for a service in a registry. A failure keeps the endpoints that are known.
    pub(in crate::upstream) fn set_registry(&self, registry: &Arc<Registry>, response: Response) {
        if self.note_registry(registry, response) {
            // With thousands of upstreams, most of which name other services.
            for upstream in &self.list {
                if upstream.names_registry(registry) {
                    upstream.refresh();
                }
            }
            // Names that have no address yet make no new set, but must be resolved.
            self.common.changed.notify_one();
        }
    }

    /// The same without a new set of targets yet; returns whether the endpoints are others now.
    pub(in crate::upstream) fn note_registry(&self, registry: &Arc<Registry>, response: Response) -> bool {
        let mut registries = lock(&self.common.registries);
        let known = registries.entry(registry.clone()).or_insert_with(|| Registered {
            label: registry.label().into(),
            endpoints: None,
            status: Status::default(),
        });
        let source = &known.label;
        match response {
            Ok(endpoints) => {
                let had_failed = known.status.succeed();
                let is_new = known.endpoints.as_ref() != Some(&endpoints);
                if is_new || had_failed {
                    tracing::info!(%source, targets = endpoints.len(), "registry read");
                }
                if endpoints.is_empty() && is_new {
                    tracing::warn!(%source, "the registry names no endpoint that is ready: no targets");
                }
                known.endpoints = Some(endpoints);
                is_new
            }
            Err(why) => {
                // It may hold what the registry sent.
                let why = shortened(why);
                let kept = known.endpoints.as_ref().map_or(0, Vec::len);
                if known.status.error.is_none() {
                    tracing::warn!(%source, why, kept, "registry not read, the last good targets stay");
                }
                known.status.fail(why);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests;
