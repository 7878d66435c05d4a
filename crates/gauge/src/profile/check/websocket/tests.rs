//! A gateway between the check and the upstream of checks that breaks one rule at a time.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;

use super::*;
use crate::demo;
use crate::profile::{Profile, WebSocket, check};
use crate::websocket::write_close;

/// What the gateway does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// It takes the upgrade for a request.
    NoUpgrade,
    WrongAccept,
    NoSubprotocol,
    NoField,
    /// It loses what came with the head of the 101.
    LosesGreeting,
    OtherBytes,
    OtherKind,
    /// It passes a message on when the next one has come.
    Buffers,
    /// It takes messages of up to 64 KiB.
    Limits,
    SwallowsPings,
    SwallowsPongs,
    ClientCloses,
    UpstreamCloses,
    KeepsOpen,
    UpgradesAll,
    OwnRefusal,
}

fn upstream() -> SocketAddr {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let options = demo::Options { probe: true, ..demo::Options::default() };
        let any = "127.0.0.1:0".parse().expect("an address");
        demo::serve(any, options, move |address| tell.send(address).expect("the test waits")).expect("a server");
    });
    told.recv().expect("it serves")
}

/// Reads up to the empty line; the head, and what came behind it.
fn head(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = bytes.split_off(at + 4);
            return Some((String::from_utf8(bytes).expect("text"), rest));
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(length) => bytes.extend_from_slice(&piece[..length]),
        }
    }
}

/// A frame at the begin of the bytes: all of it, whether it is the last of its message, its opcode, and its payload.
fn frame(bytes: &[u8]) -> Option<(usize, bool, u8, Vec<u8>)> {
    let [first, second, ..] = bytes else { return None };
    let (length, mut at) = match second & 0x7F {
        126 => (u64::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?)), 4),
        127 => (u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?), 10),
        short => (u64::from(short), 2),
    };
    let mask = if second & 0x80 == 0 { [0; 4] } else { bytes.get(at..at + 4)?.try_into().ok()? };
    at += if second & 0x80 == 0 { 0 } else { 4 };
    let payload = bytes.get(at..at + length as usize)?;
    let payload = payload.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
    Some((at + length as usize, first & 0x80 != 0, first & 0xF, payload))
}

/// Passes frames on until the end.
fn pass(fault: Fault, from_client: bool, mut from: TcpStream, mut to: TcpStream, mut bytes: Vec<u8>) {
    let mask = from_client.then_some([1, 2, 3, 4]);
    let (mut held, mut piece) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        while let Some((length, is_last, opcode, payload)) = frame(&bytes) {
            let own: Vec<u8> = bytes.drain(..length).collect();
            let mut out = Vec::new();
            match (fault, from_client, opcode) {
                (Fault::SwallowsPings, true, 9) | (Fault::SwallowsPongs, true, 10) => {}
                (Fault::OtherBytes, false, 2) if payload.len() == 300 => {
                    let payload = payload.iter().map(|byte| byte ^ 1).collect::<Vec<_>>();
                    crate::websocket::write(&mut out, is_last, Opcode::Binary, mask, &payload);
                }
                (Fault::OtherKind, false, 1) => {
                    crate::websocket::write(&mut out, is_last, Opcode::Binary, mask, &payload);
                }
                (Fault::ClientCloses, true, 8) | (Fault::UpstreamCloses, false, 8) => {
                    write_close(&mut out, Some(1000), b"", mask);
                }
                (Fault::Limits, true, 2) if payload.len() > 65536 => {
                    write_close(&mut out, Some(1009), b"too long", None);
                    let _ = from.write_all(&out);
                    return;
                }
                (Fault::Buffers, true, 0..=2) => out = std::mem::replace(&mut held, own),
                _ => out = own,
            }
            if to.write_all(&out).is_err() {
                return;
            }
        }
        match from.read(&mut piece) {
            Ok(0) | Err(_) if fault == Fault::KeepsOpen && !from_client => {
                // Until the client gives up.
                let _ = to.set_read_timeout(Some(2 * WAIT));
                while matches!(to.read(&mut piece), Ok(length) if length > 0) {}
                return;
            }
            Ok(0) | Err(_) => return drop(to.shutdown(Shutdown::Both)),
            Ok(length) => bytes.extend_from_slice(&piece[..length]),
        }
    }
}

fn without(head: &str, names: &[&str]) -> String {
    let is_named = |line: &&str| names.iter().any(|name| line.to_ascii_lowercase().starts_with(&format!("{name}:")));
    head.split("\r\n").filter(|line| !is_named(line)).collect::<Vec<_>>().join("\r\n")
}

