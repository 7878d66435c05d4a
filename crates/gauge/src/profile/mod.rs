//! Profiles: what gateways do beyond passing requests on, and what the load does then.
//!
//! A [`Profile`] is read from an evaluation. Each adapter turns it into configuration ([`crate::gateway::Gateway::profile`]) or says why its gateway
//! cannot do it; [`Profile::amend`] gives the load what the profile needs; [`check`] holds each gateway against the profile before any load.

mod check;
mod clients;
pub(crate) mod file;
mod grpc;
mod life;
pub mod secure;
pub mod token;
mod websocket;

use serde::Deserialize;

use crate::load::workload::{Operation, Pick, Protocol, Source, Statuses};
use crate::results::Treatment;
pub(crate) use check::{Probe, check};
pub use clients::Clients;
pub use grpc::Grpc;
pub(crate) use life::Scenario;
pub use life::{Event, Life};
pub use secure::Tls;
pub use token::Jwt;
pub use websocket::WebSocket;

/// What gateways do beyond passing requests on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Profile {
    /// Nothing.
    #[default]
    PassThrough,
    /// Only known API keys pass.
    KeyAuth(KeyAuth),
    /// Fields are set and removed both ways, and a prefix of the path is taken off.
    Headers(Headers),
    /// Each client has a rate.
    RateLimit(RateLimit),
    /// Responses are stored as RFC 9111 says.
    Cache,
    /// Only requests with a valid JSON Web Token pass.
    Jwt(Jwt),
    /// Event streams pass event by event.
    Streams,
    /// Bodies of many megabytes pass both ways.
    LargeBodies,
    /// Clients speak HTTP/2 without TLS, with prior knowledge.
    Http2(Http2),
    /// Clients use TLS.
    Tls(Tls),
    /// Clients call methods of gRPC.
    Grpc(Grpc),
    /// Clients send messages over WebSocket.
    WebSocket(WebSocket),
    /// Nothing more is done: gateways and their upstream are reloaded, killed and slowed.
    Life(Life),
}

/// The parameter in which operations carry what tells one client from another.
const CLIENT: &str = "gauge_client";
/// Where a client shows its key.
const KEY_HEADER: &str = "X-API-Key";
/// Most keys or tokens.
const MOST: u32 = 100_000;

/// The field that tells the upstream who sent a request: Kong's name for it, which cannot be changed there.
pub const CONSUMER: &str = "X-Consumer-Username";

/// `key-auth`: a request needs a known API key; the upstream sees whose it is, and not the key.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KeyAuth {
    /// The field that carries the key.
    pub header: String,
    /// Number of keys, each of another consumer.
    pub keys: u32,
}

impl Default for KeyAuth {
    fn default() -> Self {
        KeyAuth { header: KEY_HEADER.to_owned(), keys: 100 }
    }
}

/// A key. The same ones in every campaign, so that configurations can be compared.
fn key(n: u32) -> String {
    format!("gauge-profile-key-{n:06}")
}

impl KeyAuth {
    /// Each key with its consumer.
    pub fn credentials(&self) -> impl Iterator<Item = (String, String)> {
        (1..=self.keys).map(|n| (key(n), format!("consumer-{n}")))
    }
}

/// `headers`: clients call the API below a prefix that the upstream does not see; a request field is set and one removed, and so is a response field.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Headers {
    /// `/gateway`: one segment.
    pub prefix: String,
}

/// What a field is set to by gateways.
pub const SET: &str = "by-the-gateway";
/// The request field that is set, whatever the client wrote there.
pub const REQUEST_SET: &str = "X-Gauge-Request";
/// The request field that is removed.
pub const REQUEST_REMOVED: &str = "X-Gauge-Remove";
/// The response field that is set, whatever the upstream wrote there.
pub const RESPONSE_SET: &str = "X-Gauge-Response";
/// The response field that is removed.
pub const RESPONSE_REMOVED: &str = "X-Gauge-Internal";

impl Default for Headers {
    fn default() -> Self {
        Headers { prefix: "/gateway".to_owned() }
    }
}

