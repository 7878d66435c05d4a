//! The generator over WebSocket, against a server that speaks the protocol by hand, rightly and wrongly.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::prelude::{BASE64_STANDARD, Engine};
use gauge::load::{Generator, Options, Prepared, Workload};
use gauge::results::Report;
use gauge::results::report::WebSocket;

/// What the server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Echo,
    /// A ping before each echo; the echo comes when the pong has.
    Pings,
    /// The echo in three fragments, with an unsolicited pong between them, a byte in each write.
    Fragments,
    OtherBytes,
    OtherKind,
    /// The message before the last one.
    Late,
    Twice,
    Masks,
    Longer,
    /// A close frame with this code instead of the echo of each third message.
    Closes(u16),
    /// The end of the connection, without a close frame.
    Drops,
    /// A close frame after each echo.
    ClosesAfter,
    Silence,
    Status(&'static str),
    WrongAccept,
    /// The echo, and this frame while the generator has nothing in flight: its opcode.
    Later(u8),
    /// An interim response, then the 101 in two pieces with a ping behind it.
    Greets,
}

/// What reached the server.
#[derive(Debug, Default, Clone)]
struct Seen {
    connections: u64,
    messages: Vec<Vec<u8>>,
    texts: u64,
    unmasked: u64,
    pongs: Vec<Vec<u8>>,
    closes: Vec<u16>,
    heads: Vec<String>,
}

struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

impl Server {
    fn start(does: Does) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, does, &seen));
            }
        });
        Server { address, seen }
    }

    fn seen(&self) -> Seen {
        self.seen.lock().expect("no panic").clone()
    }

    fn run(&self, load: &str, websocket: &str) -> Report {
        let yaml = format!(
            "base: ws://{}\noperations: [{{id: talk, path: /chat, headers: {{Sec-WebSocket-Protocol: 'a, b'}}}}]\nload: {load}\n\
             websocket: {websocket}\ntimeout: 1s\n",
            self.address
        );
        let workload: Workload = serde_saphyr::from_str(&yaml).unwrap_or_else(|error| panic!("{yaml}\n{error}"));
        let prepared = Prepared::new(&workload).expect("a workload that makes sense");
        let options = Options { threads: Some(2), ..Options::default() };
        Generator::new(prepared, options).run().expect("a report")
    }
}

fn write_frame(out: &mut Vec<u8>, first: u8, payload: &[u8]) {
    out.push(first);
    match payload.len() {
        short @ 0..=125 => out.push(short as u8),
        medium @ 126..=0xFFFF => {
            out.push(126);
            out.extend_from_slice(&(medium as u16).to_be_bytes());
        }
        long => {
            out.push(127);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(payload);
}

/// Opcode and payload of a frame, which is never fragmented here.
fn read_frame(stream: &mut TcpStream, seen: &Mutex<Seen>) -> io::Result<(u8, Vec<u8>)> {
    let mut two = [0; 2];
    stream.read_exact(&mut two)?;
    let mut length = u64::from(two[1] & 0x7F);
    if length == 126 {
        let mut more = [0; 2];
        stream.read_exact(&mut more)?;
        length = u64::from(u16::from_be_bytes(more));
    } else if length == 127 {
        let mut more = [0; 8];
        stream.read_exact(&mut more)?;
        length = u64::from_be_bytes(more);
    }
    let mut mask = [0; 4];
    if two[1] & 0x80 == 0 {
        seen.lock().expect("no panic").unmasked += 1;
    } else {
        stream.read_exact(&mut mask)?;
    }
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload)?;
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, key)| *byte ^= key);
    assert_eq!(two[0] & 0xF0, 0x80, "one frame is one message");
    Ok((two[0] & 0xF, payload))
}

fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8(head).expect("text"))
}

