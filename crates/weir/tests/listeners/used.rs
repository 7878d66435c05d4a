//! How long connections are used, and the options of their sockets.

use testkit::{Upstream, Weir, responder, wait};

use super::{DEADLINE, config, curl, gateway, metric, program};

/// A gateway whose `server` has this `connection`.
fn bounded(upstream: &Upstream, more: &str, connection: &str) -> Weir {
    gateway(upstream, more, &format!("server: {{connection: {connection}}}\n"), "")
}

#[test]
fn a_connection_ends_with_its_last_request() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = bounded(&upstream, "", "{max_requests: 3}");
    let mut client = weir.connect();
    for last in [false, false, true] {
        let response = client.get("/");
        assert_eq!((response.status(), response.field("connection") == Some("close")), (200, last));
    }
    assert!(client.read_to_close().is_empty());
    // Pipelined: what is behind the last request is not served here.
    let mut client = weir.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(4));
    assert_eq!((0..4).map_while(|_| client.try_read_response().ok()).count(), 3);
}

#[test]
fn clients_open_another_connection() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = bounded(&upstream, "", "{max_requests: 2}");
    let url = weir.url();
    let six = [&["-o", "/dev/null", &*url][..]; 6].concat();
    let text = curl(&[&["-w", "%{http_code} %{num_connects}\n"], &six[..]].concat());
    let connects: u32 = text.lines().map(|line| line.strip_prefix("200 ").unwrap().parse::<u32>().unwrap()).sum();
    assert_eq!((text.lines().count(), connects), (6, 3), "{text}");
}

/// Type and stream of each frame of HTTP/2.
fn frames(mut bytes: &[u8]) -> Vec<(u8, u32)> {
    let mut found = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        found.push((head[3], u32::from_be_bytes([head[5], head[6], head[7], head[8]])));
        bytes = &rest[length.min(rest.len())..];
    }
    found
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const HEADERS: u8 = 1;
const GOAWAY: u8 = 7;

#[test]
fn over_http2_a_goaway_tells_the_client_and_no_request_is_lost() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = bounded(&upstream, ", http2: prior_knowledge", "{max_requests: 2}");
    let mut client = weir.connect();
    client.send(PREFACE);
    for stream in [1, 3, 5] {
        // GET / of http://a
        let mut frame = vec![0, 0, 6, HEADERS, 5, 0, 0, 0, stream];
        frame.extend_from_slice(&[0x82, 0x84, 0x86, 0x41, 1, b'a']);
        client.send(&frame);
    }
    let frames = frames(&client.read_to_close());
    // The third was sent before the client could know.
    let mut responded: Vec<u32> = frames.iter().filter(|frame| frame.0 == HEADERS).map(|frame| frame.1).collect();
    responded.sort_unstable();
    assert_eq!(responded, [1, 3, 5]);
    assert!(frames.iter().any(|frame| frame.0 == GOAWAY), "{frames:?}");
}

#[test]
fn a_connection_ends_at_its_age_and_not_within_a_request() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = bounded(&upstream, ", http2: prior_knowledge", "{max_age: 1s}");
    let mut client = weir.connect();
    assert_eq!(client.get("/").field("connection"), None);
    wait::until(DEADLINE, "its last response", || client.get("/").field("connection") == Some("close"));
    assert!(client.read_to_close().is_empty());
    // HTTP/2, idle: a GOAWAY says so.
    let mut client = weir.connect();
    client.send(PREFACE);
    let frames = frames(&client.read_to_close());
    assert!(frames.iter().any(|frame| frame.0 == GOAWAY), "{frames:?}");
}

#[test]
fn connections_to_targets_end_too() {
    let upstream = Upstream::start(responder::ok("hello"));
    let text = |keep: &str| {
        let text = config(&upstream, "", "", "").replace("workers: 2", "workers: 1");
        text.replace("]}}\nroutes", &format!("], keep_alive: {keep}}}}}\nroutes"))
    };
    let weir = Weir::builder(program()).config(text("{max_requests: 2}")).start();
    let mut client = weir.connect();
    (0..6).for_each(|_| assert_eq!(client.get("/").status(), 200));
    assert_eq!(upstream.accepted(), 3);
    let weir = Weir::builder(program()).config(text("{max_age: 1s}")).start();
    let mut client = weir.connect();
    assert_eq!(client.get("/").status(), 200);
    assert_eq!(upstream.accepted(), 4);
    wait::until(DEADLINE, "another connection", || {
        client.get("/");
        upstream.accepted() == 5
    });
}

