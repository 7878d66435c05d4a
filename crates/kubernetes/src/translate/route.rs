//! Routes: what they attach to, what their rules match, in which order.

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::{Value, json};

use super::action::{Action, action};
use super::gateway::GatewayState;
use super::hosts::{covers, intersection};
use super::listener::ListenerState;
use super::status::{Condition, StatusPatch, values};
use super::{Refusal, World, names};
use crate::objects::{
    GATEWAY_GROUP, GRPCRoute, GrpcMatch, HTTPRoute, HttpMatch, Key, Meta, Object, ParentRef, RouteSpec, Status,
    ValueMatch,
};

/// A route of the configuration, with its place among those of the same host and path.
struct Entry {
    order: (Reverse<bool>, Reverse<usize>, Reverse<usize>, String, Key, usize, usize),
    value: Value,
}

/// A match of either kind of route.
pub(super) trait Match: Default + Clone {
    /// Whether it is one of gRPC.
    const IS_GRPC: bool;
    /// Path and conditions, as keys of `match`.
    fn parts(&self) -> Option<Parts>;
}

/// What a match is made of.
#[derive(Default)]
pub(super) struct Parts {
    path: String,
    method: Option<String>,
    headers: Vec<(String, Value)>,
    query: Vec<(String, Value)>,
}

/// Every route of the configuration, in order of precedence, and the statuses of the objects.
pub(super) fn routes(world: &mut World<'_>, gateways: &mut [GatewayState]) -> (Vec<Value>, Vec<StatusPatch>) {
    let cluster = world.cluster;
    let (mut entries, mut statuses) = (Vec::new(), Vec::new());
    for route in cluster.http_routes.values() {
        statuses.extend(one(world, gateways, route, &route.spec, &route.status, &mut entries));
    }
    for route in cluster.grpc_routes.values() {
        statuses.extend(one(world, gateways, route, &route.spec, &route.status, &mut entries));
    }
    entries.sort_by(|a, b| a.order.cmp(&b.order));
    (entries.into_iter().map(|entry| entry.value).collect(), statuses)
}

/// One object; nothing if no gateway that is served is its parent and none was.
fn one<T: Object, M: Match>(
    world: &mut World<'_>,
    gateways: &mut [GatewayState],
    object: &Arc<T>,
    spec: &RouteSpec<M>,
    seen: &Status,
    entries: &mut Vec<Entry>,
) -> Option<StatusPatch> {
    let (meta, key) = (object.meta(), object.key());
    let mut rules = None;
    let mut parents = Vec::new();
    for reference in &spec.parent_refs {
        let is_gateway = reference.group.as_deref().is_none_or(|group| group == GATEWAY_GROUP)
            && reference.kind.as_deref().is_none_or(|kind| kind == "Gateway");
        let namespace = reference.namespace.as_deref().unwrap_or(&meta.namespace);
        let parent = Key::new(namespace, &reference.name);
        let Some(gateway) = gateways.iter_mut().find(|gateway| is_gateway && gateway.key == parent) else { continue };
        let (actions, unresolved, unsupported) = rules.get_or_insert_with(|| actions::<T, M>(world, meta, spec));
        let mut conditions = Vec::new();
        match attach(world, gateway, meta, reference, &spec.hostnames, T::KIND) {
            Ok(listeners) => {
                let mut wrong = unsupported.clone();
                let mut has_sound_rule = unsupported.is_none() || actions.iter().any(Option::is_some);
                for (index, hosts) in &listeners {
                    let listener = &gateway.listeners[*index];
                    if listener.bind.is_some() {
                        let outcome = write(world, gateway, listener, hosts, (&key, meta), spec, actions, entries);
                        has_sound_rule &= outcome.wrong.is_none() || outcome.has_sound_rule;
                        wrong = wrong.or(outcome.wrong);
                    }
                }
                match wrong {
                    None => conditions.push(Condition::holds("Accepted", "Accepted")),
                    Some(why) if has_sound_rule => {
                        conditions.push(Condition::holds("Accepted", "Accepted"));
                        let message = format!("Dropped Rule: requests for it get 500: {why}");
                        conditions.push(Condition::holds("PartiallyInvalid", "UnsupportedValue").with(message));
                    }
                    Some(why) => conditions.push(Condition::fails("Accepted", "UnsupportedValue", why)),
                }
                if has_sound_rule {
                    listeners.iter().for_each(|(index, _)| gateway.listeners[*index].attached += 1);
                }
            }
            Err(problem) => conditions.push(problem),
        }
        conditions.push(unresolved.clone().unwrap_or_else(|| Condition::holds("ResolvedRefs", "ResolvedRefs")));
        parents.push(json!({
            "parentRef": reference,
            "controllerName": world.settings.controller,
            "conditions": values(&conditions, meta.generation),
        }));
    }
    let own = |parent: &&Value| parent["controllerName"] == *world.settings.controller;
    let before = seen.get("parents").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if parents.is_empty() && !before.iter().any(|parent| own(&parent)) {
        return None;
    }
    Some(StatusPatch {
        path: T::PATH,
        kind: T::KIND,
        key,
        status: json!({"parents": parents}),
        controller: world.settings.controller.clone(),
        seen: seen.clone(),
        version: meta.resource_version.clone(),
    })
}

