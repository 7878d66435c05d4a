//! Services that routes refer to, and their endpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use super::status::Condition;
use super::{World, names};
use crate::cluster::Cluster;
use crate::objects::{BackendRef, EndpointSlice, GATEWAY_GROUP, Key};

/// A port of a service, and what is spoken there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Backend {
    service: Key,
    port: u16,
    http2: bool,
}

impl Backend {
    fn name(&self) -> String {
        let suffix = if self.http2 { "-h2c" } else { "" };
        names::short(&format!("{}.{}.{}{suffix}", self.service.namespace, self.service.name, self.port))
    }

    /// The upstream of the configuration.
    pub(super) fn upstream(&self) -> Value {
        let mut upstream = json!({"targets": [format!("endpoints:{}", self.name())]});
        if self.http2 {
            upstream["protocol"] = "http2".into();
        }
        upstream
    }
}

/// The upstream of a reference of a route.
///
/// # Errors
/// Why it cannot be used: `ResolvedRefs` of the route.
pub(super) fn resolve(
    world: &mut World<'_>,
    (kind, namespace): (&str, &str),
    reference: &BackendRef,
    is_grpc: bool,
) -> Result<String, Condition> {
    let fails = |reason: &'static str, message: String| Err(Condition::fails("ResolvedRefs", reason, message));
    let (group, of_kind) = (reference.group.as_deref().unwrap_or(""), reference.kind.as_deref().unwrap_or("Service"));
    if (group, of_kind) != ("", "Service") {
        return fails(
            "InvalidKind",
            format!("backends are Services; {of_kind} of the group `{group}` is not supported"),
        );
    }
    let target = reference.namespace.as_deref().unwrap_or(namespace);
    if !world.cluster.is_granted((GATEWAY_GROUP, kind, namespace), ("", "Service", target, &reference.name)) {
        let message = format!("no ReferenceGrant lets this route use the Service {target}/{}", reference.name);
        return fails("RefNotPermitted", message);
    }
    let service = Key::new(target, &reference.name);
    let Some(found) = world.cluster.services.get(&service).filter(|found| found.spec.kind != "ExternalName") else {
        return fails("BackendNotFound", format!("there is no Service {service} with endpoints"));
    };
    let wanted = reference.port;
    let Some(port) = found.spec.ports.iter().find(|port| Some(port.port) == wanted) else {
        let message = match wanted {
            Some(port) => format!("the Service {service} has no port {port}"),
            None => format!("a reference to the Service {service} needs a port"),
        };
        return fails("BackendNotFound", message);
    };
    let http2 = is_grpc || port.app_protocol.as_deref() == Some("kubernetes.io/h2c");
    let backend = Backend { service, port: port.port, http2 };
    let name = backend.name();
    world.upstreams.insert(backend, name.clone());
    Ok(name)
}

/// Endpoints of backends.
pub(super) fn endpoints<'b>(
    cluster: &Cluster,
    backends: impl Iterator<Item = &'b Backend>,
) -> BTreeMap<Backend, Vec<SocketAddr>> {
    let backends: BTreeSet<&Backend> = backends.collect();
    let services: BTreeSet<&Key> = backends.iter().map(|backend| &backend.service).collect();
    let slices = by_service(cluster, |service| services.contains(service));
    let of = |backend: &&Backend| ((*backend).clone(), addresses(cluster, backend, &slices));
    backends.iter().map(of).collect()
}

/// Endpoints of every port of some services, by the names of their upstreams.
pub(super) fn of_services(cluster: &Cluster, services: &BTreeSet<Key>) -> BTreeMap<String, Vec<SocketAddr>> {
    let slices = by_service(cluster, |service| services.contains(service));
    let mut all = BTreeMap::new();
    for service in services {
        let ports = cluster.services.get(service).map_or(&[][..], |service| &service.spec.ports);
        for (port, http2) in ports.iter().flat_map(|port| [(port, false), (port, true)]) {
            let backend = Backend { service: service.clone(), port: port.port, http2 };
            all.insert(backend.name(), addresses(cluster, &backend, &slices));
        }
    }
    all
}

type Slices<'c> = BTreeMap<Key, Vec<&'c Arc<EndpointSlice>>>;

fn by_service(cluster: &Cluster, is_wanted: impl Fn(&Key) -> bool) -> Slices<'_> {
    let mut slices: Slices<'_> = BTreeMap::new();
    for slice in cluster.slices.values() {
        let Some(service) = slice.service() else { continue };
        let key = Key::new(&slice.metadata.namespace, service);
        if is_wanted(&key) {
            slices.entry(key).or_default().push(slice);
        }
    }
    slices
}

fn addresses(cluster: &Cluster, backend: &Backend, slices: &Slices<'_>) -> Vec<SocketAddr> {
    let service = cluster.services.get(&backend.service);
    let port = service.and_then(|service| service.spec.ports.iter().find(|port| port.port == backend.port));
    let Some(port) = port else { return Vec::new() };
    let mut all = Vec::new();
    for slice in slices.get(&backend.service).into_iter().flatten() {
        // The ports of a slice have the names of the service's ports.
        let number = slice.ports.iter().find(|one| one.name.as_deref().unwrap_or("") == port.name);
        let Some(number) = number.and_then(|one| one.port) else { continue };
        let ready = slice.endpoints.iter().filter(|endpoint| endpoint.conditions.ready != Some(false));
        all.extend(ready.filter_map(|endpoint| endpoint.ip).map(|ip| SocketAddr::new(ip, number)));
    }
    all.sort_unstable();
    all.dedup();
    all
}