#[test]
fn http2_connections_to_targets_end_too() {
    let upstream = Upstream::start(responder::ok("hello"));
    let target = gateway(&upstream, ", http2: prior_knowledge", "", "");
    for (keep, requests) in [("{max_requests: 2}", 6), ("{max_age: 1s}", 0)] {
        let before = metric(&target, "http2_connections_total", "");
        let text = format!(
            "listen: 127.0.0.1:0\nworkers: 1\nupstreams: {{u: {{targets: [{}], protocol: http2, keep_alive: {keep}}}}}\n\
             routes: [{{match: {{path: /*}}, upstream: u}}]\n",
            target.url()
        );
        let weir = Weir::builder(program()).config(text).start();
        let mut client = weir.connect();
        let opened = || metric(&target, "http2_connections_total", "") - before;
        if requests > 0 {
            (0..requests).for_each(|_| assert_eq!(client.get("/").status(), 200));
            assert_eq!(opened(), requests / 2);
        } else {
            wait::until(DEADLINE, "another connection", || {
                assert_eq!(client.get("/").status(), 200);
                opened() == 2
            });
        }
    }
}

/// The timer of the TCP connection between these two ports of 127.0.0.1, as `/proc/net/tcp` has it: 2 is the one of keepalive.
fn timer(local: u16, remote: u16) -> Option<u8> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let (local, remote) = (format!(":{local:04X}"), format!(":{remote:04X}"));
    table.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_it = words[1].ends_with(&local) && words[2].ends_with(&remote);
        is_it.then(|| words[5].split(':').next().unwrap().parse().unwrap())
    })
}

#[test]
fn idle_connections_are_probed_on_both_sides() {
    let upstream = Upstream::start(responder::ok("hello"));
    let text = |more: &str, of_upstream: &str| {
        let text = config(&upstream, more, "", "").replace("workers: 2", "workers: 1");
        text.replace("]}}\nroutes", &format!("]{of_upstream}}}}}\nroutes"))
    };
    let tcp = ", tcp: {keepalive: 60s, user_timeout: 30s}";
    for (more, of_upstream) in [("", ""), (tcp, ""), ("", tcp)] {
        let weir = Weir::builder(program()).config(text(more, of_upstream)).start();
        let mut client = weir.connect();
        assert_eq!(client.get("/").status(), 200);
        let port = client.local_addr().unwrap().port();
        let expected = if more.is_empty() { 0 } else { 2 };
        wait::until(DEADLINE, "its timer", || timer(weir.addr().port(), port) == Some(expected));
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let to = format!(":{:04X}", upstream.socket_addr().port());
        let probed = table.lines().skip(1).filter(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words[2].ends_with(&to) && words[5].starts_with("02")
        });
        assert_eq!(probed.count(), usize::from(!of_upstream.is_empty()), "{table}");
    }
}

#[test]
fn the_limit_on_open_files_is_raised_unless_it_is_to_be_kept() {
    for (files, expected) in [("raise", "1000"), ("keep", "500")] {
        let gateway = Weir::builder("/bin/sh");
        let path = gateway.dir().join("weir.yaml");
        let text = format!(
            "listen: 127.0.0.1:0\nworkers: 1\nserver: {{files: {files}}}\nroutes: [{{match: {{path: /}}, respond: {{body: a}}}}]\n"
        );
        std::fs::write(&path, text).unwrap();
        let command = format!("ulimit -Sn 500; ulimit -Hn 1000; exec {} --config {}", program(), path.display());
        let weir = gateway.args(["-c", &command]).env("HOST", "").start();
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", weir.pid())).unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        assert_eq!(line.split_whitespace().nth(3), Some(expected), "{line}");
        weir.wait_for_line("a warning", |line| line.contains("allows fewer client connections").then_some(()));
    }
}
