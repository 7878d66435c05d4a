use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::line::NAME;
use super::*;
use crate::config::{AccessLogTarget, FieldSet, LogFields, LogFormat, LogOnly};
use crate::error::{Error, Reason};
use crate::exchange::ai;

/// Long enough for any machine; nothing waits for it when things go well.
const DEADLINE: Duration = Duration::from_secs(60);

fn line() -> Line<'static> {
    Line {
        time_ms: 1_735_689_599_123,
        client: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)).into(),
        protocol: "HTTP/1.1",
        method: b"GET",
        host: Some(b"api.example.com"),
        path: b"/infer",
        status: 200,
        route: Some("infer"),
        upstream: Some("python"),
        target: Some("127.0.0.1:8001"),
        request_bytes: 310,
        response_bytes: 1234,
        duration_ns: 41_234_567,
        upstream_ns: Some(40_000_999),
        request_id: b"0123456789abcdef",
        attempts: 1,
        ..Line::default()
    }
}

fn rendered(line: &Line<'_>) -> String {
    rendered_as(line, LogFormat::Json)
}

fn rendered_as(line: &Line<'_>, format: LogFormat) -> String {
    rendered_with(line, format, &LogFields::default())
}

fn rendered_with(line: &Line<'_>, format: LogFormat, fields: &LogFields) -> String {
    let mut out = Vec::new();
    line.render(&mut out, &mut Rfc3339::default(), (&format, fields), &mut template::Fields::default());
    assert!(out.len() <= line::LONGEST);
    let text = String::from_utf8(out).expect("UTF-8");
    assert_eq!(text.find('\n'), Some(text.len() - 1), "one line");
    text
}

fn parsed(line: &Line<'_>) -> Value {
    serde_json::from_str(&rendered(line)).expect("JSON")
}

fn log_to(path: &Path, metrics: &Metrics) -> AccessLog {
    let config = config::AccessLog {
        to: AccessLogTarget::File(path.to_owned()),
        format: LogFormat::Json,
        fields: LogFields::default(),
        only: None,
        sample: 1.0,
    };
    AccessLog::start(&config, metrics).unwrap()
}

/// Lines written, dropped for a slow writer, lost to errors; failed writes.
fn counts(metrics: &Metrics) -> [u64; 4] {
    let s = metrics.access_log();
    [&s.written, &s.dropped_queue, &s.dropped_error, &s.errors].map(|n| n.load(Relaxed))
}

/// Waits until a condition holds.
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
        std::thread::yield_now();
    }
}

#[test]
fn a_plain_line() {
    assert_eq!(
        rendered(&line()),
        concat!(
            r#"{"time":"2024-12-31T23:59:59.123Z","client":"192.0.2.7","protocol":"HTTP/1.1","method":"GET","host":"api.example.com","path":"/infer","#,
            r#""status":200,"route":"infer","upstream":"python","target":"127.0.0.1:8001","bytes_in":310,"bytes_out":1234,"#,
            r#""duration_ms":41.234,"upstream_ms":40.000,"attempts":1,"request_id":"0123456789abcdef"}"#,
            "\n"
        )
    );
}

#[test]
fn a_line_with_everything() {
    let value = parsed(&Line {
        client: IpAddr::V6(Ipv6Addr::LOCALHOST).into(),
        query: Some(b"a=1&b=\"2\""),
        status: 502,
        user_agent: Some("curl/8 \u{1f30a}".as_bytes()),
        referer: Some(b"http://example.com/"),
        error: Some(Error::new(Reason::UpstreamReset, "while reading the head")),
        attempts: 2,
        fallback: true,
        cache: Some("miss"),
        violations: b"[{\"in\":\"body\"}]",
        ai: None,
        ..line()
    });
    let expected = json!({
        "time": "2024-12-31T23:59:59.123Z", "client": "::1", "protocol": "HTTP/1.1", "method": "GET", "host": "api.example.com",
        "path": "/infer",
        "query": "a=1&b=\"2\"", "status": 502, "route": "infer", "upstream": "python", "target": "127.0.0.1:8001",
        "bytes_in": 310, "bytes_out": 1234, "duration_ms": 41.234, "upstream_ms": 40.0, "attempts": 2,
        "request_id": "0123456789abcdef", "user_agent": "curl/8 \u{1f30a}", "referer": "http://example.com/", "fallback": true,
        "cache": "miss", "violations": [{"in": "body"}], "reason": "upstream_reset", "fault": "upstream", "detail": "while reading the head",
    });
    assert_eq!(value, expected);
}