fn serve(fault: Fault, mut client: TcpStream, upstream: SocketAddr) -> Option<()> {
    let (mut request, rest) = head(&mut client)?;
    let wants = request.to_ascii_lowercase().contains("upgrade: websocket");
    match fault {
        Fault::NoUpgrade => request = without(&request, &["upgrade", "connection"]),
        Fault::NoField => request = without(&request, &["x-gauge-metadata"]),
        Fault::UpgradesAll if !wants => {
            request = request.replacen("\r\n", "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n", 1);
        }
        _ => {}
    }
    let mut server = TcpStream::connect(upstream).ok()?;
    server.write_all(&[request.as_bytes(), &rest].concat()).ok()?;
    let (mut response, mut rest) = head(&mut server)?;
    let is_open = response.starts_with("HTTP/1.1 101");
    match fault {
        Fault::WrongAccept => response = response.replace("Sec-WebSocket-Accept: ", "Sec-WebSocket-Accept: A"),
        Fault::NoSubprotocol => response = without(&response, &["sec-websocket-protocol"]),
        Fault::OwnRefusal => response = response.replace("HTTP/1.1 403", "HTTP/1.1 502"),
        Fault::LosesGreeting if is_open => {
            // It came in the same write as the head, or comes at once.
            while frame(&rest).is_none() && request.to_ascii_lowercase().contains(GREETING) {
                let mut piece = [0; 4096];
                let length = server.read(&mut piece).ok()?;
                rest.extend_from_slice(&piece[..length]);
            }
            rest.clear();
        }
        _ => {}
    }
    client.write_all(response.as_bytes()).ok()?;
    let (from_client, to_client) = (client.try_clone().ok()?, client.try_clone().ok()?);
    if !is_open {
        // A response of HTTP ends with the request: one for each connection here.
        client.write_all(&rest).ok()?;
        let mut from = server.try_clone().ok()?;
        std::thread::spawn(move || drop(std::io::copy(&mut from, &mut client)));
        std::io::copy(&mut { from_client }, &mut server).ok()?;
        return Some(());
    }
    let to = server.try_clone().ok()?;
    std::thread::spawn(move || pass(fault, true, from_client, to, Vec::new()));
    pass(fault, false, server, to_client, rest);
    Some(())
}

fn gateway(fault: Fault, upstream: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            std::thread::spawn(move || serve(fault, client, upstream));
        }
    });
    address
}

/// What is found.
fn found(fault: Fault) -> Vec<String> {
    let upstream = upstream();
    let profile = Profile::WebSocket(WebSocket::default());
    let probe = Probe {
        gateway: gateway(fault, upstream),
        upstream,
        clients: profile.clients(),
        operation: Operation::get("echo", "/echo-ws"),
        upload: None,
        differences: Vec::new(),
    };
    let differences = check(&profile, probe).expect("the upstream responds");
    differences.into_iter().map(|one| format!("{}: {}", one.what, one.found)).collect()
}

#[test]
fn a_gateway_that_passes_everything_on_conforms() {
    assert_eq!(found(Fault::None), Vec::<String>::new());
}

#[test]
fn each_rule_finds_the_gateway_that_breaks_it() {
    let cases: [(Fault, &[&str]); 16] = [
        (Fault::NoUpgrade, &["an upgrade: status 200"]),
        (Fault::WrongAccept, &["an upgrade: no connection: Sec-WebSocket-Accept is `A"]),
        (Fault::NoSubprotocol, &["the subprotocol: absent"]),
        (Fault::NoField, &["forwarded X-Gauge-Metadata: absent"]),
        (
            Fault::LosesGreeting,
            &["a message behind the 101: nothing within ", "a ping of the upstream: nothing within "],
        ),
        (Fault::OtherBytes, &["a binary message: other bytes: "]),
        (
            Fault::OtherKind,
            &[
                "a message behind the 101: a binary message",
                "a text: a binary message",
                "a text in fragments: a binary message",
                "a ping of the client: a binary message",
                "a ping of the upstream: a binary message",
            ],
        ),
        (
            Fault::Buffers,
            &[
                "a text: nothing within",
                "a binary message: nothing within",
                "an empty message: nothing within",
                "a message of 64 KiB and a byte: nothing within",
                "a text in fragments: nothing within",
                "a ping of the client: nothing within",
                "a close frame of the upstream: nothing within",
                "an upstream that disconnects: the connection stays open",
            ],
        ),
        (Fault::Limits, &["a message of 64 KiB and a byte: a close frame with code 1009 and reason `too long`"]),
        (Fault::SwallowsPings, &["a ping of the client: nothing within "]),
        (Fault::SwallowsPongs, &["a ping of the upstream: nothing within "]),
        (Fault::ClientCloses, &["a close frame of the client: a close frame with code 1000"]),
        (
            Fault::UpstreamCloses,
            &["a close frame of the client: ", "a close frame of the upstream: a close frame with code 1000"],
        ),
        (Fault::KeepsOpen, &["an upstream that disconnects: the connection stays open"]),
        (Fault::UpgradesAll, &["a request without Upgrade: "]),
        (Fault::OwnRefusal, &["an upgrade that the upstream refuses: status 502"]),
    ];
    // At the same time: most wait for what does not come.
    std::thread::scope(|scope| {
        for (fault, expected) in cases {
            scope.spawn(move || {
                let found = found(fault);
                let is_expected = |(found, expected): (&String, &&str)| found.starts_with(expected);
                let all = found.len() == expected.len() && found.iter().zip(expected).all(is_expected);
                assert!(all, "{fault:?}: {found:#?}");
            });
        }
    });
}
