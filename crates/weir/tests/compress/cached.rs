//! Compression on routes with a cache: stored as the upstream sent it, coded once, and right for conditions, parts and purges.

use testkit::{DEADLINE, Gate, RawClient, Upstream, Weir, wait};

use super::{coding, config, decode, text};

const FIELDS: [(&str, &str); 3] =
    [("Content-Type", "text/plain"), ("Cache-Control", "max-age=3600"), ("ETag", "\"a\"")];

fn gateway(upstream: &Upstream) -> Weir {
    let top = "caches: {c: {mode: http, max_bytes: 10MiB, max_body: 1MiB}}\n";
    let yaml = config(upstream, top, "    compress: [zstd, br, gzip]\n    cache: c\n");
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

fn get(weir: &Weir, path: &str, fields: &[(&str, &str)]) -> testkit::Message {
    weir.request("GET", path, fields, "")
}

fn metric(weir: &Weir, line: &str) -> usize {
    let metrics = weir.admin_get("/metrics").text().to_owned();
    let found = metrics.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok());
    found.unwrap_or(0)
}

#[test]
fn one_stored_response_serves_every_coding_and_each_is_made_once() {
    let upstream = Upstream::start(|conn, _| conn.respond(200, &FIELDS, text(6000)));
    let weir = gateway(&upstream);
    for round in 0..3 {
        for accepted in [None, Some("gzip"), Some("br"), Some("zstd")] {
            let fields: Vec<_> = accepted.map(|accepted| ("Accept-Encoding", accepted)).into_iter().collect();
            let response = get(&weir, "/x", &fields);
            assert_eq!((response.status(), coding(&response)), (200, accepted), "{round}");
            assert_eq!(decode(accepted, &response.body), text(6000), "{round} {accepted:?}");
            assert_eq!(response.field("vary"), Some("Accept-Encoding"));
            let etag = if accepted.is_some() { "W/\"a\"" } else { "\"a\"" };
            assert_eq!(response.field("etag"), Some(etag));
            let length = response.field("content-length").map(|length| length.parse::<usize>().unwrap());
            assert_eq!(length, Some(response.body.len()), "what is stored has a length");
        }
    }
    assert_eq!(upstream.request_count(), 1, "stored as it came");
    for name in ["gzip", "br", "zstd"] {
        assert_eq!(metric(&weir, &format!("compressed_responses_total{{coding=\"{name}\"}}")), 1, "{name}");
    }
}

#[test]
fn conditions_and_parts_are_about_the_right_bytes() {
    let upstream = Upstream::start(|conn, _| conn.respond(200, &FIELDS, text(6000)));
    let weir = gateway(&upstream);
    let accept = ("Accept-Encoding", "gzip");
    get(&weir, "/x", &[accept]);
    for condition in ["\"a\"", "W/\"a\""] {
        let response = get(&weir, "/x", &[accept, ("If-None-Match", condition)]);
        assert_eq!((response.status(), response.field("etag")), (304, Some("W/\"a\"")), "{condition}");
        assert_eq!((response.field("vary"), coding(&response)), (Some("Accept-Encoding"), None));
        let response = get(&weir, "/x", &[("If-None-Match", condition)]);
        assert_eq!((response.status(), response.field("etag")), (304, Some("\"a\"")), "{condition}");
    }
    let part = get(&weir, "/x", &[accept, ("Range", "bytes=10-19")]);
    assert_eq!((part.status(), coding(&part), &part.body[..]), (206, None, &text(6000)[10..20]));
    assert_eq!(part.field("etag"), Some("\"a\""));
    // A weak tag is none that a part may be joined by (RFC 9110 section 13.1.5).
    let whole = get(&weir, "/x", &[accept, ("Range", "bytes=10-19"), ("If-Range", "W/\"a\"")]);
    assert_eq!((whole.status(), coding(&whole), &whole.body), (200, None, &text(6000)));
    let beyond = get(&weir, "/x", &[accept, ("Range", "bytes=9000-")]);
    assert_eq!((beyond.status(), coding(&beyond)), (416, None));
    let mut client = weir.connect();
    client.send("HEAD /x HTTP/1.1\r\nHost: test\r\nAccept-Encoding: gzip\r\n\r\n");
    let head = client.read_response_to("HEAD");
    assert_eq!(
        (coding(&head), head.field("etag"), head.field("content-length")),
        (Some("gzip"), Some("W/\"a\""), None)
    );
    let seen: Vec<_> =
        upstream.requests().iter().map(|seen| String::from_utf8_lossy(&seen.head.raw).into_owned()).collect();
    assert_eq!(seen.len(), 1, "{seen:?}");
}