type Actions = (Vec<Option<Action>>, Option<Condition>, Option<String>);

/// What each rule does, if it is supported; why a reference is not resolved; why a rule is not supported.
fn actions<T: Object, M: Match>(world: &mut World<'_>, meta: &Meta, spec: &RouteSpec<M>) -> Actions {
    let (mut unresolved, mut unsupported) = (None, None);
    let mut all = Vec::new();
    for rule in &spec.rules {
        let is_prefix = rule.matches.iter().all(|one| one.parts().is_some_and(|parts| parts.path.ends_with("/**")));
        match action(world, (T::KIND, &meta.namespace), M::IS_GRPC, rule, is_prefix) {
            Ok((action, problem)) => {
                all.push(Some(action));
                unresolved = unresolved.or(problem);
            }
            Err(problem) => {
                all.push(None);
                unsupported = Some(problem);
            }
        }
        if rule.matches.iter().any(|one| one.parts().is_none()) {
            unsupported = Some("a match of a kind that is not supported".to_owned());
        }
    }
    (all, unresolved, unsupported)
}

/// The listeners that a route attaches to, each with the hosts that both have; none: any host.
fn attach(
    world: &World<'_>,
    gateway: &GatewayState,
    meta: &Meta,
    reference: &ParentRef,
    hostnames: &[String],
    kind: &str,
) -> Result<Vec<(usize, Vec<String>)>, Condition> {
    let fails = |reason: &'static str, message: &str| Condition::fails("Accepted", reason, message);
    let is_named = |listener: &ListenerState| {
        reference.section_name.as_ref().is_none_or(|name| *name == listener.spec.name)
            && reference.port.is_none_or(|port| port == listener.spec.port)
    };
    let named: Vec<usize> = (0..gateway.listeners.len()).filter(|at| is_named(&gateway.listeners[*at])).collect();
    if named.is_empty() {
        return Err(fails("NoMatchingParent", "the gateway has no listener of this name and port"));
    }
    let allows = |at: &usize| {
        let listener = &gateway.listeners[*at];
        listener.kinds.contains(&kind) && allows(world, gateway, listener, &meta.namespace)
    };
    let allowed: Vec<usize> = named.into_iter().filter(allows).collect();
    if allowed.is_empty() {
        return Err(fails("NotAllowedByListeners", "no listener allows routes of this kind and namespace"));
    }
    let mut attached = Vec::new();
    for at in allowed {
        let host = gateway.listeners[at].host();
        let hosts: Vec<String> = match hostnames {
            [] => host.iter().cloned().collect(),
            names => names.iter().filter_map(|name| intersection(host.as_deref(), name)).collect(),
        };
        // Several hosts of a route may have the same in common with a listener.
        let hosts: Vec<String> = hosts.into_iter().collect::<std::collections::BTreeSet<_>>().into_iter().collect();
        if hostnames.is_empty() || !hosts.is_empty() {
            attached.push((at, hosts));
        }
    }
    if attached.is_empty() {
        return Err(fails("NoMatchingListenerHostname", "no listener has one of the route's hosts"));
    }
    Ok(attached)
}

