//! What a gateway has to do, whichever it is.

use std::collections::BTreeMap;
use std::fmt;

use apidoc::{Api, Method, Operation};

use super::security::{self, Alternative, Guard};
use super::settings::Settings;

use crate::gateway::text::{decoded, encoded};

/// What the description leaves open.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where the upstreams really are: origin as the description has it (`http://127.0.0.1:14000`; empty for operations whose server is
    /// relative or absent), to the URL to use instead: an origin, or one with a base path that is put before every path.
    pub upstreams: BTreeMap<String, String>,
    /// What the configurations are to do beyond the description.
    pub settings: Settings,
}

/// An API as a gateway sees it: where requests go, and which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Title of the API; empty when the description has none.
    pub title: String,
    /// One for each distinct origin, in the order of first use.
    pub upstreams: Vec<Upstream>,
    /// One for each operation, in the order of the description.
    pub routes: Vec<Route>,
    /// The routes by path, in the order in which they have to be tried by a gateway that takes the first that matches: a literal segment
    /// before a parameter, segment by segment from the left.
    pub paths: Vec<PathEntry>,
    /// What the configurations are to do beyond the description.
    pub settings: Settings,
    /// The field that carries API keys; empty when the description has none.
    pub key_header: String,
    /// What of the description no gateway is told, one sentence each.
    pub notes: Vec<String>,
}

/// A service behind the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Unique, of `a-z`, `0-9` and `_`: `u_127_0_0_1_14000`.
    pub name: String,
    /// Origin in the description; empty when it has none.
    pub origin: String,
    /// Host name or IP address, without brackets.
    pub host: String,
    /// Port, that of the scheme when the URL has none.
    pub port: u16,
    /// Whether it speaks TLS.
    pub https: bool,
    /// Path that is put before the path of every request: empty, or `/base` without a slash at its end.
    pub base: String,
}

impl Upstream {
    /// `host:port`, with brackets around an IPv6 address.
    #[must_use]
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// `http://host:port`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", if self.https { "https" } else { "http" }, self.address())
    }

    /// `http://host:port/base`.
    #[must_use]
    pub fn base_url(&self) -> String {
        self.url() + &self.base
    }

    /// `Host` as a client of the upstream itself would send it: without the port that its scheme has anyway.
    #[must_use]
    pub fn authority(&self) -> String {
        let address = self.address();
        let usual = if self.https { ":443" } else { ":80" };
        address.strip_suffix(usual).map_or(address.clone(), str::to_owned)
    }

    /// Whether the host is an address and needs no resolving.
    #[must_use]
    pub fn is_ip(&self) -> bool {
        self.host.parse::<std::net::IpAddr>().is_ok()
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Identifier of the operation, unique in the API.
    pub id: String,
    /// Its method.
    pub method: Method,
    /// The whole path from the root, base path included. The root itself is one empty segment.
    pub segments: Vec<Segment>,
    /// Index into [`Model::upstreams`].
    pub upstream: usize,
    /// Whether a call without credentials is refused by the upstream.
    pub protected: bool,
    /// What is enough of credentials; empty if everyone may send it.
    pub security: Vec<Alternative>,
    /// What of that is checked.
    pub guard: Guard,
    /// Headers that have to pass, lower case, sorted: see [`Api::request_headers`].
    pub request_headers: Vec<String>,
    /// Names of the query parameters, sorted; an API key in the query included.
    pub query: Vec<String>,
}

impl Route {
    /// `/active/{auctionID}`.
    #[must_use]
    pub fn template(&self) -> String {
        template(&self.segments)
    }
}

/// What stands between two slashes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    /// Literals and parameters in turn; empty for the segment behind a trailing slash.
    pub parts: Vec<Part>,
}

/// A piece of a segment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// As it is in a request: what a path cannot hold is percent-encoded.
    Literal(String),
    /// A parameter's name. It matches one character or more, no slash.
    Parameter(String),
    /// The name of a parameter that may hold slashes, but does not begin with one.
    MultiSegment(String),
}

