//! What holds for all messages: written and read again they are the same, whatever is done to them the grammar and the codec agree.

use h1::{BodyKind, Method, Version, encode};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::support::checks;
use crate::support::feed::{End, Message, Role, Splits, Start, feed, outcome};

/// A body with its framing, as it is written.
#[derive(Debug, Clone)]
enum Body {
    None,
    Sized(Vec<u8>),
    /// Pieces, each with an extension; then trailer lines.
    Chunked(Vec<(Vec<u8>, &'static str)>, Vec<(String, Vec<u8>)>),
}

impl Body {
    fn data(&self) -> Vec<u8> {
        match self {
            Body::None => Vec::new(),
            Body::Sized(data) => data.clone(),
            Body::Chunked(pieces, _) => pieces.iter().flat_map(|(piece, _)| piece.clone()).collect(),
        }
    }

    fn kind(&self) -> BodyKind {
        match self {
            Body::None => BodyKind::None,
            Body::Sized(data) if data.is_empty() => BodyKind::None,
            Body::Sized(data) => BodyKind::Length(data.len() as u64),
            Body::Chunked(..) => BodyKind::Chunked,
        }
    }

    /// Framing, the empty line, and the body.
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Body::None => out.extend_from_slice(b"\r\n"),
            Body::Sized(data) => {
                encode::content_length(out, data.len() as u64);
                out.extend_from_slice(b"\r\n");
                out.extend_from_slice(data);
            }
            Body::Chunked(pieces, trailers) => {
                encode::chunked(out);
                out.extend_from_slice(b"\r\n");
                for (piece, extension) in pieces {
                    if extension.is_empty() {
                        encode::chunk(out, piece);
                    } else if !piece.is_empty() {
                        out.extend_from_slice(format!("{:X}{extension}\r\n", piece.len()).as_bytes());
                        out.extend_from_slice(piece);
                        out.extend_from_slice(b"\r\n");
                    }
                }
                out.extend_from_slice(b"0\r\n");
                write_fields(out, trailers);
                out.extend_from_slice(b"\r\n");
            }
        }
    }
}

fn write_fields(out: &mut Vec<u8>, fields: &[(String, Vec<u8>)]) {
    for (name, value) in fields {
        encode::field(out, name.as_bytes(), value);
    }
}

#[derive(Debug, Clone)]
struct Request {
    method: String,
    path: String,
    query: Option<String>,
    version: Version,
    fields: Vec<(String, Vec<u8>)>,
    body: Body,
}

impl Request {
    fn write(&self, out: &mut Vec<u8>) {
        let query = self.query.as_ref().map_or(String::new(), |query| format!("?{query}"));
        let version = if self.version == Version::Http11 { "1.1" } else { "1.0" };
        out.extend_from_slice(
            format!("{} {}{query} HTTP/{version}\r\nHost: a.example:8080\r\n", self.method, self.path).as_bytes(),
        );
        write_fields(out, &self.fields);
        self.body.write(out);
    }

    fn is(&self, message: &Message) -> bool {
        let Start::Request { method, path, query, .. } = &message.start else { return false };
        let fields = message.fields.iter().map(|field| (&field.name[..], &field.value[..]));
        let own = fields.filter(|(name, _)| ![&b"Host"[..], b"Content-Length", b"Transfer-Encoding"].contains(name));
        method == self.method.as_bytes()
            && path == self.path.as_bytes()
            && query.as_deref() == self.query.as_ref().map(String::as_bytes)
            && message.version == self.version
            && own.eq(self.fields.iter().map(|(name, value)| (name.as_bytes(), &value[..])))
            && message.kind == self.body.kind()
            && message.body == self.body.data()
            && message.is_complete
    }
}

#[derive(Debug, Clone)]
struct Response {
    status: u16,
    reason: Vec<u8>,
    fields: Vec<(String, Vec<u8>)>,
    body: Body,
}

impl Response {
    fn write(&self, out: &mut Vec<u8>) {
        encode::status_line(out, self.status, &self.reason);
        write_fields(out, &self.fields);
        match &self.body {
            Body::None => Body::Sized(Vec::new()).write(out),
            body => body.write(out),
        }
    }

    fn is(&self, message: &Message) -> bool {
        let Start::Response { status, reason, .. } = &message.start else { return false };
        let fields = message.fields.iter().map(|field| (&field.name[..], &field.value[..]));
        let own = fields.filter(|(name, _)| ![&b"Content-Length"[..], b"Transfer-Encoding"].contains(name));
        *status == self.status
            && *reason == self.reason
            && own.eq(self.fields.iter().map(|(name, value)| (name.as_bytes(), &value[..])))
            && message.body == self.body.data()
            && message.is_complete
    }
}

