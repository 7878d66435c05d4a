//! Routes: what they match and what happens then.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{
    BudgetId, CacheId, Compression, Condition, ErrorPages, InjectedFault, LimitId, Mirror, Pattern, RouteAi,
    RouteAllow, RouteAuth, Split, Template, UpstreamId,
};

/// Most methods that the routes of a configuration may name: bits of a set whose last bit stands for all others.
pub const MAX_METHODS: usize = 63;

/// One route: what it matches and what happens then.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Name in the file, or made from the path; used in logs and metrics.
    pub name: Arc<str>,
    /// What it matches.
    pub matcher: Matcher,
    /// What happens.
    pub action: Action,
    /// Who may send requests: what they have to show.
    pub auth: RouteAuth,
    /// Who may send requests: rules on that.
    pub allow: RouteAllow,
    /// Limits, in the order of the file.
    pub limits: Vec<LimitId>,
    /// Limits of tokens and money, in the order of the file; only where the route serves AI models.
    pub budgets: Vec<BudgetId>,
    /// Cache.
    pub cache: Option<CacheId>,
    /// How responses are compressed.
    pub compress: Option<Arc<Compression>>,
    /// Pages for errors.
    pub errors: Option<Arc<ErrorPages>>,
    /// Copies of requests.
    pub mirror: Option<Arc<Mirror>>,
    /// A fault that is injected.
    pub fault: Option<InjectedFault>,
    /// Bytes of a request body (413 above).
    pub body_bytes: Option<u64>,
    /// Edits of both heads.
    pub headers: HeaderEdits,
    /// Cross-origin rules.
    pub cors: Option<Cors>,
    /// Name of the API whose description made it.
    pub api: Option<Arc<str>>,
    /// What a description demands of requests.
    pub contract: Option<RouteContract>,
}

/// What a description demands of the requests of a route.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteContract {
    /// Name of the API.
    pub api: Arc<str>,
    /// `operationId`.
    pub operation: Arc<str>,
    /// The rules.
    pub contract: Arc<openapi::Contract>,
    /// Requests that break them are refused; else they pass, are logged and counted.
    pub enforces: bool,
}

/// What a route matches; every part must.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matcher {
    /// Name of the listener that requests have to come by; `None`: any.
    pub listener: Option<Arc<str>>,
    /// Host, lower case, without port.
    pub host: HostPattern,
    /// Normalised path.
    pub path: PathPattern,
    /// Methods; empty: any. A route for GET also names HEAD, unless another route of the same host, path and header matches does.
    pub methods: Vec<Arc<str>>,
    /// What it wants of fields; names in lower case.
    pub headers: Vec<(Arc<str>, Condition)>,
    /// What it wants of query parameters.
    pub query: Vec<(Arc<str>, Condition)>,
}

/// Host part of a match.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// Any host.
    Any,
    /// Exactly this.
    Exact(Arc<str>),
    /// `*.example.com`: holds `example.com`; one or more labels in front of it must be there.
    Suffix(Arc<str>),
}

/// Path part of a match.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PathPattern {
    /// `/a`.
    Exact(Arc<str>),
    /// `/a/{id}`, with at least one parameter; may end in `*`.
    Template {
        /// Segments between slashes, without the first empty one.
        segments: Vec<Segment>,
        /// Ends in `/*`.
        wildcard: bool,
    },
    /// `/a/*`: holds `/a/`; matches that and everything below it.
    Prefix(Arc<str>),
    /// `/a/**`: holds `/a`; matches that and everything below `/a/`. Empty for `/**`.
    Below(Arc<str>),
    /// `~/v[0-9]+/.*`: the whole path matches.
    Matches(Pattern),
}

/// One segment of a path template.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Segment {
    /// Literal text.
    Literal(Arc<str>),
    /// `{name}`: any one non-empty segment.
    Param(Arc<str>),
}

impl fmt::Display for HostPattern {
    /// As it is written in a file; nothing for any host.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Any => Ok(()),
            HostPattern::Exact(host) => f.write_str(host),
            HostPattern::Suffix(suffix) => write!(f, "*.{suffix}"),
        }
    }
}

impl fmt::Display for PathPattern {
    /// As it is written in a file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathPattern::Exact(path) => f.write_str(path),
            PathPattern::Template { segments, wildcard } => {
                for segment in segments {
                    match segment {
                        Segment::Literal(text) => write!(f, "/{text}")?,
                        Segment::Param(name) => write!(f, "/{{{name}}}")?,
                    }
                }
                f.write_str(if *wildcard { "/*" } else { "" })
            }
            PathPattern::Prefix(prefix) => write!(f, "{prefix}*"),
            PathPattern::Below(path) => write!(f, "{path}/**"),
            PathPattern::Matches(pattern) => write!(f, "~{}", pattern.text()),
        }
    }
}

/// What a route does.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Forward to an upstream.
    Proxy(Proxy),
    /// Serve AI models.
    Ai(RouteAi),
    /// Respond with a redirect.
    Redirect(Redirect),
    /// Respond with fixed content.
    Respond(Respond),
    /// Respond with something that the gateway knows.
    Builtin(Builtin),
}

