//! Listeners: which are valid, what they show, where they are bound.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use base64::Engine;
use serde_json::{Value, json};

use super::gateway::GatewayState;
use super::hosts::covers;
use super::status::{Condition, values};
use super::{Addresses, Allocations, Refusal, World, service};
use crate::objects::{GATEWAY_GROUP, Gateway, Key, Listener, Object, ObjectRef};

/// Kinds of routes that a listener over HTTP can have.
const KINDS: [&str; 2] = ["HTTPRoute", "GRPCRoute"];

/// Why a listener that could be served is not.
pub(super) const PENDING: &str = "the Service of the gateway does not have the port yet";

/// A listener of such a gateway.
pub(super) struct ListenerState {
    pub(super) spec: Listener,
    /// Kinds of routes that may attach.
    pub(super) kinds: Vec<&'static str>,
    /// Why it is not accepted.
    pub(super) problem: Option<Condition>,
    /// Another listener has the same port and host, or speaks something else there.
    conflict: Option<Condition>,
    /// Why its references are not resolved.
    references: Option<Condition>,
    /// Where it is bound, if it is served.
    pub(super) bind: Option<SocketAddr>,
    /// It could be served, and has no port in its Service yet.
    pub(super) is_pending: bool,
    /// Name of what is bound, which all listeners of the port share.
    pub(super) name: String,
    /// Names of its certificates and keys among the files, and the names that a certificate is used for.
    certificates: Vec<Certificate>,
    /// Routes that are attached.
    pub(super) attached: usize,
}

struct Certificate {
    cert: String,
    key: String,
    hosts: Vec<String>,
    has_names: bool,
}

/// The listeners of a gateway.
pub(super) fn states(
    world: &mut World<'_>,
    allocations: &mut Allocations,
    gateway: &Gateway,
    address: Option<IpAddr>,
) -> Vec<ListenerState> {
    let listeners = &gateway.spec.listeners;
    listeners
        .iter()
        .map(|listener| {
            let mut state = ListenerState {
                spec: listener.clone(),
                kinds: Vec::new(),
                problem: None,
                conflict: None,
                references: None,
                bind: None,
                is_pending: false,
                name: format!("{}/{}/{}", gateway.metadata.namespace, gateway.metadata.name, listener.port),
                certificates: Vec::new(),
                attached: 0,
            };
            state.check(world, gateway);
            if let Some(why) = world.refusals.binds.get(&state.name) {
                state.problem = Some(Condition::fails("Accepted", "PortUnavailable", why.clone()));
                return state;
            }
            if let Some(Refusal { why, .. }) = world.refusals.routes.get(&state.name) {
                state.references = Some(Condition::fails("ResolvedRefs", "InvalidCertificateRef", why.clone()));
                return state;
            }
            // One that cannot be served for now keeps its port, as its Service keeps its address.
            let given = is_supported(listener).then(|| port(world, allocations, &gateway.key(), listener.port));
            if state.is_served()
                && let (Some(address), Some(port)) = (address, given)
            {
                state.bind = port.map(|port| (address, port).into());
                state.is_pending = port.is_none() && service::is_used(world);
            }
            state
        })
        .collect()
}

/// The port that is bound for a port of a gateway.
fn port(world: &World<'_>, allocations: &mut Allocations, gateway: &Key, port: u16) -> Option<u16> {
    let Addresses::Shared { first_port, .. } = world.settings.addresses else { return Some(port) };
    let key = (gateway.clone(), port);
    if service::is_used(world) {
        return service::port(world, allocations, &key);
    }
    if let Some(port) = allocations.ports.get(&key) {
        return Some(*port);
    }
    let free = (first_port..=u16::MAX).find(|port| !allocations.ports.values().any(|taken| taken == port))?;
    allocations.ports.insert(key, free);
    Some(free)
}

