//! Operations, ready to be sent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine};
use http::{HeaderMap, HeaderName, HeaderValue};
use prost_reflect::DescriptorPool;

use super::secure::Policy;
use super::values::{PrepareOr, Value, Values};
use super::{Authority, CALLED, DEFAULT_EXPECT, PrepareError, UPGRADED, Url};
use crate::load::grpc::reflection::{self, Problem};
use crate::load::grpc::{self, Method};
use crate::load::template::{Escape, Template};
use crate::load::workload::{self, Protocol, Scope, Statuses, Workload};
use crate::websocket::handshake;

/// An operation, ready to be sent.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) id: String,
    pub(crate) method: h1::Method,
    pub(crate) method_name: String,
    /// Index of the authority.
    pub(crate) authority: usize,
    pub(crate) target: Template,
    /// Names as written; the values may hold values.
    pub(crate) headers: Vec<(String, Template)>,
    pub(crate) body: Body,
    /// One for each name that a template uses.
    pub(crate) values: Vec<Value>,
    /// The bytes of the HTTP/1.1 request where they are always the same: the head, and the body unless that is a file.
    pub(crate) fixed: Option<Arc<[u8]>>,
    /// Bytes of the body of `fixed`.
    pub(crate) fixed_body: u64,
    pub(crate) expect: Expect,
    pub(crate) captures: Vec<Capture>,
    /// Whether the body of the response must be kept.
    pub(crate) wants_body: bool,
    /// Whether something is captured of its JSON.
    pub(crate) wants_json: bool,
    /// Where it is a call of gRPC.
    pub(crate) grpc: Option<Arc<Method>>,
    /// Whether its connection is for this one request (`Connection: close`, RFC 9112 section 9.6).
    pub(crate) closes: bool,
    /// Whether it is an upgrade to WebSocket.
    pub(crate) upgrades: bool,
}

/// Characters of a message that an error shows.
const SHOWN: usize = 200;

#[derive(Debug)]
pub(crate) enum Body {
    None,
    /// `true`: a JSON body.
    Text(Template, bool),
    /// The JSON of a message of gRPC, which is made for each message.
    Message(Template),
    File(Arc<[u8]>),
}

/// A set of statuses.
#[derive(Debug, Clone)]
pub(crate) struct Expect([u64; 16]);

impl Expect {
    fn new(statuses: &[Statuses]) -> Self {
        let mut set = [0; 16];
        for status in (100_u16..1000).filter(|&status| statuses.iter().any(|one| one.contains(status))) {
            set[usize::from(status) / 64] |= 1 << (status % 64);
        }
        Expect(set)
    }

    #[inline]
    pub(crate) fn contains(&self, status: u16) -> bool {
        self.0.get(usize::from(status) / 64).is_some_and(|word| word >> (status % 64) & 1 == 1)
    }
}

#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) index: usize,
    pub(crate) from: CaptureFrom,
    pub(crate) plus: Option<f64>,
    pub(crate) scope: Scope,
}

#[derive(Debug)]
pub(crate) enum CaptureFrom {
    /// A JSON pointer.
    Json(String),
    /// A field's name.
    Header(String),
}

/// Collects what operations share.
pub(super) struct Builder {
    base: Url,
    protocol: Protocol,
    timeout: Duration,
    pub(super) authorities: Vec<Authority>,
    /// As written, beside each authority.
    urls: Vec<Url>,
    pub(super) values: Values,
    captures: Vec<String>,
    tls: workload::Tls,
    /// Made when the first `https` URL is seen.
    policy: Option<Policy>,
    new_connections: bool,
    websocket: bool,
    /// What reflection said, by authority and service.
    reflected: BTreeMap<(usize, String), DescriptorPool>,
}

