//! What a rule does: filters and backends.

use serde_json::{Map, Value, json};

use super::World;
use super::backend;
use super::duration::millis;
use super::filter;
use super::listener::ListenerState;
use super::status::Condition;
use crate::objects::{Filter, Header, HeaderModifier, PathModifier, Redirect, Rule};

/// What a rule does.
#[derive(Debug, Clone)]
pub(super) struct Action {
    /// Keys of the route in the configuration.
    keys: Map<String, Value>,
    redirect: Option<Redirect>,
}

type Outcome = Result<(Action, Option<Condition>), String>;

/// What a rule of a route (kind and namespace) does, and why a backend of it cannot be used.
///
/// # Errors
/// What is not supported.
pub(super) fn action<M: Default>(
    world: &mut World<'_>,
    from: (&str, &str),
    is_grpc: bool,
    rule: &Rule<M>,
    is_prefix: bool,
) -> Outcome {
    let mut action = Action { keys: Map::new(), redirect: None };
    let (mut request, mut response) = (HeaderModifier::default(), HeaderModifier::default());
    let mut rewrite = Map::new();
    let (mut mirrored, mut no_mirror) = (None, None);
    for filter in &rule.filters {
        match filter.kind.as_str() {
            "RequestHeaderModifier" => merge(&mut request, filter.request_header_modifier.as_ref()),
            "ResponseHeaderModifier" => merge(&mut response, filter.response_header_modifier.as_ref()),
            "RequestRedirect" => {
                let redirect = filter.request_redirect.clone().unwrap_or_default();
                check_path(redirect.path.as_ref(), is_prefix)?;
                action.redirect = Some(redirect);
            }
            "URLRewrite" => {
                let wanted = filter.url_rewrite.clone().unwrap_or_default();
                check_path(wanted.path.as_ref(), is_prefix)?;
                if let Some(host) = wanted.hostname {
                    rewrite.insert("host".into(), host.into());
                }
                if let Some((key, path)) = wanted.path.as_ref().and_then(path) {
                    rewrite.insert(key.into(), path.into());
                }
            }
            "CORS" => {
                let (cors, exposed) = filter::cors(&filter.cors.clone().unwrap_or_default())?;
                action.keys.insert("cors".into(), cors);
                let name = "Access-Control-Expose-Headers".to_owned();
                response.set.extend(exposed.map(|value| Header { name, value }));
            }
            // Calls of gRPC are streams, of which there are no copies.
            "RequestMirror" if !is_grpc && mirrored.is_some() => {
                return Err("a rule can have one filter RequestMirror".to_owned());
            }
            "RequestMirror" if !is_grpc => {
                let wanted = filter.request_mirror.clone().unwrap_or_default();
                let (keys, problem) = filter::mirror(world, from, &wanted);
                (mirrored, no_mirror) = (Some(keys), problem);
            }
            other => return Err(format!("the filter {other} is not supported")),
        }
    }
    // Edits on the way to one backend of several would need a route for each.
    let of_backends: Vec<&Filter> = rule.backend_refs.iter().flat_map(|backend| &backend.filters).collect();
    match (of_backends.as_slice(), rule.backend_refs.as_slice()) {
        ([], _) => {}
        (filters, [_]) if filters.iter().all(|filter| filter.kind == "RequestHeaderModifier") => {
            for filter in filters {
                merge(&mut request, filter.request_header_modifier.as_ref());
            }
        }
        _ => return Err("filters of one of several backends are not supported".to_owned()),
    }
    let mut headers = Map::new();
    for (key, modifier) in [("request", &request), ("response", &response)] {
        if *modifier != HeaderModifier::default() {
            headers.insert(key.into(), edits(modifier));
        }
    }
    if !headers.is_empty() {
        action.keys.insert("headers".into(), headers.into());
    }
    if action.redirect.is_some() {
        return Ok((action, no_mirror));
    }
    let (weights, problem) = backends(world, from, is_grpc, rule);
    let problem = problem.or(no_mirror);
    let total: u64 = weights.iter().map(|(_, weight)| u64::from(*weight)).sum();
    match weights.as_slice() {
        _ if total == 0 => {
            action.keys.insert("respond".into(), json!({"status": 500}));
            return Ok((action, problem));
        }
        [(name, _)] => {
            action.keys.insert("upstream".into(), name.as_str().into());
        }
        several => {
            let mut shares: Map<String, Value> = Map::new();
            for (name, weight) in several {
                let before = shares.get(name).and_then(Value::as_u64).unwrap_or(0);
                shares.insert(name.clone(), (before + u64::from(*weight)).into());
            }
            action.keys.insert("split".into(), json!({"upstreams": shares}));
        }
    }
    if let Some(mirror) = mirrored.flatten() {
        action.keys.insert("mirror".into(), mirror);
    }
    if !rewrite.is_empty() {
        action.keys.insert("rewrite".into(), rewrite.into());
    }
    if let Some(timeouts) = &rule.timeouts {
        let mut keys = Map::new();
        let mut set = |key: &str, text: &Option<String>| match text.as_deref().map(millis) {
            None => Ok(()),
            Some(None) => Err(format!("`{}` is not a duration", text.as_deref().unwrap_or_default())),
            Some(Some(0)) => {
                keys.insert(key.into(), "none".into());
                Ok(())
            }
            Some(Some(millis)) => {
                keys.insert(key.into(), format!("{millis}ms").into());
                Ok(())
            }
        };
        set("total", &timeouts.request)?;
        set("first_byte", &timeouts.backend_request)?;
        if !keys.is_empty() {
            action.keys.insert("timeouts".into(), keys.into());
        }
    }
    if !is_grpc {
        action.keys.insert("upgrade".into(), json!(["websocket"]));
    }
    Ok((action, problem))
}