impl ListenerState {
    fn check(&mut self, world: &mut World<'_>, gateway: &Gateway) {
        let (listeners, spec) = (&gateway.spec.listeners, self.spec.clone());
        if !is_supported(&spec) {
            let message = format!("{} is not supported; HTTP and HTTPS are", spec.protocol);
            self.problem = Some(Condition::fails("Accepted", "UnsupportedProtocol", message));
            return;
        }
        self.kinds(&spec);
        let others = || listeners.iter().filter(|other| other.name != spec.name && other.port == spec.port);
        if others().any(|other| other.protocol != spec.protocol) {
            let message = format!("another listener of port {} speaks another protocol", spec.port);
            self.conflict = Some(Condition::fails("Conflicted", "ProtocolConflict", message));
        } else if others().any(|other| host(other) == host(&spec)) {
            let message = format!("another listener of port {} has the same host", spec.port);
            self.conflict = Some(Condition::fails("Conflicted", "HostnameConflict", message));
        }
        if let Some(conflict) = &self.conflict {
            let message = conflict.value(0)["message"].as_str().unwrap_or_default().to_owned();
            let reason = if message.contains("protocol") { "ProtocolConflict" } else { "HostnameConflict" };
            self.problem = Some(Condition::fails("Accepted", reason, message));
        }
        if spec.protocol == "HTTPS" {
            let references = spec.tls.as_ref().map_or(&[][..], |tls| &tls.certificate_refs);
            if references.is_empty() {
                let message = "a listener over TLS needs certificateRefs";
                self.references = Some(Condition::fails("ResolvedRefs", "InvalidCertificateRef", message));
            }
            for reference in references {
                match certificate(world, gateway, &spec, reference) {
                    Ok(certificate) => self.certificates.push(certificate),
                    Err(problem) => self.references = Some(problem),
                }
            }
        }
    }

    fn kinds(&mut self, spec: &Listener) {
        let allowed = &spec.allowed_routes.kinds;
        if allowed.is_empty() {
            self.kinds = KINDS.to_vec();
            return;
        }
        for kind in allowed {
            let is_own = kind.group.as_deref().is_none_or(|group| group == GATEWAY_GROUP);
            match KINDS.iter().find(|known| is_own && **known == kind.kind) {
                Some(known) => self.kinds.push(known),
                None => {
                    let message = format!("routes of the kind {} are not supported", kind.kind);
                    self.references = Some(Condition::fails("ResolvedRefs", "InvalidRouteKinds", message));
                }
            }
        }
    }

    /// Whether it can be served.
    pub(super) fn is_served(&self) -> bool {
        self.problem.is_none()
            && !self.kinds.is_empty()
            && (self.spec.protocol == "HTTP" || (!self.certificates.is_empty() && self.references.is_none()))
    }

    /// Host of its requests; any without it.
    pub(super) fn host(&self) -> Option<String> {
        host(&self.spec)
    }

    /// Its part of the gateway's status.
    pub(super) fn status(&self, generation: i64) -> Value {
        let kinds: Vec<Value> = self.kinds.iter().map(|kind| json!({"group": GATEWAY_GROUP, "kind": kind})).collect();
        let conflicted = match &self.conflict {
            Some(conflict) => {
                let mut value = conflict.value(generation);
                value["status"] = "True".into();
                value
            }
            None => Condition::fails("Conflicted", "NoConflicts", "").value(generation),
        };
        let programmed = match self.bind {
            Some(_) => Condition::holds("Programmed", "Programmed"),
            None if self.is_pending => Condition::fails("Programmed", "Pending", PENDING),
            None => Condition::fails("Programmed", "Invalid", "the listener is not served"),
        };
        let accepted = self.problem.clone().unwrap_or_else(|| Condition::holds("Accepted", "Accepted"));
        let references = self.references.clone().unwrap_or_else(|| Condition::holds("ResolvedRefs", "ResolvedRefs"));
        let mut conditions = values(&[accepted, programmed, references], generation);
        if let Some(list) = conditions.as_array_mut() {
            list.push(conflicted);
        }
        json!({
            "name": self.spec.name,
            "supportedKinds": kinds,
            "attachedRoutes": self.attached,
            "conditions": conditions,
        })
    }
}

/// Whether what it wants to speak can be spoken.
pub(super) fn is_supported(listener: &Listener) -> bool {
    let passes_through = listener.tls.as_ref().is_some_and(|tls| tls.mode.as_deref() == Some("Passthrough"));
    match listener.protocol.as_str() {
        "HTTP" => true,
        "HTTPS" => !passes_through,
        _ => false,
    }
}

fn host(listener: &Listener) -> Option<String> {
    listener.hostname.as_ref().filter(|host| !host.is_empty()).map(|host| host.to_ascii_lowercase())
}

