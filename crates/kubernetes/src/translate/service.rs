//! A Service for each gateway: its ports lead to those that the gateway's listeners have in the pods, and its addresses are the gateway's.
//!
//! The Services are where ports are stored. Whoever leads proposes a port for a listener that has none and writes it into the Service; every
//! process, the leader too, binds only what Services say. So all processes have the same ports, also after a restart or with another leader.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::gateway::GatewayState;
use super::status::Condition;
use super::{Addresses, Allocations, World, names};
use crate::cluster::Cluster;
use crate::objects::{Gateway, Key, Object, Service, ServicePort};

/// Annotations by which a Service of this controller is known.
const CONTROLLER: &str = "weir.dev/controller";
const GATEWAY: &str = "weir.dev/gateway";
/// Hash of what was applied: what others change beside it is left as it is.
const APPLIED: &str = "weir.dev/applied";

/// Connections to targets get ports from here on, by the kernel's usual setting: listeners only have them when there are no others.
const EPHEMERAL: u16 = 32768;

/// Addresses that a gateway's status can have.
const MOST_ADDRESSES: usize = 16;

/// Services that lead to the pods of Weir.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Services {
    /// Namespace of the pods: a Service selects pods of its own namespace only.
    pub namespace: String,
    /// Labels of the pods.
    pub pods: BTreeMap<String, String>,
    /// How the Services are reached.
    pub kind: ServiceType,
}

/// How a Service is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceType {
    /// From outside, by a load balancer.
    LoadBalancer,
    /// At a port of every node.
    NodePort,
    /// Inside of the cluster only.
    ClusterIp,
}

impl ServiceType {
    /// As an object has it.
    pub fn name(self) -> &'static str {
        match self {
            ServiceType::LoadBalancer => "LoadBalancer",
            ServiceType::NodePort => "NodePort",
            ServiceType::ClusterIp => "ClusterIP",
        }
    }
}

/// What is to be done to a Service.
#[derive(Debug, Clone, PartialEq)]
pub enum ServiceWrite {
    /// It is to have these fields.
    Apply {
        /// Namespace and name.
        key: Key,
        /// The fields, with those that say what it is.
        object: Value,
        /// Version that was seen; empty: there is none.
        version: String,
    },
    /// Its gateway does not exist any more, or belongs to another controller.
    Delete {
        /// Namespace and name.
        key: Key,
        /// Its gateway.
        gateway: Key,
        /// The class of the gateway, if it exists.
        class: Option<String>,
        /// Which object it was.
        uid: String,
        /// Version that was seen.
        version: String,
    },
}

impl ServiceWrite {
    /// Namespace and name.
    pub fn key(&self) -> &Key {
        match self {
            ServiceWrite::Apply { key, .. } | ServiceWrite::Delete { key, .. } => key,
        }
    }
}

fn settings<'w>(world: &World<'w>) -> Option<(&'w Services, u16)> {
    match &world.settings.addresses {
        Addresses::Shared { services: Some(services), first_port, .. } => Some((services, *first_port)),
        _ => None,
    }
}

/// Whether each gateway has a Service.
pub(super) fn is_used(world: &World<'_>) -> bool {
    settings(world).is_some()
}

/// Services that this controller made, the oldest first.
fn made<'w>(world: &World<'w>, services: &Services) -> Vec<(&'w Key, &'w Arc<Service>, Key)> {
    let cluster: &'w Cluster = world.cluster;
    let gateway = |service: &Service| {
        let annotations = &service.metadata.annotations;
        let is_own = annotations.get(CONTROLLER) == Some(&world.settings.controller);
        let (namespace, name) = annotations.get(GATEWAY).filter(|_| is_own)?.split_once('/')?;
        Some(Key::new(namespace, name))
    };
    let is_there = |key: &Key| key.namespace == services.namespace;
    let all = cluster.services.iter().filter(|(key, _)| is_there(key));
    let mut all: Vec<_> = all.filter_map(|(key, service)| Some((key, service, gateway(service)?))).collect();
    all.sort_by(|a, b| (&a.1.metadata.creation_timestamp, a.0).cmp(&(&b.1.metadata.creation_timestamp, b.0)));
    all
}

fn target(port: &ServicePort) -> Option<u16> {
    port.target_port.as_u64().and_then(|port| u16::try_from(port).ok())
}

