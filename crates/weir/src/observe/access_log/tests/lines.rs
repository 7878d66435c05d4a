//! What lines look like in each format.

use super::*;

pub(super) fn rendered(line: &Line<'_>) -> String {
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
        "why": "The upstream closed the connection without a response: while reading the head (upstream python, target 127.0.0.1:8001, 2 attempts, a fallback)",
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
        authenticator: Some(Box::leak(name.clone().into_boxed_str())),
        limit: Some(Box::leak(name.clone().into_boxed_str())),
        own: Some(Box::leak(name.clone().into_boxed_str())),
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
        sensitive: None,
        redaction: &crate::config::redact::BUILT_IN,
    };
    for format in [LogFormat::Json, LogFormat::Combined, LogFormat::Logfmt] {
        rendered_as(&longest, format);
    }
}

proptest! {
    /// Whatever is left out: the other fields stay as they were, and the line what it was.
    #[test]
    fn fields_are_left_out(names in prop::collection::vec(prop::sample::select(crate::config::LOG_FIELDS), 0..12)) {
        let line = Line { user_agent: Some(b"curl"), query: Some(b"a=1"), consumer: Some("shop"), ..line() };
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
            r#"violations="[{\"in\":\"body\"}]" why="A fallback responded (upstream python)""#,
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
    let source = include_str!("../line.rs");
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
