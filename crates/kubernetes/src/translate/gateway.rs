//! Classes and gateways: who looks after them, where they listen, what their statuses are.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use serde_json::{Value, json};

use super::listener::{self, ListenerState};
use super::status::{Condition, StatusPatch, values};
use super::{Addresses, Allocations, World, service};
use crate::objects::{Gateway, GatewayClass, Key, Object};

/// Names of what Weir supports beyond the core, in order; conformance tests are chosen by them.
const FEATURES: [&str; 21] = [
    "GRPCRoute",
    "Gateway",
    "GatewayAddressEmpty",
    "GatewayHTTPListenerIsolation",
    "GatewayPort8080",
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendTimeout",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteSchemeRedirect",
    "ReferenceGrant",
];

/// Further ones; apart, as the list is sorted when it is written.
const MORE_FEATURES: [&str; 3] = ["HTTPRouteParentRefPort", "HTTPRouteRequestTimeout", "HTTPRouteNamedRouteRule"];

/// What the releases of custom resources begin with that the conformance suite was run with.
const TESTED: &str = "v1.6.";

/// A gateway of a class that is served.
pub(super) struct GatewayState {
    pub(super) object: Arc<Gateway>,
    pub(super) key: Key,
    /// Addresses of its status.
    addresses: Vec<Value>,
    /// The address that its Service is to have.
    pub(super) wanted: Option<IpAddr>,
    /// Why it cannot have what it wants, or has no address yet.
    problem: Option<Condition>,
    pub(super) listeners: Vec<ListenerState>,
}

/// Where a gateway listens.
#[derive(Default)]
struct ListenAddress {
    /// Address that is bound.
    bind: Option<IpAddr>,
    /// Addresses of its status.
    addresses: Vec<Value>,
    wanted: Option<IpAddr>,
    problem: Option<Condition>,
}

impl ListenAddress {
    fn at(address: IpAddr) -> Self {
        let addresses = vec![json!({"type": "IPAddress", "value": address.to_string()})];
        ListenAddress { bind: Some(address), addresses, ..ListenAddress::default() }
    }

    fn fails(problem: Condition) -> Self {
        ListenAddress { problem: Some(problem), ..ListenAddress::default() }
    }
}

/// Statuses of our classes.
pub(super) fn classes(world: &World<'_>) -> Vec<StatusPatch> {
    let own = world.cluster.classes.values().filter(|class| class.spec.controller_name == world.settings.controller);
    let status = |class: &Arc<GatewayClass>| {
        let accepted = match &class.spec.parameters_ref {
            None => Condition::holds("Accepted", "Accepted"),
            Some(_) => Condition::fails("Accepted", "InvalidParameters", "classes of Weir take no parameters"),
        };
        let mut conditions = vec![accepted];
        if let Some(release) = &world.cluster.release {
            conditions.push(if release.starts_with(TESTED) {
                Condition::holds("SupportedVersion", "SupportedVersion")
            } else {
                let message = format!("the custom resources are those of {release}; Weir is tested with {TESTED}x");
                Condition::fails("SupportedVersion", "UnsupportedVersion", message)
            });
        }
        let mut features: Vec<&str> = FEATURES.iter().chain(&MORE_FEATURES).copied().collect();
        features.sort_unstable();
        let features: Vec<Value> = features.into_iter().map(|name| json!({"name": name})).collect();
        StatusPatch {
            path: GatewayClass::PATH,
            kind: GatewayClass::KIND,
            key: class.key(),
            status: json!({
                "conditions": values(&conditions, class.metadata.generation),
                "supportedFeatures": features,
            }),
            controller: world.settings.controller.clone(),
            seen: class.status.clone(),
            version: class.metadata.resource_version.clone(),
        }
    };
    own.map(status).collect()
}

