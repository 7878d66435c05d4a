//! Routes: what happens to a request that matches.

use std::collections::HashSet;
use std::sync::Arc;

use super::api::{Described, yield_to_file};
use super::{Resolver, time};
use crate::MAX_METHODS;
use crate::problem::{Origin, Problem};
use crate::raw;
use crate::raw::shape::{OrNone, Spanned};
use crate::raw::target::{check_path, parse_authority};
use crate::{
    Action, Builtin, CacheId, Compression, Condition, Cors, ErrorPages, HeaderEdits, HostPattern, LimitId, Matcher,
    PathPattern, Proxy, Redirect, RedirectParts, Respond, Rewrite, Route, RouteAuth, Split, TimeoutOverrides,
    UpstreamId,
};

const REDIRECT_STATUSES: [u16; 5] = [301, 302, 303, 307, 308];
/// Largest weight of a split's upstream.
const MAX_WEIGHT: u32 = 1_000_000;
/// Largest request of an AI route where it says nothing: Anthropic's own limit.
const AI_BODY: u64 = 32 << 20;
const DEFAULT_CONTENT_TYPE: &str = "text/plain; charset=utf-8";

/// Fields that a route with `cors` writes itself.
const CORS_FIELDS: [&str; 5] = [
    "access-control-allow-origin",
    "access-control-allow-credentials",
    "access-control-allow-methods",
    "access-control-allow-headers",
    "access-control-max-age",
];

/// A route of the file, or of a description.
#[derive(Clone, Copy)]
pub(super) struct Planned<'r> {
    pub(super) raw: &'r Spanned<raw::Route>,
    pub(super) described: Option<&'r Described>,
}

/// What a route has where it says nothing.
struct RouteDefaults {
    limits: Vec<LimitId>,
    cache: Option<CacheId>,
    compression: Option<Arc<Compression>>,
    errors: Option<Arc<ErrorPages>>,
}