/// The certificate that a listener refers to.
fn certificate(
    world: &mut World<'_>,
    gateway: &Gateway,
    listener: &Listener,
    reference: &ObjectRef,
) -> Result<Certificate, Condition> {
    let invalid = |message: String| Condition::fails("ResolvedRefs", "InvalidCertificateRef", message);
    let (group, kind) = (reference.group.as_deref().unwrap_or(""), reference.kind.as_deref().unwrap_or("Secret"));
    if (group, kind) != ("", "Secret") {
        return Err(invalid(format!("certificates are Secrets; {kind} of the group `{group}` is not supported")));
    }
    let namespace = reference.namespace.as_deref().unwrap_or(&gateway.metadata.namespace);
    let from = (GATEWAY_GROUP, "Gateway", &*gateway.metadata.namespace);
    if !world.cluster.is_granted(from, ("", "Secret", namespace, &reference.name)) {
        let message = format!("no ReferenceGrant lets this gateway use the Secret {namespace}/{}", reference.name);
        return Err(Condition::fails("ResolvedRefs", "RefNotPermitted", message));
    }
    let key = Key::new(namespace, &reference.name);
    let secret = world.cluster.secrets.get(&key).ok_or_else(|| invalid(format!("there is no Secret {key}")))?;
    let read = |name: &str| {
        let text = secret.data.get(name).ok_or_else(|| invalid(format!("the Secret {key} has no {name}")))?;
        let decoded = base64::engine::general_purpose::STANDARD.decode(text);
        decoded.map_err(|_| invalid(format!("{name} of the Secret {key} is not base64")))
    };
    let (cert, private) = (read("tls.crt")?, read("tls.key")?);
    let names = (format!("{key}/tls.crt"), format!("{key}/tls.key"));
    let parsed = tls::Certificate::from_pem((&cert, Path::new(&names.0)), (&private, Path::new(&names.1)))
        .map_err(|error| invalid(format!("the Secret {key}: {error}")))?;
    // Of the names of a certificate those that a client can name.
    let dns_names: Vec<&String> = parsed.facts.dns_names.iter().filter(|name| is_usable(name)).collect();
    let covered = host(listener).filter(|host| dns_names.iter().any(|name| *name == host || covers_one(name, host)));
    world.files.insert(names.0.clone(), cert);
    world.files.insert(names.1.clone(), private);
    let has_names = !dns_names.is_empty();
    let hosts = match covered {
        Some(host) => vec![host],
        None => dns_names.into_iter().cloned().collect(),
    };
    Ok(Certificate { cert: names.0, key: names.1, hosts, has_names })
}

/// Whether it is a DNS name, or a wildcard below one.
fn is_usable(name: &str) -> bool {
    let name = name.strip_prefix("*.").unwrap_or(name);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    name.len() <= 253 && name.split('.').all(is_label) && name.parse::<IpAddr>().is_err()
}

/// Whether a wildcard of a certificate, which stands for one label, covers a host.
fn covers_one(name: &str, host: &str) -> bool {
    let (Some(suffix), Some((_, rest))) = (name.strip_prefix("*."), host.split_once('.')) else { return false };
    suffix.eq_ignore_ascii_case(rest) && !host.starts_with('*')
}

/// What is bound: `listen` of the configuration.
pub(super) fn listen(gateways: &[GatewayState]) -> Vec<Value> {
    let mut groups: BTreeMap<SocketAddr, Vec<&ListenerState>> = BTreeMap::new();
    for listener in gateways.iter().flat_map(|gateway| &gateway.listeners) {
        if let Some(bind) = listener.bind {
            groups.entry(bind).or_default().push(listener);
        }
    }
    let item = |(bind, listeners): (SocketAddr, Vec<&ListenerState>)| {
        let mut item = json!({"bind": bind.to_string(), "name": listeners[0].name});
        if listeners[0].spec.protocol == "HTTP" {
            item["http2"] = "prior_knowledge".into();
            return item;
        }
        let certificates: Vec<Value> = listeners
            .iter()
            .flat_map(|listener| {
                listener.certificates.iter().map(|one| {
                    let default = listener.host().is_none() || !one.has_names;
                    json!({"cert": one.cert, "key": one.key, "hosts": one.hosts, "default": default})
                })
            })
            .collect();
        item["tls"] = json!({"certificates": certificates});
        item
    };
    groups.into_iter().map(item).collect()
}

/// Routes that keep the requests of a listener's host from the routes of listeners with a wider one.
pub(super) fn isolation(gateways: &[GatewayState]) -> Vec<Value> {
    let mut routes = Vec::new();
    for gateway in gateways {
        let served: Vec<&ListenerState> = gateway.listeners.iter().filter(|one| one.bind.is_some()).collect();
        for listener in &served {
            let Some(host) = listener.host() else { continue };
            let is_wider = |other: &&ListenerState| {
                other.bind == listener.bind
                    && other.spec.name != listener.spec.name
                    && other.host().is_none_or(|other| other != host && covers(&other, &host))
            };
            if served.iter().copied().any(|other| is_wider(&other)) {
                let name = format!("{}/{}/{}/none", gateway.key, listener.spec.name, host);
                routes.push(json!({
                    "name": super::names::short(&name),
                    "match": {"listener": listener.name, "host": host, "path": "/**"},
                    "respond": {"status": 404},
                }));
            }
        }
    }
    routes
}