/// Our gateways, the oldest first.
pub(super) fn gateways(world: &mut World<'_>, allocations: &mut Allocations) -> Vec<GatewayState> {
    let cluster = world.cluster;
    let is_own = |gateway: &&Arc<Gateway>| {
        let class = cluster.classes.get(&Key::new("", &gateway.spec.gateway_class_name));
        class.is_some_and(|class| {
            class.spec.controller_name == world.settings.controller && class.spec.parameters_ref.is_none()
        })
    };
    let mut own: Vec<Arc<Gateway>> = cluster.gateways.values().filter(is_own).cloned().collect();
    own.sort_by(|a, b| (&a.metadata.creation_timestamp, a.key()).cmp(&(&b.metadata.creation_timestamp, b.key())));
    let is_there = |key: &Key| own.iter().any(|gateway| gateway.key() == *key);
    allocations.addresses.retain(|key, _| is_there(key));
    allocations.ports.retain(|(key, _), _| is_there(key));
    // Before any is given anew: one that another process gave is in a status, or in a Service.
    service::read_ports(world, allocations);
    for gateway in &own {
        note(world, allocations, gateway);
    }
    own.into_iter()
        .map(|object| {
            let key = object.key();
            let ListenAddress { bind, addresses, wanted, problem } = place(world, allocations, &object);
            let listeners = listener::states(world, allocations, &object, bind);
            GatewayState { object, key, addresses, wanted, problem, listeners }
        })
        .collect()
}

fn note(world: &World<'_>, allocations: &mut Allocations, gateway: &Gateway) {
    let Addresses::Bare(network) = world.settings.addresses else { return };
    let seen = gateway.status.pointer("/addresses/0/value").and_then(Value::as_str);
    if let Some(address) = seen.and_then(|text| text.parse().ok()).filter(|address| network.contains(address))
        && !allocations.addresses.values().any(|taken| *taken == address)
    {
        allocations.addresses.entry(gateway.key()).or_insert(address);
    }
}

/// Where a gateway listens, or what is wrong with what it wants.
fn place(world: &World<'_>, allocations: &mut Allocations, gateway: &Gateway) -> ListenAddress {
    match &world.settings.addresses {
        Addresses::Bare(network) => match address(*network, allocations, gateway) {
            Ok(address) => ListenAddress::at(address),
            Err(problem) => ListenAddress::fails(problem),
        },
        Addresses::Shared { bind, services: None, .. } => ListenAddress::at(*bind),
        Addresses::Shared { bind, services: Some(_), .. } => match service::wanted_address(world, gateway) {
            Err(problem) => ListenAddress::fails(problem),
            Ok(wanted) => {
                let (addresses, problem) = service_addresses(world, &gateway.key(), wanted);
                ListenAddress { bind: Some(*bind), addresses, wanted, problem }
            }
        },
    }
}

/// The addresses of a gateway's Service, and why it is not `Programmed`.
fn service_addresses(world: &World<'_>, key: &Key, wanted: Option<IpAddr>) -> (Vec<Value>, Option<Condition>) {
    let fails = |reason: &'static str, message: String| Some(Condition::fails("Programmed", reason, message));
    let service = match service::of_gateway(world, key) {
        Ok(service) => service,
        Err(why) => return (Vec::new(), fails("AddressNotAssigned", why)),
    };
    let addresses = service::addresses(service);
    let name = service.key();
    let problem = match wanted {
        _ if addresses.is_empty() => {
            fails("AddressNotAssigned", format!("the Service {name} has no address of a load balancer yet"))
        }
        Some(wanted)
            if !addresses.iter().any(|one| one["value"].as_str().and_then(|one| one.parse().ok()) == Some(wanted)) =>
        {
            fails("AddressNotUsable", format!("the Service {name} has another address than {wanted}"))
        }
        _ => None,
    };
    (addresses, problem)
}

