//! A route in words, for `weir routes` and the admin listener.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::config::raw::secrets::shown;
use crate::config::{Action, Builtin, Condition, Config, Redirect, Rewrite, Route, RouteContract, Split, UpstreamId};

/// What a route matches and where it leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// Methods; none means any.
    pub methods: Vec<String>,
    /// Host pattern; empty means any.
    pub host: String,
    /// Path pattern.
    pub path: String,
    /// Header fields that must be there.
    pub headers: BTreeMap<String, String>,
    /// Query parameters that must be there.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, String>,
    /// What is checked by the description of its API: `orders: enforced, bodies held up to 1 MiB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checked: Option<String>,
    /// What happens to a request, in a few words: `python, else node`, `308 /new/*`, `respond 200`.
    pub to: String,
}

/// The routes in the order of the file.
pub fn describe(config: &Config) -> Vec<Described> {
    config.routes.iter().map(|route| Described::of(config, route)).collect()
}

impl Described {
    /// One route.
    pub fn of(config: &Config, route: &Route) -> Self {
        Described {
            name: route.name.to_string(),
            methods: route.matcher.methods.iter().map(ToString::to_string).collect(),
            host: route.matcher.host.to_string(),
            path: route.matcher.path.to_string(),
            headers: conditions(config, &route.matcher.headers),
            query: conditions(config, &route.matcher.query),
            checked: route.contract.as_ref().map(|rules| checked(route, rules)),
            to: destination(config, &route.action),
        }
    }
}

fn conditions(config: &Config, wanted: &[(Arc<str>, Condition)]) -> BTreeMap<String, String> {
    let text = |(name, condition): &(Arc<str>, Condition)| {
        let value = condition.to_string();
        (name.to_string(), shown(&config.redaction, name, &value).to_owned())
    };
    wanted.iter().map(text).collect()
}

/// What is checked, in a few words.
fn checked(route: &Route, rules: &RouteContract) -> String {
    let how = if rules.enforces { "enforced" } else { "reported" };
    let held = match route.body_bytes {
        Some(most) if rules.contract.checks_bodies() => format!(", bodies held up to {} KiB", most.div_ceil(1024)),
        _ => String::new(),
    };
    format!("{}: {how}{held}", rules.api)
}

/// Who gets which share: `stable 95 %, canary 5 % by cookie:session`.
fn shares(split: &Split, name: impl Fn(&UpstreamId) -> String) -> String {
    let share =
        |(index, (id, _)): (usize, &(UpstreamId, u32))| format!("{} {} %", name(id), split.rounded_percent(index));
    let shares: Vec<String> = split.members.iter().enumerate().map(share).collect();
    let by = split.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    shares.join(", ") + &by
}

/// What an action does, in a few words.
fn destination(config: &Config, action: &Action) -> String {
    match action {
        Action::Proxy(proxy) => {
            let name = |id: &UpstreamId| config.upstreams[id.0].name.to_string();
            let first = match &proxy.split {
                Some(split) => shares(split, name),
                None => name(&proxy.upstream),
            };
            let all: Vec<String> = std::iter::once(first).chain(proxy.fallback.iter().map(name)).collect();
            all.join(", else ")
        }
        Action::Ai(ai) => {
            let names: Vec<&str> = ai.models.iter().map(|id| &*config.models[id.0].name).collect();
            format!("models {}", names.join(", "))
        }
        Action::Redirect(Redirect { status, parts: Some(parts), .. }) => {
            let scheme = parts.scheme.as_deref().map_or_else(String::new, |scheme| format!("{scheme}://"));
            let port = parts.port.map_or_else(String::new, |port| format!(":{port}"));
            let host = parts.host.as_deref().unwrap_or("{host}");
            let path = match &parts.path {
                Rewrite::None => "{path}",
                Rewrite::Path(path) | Rewrite::Prefix(path) => path,
            };
            format!("{status} {scheme}{host}{port}{path}")
        }
        Action::Redirect(Redirect { to, append_rest, status, parts: None }) => {
            format!("{status} {to}{}", if *append_rest { "*" } else { "" })
        }
        Action::Respond(respond) => format!("respond {}", respond.status),
        Action::Builtin(Builtin::Healthz) => "healthz".to_owned(),
        Action::Builtin(Builtin::Cachez) => "cachez".to_owned(),
    }
}