impl Segment {
    /// The text of a segment without parameters.
    #[must_use]
    pub fn literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// The name of the parameter that the whole segment is.
    #[must_use]
    pub fn parameter(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Parameter(name)] => Some(name),
            _ => None,
        }
    }

    /// The name of the parameter with slashes that the whole segment is.
    #[must_use]
    pub fn multi_segment(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::MultiSegment(name)] => Some(name),
            _ => None,
        }
    }
}

/// A path with all of its methods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathEntry {
    /// Segments of the first route; the others differ in the names of parameters at most.
    pub segments: Vec<Segment>,
    /// One for each upstream and guard, in the order of the description.
    pub targets: Vec<Target>,
}

/// The methods of a path that go to one upstream after one check of credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Index into [`Model::upstreams`].
    pub upstream: usize,
    /// What is checked before.
    pub guard: Guard,
    /// In the order of the description. With GET comes HEAD (RFC 9110, section 9.1), unless the description has a HEAD of its own.
    pub methods: Vec<Method>,
    /// Indexes into [`Model::routes`].
    pub routes: Vec<usize>,
}

impl PathEntry {
    /// `/active/{auctionID}`.
    #[must_use]
    pub fn template(&self) -> String {
        template(&self.segments)
    }

    /// All methods.
    pub fn methods(&self) -> impl Iterator<Item = Method> {
        self.targets.iter().flat_map(|target| target.methods.iter().copied())
    }

    /// The path as it is in a request, if it is literal.
    #[must_use]
    pub fn literal(&self) -> Option<String> {
        let segments: Option<Vec<&str>> = self.segments.iter().map(Segment::literal).collect();
        segments.map(|segments| format!("/{}", segments.join("/")))
    }
}

fn template(segments: &[Segment]) -> String {
    let mut out = String::new();
    for segment in segments {
        out.push('/');
        for part in &segment.parts {
            match part {
                Part::Literal(text) => out.push_str(text),
                Part::Parameter(name) | Part::MultiSegment(name) => out.extend(["{", name, "}"]),
            }
        }
    }
    out
}

/// Why a description makes no model: every reason, each with its operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelError {
    /// At least one sentence.
    pub reasons: Vec<String>,
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reasons.join("\n"))
    }
}

impl std::error::Error for ModelError {}

impl Model {
    /// The model of an API.
    ///
    /// # Errors
    /// Everything that keeps a gateway from being configured: an operation without an absolute server (and no override for it), a URL that
    /// is not http or https, two operations with one method and path, a path that no request can have, an override that nothing uses.
    pub fn new(api: &Api, options: &Options) -> Result<Self, ModelError> {
        let mut model = Self {
            title: api.title.clone(),
            upstreams: Vec::new(),
            routes: Vec::new(),
            paths: Vec::new(),
            settings: options.settings.clone(),
            key_header: security::key_header(api),
            notes: unused_servers(api),
        };
        let mut seen = std::collections::BTreeSet::new();
        model.settings.policies.cors.retain(|origin| seen.insert(origin.clone()));
        let mut reasons = Vec::new();
        // Many operations may fail for one reason: it is told once.
        let mut failed: Vec<(String, String, usize)> = Vec::new();
        for operation in &api.operations {
            match model.route(api, operation, options) {
                Ok(route) => model.routes.push(route),
                Err(why) => match failed.iter_mut().find(|(_, reason, _)| *reason == why) {
                    Some((_, _, more)) => *more += 1,
                    None => {
                        let first = format!("'{}' ({} {})", operation.id, operation.method, operation.endpoint_path);
                        failed.push((first, why, 0));
                    }
                },
            }
        }
        reasons.extend(failed.into_iter().map(|(first, why, more)| match more {
            0 => format!("operation {first}: {why}"),
            more => format!("operation {first} and {more} more: {why}"),
        }));
        if api.operations.is_empty() {
            reasons.push("the description has no operation".to_owned());
        }
        let used = |origin: &str| api.operations.iter().any(|operation| operation.origin().unwrap_or("") == origin);
        for origin in options.upstreams.keys().filter(|origin| !used(origin)) {
            reasons.push(format!(
                "no operation has the server '{origin}' that an address is given for; there are: {}",
                origins(api)
            ));
        }
        model.group(&mut reasons);
        let unusable = security::unusable(api, &model);
        reasons.extend(if unusable.is_empty() { security::unused(&model) } else { unusable });
        model.notes.extend(security::not_given(&model));
        if reasons.is_empty() { Ok(model) } else { Err(ModelError { reasons }) }
    }