#[test]
fn what_was_not_there_is_left_out() {
    let value = parsed(&Line {
        host: None,
        route: None,
        upstream: None,
        target: None,
        upstream_ns: None,
        attempts: 0,
        error: Some(Reason::NotFound.into()),
        ..line()
    });
    let keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    for absent in ["host", "route", "upstream", "target", "upstream_ms", "attempts", "detail", "fallback", "query"] {
        assert!(!keys.contains(&absent), "{absent}");
    }
    assert_eq!((&value["reason"], &value["fault"]), (&json!("not_found"), &json!("client")));
}

#[test]
fn hostile_bytes_are_escaped() {
    let path = |bytes: &'static [u8]| parsed(&Line { path: bytes, ..line() })["path"].as_str().unwrap().to_owned();
    assert_eq!(path(b"/\"}\n{\"time\":\"x"), "/\"}\n{\"time\":\"x");
    assert_eq!(path(b"\0\x01\x1f\x7f\\\t\r"), "\0\u{1}\u{1f}\u{7f}\\\t\r");
    assert_eq!(path(b"a\xffb\xc3\x28\xe2\x82"), "a\u{fffd}b\u{fffd}(\u{fffd}");
    assert_eq!(path("/\u{9b}31m".as_bytes()), "/\u{9b}31m");
    // Nothing in the line itself may drive a terminal.
    let text = rendered(&Line { path: "\u{1b}[2J\u{9b}2J\u{7f}".as_bytes(), ..line() });
    assert!(text.trim_end().chars().all(|c| !c.is_control()), "{text:?}");
}

#[test]
fn long_fields_are_cut_between_characters() {
    let long = "ü".repeat(3000);
    for shift in 0..2 {
        let path = format!("{}{long}", &"/"[..shift]);
        let value = parsed(&Line { path: path.as_bytes(), ..line() });
        let shown = value["path"].as_str().unwrap();
        let kept = shown.strip_suffix('…').unwrap();
        assert!(path.starts_with(kept) && (2045..=2048).contains(&kept.len()), "{}", kept.len());
    }
    // Bytes that are no characters are cut anywhere.
    let value = parsed(&Line { user_agent: Some(&[0x80; 600]), ..line() });
    assert_eq!(value["user_agent"].as_str().unwrap(), "\u{fffd}".repeat(512) + "…");
}

#[test]
fn the_longest_line_fits() {
    let control = [1u8; 5000];
    let name = "\u{1}".repeat(5000);
    let violations = [b"\"", &[b'v'; super::line::VIOLATIONS - 2][..], b"\""].concat();
    let session = tls::Session {
        version: "TLSv1.3",
        cipher: "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        group: Some("X25519MLKEM768"),
        sni: Some(name.as_str().into()),
        alpn: Some(tls::Alpn::Http11),
        is_resumed: false,
        peer: None,
        client_chain: Vec::new(),
    };
    let longest = Line {
        client: "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255".parse().unwrap(),
        time_ms: u64::MAX,
        protocol: "HTTP/2",
        method: &control,
        host: Some(&control),
        path: &control,
        query: Some(&control),
        status: u16::MAX,
        grpc_status: Some(u8::MAX),
        route: Some(&name),
        upstream: Some(&name),
        target: Some(&name),
        request_bytes: u64::MAX,
        response_bytes: u64::MAX,
        duration_ns: u64::MAX,
        upstream_ns: Some(u64::MAX),
        queue_ns: Some(u64::MAX),
        request_id: &control,
        user_agent: Some(&control),
        referer: Some(&control),
        error: Some(Error::new(Reason::RequestLineTooLong, Box::leak(name.clone().into_boxed_str()))),
        consumer: Some(Box::leak(name.clone().into_boxed_str())),
        attempts: u32::MAX,
        fallback: true,
        cache: Some(Box::leak(name.clone().into_boxed_str())),
        auth: Some(Box::leak(name.clone().into_boxed_str())),
        auth_detail: Some(Box::leak(name.clone().into_boxed_str())),
        would_refuse: Some(Box::leak(name.clone().into_boxed_str())),
        trace: Some(telemetry::Parent {
            trace: telemetry::TraceId(u128::MAX),
            span: telemetry::SpanId(u64::MAX),
            is_sampled: true,
        }),
        violations: &violations,
        ai: None,
        tls: Some(&session),
        proxied: None,
        request_fields: None,
    };
    for format in [LogFormat::Json, LogFormat::Combined, LogFormat::Logfmt] {
        rendered_as(&longest, format);
    }
}