fn any_method() -> impl Strategy<Value = String> {
    let of_own = select(vec!["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PURGE", "M-SEARCH"]);
    prop_oneof![4 => of_own.prop_map(str::to_owned), 1 => "[A-Z!#$%&'*+.^_`|~-]{4,32}".prop_filter("known", |name| name != "CONNECT")]
}

fn any_text() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![8 => 0x20..=0x7eu8, 1 => Just(b'\t'), 1 => 0x80..=0xffu8], 0..60).prop_map(|text| trimmed(&text))
}

fn trimmed(text: &[u8]) -> Vec<u8> {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = text.iter().position(|byte| !blank(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    text[start..end].to_vec()
}

fn any_fields() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    let special = ["host", "content-length", "transfer-encoding", "connection", "expect"];
    let name = prop_oneof![
        2 => "[A-Za-z0-9!#$%&'*+.^_`|~-]{1,40}".prop_filter("framing", move |name| !special.contains(&&name.to_ascii_lowercase()[..])),
        1 => select(vec!["Accept", "TE", "Upgrade", "Keep-Alive", "X-Forwarded-For", "Cookie", "X_Forwarded_For", "Content-Type", "Via", "X-Request-Id"]).prop_map(str::to_owned),
    ];
    vec((name, any_text()), 0..12)
}

fn any_body() -> impl Strategy<Value = Body> {
    let data = || vec(any::<u8>(), 0..300);
    let extension = select(vec!["", "", "", ";a", ";a=b", ";a=\"b;c\\\"\";d"]);
    prop_oneof![
        2 => Just(Body::None),
        2 => data().prop_map(Body::Sized),
        3 => (vec((data(), extension), 0..6), any_fields()).prop_map(|(pieces, trailers)| Body::Chunked(pieces, trailers)),
    ]
}

fn any_request() -> impl Strategy<Value = Request> {
    let path = "/[!-\"$->@-~]{0,80}";
    let query = proptest::option::of("[!-\"$-~]{0,80}");
    (any_method(), path, query, any::<bool>(), any_fields(), any_body()).prop_map(
        |(method, path, query, is_old, fields, body)| {
            let is_old = is_old && !matches!(body, Body::Chunked(..));
            Request {
                method,
                path,
                query,
                version: if is_old { Version::Http10 } else { Version::Http11 },
                fields,
                body,
            }
        },
    )
}

fn any_response() -> impl Strategy<Value = Response> {
    let status = select(vec![200u16, 201, 206, 302, 400, 404, 418, 429, 500, 503, 599, 999]);
    (status, any_text(), any_fields(), any_body()).prop_map(|(status, reason, fields, body)| Response {
        status,
        reason,
        fields,
        body,
    })
}

/// Something done to the bytes of a connection.
#[derive(Debug, Clone)]
enum Mutation {
    Insert(Index, &'static str),
    Put(Index, u8),
    Remove(Index, usize),
    Repeat(Index, usize),
    Swap(Index, Index),
    Cut(Index),
}

impl Mutation {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Mutation::Insert(place, text) => {
                let at = place.index(bytes.len());
                bytes.splice(at..at, text.bytes());
            }
            Mutation::Put(place, byte) => {
                let at = place.index(bytes.len());
                bytes[at] = *byte;
            }
            Mutation::Remove(place, length) => {
                let at = place.index(bytes.len());
                let end = bytes.len().min(at + length);
                bytes.drain(at..end);
            }
            Mutation::Repeat(place, length) => {
                let at = place.index(bytes.len());
                let piece = bytes[at..bytes.len().min(at + length)].to_vec();
                bytes.splice(at..at, piece);
            }
            Mutation::Swap(one, other) => {
                let (one, other) = (one.index(bytes.len()), other.index(bytes.len()));
                bytes.swap(one, other);
            }
            Mutation::Cut(place) => bytes.truncate(place.index(bytes.len())),
        }
    }
}

/// Pieces that attacks are made of.
const FRAGMENTS: &[&str] = &[
    "\r\n",
    "\r",
    "\n",
    "\0",
    " ",
    "\t",
    ":",
    ";",
    ",",
    "=",
    "\"",
    "\\",
    "0",
    "1",
    "f",
    "-",
    "_",
    "\x0b",
    "\x7f",
    "\u{e9}",
    "\r\n\r\n",
    "0\r\n\r\n",
    "5\r\nabcde\r\n",
    ";a=\"b\"",
    " ;",
    "\r\n ",
    "\n\n",
    "Host: a\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "Transfer_Encoding: chunked\r\n",
    "Connection: close\r\n",
    "Connection: Host, X-Forwarded-For, Content-Length, Accept\r\n",
    "Connection: keep-alive\r\n",
    "Expect: 100-continue\r\n",
    "Upgrade: websocket\r\n",
    "GET / HTTP/1.1\r\n",
    "POST /a?b HTTP/1.1\r\n",
    "GET http://b/c HTTP/1.1\r\n",
    "OPTIONS * HTTP/1.1\r\n",
    "GET / HTTP/1.0\r\n",
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 204 No Content\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.0 200 OK\r\n",
    "HTTP/1.1 304 x\r\n",
    "chunked",
    "Content-Length",
    "Transfer-Encoding",
    "HTTP/1.1",
    "GET ",
];