impl Builder {
    pub(super) fn new(workload: &Workload) -> Result<Self, PrepareError> {
        let base = Url::parse(&workload.base)?;
        if base.path.contains('?') {
            let problem = "a base must not have a query; add it to the operations".to_owned();
            return Err(PrepareError::Url { url: workload.base.clone(), problem });
        }
        let captures = workload
            .operations
            .iter()
            .chain(&workload.setup)
            .flat_map(|operation| operation.capture.iter().map(|capture| capture.name.clone()))
            .fold(Vec::new(), |mut names, name| {
                if !names.contains(&name) {
                    names.push(name);
                }
                names
            });
        let values = Values::default();
        let (protocol, timeout) = (workload.protocol, workload.timeout);
        Ok(Builder {
            base,
            protocol,
            timeout,
            authorities: Vec::new(),
            urls: Vec::new(),
            values,
            captures,
            tls: workload.tls.clone().unwrap_or_default(),
            policy: None,
            new_connections: workload.new_connections,
            websocket: workload.websocket.is_some(),
            reflected: BTreeMap::new(),
        })
    }

    fn authority(&mut self, url: &Url) -> Result<usize, PrepareError> {
        let is_known = |known: &Url| (known.https, &known.authority) == (url.https, &url.authority);
        if let Some(index) = self.urls.iter().position(is_known) {
            return Ok(index);
        }
        let mut authority = url.resolve()?;
        if url.https {
            let policy = match self.policy.take() {
                Some(policy) => policy,
                None => Policy::new(&self.tls, self.protocol)?,
            };
            authority.secure = Some(self.policy.insert(policy).secure(url)?);
        }
        self.authorities.push(authority);
        self.urls.push(url.clone());
        Ok(self.urls.len() - 1)
    }