fn serve(mut stream: TcpStream, does: Does, seen: &Mutex<Seen>) -> io::Result<()> {
    let note = |what: &dyn Fn(&mut Seen)| what(&mut seen.lock().expect("no panic"));
    stream.set_nodelay(true)?;
    note(&|seen| seen.connections += 1);
    let head = read_head(&mut stream)?;
    let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).expect("a key").to_owned();
    note(&|seen| seen.heads.push(head.clone()));
    let suffix = if does == Does::WrongAccept { "x" } else { "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" };
    let accept = BASE64_STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{suffix}").as_bytes()));
    if let Does::Status(status) = does {
        return stream.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nno").as_bytes());
    }
    let response = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nconnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\
         Sec-WebSocket-Protocol: b\r\n\r\n"
    );
    if does == Does::Greets {
        let (begin, end) = response.split_at(40);
        stream.write_all(format!("HTTP/1.1 103 Early Hints\r\n\r\n{begin}").as_bytes())?;
        let mut rest = end.as_bytes().to_vec();
        write_frame(&mut rest, 0x89, b"hello");
        stream.write_all(&rest)?;
    } else {
        stream.write_all(response.as_bytes())?;
    }
    let mut last = Vec::new();
    let mut count = 0;
    loop {
        let (opcode, payload) = read_frame(&mut stream, seen)?;
        let mut out = Vec::new();
        match opcode {
            8 => {
                let code = u16::from_be_bytes([payload[0], payload[1]]);
                note(&|seen| seen.closes.push(code));
                write_frame(&mut out, 0x88, &payload);
                return stream.write_all(&out);
            }
            10 => {
                note(&|seen| seen.pongs.push(payload.clone()));
                continue;
            }
            _ => {}
        }
        count += 1;
        note(&|seen| {
            seen.messages.push(payload.clone());
            seen.texts += u64::from(opcode == 1);
        });
        let first = 0x80 | opcode;
        match does {
            Does::Pings => {
                write_frame(&mut out, 0x89, b"there?");
                stream.write_all(&out)?;
                let (opcode, pong) = read_frame(&mut stream, seen)?;
                assert_eq!((opcode, pong.as_slice()), (10, &b"there?"[..]));
                note(&|seen| seen.pongs.push(pong.clone()));
                out.clear();
                write_frame(&mut out, first, &payload);
            }
            Does::Fragments => {
                let third = payload.len() / 3;
                write_frame(&mut out, opcode, &payload[..third]);
                write_frame(&mut out, 0x8A, b"unsolicited");
                write_frame(&mut out, 0, &payload[third..third]);
                write_frame(&mut out, 0x80, &payload[third..]);
                for byte in &out {
                    stream.write_all(&[*byte])?;
                }
                continue;
            }
            Does::OtherBytes => {
                let mut other = payload.clone();
                *other.last_mut().expect("a byte") ^= 1;
                write_frame(&mut out, first, &other);
            }
            Does::OtherKind => write_frame(&mut out, 0x80 | (3 - opcode), &payload),
            Does::Late => write_frame(&mut out, first, if count == 1 { &payload } else { &last }),
            Does::Twice => {
                write_frame(&mut out, first, &payload);
                write_frame(&mut out, first, &payload);
            }
            Does::Masks => {
                write_frame(&mut out, first, &payload);
                out[1] |= 0x80;
                out.splice(2..2, [0; 4]);
            }
            Does::Longer => write_frame(&mut out, first, &[payload.as_slice(), b"x"].concat()),
            Does::Closes(code) if count % 3 == 0 => {
                write_frame(&mut out, 0x88, &code.to_be_bytes());
                stream.write_all(&out)?;
                let (opcode, sent) = read_frame(&mut stream, seen)?;
                assert_eq!(opcode, 8);
                note(&|seen| seen.closes.push(u16::from_be_bytes([sent[0], sent[1]])));
                return Ok(());
            }
            Does::Drops if count % 3 == 0 => return Ok(()),
            Does::Silence => continue,
            Does::ClosesAfter => {
                write_frame(&mut out, first, &payload);
                write_frame(&mut out, 0x88, &1001_u16.to_be_bytes());
            }
            _ => write_frame(&mut out, first, &payload),
        }
        last = payload;
        stream.write_all(&out)?;
        if let Does::Later(opcode) = does {
            // No message is in flight when the next one has not begun to arrive.
            stream.set_read_timeout(Some(Duration::from_millis(3)))?;
            let is_idle = stream.peek(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
            stream.set_read_timeout(None)?;
            if !is_idle {
                continue;
            }
            out.clear();
            write_frame(&mut out, 0x80 | opcode, &1001_u16.to_be_bytes());
            stream.write_all(&out)?;
        }
    }
}