    fn route(&mut self, api: &Api, operation: &Operation, options: &Options) -> Result<Route, String> {
        let upstream = self.upstream(operation.origin().unwrap_or(""), options)?;
        let mut query: Vec<String> = operation.query_params.keys().cloned().collect();
        let schemes = operation.security.0.iter().flat_map(BTreeMap::keys);
        for scheme in schemes.filter_map(|name| api.security_schemes.get(name)) {
            if let apidoc::SecurityScheme::ApiKey { location: apidoc::KeyLocation::Query, name } = scheme {
                query.push(name.clone());
            }
        }
        query.sort();
        query.dedup();
        let prefix = options.settings.profile.prefix();
        let mut segments = segments(&format!("{prefix}{}", operation.full_path()))?;
        for part in segments.iter_mut().flat_map(|segment| &mut segment.parts) {
            if let Part::Parameter(name) = part
                && operation.path_params.get(name).is_some_and(|parameter| parameter.multi_segment)
            {
                *part = Part::MultiSegment(std::mem::take(name));
            }
        }
        let security = security::alternatives(api, operation, &self.key_header, &self.settings.policies);
        Ok(Route {
            id: operation.id.clone(),
            method: operation.method,
            segments,
            upstream,
            protected: operation.security.is_required(),
            guard: security::guard(&security),
            security,
            request_headers: api.request_headers(operation),
            query,
        })
    }

    /// Index of the upstream for an origin of the description.
    fn upstream(&mut self, origin: &str, options: &Options) -> Result<usize, String> {
        if let Some(found) = self.upstreams.iter().position(|upstream| upstream.origin == origin) {
            return Ok(found);
        }
        let url = match options.upstreams.get(origin) {
            Some(url) => url,
            None if origin.is_empty() => {
                return Err("the description does not say on which server it is (its server is relative, or there is \
                     none); say where, with an upstream for the empty origin: =http://HOST:PORT"
                    .to_owned());
            }
            None => origin,
        };
        let (https, host, port, base) = parse_upstream(url)?;
        let name = format!("u_{host}_{port}").to_ascii_lowercase();
        let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let taken = |name: &str| self.upstreams.iter().any(|upstream| upstream.name == name);
        let mut name = plain.clone();
        for n in 2.. {
            if !taken(&name) {
                break;
            }
            name = format!("{plain}_{n}");
        }
        self.upstreams.push(Upstream { name, origin: origin.to_owned(), host, port, https, base });
        Ok(self.upstreams.len() - 1)
    }

    /// Fills `paths`.
    fn group(&mut self, reasons: &mut Vec<String>) {
        let mut by_shape: BTreeMap<Vec<Segment>, usize> = BTreeMap::new();
        for (index, route) in self.routes.iter().enumerate() {
            let at = *by_shape.entry(anonymous(&route.segments)).or_insert_with(|| {
                self.paths.push(PathEntry { segments: route.segments.clone(), targets: Vec::new() });
                self.paths.len() - 1
            });
            let entry = &mut self.paths[at];
            let routes = entry.targets.iter().flat_map(|target| &target.routes);
            if let Some(other) = routes.map(|&i| &self.routes[i]).find(|other| other.method == route.method) {
                reasons.push(format!(
                    "operations '{}' ({} {}, {}) and '{}' ({} {}, {}) are one to a gateway: give one of them another base path",
                    other.id,
                    other.method,
                    other.template(),
                    self.upstreams[other.upstream].url(),
                    route.id,
                    route.method,
                    route.template(),
                    self.upstreams[route.upstream].url(),
                ));
                continue;
            }
            let same = |target: &&mut Target| (target.upstream, target.guard) == (route.upstream, route.guard);
            match entry.targets.iter_mut().find(same) {
                Some(target) => {
                    target.methods.push(route.method);
                    target.routes.push(index);
                }
                None => entry.targets.push(Target {
                    upstream: route.upstream,
                    guard: route.guard,
                    methods: vec![route.method],
                    routes: vec![index],
                }),
            }
        }
        self.share_single_segments();
        for entry in &mut self.paths {
            if entry.methods().any(|method| method == Method::Head) {
                continue;
            }
            for target in &mut entry.targets {
                if let Some(get) = target.methods.iter().position(|method| *method == Method::Get) {
                    target.methods.insert(get + 1, Method::Head);
                }
            }
        }
        self.paths.sort_by_cached_key(|entry| order(&entry.segments));
    }
}

