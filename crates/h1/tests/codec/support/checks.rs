//! What must hold for every input. Each check takes any bytes; the fuzz targets call them, and the tests call them with the corpus.

use h1::{BodyKind, Known, Limits, Method, ParseError, Version};

use super::feed::{self, End, Message, Outcome, Role, Start};
use super::{gateway, oracle};
use oracle::{Framing, Reading};

/// A client's bytes: the codec and the grammar agree on what they are, and what goes on to the upstream is one request each.
pub fn requests(bytes: &[u8]) {
    let outcome = feed::outcome(&Role::Requests, bytes);
    let mut rest = bytes;
    for message in &outcome.messages {
        let sent = gateway::to_upstream(message, piece_size(bytes));
        if !message.is_complete {
            // Its body broke off: nobody may take what went on for a whole request.
            assert_eq!(oracle::request(&sent), Reading::Incomplete, "{}", sent.escape_ascii());
            break;
        }
        let Reading::Message(seen) = oracle::request(rest) else {
            panic!("accepted, but it is {:?}: {}", oracle::request(rest), rest.escape_ascii());
        };
        same_request(message, &seen);
        rest = &rest[seen.length..];
        one_request(message, &seen, &sent);
    }
    assert!(outcome.end != End::Clean || rest.is_empty(), "left over: {}", rest.escape_ascii());
    assert_rest(&outcome, rest, bytes, oracle::request);
}

/// An upstream's bytes; the methods of the requests that they respond to follow from the first byte.
pub fn responses(bytes: &[u8]) {
    let Some((&selector, bytes)) = bytes.split_first() else { return };
    let methods: Vec<Method> =
        (0..4).map(|bit| if selector >> bit & 1 == 1 { Method::Head } else { Method::Get }).collect();
    let outcome = feed::outcome(&Role::Responses(methods.clone()), bytes);
    let mut rest = bytes;
    let mut responded = 0;
    for message in &outcome.messages {
        let method = match methods.get(responded) {
            Some(Method::Head) => &b"HEAD"[..],
            _ => b"GET",
        };
        let Start::Response { is_interim, .. } = message.start else { panic!("not a response") };
        for version in [Version::Http11, Version::Http10] {
            let sent = gateway::to_client(message, version, piece_size(bytes));
            if message.is_complete {
                one_response(message, version, method, &sent);
            } else if gateway::client_framing(message.kind, version) != BodyKind::UntilClose {
                assert_eq!(oracle::response(&sent, method, true), Reading::Incomplete, "{}", sent.escape_ascii());
            }
        }
        if !message.is_complete {
            break;
        }
        let Reading::Message(seen) = oracle::response(rest, method, true) else {
            panic!("accepted, but it is {:?}: {}", oracle::response(rest, method, true), rest.escape_ascii());
        };
        same_response(message, &seen);
        assert!(seen.is_framed() || !message.keep_alive, "a connection that ends the body cannot be used again");
        rest = &rest[seen.length..];
        responded += usize::from(!is_interim);
    }
    let method = if methods.get(responded) == Some(&Method::Head) { &b"HEAD"[..] } else { b"GET" };
    assert_rest(&outcome, rest, bytes, |rest| oracle::response(rest, method, true));
}

/// A chunked body and what follows it.
pub fn chunked(bytes: &[u8]) {
    let mut stream = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    stream.extend_from_slice(bytes);
    requests(&stream);
}

/// Whole connections, both ways: the first byte says which side is read.
pub fn connection(bytes: &[u8]) {
    match bytes.split_first() {
        Some((selector, rest)) if selector & 1 == 0 => requests(rest),
        Some((_, rest)) => responses(rest),
        None => {}
    }
}

/// One head of a request, whatever follows, under limits that are easily reached.
pub fn request_head(bytes: &[u8]) {
    limits_hold(&Role::Requests, bytes);
    requests(bytes);
}

/// One head of a response.
pub fn response_head(bytes: &[u8]) {
    limits_hold(&Role::Responses(Vec::new()), bytes);
    responses(&[&[0], bytes].concat());
    responses(&[&[1], bytes].concat());
}