/// Counts of errors by kind: connect, reset, timeout, status, bad reply, closed.
fn errors(report: &Report) -> [u64; 6] {
    let errors = &report.total.errors;
    let all = [errors.connect, errors.reset, errors.timeout, errors.status, errors.invalid_response, errors.closed];
    let all = all.map(|count| count.expect("counted"));
    assert_eq!(errors.total, Some(all.iter().sum()));
    all
}

fn websocket(report: &Report) -> &WebSocket {
    report.total.websocket.as_ref().expect("counts of WebSocket")
}

fn responses(report: &Report) -> u64 {
    report.total.requests.responses.expect("counted")
}

const CLOSED: &str = "{closed: {users: 3, iterations: 30}}";

#[test]
fn connections_are_kept_and_each_message_is_another_one() {
    for (does, kind, size) in
        [(Does::Echo, "binary", 128), (Does::Fragments, "text", 300), (Does::Echo, "binary", 70_000)]
    {
        let server = Server::start(does);
        let report = server.run(CLOSED, &format!("{{size: {size}, kind: {kind}}}"));
        let (total, seen) = (&report.total, server.seen());
        assert_eq!((responses(&report), errors(&report)), (30, [0; 6]), "{does:?}: {total:?}");
        assert_eq!((websocket(&report).handshakes, total.connections_opened, seen.connections), (3, Some(3), 3));
        assert_eq!(websocket(&report).handshake.as_ref().and_then(|all| all.count), Some(3));
        assert_eq!(total.latency.as_ref().and_then(|latency| latency.count), Some(30));
        assert_eq!(total.statuses.as_ref().and_then(|all| all.get(&101)), Some(&30));
        assert_eq!(report.generator.protocol.as_deref(), Some("WebSocket"));
        let mut messages = seen.messages.clone();
        messages.sort();
        messages.dedup();
        assert_eq!((messages.len(), seen.unmasked), (30, 0), "each differs, and is masked");
        assert!(messages.iter().all(|message| message.len() == size));
        assert_eq!(seen.texts, if kind == "text" { 30 } else { 0 });
        assert_eq!(total.bytes.sent_bodies, Some(30 * size as u64));
        let (sent, frames) = (total.bytes.sent.expect("counted"), 30 * size as u64);
        let heads: u64 = seen.heads.iter().map(|head| head.len() as u64).sum();
        let header = match size {
            128 | 300 => 8,
            _ => 14,
        };
        assert_eq!(sent, frames + 30 * header + heads, "upgrades and frames");
        let mut keys: Vec<&str> = seen
            .heads
            .iter()
            .filter_map(|head| head.lines().find(|line| line.starts_with("Sec-WebSocket-Key")))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 3, "another key each time");
        for part in [
            "GET /chat HTTP/1.1\r\n",
            "Connection: Upgrade\r\n",
            "Upgrade: websocket\r\n",
            "Sec-WebSocket-Version: 13\r\n",
        ] {
            assert!(seen.heads[0].contains(part), "{}", seen.heads[0]);
        }
    }
}

#[test]
fn a_connection_has_the_messages_that_the_workload_says_and_is_closed_in_good_order() {
    let server = Server::start(Does::Echo);
    let report = server.run("{closed: {users: 2, iterations: 20}}", "{messages: 5}");
    assert_eq!((responses(&report), errors(&report)), (20, [0; 6]));
    assert_eq!((websocket(&report).handshakes, report.total.connections_opened), (4, Some(4)));
    testkit::wait::until(testkit::DEADLINE, "close frames", || server.seen().closes == [1000; 4]);
}