impl Model {
    /// A path with one segment where another has a parameter with slashes matches first: it also gets the methods that only the other has.
    fn share_single_segments(&mut self) {
        let single = |segments: &[Segment]| -> Vec<Segment> {
            let mut segments = anonymous(segments);
            for part in segments.iter_mut().flat_map(|segment| &mut segment.parts) {
                if matches!(part, Part::MultiSegment(_)) {
                    *part = Part::Parameter(String::new());
                }
            }
            segments
        };
        let multiple = |entry: &PathEntry| entry.segments.iter().any(|segment| segment.multi_segment().is_some());
        let wide: Vec<PathEntry> = self.paths.iter().filter(|entry| multiple(entry)).cloned().collect();
        for from in wide {
            let shape = single(&from.segments);
            for into in self.paths.iter_mut().filter(|into| !multiple(into) && anonymous(&into.segments) == shape) {
                for target in &from.targets {
                    let new = |method: &Method| !into.targets.iter().any(|other| other.methods.contains(method));
                    let methods: Vec<Method> = target.methods.iter().copied().filter(new).collect();
                    let routes = target.routes.iter().copied().filter(|&i| methods.contains(&self.routes[i].method));
                    let more = Target { routes: routes.collect(), methods, ..*target };
                    let same = |other: &&mut Target| (other.upstream, other.guard) == (target.upstream, target.guard);
                    match into.targets.iter_mut().find(same) {
                        _ if more.methods.is_empty() => {}
                        Some(other) => {
                            other.methods.extend(more.methods);
                            other.routes.extend(more.routes);
                        }
                        None => into.targets.push(more),
                    }
                }
            }
        }
    }
}

/// Sorts paths into the order in which they have to be tried.
pub(super) fn order(segments: &[Segment]) -> Vec<(u8, usize)> {
    let mut order: Vec<(u8, usize)> = segments.iter().map(rank).collect();
    if segments.last().is_some_and(|last| last.multi_segment().is_some()) {
        // It takes everything below, so paths that go on come first.
        order.push((u8::MAX, 0));
    }
    order
}

/// A literal before a segment with something literal in it, before a parameter, before one with slashes; then the order of the description.
fn rank(segment: &Segment) -> (u8, usize) {
    match segment.parts.as_slice() {
        [] | [Part::Literal(_)] => (0, 0),
        [Part::Parameter(_)] => (2, 0),
        [Part::MultiSegment(_)] => (3, 0),
        _ => {
            let literal: usize =
                segment.parts.iter().map(|part| if let Part::Literal(text) = part { text.len() } else { 0 }).sum();
            (1, usize::MAX - literal)
        }
    }
}

/// The segments with the parameters' names taken out: equal for paths that match the same requests.
fn anonymous(segments: &[Segment]) -> Vec<Segment> {
    let part = |part: &Part| match part {
        Part::Parameter(_) => Part::Parameter(String::new()),
        Part::MultiSegment(_) => Part::MultiSegment(String::new()),
        // `%7e` and `~` are one to every server (RFC 3986, section 6.2.2).
        Part::Literal(text) => Part::Literal(decoded(text)),
    };
    segments.iter().map(|segment| Segment { parts: segment.parts.iter().map(part).collect() }).collect()
}

fn origins(api: &Api) -> String {
    let mut origins: Vec<&str> = api.operations.iter().map(|operation| operation.origin().unwrap_or("")).collect();
    origins.sort_unstable();
    origins.dedup();
    origins.iter().map(|origin| format!("'{origin}'")).collect::<Vec<_>>().join(", ")
}

