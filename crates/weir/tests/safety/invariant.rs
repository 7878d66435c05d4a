//! The invariant over all rules: for every input either the gateway responds with an error or closes and the upstream sees no whole request,
//! or the upstream sees requests with one framing that every parser reads alike. The inputs are those that the fuzzers of the codec start from,
//! tampered with by a generator that repeats.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use testkit::{Conn, RawClient, Upstream, Weir, WireError, responder};

use crate::oracle::{self, Message, Reading};

/// The gateway does not wait long for clients that have no more to say; how long decides only how long these tests take.
const CLIENT_TIMEOUTS: &str = "server: {head_timeout: 60ms, body_idle_timeout: 60ms, keep_alive: 60ms}\n";
/// Nor for upstreams that have no more to say.
const UPSTREAM_TIMEOUTS: &str = "    timeouts: {first_byte: 60ms, idle: 60ms}\n";
/// Inputs made of each one of the corpus.
const VARIANTS: u64 = 6;
/// Gateways that work through the inputs side by side: nearly all time is waiting.
const WORKERS: usize = 6;

/// The fuzzers' inputs of a target whose names begin so.
fn corpus(target: &str, prefix: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../h1/fuzz/corpus").join(target);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let is_meant = |path: &&std::path::PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(prefix);
    files.iter().filter(is_meant).map(|path| std::fs::read(path).unwrap()).collect()
}

/// The inputs, and copies of them that were tampered with.
fn tampered(inputs: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    const PIECES: [&[u8]; 14] = [
        b"\r\n",
        b"\n",
        b"\r",
        b"\0",
        b" ",
        b"\t",
        b"0\r\n\r\n",
        b";",
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close, Host, Content-Length\r\n",
        b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\r\n\r\n",
        b"\xff",
    ];
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut all = Vec::new();
    for input in inputs {
        for variant in 0..VARIANTS {
            let mut bytes = input.clone();
            for _ in 0..variant.min(2) {
                let at = random.below(bytes.len() + 1);
                match random.below(3) {
                    0 => drop(bytes.splice(at..at, PIECES[random.below(PIECES.len())].iter().copied())),
                    1 => drop(bytes.drain(at..bytes.len().min(at + 1 + random.below(4)))),
                    _ if at < bytes.len() => bytes[at] = random.below(256) as u8,
                    _ => {}
                }
            }
            all.push(bytes);
        }
    }
    all
}

/// A generator that repeats (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