fn allows(world: &World<'_>, gateway: &GatewayState, listener: &ListenerState, namespace: &str) -> bool {
    let namespaces = &listener.spec.allowed_routes.namespaces;
    match namespaces.from.as_deref().unwrap_or("Same") {
        "All" => true,
        "Same" => gateway.key.namespace == namespace,
        "Selector" => {
            let found = world.cluster.namespaces.get(&Key::new("", namespace));
            let selector = namespaces.selector.as_ref();
            found.zip(selector).is_some_and(|(found, selector)| selector.selects(&found.metadata.labels))
        }
        _ => false,
    }
}

/// How the rules of a route were written.
struct Written {
    /// Why some were refused.
    wrong: Option<String>,
    /// Whether some were not.
    has_sound_rule: bool,
}

/// Writes the rules of a route for one listener. Requests for those that cannot be served get 500: they must not reach another route, which may be a
/// wider one with less protection.
#[expect(clippy::too_many_arguments, reason = "the parts of one object, read in one place")]
fn write<M: Match>(
    world: &World<'_>,
    gateway: &GatewayState,
    listener: &ListenerState,
    hosts: &[String],
    (key, meta): (&Key, &Meta),
    spec: &RouteSpec<M>,
    actions: &[Option<Action>],
    entries: &mut Vec<Entry>,
) -> Written {
    let mut written = Written { wrong: None, has_sound_rule: false };
    // Requests of a host belong to the listener that names it best.
    let own = listener.host();
    let is_elsewhere = |host: &String| {
        gateway.listeners.iter().any(|other| {
            let Some(foreign) = other.host() else { return false };
            other.bind == listener.bind
                && other.spec.name != listener.spec.name
                && covers(&foreign, host)
                && own.as_ref().is_none_or(|own| *own != foreign && covers(own, &foreign))
        })
    };
    let left: Vec<Option<&String>> = match hosts {
        [] => vec![None],
        hosts => hosts.iter().filter(|host| !is_elsewhere(host)).map(Some).collect(),
    };
    for (at, (rule, action)) in spec.rules.iter().zip(actions).enumerate() {
        let every = [M::default()];
        let matches = if rule.matches.is_empty() { &every[..] } else { &rule.matches };
        for (number, parts) in matches.iter().filter_map(Match::parts).enumerate() {
            for host in &left {
                let name = format!("{}/{}/{at}/{number}/{}/{}", kind_of::<M>(), key, listener.spec.name, gateway.key);
                let name = host.map_or_else(|| name.clone(), |host| format!("{name}/{host}"));
                let name = names::short(&name);
                let refusal = world.refusals.routes.get(&name);
                if let Some(Refusal { why, is_left_out }) = refusal {
                    written.wrong = Some(why.clone());
                    if *is_left_out {
                        continue;
                    }
                }
                let mut value = json!({
                    "name": name,
                    "match": {"listener": listener.name, "path": parts.path},
                });
                if let Some(host) = host {
                    value["match"]["host"] = host.as_str().into();
                }
                if let Some(method) = &parts.method {
                    value["match"]["methods"] = json!([method]);
                }
                if !parts.headers.is_empty() {
                    value["match"]["headers"] = parts.headers.iter().cloned().collect::<serde_json::Map<_, _>>().into();
                }
                if !parts.query.is_empty() {
                    value["match"]["query"] = parts.query.iter().cloned().collect::<serde_json::Map<_, _>>().into();
                }
                match action.as_ref().filter(|_| refusal.is_none()) {
                    Some(action) => {
                        action.write(&mut value, listener, &parts.path);
                        written.has_sound_rule = true;
                    }
                    None => value["respond"] = json!({"status": 500}),
                }
                entries.push(Entry {
                    order: (
                        Reverse(parts.method.is_some()),
                        Reverse(parts.headers.len()),
                        Reverse(parts.query.len()),
                        meta.creation_timestamp.clone(),
                        key.clone(),
                        at,
                        number,
                    ),
                    value,
                });
            }
        }
    }
    written
}