/// `rate-limit`: each client may send so many requests a second, and so many at once; others are refused with 429.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RateLimit {
    /// The field that tells clients apart.
    pub header: String,
    /// Number of clients of the load.
    pub keys: u32,
    /// Requests per second of each client.
    pub rate: u32,
    /// Requests that a client may send at once.
    pub burst: u32,
}

impl Default for RateLimit {
    fn default() -> Self {
        RateLimit { header: KEY_HEADER.to_owned(), keys: 10, rate: 50, burst: 50 }
    }
}

/// `http2`: clients speak HTTP/2 in clear text, with prior knowledge (RFC 9113, section 3.3); requests share connections.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http2 {
    /// Requests at once on a connection.
    pub streams: u32,
}

impl Default for Http2 {
    fn default() -> Self {
        Http2 { streams: 16 }
    }
}

impl Profile {
    /// How clients reach gateways.
    #[must_use]
    pub fn clients(&self) -> Clients {
        match self {
            Profile::Http2(http2) => {
                Clients { protocol: Protocol::Http2 { streams: http2.streams }, ..Clients::default() }
            }
            Profile::Tls(tls) => tls.clients(),
            Profile::Grpc(grpc) => grpc.clients(),
            Profile::WebSocket(websocket) => websocket.clients(),
            _ => Clients::default(),
        }
    }

    /// What upstreams are reached in, by gateways and by the baseline.
    pub(crate) fn upstreams(&self) -> Protocol {
        if let Profile::Grpc(grpc) = self { grpc.protocol() } else { Protocol::Http1 }
    }

    /// How the baseline reaches upstreams.
    pub(crate) fn baseline(&self) -> Clients {
        match self {
            Profile::WebSocket(websocket) => websocket.baseline(),
            _ => Clients { protocol: self.upstreams(), ..Clients::default() },
        }
    }