fn any_mutation() -> impl Strategy<Value = Mutation> {
    let place = any::<Index>;
    prop_oneof![
        4 => (place(), select(FRAGMENTS)).prop_map(|(at, text)| Mutation::Insert(at, text)),
        2 => (place(), any::<u8>()).prop_map(|(at, byte)| Mutation::Put(at, byte)),
        2 => (place(), 1..20usize).prop_map(|(at, length)| Mutation::Remove(at, length)),
        2 => (place(), 1..60usize).prop_map(|(at, length)| Mutation::Repeat(at, length)),
        1 => (place(), place()).prop_map(|(one, other)| Mutation::Swap(one, other)),
        1 => place().prop_map(Mutation::Cut),
    ]
}

proptest! {
    #[test]
    fn requests_that_are_written_are_read_again(all in vec(any_request(), 1..4), seed in any::<u64>(), longest in 1..200u64) {
        let mut bytes = Vec::new();
        all.iter().for_each(|request| request.write(&mut bytes));
        let outcome = feed(&Role::Requests, &h1::Limits::default(), Splits::new(seed).cut(&bytes, longest), seed % 2 == 0);
        prop_assert_eq!(&outcome.end, &End::Clean);
        prop_assert_eq!(outcome.messages.len(), all.len());
        prop_assert_eq!(outcome.consumed, bytes.len());
        for (request, message) in all.iter().zip(&outcome.messages) {
            prop_assert!(request.is(message), "{:?} became {:?}", request, message);
        }
        checks::requests(&bytes);
    }

    #[test]
    fn responses_that_are_written_are_read_again(all in vec(any_response(), 1..4), seed in any::<u64>(), longest in 1..200u64) {
        let mut bytes = Vec::new();
        all.iter().for_each(|response| response.write(&mut bytes));
        let role = Role::Responses(vec![Method::Get; all.len()]);
        let outcome = feed(&role, &h1::Limits::default(), Splits::new(seed).cut(&bytes, longest), seed % 2 == 0);
        prop_assert_eq!(&outcome.end, &End::Clean);
        prop_assert_eq!(outcome.messages.len(), all.len());
        for (response, message) in all.iter().zip(&outcome.messages) {
            prop_assert!(response.is(message), "{:?} became {:?}", response, message);
        }
        checks::responses(&[&[0], &bytes[..]].concat());
    }

    #[test]
    fn requests_that_are_tampered_with_keep_the_invariant(all in vec(any_request(), 1..3), mutations in vec(any_mutation(), 1..5)) {
        let mut bytes = Vec::new();
        all.iter().for_each(|request| request.write(&mut bytes));
        mutations.iter().for_each(|mutation| mutation.apply(&mut bytes));
        checks::requests(&bytes);
        checks::request_head(&bytes);
    }

    #[test]
    fn responses_that_are_tampered_with_keep_the_invariant(all in vec(any_response(), 1..3), mutations in vec(any_mutation(), 1..5), selector in any::<u8>()) {
        let mut bytes = vec![selector];
        all.iter().for_each(|response| response.write(&mut bytes));
        mutations.iter().for_each(|mutation| mutation.apply(&mut bytes));
        checks::responses(&bytes);
    }

    #[test]
    fn fragments_in_any_order_keep_the_invariant(fragments in vec(select(FRAGMENTS), 0..40), selector in any::<u8>()) {
        let text = fragments.concat();
        checks::connection(&[&[selector], text.as_bytes()].concat());
        checks::chunked(text.as_bytes());
    }

    #[test]
    fn any_bytes_keep_the_invariant(bytes in vec(any::<u8>(), 0..400)) {
        checks::connection(&bytes);
        checks::request_head(&bytes);
        checks::response_head(&bytes);
        checks::chunked(&bytes);
    }

    #[test]
    fn what_was_accepted_once_is_accepted_again(request in any_request(), mutations in vec(any_mutation(), 0..3)) {
        let mut bytes = Vec::new();
        request.write(&mut bytes);
        mutations.iter().for_each(|mutation| mutation.apply(&mut bytes));
        // A second gateway behind the first sees one request and passes it on as it came, but for what gateways add.
        for message in outcome(&Role::Requests, &bytes).messages.iter().filter(|message| message.is_complete) {
            let once = crate::support::gateway::to_upstream(message, 7);
            let again = outcome(&Role::Requests, &once);
            prop_assert_eq!((again.end, again.messages.len()), (End::Clean, 1));
            let twice = crate::support::gateway::to_upstream(&again.messages[0], 7);
            prop_assert_eq!(once.escape_ascii().to_string(), twice.escape_ascii().to_string());
        }
    }
}