/// The address of a gateway in bare mode.
///
/// # Errors
/// What is wrong with what it wants.
fn address(network: IpNet, allocations: &mut Allocations, gateway: &Gateway) -> Result<IpAddr, Condition> {
    let mut wanted = None;
    for requested in &gateway.spec.addresses {
        if requested.kind.as_deref().is_some_and(|kind| kind != "IPAddress") {
            let message = "addresses of Weir are of the type IPAddress";
            return Err(Condition::fails("Accepted", "UnsupportedAddress", message));
        }
        let Some(value) = requested.value.as_deref().filter(|value| !value.is_empty()) else { continue };
        match value.parse::<IpAddr>() {
            Ok(address) if network.contains(&address) => wanted = wanted.or(Some(address)),
            _ => {
                let message = format!("{value} is not in {network}");
                return Err(Condition::fails("Programmed", "AddressNotUsable", message));
            }
        }
    }
    let key = gateway.key();
    if let Some(address) = wanted {
        if allocations.addresses.iter().any(|(other, taken)| *taken == address && *other != key) {
            let message = format!("{address} belongs to another gateway");
            return Err(Condition::fails("Programmed", "AddressNotUsable", message));
        }
        allocations.addresses.insert(key, address);
        return Ok(address);
    }
    if let Some(address) = allocations.addresses.get(&key) {
        return Ok(*address);
    }
    let is_free = |address: &IpAddr| !allocations.addresses.values().any(|taken| taken == address);
    match network.hosts().find(is_free) {
        Some(address) => {
            allocations.addresses.insert(key, address);
            Ok(address)
        }
        None => {
            let message = format!("every address of {network} is taken");
            Err(Condition::fails("Programmed", "AddressNotAssigned", message))
        }
    }
}

/// Statuses of our gateways.
pub(super) fn statuses(world: &World<'_>, gateways: &[GatewayState]) -> Vec<StatusPatch> {
    gateways.iter().map(|gateway| gateway.status(world)).collect()
}

impl GatewayState {
    /// Whether a Service can give it what it wants.
    pub(super) fn can_have_service(&self) -> bool {
        self.problem.as_ref().is_none_or(|problem| !problem.is("Accepted"))
    }

    /// Ports that its Service has, with what is spoken there, also those of listeners that cannot be served for now.
    pub(super) fn service_ports(&self) -> impl Iterator<Item = (u16, &str)> {
        let supported = self.listeners.iter().map(|one| &one.spec).filter(|spec| listener::is_supported(spec));
        supported.map(|spec| (spec.port, &*spec.protocol))
    }

    fn status(&self, world: &World<'_>) -> StatusPatch {
        let generation = self.object.metadata.generation;
        let is_valid = |listener: &ListenerState| listener.problem.is_none();
        let accepted = match &self.problem {
            Some(problem) if problem.is("Accepted") => problem.clone(),
            _ if self.object.spec.infrastructure.parameters_ref.is_some() => {
                Condition::fails("Accepted", "InvalidParameters", "gateways of Weir take no parameters")
            }
            _ if self.listeners.iter().all(is_valid) => Condition::holds("Accepted", "Accepted"),
            _ if self.listeners.iter().any(is_valid) => {
                Condition::holds("Accepted", "ListenersNotValid").with("some listeners are not valid")
            }
            _ => Condition::fails("Accepted", "ListenersNotValid", "no listener is valid"),
        };
        let programmed = match &self.problem {
            _ if !self.listeners.iter().any(ListenerState::is_served) => {
                Condition::fails("Programmed", "Invalid", "no listener can be served")
            }
            Some(problem) if problem.is("Programmed") => problem.clone(),
            _ if self.listeners.iter().any(|listener| listener.bind.is_some()) => {
                Condition::holds("Programmed", "Programmed")
            }
            _ if self.listeners.iter().any(|listener| listener.is_pending) => {
                Condition::fails("Programmed", "Pending", listener::PENDING)
            }
            _ => Condition::fails("Programmed", "Invalid", "no listener can be served"),
        };
        let listeners: Vec<Value> = self.listeners.iter().map(|listener| listener.status(generation)).collect();
        StatusPatch {
            path: Gateway::PATH,
            kind: Gateway::KIND,
            key: self.key.clone(),
            status: json!({
                "conditions": values(&[accepted, programmed], generation),
                "listeners": listeners,
                // One that it had must not stay.
                "addresses": self.addresses,
            }),
            controller: world.settings.controller.clone(),
            seen: self.object.status.clone(),
            version: self.object.metadata.resource_version.clone(),
        }
    }
}