proptest! {
    /// Whatever is left out: the other fields stay as they were, and the line what it was.
    #[test]
    fn fields_are_left_out(names in prop::collection::vec(prop::sample::select(crate::config::LOG_FIELDS), 0..12)) {
        let line = Line { user_agent: Some(b"curl"), query: Some(b"a=1"), fallback: true, ..line() };
        let mut fields = LogFields::default();
        for name in &names {
            fields.dropped.insert(FieldSet::index(name).unwrap());
        }
        let mut expected = parsed(&line);
        expected.as_object_mut().unwrap().retain(|name, _| !names.contains(&name.as_str()));
        let json = rendered_with(&line, LogFormat::Json, &fields);
        prop_assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), expected);
        let kept = |pair: &&str| !names.contains(&pair.split('=').next().unwrap());
        let whole = rendered_as(&line, LogFormat::Logfmt);
        let pairs = whole.trim_end().split(' ').filter(kept).collect::<Vec<_>>().join(" ");
        prop_assert_eq!(rendered_with(&line, LogFormat::Logfmt, &fields), pairs + "\n");
    }
}

#[test]
fn a_combined_line() {
    let combined = |line: &Line<'_>| rendered_as(line, LogFormat::Combined);
    assert_eq!(
        combined(&line()),
        "192.0.2.7 - - [31/Dec/2024:23:59:59 +0000] \"GET /infer HTTP/1.1\" 200 1234 \"-\" \"-\"\n"
    );
    let everything = Line {
        consumer: Some("Ann \"A\""),
        query: Some(b"a=1&token=canary"),
        referer: Some(b"http://user:canary@example.com/x?%6Bey=canary"),
        user_agent: Some("curl \\ \"8\" \u{fc}\n".as_bytes()),
        ..line()
    };
    assert_eq!(
        combined(&everything),
        concat!(
            r#"192.0.2.7 - Ann\x20\"A\" [31/Dec/2024:23:59:59 +0000] "GET /infer?a=1&token=[redacted] HTTP/1.1" 200 1234 "#,
            r#""http://[redacted]@example.com/x?%6Bey=[redacted]" "curl \\ \"8\" \xc3\xbc\x0a""#,
            "\n"
        )
    );
    // A connection that broke off before its request line was whole.
    let nothing = Line { method: b"", path: b"", status: 408, ..line() };
    assert!(combined(&nothing).contains("\"- - HTTP/1.1\" 408 "), "{}", combined(&nothing));
}

#[test]
fn a_logfmt_line() {
    let everything = Line {
        query: Some(b"a=1&token=canary"),
        user_agent: Some(b"curl \"8\""),
        route: Some(""),
        fallback: true,
        violations: b"[{\"in\":\"body\"}]",
        ..line()
    };
    assert_eq!(
        rendered_as(&everything, LogFormat::Logfmt),
        concat!(
            r#"time=2024-12-31T23:59:59.123Z client=192.0.2.7 protocol=HTTP/1.1 method=GET host=api.example.com path=/infer "#,
            r#"query="a=1&token=[redacted]" status=200 route="" upstream=python target=127.0.0.1:8001 bytes_in=310 bytes_out=1234 "#,
            r#"duration_ms=41.234 upstream_ms=40.000 attempts=1 request_id=0123456789abcdef user_agent="curl \"8\"" fallback=true "#,
            r#"violations="[{\"in\":\"body\"}]""#,
            "\n"
        )
    );
}

#[test]
fn a_call_of_a_model_is_a_group_of_fields() {
    let mut call = ai::Record::new(llm::Api::Chat, (crate::config::ModelId(0), "small model".into()), true);
    call.tokens = Some([3, 4, 0]);
    call.cost = Some(1_000_002);
    let line = Line { ai: Some(call.logged(crate::policy::ai::metrics::End::Complete)), ..line() };
    let json = parsed(&line)["ai"].clone();
    let expected = json!({
        "api": "chat", "model": "small model", "stream": true, "tokens_in": 3, "tokens_out": 4, "tokens_cached": 0,
        "estimated": false, "cost": 1.000002, "end": "complete",
    });
    assert_eq!(json, expected);
    let pairs = concat!(
        r#" ai_api=chat ai_model="small model" ai_stream=true ai_tokens_in=3 ai_tokens_out=4 ai_tokens_cached=0"#,
        " ai_estimated=false ai_cost=1.000002 ai_end=complete\n"
    );
    let logfmt = rendered_as(&line, LogFormat::Logfmt);
    assert!(logfmt.ends_with(pairs), "{logfmt}");
}