/// Forwarding.
#[derive(Debug, Clone, PartialEq)]
pub struct Proxy {
    /// First choice; with a split its first member.
    pub upstream: UpstreamId,
    /// Upstreams that share the requests, each the first choice for some of them.
    pub split: Option<Split>,
    /// Further choices, in order, when the one before has no usable target or a retryable failure is left.
    pub fallback: Vec<UpstreamId>,
    /// Change of path.
    pub rewrite: Rewrite,
    /// Replaces the `Host` that the upstream sees.
    pub host: Option<Arc<str>>,
    /// The route's own deadlines over each upstream's: `None` leaves the upstream's, `Some(None)` switches one off.
    pub timeouts: TimeoutOverrides,
    /// Protocols that may be upgraded to, lower case.
    pub upgrade: Vec<Arc<str>>,
    /// Whether trailers are forwarded where it is not gRPC, whose always are.
    pub forwards_trailers: bool,
}

impl Action {
    /// Whether a client may upgrade to this protocol.
    pub fn allows_upgrade(&self, protocol: &[u8]) -> bool {
        matches!(self, Action::Proxy(proxy) if proxy.upgrade_to(protocol).is_some())
    }
}

impl Proxy {
    /// The position in `upgrade` of a protocol that a client names, if it may upgrade to that.
    pub fn upgrade_to(&self, protocol: &[u8]) -> Option<usize> {
        self.upgrade.iter().position(|allowed| protocol.eq_ignore_ascii_case(allowed.as_bytes()))
    }

    /// The upstreams that are the first choice for some requests.
    pub fn first_choices(&self) -> impl Iterator<Item = UpstreamId> {
        let members = self.split.iter().flat_map(|split| &split.members).map(|(id, _)| *id);
        let alone = self.split.is_none().then_some(self.upstream);
        members.chain(alone)
    }
}

/// Deadlines of a route over those of its upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeoutOverrides {
    /// See [`Timeouts::connect`].
    pub connect: Option<Option<Duration>>,
    /// See [`Timeouts::per_try`].
    pub per_try: Option<Option<Duration>>,
    /// See [`Timeouts::first_byte`].
    pub first_byte: Option<Option<Duration>>,
    /// See [`Timeouts::idle`].
    pub idle: Option<Option<Duration>>,
    /// See [`Timeouts::total`].
    pub total: Option<Option<Duration>>,
    /// See [`Timeouts::tunnel_idle`].
    pub tunnel_idle: Option<Option<Duration>>,
}

/// Change of the forwarded path; the query stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rewrite {
    /// Forward as it came.
    None,
    /// Replace the whole path.
    Path(Arc<str>),
    /// Replace the fixed part that the pattern matched: what stands before its first parameter or wildcard. Without a trailing slash,
    /// as that part is: `/v2` turns `/a/x` of `/a/*` into `/v2/x`; `/` is held as the empty text.
    Prefix(Arc<str>),
}

/// A redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// Path or URL. The query of the request follows, unless this holds one of its own.
    pub to: Arc<str>,
    /// What the pattern's wildcard matched is put behind `to`.
    pub append_rest: bool,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// Parts of the request's own URL that change, in place of `to`.
    pub parts: Option<Arc<RedirectParts>>,
}

/// Parts of a request's URL that a redirect changes; the query stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectParts {
    /// `http` or `https`; `None`: that of the connection.
    pub scheme: Option<Arc<str>>,
    /// Host; `None`: that of the request.
    pub host: Option<Arc<str>>,
    /// Port; `None`: that of the scheme where one is given, else that of the request.
    pub port: Option<u16>,
    /// Change of path.
    pub path: Rewrite,
}

/// A fixed response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Respond {
    /// Status.
    pub status: u16,
    /// Media type; absent when the body is empty.
    pub content_type: Option<Arc<str>>,
    /// Body.
    pub body: Arc<[u8]>,
}

/// Responses that come from the gateway's own state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Builtin {
    /// Health of the gateway and its targets.
    Healthz,
    /// Counts of the cache.
    Cachez,
}

/// Header edits of a route.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeaderEdits {
    /// On the request, before it goes to the upstream.
    pub request: Edits,
    /// On the response, before it goes to the client.
    pub response: Edits,
}

/// Edits of one head: removals first, then `set`, then `add`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edits {
    /// Replace every field of the name.
    pub set: Vec<(Arc<str>, Arc<str>)>,
    /// Add a field beside what is there.
    pub add: Vec<(Arc<str>, Arc<str>)>,
    /// Drop every field of the name; lower case.
    pub remove: Vec<Arc<str>>,
    /// Fields whose values have variables; the names of those that replace are in `remove`.
    pub templates: Vec<Template>,
}

impl Edits {
    /// Whether nothing is changed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.add.is_empty() && self.remove.is_empty() && self.templates.is_empty()
    }
}

/// Cross-origin rules (Fetch standard).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// Allowed origins; `*` alone allows any.
    pub origins: Vec<Arc<str>>,
    /// Allowed methods of a preflight.
    pub methods: Vec<Arc<str>>,
    /// Allowed request fields of a preflight; lower case.
    pub headers: Vec<Arc<str>>,
    /// How long a preflight may be kept.
    pub max_age: Duration,
    /// Whether credentials may be sent.
    pub credentials: bool,
}