/// Takes the ports from the Services. Of two that say the same one, which happens only when two processes believed that they lead, the older
/// one has it, for every process alike; the leader proposes another for the other.
pub(super) fn read_ports(world: &World<'_>, allocations: &mut Allocations) {
    let Some((services, first_port)) = settings(world) else { return };
    let mut ports: BTreeMap<(Key, u16), u16> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for (_, service, gateway) in made(world, services) {
        for port in &service.spec.ports {
            if let Some(target) = target(port).filter(|target| *target >= first_port && taken.insert(*target)) {
                ports.insert((gateway.clone(), port.port), target);
            }
        }
    }
    // What a Service said that somebody deleted is proposed again.
    let before = std::mem::replace(&mut allocations.ports, ports);
    for (key, port) in before {
        allocations.proposed.entry(key).or_insert(port);
    }
    let ports = &allocations.ports;
    allocations.proposed.retain(|key, port| !ports.contains_key(key) && !taken.contains(port));
}

/// The port of a gateway's port in the pods, if its Service says one; else one is proposed.
pub(super) fn port(world: &World<'_>, allocations: &mut Allocations, key: &(Key, u16)) -> Option<u16> {
    let (_, first_port) = settings(world)?;
    if let Some(port) = allocations.ports.get(key) {
        return Some(*port);
    }
    if !allocations.proposed.contains_key(key) {
        let Allocations { ports, proposed, last_port, .. } = allocations;
        let taken: BTreeSet<u16> = ports.values().chain(proposed.values()).copied().collect();
        let next = last_port.saturating_add(1).max(first_port);
        let rest = first_port.max(EPHEMERAL)..=u16::MAX;
        let free = (next..EPHEMERAL).chain(first_port..next.min(EPHEMERAL)).chain(rest);
        if let Some(free) = free.into_iter().find(|port| !taken.contains(port)) {
            allocations.last_port = free;
            allocations.proposed.insert(key.clone(), free);
        }
    }
    None
}

/// The Service of a gateway.
///
/// # Errors
/// Why there is none.
pub(super) fn of_gateway<'w>(world: &World<'w>, gateway: &Key) -> Result<&'w Service, String> {
    let namespace = settings(world).map_or("", |(services, _)| &services.namespace);
    let key = Key::new(namespace, &names::service(&world.settings.controller, gateway));
    match world.cluster.services.get(&key) {
        None => Err(match world.cluster.refused_services.get(&key) {
            None => format!("the Service {key} does not exist yet"),
            Some(why) => format!("the Service {key} cannot be written: {why}"),
        }),
        Some(service) if is_of(world, service, gateway) => Ok(service),
        Some(_) => Err(format!("the Service {key} was not made by this controller")),
    }
}

fn is_of(world: &World<'_>, service: &Service, gateway: &Key) -> bool {
    let annotations = &service.metadata.annotations;
    annotations.get(CONTROLLER) == Some(&world.settings.controller)
        && annotations.get(GATEWAY) == Some(&gateway.to_string())
}

/// The address that a gateway wants.
///
/// # Errors
/// `Accepted` of a gateway that wants what Services cannot have.
pub(super) fn wanted_address(world: &World<'_>, gateway: &Gateway) -> Result<Option<IpAddr>, Condition> {
    let Some((services, _)) = settings(world) else { return Ok(None) };
    let unsupported = |message: String| Condition::fails("Accepted", "UnsupportedAddress", message);
    let mut wanted = None;
    for address in &gateway.spec.addresses {
        if let Some(kind) = address.kind.as_deref().filter(|kind| *kind != "IPAddress") {
            return Err(unsupported(format!("an address of the type {kind} cannot be chosen; IPAddress can")));
        }
        let Some(value) = address.value.as_deref().filter(|value| !value.is_empty()) else { continue };
        let Ok(value) = value.parse() else { return Err(unsupported(format!("{value} is not an IP address"))) };
        if services.kind != ServiceType::LoadBalancer {
            return Err(unsupported("addresses can be chosen of Services of the type LoadBalancer only".to_owned()));
        }
        if wanted.replace(value).is_some() {
            return Err(unsupported("a Service can have one chosen address".to_owned()));
        }
    }
    Ok(wanted)
}

/// Addresses that a Service gives its gateway, as its status has them.
pub(super) fn addresses(service: &Service) -> Vec<Value> {
    let one = |kind: &str, value: &str| json!({"type": kind, "value": value});
    let is_address = |ip: &&String| ip.parse::<IpAddr>().is_ok();
    let all: Vec<Value> = if service.spec.kind == ServiceType::LoadBalancer.name() {
        let of = |ingress: &crate::objects::Ingress| match (&ingress.ip, &ingress.hostname) {
            (Some(ip), _) if !ip.is_empty() => Some(one("IPAddress", ip)),
            (_, Some(host)) if !host.is_empty() => Some(one("Hostname", host)),
            _ => None,
        };
        service.status.load_balancer.ingress.iter().filter_map(of).collect()
    } else {
        service.spec.cluster_ips.iter().filter(is_address).map(|ip| one("IPAddress", ip)).collect()
    };
    all.into_iter().take(MOST_ADDRESSES).collect()
}