/// Servers of the description beside the first of an operation: requests go to the first.
fn unused_servers(api: &Api) -> Vec<String> {
    let mut notes = Vec::new();
    for operation in &api.operations {
        for server in api.servers_of(operation).iter().skip(1) {
            let note = format!(
                "the server '{}' is not used: requests go to the first that is listed, '{}'",
                server.url, operation.base_path
            );
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    notes
}

/// `http://host:port/base` as whether it is https, host, port and base path.
fn parse_upstream(url: &str) -> Result<(bool, String, u16, String), String> {
    let wrong = |why: &str| format!("'{url}' is not the address of an upstream ({why}): want http://HOST:PORT/BASE");
    let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("it has no scheme"))?;
    let https = match scheme.to_ascii_lowercase().as_str() {
        "http" => false,
        "https" => true,
        _ => return Err(wrong("only http and https are")),
    };
    let (rest, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let base = base.trim_end_matches('/');
    if !base.is_empty() {
        let path = segments(base).map_err(|why| wrong(&why))?;
        if base.contains(['{', '}', '?', '#']) || path.iter().any(|segment| segment.parts.is_empty()) {
            return Err(wrong("its base path is not a plain path"));
        }
        // Variables, the end of a directive and quotes: a configuration would not hold them as they are.
        if let Some(special) = base.chars().find(|c| "$;'".contains(*c)) {
            return Err(wrong(&format!("its base path has {special}, which is syntax in configurations of gateways")));
        }
    }
    let base = if base.is_empty() { String::new() } else { template(&segments(base)?) };
    let (host, port) = match rest.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(|| wrong("its [ is not closed"))?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| wrong("the text in [ ] is not an IPv6 address"))?;
            (host, port)
        }
        None => rest.split_at(rest.find(':').unwrap_or(rest.len())),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c) || (rest.starts_with('[') && c == ':');
    if host.is_empty() || !host.chars().all(plain) {
        return Err(wrong("its host is invalid"));
    }
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port != 0).ok_or_else(|| wrong("its port is not 1 to 65535"))?,
        None if port.is_empty() => {
            if https {
                443
            } else {
                80
            }
        }
        None => return Err(wrong("something follows its host")),
    };
    Ok((https, host.to_ascii_lowercase(), port, base))
}

/// Segments of a path template.
fn segments(path: &str) -> Result<Vec<Segment>, String> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let mut out = Vec::new();
    // Names of parameters hold no slash: the template's reader refuses them.
    let mut rest = path.split('/').peekable();
    while let Some(text) = rest.next() {
        if text.is_empty() && rest.peek().is_some() {
            return Err("its path has two slashes in a row: gateways merge them or refuse them".to_owned());
        }
        out.push(segment(text)?);
    }
    Ok(out)
}

fn segment(text: &str) -> Result<Segment, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (literal, after) = rest.split_once('{').map_or((rest, None), |(literal, after)| (literal, Some(after)));
        if !literal.is_empty() {
            parts.push(Part::Literal(encoded(literal)));
        }
        rest = "";
        if let Some(after) = after {
            let (name, after) = after.split_once('}').ok_or("its path has a { without }")?;
            if matches!(parts.last(), Some(Part::Parameter(_))) {
                return Err(format!(
                    "nothing stands between two parameters in '{text}': where one ends cannot be told"
                ));
            }
            parts.push(Part::Parameter(name.to_owned()));
            rest = after;
        }
    }
    let whole = Segment { parts };
    if let Some(literal) = whole.literal() {
        let plain = decoded(literal);
        if plain == "." || plain == ".." {
            return Err("its path has a dot segment, which clients and gateways remove".to_owned());
        }
    }
    for part in &whole.parts {
        if let Part::Literal(literal) = part
            && decoded(literal).contains(|c: char| c == '/' || c == '\\' || c.is_control())
        {
            return Err(format!(
                "'{literal}' holds an encoded slash, backslash or control character, which gateways read in different ways"
            ));
        }
    }
    Ok(whole)
}
