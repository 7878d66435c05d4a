//! Metrics over OTLP end to end: a real gateway, and a collector that reads them with the published messages.

use std::io::Read as _;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use prost::Message as _;
use testkit::ports::Port;
use testkit::{RawClient, Upstream, Weir, responder, wait};

const DEADLINE: Duration = Duration::from_secs(30);

fn gateway(endpoint: &str, every: &str, more: &str) -> Weir {
    let yaml = format!(
        "listen: 127.0.0.1:0
admin: 127.0.0.1:0
workers: 2
telemetry: {{resource: {{deployment.environment.name: test}}, metrics: {{endpoint: '{endpoint}', every: {every}{more}}}}}
routes:
  - {{name: hello, match: {{path: /hello}}, respond: {{status: 200}}}}
"
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

fn calls(collector: &Upstream) -> Vec<ExportMetricsServiceRequest> {
    let requests = collector.requests();
    let calls = requests.iter().filter(|call| call.complete).map(|call| {
        assert_eq!((call.head.method(), call.head.target()), ("POST", "/v1/metrics"));
        assert_eq!(call.head.field("content-type"), Some("application/x-protobuf"));
        assert_eq!(call.head.field("x-team"), Some("edge"));
        let mut message = call.body.to_vec();
        if let Some(coding) = call.head.field("content-encoding") {
            assert_eq!(coding, "gzip");
            message.clear();
            flate2::read::GzDecoder::new(&*call.body).read_to_end(&mut message).expect("gzip");
            assert!(message.len() > call.body.len());
        }
        ExportMetricsServiceRequest::decode(&*message).expect("an OTLP message")
    });
    calls.collect()
}

fn is_labelled(attributes: &[KeyValue], key: &str, value: &str) -> bool {
    let text = Any::StringValue(value.to_owned());
    attributes.iter().any(|one| one.key == key && one.value.as_ref().is_some_and(|any| any.value == Some(text.clone())))
}

fn data<'c>(call: &'c ExportMetricsServiceRequest, name: &str) -> Option<&'c Data> {
    let scope = &call.resource_metrics[0].scope_metrics[0];
    scope.metrics.iter().find(|metric| metric.name == name)?.data.as_ref()
}

/// Requests of the route, and when their counting began.
fn hellos(call: &ExportMetricsServiceRequest) -> Option<(i64, u64)> {
    let Data::Sum(sum) = data(call, "http_requests_total")? else { panic!("no sum") };
    assert_eq!((sum.aggregation_temporality, sum.is_monotonic), (2, true));
    let point = sum.data_points.iter().find(|point| is_labelled(&point.attributes, "route", "hello"))?;
    let Some(Value::AsInt(count)) = point.value else { panic!("{point:?}") };
    Some((count, point.start_time_unix_nano))
}

#[test]
fn a_collector_gets_what_metrics_say() {
    let collector = Upstream::builder().record_limit(8 << 20).start(responder::ok(""));
    let weir = gateway(&format!("{}/v1/metrics", collector.url()), "50ms", ", headers: {X-Team: edge}");
    (0..3).for_each(|_| assert_eq!(weir.get("/hello").status(), 200));
    let seen = || calls(&collector).iter().filter_map(hellos).map(|(count, _)| count).max();
    wait::until(DEADLINE, "the counts", || seen() == Some(3));
    weir.stop(DEADLINE);
    let calls = calls(&collector);
    let counts: Vec<_> = calls.iter().filter_map(hellos).collect();
    assert!(counts.iter().all(|(_, start)| *start == counts[0].1), "cumulative since the start");
    assert_eq!(counts.last().unwrap().0, 3);
    let last = calls.last().unwrap();
    let resource = &last.resource_metrics[0].resource.as_ref().unwrap().attributes;
    assert!(is_labelled(resource, "service.name", "weir"));
    assert!(is_labelled(resource, "deployment.environment.name", "test"));
    let Some(Data::Histogram(durations)) = data(last, "request_duration_seconds") else { panic!() };
    let of_route = durations.data_points.iter().find(|point| is_labelled(&point.attributes, "route", "hello")).unwrap();
    assert_eq!((of_route.count, of_route.bucket_counts.iter().sum::<u64>()), (3, 3));
    assert_eq!(of_route.bucket_counts.len(), of_route.explicit_bounds.len() + 1);
    let Some(Data::Gauge(limit)) = data(last, "client_connections_limit") else { panic!() };
    assert!(matches!(limit.data_points[0].value, Some(Value::AsInt(1..))));
}

