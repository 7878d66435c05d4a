//! Routes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::Condition;
use super::pattern::{Host, Path};
use super::shape::{Map, OrNone, Spanned};
use super::text::{FieldName, FieldValue, Method, Name, is_token, text_type};
use super::units::{Age, Size, Time};

/// What is matched, and what happens then: exactly one of `upstream`, `split`, `ai`, `redirect` and `respond`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a route: a mapping with `match`")]
pub struct Route {
    /// Name in logs and metrics; made from the path where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Spanned<Name>>,
    /// Which requests are meant.
    #[serde(rename = "match")]
    pub matcher: Match,
    /// What changes on the way to the upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<Spanned<Rewrite>>,
    /// Upstream that requests go to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<Spanned<String>>,
    /// Upstreams that share the requests by weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Spanned<super::Split>>,
    /// Upstreams to try, in order, when the one before has no usable target or failed in a way that may be retried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<Spanned<String>>,
    /// Serve AI models, whose providers say where requests go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ai: Option<Spanned<super::RouteAi>>,
    /// Send the client elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<Spanned<Redirect>>,
    /// Respond without an upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub respond: Option<Spanned<Respond>>,
    /// Authenticators, in place of those of `defaults`: any of the list, all of an inner list; `none` opens the route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Spanned<super::RouteAuth>>,
    /// Rules on who may send requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Spanned<super::Allow>>,
    /// Limits, in this order, in place of those of `defaults`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Vec<Spanned<String>>>,
    /// Cache, in place of that of `defaults`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Spanned<OrNone<Spanned<String>>>>,
    /// Compression of responses, in place of that of `defaults`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compress: Option<Spanned<OrNone<Spanned<super::Compress>>>>,
    /// Pages for errors, in place of those of `defaults`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Spanned<OrNone<super::ErrorPages>>>,
    /// Copies of requests to another upstream.
    #[serde(default, skip_serializing_if = "OrNone::is_none")]
    pub mirror: OrNone<Spanned<super::Mirror>>,
    /// A fault that is injected on purpose; needs `server.faults`.
    #[serde(default, skip_serializing_if = "OrNone::is_none")]
    pub fault: OrNone<Spanned<super::InjectedFault>>,
    /// Size of a request body, in place of `server.body`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<OrNone<Size>>,
    /// Deadlines, in place of those of the upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<Spanned<RouteTimeouts>>,
    /// Protocols that a client may upgrade to, such as `websocket`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub upgrade: Vec<Spanned<Protocol>>,
    /// What happens to trailers, in both directions. Those of gRPC are always forwarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trailers: Option<Spanned<Trailers>>,
    /// Header fields to set, add and remove.
    #[serde(default, skip_serializing_if = "HeaderEdits::is_empty")]
    pub headers: HeaderEdits,
    /// Which pages of other origins may use the route.
    #[serde(default, skip_serializing_if = "OrNone::is_none")]
    pub cors: OrNone<Spanned<Cors>>,
}

impl Route {
    /// A route that matches a path and does nothing yet.
    pub fn at(path: Path) -> Self {
        Route {
            name: None,
            matcher: Match {
                listener: None,
                host: None,
                path,
                methods: Vec::new(),
                headers: Map::default(),
                query: Map::default(),
            },
            rewrite: None,
            upstream: None,
            split: None,
            fallback: Vec::new(),
            ai: None,
            redirect: None,
            respond: None,
            auth: None,
            allow: None,
            limits: None,
            cache: None,
            compress: None,
            errors: None,
            mirror: OrNone::None,
            fault: OrNone::None,
            body: None,
            timeouts: None,
            upgrade: Vec::new(),
            trailers: None,
            headers: HeaderEdits::default(),
            cors: OrNone::None,
        }
    }
}

/// Which requests are meant; every part has to fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping with `path`")]
pub struct Match {
    /// Name of the listener that requests have to come by; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener: Option<Spanned<String>>,
    /// Host; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// Path.
    pub path: Path,
    /// Methods; absent: any. GET includes HEAD.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<Method>,
    /// Header fields that have to be there: with exactly this value, or as a mapping says.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub headers: Map<Condition>,
    /// Query parameters that have to be there, likewise.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub query: Map<Condition>,
}

/// What changes on the way to the upstream. The query stays.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping of `path` or `prefix`, and `host`")]
pub struct Rewrite {
    /// Replaces the whole path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Spanned<String>>,
    /// Replaces the fixed part that the pattern matched: what stands before its first parameter or `*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<Spanned<String>>,
    /// Replaces the `Host` that the upstream sees, which is otherwise the client's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Spanned<String>>,
}