/// Where in `bytes` the codec stopped, the grammar sees no message that the codec should have taken; small differences are those where the
/// codec is stricter on purpose.
fn assert_rest(outcome: &Outcome, rest: &[u8], bytes: &[u8], read: impl Fn(&[u8]) -> Reading) {
    assert_eq!(outcome.consumed, bytes.len() - rest.len());
    if let Reading::Message(message) = read(rest) {
        assert!(matches!(outcome.end, End::Refused(error) if is_stricter(error)), "{:?} but {message:?}", outcome.end);
    }
}

/// Rules that go beyond the grammar: limits, and what two parsers are known to read differently.
fn is_stricter(error: ParseError) -> bool {
    matches!(
        error,
        ParseError::Method
            | ParseError::StartLineTooLong
            | ParseError::HeadTooLarge
            | ParseError::TooManyFields
            | ParseError::HostInvalid
            | ParseError::Connection
            | ParseError::ConnectionOptions
            | ParseError::FramingForbidden
            | ParseError::ChunkSize
            | ParseError::ChunkExtension
            | ParseError::ChunkExtensionTooLong
            | ParseError::TrailerTooLarge
    )
}

/// No head that is accepted exceeds small limits, and the same rule is named however it arrives.
fn limits_hold(role: &Role, bytes: &[u8]) {
    let limits = Limits { start_line: 48, head: 160, fields: 4 };
    let outcome = feed::outcome_with(role, &limits, bytes);
    for message in &outcome.messages {
        assert!(message.fields.len() <= limits.fields);
        let lines: usize = message.fields.iter().map(|field| field.line.len()).sum();
        assert!(lines + 2 <= limits.head);
        if let Start::Request { method, path, query, .. } = &message.start {
            let shortest = method.len() + path.len() + query.as_ref().map_or(0, |query| query.len() + 1) + 12;
            assert!(shortest <= limits.start_line);
        }
    }
}

fn piece_size(bytes: &[u8]) -> usize {
    bytes.iter().fold(1, |size, &byte| (size * 31 + usize::from(byte)) % 97) + 1
}