#[test]
fn metrics_are_sent_once_more_when_the_process_ends() {
    let collector = Upstream::builder().record_limit(8 << 20).start(responder::ok(""));
    let more = ", headers: {X-Team: edge}, compression: gzip";
    let weir = gateway(&format!("{}/v1/metrics", collector.url()), "1h", more);
    assert_eq!(weir.get("/hello").status(), 200);
    weir.stop(DEADLINE);
    let counts: Vec<_> = calls(&collector).iter().filter_map(hellos).map(|(count, _)| count).collect();
    assert_eq!(counts, [1]);
    assert_eq!(collector.requests()[0].head.field("content-encoding"), Some("gzip"));
}

#[test]
fn a_collector_that_is_away_or_refuses_costs_no_request_and_is_counted() {
    let dead = Port::free();
    let partial = ExportMetricsPartialSuccess { rejected_data_points: 5, error_message: "why".to_owned() };
    let refusal = ExportMetricsServiceResponse { partial_success: Some(partial) }.encode_to_vec();
    let refusing = Upstream::start(responder::ok(refusal));
    for (endpoint, counted) in [
        (format!("http://{}/v1/metrics", dead.address()), "telemetry_export_failures_total{signal=\"metrics\"}"),
        (format!("{}/v1/metrics", refusing.url()), "telemetry_dropped_total{signal=\"metrics\",reason=\"refused\"}"),
    ] {
        let weir = gateway(&endpoint, "50ms", "");
        wait::until(DEADLINE, counted, || {
            assert_eq!(weir.get("/hello").status(), 200);
            let text = weir.admin_get("/metrics");
            let value = text.text().lines().find_map(|line| line.strip_prefix(counted)?.trim().parse::<f64>().ok());
            value.is_some_and(|value| value >= 1.0)
        });
    }
}

fn instance(attributes: &[KeyValue]) -> String {
    let ids: Vec<_> = attributes.iter().filter(|one| one.key == "service.instance.id").collect();
    let [id] = *ids else { panic!("{attributes:?}") };
    let Some(Any::StringValue(id)) = id.value.as_ref().and_then(|any| any.value.clone()) else { panic!("{id:?}") };
    id
}

/// Several gateways may have the same configuration.
#[test]
fn metrics_and_traces_say_which_process_they_are_of() {
    let mut random = Vec::new();
    for resource in ["{}", "{}", "{service.instance.id: edge-1}"] {
        let collector = Upstream::builder().record_limit(8 << 20).start(responder::ok(""));
        let url = collector.url();
        let yaml = format!(
            "listen: 127.0.0.1:0
telemetry:
  resource: {resource}
  metrics: {{endpoint: '{url}/v1/metrics', every: 50ms}}
  traces: {{endpoint: '{url}/v1/traces', every: 50ms, sample: 100%}}
routes:
  - {{match: {{path: /hello}}, respond: {{status: 200}}}}
"
        );
        let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
        assert_eq!(weir.get("/hello").status(), 200);
        let body = |target: &str| {
            wait::some(DEADLINE, target, || {
                let mut calls = collector.requests().into_iter();
                calls.find(|call| call.complete && call.head.target() == target).map(|call| call.body)
            })
        };
        let traces = ExportTraceServiceRequest::decode(&*body("/v1/traces")).unwrap();
        let metrics = ExportMetricsServiceRequest::decode(&*body("/v1/metrics")).unwrap();
        let of_traces = instance(&traces.resource_spans[0].resource.as_ref().unwrap().attributes);
        let of_metrics = instance(&metrics.resource_metrics[0].resource.as_ref().unwrap().attributes);
        assert_eq!(of_traces, of_metrics);
        random.push(of_traces);
    }
    assert_eq!(random.pop().unwrap(), "edge-1");
    assert!(random[0].len() == 36 && random[0] != random[1], "{random:?}");
}