#[test]
fn a_response_on_its_way_is_coded_for_each_who_waits() {
    let gate = Gate::new();
    let held = gate.clone();
    let upstream = Upstream::start(move |conn, _| {
        conn.write("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        conn.write_chunk(text(100_000))?;
        conn.pass(&held)?;
        conn.write_chunk(text(50_000))?;
        conn.write("0\r\n\r\n")
    });
    let weir = gateway(&upstream);
    let whole = [text(100_000), text(50_000)].concat();
    let mut clients: Vec<(RawClient, Option<&str>)> = Vec::new();
    for accepted in [Some("gzip"), Some("br"), None, Some("zstd")] {
        let mut client = weir.connect();
        let line = accepted.map(|accepted| format!("Accept-Encoding: {accepted}\r\n")).unwrap_or_default();
        client.send(format!("GET /x HTTP/1.1\r\nHost: a\r\n{line}\r\n"));
        let head = client.read_head();
        assert_eq!(head.field("content-encoding"), accepted);
        clients.push((client, accepted));
    }
    let mut coded = vec![Vec::new(); clients.len()];
    for ((client, accepted), coded) in
        clients.iter_mut().zip(&mut coded).filter(|((_, accepted), _)| accepted.is_some())
    {
        while decode(*accepted, coded).len() < 100_000 {
            coded.extend(client.read_piece().expect("the part before the pause").data);
        }
    }
    gate.release();
    for ((client, accepted), coded) in clients.iter_mut().zip(&mut coded) {
        coded.extend(client.read_body());
        assert!(decode(*accepted, coded) == whole, "{accepted:?}");
    }
    assert_eq!(upstream.request_count(), 1);
}

#[test]
fn what_does_not_get_shorter_is_sent_as_it_is() {
    let mut state = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    })
    .take(5000)
    .collect();
    let body = noise.clone();
    let upstream = Upstream::start(move |conn, _| conn.respond(200, &FIELDS, &body));
    let weir = gateway(&upstream);
    for _ in 0..2 {
        let response = get(&weir, "/x", &[("Accept-Encoding", "gzip")]);
        assert_eq!((coding(&response), response.field("vary")), (None, Some("Accept-Encoding")));
        assert_eq!((response.body, upstream.request_count()), (noise.clone(), 1));
    }
}

#[test]
fn a_purge_removes_every_coding_and_a_confirmation_keeps_them() {
    let body = std::sync::Arc::new(std::sync::Mutex::new(text(6000)));
    let current = body.clone();
    let upstream = Upstream::start(move |conn, request| {
        let fields = [("Content-Type", "text/plain"), ("Cache-Control", "no-cache"), ("ETag", "\"a\"")];
        match request.field("if-none-match") {
            Some(_) if request.head.target() == "/same" => conn.respond(304, &fields[1..], ""),
            _ => conn.respond(200, &fields, &*current.lock().unwrap()),
        }
    });
    let weir = gateway(&upstream);
    let accept = [("Accept-Encoding", "br")];
    for _ in 0..3 {
        let response = get(&weir, "/same", &accept);
        assert_eq!((coding(&response), decode(Some("br"), &response.body)), (Some("br"), text(6000)));
    }
    assert_eq!(upstream.request_count(), 3, "each was confirmed");
    assert_eq!(metric(&weir, "compressed_responses_total{coding=\"br\"}"), 1, "and coded once");

    get(&weir, "/other", &accept);
    *body.lock().unwrap() = text(3000);
    let mut admin = RawClient::connect(weir.admin_addr());
    admin.request("POST", "/cache/purge", &[("Host", &weir.admin_addr().to_string())], "{\"all\": true}");
    let purged = admin.read_response();
    assert!(purged.status() < 300, "{}", purged.text());
    for accepted in ["br", "gzip"] {
        let response = get(&weir, "/other", &[("Accept-Encoding", accepted)]);
        assert_eq!(decode(coding(&response), &response.body), text(3000), "{accepted}");
    }
}

#[test]
fn codings_count_against_the_bound_of_the_store() {
    let upstream = Upstream::start(|conn, _| conn.respond(200, &FIELDS, text(20_000)));
    let weir = gateway(&upstream);
    let bytes = || {
        let found = weir.admin_get("/metrics").text().to_owned();
        let line = found.lines().find(|line| line.starts_with("cache_bytes{")).expect("bytes of the cache");
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    get(&weir, "/x", &[]);
    wait::until(DEADLINE, "the response in the store", || bytes() > 20_000.0);
    let before = bytes();
    let length = get(&weir, "/x", &[("Accept-Encoding", "gzip")]).body.len();
    assert!(bytes() >= before + length as f64, "{before} and {length} are more than {}", bytes());
}
