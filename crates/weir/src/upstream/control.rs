//! The control thread's part: keeps names resolved and targets checked while configurations and DNS responses change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::resolve::Resolver;
use super::sources::registry;
use super::sources::{file, srv};
use super::{Target, TargetId, Upstream, Upstreams, health, inference};
use crate::config::{self, Config, Registry};

/// Resolves the names and checks the targets of the newest of `upstreams`, until it is dropped; then all of its tasks end. Runs on the
/// control thread's runtime (which needs I/O and time). Send the result of each [`Upstreams::reload`] through the channel: what stays the
/// same goes on undisturbed.
pub async fn supervise(mut upstreams: watch::Receiver<Arc<Upstreams>>, resolver: Resolver) {
    let mut tasks = Tasks::default();
    loop {
        let current = upstreams.borrow_and_update().clone();
        tasks.adjust(&current, &upstreams, &resolver);
        tokio::select! {
            // Targets came or went with a DNS response.
            () = current.common.changed.notified() => {}
            changed = upstreams.changed() => if changed.is_err() {
                // No further configuration can come; this one goes on.
                loop {
                    current.common.changed.notified().await;
                    tasks.adjust(&current, &upstreams, &resolver);
                }
            },
        }
    }
}

/// Addresses of a host name, or why there are none.
type Resolution = Result<Vec<IpAddr>, String>;

/// A look-up that ended.
enum Done {
    Name(Arc<str>, Resolution),
    Service(Arc<str>, Result<srv::SrvRecords, String>),
    Registry(Arc<Registry>, registry::Response),
}

/// Addresses of host names, as they were just resolved.
#[derive(Debug, Default)]
pub struct Resolved {
    names: Vec<(Arc<str>, Resolution)>,
    services: Vec<(Arc<str>, Result<srv::SrvRecords, String>)>,
    registries: Vec<(Arc<Registry>, registry::Response)>,
    /// Names and services that were not resolved, or read, before the deadline.
    pub missing: Vec<Arc<str>>,
}

impl Upstreams {
    /// Resolves once every name and service of `config` that is not known yet, all at the same time, and returns when all are done or `within` is over. To be
    /// called before the first request, and before a reload: so that neither begins with targets that have no address.
    pub async fn resolve_new(&self, config: &Config, resolver: &Resolver, within: Duration) -> Resolved {
        let mut look_ups = tokio::task::JoinSet::new();
        let mut resolved = Resolved { missing: self.unresolved_hosts(config), ..Resolved::default() };
        for host in resolved.missing.iter().cloned() {
            let resolver = resolver.clone();
            look_ups.spawn(async move {
                let result = resolver.look_up(&host, &[]).await.map(|response| response.addresses);
                Done::Name(host, result)
            });
        }
        for service in self.unknown_services(config) {
            resolved.missing.push(service.clone());
            let (resolver, common) = (resolver.clone(), self.common.clone());
            look_ups.spawn(async move {
                let is_known = |host: &str| super::lock(&common.names).contains_key(host);
                let result = srv::look_up(&service, &resolver, is_known).await;
                Done::Service(service, result)
            });
        }
        for registry in self.unknown_registries(config) {
            resolved.missing.push(registry.label().into());
            let resolver = resolver.clone();
            look_ups.spawn(async move {
                let result = registry::look_up(&registry, &resolver).await;
                Done::Registry(registry, result)
            });
        }
        // What takes longer is repeated by `supervise`.
        let all = async {
            while let Some(done) = look_ups.join_next().await {
                match done {
                    Ok(Done::Name(host, result)) => resolved.names.push((host, result)),
                    Ok(Done::Service(service, result)) => resolved.services.push((service, result)),
                    Ok(Done::Registry(registry, result)) => resolved.registries.push((registry, result)),
                    Err(_) => {}
                }
            }
        };
        let _ = tokio::time::timeout(within, all).await;
        let names = resolved.names.iter().filter(|(_, result)| result.is_ok()).map(|(name, _)| name);
        let services = resolved.services.iter().filter(|(_, result)| result.is_ok()).map(|(name, _)| name);
        let registries = resolved.registries.iter().filter(|(_, result)| result.is_ok());
        let registries: Vec<Arc<str>> = registries.map(|(registry, _)| registry.label().into()).collect();
        let known: BTreeSet<&Arc<str>> = names.chain(services).chain(&registries).collect();
        resolved.missing.retain(|name| !known.contains(name));
        resolved
    }

    /// Takes in what [`Upstreams::resolve_new`] found, for the upstreams that there are and for those of the next [`Upstreams::reload`]: without a
    /// pause in between, or [`supervise`] forgets the names that nobody uses yet.
    pub fn learn(&self, resolved: Resolved) {
        for (host, addresses) in resolved.names {
            self.note_addresses(&host, addresses);
        }
        for (service, response) in resolved.services {
            self.note_service(&service, response);
        }
        for (registry, response) in resolved.registries {
            self.note_registry(&registry, response);
        }
        // Once for all: each look at an upstream is a look at every target of it.
        self.refresh();
    }
}

