//! Bytes as a schedule: what each side sends, how much of it at once, when it closes, stops reading, and how much time passes.

use std::fmt;

/// One thing that happens.
#[derive(Clone)]
pub(super) enum Step {
    ClientQueues(Vec<u8>),
    /// Of what is queued, in 255ths.
    ClientWrites(u8),
    ClientEnds(End),
    ClientReads(bool),
    UpstreamQueues(Vec<u8>),
    UpstreamWrites(u8),
    UpstreamEnds(End),
    UpstreamReads(bool),
    /// Share of a timeout.
    TimePasses(f64),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    HalfClose,
    Close,
    Reset,
}

/// More steps find nothing new and cost time.
const MOST: usize = 48;
/// Where the clock cannot be moved, waiting takes time.
const MOST_WAITS: usize = if cfg!(fuzzing) { MOST } else { 3 };

const ROUTES: [&str; 9] = ["again", "once", "small", "ttl", "http", "dead", "few", "here", "nowhere"];

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn or_zero(&mut self) -> u8 {
        self.next().unwrap_or_default()
    }

    /// Bytes with their length before them.
    fn raw(&mut self) -> Vec<u8> {
        let length = usize::from(self.or_zero()).min(self.0.len());
        let (raw, rest) = self.0.split_at(length);
        self.0 = rest;
        raw.to_vec()
    }
}

pub(super) fn steps(input: &[u8]) -> Vec<Step> {
    let mut input = Input(input);
    let mut steps = Vec::new();
    let (mut requests, mut responses, mut waits) = (0, 0, 0);
    while steps.len() < MOST
        && let Some(code) = input.next()
    {
        match code % 16 {
            kind @ 0..=2 => {
                steps.push(Step::ClientQueues(request(&mut input, requests)));
                requests += 1;
                if kind < 2 {
                    steps.push(Step::ClientWrites(255));
                }
            }
            3 | 4 => steps.push(Step::ClientWrites(input.or_zero())),
            kind @ 5..=7 => {
                steps.push(Step::UpstreamQueues(response(&mut input, responses)));
                responses += 1;
                if kind < 7 {
                    steps.push(Step::UpstreamWrites(255));
                }
            }
            8 | 9 => steps.push(Step::UpstreamWrites(input.or_zero())),
            10 | 11 if waits < MOST_WAITS => {
                waits += 1;
                steps.push(Step::TimePasses(
                    [0.01, 0.3, 0.6, 1.1, 1.1, 2.0, 6.0, 10.0][usize::from(input.or_zero() % 8)],
                ));
            }
            10 | 11 => {}
            12 => steps.push(Step::ClientEnds(end(input.or_zero()))),
            13 => steps.push(Step::UpstreamEnds(end(input.or_zero()))),
            14 => steps.push(Step::ClientReads(input.or_zero() % 2 == 1)),
            _ => steps.push(Step::UpstreamReads(input.or_zero() % 2 == 1)),
        }
    }
    steps
}

fn end(code: u8) -> End {
    [End::HalfClose, End::Close, End::Reset][usize::from(code % 3)]
}