    /// Its name in evaluations and reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Profile::PassThrough => "pass-through",
            Profile::KeyAuth(_) => "key-auth",
            Profile::Headers(_) => "headers",
            Profile::RateLimit(_) => "rate-limit",
            Profile::Cache => "cache",
            Profile::Jwt(_) => "jwt",
            Profile::Streams => "streams",
            Profile::LargeBodies => "large-bodies",
            Profile::Http2(_) => "http2",
            Profile::Tls(_) => "tls",
            Profile::Grpc(_) => "grpc",
            Profile::WebSocket(_) => "websocket",
            Profile::Life(_) => "life",
        }
    }

    /// One of each with its defaults, in the order of the documents.
    #[must_use]
    pub fn all() -> Vec<Profile> {
        vec![
            Profile::PassThrough,
            Profile::KeyAuth(KeyAuth::default()),
            Profile::Headers(Headers::default()),
            Profile::RateLimit(RateLimit::default()),
            Profile::Cache,
            Profile::Jwt(Jwt::default()),
            Profile::Streams,
            Profile::LargeBodies,
            Profile::Http2(Http2::default()),
            Profile::Tls(Tls::default()),
            Profile::Grpc(Grpc::default()),
            Profile::WebSocket(WebSocket::default()),
            Profile::Life(Life::default()),
        ]
    }

    /// The profile of a name, with its defaults.
    ///
    /// # Errors
    /// In words, when there is none.
    pub fn named(name: &str) -> Result<Profile, String> {
        let all = Profile::all();
        let known: Vec<&str> = all.iter().map(Profile::name).collect();
        let wrong = || format!("unknown profile `{name}`; expected one of {}", known.join(", "));
        all.iter().find(|profile| profile.name() == name).cloned().ok_or_else(wrong)
    }

    /// Whether gateways are held against it by [`check`].
    pub(crate) fn is_checked(&self) -> bool {
        !matches!(self, Profile::PassThrough | Profile::Life(_))
    }

    /// What clients put before every path of the description; empty but for `headers`.
    #[must_use]
    pub fn prefix(&self) -> &str {
        if let Profile::Headers(headers) = self { &headers.prefix } else { "" }
    }

    /// Requests per second that pass of a load of these operations; none where not all of them are of the same clients.
    pub(crate) fn allowed_rate<'o>(&self, operations: impl Iterator<Item = &'o Operation>) -> Option<f64> {
        let Profile::RateLimit(limit) = self else { return None };
        let clients = |operation: &Operation| {
            let own = operation.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(&limit.header))?.1;
            match own.contains('{') {
                false => Some(1),
                true => operation.params.contains_key(CLIENT).then_some(limit.keys),
            }
        };
        let all: Option<std::collections::BTreeSet<u32>> = operations.map(clients).collect();
        let all = all.filter(|all| all.len() == 1)?;
        Some(f64::from(limit.rate) * f64::from(*all.first()?))
    }

    /// What must be seen in the responses of every gateway under load.
    pub(crate) fn treatment(&self) -> Option<Treatment> {
        let text = |text: &str| Some(text.to_owned());
        (*self == Profile::Cache).then(|| Treatment {
            name: "cache on".to_owned(),
            header: text("x-cache"),
            value: text("HIT"),
            at_least: Some(0.9),
            at_most: None,
        })
    }

    /// What is wrong with its numbers and names, in words.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let word =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let mut number = |key: &str, value: u32| {
            if !(1..=MOST).contains(&value) {
                problems.push(format!("`{key}: {value}`; expected 1 to {MOST}"));
            }
        };
        let mut header = None;
        match self {
            Profile::KeyAuth(auth) => {
                number("keys", auth.keys);
                header = Some(&auth.header);
            }
            Profile::RateLimit(limit) => {
                for (key, value) in [("keys", limit.keys), ("rate", limit.rate), ("burst", limit.burst)] {
                    number(key, value);
                }
                header = Some(&limit.header);
            }
            Profile::Jwt(jwt) => number("tokens", jwt.tokens),
            Profile::Http2(http2) => number("streams", http2.streams),
            Profile::Tls(tls) => {
                number("streams", tls.streams);
                problems.extend(tls.problem().map(str::to_owned));
            }
            Profile::Grpc(grpc) => {
                number("streams", grpc.streams);
                problems.extend(grpc.problem().map(str::to_owned));
            }
            Profile::WebSocket(websocket) => {
                problems.extend(websocket.problem());
            }
            Profile::Life(life) => {
                number("rate", life.rate);
                number("slow_clients", life.slow_clients as u32);
                life.routes.iter().for_each(|routes| number("routes", *routes));
            }
            Profile::Headers(headers) if !headers.prefix.strip_prefix('/').is_some_and(word) => {
                let prefix = &headers.prefix;
                problems
                    .push(format!("`prefix: {prefix}`; expected one segment of letters, digits and dashes: /gateway"));
            }
            Profile::Headers(_) | Profile::PassThrough | Profile::Cache | Profile::Streams | Profile::LargeBodies => {}
        }
        if let Some(name) = header.filter(|name| !word(name)) {
            problems.push(format!("`header: {name}` is not a header name of letters, digits and dashes"));
        }
        problems
    }

    /// Gives an operation of the load what the profile needs, unless the evaluation says it itself: credentials of clients, chosen at random.
    pub fn amend(&self, operation: &mut Operation) {
        match self {
            Profile::KeyAuth(auth) => carry(operation, &auth.header, "", (1..=auth.keys).map(key).collect()),
            Profile::RateLimit(limit) => {
                carry(operation, &limit.header, "", (1..=limit.keys).map(key).collect());
                if operation.expect.is_empty() {
                    operation.expect = vec![Statuses::Class(2), Statuses::Class(3)];
                }
                operation.expect.push(Statuses::One(429));
            }
            Profile::Jwt(jwt) => carry(operation, "Authorization", "Bearer ", jwt.all()),
            Profile::Grpc(grpc) => grpc.call(operation),
            _ => {}
        }
    }
}

/// Adds a field whose value is one of these, chosen at random for each request.
fn carry(operation: &mut Operation, header: &str, before: &str, values: Vec<String>) {
    if !operation.headers.keys().any(|own| own.eq_ignore_ascii_case(header)) {
        operation.headers.insert(header.to_owned(), format!("{before}{{{CLIENT}}}"));
        operation.params.insert(CLIENT.to_owned(), Source::List { values, pick: Pick::Random });
    }
}

#[cfg(test)]
mod tests;