/// Services that are not what they should be.
pub(super) fn writes(world: &World<'_>, allocations: &mut Allocations, gateways: &[GatewayState]) -> Vec<ServiceWrite> {
    let Some((services, _)) = settings(world) else { return Vec::new() };
    // Proposals of listeners that were removed meanwhile.
    let wants = |key: &Key, port: u16| {
        gateways.iter().any(|gateway| gateway.key == *key && gateway.service_ports().any(|(wanted, _)| wanted == port))
    };
    allocations.proposed.retain(|(key, port), _| wants(key, *port));
    let mut writes: Vec<ServiceWrite> =
        gateways.iter().filter_map(|gateway| apply(world, services, allocations, gateway)).collect();
    for (key, service, gateway) in made(world, services) {
        let class = match world.cluster.gateways.get(&gateway) {
            None => None,
            Some(found) => {
                let name = &found.spec.gateway_class_name;
                let class = world.cluster.classes.get(&Key::new("", name));
                // A class that is missing may be one that is replaced: the load balancer and its address stay.
                if class.is_none_or(|class| class.spec.controller_name == world.settings.controller) {
                    continue;
                }
                Some(name.clone())
            }
        };
        if service.metadata.deletion_timestamp.is_none() {
            let (uid, version) = (service.metadata.uid.clone(), service.metadata.resource_version.clone());
            writes.push(ServiceWrite::Delete { key: key.clone(), gateway, class, uid, version });
        }
    }
    writes
}

fn apply(
    world: &World<'_>,
    services: &Services,
    allocations: &Allocations,
    gateway: &GatewayState,
) -> Option<ServiceWrite> {
    let name = names::service(&world.settings.controller, &gateway.key);
    let key = Key::new(&services.namespace, &name);
    let seen = world.cluster.services.get(&key);
    if seen.is_some_and(|seen| !is_of(world, seen, &gateway.key)) || !gateway.can_have_service() {
        return None;
    }
    let mut ports = BTreeMap::new();
    for (port, protocol) in gateway.service_ports() {
        let id = (gateway.key.clone(), port);
        let Some(target) = allocations.ports.get(&id).or_else(|| allocations.proposed.get(&id)) else { continue };
        let name = format!("{}-{port}", protocol.to_ascii_lowercase());
        ports.entry(port).or_insert(json!({"name": name, "port": port, "targetPort": target, "protocol": "TCP"}));
    }
    // A Service needs one. Without a listener that can be served it stays as it is, with its address.
    if ports.is_empty() {
        return None;
    }
    let infrastructure = &gateway.object.spec.infrastructure;
    let mut labels = infrastructure.labels.clone();
    labels.insert("app.kubernetes.io/managed-by".to_owned(), "weir".to_owned());
    for (name, value) in [
        ("gateway.networking.k8s.io/gateway-name", &gateway.key.name),
        ("gateway.networking.k8s.io/gateway-class-name", &gateway.object.spec.gateway_class_name),
        ("weir.dev/gateway-namespace", &gateway.key.namespace),
    ] {
        if names::is_label(value) {
            labels.insert(name.to_owned(), value.clone());
        }
    }
    let mut annotations = infrastructure.annotations.clone();
    annotations.insert(CONTROLLER.to_owned(), world.settings.controller.clone());
    annotations.insert(GATEWAY.to_owned(), gateway.key.to_string());
    let mut spec = Map::new();
    spec.insert("type".into(), services.kind.name().into());
    spec.insert("selector".into(), json!(services.pods));
    spec.insert("ports".into(), ports.values().cloned().collect());
    if let Some(address) = gateway.wanted {
        spec.insert("loadBalancerIP".into(), address.to_string().into());
    }
    let mut object = json!({
        "apiVersion": "v1",
        "kind": Service::KIND,
        "metadata": {"name": name, "namespace": services.namespace, "labels": labels, "annotations": annotations},
        "spec": spec,
    });
    let hash = names::hash(&object.to_string())[..16].to_owned();
    let is_same = |seen: &Service| {
        let has = |port: &Value| {
            let is = |one: &ServicePort| port["port"] == one.port && port["targetPort"] == one.target_port;
            seen.spec.ports.iter().any(is)
        };
        seen.metadata.annotations.get(APPLIED) == Some(&hash)
            && seen.spec.ports.len() == ports.len()
            && ports.values().all(has)
            && seen.spec.selector == services.pods
            && seen.spec.kind == services.kind.name()
            && labels.iter().all(|(name, value)| seen.metadata.labels.get(name) == Some(value))
    };
    if seen.is_some_and(|seen| is_same(seen)) {
        return None;
    }
    object["metadata"]["annotations"][APPLIED] = hash.into();
    let version = seen.map(|seen| seen.metadata.resource_version.clone()).unwrap_or_default();
    Some(ServiceWrite::Apply { key, object, version })
}