fn gateway(upstream: &Upstream, timeouts: &str) -> Weir {
    let yaml = format!(
        "listen: [127.0.0.1:0]\nworkers: 1\n{CLIENT_TIMEOUTS}upstreams:\n  u:\n    targets: [{}]\n    eject: none\n    \
         retry: {{extra_attempts: 0}}\n{timeouts}routes:\n  - match: {{path: /*}}\n    upstream: u\n",
        upstream.url()
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

/// Works through `inputs` on several gateways at once, each with an upstream of its own.
fn in_parallel(inputs: &[Vec<u8>], worker: impl Fn(&[Vec<u8>]) + Sync) {
    std::thread::scope(|scope| {
        for part in inputs.chunks(inputs.len().div_ceil(WORKERS)) {
            scope.spawn(|| worker(part));
        }
    });
}

/// What an upstream was sent, by the grammar.
#[derive(Default)]
struct Seen {
    requests: Vec<Message>,
    broken: Vec<String>,
}

/// Reads one connection by the grammar alone, and responds to every whole request.
fn read_by_the_grammar(conn: &mut Conn, seen: &Mutex<Seen>) -> Result<(), WireError> {
    let mut bytes = Vec::new();
    loop {
        match oracle::request(&bytes) {
            Reading::Message(request) if !bytes.starts_with(b"\r\n") => {
                bytes.drain(..request.length);
                seen.lock().unwrap().requests.push(request);
                conn.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
            }
            Reading::Incomplete => {
                let more = conn.read_raw()?;
                if more.is_empty() {
                    return Ok(());
                }
                bytes.extend_from_slice(&more);
            }
            reading => {
                seen.lock().unwrap().broken.push(format!("{reading:?}: {}", bytes.escape_ascii()));
                return Ok(());
            }
        }
    }
}

/// Fields that one connection's owner writes; none goes through.
const OF_THE_CONNECTION: [&str; 7] =
    ["connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade", "expect"];

fn is_sound(request: &Message, sent: &[u8]) {
    let sent = sent.escape_ascii();
    let framings = request.values("content-length").len() + request.values("transfer-encoding").len();
    assert!(framings <= 1 && (framings == 1 || request.body.is_empty()), "{sent}");
    assert_eq!(request.start[2], b"HTTP/1.1");
    assert_eq!(request.values("host").len(), 1, "{sent}");
    assert_eq!(request.values("x-forwarded-for"), [b"127.0.0.1"], "{sent}");
    assert_eq!(request.values("x-request-id").len(), 1, "{sent}");
    for name in OF_THE_CONNECTION {
        assert!(request.values(name).is_empty(), "{name}: {sent}");
    }
    let plain = |name: &String| name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let names: Vec<String> = request.fields.iter().map(|(name, _)| plain(name)).collect();
    for own in ["host", "content-length", "transfer-encoding", "x-forwarded-for", "x-request-id"] {
        assert!(names.iter().filter(|name| *name == own).count() <= 1, "{own} under two spellings: {sent}");
    }
}

#[test]
fn what_reaches_an_upstream_is_one_request_each_with_one_framing() {
    let mut inputs = corpus("request_head", "");
    // The first byte of these says which side of a connection they are.
    inputs.extend(corpus("connection", "request").into_iter().map(|input| input[1..].to_vec()));
    let prefix = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    inputs.extend(corpus("chunked", "").into_iter().map(|body| [&prefix[..], &body].concat()));
    let arrived = Mutex::new(0);
    in_parallel(&tampered(inputs), |inputs| {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let record = Arc::clone(&seen);
        let upstream = Upstream::connections(move |conn| read_by_the_grammar(conn, &record));
        let weir = gateway(&upstream, "");
        for (number, input) in inputs.iter().enumerate() {
            let mut client = weir.connect();
            if number % 2 == 0 {
                let _ = client.try_send(input);
            } else {
                client.send_random_splits(input, number as u64);
            }
            client.read_to_close();
            let seen = std::mem::take(&mut *seen.lock().unwrap());
            assert_eq!(seen.broken, Vec::<String>::new(), "made of {}", input.escape_ascii());
            *arrived.lock().unwrap() += seen.requests.len();
            let mut expected = requests_by_the_grammar(input).into_iter();
            for request in &seen.requests {
                is_sound(request, input);
                // Those that the gateway serves itself are passed over.
                let is_it = |sent: &Message| sent.start[0] == request.start[0] && sent.body == request.body;
                assert!(expected.any(|sent| is_it(&sent)), "{request:?} came of {}", input.escape_ascii());
            }
        }
        assert!(!weir.stderr().contains("panicked"), "{}", weir.stderr());
    });
    let arrived = arrived.into_inner().unwrap();
    assert!(arrived > 30, "only {arrived} requests were let through");
}

/// The whole requests in front of the first thing that is none.
fn requests_by_the_grammar(mut bytes: &[u8]) -> Vec<Message> {
    let mut requests = Vec::new();
    while let Reading::Message(request) = oracle::request(bytes) {
        bytes = &bytes[request.length..];
        requests.push(request);
    }
    requests
}

#[test]
fn what_reaches_a_client_is_one_response_or_visibly_none() {
    let mut inputs: Vec<Vec<u8>> =
        corpus("connection", "response").into_iter().map(|input| input[1..].to_vec()).collect();
    inputs.extend(corpus("response_head", ""));
    let statuses = Mutex::new(BTreeSet::new());
    in_parallel(&tampered(inputs), |inputs| {
        let upstream = Upstream::start(responder::ok(""));
        let weir = gateway(&upstream, UPSTREAM_TIMEOUTS);
        for (number, input) in inputs.iter().enumerate() {
            let closes = number % 2 == 0;
            upstream.set_responder(if closes {
                responder::raw_then_close(&input[..])
            } else {
                responder::raw(&input[..])
            });
            let method = if number % 5 == 4 { "HEAD" } else { "GET" };
            let mut client: RawClient = weir.connect();
            client.send(format!("{method} / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
            let got = client.read_to_close();
            match final_response(&got, method, false) {
                Some((response, rest)) => {
                    assert!(rest.is_empty() && response.is_framed(), "{}", got.escape_ascii());
                    statuses.lock().unwrap().insert(String::from_utf8(response.start[1].clone()).unwrap());
                    if response.values("content-type") != [b"application/problem+json"] {
                        let Some((meant, _)) = final_response(input, method, closes) else {
                            panic!("{} came of {}", got.escape_ascii(), input.escape_ascii());
                        };
                        assert_eq!((&response.start[1], &response.body), (&meant.start[1], &meant.body));
                    }
                }
                None => {
                    let rest = behind_interim(&got, method);
                    assert_eq!(
                        oracle::response(rest, method.as_bytes(), false),
                        Reading::Incomplete,
                        "{}",
                        got.escape_ascii()
                    );
                }
            }
        }
        assert!(!weir.stderr().contains("panicked"), "{}", weir.stderr());
    });
    let statuses = statuses.into_inner().unwrap();
    assert!(statuses.contains("200") && statuses.contains("502"), "{statuses:?}");
}

/// The first response that is not interim, and what follows it; `None` where there is no whole one.
fn final_response<'a>(bytes: &'a [u8], method: &str, closed: bool) -> Option<(Message, &'a [u8])> {
    let rest = behind_interim(bytes, method);
    match oracle::response(rest, method.as_bytes(), closed) {
        Reading::Message(response) => {
            let rest = &rest[response.length..];
            Some((response, rest))
        }
        _ => None,
    }
}

fn behind_interim<'a>(mut bytes: &'a [u8], method: &str) -> &'a [u8] {
    while let Reading::Message(response) = oracle::response(bytes, method.as_bytes(), false) {
        if response.start[1][0] != b'1' {
            break;
        }
        bytes = &bytes[response.length..];
    }
    bytes
}
