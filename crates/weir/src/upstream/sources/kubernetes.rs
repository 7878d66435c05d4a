//! Services of Kubernetes: the EndpointSlices of one Service to targets. A list, then a watch that goes on from it; when it cannot, a list again.
//!
//! - A target is an endpoint that is `ready`, with its first address, as kube-proxy has it. One that only still serves while it terminates is none.
//! - Slices hold the numbers that endpoints listen on and the names that the Service gives its ports, not the numbers of the Service's ports.
//! - A watch ends after some minutes, or because a proxy or a restart cut it off: it goes on from its version, which does not count as a failure. Once its
//!   version is too old for the server (410), everything is listed again.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use kubernetes::client::{Access, ApiError, Client, Event, Selection};
use kubernetes::objects::{EndpointSlice, Object};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::registry::{Backoff, Endpoint, Host, MAX_BYTES, Response, Sink, in_order};
use crate::config::{EndpointPort, KubernetesService, MAX_TARGETS};
use crate::upstream::lock;
use crate::upstream::resolve::Pace;

/// Between two times that changes are taken in: each makes a new set of targets.
const SETTLE: Duration = Duration::from_millis(100);

/// Label of slices that names their Service.
const LABEL: &str = "kubernetes.io/service-name";

/// The slices of a Service by their names.
type Slices = BTreeMap<String, EndpointSlice>;

/// A client by what the environment and its files say at this moment: both may change while the process lives.
fn client() -> Result<Client, ApiError> {
    let access = Access::of_environment(|name| std::env::var(name).ok())?;
    Client::bounded(access, MAX_BYTES)
}

fn selection(service: &KubernetesService) -> Selection {
    Selection::labelled::<EndpointSlice>(&service.namespace, LABEL, &service.name)
}

pub(super) async fn look_up(service: &KubernetesService) -> Response {
    let (_, slices, _) = list(service).await?;
    endpoints(service, slices.values())
}

/// The slices of a Service, with their version, and the client for what follows.
async fn list(service: &KubernetesService) -> Result<(Client, Slices, String), String> {
    let listed = async {
        let client = client()?;
        // A slice without an endpoint is of no use, so no Service needs more of them than it may have endpoints.
        let listed = client.list_of::<EndpointSlice>(&selection(service), MAX_TARGETS).await?;
        Ok::<_, ApiError>((client, listed))
    };
    let (client, listed) = listed.await.map_err(|error| error.to_string())?;
    let slices = listed.items.into_iter().map(|slice| (slice.meta().name.clone(), slice)).collect();
    Ok((client, slices, listed.version))
}

