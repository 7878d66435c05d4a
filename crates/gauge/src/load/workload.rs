//! What the generator is to do: operations, the values in them, and the load. As it is written in an evaluation file;
//! [`super::prepare`] turns it into what the engines run.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::{self, MapAccess, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::chat::Chat;
use super::units;

/// A workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Where requests go, unless an operation says otherwise: `http://host:port` or `https://host:port`, with a path in front of all others if need be.
    pub base: String,
    /// The operations of the load; empty with `llm`.
    #[serde(default)]
    pub operations: Vec<Operation>,
    /// What every user does once, one after the other, before the load begins (a login). Recorded apart, as the phase `setup`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<Operation>,
    /// How the next operation is chosen.
    #[serde(default)]
    pub order: Order,
    /// How much load.
    pub load: Load,
    /// HTTP version.
    #[serde(default)]
    pub protocol: Protocol,
    /// How long a request may take from its send to its last byte, connecting included (default 30 s). Also how long an open loop
    /// keeps a request that finds no free connection before it drops it.
    #[serde(default = "default_timeout", with = "units::serde_duration")]
    pub timeout: Duration,
    /// Seed of everything random; the same seed makes the same requests (per number of threads).
    #[serde(default)]
    pub seed: u64,
    /// Responses that are counted separately, such as cache hits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Mark>,
    /// Responses are event streams: when the first byte came and how events arrived is recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub event_streams: bool,
    /// Chat calls in place of operations; what they say of themselves (time to the first token, end) is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm: Option<Chat>,
    /// TLS of `https` URLs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Each request goes over a connection of its own (HTTP/1.1), which is closed after the response: load of connections and handshakes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub new_connections: bool,
    /// Operations are upgrades to WebSocket, and what is sent, timed and counted are messages that the server sends back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub websocket: Option<WebSocket>,
    /// Which part of the load one of several generators sends; the closed loads are those of all of them.
    #[serde(default, skip_serializing_if = "Share::is_all")]
    pub share: Share,
}

/// One of several generators. Users of closed loads are numbered over all of them, so that together they are those of a single one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// From 0 on.
    pub index: u32,
    /// How many generators.
    pub of: u32,
}

impl Default for Share {
    fn default() -> Self {
        Share { index: 0, of: 1 }
    }
}

impl Share {
    fn is_all(&self) -> bool {
        self.of <= 1
    }

    /// How many of so many users are its own.
    pub(crate) fn users(self, total: u32) -> u32 {
        let (of, index) = (self.of.max(1), self.index);
        total / of + u32::from(index < total % of)
    }

    /// The number, over all generators, of one of its users.
    pub(crate) fn user(self, own: u32) -> u32 {
        own.saturating_mul(self.of.max(1)).saturating_add(self.index)
    }
}

impl Workload {
    /// One request.
    pub(crate) fn single(operation: Operation, protocol: Protocol, timeout: Duration) -> Self {
        Workload {
            base: operation.base.clone().unwrap_or_default(),
            operations: vec![operation],
            setup: Vec::new(),
            order: Order::Sequence,
            load: Load::Closed(Closed { users: Span::Constant(1), iterations: Some(1), duration: None, think: None }),
            protocol,
            timeout,
            seed: 1,
            mark: None,
            event_streams: false,
            llm: None,
            tls: None,
            new_connections: false,
            websocket: None,
            share: Share::default(),
        }
    }
}

impl Workload {
    /// Takes relative paths of files to be in a folder.
    pub fn files_from(&mut self, folder: &Path) {
        self.each_file(|file| *file = folder.join(&*file));
    }

    /// Everything that is a path of a file.
    pub fn each_file(&mut self, mut place: impl FnMut(&mut PathBuf)) {
        for operation in self.operations.iter_mut().chain(&mut self.setup) {
            if let Some(Body::File(file) | Body::Lines(file)) = &mut operation.body {
                place(file);
            }
            operation.grpc.iter_mut().filter_map(|grpc| grpc.proto.as_mut()).for_each(&mut place);
            for source in operation.params.values_mut() {
                if let Source::Csv { file, .. } = source {
                    place(file);
                }
            }
        }
        if let Some(tls) = &mut self.tls {
            [&mut tls.ca, &mut tls.cert, &mut tls.key].into_iter().flatten().for_each(&mut place);
        }
    }
}

/// How a response that is counted separately is recognized.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// Name of a header field.
    pub header: String,
    /// The value that it begins with, in any case; without it the field need only be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