#[test]
fn an_open_loop_sends_messages_when_they_are_due() {
    let server = Server::start(Does::Echo);
    let report = server.run("{open: {rate: 400/s, duration: 500ms, connections: 4}}", "{}");
    let total = &report.total;
    assert_eq!((total.requests.scheduled, errors(&report)), (Some(200), [0; 6]), "{total:?}");
    assert_eq!(total.rate.requested, Some(400.0));
    assert_eq!(responses(&report) + total.requests.dropped.expect("counted"), 200);
    assert_eq!(total.lag.as_ref().and_then(|lag| lag.count), total.requests.sent);
    assert!(websocket(&report).handshakes <= 4, "{total:?}");
}

#[test]
fn pings_get_their_pong_also_between_messages() {
    let server = Server::start(Does::Pings);
    let report = server.run(CLOSED, "{}");
    assert_eq!((responses(&report), errors(&report), websocket(&report).pings), (30, [0; 6], 30));
    assert_eq!(server.seen().pongs.len(), 30);
    let server = Server::start(Does::Greets);
    let report = server.run(CLOSED, "{}");
    assert_eq!((responses(&report), errors(&report), websocket(&report).pings), (30, [0; 6], 3));
    assert_eq!(server.seen().pongs, [b"hello"; 3]);
}

/// One connection, whose next message is due long after what the server sends on its own.
#[test]
fn frames_that_come_while_nothing_is_in_flight_are_read() {
    let run = |does| {
        let server = Server::start(does);
        let report = server.run("{open: {rate: 5/s, duration: 1s, connections: 1}}", "{}");
        (server, report)
    };
    let (server, report) = run(Does::Later(9));
    assert_eq!((responses(&report), errors(&report), websocket(&report).handshakes), (5, [0; 6], 1));
    assert!(server.seen().pongs.len() >= 4, "the last may come after the end: {:?}", server.seen().pongs);
    assert!(websocket(&report).pings >= 4, "{:?}", websocket(&report));
    let (server, report) = run(Does::Later(8));
    assert_eq!((responses(&report), errors(&report), websocket(&report).handshakes), (5, [0; 6], 5));
    assert!(server.seen().closes.len() >= 4 && server.seen().closes.iter().all(|code| *code == 1001));
    let (_, report) = run(Does::Later(2));
    assert_eq!((responses(&report), errors(&report)), (3, [0, 0, 0, 0, 2, 0]), "every second one");
    assert_eq!(websocket(&report).first_error.as_deref(), Some("a message that was not sent came"));
}

#[test]
fn a_message_that_is_not_the_one_that_was_sent_is_an_error() {
    for (does, expected) in [
        (Does::OtherBytes, "a message came back with other bytes"),
        (Does::OtherKind, "a message came back as one of the other kind"),
        (Does::Masks, "a masked frame of a server"),
        (Does::Longer, "a message that is too long"),
    ] {
        let server = Server::start(does);
        let report = server.run(CLOSED, "{size: 64, kind: text}");
        assert_eq!((responses(&report), errors(&report)), (0, [0, 0, 0, 0, 30, 0]), "{does:?}");
        assert_eq!(websocket(&report).first_error.as_deref(), Some(expected));
        assert_eq!(websocket(&report).handshakes, 30, "another connection after each");
    }
    // The first of each connection is right.
    let report = Server::start(Does::Late).run("{closed: {users: 1, iterations: 10}}", "{size: 64}");
    assert_eq!((responses(&report), errors(&report)), (5, [0, 0, 0, 0, 5, 0]));
    // The second copy may come with the first, or while nothing is awaited, or in place of the next echo: an error each time.
    let report = Server::start(Does::Twice).run("{closed: {users: 1, iterations: 10}}", "{size: 64}");
    assert!(errors(&report)[4] >= 5 && responses(&report) + errors(&report)[4] == 10, "{:?}", report.total);
}