/// As in a container whose platform sets them for every program.
#[test]
fn variables_of_opentelemetry_name_the_collector() {
    let collector = Upstream::builder().record_limit(8 << 20).start(responder::ok(""));
    let yaml = |telemetry: &str| {
        format!(
            "listen: 127.0.0.1:0
admin: 127.0.0.1:0
telemetry: {telemetry}
routes:
  - {{match: {{path: /hello}}, respond: {{status: 200}}}}
"
        )
    };
    let start = |telemetry: &str, headers: &str| {
        Weir::builder(env!("CARGO_BIN_EXE_weir"))
            .config(yaml(telemetry))
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("{}/base", collector.url()))
            .env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", format!("{}/own", collector.url()))
            .env("OTEL_EXPORTER_OTLP_HEADERS", headers)
            .env("OTEL_SERVICE_NAME", "edge")
            .env("OTEL_TRACES_SAMPLER", "always_on")
    };
    let headers = "Authorization=Bearer%20canary";
    // Nothing is switched on.
    let weir = start("{}", headers).start();
    assert_eq!(weir.get("/hello").status(), 200);
    weir.stop(DEADLINE);
    assert_eq!(collector.requests().len(), 0);

    let weir = start("{traces: {every: 50ms}, metrics: {every: 50ms}}", headers).start();
    assert_eq!(weir.get("/hello").status(), 200);
    let call = |target: &str| {
        wait::some(DEADLINE, target, || {
            let mut calls = collector.requests().into_iter();
            calls.find(|call| call.complete && call.head.target() == target)
        })
    };
    let (traces, metrics) = (call("/base/v1/traces"), call("/own"));
    for call in [&traces, &metrics] {
        assert_eq!(call.head.field("authorization"), Some("Bearer canary"));
    }
    let traces = ExportTraceServiceRequest::decode(&*traces.body).unwrap();
    let metrics = ExportMetricsServiceRequest::decode(&*metrics.body).unwrap();
    for resource in [&traces.resource_spans[0].resource, &metrics.resource_metrics[0].resource] {
        assert!(is_labelled(&resource.as_ref().unwrap().attributes, "service.name", "edge"));
    }
    // A reload reads the same variables, so nothing has changed.
    let config = weir.admin_get("/config").text().to_owned();
    assert!(config.contains("/base/v1/traces") && config.contains("service.name: edge"), "{config}");
    assert!(config.contains("sample: 100%") && !config.contains("canary"), "{config}");
    let mut admin = RawClient::connect(weir.admin_addr());
    admin.request("POST", "/reload", &[("Host", &weir.admin_addr().to_string())], "");
    let reloaded = admin.read_response();
    assert_eq!(reloaded.status(), 200, "{}", reloaded.text());
    assert!(!reloaded.text().contains("telemetry"), "{}", reloaded.text());

    let refused = start("{traces: {}}", "Bearer canary").run();
    assert_eq!(refused.code, Some(64), "{refused:?}");
    assert!(refused.stderr.contains("OTEL_EXPORTER_OTLP_HEADERS: entry 1 has no `=`"), "{refused:?}");
    assert!(!refused.stderr.contains("canary") && !refused.stdout.contains("canary"), "{refused:?}");
}

/// Attributes of a point in one text.
fn series(attributes: &[KeyValue]) -> String {
    let mut all: Vec<String> = attributes
        .iter()
        .map(|one| match one.value.as_ref().and_then(|any| any.value.clone()) {
            Some(Any::StringValue(text)) => format!("{}={text}", one.key),
            Some(Any::IntValue(number)) => format!("{}:{number}", one.key),
            other => panic!("{other:?}"),
        })
        .collect();
    all.sort();
    all.join(" ")
}

/// Series of a histogram with their counts, in order.
fn counted(call: &ExportMetricsServiceRequest, name: &str) -> Vec<(String, u64)> {
    let Some(Data::Histogram(histogram)) = data(call, name) else { return Vec::new() };
    assert_eq!(histogram.aggregation_temporality, 2);
    let mut all: Vec<_> = histogram
        .data_points
        .iter()
        .map(|point| {
            let bounds = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];
            assert_eq!(point.explicit_bounds, bounds);
            assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
            (series(&point.attributes), point.count)
        })
        .collect();
    all.sort();
    all
}

