//! A table of raw requests with the outcome that the RFCs require of a server, in the manner of the public probe suites for HTTP/1.1 servers: what
//! must be refused, what must be accepted, and after what the connection ends. Where the RFCs leave a choice the gateway's is named.
//!
//! Each is sent twice: with the next request behind it in the same write, and with the next request once the response is there. The upstream
//! keeps account of what reached it, so that content which was taken for a request, or a request for content, is seen.

mod public;
mod rows;

use testkit::{RawClient, Recorded, Upstream, Weir};

use rows::{BAD, CONTENT, FIELDS, FRAMING, REQUEST_LINE};

/// What has to come of a request.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    /// One of these statuses, `Connection: close`, and the end of the connection: where the next request begins is not certain.
    Refused(&'static [u16]),
    /// One of these statuses; the connection may go on.
    Declined(&'static [u16]),
    /// The upstream's response, and the connection goes on.
    Served,
    /// The upstream's response, and the end of the connection.
    ServedLast,
    /// No response, but the end of the connection: there was no request.
    Closed,
}
use Outcome::{Closed, Declined, Refused, Served, ServedLast};

fn gateway(upstream: &Upstream) -> Weir {
    let yaml = format!(
        "listen: [127.0.0.1:0]\nworkers: 1\nserver: {{head_timeout: 100ms, body_idle_timeout: 100ms, keep_alive: 20s}}\nupstreams:\n  u:\n    \
         targets: [{}]\n    eject: none\nroutes:\n  - match: {{path: /*}}\n    upstream: u\n",
        upstream.url()
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

/// The next request on the connection.
const NEXT: &str = "GET /next HTTP/1.1\r\nHost: test\r\n\r\n";

/// Whether the next request is sent with the one before it, or after the response to that.
#[derive(Debug, Clone, Copy)]
enum Next {
    AtOnce,
    Later,
}

/// A request, its content as a reader sees it that knows no leniency, and what has to come of it.
struct Probe {
    name: String,
    bytes: Vec<u8>,
    content: Vec<u8>,
    outcome: Outcome,
}

impl Probe {
    fn new(name: &str, section: &str, bytes: &str, outcome: Outcome) -> Self {
        let bytes = as_bytes(bytes);
        Probe { name: format!("{name} (RFC {section})"), content: content(&bytes), bytes, outcome }
    }

    /// Sends it, and says what is wrong with what comes of it.
    fn send(&self, weir: &Weir, upstream: &Upstream, next: Next) -> Result<(), String> {
        upstream.forget();
        let mut client: RawClient = weir.connect();
        if matches!(self.outcome, Closed) {
            client.half_close();
            return if client.read_to_close().is_empty() { Ok(()) } else { Err("a response to nothing".into()) };
        }
        let method = String::from_utf8_lossy(&self.bytes).split(' ').next().unwrap_or_default().trim().to_owned();
        let behind = if matches!(next, Next::AtOnce) { NEXT.as_bytes() } else { b"" };
        // It may be refused while it is still being sent.
        let _ = client.try_send([&self.bytes, behind].concat());
        let response = client.try_read_response_to(&method).map_err(|error| error.to_string())?;
        let closes = response.field("connection") == Some("close");
        let (is_right, ends) = match self.outcome {
            Refused(statuses) => (statuses.contains(&response.status()) && closes, true),
            Declined(statuses) => (statuses.contains(&response.status()), closes),
            Served => (response.status() == 200 && response.field("saw").is_some() && !closes, false),
            ServedLast => (response.status() == 200 && response.field("saw").is_some() && closes, true),
            Closed => (false, true),
        };
        if !is_right {
            return Err(format!("{} {}{}", response.status(), response.text(), if closes { ", closes" } else { "" }));
        }
        // RFC 9110 section 15.2.
        if response.head.version() == "HTTP/1.0" || is_old(&self.bytes) && !response.interim.is_empty() {
            return Err("an interim response in HTTP/1.0".into());
        }
        if ends {
            client.half_close();
            let rest = client.read_to_close();
            if !rest.is_empty() {
                return Err(format!("then came {}", rest.escape_ascii()));
            }
        } else {
            if matches!(next, Next::Later) {
                client.try_send(NEXT).map_err(|error| error.to_string())?;
            }
            let response = client.try_read_response().map_err(|error| format!("the next request: {error}"))?;
            if response.field("saw") != Some("GET /next") {
                return Err(format!("the next request got {} {:?}", response.status(), response.field("saw")));
            }
        }
        self.has_reached(&method, &upstream.requests(), !ends)
    }

    /// Whether the upstream got what it should, and nothing else.
    fn has_reached(&self, method: &str, requests: &[Recorded], has_next: bool) -> Result<(), String> {
        // A request that is refused within its content may have begun there.
        let mut whole = requests.iter().filter(|request| request.complete);
        let is_served = matches!(self.outcome, Served | ServedLast);
        if is_served {
            let first = whole.next().ok_or("it did not reach the upstream")?;
            if first.head.method() != method || first.body != self.content {
                return Err(format!("{} with the content {} came", first.head.start, first.body.escape_ascii()));
            }
        }
        if has_next && whole.next().is_none_or(|request| request.head.target() != "/next") {
            return Err("the next request did not reach the upstream".into());
        }
        let more: Vec<&str> = whole.map(|request| request.head.start.as_str()).collect();
        // One that was begun and broken off is at most the one that was sent.
        let is_other = |request: &&Recorded| !request.complete && request.head.method() != method;
        match (more.is_empty(), requests.iter().find(is_other)) {
            (true, None) => Ok(()),
            (true, Some(other)) => Err(format!("the upstream got {}", other.head.start)),
            (false, _) => Err(format!("the upstream got more: {more:?}")),
        }
    }
}

fn is_old(bytes: &[u8]) -> bool {
    let line = bytes.split(|&byte| byte == b'\r').next().unwrap_or_default();
    line.ends_with(b"HTTP/1.0")
}

/// The content of a request that is valid.
fn content(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, mut rest)) = text.trim_start().split_once("\r\n\r\n") else { return Vec::new() };
    let head = head.to_ascii_lowercase();
    if head.contains("\r\ncontent-length:") {
        return rest.into();
    }
    let mut content = Vec::new();
    if head.contains("\r\ntransfer-encoding:") {
        while let Some((line, behind)) = rest.split_once("\r\n") {
            let size = usize::from_str_radix(line.split(';').next().unwrap_or_default(), 16).unwrap_or_default();
            if size == 0 || behind.len() < size + 2 {
                break;
            }
            content.extend_from_slice(&behind.as_bytes()[..size]);
            rest = behind.get(size + 2..).unwrap_or_default();
        }
    }
    content
}

/// A character is a byte.
fn as_bytes(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect()
}

fn probes() -> Vec<Probe> {
    let heads = REQUEST_LINE
        .iter()
        .chain(FIELDS)
        .map(|&(name, section, text, outcome)| (name, section, text.to_owned(), outcome));
    let framing = FRAMING.iter().map(|&(name, section, text, outcome)| {
        let (fields, content) = text.split_once('|').unwrap();
        let fields = fields.replace("{n}", &content.len().to_string());
        (name, section, format!("POST / HTTP/1.1\r\nHost: test\r\n{fields}\r\n\r\n{content}"), outcome)
    });
    let content = CONTENT.iter().map(|&(name, section, text, outcome)| {
        let [line, fields, content] = text.splitn(3, '|').collect::<Vec<_>>()[..] else {
            panic!("three parts: {text}")
        };
        let fields = fields.replace("{n}", &content.len().to_string());
        (name, section, format!("{line}\r\nHost: test\r\n{fields}\r\n\r\n{content}"), outcome)
    });
    let long = "A".repeat(100_000);
    let many = "A: b\r\n".repeat(10_000);
    let large = [
        ("a target of 100 kB", "9110 15.5.15", format!("GET /{long} HTTP/1.1\r\nHost: test\r\n\r\n"), Refused(&[414])),
        ("a method of 100 kB", "9112 3", format!("{long} / HTTP/1.1\r\nHost: test\r\n\r\n"), Refused(&[400, 414, 501])),
        ("a method of 33 bytes", "9112 3", format!("{} / HTTP/1.1\r\nHost: test\r\n\r\n", &long[..33]), BAD),
        (
            "a value of 100 kB",
            "9110 5.4",
            format!("GET / HTTP/1.1\r\nHost: test\r\nA: {long}\r\n\r\n"),
            Refused(&[431]),
        ),
        ("a name of 100 kB", "9110 5.4", format!("GET / HTTP/1.1\r\nHost: test\r\n{long}: b\r\n\r\n"), Refused(&[431])),
        ("a Host of 100 kB", "9110 5.4", format!("GET / HTTP/1.1\r\nHost: {long}\r\n\r\n"), Refused(&[431])),
        ("10,000 fields", "6585 5", format!("GET / HTTP/1.1\r\nHost: test\r\n{many}\r\n"), Refused(&[431])),
        (
            "extensions of 64 kB",
            "9112 7.1.1",
            format!(
                "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n5;a={}\r\nhello\r\n0\r\n\r\n",
                &long[..65_536]
            ),
            BAD,
        ),
        (
            "a trailer of 64 kB",
            "9112 7.1.2",
            format!(
                "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: {}\r\n\r\n",
                &long[..65_536]
            ),
            Refused(&[400, 431]),
        ),
        (
            "a request line of 8,000 bytes",
            "9112 3",
            format!("GET /{} HTTP/1.1\r\nHost: test\r\n\r\n", &long[..7_986]),
            Served,
        ),
    ];
    let all = heads.chain(framing).chain(content).chain(large);
    all.map(|(name, section, text, outcome)| Probe::new(name, section, &text, outcome)).collect()
}

#[test]
fn every_case_of_the_table_is_right() {
    let upstream = Upstream::start(|conn, request| {
        let saw = format!("{} {}", request.head.method(), request.head.target());
        conn.respond(200, &[("Saw", &saw)], "hello")
    });
    let weir = gateway(&upstream);
    let probes = probes();
    assert!(probes.len() >= 290, "{}", probes.len());
    let mut wrong = Vec::new();
    for probe in &probes {
        for next in [Next::Later, Next::AtOnce] {
            // What does not come is waited for in vain: the next request would be taken for it.
            if matches!((probe.outcome, next), (Refused(&[408]) | Closed, Next::AtOnce)) {
                continue;
            }
            if let Err(why) = probe.send(&weir, &upstream, next) {
                let shown = probe.bytes[..probe.bytes.len().min(200)].escape_ascii();
                wrong
                    .push(format!("{}, the next {next:?}, expected {:?}: {why}\n  {shown}", probe.name, probe.outcome));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases are wrong:\n{}", wrong.len(), probes.len(), wrong.join("\n"));
    println!("{} cases are right", probes.len());
}

#[test]
fn every_case_of_the_public_suite_is_a_row() {
    let names: Vec<String> = probes().into_iter().map(|probe| probe.name).collect();
    let rows = |name: &str| names.iter().filter(|row| row.rsplit_once(" (RFC ").unwrap().0 == name).count();
    for (case, name) in public::CASES {
        assert_eq!(rows(name), 1, "{case} is {name}");
    }
    let mut cases: Vec<&str> = public::CASES.iter().map(|&(case, _)| case).collect();
    cases.sort_unstable();
    cases.dedup();
    assert_eq!(cases.len(), public::CASES.len(), "a case is named once");
}

/// Content that is announced as none is the next request, in the same words as it was sent.
#[test]
fn what_stands_behind_a_body_of_0_is_the_next_request() {
    let upstream = Upstream::start(|conn, request| conn.respond(200, &[("Saw", &request.head.start)], ""));
    let weir = gateway(&upstream);
    let mut client = weir.connect();
    client.send(format!("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\nX{NEXT}"));
    assert_eq!(client.read_response().field("saw"), Some("POST / HTTP/1.1"));
    assert_eq!(client.read_response().field("saw"), Some("XGET /next HTTP/1.1"));
}

/// A client that waits for an interim response, is refused without one, and sends on: until the announced length it is content.
#[test]
fn what_is_sent_after_a_refused_expectation_is_content() {
    let upstream = Upstream::start(|conn, request| conn.respond(200, &[("Saw", &request.head.start)], ""));
    let weir = gateway(&upstream);
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: test\r\n\r\n";
    for (target, expectation, status) in [("/%00", "100-continue", 400), ("/", "tea", 417)] {
        let mut client = weir.connect();
        let length = smuggled.len();
        client.send(format!(
            "POST {target} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\nExpect: {expectation}\r\n\r\n"
        ));
        let response = client.read_response();
        assert_eq!((response.status(), response.interim.len()), (status, 0));
        if response.field("connection") == Some("close") {
            client.half_close();
            assert_eq!(client.read_to_close(), b"");
        } else {
            client.send(format!("{smuggled}{NEXT}"));
            assert_eq!(client.read_response().field("saw"), Some("GET /next HTTP/1.1"));
        }
        assert!(upstream.requests().iter().all(|request| request.head.target() == "/next"));
    }
}