#[test]
fn only_what_is_configured_is_logged() {
    let dir = tempfile::tempdir().unwrap();
    let metrics = Metrics::new();
    let wants_of = |only: Option<LogOnly>, sample, requests: &[(u16, Option<u8>, u64)]| {
        let to = AccessLogTarget::File(dir.path().join("access.log"));
        let log = AccessLog::start(
            &config::AccessLog { to, format: LogFormat::Json, fields: LogFields::default(), only, sample },
            &metrics,
        )
        .unwrap();
        let mut writer = log.worker();
        requests.iter().map(|(status, grpc, ns)| writer.wants(*status, *grpc, *ns)).collect::<Vec<_>>()
    };
    let wants = |only, sample, requests: &[(u16, u64)]| {
        wants_of(only, sample, &requests.iter().map(|(status, ns)| (*status, None, *ns)).collect::<Vec<_>>())
    };
    let only =
        LogOnly { statuses: vec![(429, 429), (500, 599)], grpc: Default::default(), slower_ns: Some(1_000_000_000) };
    let requests = [(200, 0), (429, 0), (430, 0), (500, 0), (599, 0), (200, 999_999_999), (200, 1_000_000_000)];
    let responses = wants(Some(only.clone()), 1.0, &requests);
    assert_eq!(responses, [false, true, false, true, true, false, true]);
    let statuses = LogOnly { slower_ns: None, ..only.clone() };
    assert_eq!(wants(Some(statuses), 1.0, &[(200, u64::MAX), (503, 0)]), [false, true]);
    let calls = LogOnly { statuses: Vec::new(), grpc: [2, 14].into_iter().collect(), slower_ns: None };
    let ends =
        [(200, None, 0), (200, Some(0), 0), (200, Some(2), 0), (200, Some(14), 0), (200, Some(15), 0), (503, None, 0)];
    assert_eq!(wants_of(Some(calls), 1.0, &ends), [false, false, true, true, false, false]);
    assert_eq!(wants(None, 1.0, &[(200, 0)]), [true]);
    assert_eq!(wants(Some(only), 0.0, &[(503, u64::MAX)]), [false]);
}

#[test]
fn each_byte_is_escaped_at_each_place() {
    for length in 1..=20 {
        for (place, byte) in (0..length).flat_map(|place| (0..0x80).map(move |byte| (place, byte))) {
            let mut text = vec![b'a'; length];
            text[place] = byte;
            let mut out = Vec::new();
            super::json::string(&mut out, &text, NAME);
            assert!(out.iter().all(|byte| (0x20..0x7f).contains(byte)), "{}", text.escape_ascii());
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap().as_bytes(), text, "{}", text.escape_ascii());
        }
    }
}

#[test]
fn addresses_are_written_as_they_are_read() {
    for text in ["0.0.0.0", "255.255.255.255", "10.0.9.100", "1.22.0.255", "::1", "2001:db8::7", "unix:"] {
        let mut out = Vec::new();
        super::json::address(&mut out, text.parse().unwrap());
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
}

/// The fields of a logfmt line, read as its parsers do.
fn logfmt_pairs(line: &str) -> Vec<(String, String)> {
    let (mut pairs, mut rest) = (Vec::new(), line.trim_end_matches('\n'));
    while !rest.is_empty() {
        let (name, value) = rest.split_once('=').expect("a name");
        assert!(
            name.bytes().all(|byte| byte.is_ascii_lowercase() || b"_0123456789".contains(&byte)),
            "{name:?}: {line}"
        );
        let (value, after) = if value.starts_with('"') {
            let mut strings = serde_json::Deserializer::from_str(value).into_iter::<String>();
            let text = strings.next().expect("a string").expect("a whole string");
            (text, &value[strings.byte_offset()..])
        } else {
            let end = value.find(' ').unwrap_or(value.len());
            (value[..end].to_owned(), &value[end..])
        };
        pairs.push((name.to_owned(), value));
        assert!(after.is_empty() || after.starts_with(' '), "{line}");
        rest = after.strip_prefix(' ').unwrap_or(after);
    }
    pairs
}

/// The fields of a combined line: what spaces, brackets and quotation marks without a backslash divide.
fn combined_fields(line: &str) -> usize {
    let (mut fields, mut quoted, mut escaped) = (1, false, false);
    for byte in line.trim_end_matches('\n').bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b' ' if !quoted => fields += 1,
            _ => {}
        }
    }
    assert!(!quoted && !escaped, "{line}");
    fields
}