/// The stable metrics of OpenTelemetry's conventions, across a reload that renames the route.
#[test]
fn durations_have_the_names_and_attributes_of_the_conventions() {
    let collector = Upstream::builder().record_limit(8 << 20).start(responder::ok(""));
    let upstream = Upstream::start(responder::in_order([
        responder::status(503),
        responder::status(200),
        responder::status(200),
        responder::status(404),
    ]));
    let dead = Port::free();
    let yaml = |name: &str| {
        format!(
            "listen: 127.0.0.1:0
admin: 127.0.0.1:0
workers: 2
telemetry: {{metrics: {{endpoint: '{}/v1/metrics', every: 50ms, headers: {{X-Team: edge}}}}}}
upstreams:
  app: {{targets: ['{}'], retry: {{extra_attempts: 1, budget: 100%, on: [connect, 503]}}, eject: none}}
  dead: {{targets: ['http://{}'], retry: {{extra_attempts: 0}}}}
routes:
  - {{name: {name}, match: {{path: '/items/{{id}}'}}, upstream: app}}
  - {{name: dead, match: {{path: /dead}}, upstream: dead}}
",
            collector.url(),
            upstream.url(),
            dead.address()
        )
    };
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml("before")).start();
    assert_eq!(weir.get("/items/1").status(), 200);
    weir.rewrite_config(&yaml("after"));
    let mut admin = RawClient::connect(weir.admin_addr());
    admin.request("POST", "/reload", &[("Host", &weir.admin_addr().to_string())], "");
    assert_eq!(admin.read_response().status(), 200);
    for (method, target, status) in
        [("GET", "/items/2", 200), ("BREW", "/items/3", 404), ("GET", "/dead", 502), ("GET", "/nothing", 404)]
    {
        assert_eq!(weir.request(method, target, &[], "").status(), status, "{target}");
    }
    let mut broken = RawClient::connect(weir.addr());
    broken.send("GET / HTTP/1.1\r\nbroken\r\n\r\n");
    assert_eq!(broken.read_response().status(), 400);
    assert!(!weir.admin_get("/metrics").text().contains("http_server_request_duration"));
    weir.stop(DEADLINE);

    let calls = calls(&collector);
    let last = calls.last().unwrap();
    let of = |method: &str, rest: &str| format!("{rest} http.request.method={method}");
    let mut expected: Vec<(String, u64)> = [
        ("GET", "http.response.status_code:200 http.route=/items/{id}", 2),
        ("_OTHER", "http.response.status_code:404 http.route=/items/{id}", 1),
        ("GET", "error.type=connect_failed http.response.status_code:502 http.route=/dead", 1),
        ("GET", "error.type=not_found http.response.status_code:404", 1),
        ("GET", "error.type=bad_request http.response.status_code:400", 1),
    ]
    .into_iter()
    .map(|(method, rest, count)| {
        let text = of(method, &format!("{rest} network.protocol.version=1.1 url.scheme=http"));
        (sorted(&text), count)
    })
    .collect();
    expected.sort();
    assert_eq!(counted(last, "http.server.request.duration"), expected);

    let (app, dead) = (upstream.socket_addr().port(), dead.address().port());
    let mut expected: Vec<(String, u64)> = [
        ("GET", "http.response.status_code:200 network.protocol.version=1.1", app, 2),
        ("GET", "error.type=503 http.response.status_code:503 network.protocol.version=1.1", app, 1),
        ("_OTHER", "error.type=404 http.response.status_code:404 network.protocol.version=1.1", app, 1),
        ("GET", "error.type=connect_failed", dead, 1),
    ]
    .into_iter()
    .map(|(method, rest, port, count)| {
        let text = format!("{rest} server.address=127.0.0.1 server.port:{port} url.scheme=http");
        (sorted(&of(method, &text)), count)
    })
    .collect();
    expected.sort();
    assert_eq!(counted(last, "http.client.request.duration"), expected);
}

fn sorted(text: &str) -> String {
    let mut words: Vec<&str> = text.split(' ').collect();
    words.sort_unstable();
    words.join(" ")
}