impl Resolver<'_> {
    pub(super) fn routes(&mut self) -> Vec<Route> {
        let file = self.file;
        if file.routes.is_empty() && file.apis.is_empty() && !self.is_managed() {
            self.problem(file.routes.origin, "`routes` is empty; at least one is needed");
        }
        let described = self.described();
        let own = file.routes.iter().map(|raw| Planned { raw, described: None });
        let of_apis = described.iter().map(|described| Planned { raw: &described.route, described: Some(described) });
        let mut planned: Vec<Planned<'_>> = own.chain(of_apis).collect();
        let mut matchers: Vec<Matcher> = planned.iter().map(|route| self.matcher(route.raw)).collect();
        let mut stays = yield_to_file(&mut matchers, file.routes.len()).into_iter();
        let mut kept = stays.clone();
        planned.retain(|_| stays.next().unwrap_or(true));
        matchers.retain(|_| kept.next().unwrap_or(true));
        if !self.is_managed() {
            self.make_unambiguous(&mut matchers, &planned);
        }
        self.count_methods(&matchers, &planned);
        let names = self.route_names(&matchers, &planned);
        let default_limits = file.defaults.limits.iter();
        // Unknown names in `defaults` are reported once, where the gateway's own limits are resolved.
        let default_limits = default_limits.filter_map(|name| file.limits.position(name));
        let default_limits: Vec<LimitId> = default_limits.flat_map(|position| self.limit_span(position)).collect();
        let default_cache = self.cache_id(&file.defaults.cache);
        let default_compression = self.default_compression();
        let defaults = RouteDefaults {
            limits: default_limits,
            cache: default_cache,
            compression: default_compression,
            errors: self.default_errors(),
        };
        let parts = planned.iter().zip(matchers).zip(names);
        parts.map(|((route, matcher), name)| self.route(route, matcher, name, &defaults)).collect()
    }

    fn route(&mut self, planned: &Planned<'_>, matcher: Matcher, name: Arc<str>, defaults: &RouteDefaults) -> Route {
        let raw = planned.raw;
        let action = self.action(raw, &matcher, &name);
        if let (Some(raw), PathPattern::Matches(_)) =
            (raw.rewrite.as_ref().and_then(|raw| raw.prefix.as_ref()), &matcher.path)
        {
            let message = "`prefix` replaces the fixed part of a path, and a regular expression has none";
            self.problem(raw.origin, message);
        }
        let forwards = matches!(action, Action::Proxy(_));
        let cache = match &raw.cache {
            None if forwards => defaults.cache,
            None => None,
            Some(cache) => {
                if !forwards && !matches!(action, Action::Ai(_)) && cache.as_option().is_some() {
                    let message = "only routes with an `upstream` or with `ai` have something to cache";
                    self.problem(cache.origin, message);
                }
                self.cache_id(cache)
            }
        };
        let auth = match &action {
            // About the gateway, for load balancers that have no credential.
            Action::Builtin(_) if raw.auth.is_none() => RouteAuth::default(),
            _ => self.route_auth(raw.auth.as_ref()),
        };
        let raw_cache = cache.and_then(|cache| self.file.caches.iter().nth(cache.0));
        let is_ai = matches!(action, Action::Ai(_));
        if let Some((name, found)) = raw_cache.filter(|_| forwards || is_ai) {
            let origin = raw.cache.as_ref().map_or(raw.origin, |cache| cache.origin);
            self.check_cache(origin, (&name.value, found), is_ai, auth.is_open());
        }
        let allow = self.allow(raw.allow.as_ref(), &auth);
        let compress = self.compression(raw, &auth, forwards, defaults.compression.as_ref());
        let errors = self.route_errors(raw, defaults.errors.as_ref());
        let headers = self.route_headers(raw);
        let mirror = match &raw.mirror {
            OrNone::None => None,
            OrNone::Some(mirror) => self.mirror(mirror, &action, &headers, &name),
        };
        let fault = raw.fault.as_option().map(|fault| self.fault(fault));
        let budgets = self.route_budgets(raw.limits.as_deref(), &action);
        Route {
            name,
            action,
            auth,
            allow,
            limits: match &raw.limits {
                None => defaults.limits.clone(),
                Some(limits) => self.limit_ids(limits),
            },
            budgets,
            cache,
            compress,
            errors,
            mirror,
            fault,
            body_bytes: match &raw.body {
                // As much as the providers take.
                None if raw.ai.is_some() => Some(AI_BODY),
                None => self.file.server.body.as_option().map(|size| size.0),
                Some(body) => body.as_option().map(|size| size.0),
            },
            headers,
            cors: raw.cors.as_option().map(|cors| self.cors(cors, &matcher)),
            api: planned.described.map(|described| described.api.clone()),
            contract: planned.described.and_then(|described| described.contract.clone()),
            matcher,
        }
    }

    /// Whether a route may have this cache: its mode is for such routes, and it separates those who may use the route.
    fn check_cache(&mut self, origin: Origin, (name, cache): (&str, &raw::Cache), is_ai: bool, is_open: bool) {
        let is_llm = cache.mode == raw::CacheMode::Llm;
        if is_ai != is_llm {
            let message = match is_ai {
                true => format!("a route with `ai` needs a cache with `mode: llm`, which `{name}` is not"),
                false => format!("the cache `{name}` has `mode: llm`, which is for routes with `ai`"),
            };
            self.problem(origin, message);
            return;
        }
        let is_identity = |key: &raw::PartitionKey| !matches!(key, raw::PartitionKey::Header(_));
        let identity = cache.partition_by.iter().find(|key| is_identity(&key.value));
        match identity {
            Some(key) if is_open && is_llm => {
                let message = format!(
                    "the cache `{name}` separates clients by `{}`, which is not known on a route without `auth`: nothing would be stored",
                    key.value
                );
                self.problem(origin, message);
            }
            None if !is_open && !cache.shared => {
                let message = format!(
                    "a stored response would be served to everyone who may use the route; give the cache `{name}` `partition_by: [consumer]`, or `shared: true` if responses are the same for all"
                );
                self.problem(origin, message);
            }
            _ => {}
        }
    }

    fn matcher(&mut self, raw: &Spanned<raw::Route>) -> Matcher {
        let raw = &raw.matcher;
        let mut methods: Vec<Arc<str>> = Vec::new();
        for method in &raw.methods {
            if !methods.iter().any(|known| **known == *method.0) {
                methods.push(method.0.as_str().into());
            }
        }
        let mut headers: Vec<(Arc<str>, Condition)> = Vec::new();
        for (name, condition) in raw.headers.iter() {
            let lower = name.to_ascii_lowercase();
            self.check(name.origin, name.parse::<raw::text::FieldName>().map(drop));
            if lower == "host" {
                self.problem(name.origin, "use `host` to match the host");
            }
            if headers.iter().any(|(known, _)| **known == *lower) {
                let message = format!("`{}` occurs twice; names ignore case", name.value);
                self.problem(name.origin, message);
            }
            headers.push((lower.into(), wanted(condition)));
        }
        let listener = raw.listener.as_ref().map(|name| {
            if !self.file.listen.iter().any(|listener| listener.name.as_ref() == Some(name)) {
                self.problem(name.origin, format!("no listener has the name `{}`", name.value));
            }
            name.as_str().into()
        });
        Matcher {
            listener,
            host: raw.host.as_ref().map_or(HostPattern::Any, |host| host.0.clone()),
            path: raw.path.0.clone(),
            methods,
            headers,
            query: raw.query.iter().map(|(name, condition)| (name.as_str().into(), wanted(condition))).collect(),
        }
    }

    /// Routes are distinguished by one bit for each method.
    fn count_methods(&mut self, matchers: &[Matcher], routes: &[Planned<'_>]) {
        let mut known: HashSet<&Arc<str>> = HashSet::new();
        for (matcher, route) in matchers.iter().zip(routes) {
            let before = known.len();
            known.extend(&matcher.methods);
            if before <= MAX_METHODS && known.len() > MAX_METHODS {
                let message = format!("routes name more than {MAX_METHODS} different methods");
                self.problems.push(Problem::new(route.raw.origin, message));
            }
        }
    }

    fn action(&mut self, raw: &Spanned<raw::Route>, matcher: &Matcher, name: &str) -> Action {
        let given = [
            ("upstream", raw.upstream.as_ref().map(|at| at.origin)),
            ("split", raw.split.as_ref().map(|at| at.origin)),
            ("ai", raw.ai.as_ref().map(|at| at.origin)),
            ("redirect", raw.redirect.as_ref().map(|at| at.origin)),
            ("respond", raw.respond.as_ref().map(|at| at.origin)),
        ];
        let given: Vec<_> = given.into_iter().filter_map(|(key, at)| at.map(|at| (key, at))).collect();
        match given.as_slice() {
            [] => {
                let message = "a route needs `upstream`, `split`, `ai`, `redirect` or `respond`";
                self.problem(raw.origin, message);
            }
            [_] => {}
            [(first, _), (second, origin), ..] => {
                let message = format!("a route has `{first}` or `{second}`, not both");
                self.problem(*origin, message);
            }
        }
        if raw.upstream.is_none() && raw.split.is_none() && !given.is_empty() {
            self.only_with_upstream(raw);
        }
        if let Some(ai) = &raw.ai {
            return Action::Ai(self.route_ai(name, ai));
        }
        if let Some(redirect) = &raw.redirect {
            return Action::Redirect(self.redirect(redirect, matcher));
        }
        if let Some(respond) = &raw.respond {
            return self.respond(respond);
        }
        Action::Proxy(self.proxy(raw))
    }

    /// Keys that mean something only where requests are forwarded.
    fn only_with_upstream(&mut self, raw: &raw::Route) {
        let keys = [
            ("rewrite", raw.rewrite.as_ref().map(|at| at.origin)),
            ("fallback", raw.fallback.first().map(|at| at.origin)),
            ("timeouts", raw.timeouts.as_ref().map(|at| at.origin)),
            ("upgrade", raw.upgrade.first().map(|at| at.origin)),
            ("trailers", raw.trailers.as_ref().map(|at| at.origin)),
        ];
        for (key, origin) in keys {
            if let Some(origin) = origin {
                self.problem(origin, format!("`{key}` needs an `upstream` or a `split`"));
            }
        }
    }

    fn proxy(&mut self, raw: &raw::Route) -> Proxy {
        let split = raw.split.as_ref().map(|split| self.split(split));
        let upstream = match (&raw.upstream, &split) {
            (Some(name), _) => self.upstream_id(name),
            (None, Some(split)) => split.members.first().map(|(id, _)| *id).unwrap_or_default(),
            (None, None) => UpstreamId::default(),
        };
        let mut fallback = Vec::new();
        for name in &raw.fallback {
            let id = self.upstream_id(name);
            if raw.upstream.as_ref() == Some(name) || fallback.contains(&id) {
                let message = format!("`{}` is tried already; name another upstream", name.value);
                self.problem(name.origin, message);
            }
            fallback.push(id);
        }
        let (rewrite, host) = raw.rewrite.as_ref().map_or((Rewrite::None, None), |rewrite| self.rewrite(rewrite));
        Proxy {
            upstream,
            split,
            fallback,
            rewrite,
            host,
            timeouts: raw.timeouts.as_ref().map(|raw| overrides(raw)).unwrap_or_default(),
            upgrade: raw.upgrade.iter().map(|protocol| protocol.0.as_str().into()).collect(),
            forwards_trailers: raw.trailers.as_ref().is_some_and(|trailers| trailers.value == raw::Trailers::Forward),
        }
    }

    fn split(&mut self, raw: &Spanned<raw::Split>) -> Split {
        let mut members = Vec::new();
        for (name, weight) in raw.upstreams.iter() {
            if *weight > MAX_WEIGHT {
                self.problem(name.origin, format!("the weight of `{}` is above {MAX_WEIGHT}", name.value));
            }
            members.push((self.upstream_id(name), *weight));
        }
        if members.iter().all(|(_, weight)| *weight == 0) {
            self.problem(raw.origin, "a split needs an upstream with a weight above 0");
        }
        Split { members, by: raw.by.as_ref().map(|by| by.0.clone()) }
    }

    fn rewrite(&mut self, raw: &Spanned<raw::Rewrite>) -> (Rewrite, Option<Arc<str>>) {
        let host = raw.host.as_ref().map(|host| {
            // The port is that of the scheme which nobody writes.
            if let Err(message) = parse_authority(host, 80) {
                self.problem(host.origin, message);
            }
            host.as_str().into()
        });
        if raw.path.is_none() && raw.prefix.is_none() && host.is_none() {
            self.problem(raw.origin, "`rewrite` needs `path`, `prefix` or `host`");
        }
        let both = "`rewrite` replaces the whole `path` or its `prefix`, not both";
        let rewrite = self.new_path(raw.path.as_ref(), raw.prefix.as_ref(), both);
        (rewrite, host)
    }

    /// What a path becomes: all of it `path`, or its fixed part `prefix`; `both` says what is wrong with both.
    fn new_path(&mut self, path: Option<&Spanned<String>>, prefix: Option<&Spanned<String>>, both: &str) -> Rewrite {
        match (path, prefix) {
            (None, None) => Rewrite::None,
            (Some(path), None) => {
                self.check(path.origin, check_path(path));
                Rewrite::Path(path.as_str().into())
            }
            (None, Some(prefix)) => {
                self.check(prefix.origin, check_path(prefix));
                Rewrite::Prefix(prefix.strip_suffix('/').unwrap_or(prefix).into())
            }
            (Some(_), Some(prefix)) => {
                self.problem(prefix.origin, both);
                Rewrite::None
            }
        }
    }

    fn redirect(&mut self, raw: &Spanned<raw::Redirect>, matcher: &Matcher) -> Redirect {
        if !REDIRECT_STATUSES.contains(&raw.status) {
            let message = "a redirect has the status 301, 302, 303, 307 or 308";
            self.problem(raw.status.origin, message);
        }
        let parts = self.redirect_parts(raw, matcher);
        let status = raw.status.value;
        let Some(given) = &raw.to else {
            if parts.is_none() {
                self.problem(
                    raw.origin,
                    "`redirect` needs `to`, or one of `scheme`, `host`, `port`, `path` and `prefix`",
                );
            }
            return Redirect { to: "".into(), append_rest: false, status, parts };
        };
        if parts.is_some() {
            self.problem(given.origin, "a redirect goes `to` a place, or changes parts of the URL, not both");
        }
        let (to, append_rest) = match given.strip_suffix('*') {
            Some(to) => (to, true),
            None => (given.as_str(), false),
        };
        let wildcard = match &matcher.path {
            PathPattern::Prefix(_) => true,
            PathPattern::Template { wildcard, .. } => *wildcard,
            PathPattern::Exact(_) | PathPattern::Below(_) | PathPattern::Matches(_) => false,
        };
        if append_rest && !wildcard {
            let message = "`to` has a `*`, but the path of the route has none";
            self.problem(given.origin, message);
        }
        if append_rest && to.contains('?') {
            self.problem(given.origin, "the `*` of `to` is the end of its path; a query cannot stand before it");
        }
        if append_rest && !to.ends_with('/') {
            self.problem(given.origin, "`*` in `to` must follow a slash, as in `/new/*`");
        }
        self.check(given.origin, check_location(to));
        Redirect { to: to.into(), append_rest, status, parts: None }
    }

    /// What a redirect changes of the request's URL, if it says anything of that.
    fn redirect_parts(&mut self, raw: &Spanned<raw::Redirect>, matcher: &Matcher) -> Option<Arc<RedirectParts>> {
        if let Some(scheme) = raw.scheme.as_ref().filter(|scheme| !matches!(scheme.as_str(), "http" | "https")) {
            self.problem(scheme.origin, "a scheme is `http` or `https`");
        }
        if let Some(host) = &raw.host {
            match parse_authority(host, 0) {
                Ok((_, name)) if name == host.to_ascii_lowercase() && !name.contains(':') => {}
                Ok(_) => self.problem(host.origin, "`host` must not have a port; write the port in `port`"),
                Err(message) => self.problem(host.origin, message),
            }
        }
        if let (Some(prefix), PathPattern::Matches(_)) = (&raw.prefix, &matcher.path) {
            let message = "`prefix` replaces the fixed part of a path, and a regular expression has none";
            self.problem(prefix.origin, message);
        }
        let both = "a redirect replaces the whole `path` or its `prefix`, not both";
        let path = self.new_path(raw.path.as_ref(), raw.prefix.as_ref(), both);
        let (scheme, host) = (&raw.scheme, &raw.host);
        let says = scheme.is_some() || host.is_some() || raw.port.is_some() || path != Rewrite::None;
        let text = |at: &Spanned<String>| at.as_str().into();
        let parts =
            RedirectParts { scheme: scheme.as_ref().map(text), host: host.as_ref().map(text), port: raw.port, path };
        says.then(|| Arc::new(parts))
    }

    fn respond(&mut self, raw: &Spanned<raw::Respond>) -> Action {
        if let Some(builtin) = raw.builtin {
            if raw.status.is_some() || raw.content_type.is_some() || raw.body.is_some() {
                self.problem(raw.origin, "`builtin` takes no other key");
            }
            return Action::Builtin(match builtin {
                raw::Builtin::Healthz => Builtin::Healthz,
                raw::Builtin::Cachez => Builtin::Cachez,
            });
        }
        let status = raw.status.as_ref().map_or(200, |status| status.value);
        if let Some(at) = raw.status.as_ref().filter(|_| !(200..600).contains(&status)) {
            self.problem(at.origin, "a response has a status from 200 to 599");
        }
        let body = raw.body.as_ref().map_or("", |body| body.as_str());
        if let (Some(at), 204 | 205 | 304, false) = (&raw.body, status, body.is_empty()) {
            self.problem(at.origin, format!("a response with status {status} has no body"));
        }
        let content_type = raw.content_type.as_ref().map(|value| value.0.as_str());
        Action::Respond(Respond {
            status,
            content_type: match (body, content_type) {
                ("", _) => None,
                (_, given) => Some(given.unwrap_or(DEFAULT_CONTENT_TYPE).into()),
            },
            body: body.as_bytes().into(),
        })
    }

    /// The edits of a route. With `cors` the upstream's own fields give way to the gateway's: browsers refuse a response that has two.
    fn route_headers(&mut self, raw: &raw::Route) -> HeaderEdits {
        let mut edits = self.header_edits(&raw.headers);
        if raw.cors.as_option().is_some() {
            let response = &raw.headers.response;
            let written = response.set.iter().chain(response.add.iter());
            let twice = written.filter(|(name, _)| CORS_FIELDS.iter().any(|own| own.eq_ignore_ascii_case(name)));
            for (name, _) in twice.collect::<Vec<_>>() {
                let message = format!("`cors` writes `{}` too; remove one of the two", name.value);
                self.problem(name.origin, message);
            }
            edits.response.remove.extend(CORS_FIELDS.map(Into::into));
        }
        edits
    }

    fn cors(&mut self, raw: &Spanned<raw::Cors>, matcher: &Matcher) -> Cors {
        if raw.origins.is_empty() {
            self.problem(raw.origin, "`cors` needs `origins`; without one it allows nobody");
        }
        let any = raw.origins.iter().find(|origin| origin.value == "*");
        if let Some(any) = any {
            if raw.origins.len() > 1 {
                self.problem(any.origin, "`*` allows every origin; remove the others");
            }
            if raw.credentials {
                let message = "`credentials` needs origins by name: with `*` any page could act for the user";
                self.problem(any.origin, message);
            }
        }
        for origin in raw.origins.iter().filter(|origin| origin.value != "*") {
            self.check(origin.origin, check_origin(origin));
        }
        let methods: Vec<Arc<str>> = match raw.methods.as_slice() {
            [] if matcher.methods.is_empty() => ["GET", "HEAD", "POST"].map(Into::into).into(),
            [] => matcher.methods.clone(),
            methods => methods.iter().map(|method| method.0.as_str().into()).collect(),
        };
        Cors {
            origins: raw.origins.iter().map(|origin| origin.as_str().into()).collect(),
            methods,
            headers: raw.headers.iter().map(|name| name.0.to_ascii_lowercase().into()).collect(),
            max_age: raw.max_age.0,
            credentials: raw.credentials,
        }
    }

    /// Names for logs and metrics: as given, else the path, with whatever more it takes to tell two apart.
    fn route_names(&mut self, matchers: &[Matcher], routes: &[Planned<'_>]) -> Vec<Arc<str>> {
        let file = self.file;
        let mut taken: HashSet<Arc<str>> = HashSet::new();
        for name in file.routes.iter().filter_map(|route| route.name.as_ref()) {
            if !taken.insert(name.0.as_str().into()) {
                self.problem(name.origin, format!("another route is named `{}` too", name.value));
            }
        }
        let mut names = Vec::with_capacity(matchers.len());
        for (route, matcher) in routes.iter().zip(matchers) {
            if let Some(name) = &route.raw.name {
                names.push(name.0.as_str().into());
                continue;
            }
            if let Some(described) = route.described {
                let candidates = [described.id.to_string(), format!("{}.{}", described.api, described.id)];
                let numbered = (2..).map(|number| format!("{}.{} #{number}", described.api, described.id));
                let mut free = candidates.into_iter().chain(numbered).filter(|name| !taken.contains(name.as_str()));
                let name: Arc<str> = free.next().unwrap_or_default().into();
                taken.insert(name.clone());
                names.push(name);
                continue;
            }
            let path = matcher.path.to_string();
            let host = matcher.host.to_string();
            let methods = matcher.methods.join(",");
            let candidates = [path.clone(), format!("{methods} {path}"), format!("{methods} {host}{path}")];
            let numbered = (2..).map(|number| format!("{path} #{number}"));
            let free = candidates
                .into_iter()
                .map(|name| name.trim_start().to_owned())
                .chain(numbered)
                .find(|name| !taken.contains(name.as_str()));
            // The numbers do not end before one is free.
            let name: Arc<str> = free.unwrap_or(path).into();
            taken.insert(name.clone());
            names.push(name);
        }
        names
    }
}

fn wanted(raw: &raw::Condition) -> Condition {
    match raw {
        raw::Condition::Is(value) => Condition::Exact(value.0.as_str().into()),
        raw::Condition::Matches(pattern) => Condition::Matches(pattern.0.clone()),
        raw::Condition::Present(true) => Condition::Present,
        raw::Condition::Present(false) => Condition::Absent,
    }
}

fn overrides(raw: &raw::RouteTimeouts) -> TimeoutOverrides {
    let given = |value: &Option<OrNone<_>>| value.as_ref().map(time);
    TimeoutOverrides {
        connect: given(&raw.connect),
        per_try: given(&raw.per_try),
        first_byte: given(&raw.first_byte),
        idle: given(&raw.idle),
        total: given(&raw.total),
        tunnel_idle: given(&raw.tunnel_idle),
    }
}

/// A path or URL that may be in `Location`.
fn check_location(to: &str) -> Result<(), String> {
    let path = match to.strip_prefix("http://").or_else(|| to.strip_prefix("https://")) {
        Some(rest) => {
            let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            parse_authority(authority, 0)?;
            path
        }
        None if to.starts_with('/') => to,
        None => return Err("a redirect goes to a path, `/new`, or a URL, `https://...`".to_owned()),
    };
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    if !query.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Err("the query may hold printable ASCII only".to_owned());
    }
    if path.is_empty() { Ok(()) } else { check_path(path) }
}

/// An origin as browsers send it (RFC 6454 §6.1): scheme, host and port, in lower case.
fn check_origin(origin: &str) -> Result<(), String> {
    let wrong = || format!("`{origin}` is not an origin; write `https://app.example.com` or `*`");
    if origin == "null" {
        return Err("`null` is what every sandboxed page sends; it cannot be trusted".to_owned());
    }
    let (scheme, authority) = origin.split_once("://").ok_or_else(wrong)?;
    let scheme_ok = scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b));
    if !scheme_ok || origin.to_ascii_lowercase() != origin {
        return Err(wrong());
    }
    let default_port = if scheme == "https" { 443 } else { 80 };
    match parse_authority(authority, default_port) {
        Ok((_, normal)) if normal == authority => Ok(()),
        Ok((_, normal)) => Err(format!("browsers send this origin as `{scheme}://{normal}`")),
        Err(_) => Err(wrong()),
    }
}