proptest! {
    /// Whatever a client sends: no field ends a line or another field, and nothing drives a terminal.
    #[test]
    fn any_bytes_make_one_line_of_every_format(bytes: Vec<u8>, text: String) {
        let line = Line {
            method: &bytes,
            host: Some(text.as_bytes()),
            path: &bytes,
            query: Some(text.as_bytes()),
            request_id: &bytes,
            user_agent: Some(&bytes),
            referer: Some(text.as_bytes()),
            consumer: Some(&text),
            ..line()
        };
        let json = parsed(&line);
        let logfmt = rendered_as(&line, LogFormat::Logfmt);
        let combined = rendered_as(&line, LogFormat::Combined);
        for text in [&logfmt, &combined] {
            prop_assert!(text.trim_end_matches('\n').chars().all(|c| !c.is_control()), "{:?}", text);
        }
        prop_assert_eq!(combined_fields(&combined), 10, "{}", combined);
        // The same fields as in JSON, and the same text.
        let pairs = logfmt_pairs(&logfmt);
        prop_assert_eq!(pairs.len(), json.as_object().unwrap().len());
        for (name, value) in pairs {
            match &json[&name] {
                Value::String(text) => prop_assert_eq!(text, &value, "{}", name),
                Value::Number(number) => prop_assert_eq!(number.as_f64(), value.parse().ok(), "{}", name),
                other => panic!("{name}: {other}"),
            }
        }
    }

    #[test]
    fn any_bytes_make_one_line_of_json(bytes: Vec<u8>, text: String) {
        let value = parsed(&Line { path: &bytes, host: Some(text.as_bytes()), referer: Some(&bytes), method: &bytes, ..line() });
        prop_assert_eq!(value["path"].as_str().unwrap(), String::from_utf8_lossy(&bytes));
        if text.len() <= 256 {
            prop_assert_eq!(value["host"].as_str().unwrap(), text);
        }
    }

    #[test]
    fn durations_are_milliseconds_with_three_decimals(ns: u64) {
        let mut out = Vec::new();
        super::json::milliseconds(&mut out, ns);
        prop_assert_eq!(String::from_utf8(out).unwrap(), format!("{}.{:03}", ns / 1_000_000, ns / 1000 % 1000));
    }
}

#[test]
fn lines_of_all_workers_arrive_whole_and_in_order() {
    const LINES: u64 = 5000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    let metrics = Metrics::new();
    let log = log_to(&path, &metrics);
    std::thread::scope(|s| {
        for worker in 0..4 {
            let mut writer = log.worker();
            s.spawn(move || {
                let id = format!("worker-{worker}");
                for n in 0..LINES {
                    assert!(writer.wants(200, None, 0));
                    // Let the thread catch up, this is not the test of dropping.
                    until("a buffer is free", || writer.buffer.len() < FULL || writer.hand_over());
                    writer.line(&Line { request_id: id.as_bytes(), request_bytes: n, ..line() });
                }
            });
        }
    });
    assert!(log.close(DEADLINE));
    assert_eq!(counts(&metrics), [4 * LINES, 0, 0, 0]);
    let mut next: HashMap<String, u64> = HashMap::new();
    for line in fs::read_to_string(&path).unwrap().lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let next = next.entry(value["request_id"].to_string()).or_default();
        assert_eq!(value["bytes_in"], *next);
        *next += 1;
    }
    assert!(next.len() == 4 && next.values().all(|n| *n == LINES));
}

#[test]
fn a_full_disk_is_counted_and_stops_nothing() {
    let metrics = Metrics::new();
    let log = log_to(Path::new("/dev/full"), &metrics);
    let mut writer = log.worker();
    for round in 1..=10 {
        writer.line(&line());
        writer.flush();
        until("given up", || counts(&metrics)[2] == round);
    }
    drop(writer);
    assert!(log.close(DEADLINE));
    assert_eq!(counts(&metrics), [0, 0, 10, 10]);
}