fn same_request(message: &Message, seen: &oracle::Message) {
    let Start::Request { method, authority, path, query, .. } = &message.start else { panic!("not a request") };
    let target = &seen.start[1];
    assert_eq!(*method, seen.start[0]);
    let mut written = path.clone();
    if let Some(query) = query {
        written.push(b'?');
        written.extend_from_slice(query);
    }
    assert!(target.ends_with(&written));
    if *target != written {
        // Absolute form: what is in front of the path.
        let front = String::from_utf8_lossy(&target[..target.len() - written.len()]).into_owned();
        let (scheme, host) = front.split_once("://").unwrap();
        assert!(scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"));
        assert_eq!(authority.as_deref(), Some(host.as_bytes()));
    } else {
        assert_eq!(authority.as_deref(), seen.values("host").first().copied());
    }
    same_rest(message, seen, &seen.start[2]);
    let options = options(seen);
    let lives = !options.contains("close") && (seen.start[2] == b"HTTP/1.1" || options.contains("keep-alive"));
    assert_eq!(message.keep_alive, lives);
}

fn same_response(message: &Message, seen: &oracle::Message) {
    let Start::Response { status, reason, .. } = &message.start else { panic!("not a response") };
    assert_eq!(status.to_string().as_bytes(), seen.start[1]);
    assert_eq!(*reason, seen.start[2]);
    same_rest(message, seen, &seen.start[0]);
}

fn same_rest(message: &Message, seen: &oracle::Message, version: &[u8]) {
    assert_eq!(message.version == Version::Http11, version == b"HTTP/1.1");
    let fields: Vec<_> = message
        .fields
        .iter()
        .map(|field| (String::from_utf8(field.name.to_ascii_lowercase()).unwrap(), field.value.clone()))
        .collect();
    assert_eq!(fields, seen.fields);
    assert_eq!(message.body, seen.body);
    match (message.kind, seen.framing) {
        (BodyKind::None, Framing::None) | (BodyKind::Chunked, Framing::Chunked) => {}
        (BodyKind::UntilClose, Framing::UntilClose) => {}
        (BodyKind::Length(length), Framing::Length) => assert_eq!(length, seen.body.len() as u64),
        (BodyKind::None, Framing::Length) => assert!(seen.body.is_empty()),
        differ => panic!("framing differs: {differ:?}"),
    }
}

/// `Connection` options in lower case, read without the codec.
fn options(message: &oracle::Message) -> std::collections::BTreeSet<String> {
    let lines: Vec<_> = message.values("connection").into_iter().map(String::from_utf8_lossy).collect();
    lines.join(",").split(',').map(|option| option.trim_matches([' ', '\t']).to_ascii_lowercase()).collect()
}

/// Names that end at this hop, whoever names them.
const HOP: [&str; 7] =
    ["connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade", "transfer-encoding"];
/// Names that a `Connection` option cannot take away; more than the gateway writes itself.
const KEPT: [&str; 8] =
    ["host", "authorization", "cookie", "cache-control", "x-forwarded-port", "x-real-ip", "content-type", "vary"];

/// What `sent` is to an upstream: one request that means what the client's did, and nothing else.
fn one_request(message: &Message, client: &oracle::Message, sent: &[u8]) {
    let Reading::Message(upstream) = oracle::request(sent) else {
        panic!("{:?}: {}", oracle::request(sent), sent.escape_ascii());
    };
    assert_eq!(upstream.length, sent.len(), "one request and no byte more");
    no_stray_controls(sent, upstream.body.len());
    assert_eq!(upstream.start[0], client.start[0]);
    assert_eq!(upstream.body, client.body);
    let framings = upstream.values("content-length").len() + upstream.values("transfer-encoding").len();
    assert_eq!(framings, usize::from(message.kind != BodyKind::None), "exactly one framing, or none");
    assert_eq!(upstream.values("host").len(), 1);
    assert_eq!(upstream.values("x-forwarded-for"), [gateway::FORWARDED_FOR]);

    let options = options(client);
    let own = ["host", "content-length", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-request-id"];
    for (name, value) in &client.fields {
        let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let is_out = HOP.contains(&&plain[..]) || own.contains(&&plain[..]) || name == "expect";
        let arrived = upstream.fields.iter().any(|(other, text)| other == name && text == value);
        if is_out {
            assert!(!arrived || own.contains(&&name[..]) || name == "transfer-encoding", "{name} went through");
        } else if KEPT.contains(&&name[..]) || !options.contains(name) {
            assert!(arrived, "{name} was lost");
        }
    }
    for (name, _) in &upstream.fields {
        let is_own = own.contains(&&name[..]) || name == "transfer-encoding";
        assert!(is_own || client.fields.iter().any(|(other, _)| other == name), "{name} came from nowhere");
        assert!(is_own || !HOP.contains(&&name[..]), "{name} went through");
    }
}

/// What `sent` is to a client: one response with the upstream's meaning.
fn one_response(message: &Message, version: Version, method: &[u8], sent: &[u8]) {
    let Reading::Message(client) = oracle::response(sent, method, true) else {
        panic!("{:?}: {}", oracle::response(sent, method, true), sent.escape_ascii());
    };
    assert_eq!(client.length, sent.len(), "one response and no byte more");
    no_stray_controls(sent, client.body.len());
    assert_eq!(client.body, message.body);
    let framings = client.values("content-length").len() + client.values("transfer-encoding").len();
    assert!(framings <= 1, "one framing");
    assert!(client.is_framed() || version == Version::Http10);
    let is_chunked = !client.values("transfer-encoding").is_empty();
    assert!(version == Version::Http11 || !is_chunked, "HTTP/1.0 knows no chunks");
    for field in &message.fields {
        let name = String::from_utf8(field.name.to_ascii_lowercase()).unwrap();
        if field.is_hop_by_hop || field.known == Known::ContentLength {
            continue;
        }
        assert!(client.values(&name).contains(&&field.value[..]), "{name} was lost");
    }
}

/// In front of the body every CR is followed by an LF, every LF preceded by a CR, and there is no NUL.
fn no_stray_controls(sent: &[u8], body: usize) {
    let head = sent.windows(4).position(|four| four == b"\r\n\r\n").map_or(sent.len() - body, |at| at + 4);
    for (at, &byte) in sent[..head].iter().enumerate() {
        match byte {
            b'\r' => assert_eq!(sent[at + 1], b'\n'),
            b'\n' => assert_eq!(sent[at - 1], b'\r'),
            byte => assert!(byte >= 0x20 || byte == b'\t', "control byte {byte:#x}"),
        }
    }
}
