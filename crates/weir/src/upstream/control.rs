//! The control thread's part: keeps names resolved and targets checked while configurations and DNS responses change.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::resolve::Resolver;
use super::{Target, TargetId, Upstream, Upstreams, health, inference};
use crate::config::{self, Config};

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
type Answer = Result<Vec<IpAddr>, String>;

/// Addresses of host names, as they were just resolved.
#[derive(Debug, Default)]
pub struct Resolved {
    names: Vec<(Arc<str>, Answer)>,
    /// Names that could not be resolved before the deadline.
    pub missing: Vec<Arc<str>>,
}

impl Upstreams {
    /// Resolves once every name of `config` that has no address yet, all at the same time, and returns when all are done or `within` is over. To be
    /// called before the first request, and before a reload: so that neither begins with targets that have no address.
    pub async fn resolve_new(&self, config: &Config, resolver: &Resolver, within: Duration) -> Resolved {
        let mut look_ups = tokio::task::JoinSet::new();
        let mut resolved = Resolved { names: Vec::new(), missing: self.unresolved_hosts(config) };
        for host in resolved.missing.iter().cloned() {
            let resolver = resolver.clone();
            look_ups.spawn(async move {
                let result = resolver.look_up(&host, &[]).await.map(|answer| answer.addresses);
                (host, result)
            });
        }
        // What takes longer is repeated by `supervise`.
        let all = async {
            while let Some(done) = look_ups.join_next().await {
                resolved.names.extend(done.ok());
            }
        };
        let _ = tokio::time::timeout(within, all).await;
        let is_known = |host: &Arc<str>| resolved.names.iter().any(|(name, result)| name == host && result.is_ok());
        resolved.missing.retain(|host| !is_known(host));
        resolved
    }

    /// Takes in what [`Upstreams::resolve_new`] found, for the upstreams that there are and for those of the next [`Upstreams::reload`]: without a
    /// pause in between, or [`supervise`] forgets the names that nobody uses yet.
    pub fn learn(&self, resolved: Resolved) {
        for (host, addresses) in resolved.names {
            self.set_addresses(&host, addresses);
        }
    }
}

/// What runs.
#[derive(Default)]
struct Tasks {
    names: BTreeMap<Arc<str>, Task>,
    checks: Vec<(Check, Task)>,
}

/// A check: a change of any of this is another check.
#[derive(PartialEq)]
struct Check {
    target: TargetId,
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
                    let check = Check {
                        target: target.id(),
                        authority: target.authority.clone(),
                        base_path: target.base_path.clone(),
                        of,
                    };
                    let running = before.iter().position(|(other, _)| *other == check);
                    let task = match running {
                        Some(position) => before.swap_remove(position).1,
                        None => start_check(Arc::downgrade(upstream), target.clone(), &check.of),
                    };
                    self.checks.push((check, task));
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
            Ok(answer) => {
                failures = 0;
                answer.valid_for
            }
            Err(_) => {
                failures += 1;
                let pace = resolver.pace();
                pace.retry.saturating_mul(1 << (failures - 1).min(16)).min(pace.retry_max)
            }
        };
        let upstreams = newest.borrow().clone();
        upstreams.set_addresses(&host, result.map(|answer| answer.addresses));
        drop(upstreams);
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests;
