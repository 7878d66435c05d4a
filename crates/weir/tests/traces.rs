//! Traces end to end: a real gateway, upstreams that see what it forwards, and a collector that reads spans with the published messages of OTLP.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use testkit::{RawClient, Upstream, Weir, responder, wait};

const DEADLINE: Duration = Duration::from_secs(30);
const SERVER: i32 = 2;
const CLIENT: i32 = 3;
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-";

struct Collector(Upstream);

impl Collector {
    fn start() -> Self {
        Collector(Upstream::builder().record_limit(8 << 20).start(responder::ok("")))
    }

    fn endpoint(&self) -> String {
        format!("{}/v1/traces", self.0.url())
    }

    /// Every span that came.
    fn spans(&self) -> Vec<Span> {
        let requests = self.0.requests();
        let calls = requests.iter().filter(|call| call.complete).map(|call| {
            assert_eq!((call.head.method(), call.head.target()), ("POST", "/v1/traces"));
            assert_eq!(call.head.field("content-type"), Some("application/x-protobuf"));
            ExportTraceServiceRequest::decode(&*call.body).expect("an OTLP message")
        });
        let resources = calls.flat_map(|call| call.resource_spans);
        resources.flat_map(|one| one.scope_spans).flat_map(|one| one.spans).collect()
    }

    /// Waits for so many spans.
    fn wait_for(&self, count: usize) -> Vec<Span> {
        wait::until(DEADLINE, "the spans", || self.spans().len() >= count);
        let spans = self.spans();
        assert_eq!(spans.len(), count, "{spans:#?}");
        spans
    }
}