impl Mark {
    /// Whether a field's value, if there is such a field, is what is looked for.
    pub fn is_in(&self, found: Option<&[u8]>) -> bool {
        match (found, &self.value) {
            (Some(found), Some(value)) => {
                found.get(..value.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(value.as_bytes()))
            }
            (found, None) => found.is_some(),
            (None, Some(_)) => false,
        }
    }
}

/// 30 s.
pub fn default_timeout() -> Duration {
    Duration::from_secs(30)
}

/// How the next operation is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// At random, by weight.
    #[default]
    Weighted,
    /// One after the other, as they are listed; each user for itself in a closed loop, all together in an open one.
    Sequence,
}

/// HTTP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Protocol {
    /// HTTP/1.1, one request at a time on a connection, connections kept alive.
    #[default]
    #[serde(rename = "http1")]
    Http1,
    /// HTTP/2: with prior knowledge without TLS, by ALPN with TLS (RFC 9113 section 3). A user is a stream.
    #[serde(rename = "http2")]
    Http2 {
        /// Streams that share a connection.
        streams: u32,
    },
}

/// One kind of request.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// Its name in reports.
    pub id: String,
    /// Share among the operations, when they are chosen by weight (default 1).
    #[serde(default = "one")]
    pub weight: f64,
    /// Method (default GET).
    #[serde(default = "get")]
    pub method: String,
    /// Path and query with `{name}` where a value goes; values are percent-encoded.
    #[serde(default)]
    pub path: String,
    /// A call of gRPC instead of method and path; the body is its message as JSON, and the protocol is `http2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc: Option<Grpc>,
    /// `http://host:port` or `https://host:port` where this operation goes instead of the workload's base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Header fields; `{name}` in a value is replaced.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    /// Where the values of `{name}` come from.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, Source>,
    /// Statuses that are no error: numbers and classes such as `2xx` (default 2xx and 3xx).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<Statuses>,
    /// What to keep of a response for later requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capture: Vec<Capture>,
}

fn one() -> f64 {
    1.0
}

fn get() -> String {
    "GET".to_owned()
}

impl Operation {
    /// A plain GET.
    pub fn get(id: &str, path: &str) -> Self {
        Operation { id: id.to_owned(), weight: 1.0, method: get(), path: path.to_owned(), ..Operation::default() }
    }
}

/// A method of gRPC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grpc {
    /// The file that describes it; what it imports is found from its folder. Without it the server's reflection does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proto: Option<PathBuf>,
    /// `package.Service/Method`.
    pub method: String,
    /// Messages that a call sends, where the method takes a stream (default 1). Where it also returns one, each waits for a message of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<u32>,
    /// Where the method returns a stream: a call with fewer messages is an error (default 0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub responses: Option<u32>,
}

impl Grpc {
    /// A method that the server's reflection describes.
    pub fn of(method: String) -> Self {
        Grpc { proto: None, method, messages: None, responses: None }
    }
}

/// A request's body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// Text in which `{name}` is replaced where a param has that name; in a JSON body values are escaped as JSON strings are.
    Text(String),
    /// A file, sent as it is. It is read once and never copied per request.
    File(PathBuf),
    /// Bytes in base64, sent as they are.
    Base64(String),
    /// The lines of a file, a body each, one after the other over the whole run; then from the beginning.
    Lines(PathBuf),
}

/// Where a value comes from. In a file: a plain value, or one of `{int: [1, 400]}`, `{list: [a, b]}`,
/// `{csv: users.csv, column: name}`, `{counter: 1}`, `{captured: token, else: x}`; `order: sequence` walks through a range, list or
/// CSV file instead of choosing at random.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Always the same.
    Fixed(String),
    /// An integer from a range, both ends included.
    Int {
        /// Smallest.
        from: i64,
        /// Largest.
        to: i64,
        /// How the next is chosen.
        pick: Pick,
    },
    /// One of these.
    List {
        /// What there is.
        values: Vec<String>,
        /// How the next is chosen.
        pick: Pick,
    },
    /// A column of a CSV file whose first line names the columns. All columns of one file in one request come from one line.
    Csv {
        /// The file.
        file: PathBuf,
        /// Name of the column.
        column: String,
        /// How the next line is chosen.
        pick: Pick,
    },
    /// A number that is never used twice in a run: from this one on.
    Counter(i64),
    /// What a [`Capture`] of this name kept.
    Captured {
        /// Its name.
        name: String,
        /// What to use until there is one.
        or: Option<String>,
    },
}

