//! Which credentials of a description a configuration checks, and which it does not.

use std::collections::BTreeMap;

use apidoc::{Api, KeyLocation, Operation, SecurityScheme};

use super::Gateway;
use super::model::{Model, Route};
use super::policies::Policies;
use crate::profile::{Jwt, KeyAuth, Profile};

/// What a gateway checks before a request passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guard {
    /// Nothing.
    #[default]
    Open,
    /// An API key.
    Key,
    /// A token.
    Token,
    /// An API key, or a token where the request has no key.
    Either,
    /// An API key and a token.
    Both,
}

impl Guard {
    /// What is left of it for a gateway that can check only these.
    #[must_use]
    pub fn within(self, keys: bool, tokens: bool) -> Self {
        match self {
            Guard::Key | Guard::Either | Guard::Both if keys && !tokens => Guard::Key,
            Guard::Token | Guard::Either | Guard::Both if tokens && !keys => Guard::Token,
            other if keys && tokens => other,
            _ => Guard::Open,
        }
    }
}

/// Credentials that are enough for an operation: all of them together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alternative {
    /// An API key that `--api-keys` may have.
    pub key: bool,
    /// A token that a key of `--jwks` may have signed.
    pub token: bool,
    /// What no gateway is told to check, in words.
    pub unchecked: Vec<String>,
}

/// The field that carries API keys: the one that most operations name.
pub(super) fn key_header(api: &Api) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for operation in &api.operations {
        for scheme in operation.security.0.iter().flat_map(BTreeMap::keys) {
            if let Some(header) = api.security_schemes.get(scheme).and_then(header) {
                *counts.entry(header).or_default() += 1;
            }
        }
    }
    let most = counts.iter().max_by_key(|(name, count)| (**count, std::cmp::Reverse(**name)));
    most.map_or(String::new(), |(name, _)| (*name).to_owned())
}

/// The field of a key whose value is the key and nothing else.
fn header(scheme: &SecurityScheme) -> Option<&str> {
    match scheme {
        SecurityScheme::ApiKey { location: KeyLocation::Header, name }
            if !name.eq_ignore_ascii_case("authorization") && usable(name) =>
        {
            Some(name)
        }
        _ => None,
    }
}

/// Whether a field of this name can have a key: one with a meaning of its own is changed or removed by gateways, and one with an underscore
/// is another field to many servers.
fn usable(name: &str) -> bool {
    const TAKEN: [&str; 24] = [
        "accept",
        "connection",
        "content-length",
        "content-type",
        "cookie",
        "date",
        "expect",
        "forwarded",
        "host",
        "http2-settings",
        "keep-alive",
        "origin",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "via",
        "x-consumer-username",
        "x-real-ip",
        "x-request-id",
        "",
    ];
    let name = name.to_ascii_lowercase();
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && !TAKEN.contains(&name.as_str())
        && !["x-forwarded-", "x-envoy-", "access-control-"].iter().any(|prefix| name.starts_with(prefix))
}

/// Why the keys of `--api-keys` cannot be in the field that the description names, if that is so of all of its fields.
pub(super) fn unusable(api: &Api, model: &Model) -> Vec<String> {
    if model.settings.policies.keys.is_none() || !model.key_header.is_empty() {
        return Vec::new();
    }
    let used = |scheme: &String| {
        api.operations.iter().any(|operation| operation.security.0.iter().any(|all| all.contains_key(scheme)))
    };
    let schemes = api.security_schemes.iter().filter(|(scheme, _)| used(scheme));
    let names = schemes.filter_map(|(_, scheme)| match scheme {
        SecurityScheme::ApiKey { location: KeyLocation::Header, name }
            if !name.eq_ignore_ascii_case("authorization") =>
        {
            Some(name)
        }
        _ => None,
    });
    names
        .map(|name| format!("--api-keys: the field {name:?} of the description cannot have keys: it has letters, digits and -, begins with a letter, and has no meaning of its own to a gateway"))
        .collect()
}