fn attributes(span: &Span) -> BTreeMap<&str, String> {
    let text = |value: &Option<Value>| match value {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("{other:?}"),
    };
    span.attributes.iter().map(|one| (&*one.key, text(&one.value.as_ref().unwrap().value))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A gateway with routes to `upstream`, and `traces` for the collector.
fn gateway(upstream: &str, traces: &str, top: &str) -> Weir {
    let yaml = format!(
        "listen: [127.0.0.1:0]
admin: 127.0.0.1:0
workers: 1
{top}telemetry: {{resource: {{deployment.environment.name: test}}, traces: {traces}}}
caches: {{c: {{mode: ttl, ttl: 1h}}, h: {{mode: http}}}}
limits: {{few: {{algorithm: fixed_window, key: global, quota: 1, window: 24h}}}}
upstreams:
  u: {{targets: [{upstream}], retry: {{extra_attempts: 1, budget: 100%, on: [connect, reset, 503]}}, eject: none}}
routes:
  - {{name: items, match: {{path: \"/items/{{id}}\"}}, upstream: u}}
  - {{name: cached, match: {{path: /cached/*}}, upstream: u, cache: c}}
  - {{name: stale, match: {{path: /stale}}, upstream: u, cache: h}}
  - {{name: limited, match: {{path: /limited}}, limits: [few], respond: {{status: 200}}}}
"
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

fn all(collector: &Collector) -> String {
    format!("{{endpoint: '{}', sample: 100%, every: 50ms}}", collector.endpoint())
}

fn metric(weir: &Weir, line: &str) -> u64 {
    let text = weir.admin_get("/metrics");
    let value = text.text().lines().find_map(|one| one.strip_prefix(line)?.trim().parse::<f64>().ok());
    value.unwrap_or_else(|| panic!("no `{line}` in {}", text.text())) as u64
}

#[test]
fn a_request_and_its_attempts_are_one_trace() {
    let collector = Collector::start();
    let upstream = Upstream::start(responder::in_order([responder::status(503), responder::status(200)]));
    let log = tempfile::tempdir().unwrap();
    let log = log.path().join("access.log");
    let top = format!("access_log: {{path: '{}'}}\n", log.display());
    let weir = gateway(&upstream.url(), &all(&collector), &top);
    let fields = [("Host", "shop.example:8443"), ("User-Agent", "test/1"), ("tracestate", "a=1")];
    assert_eq!(weir.request("GET", "/items/7?page=2&token=canary", &fields, "").status(), 200);
    let spans = collector.wait_for(3);
    let server = spans.iter().find(|span| span.kind == SERVER).unwrap();
    let clients: Vec<_> = spans.iter().filter(|span| span.kind == CLIENT).collect();
    assert!(spans.iter().all(|span| span.trace_id == server.trace_id));
    assert_eq!((&*server.name, server.parent_span_id.len(), server.trace_state.len()), ("GET /items/{id}", 0, 0));
    let found = attributes(server);
    for (key, value) in [
        ("http.request.method", "GET"),
        ("url.scheme", "http"),
        ("url.path", "/items/7"),
        ("url.query", "page=2&token=[redacted]"),
        ("http.route", "/items/{id}"),
        ("http.response.status_code", "200"),
        ("server.address", "shop.example"),
        ("server.port", "8443"),
        ("client.address", "127.0.0.1"),
        ("network.peer.address", "127.0.0.1"),
        ("network.protocol.version", "1.1"),
        ("user_agent.original", "test/1"),
        ("weir.route", "items"),
        ("weir.upstream", "u"),
    ] {
        assert_eq!(found.get(key).map(String::as_str), Some(value), "{key} of {found:#?}");
    }
    assert!(!format!("{spans:?}").contains("canary"));

    assert_eq!(clients.len(), 2);
    let address = upstream.socket_addr();
    for (number, (client, status)) in clients.iter().zip(["503", "200"]).enumerate() {
        assert_eq!(client.parent_span_id, server.span_id);
        assert_eq!(client.name, "GET");
        let found = attributes(client);
        assert_eq!(found["http.response.status_code"], status);
        assert_eq!((&*found["server.address"], &*found["server.port"]), ("127.0.0.1", &*address.port().to_string()));
        assert_eq!(found.get("http.request.resend_count").map(String::as_str), [None, Some("1")][number]);
        let is_error = client.status.as_ref().is_some_and(|status| status.code == 2);
        assert_eq!(
            (is_error, found.get("error.type").map(String::as_str)),
            [(true, Some("503")), (false, None)][number]
        );
        assert!(server.start_time_unix_nano <= client.start_time_unix_nano);
        assert!(client.start_time_unix_nano <= client.end_time_unix_nano);
        assert!(client.end_time_unix_nano <= server.end_time_unix_nano);
        // The upstream is told of the attempt's own span.
        let told = upstream.requests()[number].head.all("traceparent").join(" ");
        assert_eq!(told, format!("00-{}-{}-01", hex(&server.trace_id), hex(&client.span_id)));
    }
    // A state without a trace means nothing.
    assert!(upstream.requests().iter().all(|request| request.head.field("tracestate").is_none()));
    let line = wait::some(DEADLINE, "the line", || {
        std::fs::read_to_string(&log).ok().filter(|text| text.contains("trace_id"))
    });
    let line: serde_json::Value = serde_json::from_str(line.trim()).unwrap();
    assert_eq!(line["trace_id"], hex(&server.trace_id));
    assert_eq!(line["span_id"], hex(&server.span_id));
}

/// The other features of a route say what they did, and are not disturbed.
#[test]
fn hits_refusals_and_failures_are_spans() {
    let collector = Collector::start();
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway(&upstream.url(), &all(&collector), "");
    for (target, status) in [
        ("/cached/1", 200),
        ("/cached/1", 200),
        ("/limited", 200),
        ("/limited", 429),
        ("/nothing", 404),
        ("/a//b", 400),
    ] {
        assert_eq!(weir.get(target).status(), status, "{target}");
    }
    upstream.stop();
    assert_eq!(weir.get("/items/1").status(), 502);
    assert_eq!(weir.request("BREW", "/items/1", &[], "").status(), 502);
    // Eight requests, and attempts: one for the first miss, two for a GET that is repeated, and those of a method that is unknown.
    wait::until(DEADLINE, "the spans", || collector.spans().iter().filter(|span| span.kind == SERVER).count() == 8);
    let spans = collector.spans();
    let servers: Vec<_> =
        spans.iter().filter(|span| span.kind == SERVER).map(|span| (span, attributes(span))).collect();
    let said = |key: &str| -> Vec<_> {
        servers.iter().map(|(_, found)| found.get(key).cloned().unwrap_or_default()).collect()
    };
    assert_eq!(said("weir.cache"), ["miss", "hit", "", "", "", "", "", ""]);
    assert_eq!(said("http.response.status_code"), ["200", "200", "200", "429", "404", "400", "502", "502"]);
    assert_eq!(said("error.type")[3..6], ["rate_limited", "not_found", "bad_path"]);
    assert_eq!(said("error.type")[6..], ["connect_failed", "connect_failed"]);
    let codes: Vec<_> = servers.iter().map(|(span, _)| span.status.as_ref().map_or(0, |status| status.code)).collect();
    // What a client did wrong is no error of the server.
    assert_eq!(codes, [0, 0, 0, 0, 0, 0, 2, 2]);
    let (odd, found) = &servers[7];
    assert_eq!(
        (&*odd.name, &*found["http.request.method"], &*found["http.request.method_original"]),
        ("HTTP /items/{id}", "_OTHER", "BREW")
    );
    let attempts = |server: &Span| spans.iter().filter(|span| span.parent_span_id == server.span_id).count();
    let attempts: Vec<_> = servers.iter().map(|(span, _)| attempts(span)).collect();
    assert_eq!(attempts[..7], [1, 0, 0, 0, 0, 0, 2]);
    assert!(
        spans
            .iter()
            .filter(|span| span.kind == CLIENT)
            .all(|span| span.end_time_unix_nano >= span.start_time_unix_nano)
    );
}

/// What a request says of its trace: who may decide, and what goes on to the upstream.
#[test]
fn contexts_of_clients_continue_but_only_trusted_ones_decide() {
    const TRUSTED: &str = "trusted_proxies: [127.0.0.0/8]\n";
    // Trust, what is sampled here, whether contexts are respected, flags of the context; sampled, same trace.
    for (top, share, parent, flags, is_sampled, is_same) in [
        (TRUSTED, "0%", "respect", "01", true, true),
        (TRUSTED, "100%", "respect", "00", false, true),
        ("", "0%", "respect", "01", false, true),
        ("", "100%", "respect", "00", true, true),
        ("", "100%", "ignore", "00", true, false),
        (TRUSTED, "0%", "ignore", "01", false, false),
    ] {
        let case = format!("{top:?} {share} {parent} {flags}");
        let collector = Collector::start();
        let upstream = Upstream::start(responder::ok(""));
        let traces =
            format!("{{endpoint: '{}', sample: {share}, parent: {parent}, every: 50ms}}", collector.endpoint());
        let weir = gateway(&upstream.url(), &traces, top);
        let context = format!("{PARENT}{flags}");
        let fields = [("TraceParent", &*context), ("tracestate", "a=1"), ("tracestate", "b=2"), ("baggage", "k=v")];
        weir.request("GET", "/items/1", &fields, "");
        let request = upstream.requests().remove(0);
        let told = request.head.all("traceparent");
        assert_eq!(told.len(), 1, "{case}");
        assert_eq!(told[0].starts_with(&PARENT[..36]), is_same, "{case}: {told:?}");
        assert!(!told[0].contains("b7ad6b7169203331"), "{case}: the span is the attempt's");
        assert_eq!(told[0].ends_with("-01"), is_sampled, "{case}: {told:?}");
        assert_eq!(request.head.field("tracestate"), is_same.then_some("a=1,b=2"), "{case}");
        assert_eq!(request.head.field("baggage"), Some("k=v"), "{case}");
        if !is_sampled {
            continue;
        }
        let spans = collector.wait_for(2);
        let server = spans.iter().find(|span| span.kind == SERVER).unwrap();
        if is_same {
            assert_eq!(hex(&server.parent_span_id), "b7ad6b7169203331", "{case}");
            assert_eq!(server.trace_state, "a=1,b=2", "{case}");
        } else {
            assert!(server.parent_span_id.is_empty(), "{case}");
            assert_eq!(hex(&server.links[0].span_id), "b7ad6b7169203331", "{case}");
        }
    }
}

#[test]
fn malformed_and_doubled_contexts_begin_a_new_trace() {
    let collector = Collector::start();
    let upstream = Upstream::start(responder::ok(""));
    let weir = gateway(&upstream.url(), &all(&collector), "trusted_proxies: [127.0.0.0/8]\n");
    let (good, other) = (format!("{PARENT}01"), format!("{}01", PARENT.replace("0af7", "1bf7")));
    let long = format!("a={}", "x".repeat(600));
    let cases: [&[(&str, &str)]; 4] = [
        &[("traceparent", "00-zz"), ("tracestate", "a=1")],
        &[("traceparent", &good), ("traceparent", &other), ("tracestate", "a=1")],
        &[("traceparent", &good), ("traceparent", &good)],
        &[("tracestate", "a=1")],
    ];
    for fields in cases {
        weir.request("GET", "/items/1", fields, "");
    }
    for request in upstream.requests() {
        assert!(!request.head.field("traceparent").unwrap().contains(&PARENT[3..35]), "{request:?}");
        assert_eq!(request.head.field("tracestate"), None);
    }
    // Too long a state is dropped whole, the trace goes on.
    weir.request("GET", "/items/1", &[("traceparent", &good), ("tracestate", &long)], "");
    let last = upstream.requests().pop().unwrap();
    assert!(last.head.field("traceparent").unwrap().contains(&PARENT[3..35]));
    assert_eq!(last.head.field("tracestate"), None);
}

/// No request waits for a refresh: the client's trace ends with the stale response, and the upstream must not add to it later.
#[test]
fn a_refresh_behind_the_client_is_no_part_of_its_trace() {
    let collector = Collector::start();
    let upstream = Upstream::start(responder::raw(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=0, stale-while-revalidate=3600\r\nContent-Length: 1\r\n\r\nx",
    ));
    let weir = gateway(&upstream.url(), &all(&collector), "trusted_proxies: [127.0.0.0/8]\n");
    let context = [("traceparent", &*format!("{PARENT}01")), ("tracestate", "a=1")];
    weir.request("GET", "/stale", &context, "");
    weir.request("GET", "/stale", &context, "");
    wait::until(DEADLINE, "the refresh", || upstream.requests().len() == 2);
    let requests = upstream.requests();
    assert!(requests[0].head.field("traceparent").unwrap().contains(&PARENT[3..35]));
    assert_eq!(requests[0].head.field("tracestate"), Some("a=1"));
    assert_eq!((requests[1].head.field("traceparent"), requests[1].head.field("tracestate")), (None, None));
    collector.wait_for(3);
}

#[test]
fn without_telemetry_contexts_pass_as_they_are() {
    let upstream = Upstream::start(responder::ok(""));
    let weir = gateway(&upstream.url(), "none", "");
    let context = format!("{PARENT}01");
    weir.request("GET", "/items/1", &[("traceparent", &context), ("tracestate", "a=1")], "");
    let request = upstream.requests().remove(0);
    assert_eq!(request.head.all("traceparent"), [&*context]);
    assert_eq!(request.head.all("tracestate"), ["a=1"]);
}

/// A collector that is away, hangs, fails, or refuses costs spans, never requests.
#[test]
fn a_collector_in_trouble_costs_spans_and_no_requests() {
    let upstream = Upstream::start(responder::ok("hello"));
    let closed = Upstream::start(responder::ok(""));
    closed.stop();
    let hangs = Upstream::start(responder::ok(""));
    hangs.pause();
    let fails = Upstream::start(responder::status(500));
    let partial = ExportTracePartialSuccess { rejected_spans: 1, error_message: "no".to_owned() };
    let body = ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec();
    let refuses =
        Upstream::start(move |conn, _| conn.respond(200, &[("Content-Type", "application/x-protobuf")], &body));
    for (collector, counter) in [
        (&closed, "telemetry_dropped_total{signal=\"traces\",reason=\"queue_full\"}"),
        (&hangs, "telemetry_dropped_total{signal=\"traces\",reason=\"queue_full\"}"),
        (&fails, "telemetry_dropped_total{signal=\"traces\",reason=\"export_failed\"}"),
        (&refuses, "telemetry_dropped_total{signal=\"traces\",reason=\"refused\"}"),
    ] {
        let traces = format!(
            "{{endpoint: '{}/v1/traces', sample: 100%, every: 10ms, queue: 16, batch: 4, timeout: 60s}}",
            collector.url()
        );
        let weir = gateway(&upstream.url(), &traces, "");
        let mut client = weir.connect();
        let mut sent = 0;
        wait::until(DEADLINE, counter, || {
            for _ in 0..20 {
                assert_eq!(client.get("/items/1").status(), 200);
                sent += 1;
            }
            metric(&weir, counter) > 0
        });
        // None is counted twice: what is not counted still waits, at most a second of it with the worker.
        let total: u64 = ["queue_full", "export_failed", "refused"]
            .iter()
            .map(|reason| metric(&weir, &format!("telemetry_dropped_total{{signal=\"traces\",reason=\"{reason}\"}}")))
            .sum();
        assert!(total + metric(&weir, "telemetry_spans_total") <= 2 * sent, "{total} of {sent}");
    }
}

#[test]
fn what_failed_for_a_moment_is_sent_again() {
    let collector = Collector(Upstream::start(responder::in_order([responder::status(503), responder::status(200)])));
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway(&upstream.url(), &all(&collector), "");
    weir.get("/items/1");
    wait::until(DEADLINE, "the second call", || metric(&weir, "telemetry_spans_total") == 2);
    let calls = collector.0.requests();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0].body, calls[1].body);
    assert_eq!(metric(&weir, "telemetry_export_failures_total{signal=\"traces\"}"), 1);
}

/// The status says whether the spans were accepted, whatever comes of the body.
#[test]
fn what_the_collector_accepted_or_refused_for_good_is_not_sent_again() {
    let failed = "telemetry_dropped_total{signal=\"traces\",reason=\"export_failed\"}";
    let accepted = "telemetry_spans_total";
    let large = |status: &str| {
        let body = "x".repeat(200_000);
        responder::raw(format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
    };
    let upstream = Upstream::start(responder::ok("hello"));
    for (response, counter) in [
        (large("200 OK"), accepted),
        (responder::raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx"), accepted),
        (responder::close_after(1, 10), accepted),
        (large("400 Bad Request"), failed),
    ] {
        let collector = Collector(Upstream::start(responder::in_order([response, responder::ok("")])));
        let traces = format!("{{endpoint: '{}', sample: 100%, every: 50ms, timeout: 1s}}", collector.endpoint());
        let weir = gateway(&upstream.url(), &traces, "");
        weir.get("/items/1");
        wait::until(DEADLINE, counter, || metric(&weir, counter) == 2);
        weir.get("/items/1");
        let all = if counter == accepted { 4 } else { 2 };
        wait::until(DEADLINE, "the second call", || metric(&weir, accepted) == all);
        let failures = metric(&weir, "telemetry_export_failures_total{signal=\"traces\"}");
        assert_eq!(failures, u64::from(counter == failed));
        // Behind such a body there is no next response.
        let connections: Vec<usize> = collector.0.requests().iter().map(|call| call.connection).collect();
        assert_eq!(connections, [0, 1], "{counter}");
    }
}

/// Calls in flight, of both signals, may have a minute; the end of the process has seconds.
#[test]
fn spans_that_are_lost_at_the_end_are_in_the_log() {
    let collector = Upstream::start(responder::stall());
    let upstream = Upstream::start(responder::ok("hello"));
    let url = collector.url();
    let both = format!(
        "{{endpoint: '{url}/v1/traces', sample: 100%, every: 1ms, timeout: 60s}}, metrics: {{endpoint: '{url}/v1/metrics', every: 50ms, timeout: 60s}}"
    );
    let weir = gateway(&upstream.url(), &both, "");
    weir.get("/items/1");
    for target in ["/v1/traces", "/v1/metrics"] {
        let is_called = || collector.requests().iter().any(|call| call.head.target() == target);
        wait::until(DEADLINE, target, is_called);
    }
    assert!(weir.stop(DEADLINE).success());
    let log = weir.stderr();
    let line = log.lines().find(|line| line.contains("spans are lost")).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("spans=2"), "{line}");
}

/// A collector closes connections as it likes: with a response, between two calls, or at the moment of the next call.
#[test]
fn calls_share_a_connection_for_as_long_as_the_collector_keeps_it() {
    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let script = [
        responder::raw(OK),
        responder::raw(OK),
        responder::raw_then_close(OK),
        responder::raw(OK),
        responder::close(),
        responder::raw("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
        // More than a response, which belongs to no call.
        responder::raw(format!("{OK}{OK}")),
        responder::raw(OK),
    ];
    let collector = Collector(Upstream::start(responder::in_order(script)));
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway(&upstream.url(), &all(&collector), "");
    for spans in [2, 4, 6, 8, 10, 12, 14] {
        weir.get("/items/1");
        wait::until(DEADLINE, "the call", || metric(&weir, "telemetry_spans_total") == spans);
    }
    let connections: Vec<usize> = collector.0.requests().iter().map(|call| call.connection).collect();
    assert_eq!(connections, [0, 0, 0, 1, 1, 2, 3, 4]);
    assert_eq!(metric(&weir, "telemetry_export_failures_total{signal=\"traces\"}"), 0);
}

#[test]
fn the_last_spans_are_sent_before_the_process_ends() {
    let collector = Collector::start();
    let upstream = Upstream::start(responder::ok("hello"));
    let traces = format!("{{endpoint: '{}', sample: 100%, every: 1h}}", collector.endpoint());
    let weir = gateway(&upstream.url(), &traces, "");
    weir.get("/items/1");
    assert!(weir.stop(DEADLINE).success());
    assert_eq!(collector.spans().len(), 2);
}

/// The share is kept to under load, from many connections at once, and every span names its parent.
#[test]
fn a_share_of_many_requests_is_recorded_whole() {
    let collector = Collector::start();
    let upstream = Upstream::start(responder::ok("hello"));
    let traces = format!("{{endpoint: '{}', sample: 50%, every: 10ms}}", collector.endpoint());
    let weir = gateway(&upstream.url(), &traces, "");
    let address = weir.addr();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = RawClient::connect(address);
                (0..100).for_each(|_| assert_eq!(client.get("/items/1").status(), 200));
            });
        }
    });
    let marked =
        upstream.requests().iter().filter(|request| request.head.field("traceparent").unwrap().ends_with("01")).count();
    // Eleven standard deviations around the half of 800.
    assert!((250..=550).contains(&marked), "{marked}");
    let spans = collector.wait_for(2 * marked);
    let servers: BTreeMap<_, _> =
        spans.iter().filter(|span| span.kind == SERVER).map(|span| (&span.span_id, &span.trace_id)).collect();
    assert_eq!(servers.len(), marked);
    for span in spans.iter().filter(|span| span.kind == CLIENT) {
        assert_eq!(servers.get(&span.parent_span_id), Some(&&span.trace_id));
    }
}

/// Fields of the call may be secrets.
#[test]
fn credentials_of_the_collector_are_sent_and_not_shown() {
    let collector = Collector::start();
    let upstream = Upstream::start(responder::ok("hello"));
    let traces = format!(
        "{{endpoint: '{}', sample: 100%, every: 10ms, headers: {{Authorization: Bearer canary}}}}",
        collector.endpoint()
    );
    let weir = gateway(&upstream.url(), &traces, "");
    weir.get("/items/1");
    collector.wait_for(2);
    assert_eq!(collector.0.requests()[0].head.field("authorization"), Some("Bearer canary"));
    assert!(!weir.admin_get("/config").text().contains("canary"));
    assert!(weir.admin_get("/config").text().contains("v1/traces"));
}

/// Each attempt of a call of a model is a span with the conventions' attributes; prompts, responses, keys and the trace's context stay here.
#[test]
fn attempts_of_a_call_of_a_model_are_spans() {
    let collector = Collector::start();
    let json = |status: &str, body: &str| {
        let length = body.len();
        responder::raw(format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    };
    let message = r#"{"id":"m","type":"message","role":"assistant","model":"c","content":[{"type":"text","text":"canary"}],"stop_reason":"end_turn","usage":{"input_tokens":7,"output_tokens":3,"cache_read_input_tokens":2}}"#;
    let first = Upstream::start(json("401 No", r#"{"error":{"message":"canary","type":"invalid_request_error"}}"#));
    let second = Upstream::start(json("200 OK", message));
    let yaml = format!(
        "listen: 127.0.0.1:0
workers: 1
telemetry: {{traces: {traces}}}
upstreams: {{one: {{targets: [{first}]}}, two: {{targets: [{second}]}}}}
providers:
  one: {{api: openai, upstream: one, keys: [sk-canary-0123456789]}}
  two: {{api: anthropic, upstream: two, keys: [sk-canary-0123456789]}}
models:
  m: {{candidates: [{{provider: one, model: gpt}}, {{provider: two, model: claude, max_output: 9, tier: 2}}]}}
routes: [{{name: ai, match: {{path: /v1/*}}, ai: {{}}}}]
",
        traces = all(&collector),
        first = first.url(),
        second = second.url(),
    );
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    let body = r#"{"model":"m","messages":[{"role":"user","content":"canary"}]}"#;
    let fields = [("traceparent", &*format!("{PARENT}01"))];
    assert_eq!(weir.request("POST", "/v1/chat/completions", &fields, body).status(), 200);
    let spans = collector.wait_for(3);
    let server = spans.iter().find(|span| span.kind == SERVER).unwrap();
    let clients: Vec<_> = spans.iter().filter(|span| span.kind == CLIENT).collect();
    let names: Vec<&str> = clients.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["chat gpt", "chat claude"]);
    for (client, expected) in clients.iter().zip([
        [
            ("gen_ai.provider.name", "openai"),
            ("weir.provider", "one"),
            ("http.response.status_code", "401"),
            ("weir.ai.fault", "F14"),
        ],
        [
            ("gen_ai.provider.name", "anthropic"),
            ("weir.provider", "two"),
            ("http.response.status_code", "200"),
            ("gen_ai.usage.input_tokens", "9"),
        ],
    ]) {
        assert_eq!((&client.trace_id, &client.parent_span_id), (&server.trace_id, &server.span_id));
        let found = attributes(client);
        for (key, value) in expected {
            assert_eq!(found.get(key).map(String::as_str), Some(value), "{key} of {found:#?}");
        }
        assert_eq!(found["gen_ai.operation.name"], "chat");
    }
    assert_eq!(attributes(clients[0])["error.type"], "ai_upstream");
    let last = attributes(clients[1]);
    assert_eq!((last.get("error.type"), &*last["gen_ai.usage.output_tokens"]), (None, "3"));
    assert!(!format!("{spans:?}").contains("canary"));
    for upstream in [&first, &second] {
        let head = upstream.requests().pop().unwrap().head;
        assert_eq!(head.field("traceparent"), None, "a provider sees nothing of the trace");
    }
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain).expect("gzip");
    plain
}

/// The collector is overloaded at first: what is sent again is valid as a whole.
#[test]
fn compressed_calls_are_valid_each_time_they_are_sent() {
    let collector = Upstream::builder().record_limit(8 << 20).start(responder::in_order([
        responder::status(503),
        responder::status(503),
        responder::status(200),
    ]));
    let upstream = Upstream::start(responder::ok("hello"));
    let endpoint = format!("{}/v1/traces", collector.url());
    let traces = format!("{{endpoint: '{endpoint}', sample: 100%, every: 50ms, compression: gzip}}");
    let weir = gateway(&upstream.url(), &traces, "");
    let path = format!("/items/{}", "a".repeat(1000));
    assert_eq!(weir.get(&path).status(), 200);
    wait::until(DEADLINE, "the spans are accepted", || metric(&weir, "telemetry_spans_total") == 2);
    let calls: Vec<_> = collector.requests().into_iter().filter(|call| call.complete).collect();
    assert_eq!(calls.len(), 3);
    for call in &calls {
        assert_eq!(call.head.field("content-encoding"), Some("gzip"));
        assert_eq!(call.head.field("content-type"), Some("application/x-protobuf"));
        assert_eq!(call.head.field("content-length"), Some(&*call.body.len().to_string()));
        assert_eq!(call.body, calls[0].body, "repeated as it was");
        let message = ExportTraceServiceRequest::decode(&*gunzip(&call.body)).expect("an OTLP message");
        assert_eq!(message.resource_spans[0].scope_spans[0].spans.len(), 2);
    }
    assert_eq!(metric(&weir, "telemetry_export_failures_total{signal=\"traces\"}"), 2);
}