#[test]
fn a_reader_that_stands_still_costs_lines_and_never_blocks() {
    const LINES: u64 = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    // Opened for both, so that neither side waits for the other.
    let mut reader = fs::File::options().read(true).write(true).open(&path).unwrap();
    let metrics = Metrics::new();
    let log = log_to(&path, &metrics);
    let mut writer = log.worker();
    for n in 0..LINES {
        writer.line(&Line { request_bytes: n, ..line() });
    }
    let dropped = counts(&metrics)[1];
    assert!(dropped > LINES / 2, "a pipe and four buffers do not hold {LINES} lines: dropped {dropped}");
    assert!(!log.close(Duration::ZERO), "the thread still waits for the reader");
    // Now somebody reads: what was taken arrives, in whole lines and in order.
    drop(writer);
    let reading = std::thread::spawn(move || {
        let (mut text, mut piece) = (Vec::new(), vec![0; 65536]);
        while !text.ends_with(b"END\n") {
            let n = reader.read(&mut piece).unwrap();
            text.extend_from_slice(&piece[..n]);
        }
        String::from_utf8(text).unwrap()
    });
    assert!(log.close(DEADLINE));
    std::io::Write::write_all(&mut fs::File::options().write(true).open(&path).unwrap(), b"END\n").unwrap();
    let text = reading.join().unwrap();
    let order: Vec<u64> = text
        .lines()
        .take_while(|l| *l != "END")
        .map(|l| serde_json::from_str::<Value>(l).unwrap()["bytes_in"].as_u64().unwrap())
        .collect();
    assert!(order.is_sorted());
    let [written, dropped, lost, errors] = counts(&metrics);
    assert_eq!((order.len() as u64, lost, errors), (written, 0, 0));
    assert_eq!(written + dropped, LINES, "every line is written or counted as dropped");
}

#[test]
fn the_file_is_opened_again_for_rotation() {
    let dir = tempfile::tempdir().unwrap();
    let (path, rotated) = (dir.path().join("access.log"), dir.path().join("access.log.1"));
    let metrics = Metrics::new();
    let log = log_to(&path, &metrics);
    let mut writer = log.worker();
    writer.line(&Line { path: b"/before", ..line() });
    writer.flush();
    until("written", || counts(&metrics)[0] == 1);
    fs::rename(&path, &rotated).unwrap();
    log.reopen();
    until("opened again", || path.exists());
    writer.line(&Line { path: b"/after", ..line() });
    drop(writer);
    assert!(log.close(DEADLINE));
    assert!(fs::read_to_string(&rotated).unwrap().contains("/before"));
    let now = fs::read_to_string(&path).unwrap();
    assert!(now.contains("/after") && !now.contains("/before"));
}