/// What is enough for an operation; nothing if everyone may send it.
pub(super) fn alternatives(
    api: &Api,
    operation: &Operation,
    key_header: &str,
    policies: &Policies,
) -> Vec<Alternative> {
    if !operation.security.is_required() {
        return Vec::new();
    }
    let mut all = Vec::new();
    for requirement in &operation.security.0 {
        let mut one = Alternative::default();
        for (name, scopes) in requirement {
            let scheme = api.security_schemes.get(name);
            let is_key = scheme.and_then(header).is_some_and(|header| header.eq_ignore_ascii_case(key_header));
            let is_token = scheme.is_some_and(bearer);
            match scheme {
                Some(_) if is_key && policies.keys.is_some() => one.key = true,
                Some(_) if is_token && policies.tokens.is_some() => {
                    one.token = true;
                    if !scopes.is_empty() {
                        one.unchecked.push(format!("the scopes of `{name}`"));
                    }
                }
                Some(_) if is_key => one.unchecked.push(format!("`{name}`, an API key (--api-keys is not given)")),
                Some(_) if is_token => one.unchecked.push(format!("`{name}`, a bearer token (--jwks is not given)")),
                Some(scheme) => one.unchecked.push(format!("`{name}`, {}", describe(scheme))),
                None => one.unchecked.push(format!("`{name}`, which is not described")),
            }
        }
        all.push(one);
    }
    all
}

/// Whether its credentials are a token in `Authorization: Bearer` (RFC 6750).
fn bearer(scheme: &SecurityScheme) -> bool {
    match scheme {
        SecurityScheme::Http { scheme, .. } => scheme == "bearer",
        SecurityScheme::Oauth2 { .. } | SecurityScheme::OpenIdConnect { .. } => true,
        SecurityScheme::ApiKey { .. } | SecurityScheme::MutualTls {} => false,
    }
}

fn describe(scheme: &SecurityScheme) -> String {
    match scheme {
        SecurityScheme::Http { scheme, .. } => format!("HTTP {scheme}"),
        SecurityScheme::ApiKey { location: KeyLocation::Header, name } => format!("an API key in {name}"),
        SecurityScheme::ApiKey { location: KeyLocation::Query, .. } => "an API key in the query".to_owned(),
        SecurityScheme::ApiKey { location: KeyLocation::Cookie, .. } => "an API key in a cookie".to_owned(),
        SecurityScheme::Oauth2 { .. } => "OAuth 2".to_owned(),
        SecurityScheme::OpenIdConnect { .. } => "OpenID Connect".to_owned(),
        SecurityScheme::MutualTls {} => "a client certificate".to_owned(),
    }
}

/// What is checked for alternatives. One with nothing that can be checked is not accepted, if others are: else all would pass.
pub(super) fn guard(alternatives: &[Alternative]) -> Guard {
    let has = |key: bool, token: bool| alternatives.iter().any(|one| (one.key, one.token) == (key, token));
    match (has(true, false), has(false, true), has(true, true)) {
        (true, true, _) => Guard::Either,
        (true, false, _) => Guard::Key,
        (false, true, _) => Guard::Token,
        (false, false, true) => Guard::Both,
        (false, false, false) => Guard::Open,
    }
}

/// [`notes`] of a gateway; none if the user wants no check.
pub(super) fn notes_of(gateway: &dyn Gateway, model: &Model) -> Vec<String> {
    if !model.checks() {
        return Vec::new();
    }
    let keys = gateway.profile(&Profile::KeyAuth(KeyAuth::default())).is_ok();
    let tokens = gateway.profile(&Profile::Jwt(Jwt::default())).is_ok();
    let others = model.settings.policies.tokens.as_ref().map_or(0, |accepted| accepted.others);
    let mut notes = notes(model, keys, tokens);
    if tokens && others > 0 {
        notes.push(format!("{others} of the keys of --jwks are not used: they are not of RS256, RS384, RS512 or ES256, or not for signatures"));
    }
    notes
}