/// A body that is a request to whoever loses the count.
fn smuggled(number: usize, length: usize) -> String {
    let one = format!("GET /again/smuggled{number} HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut body = one.repeat(length / one.len() + 1);
    body.truncate(length);
    body
}

/// A request; its path says which it is, except on routes with a cache, where two of them share a response.
fn request(input: &mut Input<'_>, number: usize) -> Vec<u8> {
    let (kind, choice) = (input.or_zero(), input.or_zero());
    let route = ROUTES[usize::from(choice) % ROUTES.len()];
    let number = if matches!(route, "ttl" | "http") { number % 2 } else { number };
    let target = format!("/{route}/{number}");
    let text = match kind % 20 {
        0..=2 => format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"),
        3 => format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 60\r\n\r\n{}", smuggled(number, 60)),
        4 => {
            let body = smuggled(number, 70);
            let (a, b) = body.split_at(20);
            format!(
                "POST {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n14;x=\"y\"\r\n{a}\r\n32\r\n{b}\r\n0\r\nT: u\r\n\r\n"
            )
        }
        5 => format!("HEAD {target} HTTP/1.1\r\nHost: a\r\n\r\n"),
        6 => format!("GET {target} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
        7 => format!(
            "PUT {target} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 60\r\n\r\n{}",
            smuggled(number, 60)
        ),
        8 => format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
        9 => format!("PUT {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 40000\r\n\r\n{}", smuggled(number, 40000)),
        10 => format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
        11 => "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        12 => format!("GET {target} HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"v1\"\r\n\r\n"),
        13 => format!("GET {target} HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2\r\nCache-Control: no-cache\r\n\r\n"),
        14 => format!("DELETE {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nGET "),
        15 => format!("GET {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 60\r\n\r\n{}", smuggled(number, 60)),
        16 => {
            // A large chunked body, in chunks larger than what is copied.
            let body = smuggled(number, 20000);
            format!(
                "POST {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4e20\r\n{body}\r\n4e20\r\n{body}\r\n0\r\n\r\n"
            )
        }
        _ => return input.raw(),
    };
    if kind >= 200 {
        // Tampered with at one place.
        let mut bytes = text.into_bytes();
        let at = usize::from(input.or_zero()).min(bytes.len());
        let raw = input.raw();
        bytes.splice(at..at, raw);
        return bytes;
    }
    text.into_bytes()
}

fn response(input: &mut Input<'_>, number: usize) -> Vec<u8> {
    let kind = input.or_zero();
    let body = format!("response {number} HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad");
    let length = body.len();
    let text = match kind % 24 {
        0..=2 => format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"),
        3 => format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}\r\n{:x};e\r\n{}\r\n0\r\nT: u\r\n\r\n",
            &body[..5],
            length - 5,
            &body[5..]
        ),
        4 => format!("HTTP/1.1 200 OK\r\n\r\n{body}"),
        5 => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        6 => format!("HTTP/1.1 304 Not Modified\r\nContent-Length: {length}\r\nETag: \"v1\"\r\n\r\n"),
        7 => format!(
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"
        ),
        8 => format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"),
        9 => "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n".to_owned(),
        10 => format!("HTTP/1.1 503 Service Unavailable\r\nContent-Length: {length}\r\n\r\n{body}"),
        11 => {
            let large = format!("large {number} ").repeat(20_000);
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{large}", large.len())
        }
        12 => format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"v1\"\r\nContent-Length: {length}\r\n\r\n{body}"
        ),
        13 => format!("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: {length}\r\n\r\n{body}"),
        // Two at once: the second one is a response to nothing.
        14 => format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond"
        ),
        15 => format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"),
        16 => format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=0, stale-while-revalidate=60\r\nETag: \"v1\"\r\nContent-Length: {length}\r\n\r\n{body}"
        ),
        17 => format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"
        ),
        18 => format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 1-2/{length}\r\nContent-Length: 2\r\n\r\n{}",
            &body[1..3]
        ),
        19 => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned(),
        20 => format!("HTTP/1.1 204 No Content\r\nContent-Length: {length}\r\n\r\n{body}"),
        _ => return input.raw(),
    };
    if kind >= 216 {
        let mut bytes = text.into_bytes();
        let at = usize::from(input.or_zero()).min(bytes.len());
        let raw = input.raw();
        bytes.splice(at..at, raw);
        return bytes;
    }
    text.into_bytes()
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = |bytes: &[u8]| format!("{}", bytes[..bytes.len().min(300)].escape_ascii());
        match self {
            Step::ClientQueues(bytes) => write!(f, "client queues {} bytes: {}", bytes.len(), cut(bytes)),
            Step::ClientWrites(share) => write!(f, "client writes {share}/255 of what is queued"),
            Step::ClientEnds(how) => write!(f, "client: {how:?}"),
            Step::ClientReads(reads) => write!(f, "client reads: {reads}"),
            Step::UpstreamQueues(bytes) => write!(f, "upstream queues {} bytes: {}", bytes.len(), cut(bytes)),
            Step::UpstreamWrites(share) => write!(f, "upstream writes {share}/255 of what is queued"),
            Step::UpstreamEnds(how) => write!(f, "upstream: {how:?}"),
            Step::UpstreamReads(reads) => write!(f, "upstream reads: {reads}"),
            Step::TimePasses(share) => write!(f, "{share} of a timeout passes"),
        }
    }
}