#[test]
fn a_file_that_cannot_be_opened_again_leaves_the_old_one_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, moved) = (dir.path().join("logs"), dir.path().join("moved"));
    fs::create_dir(&folder).unwrap();
    let metrics = Metrics::new();
    let log = log_to(&folder.join("access.log"), &metrics);
    let mut writer = log.worker();
    fs::rename(&folder, &moved).unwrap();
    log.reopen();
    until("failed", || counts(&metrics)[3] == 1);
    writer.line(&line());
    drop(writer);
    assert!(log.close(DEADLINE));
    assert_eq!(counts(&metrics), [1, 0, 0, 1]);
    assert_eq!(fs::read_to_string(moved.join("access.log")).unwrap(), rendered(&line()));
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let config = config::AccessLog {
        to: AccessLogTarget::File(dir.path().join("no/such/dir/log")),
        format: LogFormat::Json,
        fields: LogFields::default(),
        only: None,
        sample: 1.0,
    };
    assert_eq!(AccessLog::start(&config, &Metrics::new()).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_lonely_line_is_written_when_it_is_a_second_old() {
    let dir = tempfile::tempdir().unwrap();
    let metrics = Metrics::new();
    let log = log_to(&dir.path().join("access.log"), &metrics);
    let mut writer = log.worker();
    writer.flush_if_old(line().time_ms);
    writer.line(&line());
    writer.flush_if_old(line().time_ms + 999);
    assert_eq!(writer.lines, 1);
    writer.flush_if_old(line().time_ms + 1000);
    assert_eq!(writer.lines, 0);
    writer.line(&line());
    writer.flush_if_old(line().time_ms - 3_600_000); // the clock was set back
    assert_eq!(writer.lines, 0);
    writer.line(&line());
    writer.line(&Line { time_ms: line().time_ms + 1000, ..line() });
    assert_eq!(writer.lines, 0, "or by a later line");
    until("written", || counts(&metrics)[0] == 4);
    writer.line(&line()); // long ago
    writer.flush_old();
    assert_eq!(writer.lines, 0, "by the machine's clock");
    until("written", || counts(&metrics)[0] == 5);
}

#[test]
fn a_fifo_takes_lines_once_it_has_a_reader() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let config = config::AccessLog {
        fields: LogFields::default(),
        to: AccessLogTarget::File(path.clone()),
        format: LogFormat::Json,
        only: None,
        sample: 1.0,
    };
    let refused = AccessLog::start(&config, &Metrics::new()).unwrap_err().to_string();
    assert!(refused.contains("no process reads this FIFO"), "{refused}");

    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut reader = fs::File::options().read(true).custom_flags(flags).open(&path).unwrap();
    let metrics = Metrics::new();
    let log = log_to(&path, &metrics);
    // More than the FIFO holds: the log's thread meets one that is full, and goes on when it is read.
    let count = 400;
    let mut writer = log.worker();
    for _ in 0..count {
        writer.line(&line());
    }
    writer.flush_old();
    let (mut text, mut piece) = (Vec::new(), [0; 4096]);
    until("all lines", || {
        if let Ok(n) = reader.read(&mut piece) {
            text.extend_from_slice(&piece[..n]);
        }
        memchr::memchr_iter(b'\n', &text).count() == count
    });
    until("counted", || counts(&metrics) == [count as u64, 0, 0, 0]);
}

#[test]
fn the_sampled_share_is_the_configured_one() {
    let share = |share: f64| {
        let mut sample = Sample::new(share, 42);
        (0..100_000).filter(|_| sample.draw()).count()
    };
    assert_eq!((share(0.0), share(1.0)), (0, 100_000));
    assert!((9_500..10_500).contains(&share(0.1)), "{}", share(0.1));
    assert!((49_000..51_000).contains(&share(0.5)), "{}", share(0.5));
}

fn by_template(line: &Line<'_>, template: &str) -> String {
    let parts = crate::config::log_template(template).expect("a template");
    let (mut fields, mut out) = (template::Fields::default(), Vec::new());
    // The memory is used again: nothing of the line before stays.
    fields.render(
        &Line { query: Some(b"a=1"), consumer: Some("before"), ..*line },
        &parts,
        &mut out,
        &mut Rfc3339::default(),
    );
    out.clear();
    fields.render(line, &parts, &mut out, &mut Rfc3339::default());
    let text = String::from_utf8(out).expect("UTF-8");
    assert_eq!(text.find('\n'), Some(text.len() - 1), "one line");
    text
}

#[test]
fn a_template_has_the_fields_that_it_names() {
    let text =
        by_template(&line(), "{client} {consumer} [{time}] \"{method} {path}?{query}\" {status} {duration_ms} {cache}");
    assert_eq!(text, "192.0.2.7 - [2024-12-31T23:59:59.123Z] \"GET /infer?-\" 200 41.234 -\n");
    let hostile = Line { path: b"/\"x\n\x1e\x1fstatus\x1f200", query: Some(b"token=canary&a=1"), ..line() };
    let text = by_template(&hostile, "\"{path}\" {query} {status}");
    assert_eq!(text, "\"/\\\"x\\x0a\\x1e\\x1fstatus\\x1f200\" token=[redacted]&a=1 200\n");
}

/// What the configuration accepts as a field is what lines have, by the names of `logfmt`.
#[test]
fn every_field_may_be_named_in_a_template() {
    let source = include_str!("line.rs");
    let names = source.split("name!(").skip(1).map(|rest| {
        let arguments = rest.split(')').next().expect("arguments");
        let names: Vec<&str> = arguments.split(',').map(|name| name.trim().trim_matches('"')).collect();
        names.join("_")
    });
    let mut names: Vec<String> = names.filter(|name| name != "ai").collect();
    names.sort();
    let mut known: Vec<String> = crate::config::LOG_FIELDS.iter().map(|name| (*name).to_owned()).collect();
    known.sort();
    assert_eq!(names, known);
}