/// What of the description's security a gateway that can check keys or tokens does not check, a sentence each.
fn notes(model: &Model, keys: bool, tokens: bool) -> Vec<String> {
    let (mut open, mut partly, mut refused): (Groups<'_>, Groups<'_>, Groups<'_>) = Default::default();
    for route in model.routes.iter().filter(|route| !route.security.is_empty()) {
        let mut reasons: Vec<String> = Vec::new();
        for one in &route.security {
            reasons.extend(one.unchecked.iter().cloned());
            reasons.extend((one.key && !keys).then(|| "an API key".to_owned()));
            reasons.extend((one.token && !tokens).then(|| "a bearer token".to_owned()));
        }
        if route.guard.within(keys, tokens) == Guard::Open {
            group(&mut open, reasons, route);
            continue;
        }
        for one in &route.security {
            let checked = (one.key && keys) || (one.token && tokens);
            let mut rest = one.unchecked.clone();
            rest.extend((one.key && !keys).then(|| "an API key".to_owned()));
            rest.extend((one.token && !tokens).then(|| "a bearer token".to_owned()));
            if !rest.is_empty() {
                group(if checked { &mut partly } else { &mut refused }, rest, route);
            }
        }
    }
    let mut notes = Vec::new();
    for (reasons, routes) in &open {
        notes.push(format!(
            "without a check pass {}, which need{} {reasons}: the upstream has to check them",
            list(routes),
            if routes.len() == 1 { "s" } else { "" }
        ));
    }
    for (reasons, routes) in &partly {
        notes.push(format!(
            "credentials of {} are checked, but not {reasons}: the upstream has to check that",
            list(routes)
        ));
    }
    for (reasons, routes) in &refused {
        let verb = if routes.len() == 1 { "is" } else { "are" };
        notes.push(format!("{} {verb} refused with {reasons} alone, which the description allows", list(routes)));
    }
    notes
}

/// Routes by what is not checked.
type Groups<'a> = BTreeMap<String, Vec<&'a Route>>;

fn group<'a>(groups: &mut Groups<'a>, mut reasons: Vec<String>, route: &'a Route) {
    reasons.dedup();
    let routes = groups.entry(reasons.join(" and ")).or_default();
    if !routes.iter().any(|other| other.id == route.id) {
        routes.push(route);
    }
}

/// `2 operations (a, b)`.
fn list(routes: &[&Route]) -> String {
    const SHOWN: usize = 10;
    let ids: Vec<&str> = routes.iter().take(SHOWN).map(|route| route.id.as_str()).collect();
    let more = if routes.len() > SHOWN { format!(" and {} more", routes.len() - SHOWN) } else { String::new() };
    format!("{} operation{} ({}{more})", routes.len(), if routes.len() == 1 { "" } else { "s" }, ids.join(", "))
}

/// What the description needs, and no option gives: for a user who gave none of them.
pub(super) fn not_given(model: &Model) -> Option<String> {
    let routes: Vec<&Route> = model.routes.iter().filter(|route| route.protected).collect();
    (!routes.is_empty() && !model.checks()).then(|| {
        format!(
            "{} need credentials, which the gateways pass on without a check; --api-keys and --jwks check them",
            list(&routes)
        )
    })
}

/// Options for credentials that no operation needs: whoever gives them expects a check.
pub(super) fn unused(model: &Model) -> Vec<String> {
    let policies = &model.settings.policies;
    let uses = |key: bool| {
        model.routes.iter().flat_map(|route| &route.security).any(|one| if key { one.key } else { one.token })
    };
    let mut reasons = Vec::new();
    if policies.keys.is_some() && !uses(true) {
        reasons.push("--api-keys: no operation needs an API key in a header of its own".to_owned());
    }
    if policies.tokens.is_some() && !uses(false) {
        reasons.push("--jwks: no operation needs a bearer token, OAuth 2 or OpenID Connect".to_owned());
    }
    reasons
}