pub(super) async fn follow(service: &KubernetesService, sink: &Sink, pace: &Pace) {
    let mut backoff = Backoff::new();
    loop {
        let pause = match list(service).await {
            Ok((client, slices, version)) => {
                sink.take_in(endpoints(service, slices.values()));
                follow_from(service, sink, pace, &mut backoff, (&client, slices, version)).await
            }
            Err(why) => {
                sink.take_in(Err(why));
                backoff.fail(pace)
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// The slices while they are followed. A burst of changes is taken in as one: what the first one leads to at once, the rest after [`SETTLE`].
struct Followed<'f> {
    service: &'f KubernetesService,
    sink: &'f Sink,
    slices: Mutex<Slices>,
    is_changed: AtomicBool,
    changed: Notify,
}

impl Followed<'_> {
    fn change(&self, change: impl FnOnce(&mut Slices)) {
        change(&mut lock(&self.slices));
        self.is_changed.store(true, Relaxed);
        self.changed.notify_one();
    }

    fn take_in(&self) {
        if self.is_changed.swap(false, Relaxed) {
            let endpoints = endpoints(self.service, lock(&self.slices).values());
            self.sink.take_in(endpoints);
        }
    }

    /// Takes in what changes, without end.
    async fn settle(&self) {
        loop {
            self.changed.notified().await;
            self.take_in();
            tokio::time::sleep(SETTLE).await;
        }
    }
}

/// Follows what happens to slices from a version on, until they must be listed again; how long to wait before.
async fn follow_from(
    service: &KubernetesService,
    sink: &Sink,
    pace: &Pace,
    backoff: &mut Backoff,
    (client, slices, mut version): (&Client, Slices, String),
) -> Duration {
    let selection = selection(service);
    let (slices, is_changed, changed) = (Mutex::new(slices), AtomicBool::new(false), Notify::new());
    let followed = Followed { service, sink, slices, is_changed, changed };
    loop {
        let started = Instant::now();
        let mut has_begun = false;
        let mut newest = version.clone();
        let each = |event: Event<EndpointSlice>, at: String| {
            if !at.is_empty() {
                newest = at;
            }
            match event {
                Event::Begun => {
                    has_begun = true;
                    return;
                }
                Event::Bookmark(_) => {}
                Event::Applied(slice) => {
                    followed.change(|slices| drop(slices.insert(slice.meta().name.clone(), slice)));
                }
                Event::Deleted(slice) => followed.change(|slices| drop(slices.remove(&slice.meta().name))),
                Event::Unreadable(key) => followed.change(|slices| drop(slices.remove(&key.name))),
            }
            backoff.reset();
        };
        let result = tokio::select! {
            result = client.watch_of(&selection, &version, each) => result,
            () = followed.settle() => Ok(()),
        };
        // What came last.
        followed.take_in();
        version = newest;
        if has_begun {
            backoff.held(started.elapsed(), pace);
        }
        match result {
            Err(error) if error.is_expired() => {
                tracing::info!(source = %format_args!("kubernetes:{service}"), "the watch fell behind: listing again");
                return backoff.fail(pace);
            }
            // It ended, or was cut off.
            Ok(()) => {}
            Err(ApiError::Io(_) | ApiError::Http(_) | ApiError::Timeout) if has_begun => {}
            Err(error) => {
                sink.take_in(Err(error.to_string()));
                return backoff.fail(pace);
            }
        }
        // A server that ends each watch at once is not to be kept busy.
        let earliest = started + backoff.stray(pace.min);
        tokio::time::sleep_until(earliest).await;
    }
}

/// The endpoints of a Service that are ready.
fn endpoints<'s>(service: &KubernetesService, slices: impl Iterator<Item = &'s EndpointSlice>) -> Response {
    let mut found = Vec::new();
    // Ports of slices with endpoints, if not one of them is the one that is wanted.
    let mut other_ports = BTreeSet::new();
    let (mut has_port, mut has_ready) = (false, false);
    for slice in slices {
        let ready = || {
            // Unknown counts as ready, as the API has it.
            slice.endpoints.iter().filter(|endpoint| endpoint.conditions.ready != Some(false))
        };
        has_ready |= ready().next().is_some();
        // A name is unique in a slice.
        let wanted = slice.ports.iter().find(|port| match &service.port {
            EndpointPort::Number(number) => port.port == Some(*number),
            EndpointPort::Name(name) => port.name.as_deref() == Some(name),
        });
        let Some(port) = wanted.and_then(|port| port.port) else {
            if ready().next().is_some() {
                other_ports.extend(slice.ports.iter().map(|port| match (port.name.as_deref(), port.port) {
                    (Some(name), Some(number)) if !name.is_empty() => format!("{name} ({number})"),
                    (_, Some(number)) => number.to_string(),
                    (name, None) => format!("{} (without a number)", name.unwrap_or_default()),
                }));
            }
            continue;
        };
        has_port = true;
        for endpoint in ready() {
            if let Some(ip) = endpoint.ip {
                found.push(Endpoint { host: Host::Ip(ip), port, weight: NonZeroU32::MIN });
            }
        }
    }
    if found.is_empty() && has_ready && !has_port {
        let ports = match other_ports.is_empty() {
            true => "they have none".to_owned(),
            false => format!("their ports are {}", other_ports.into_iter().collect::<Vec<_>>().join(", ")),
        };
        return Err(format!(
            "no endpoint of the Service {}/{} has the port {}; {ports}",
            service.namespace, service.name, service.port
        ));
    }
    if found.is_empty() && has_ready {
        let KubernetesService { namespace, name, .. } = service;
        return Err(format!("no endpoint of the Service {namespace}/{name} has an IP address"));
    }
    in_order(found)
}

#[cfg(test)]
mod tests;