fn kind_of<M: Match>() -> &'static str {
    if M::IS_GRPC { GRPCRoute::KIND } else { HTTPRoute::KIND }
}

impl Match for HttpMatch {
    const IS_GRPC: bool = false;

    fn parts(&self) -> Option<Parts> {
        let kind = self.path.as_ref().and_then(|path| path.kind.as_deref()).unwrap_or("PathPrefix");
        let value = self.path.as_ref().and_then(|path| path.value.as_deref()).unwrap_or("/");
        let path = match kind {
            "Exact" => literal(value),
            "PathPrefix" => format!("{}/**", literal(value.trim_end_matches('/'))),
            "RegularExpression" => format!("~{value}"),
            _ => return None,
        };
        Some(Parts {
            path,
            method: self.method.clone(),
            headers: conditions(&self.headers, true)?,
            query: conditions(&self.query_params, false)?,
        })
    }
}

impl Match for GrpcMatch {
    const IS_GRPC: bool = true;

    fn parts(&self) -> Option<Parts> {
        let method = self.method.clone().unwrap_or_default();
        let is_regex = match method.kind.as_deref().unwrap_or("Exact") {
            "Exact" => false,
            "RegularExpression" => true,
            _ => return None,
        };
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let path = match (given(method.service), given(method.method), is_regex) {
            (None, None, _) => "/**".to_owned(),
            (Some(service), Some(method), false) => literal(&format!("/{service}/{method}")),
            (Some(service), None, false) => format!("{}/**", literal(&format!("/{service}"))),
            (None, Some(method), false) => format!("~/[^/]+/{}", escape(&method)),
            (service, method, true) => {
                let any = || "[^/]+".to_owned();
                format!("~/(?:{})/(?:{})", service.unwrap_or_else(any), method.unwrap_or_else(any))
            }
        };
        Some(Parts { path, headers: conditions(&self.headers, true)?, ..Parts::default() })
    }
}

/// A path of an object as it is written in a configuration, where braces would be parameters.
fn literal(path: &str) -> String {
    path.replace('{', "%7B").replace('}', "%7D")
}

/// A text as a regular expression.
fn escape(text: &str) -> String {
    text.chars().flat_map(|c| (!c.is_ascii_alphanumeric() && c != '_').then_some('\\').into_iter().chain([c])).collect()
}

/// Conditions on fields or parameters; of several with one name the first counts.
fn conditions(matches: &[ValueMatch], ignores_case: bool) -> Option<Vec<(String, Value)>> {
    let mut all: Vec<(String, Value)> = Vec::new();
    for one in matches {
        let same = |name: &String| if ignores_case { name.eq_ignore_ascii_case(&one.name) } else { *name == one.name };
        if all.iter().any(|(name, _)| same(name)) {
            continue;
        }
        let value = one.value.clone().unwrap_or_default();
        let condition = match one.kind.as_deref().unwrap_or("Exact") {
            "Exact" => Value::String(value),
            "RegularExpression" => json!({"regex": value}),
            _ => return None,
        };
        all.push((one.name.clone(), condition));
    }
    Some(all)
}