/// A redirect: to a path or URL (`to`), or to the URL of the request with other parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping with `to`, or with parts of the URL")]
pub struct Redirect {
    /// Path or URL; a `*` at its end stands for what the pattern's `*` matched. The query is kept unless this has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Spanned<String>>,
    /// Another scheme: `http` or `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Spanned<String>>,
    /// Another host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Spanned<String>>,
    /// Another port; absent: that of `scheme` where it is given, else that of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Another path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Spanned<String>>,
    /// Replaces the fixed part that the pattern matched: what stands before its first parameter or `*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<Spanned<String>>,
    /// 301, 302, 303, 307 or 308. 307 and 308 keep method and body; browsers may cache 301 and 308.
    #[serde(default = "permanent")]
    pub status: Spanned<u16>,
}

fn permanent() -> Spanned<u16> {
    308.into()
}

/// A response without an upstream: fixed, or one of the gateway's own.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping with `status`, `body` or `builtin`")]
pub struct Respond {
    /// Status, 200 if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Spanned<u16>>,
    /// Media type of the body, `text/plain; charset=utf-8` if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<Spanned<FieldValue>>,
    /// Body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Spanned<String>>,
    /// What the gateway knows: the health of its targets, or the counts of its caches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub builtin: Option<Builtin>,
}

/// A response from the gateway's own state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Builtin {
    /// Health of the gateway and its targets.
    Healthz,
    /// Counts of the caches.
    Cachez,
}

/// Deadlines of a route; what is absent is as the upstream says.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping of deadlines")]
pub struct RouteTimeouts {
    /// To establish a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect: Option<OrNone<Time>>,
    /// Of one attempt, to the first byte of its reply; a retry may follow.
    #[serde(rename = "try", skip_serializing_if = "Option::is_none")]
    pub per_try: Option<OrNone<Time>>,
    /// From the end of the request head to the first byte of the reply; then 504.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<OrNone<Time>>,
    /// Between two pieces of the reply's body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<OrNone<Time>>,
    /// Of the whole exchange, body included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<OrNone<Time>>,
    /// Of a tunnel (WebSocket) in which nothing moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tunnel_idle: Option<OrNone<Time>>,
}

/// A protocol to upgrade to (RFC 9110 §7.8), in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protocol(pub String);

text_type!(
    Protocol,
    "Protocol",
    r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+(/[!#$%&'*+.^_`|~0-9A-Za-z-]+)?$",
    "a protocol to upgrade to, such as `websocket`"
);

impl FromStr for Protocol {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        let valid = lower.splitn(2, '/').all(is_token);
        match lower.split('/').next() {
            // What comes after such an upgrade would pass unseen: no route, no limit, no log.
            Some("h2c" | "h2" | "http" | "tls") => {
                Err(format!("`{text}` is refused: requests inside the tunnel would avoid every rule"))
            }
            _ if valid => Ok(Protocol(lower)),
            _ => Err(format!("`{text}` is not the name of a protocol")),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What happens to trailers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trailers {
    /// They are dropped.
    #[default]
    Drop,
    /// They are forwarded, but for fields that have no place in a trailer section.
    Forward,
}

/// Header fields to change, on the way to the upstream and on the way back.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping of `request` and `response`")]
pub struct HeaderEdits {
    /// On the request that goes to the upstream.
    pub request: Edits,
    /// On the response that goes to the client.
    pub response: Edits,
}

impl HeaderEdits {
    pub(super) fn is_empty(&self) -> bool {
        *self == HeaderEdits::default()
    }
}

/// Changes of one head: removals first, then `set`, then `add`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping of `set`, `add` and `remove`")]
pub struct Edits {
    /// Fields that are there once, with this value.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub set: Map<FieldValue>,
    /// Fields that are added to what is there.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub add: Map<FieldValue>,
    /// Fields that are dropped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<Spanned<FieldName>>,
}

/// Which pages of other origins may use a route (CORS, Fetch standard).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping with `origins`, or `none`")]
pub struct Cors {
    /// Origins such as `https://app.example.com`; `*` alone allows any.
    pub origins: Vec<Spanned<String>>,
    /// Methods that a page may use; none named: those of the route.
    pub methods: Vec<Method>,
    /// Request fields that a page may set.
    pub headers: Vec<FieldName>,
    /// How long a browser may cache the permission.
    pub max_age: Age,
    /// Whether cookies and authorisation may be sent.
    pub credentials: bool,
}

impl Default for Cors {
    fn default() -> Self {
        Cors {
            origins: Vec::new(),
            methods: Vec::new(),
            headers: Vec::new(),
            max_age: Age(Duration::from_secs(600)),
            credentials: false,
        }
    }
}
