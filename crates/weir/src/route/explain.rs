//! Which route takes a request, and why not the others: for `weir routes` and the console. Nothing is sent.

use std::net::{IpAddr, Ipv4Addr};

use serde::Serialize;

use super::rewrite;
use super::split::{self, Sender};
use super::{Described, Lookup, RouteMatch, Table, path};
use crate::config::raw::secrets::shown;
use crate::config::{
    Action, Condition, Config, HostPattern, LimitTiers, Matcher, Rewrite, Route, RouteId, Split, SplitKey,
};

/// A request to look for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Method.
    pub method: String,
    /// Host, with or without a port.
    pub host: String,
    /// Path, and query if there is one.
    pub target: String,
    /// Fields; names in lower case.
    pub fields: Vec<(String, String)>,
    /// Address of the client, which decides where a route splits its requests by it.
    pub client: Option<IpAddr>,
    /// Name of the listener that it comes by; none where that does not matter.
    pub listener: Option<String>,
}

/// What would become of a request.
#[derive(Debug, Clone, Serialize)]
pub struct Explanation {
    /// The route that takes it.
    pub route: Option<TakenRoute>,
    /// Why none does.
    pub refusal: Option<Refused>,
    /// The path that routes are compared with, where the request has another form of it.
    pub matched_path: Option<String>,
    /// Whether it is the preflight of a cross-origin request, which its route responds to.
    pub is_preflight: bool,
    /// Routes whose path matches and that do not take it.
    pub others: Vec<Other>,
}

/// The gateway's own response.
#[derive(Debug, Clone, Serialize)]
pub struct Refused {
    /// Status.
    pub status: u16,
    /// Cause, for people.
    pub why: String,
}

/// The route that takes a request.
#[derive(Debug, Clone, Serialize)]
pub struct TakenRoute {
    /// Its name.
    pub name: String,
    /// What it does, in a few words.
    pub to: String,
    /// What of the request it matches.
    pub because: Vec<String>,
    /// What is checked by the description of its API.
    pub checked: Option<String>,
    /// Where it may be forwarded to.
    pub forwards: Vec<Forward>,
    /// Where the client is redirected to.
    pub location: Option<String>,
    /// Any of these lists of authenticators; each needs all of its members. Empty: everyone may send requests.
    pub auth: Vec<Vec<String>>,
    /// Rules on who may send requests.
    pub allow: Vec<String>,
    /// Names of limits and budgets.
    pub limits: Vec<String>,
    /// Name of the cache.
    pub cache: Option<String>,
    /// Bytes that the body may have.
    pub body_bytes: Option<u64>,
}

/// An upstream that would get the request.
#[derive(Debug, Clone, Serialize)]
pub struct Forward {
    /// Its name.
    pub upstream: String,
    /// Its share, where the request does not say which upstream it is.
    pub percent: Option<f64>,
    /// Path and query that it would get.
    pub target: String,
    /// Whether that is another one than the client sent.
    pub is_rewritten: bool,
    /// What names its targets.
    pub sources: Vec<String>,
}

/// A route that does not take the request.
#[derive(Debug, Clone, Serialize)]
pub struct Other {
    /// Its name.
    pub route: String,
    /// What of it does not match.
    pub why: String,
}

impl Request {
    /// Reads `GET api.example.com/users/7`, `GET /users/7` or `/users/7`, and fields as `X-Tier: gold`.
    ///
    /// # Errors
    /// What cannot be read, for people.
    pub fn parse(text: &str, headers: &[String], client: Option<IpAddr>) -> Result<Self, String> {
        let text = text.trim();
        let (method, rest) = text.split_once(' ').unwrap_or(("GET", text));
        let rest = rest.trim_start();
        let rest = rest.strip_prefix("http://").or_else(|| rest.strip_prefix("https://")).unwrap_or(rest);
        let (host, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if rest.is_empty() {
            return Err(format!("`{text}` is not a request; write 'GET api.example.com/users/7' or '/users/7'"));
        }
        Ok(Request {
            method: method.to_ascii_uppercase(),
            host: host.to_owned(),
            target: if target.starts_with('/') { target.to_owned() } else { format!("/{target}") },
            fields: headers.iter().map(|header| field(header)).collect::<Result<_, String>>()?,
            client,
            listener: None,
        })
    }

    fn values<'r>(&'r self, name: &str) -> impl Iterator<Item = &'r [u8]> {
        let named = self.fields.iter().filter(move |(known, _)| known == name);
        // Collected: the iterator must not depend on the life of the name.
        named.map(|(_, value)| value.as_bytes()).collect::<Vec<_>>().into_iter()
    }

    /// The members of a split that may take the request: one if what decides is known.
    fn members(&self, split: &Split) -> Vec<usize> {
        // What it falls back to where the request has no value.
        let point_for = |address: IpAddr| {
            let sender = Sender { address: address.into(), consumer: None };
            split.by.as_ref().map(|by| split::point(by, sender, |name| self.values(name)))
        };
        let one = point_for(self.client.unwrap_or(Ipv4Addr::LOCALHOST.into()));
        let other = point_for(self.client.unwrap_or(Ipv4Addr::UNSPECIFIED.into()));
        match one.zip(other) {
            Some((one, other)) if one == other && split.by != Some(SplitKey::Consumer) => vec![split.member_at(one)],
            _ => (0..split.members.len()).filter(|&index| split.members[index].1 > 0).collect(),
        }
    }

    fn lookup<'t>(&self, table: &'t Table, target: path::Target<'_>) -> Lookup<'t> {
        let holds = |name: &str, condition: &Condition| condition.holds(self.values(name));
        table.lookup(self.host.as_bytes(), target, self.method.as_bytes(), holds)
    }

    /// The method that a preflight is about.
    fn requested_method(&self) -> Option<&[u8]> {
        let is_preflight = self.method == "OPTIONS" && self.values("origin").next().is_some();
        self.values("access-control-request-method").next().filter(|_| is_preflight)
    }
}