/// Upstreams of a rule with their weights; what cannot be used is an upstream of its own with the response 500.
fn backends<M: Default>(
    world: &mut World<'_>,
    from: (&str, &str),
    is_grpc: bool,
    rule: &Rule<M>,
) -> (Vec<(String, u32)>, Option<Condition>) {
    let mut problem = None;
    let mut weights = Vec::new();
    let mut invalid = 0;
    for reference in &rule.backend_refs {
        let weight = reference.weight.unwrap_or(1);
        match backend::resolve(world, from, reference, is_grpc) {
            Ok(name) => weights.push((name, weight)),
            Err(why) => {
                invalid += weight;
                problem = Some(why);
            }
        }
    }
    if invalid > 0 && weights.iter().any(|(_, weight)| *weight > 0) {
        weights.push((super::INVALID.to_owned(), invalid));
        world.has_invalid = true;
    }
    (weights, problem)
}

fn merge(into: &mut HeaderModifier, more: Option<&HeaderModifier>) {
    let Some(more) = more else { return };
    into.set.extend(more.set.iter().cloned());
    into.add.extend(more.add.iter().cloned());
    into.remove.extend(more.remove.iter().cloned());
}

/// Edits of a head. Values are texts: braces in them are no variables.
fn edits(modifier: &HeaderModifier) -> Value {
    let fields = |fields: &[Header]| {
        let mut out: Map<String, Value> = Map::new();
        for field in fields {
            if !out.keys().any(|name| name.eq_ignore_ascii_case(&field.name)) {
                out.insert(field.name.clone(), escape(&field.value).into());
            }
        }
        out
    };
    let mut edits = Map::new();
    for (key, list) in [("set", &modifier.set), ("add", &modifier.add)] {
        if !list.is_empty() {
            edits.insert(key.into(), fields(list).into());
        }
    }
    if !modifier.remove.is_empty() {
        edits.insert("remove".into(), modifier.remove.clone().into());
    }
    edits.into()
}

/// `{name}` is a variable in a configuration and `{{name}` the text.
fn escape(value: &str) -> String {
    let mut out = String::new();
    for (at, c) in value.char_indices() {
        let name = value[at + c.len_utf8()..].split_once('}').map(|(name, _)| name);
        let is_name = name.is_some_and(|name| {
            name.starts_with(|first: char| first.is_ascii_lowercase())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        });
        if c == '{' && is_name {
            out.push('{');
        }
        out.push(c);
    }
    out
}

fn check_path(path: Option<&PathModifier>, is_prefix: bool) -> Result<(), String> {
    match path.map(|path| path.kind.as_str()) {
        None | Some("ReplaceFullPath") => Ok(()),
        Some("ReplacePrefixMatch") if is_prefix => Ok(()),
        Some("ReplacePrefixMatch") => Err("ReplacePrefixMatch needs matches of the type PathPrefix".to_owned()),
        Some(other) => Err(format!("a path modifier of the type {other} is not supported")),
    }
}

/// The key and value of a change of path.
fn path(modifier: &PathModifier) -> Option<(&'static str, String)> {
    match (&modifier.replace_full_path, &modifier.replace_prefix_match) {
        (Some(path), _) => Some(("path", path.clone())),
        (None, Some(prefix)) => Some(("prefix", if prefix.is_empty() { "/".to_owned() } else { prefix.clone() })),
        (None, None) => None,
    }
}

impl Action {
    /// Puts the keys of the action into a route of a listener.
    pub(super) fn write(&self, route: &mut Value, listener: &ListenerState, _path: &str) {
        for (key, value) in &self.keys {
            route[key] = value.clone();
        }
        let Some(redirect) = &self.redirect else { return };
        let own = if listener.spec.protocol == "HTTPS" { "https" } else { "http" };
        let scheme = redirect.scheme.as_deref().unwrap_or(own);
        let usual = if scheme == "https" { 443 } else { 80 };
        // Without a port: that of the scheme where one is named, else the listener's.
        let port = redirect.port.unwrap_or(if redirect.scheme.is_some() { usual } else { listener.spec.port });
        let mut keys = Map::new();
        keys.insert("scheme".into(), scheme.into());
        if port != usual {
            keys.insert("port".into(), port.into());
        }
        if let Some(host) = &redirect.hostname {
            keys.insert("host".into(), host.as_str().into());
        }
        if let Some((key, value)) = redirect.path.as_ref().and_then(path) {
            keys.insert(key.into(), value.into());
        }
        keys.insert("status".into(), redirect.status_code.unwrap_or(302).into());
        route["redirect"] = keys.into();
    }
}