/// How the next value is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pick {
    /// At random, each as likely as any other.
    #[default]
    Random,
    /// One after the other, over the whole run; then from the beginning.
    Sequence,
}

/// What to keep of a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    /// Name for [`Source::Captured`].
    pub name: String,
    /// JSON pointer (RFC 6901) into the body: `/data/token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// Name of a header field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// Added to the value, which must then be a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plus: Option<f64>,
    /// Who may use it.
    #[serde(default)]
    pub scope: Scope,
}

/// Who may use a captured value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The user (closed loop) or connection (open loop) that captured it.
    #[default]
    User,
    /// Everybody.
    Run,
}

/// A status, or a class of statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statuses {
    /// This one.
    One(u16),
    /// 100 times this and the 99 after it.
    Class(u16),
}

impl Statuses {
    /// Whether it holds this status.
    pub fn contains(self, status: u16) -> bool {
        match self {
            Statuses::One(one) => one == status,
            Statuses::Class(class) => status / 100 == class,
        }
    }
}

impl std::str::FromStr for Statuses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no status; write 404 or 2xx");
        match text.as_bytes() {
            [class @ b'1'..=b'9', b'x' | b'X', b'x' | b'X'] => Ok(Statuses::Class(u16::from(class - b'0'))),
            _ => match text.parse() {
                Ok(status @ 100..=999) => Ok(Statuses::One(status)),
                _ => Err(wrong()),
            },
        }
    }
}

/// How much load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Users who wait for each response before they send the next request.
    Closed(Closed),
    /// Requests at times that do not depend on the responses.
    Open(Open),
    /// Several, one after the other.
    Phases(Vec<Phase>),
}

impl Load {
    /// The load from its first measured phase on.
    pub(crate) fn without_first_warmup(&self) -> Self {
        match self {
            Load::Phases(phases) => Load::Phases(phases.iter().skip_while(|phase| phase.warmup).cloned().collect()),
            other => other.clone(),
        }
    }
}

/// A part of the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Its name in reports.
    pub name: String,
    /// Not part of the total.
    #[serde(default)]
    pub warmup: bool,
    /// Users; either this or `open`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<Closed>,
    /// Arrivals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<Open>,
}

/// Users who wait for each response before they send the next request, each on a connection of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Closed {
    /// How many, or `{from: 1, to: 100}`, which changes evenly over the duration.
    pub users: Span,
    /// Requests of all users together; distributed evenly, so that each of 50 users sends one of 50. Ends the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u64>,
    /// How long. With `iterations`, whichever ends first.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units::serde_duration::option")]
    pub duration: Option<Duration>,
    /// Pause between a response and the next request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
}

/// Users, constant or changing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Span {
    /// The same all the time.
    Constant(u32),
    /// Evenly from one to the other.
    Ramp {
        /// At the beginning.
        from: u32,
        /// At the end.
        to: u32,
    },
}

/// Pause between a response and the next request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Think {
    /// Mean length.
    #[serde(with = "units::serde_duration")]
    pub mean: Duration,
    /// How it varies.
    #[serde(default)]
    pub vary: Vary,
}

/// How think times vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vary {
    /// All the same.
    #[default]
    None,
    /// Evenly between nothing and twice the mean.
    Uniform,
    /// Exponentially.
    Exponential,
}

/// Requests at times that do not depend on the responses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// Requests per second (`500/s`), or `{from: 10/s, to: 500/s}`, which changes evenly over the duration.
    pub rate: Rates,
    /// How long.
    #[serde(with = "units::serde_duration")]
    pub duration: Duration,
    /// When exactly.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Most connections (HTTP/2: streams) at once (default 256); opened when they are needed. A request that finds none free waits, and
    /// its waiting counts.
    #[serde(default = "default_connections")]
    pub connections: u32,
}

/// 256.
pub fn default_connections() -> u32 {
    256
}

/// When requests of an open loop are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// At even intervals.
    #[default]
    Constant,
    /// At random, independent of each other, as those of many users are (a Poisson process).
    Poisson,
}

/// A rate, constant or changing, in requests per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rates {
    /// The same all the time.
    Constant(f64),
    /// Evenly from one to the other.
    Ramp {
        /// At the beginning.
        from: f64,
        /// At the end.
        to: f64,
    },
}

mod files;
mod tls;
mod websocket;

pub(crate) use files::Text;
pub use tls::{Tls, TlsVersion};
pub(crate) use websocket::message_size;
pub use websocket::{MessageKind, WebSocket};