/// Name in lower case, and value.
fn field(line: &str) -> Result<(String, String), String> {
    let (name, value) =
        line.split_once(':').ok_or_else(|| format!("`{line}` is not a header field; write 'X-Tier: gold'"))?;
    Ok((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
}

/// What would become of a request by these routes of a configuration.
pub fn explain(config: &Config, table: &Table, request: &Request) -> Explanation {
    let mut scratch = Vec::new();
    let nothing = Explanation { route: None, refusal: None, matched_path: None, is_preflight: false, others: vec![] };
    let refused = |status: u16, why: String| Explanation { refusal: Some(Refused { status, why }), ..nothing.clone() };
    let target = match path::normalise_by(config.server.path, request.target.as_bytes(), &mut scratch) {
        Ok(target) => target,
        Err(refusal) => return refused(400, format!("{refusal} ({})", refusal.reason())),
    };
    let longest = |name: &str| request.values(name).map(<[u8]>::len).max().unwrap_or(0);
    if let Err(reason) = table.check_lengths(target, longest) {
        return refused(reason.status(), format!("{} ({reason})", reason.title()));
    }
    let host = request.host.as_bytes();
    let preflight = request.requested_method().and_then(|method| table.lookup_preflight(host, target, method));
    let looked_up = preflight.map_or_else(|| request.lookup(table, target), Lookup::RouteMatch);
    let (found, mut explained) = match looked_up {
        Lookup::RouteMatch(found) => {
            let route = taken(config, request, &config.routes[found.route.0], found, target);
            (Some(found), Explanation { route: Some(route), ..nothing })
        }
        Lookup::MethodNotAllowed(allow) => {
            let methods = allow.methods().collect::<Vec<_>>().join(", ");
            let why = format!("routes match, but none takes {}; Allow: {methods}", request.method);
            (None, refused(405, why))
        }
        Lookup::NotFound => (None, refused(404, "no route matches".to_owned())),
    };
    explained.is_preflight = preflight.is_some();
    if target.path != request.target.split('?').next().unwrap_or_default().as_bytes() {
        explained.matched_path = Some(String::from_utf8_lossy(target.path).into_owned());
    }
    let others =
        config.routes.iter().enumerate().filter(|(index, _)| found.is_none_or(|found| found.route != RouteId(*index)));
    let why = |(_, route): (usize, &Route)| {
        let why = why_not(config, route, request, target)?;
        Some(Other { route: route.name.to_string(), why })
    };
    explained.others = others.filter_map(why).collect();
    explained
}

/// The route that takes the request, why, and what happens next.
fn taken(config: &Config, request: &Request, route: &Route, found: RouteMatch, target: path::Target<'_>) -> TakenRoute {
    let mut taken = TakenRoute {
        name: route.name.to_string(),
        to: Described::of(config, route).to,
        because: because(config, &route.matcher),
        checked: Described::of(config, route).checked,
        forwards: Vec::new(),
        location: None,
        auth: route
            .auth
            .alternatives
            .iter()
            .map(|ids| ids.iter().map(|id| auth_name(config, id.0)).collect())
            .collect(),
        allow: allow(route),
        limits: limits(config, route),
        cache: route.cache.map(|id| config.caches[id.0].name.to_string()),
        body_bytes: route.body_bytes,
    };
    let mut out = Vec::new();
    match &route.action {
        Action::Proxy(proxy) => {
            let chosen = match &proxy.split {
                Some(split) => request.members(split),
                None => vec![0],
            };
            for (index, id) in proxy.first_choices().enumerate().filter(|(index, _)| chosen.contains(index)) {
                let upstream = &config.upstreams[id.0];
                let base = upstream.targets.first().map_or("", |target| &target.base_path);
                out.clear();
                rewrite::upstream_target(&mut out, base, &proxy.rewrite, found, target);
                let split = proxy.split.as_ref().filter(|_| chosen.len() > 1);
                taken.forwards.push(Forward {
                    upstream: upstream.name.to_string(),
                    percent: split.map(|split| split.rounded_percent(index)),
                    target: String::from_utf8_lossy(&out).into_owned(),
                    is_rewritten: proxy.rewrite != Rewrite::None || !base.is_empty(),
                    sources: upstream.sources(),
                });
            }
        }
        Action::Redirect(redirect) => {
            match &redirect.parts {
                None => rewrite::location(&mut out, redirect, found, target),
                Some(parts) => {
                    let origin = rewrite::RequestOrigin { scheme: "http", authority: request.host.as_bytes() };
                    rewrite::changed_location(&mut out, parts, origin, found, target);
                }
            }
            taken.location = Some(String::from_utf8_lossy(&out).into_owned());
        }
        Action::Ai(_) | Action::Respond(_) | Action::Builtin(_) => {}
    }
    taken
}

/// What of a request a route matches.
fn because(config: &Config, matcher: &Matcher) -> Vec<String> {
    let mut parts = vec![format!("path {}", matcher.path)];
    if matcher.host != HostPattern::Any {
        parts.push(format!("host {}", matcher.host));
    }
    if !matcher.methods.is_empty() {
        parts.push(format!("method {}", matcher.methods.join(" or ")));
    }
    for (name, condition) in &matcher.headers {
        parts.push(format!("{name}: {}", shown(&config.redaction, name, &condition.to_string())));
    }
    for (name, condition) in &matcher.query {
        parts.push(format!("query {name}={}", shown(&config.redaction, name, &condition.to_string())));
    }
    parts
}

fn auth_name(config: &Config, index: usize) -> String {
    config.auth.get(index).map(|one| one.name.to_string()).unwrap_or_default()
}

/// The rules of `allow`, one a line.
fn allow(route: &Route) -> Vec<String> {
    let rules = &route.allow.rules;
    let mut lines = Vec::new();
    let mut add = |what: &str, values: String| {
        if !values.is_empty() {
            lines.push(format!("{what}: {values}"));
        }
    };
    add("scopes", rules.scopes.join(" "));
    add("claims", rules.claims.keys().map(|name| &**name).collect::<Vec<_>>().join(", "));
    add("consumers", rules.consumers.as_deref().unwrap_or_default().join(", "));
    add("tiers", rules.tiers.as_deref().unwrap_or_default().join(", "));
    let networks = |list: &[ipnet::IpNet]| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    add("ips", networks(route.allow.ips.as_deref().unwrap_or_default()));
    add("not_ips", networks(&route.allow.not_ips));
    lines
}

fn limits(config: &Config, route: &Route) -> Vec<String> {
    let named = |name: &str, tiers: &LimitTiers| match tiers {
        LimitTiers::All => name.to_owned(),
        LimitTiers::Only(tier) => format!("{name} (tier {tier})"),
        LimitTiers::Except(tiers) => format!("{name} (not tier {})", tiers.join(", ")),
    };
    let limits = route.limits.iter().map(|id| &config.limits[id.0]).map(|limit| named(&limit.name, &limit.tiers));
    let budgets = route.budgets.iter().map(|id| &config.budgets[id.0]).map(|one| named(&one.name, &one.tiers));
    limits.chain(budgets).collect()
}

/// Why another route whose path matches does not take the request; nothing for one whose path does not match.
fn why_not(config: &Config, route: &Route, request: &Request, target: path::Target<'_>) -> Option<String> {
    // The route alone, with one part after the other taken into account.
    let mut probe = route.clone();
    let headers_wanted = std::mem::take(&mut probe.matcher.headers);
    let query_wanted = std::mem::take(&mut probe.matcher.query);
    let methods = std::mem::take(&mut probe.matcher.methods);
    let host = std::mem::replace(&mut probe.matcher.host, HostPattern::Any);
    let matches = |probe: &Route| {
        matches!(request.lookup(&Table::new(std::slice::from_ref(probe)), target), Lookup::RouteMatch(_))
    };
    if !matches(&probe) {
        return None;
    }
    if let (Some(wanted), Some(listener)) = (&route.matcher.listener, &request.listener)
        && **wanted != **listener
    {
        return Some(format!("it is for the listener {wanted}"));
    }
    probe.matcher.host = host;
    if !matches(&probe) {
        return Some(format!("it is for the host {}", probe.matcher.host));
    }
    probe.matcher.methods = methods;
    if !matches(&probe) {
        return Some(format!("it takes {} only", probe.matcher.methods.join(", ")));
    }
    probe.matcher.headers = headers_wanted;
    probe.matcher.query = query_wanted;
    if !matches(&probe) {
        return Some(format!("it wants {}", conditions_text(config, &probe.matcher)));
    }
    Some(format!("{} comes after", probe.matcher.path))
}

/// What a route wants of fields and of the query in one word, `x-tier=gold,?v=2`, without what may be a secret; empty if it wants nothing.
pub fn conditions_text(config: &Config, matcher: &Matcher) -> String {
    let part = |before: &str, name: &str, condition: &Condition| {
        format!("{before}{name}={}", shown(&config.redaction, name, &condition.to_string()))
    };
    let headers = matcher.headers.iter().map(|(name, condition)| part("", name, condition));
    let query = matcher.query.iter().map(|(name, condition)| part("?", name, condition));
    headers.chain(query).collect::<Vec<_>>().join(",")
}