/// What runs.
#[derive(Default)]
struct Tasks {
    names: BTreeMap<Arc<str>, Task>,
    services: BTreeMap<Arc<str>, Task>,
    registries: BTreeMap<Arc<Registry>, Task>,
    files: BTreeMap<Arc<Path>, Task>,
    /// By target, of which there may be ten thousand.
    checks: HashMap<TargetId, Vec<(Check, Task)>>,
}

/// A check: a change of any of this is another check.
#[derive(PartialEq)]
struct Check {
    authority: Option<Arc<str>>,
    base_path: Arc<str>,
    of: Of,
}

/// What is checked.
#[derive(PartialEq)]
enum Of {
    Health(config::Health),
    /// Metrics of an inference engine.
    Engine(Arc<config::Inference>, Option<proxy_protocol::Version>),
}

/// Ends with its handle.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Tasks {
    /// Starts and ends tasks so that they are what `current` needs.
    fn adjust(&mut self, current: &Arc<Upstreams>, newest: &watch::Receiver<Arc<Upstreams>>, resolver: &Resolver) {
        // A DNS response may have come while this configuration was built.
        current.refresh();
        let hosts = current.hosts();
        self.names.retain(|host, _| hosts.contains(host));
        super::lock(&current.common.names).retain(|host, _| hosts.contains(host));
        for host in hosts {
            self.names
                .entry(host.clone())
                .or_insert_with(|| Task(tokio::spawn(keep_resolved(host, newest.clone(), resolver.clone()))));
        }

        let services = current.services();
        self.services.retain(|name, _| services.contains(name));
        super::lock(&current.common.services).retain(|name, _| services.contains(name));
        for name in services {
            self.services
                .entry(name.clone())
                .or_insert_with(|| Task(tokio::spawn(srv::follow(name, newest.clone(), resolver.clone()))));
        }
        let registries = current.registries();
        self.registries.retain(|registry, _| registries.contains(registry));
        super::lock(&current.common.registries).retain(|registry, _| registries.contains(registry));
        for registry in registries {
            self.registries
                .entry(registry.clone())
                .or_insert_with(|| Task(tokio::spawn(registry::follow(registry, newest.clone(), resolver.clone()))));
        }
        let files = current.files();
        self.files.retain(|path, _| files.contains(path));
        for path in files {
            self.files.entry(path.clone()).or_insert_with(|| Task(tokio::spawn(file::follow(path, newest.clone()))));
        }

        let mut before = std::mem::take(&mut self.checks);
        for upstream in current.iter() {
            let set = upstream.published.load_full();
            for target in &set.targets {
                let health = set.spec.health.as_ref().map(|spec| Of::Health(spec.clone()));
                let engine = match &set.spec.balance {
                    config::Balance::Inference(spec) => Some(Of::Engine(spec.clone(), set.spec.proxy_protocol)),
                    _ => None,
                };
                for of in health.into_iter().chain(engine) {
                    let check = Check { authority: target.authority.clone(), base_path: target.base_path.clone(), of };
                    let of_target = before.get_mut(&target.id());
                    let running = of_target.and_then(|running| {
                        let position = running.iter().position(|(other, _)| *other == check)?;
                        Some(running.swap_remove(position).1)
                    });
                    let task = match running {
                        Some(task) => task,
                        None => start_check(Arc::downgrade(upstream), target.clone(), &check.of),
                    };
                    self.checks.entry(target.id()).or_default().push((check, task));
                }
            }
        }
    }
}

fn start_check(upstream: Weak<Upstream>, target: Target, of: &Of) -> Task {
    Task(match of {
        Of::Health(spec) => tokio::spawn(health::watch(upstream, target, spec.clone())),
        Of::Engine(spec, header) => tokio::spawn(inference::watch(upstream, target, spec.clone(), *header)),
    })
}

/// Resolves one name, and again whenever the result expires, until no configuration uses it.
async fn keep_resolved(host: Arc<str>, newest: watch::Receiver<Arc<Upstreams>>, resolver: Resolver) {
    let mut failures = 0;
    loop {
        let known = newest.borrow().addresses_of(&host);
        let result = resolver.look_up(&host, &known).await;
        let pause = match &result {
            Ok(response) => {
                failures = 0;
                response.valid_for
            }
            Err(_) => {
                failures += 1;
                resolver.pace().after_failures(failures)
            }
        };
        let upstreams = newest.borrow().clone();
        upstreams.set_addresses(&host, result.map(|response| response.addresses));
        drop(upstreams);
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
pub(super) mod tests;