    /// Options of TLS that nothing uses are a mistake: the load would not be what they say.
    pub(super) fn check_tls(&self, workload: &Workload) -> Result<(), PrepareError> {
        match (&workload.tls, &self.policy) {
            (Some(_), None) => {
                Err(PrepareError::Tls("its options are for https:// URLs, and there is none".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// The method that an operation calls.
    fn method(
        &mut self,
        operation: &workload::Operation,
        call: &workload::Grpc,
        authority: usize,
    ) -> Result<Method, PrepareError> {
        let fail = |problem: String| PrepareError::Operation { operation: operation.id.clone(), problem };
        if let Some(proto) = &call.proto {
            let pool = grpc::compile(proto).map_err(fail)?;
            return Method::find(&pool, call, &proto.display().to_string()).map_err(fail);
        }
        let url = self.urls[authority].origin();
        let service = grpc::service_of(&call.method);
        if service == call.method {
            return Err(fail(format!("`{service}` names no method; write package.Service/Method")));
        }
        let key = (authority, service.to_owned());
        let pool = match self.reflected.get(&key) {
            Some(pool) => pool.clone(),
            None => {
                let found = reflection::read(&self.authorities[authority], service, &metadata(operation), self.timeout);
                let pool = found.map_err(|problem| match problem {
                    Problem::Unknown(problem) => fail(problem),
                    Problem::Unavailable(problem) => {
                        PrepareError::Reflection { operation: operation.id.clone(), url: url.clone(), problem }
                    }
                })?;
                self.reflected.entry(key).or_insert(pool).clone()
            }
        };
        Method::find(&pool, call, &format!("{service} at {url}")).map_err(fail)
    }

    pub(super) fn operation(&mut self, operation: &workload::Operation) -> Result<Operation, PrepareError> {
        let fail = |problem: String| PrepareError::Operation { operation: operation.id.clone(), problem };
        if operation.grpc.is_some() && self.protocol == Protocol::Http1 {
            return Err(fail("gRPC goes over HTTP/2; add protocol: {http2: {streams: 16}}".to_owned()));
        }
        let base = match &operation.base {
            Some(base) => Url::parse(base)?,
            None => self.base.clone(),
        };
        if base.websocket && !self.websocket {
            return Err(fail("a ws:// URL needs messages; add websocket: {size: 128B} to the workload".to_owned()));
        }
        let authority = self.authority(&base)?;
        let grpc = operation.grpc.as_ref().map(|call| self.method(operation, call, authority)).transpose()?;
        // The bodies that it sends in turn, where it does not send one.
        let mut bodies = Vec::new();
        let request;
        let operation = match &grpc {
            Some(method) => {
                let mut made = method.request(operation, self.timeout);
                match &operation.body {
                    Some(workload::Body::Text(text))
                        if Template::names(text).any(|name| operation.params.contains_key(name)) =>
                    {
                        made.body.clone_from(&operation.body);
                    }
                    _ => bodies = method.messages(operation).map_err(fail)?,
                }
                request = made;
                &request
            }
            None => operation,
        };
        check_method(&operation.method).map_err(fail)?;
        if self.websocket {
            check_upgrade(operation).map_err(fail)?;
        }
        if !operation.path.starts_with('/') || !operation.path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(fail(format!(
                "its path `{}` must begin with / and hold neither spaces nor characters beyond ASCII",
                operation.path
            )));
        }
        let path = format!("{}{}", base.path.trim_end_matches('/'), operation.path);
        if let Some(name) = Template::names(&path).find(|name| !operation.params.contains_key(*name)) {
            return Err(fail(format!(
                "its path holds {{{name}}}, and params has no `{name}`; add it, such as {name}: {{int: [1, 9]}}"
            )));
        }

        // Values are drawn in the order in which templates use them; a param that no template uses is reported as a mistake.
        let mut names: Vec<&str> = Vec::new();
        let mut template = |text: &str| {
            Template::parse(text, |name| {
                let (name, _) = operation.params.get_key_value(name)?;
                Some(names.iter().position(|known| known == name).unwrap_or_else(|| {
                    names.push(name);
                    names.len() - 1
                }))
            })
        };
        let target = template(&path);
        let mut headers = Vec::new();
        for (name, value) in &operation.headers {
            check_header(name, value).map_err(fail)?;
            if self.protocol != Protocol::Http1 {
                check_http2(name, value).map_err(fail)?;
            }
            headers.push((name.clone(), template(value)));
        }
        let mut body = match &operation.body {
            None | Some(workload::Body::Lines(_)) => Body::None,
            Some(workload::Body::Text(text)) if grpc.is_some() => Body::Message(template(text)),
            Some(workload::Body::Text(text)) => Body::Text(template(text), is_json(operation, text)),
            Some(workload::Body::Base64(text)) => {
                let decoded = BASE64_STANDARD.decode(text);
                Body::File(decoded.map_err(|error| fail(format!("its body is not valid base64: {error}")))?.into())
            }
            Some(workload::Body::File(file)) => {
                let bytes = std::fs::read(file).map_err(|error| PrepareError::File { file: file.clone(), error })?;
                Body::File(bytes.into())
            }
        };
        if let Some(unused) = operation.params.keys().find(|name| !names.contains(&name.as_str())) {
            return Err(fail(format!("params has `{unused}`, and neither path, headers nor body holds {{{unused}}}")));
        }
        let mut values = Vec::with_capacity(names.len());
        for name in names {
            values.push(self.values.value(&operation.params[name]).map_err(|error| match error {
                PrepareOr::Problem(problem) => fail(format!("param `{name}`: {problem}")),
                PrepareOr::Error(error) => error,
            })?);
        }
        if let Some(workload::Body::Lines(file)) = &operation.body {
            let text =
                std::fs::read_to_string(file).map_err(|error| PrepareError::File { file: file.clone(), error })?;
            bodies = text.lines().map(|line| line.as_bytes().to_vec()).collect();
            if bodies.is_empty() {
                return Err(fail(format!("{} has no line", file.display())));
            }
        }
        if !bodies.is_empty() {
            body = Body::Text(Template::parse("{}", |_| Some(values.len())), false);
            values.push(self.values.in_order(bodies));
        }
        for value in &mut values {
            if let Value::Captured { name, index, .. } = value {
                *index = self.captures.iter().position(|known| known == name).ok_or_else(|| {
                    fail(format!("nothing captures `{name}`; an operation (or setup) needs capture: [{{name: {name}, json: /...}}]"))
                })?;
            }
        }
        let captures: Vec<Capture> = operation
            .capture
            .iter()
            .map(|capture| self.capture(capture))
            .collect::<Result<_, String>>()
            .map_err(fail)?;
        if let (Some(method), Body::Message(text)) = (&grpc, &body) {
            let check = |drawn: &[Vec<u8>]| {
                let made = json(text, drawn)?;
                let shown: String = made.chars().take(SHOWN).collect();
                method.encode(&made).map(drop).map_err(|why| format!("{why}; with its values it is {shown}"))
            };
            self.values.try_messages(&values, check).map_err(fail)?;
        }
        let wants_json = captures.iter().any(|capture| matches!(capture.from, CaptureFrom::Json(_)));
        let expect = match operation.expect.as_slice() {
            // Of calls no other status is a success.
            _ if grpc.is_some() => &CALLED[..],
            [] if self.websocket => &UPGRADED[..],
            [] => &DEFAULT_EXPECT[..],
            own => own,
        };
        let mut prepared = Operation {
            id: operation.id.clone(),
            method: h1::Method::of(operation.method.as_bytes()),
            method_name: operation.method.clone(),
            authority,
            target,
            headers,
            body,
            values,
            fixed: None,
            fixed_body: 0,
            expect: Expect::new(expect),
            wants_body: wants_json || grpc.as_ref().is_some_and(|method| !method.returns_stream),
            wants_json,
            captures,
            grpc: grpc.map(Arc::new),
            closes: self.new_connections,
            upgrades: self.websocket,
        };
        // An upgrade has another key each time.
        if self.protocol == Protocol::Http1 && !self.websocket && prepared.values.is_empty() {
            let mut bytes = Vec::new();
            prepared.fixed_body =
                prepared.write_http1(&mut bytes, &self.authorities[authority].name, &[], &mut Vec::new());
            prepared.fixed = Some(bytes.into());
        }
        Ok(prepared)
    }

    fn capture(&self, capture: &workload::Capture) -> Result<Capture, String> {
        let name = &capture.name;
        let from = match (&capture.json, &capture.header) {
            (Some(pointer), None) if pointer.is_empty() || pointer.starts_with('/') => {
                CaptureFrom::Json(pointer.clone())
            }
            (Some(pointer), None) => {
                return Err(format!("capture `{name}`: `{pointer}` is not a JSON pointer; it begins with /"));
            }
            (None, Some(header)) => CaptureFrom::Header(header.clone()),
            _ => return Err(format!("capture `{name}` needs either json or header")),
        };
        let index = self.captures.iter().position(|known| known == name).unwrap_or(0);
        Ok(Capture { index, from, plus: capture.plus, scope: capture.scope })
    }

    /// How many values responses may set.
    pub(super) fn captures(&self) -> usize {
        self.captures.len()
    }
}

impl Operation {
    /// Appends the HTTP/1.1 request: head, and body unless that is a file. `scratch` is for the body's text. How many bytes the body has.
    pub(crate) fn write_http1(&self, out: &mut Vec<u8>, host: &str, values: &[Vec<u8>], scratch: &mut Vec<u8>) -> u64 {
        out.extend_from_slice(self.method_name.as_bytes());
        out.push(b' ');
        self.target.fill(out, values, Escape::Percent);
        out.extend_from_slice(b" HTTP/1.1\r\n");
        let has = |name: &str| self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        if !has("host") {
            h1::encode::field(out, b"Host", host.as_bytes());
        }
        for (name, value) in &self.headers {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            value.fill(out, values, Escape::Field);
            out.extend_from_slice(b"\r\n");
        }
        if self.closes {
            out.extend_from_slice(b"Connection: close\r\n");
        }
        if self.upgrades {
            h1::encode::field(out, b"Connection", b"Upgrade");
            h1::encode::field(out, b"Upgrade", b"websocket");
            h1::encode::field(out, b"Sec-WebSocket-Version", handshake::VERSION.as_bytes());
        }
        match &self.body {
            // Calls of gRPC do not go over HTTP/1.1.
            Body::None | Body::Message(_) => {
                // RFC 9110 section 8.6: a method that has a body says that it is empty.
                if matches!(self.method, h1::Method::Post | h1::Method::Put | h1::Method::Patch) {
                    h1::encode::content_length(out, 0);
                }
                out.extend_from_slice(b"\r\n");
                0
            }
            Body::File(bytes) => {
                h1::encode::content_length(out, bytes.len() as u64);
                out.extend_from_slice(b"\r\n");
                bytes.len() as u64
            }
            Body::Text(text, json) => {
                scratch.clear();
                text.fill(scratch, values, if *json { Escape::Json } else { Escape::None });
                h1::encode::content_length(out, scratch.len() as u64);
                out.extend_from_slice(b"\r\n");
                out.extend_from_slice(scratch);
                scratch.len() as u64
            }
        }
    }

    /// The file to send after the head.
    pub(crate) fn file(&self) -> Option<&Arc<[u8]>> {
        match &self.body {
            Body::File(bytes) if !bytes.is_empty() => Some(bytes),
            _ => None,
        }
    }
}

fn check_method(method: &str) -> Result<(), String> {
    let token = !method.is_empty()
        && method.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
    if !token || method == "CONNECT" { Err(format!("`{method}` is not a valid method")) } else { Ok(()) }
}

/// The JSON of a message with its values.
pub(crate) fn json(text: &Template, values: &[Vec<u8>]) -> Result<String, String> {
    let mut json = Vec::new();
    text.fill(&mut json, values, Escape::Json);
    String::from_utf8(json).map_err(|_| "a value is not valid UTF-8".to_owned())
}

/// What an upgrade to WebSocket cannot be.
fn check_upgrade(operation: &workload::Operation) -> Result<(), String> {
    if operation.method != "GET" {
        return Err(format!("an upgrade to WebSocket is a GET, not {}", operation.method));
    }
    if operation.body.is_some() || operation.grpc.is_some() {
        return Err("the messages of `websocket` are its content: it has no body".to_owned());
    }
    if !operation.capture.is_empty() {
        return Err("nothing is captured of messages over WebSocket".to_owned());
    }
    for name in ["upgrade", "sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions"] {
        if operation.headers.keys().any(|own| own.eq_ignore_ascii_case(name)) {
            return Err(format!("`{name}` is written by the generator; leave it out"));
        }
    }
    Ok(())
}

fn check_header(name: &str, value: &str) -> Result<(), String> {
    let token =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
    if !token {
        return Err(format!("`{name}` is not the name of a header field"));
    }
    if value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        return Err(format!("the value of header `{name}` holds a line end"));
    }
    for framing in ["content-length", "transfer-encoding", "connection"] {
        if name.eq_ignore_ascii_case(framing) {
            return Err(format!("`{name}` is written by the generator, from the body; leave it out"));
        }
    }
    Ok(())
}

/// What HTTP/2 forbids (RFC 9113 section 8.2.2): servers reset such requests.
fn check_http2(name: &str, value: &str) -> Result<(), String> {
    let forbidden = ["keep-alive", "proxy-connection", "upgrade", "http2-settings"];
    if forbidden.iter().any(|one| name.eq_ignore_ascii_case(one)) {
        return Err(format!("HTTP/2 has no header `{name}`; leave it out"));
    }
    if name.eq_ignore_ascii_case("te") && !value.eq_ignore_ascii_case("trailers") {
        return Err(format!("over HTTP/2 the header `{name}` may only be `trailers`"));
    }
    Ok(())
}

/// The fields of an operation that are the same in every call, for calls of reflection: credentials, mostly.
fn metadata(operation: &workload::Operation) -> HeaderMap {
    let fixed = operation.headers.iter().filter(|(name, value)| {
        !name.eq_ignore_ascii_case("host") && !Template::names(value).any(|name| operation.params.contains_key(name))
    });
    let field = |(name, value): (&String, &String)| {
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?))
    };
    fixed.filter_map(field).collect()
}

/// By its Content-Type, or by its first character where there is none.
fn is_json(operation: &workload::Operation, text: &str) -> bool {
    match operation.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        Some((_, value)) => value.contains("json"),
        None => text.trim_start().starts_with(['{', '[']),
    }
}