#[test]
fn a_connection_that_is_closed_in_the_middle_is_an_error_of_its_own_kind() {
    for (does, code) in [(Does::Closes(1011), 1011), (Does::Drops, 1006)] {
        let server = Server::start(does);
        let report = server.run("{closed: {users: 2, iterations: 18}}", "{}");
        assert_eq!((responses(&report), errors(&report)), (12, [0, 0, 0, 0, 0, 6]), "{does:?}: {:?}", report.total);
        assert_eq!(websocket(&report).closes.iter().collect::<Vec<_>>(), [(&code, &6)]);
        if code == 1011 {
            testkit::wait::until(testkit::DEADLINE, "replies", || server.seen().closes == [1011; 6]);
        }
    }
    // Between two messages it is none: the next one opens another connection.
    let report = Server::start(Does::ClosesAfter).run(CLOSED, "{}");
    assert_eq!((responses(&report), errors(&report)), (30, [0; 6]), "{:?}", report.total);
    assert_eq!((websocket(&report).handshakes, websocket(&report).closes.len()), (30, 0));
}

#[test]
fn upgrades_that_are_refused_or_wrong_are_errors() {
    for status in ["403 Forbidden", "200 OK", "302 Found"] {
        let report = Server::start(Does::Status(status)).run(CLOSED, "{}");
        assert_eq!((responses(&report), errors(&report)), (30, [0, 0, 0, 30, 0, 0]), "{status}");
        let code: u16 = status[..3].parse().expect("a status");
        assert_eq!(report.total.statuses.as_ref().map(|all| all.iter().collect::<Vec<_>>()), Some(vec![(&code, &30)]));
        let expected = format!("an upgrade was refused with status {code}");
        assert_eq!(websocket(&report).first_error.as_deref(), Some(expected.as_str()));
        assert_eq!(websocket(&report).handshakes, 0);
    }
    let report = Server::start(Does::WrongAccept).run(CLOSED, "{}");
    assert_eq!((responses(&report), errors(&report)), (0, [0, 0, 0, 0, 30, 0]));
    let first = websocket(&report).first_error.clone().expect("a reason");
    assert!(first.contains("is right for the key"), "{first}");
    let report = Server::start(Does::Silence).run("{closed: {users: 2, iterations: 2}}", "{}");
    assert_eq!((responses(&report), errors(&report)), (0, [0, 0, 2, 0, 0, 0]));
}

#[test]
fn the_program_loads_a_ws_url_and_says_what_is_wrong() {
    let server = Server::start(Does::Echo);
    let gauge = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_gauge"));
        let output = command.arg("load").args(arguments).output().expect("gauge starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let url = format!("ws://{}/chat?room=1", server.address);
    let (code, text) = gauge(&[
        &url,
        "-c",
        "2",
        "-n",
        "10",
        "--message-size",
        "1KiB",
        "--text",
        "--messages",
        "5",
        "-q",
        "-H",
        "Sec-WebSocket-Protocol: b",
    ]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("gauge, WebSocket, 2 connections opened"), "{text}");
    assert!(text.contains("  websocket  2 upgrades\n") && text.contains("10 requests in "), "{text}");
    let seen = server.seen();
    assert!(seen.heads[0].starts_with("GET /chat?room=1 HTTP/1.1\r\n") && seen.texts == 10, "{seen:?}");
    assert!(seen.messages.iter().all(|message| message.len() == 1024));
    for (arguments, expected) in [
        (&[url.as_str(), "-b", "x"][..], "an upgrade to WebSocket is a GET, not POST"),
        (&[&url, "--h2"], "upgraded from HTTP/1.1"),
        (&[&url, "--new-connections"], "`messages: 1`"),
        (&[&url, "--events"], "not event streams"),
        (&[&url, "--tool", "wrk"], "needs Gauge's own generator"),
        (&[&url, "-H", "Sec-WebSocket-Key: x"], "written by the generator"),
        (&[&url, "--llm", "model"], "chat calls go to http:// and https:// URLs"),
        (&["http://127.0.0.1:1/", "--text"], "are for ws:// and wss:// URLs"),
        (&[&url, "--message-size", "1GiB"], "there are up to 16777216"),
    ] {
        let (code, text) = gauge(arguments);
        assert!(code == Some(64) && text.contains(expected), "{arguments:?}: {code:?} {text}");
    }
}
