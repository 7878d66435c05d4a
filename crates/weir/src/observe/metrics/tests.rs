use std::time::Duration;

use super::*;

mod parse;
pub(crate) mod targets;

use parse::{Parsed, parse};

fn read(metrics: &Metrics) -> Parsed {
    parse(&metrics.render(Format::OpenMetrics), Format::OpenMetrics)
}

fn ok(slot: usize) -> Record {
    Record {
        upstream_slot: slot,
        status: 200,
        request_bytes: 100,
        response_bytes: 1000,
        total_ns: 2_500_000,
        ..Record::default()
    }
}

#[test]
fn requests_are_counted_by_route_upstream_and_status() {
    let metrics = Metrics::new();
    let shard = metrics.shard(0);
    let infer = shard.route("infer", &["python", "node"]);
    infer.record(&Record { upstream_ns: Some(2_000_000), overhead_ns: Some(40_000), ..ok(1) });
    infer.record(&Record { upstream_ns: Some(2_000_000), ..ok(2) });
    infer.record(&Record { status: 429, ..ok(0) });
    shard.unmatched().record(&Record { status: 404, ..ok(0) });
    let m = read(&metrics);
    assert_eq!(m.get(r#"http_requests_total{route="infer",status="200",upstream="python"}"#), Some(1.0));
    assert_eq!(m.get(r#"http_requests_total{route="infer",status="200",upstream="node"}"#), Some(1.0));
    assert_eq!(m.get(r#"http_requests_total{route="infer",status="429",upstream="-"}"#), Some(1.0));
    assert_eq!(m.get(r#"http_requests_total{route="-",status="404",upstream="-"}"#), Some(1.0));
    assert_eq!(m.get(r#"http_request_bytes_total{route="infer"}"#), Some(300.0));
    assert_eq!(m.get(r#"http_response_bytes_total{route="infer"}"#), Some(3000.0));
    assert_eq!(m.get(r#"request_duration_seconds_count{route="infer"}"#), Some(3.0));
    assert_eq!(m.get(r#"request_duration_seconds_sum{route="infer"}"#), Some(0.0075));
    assert_eq!(m.get(r#"request_duration_seconds_bucket{le="0.002",route="infer"}"#), Some(0.0));
    assert_eq!(m.get(r#"request_duration_seconds_bucket{le="0.003",route="infer"}"#), Some(3.0));
    assert_eq!(m.get(r#"upstream_duration_seconds_count{route="infer"}"#), Some(2.0));
    assert_eq!(m.get(r#"upstream_duration_seconds_bucket{le="0.002",route="infer"}"#), Some(2.0));
    assert_eq!(m.get(r#"upstream_duration_seconds_count{route="-"}"#), None, "never asked an upstream");
    assert_eq!(m.get("gateway_overhead_seconds_count"), Some(1.0));
    assert_eq!(m.get(r#"worker_requests_total{worker="0"}"#), Some(4.0));
}

#[test]
fn every_family_of_the_contract_is_there() {
    let metrics = Metrics::new();
    let shard = metrics.shard(0);
    shard.route("r", &[]).record(&ok(0));
    shard.limit("per_client").dropped();
    let cache = shard.cache("answers");
    cache.hit();
    cache.miss();
    cache.miss();
    shard.upstream("python").error(Reason::ConnectFailed);
    shard.not_served(Reason::RateLimited);
    let m = read(&metrics);
    assert!(m.samples.keys().any(|k| k.starts_with("http_requests_total{route=")));
    assert!(m.samples.keys().any(|k| k.starts_with("request_duration_seconds_bucket{")));
    assert_eq!(m.get(r#"rate_limit_dropped_total{limit="per_client"}"#), Some(1.0));
    assert_eq!(m.get(r#"cache_hits_total{cache="answers"}"#), Some(1.0));
    assert_eq!(m.get(r#"cache_misses_total{cache="answers"}"#), Some(2.0));
    let totals = metrics.cache_totals();
    assert_eq!((totals.hits, totals.misses), (1, 2));
    assert_eq!(m.get(r#"upstream_errors_total{reason="connect_failed",upstream="python"}"#), Some(1.0));
    assert_eq!(m.get(r#"request_errors_total{fault="client",reason="rate_limited"}"#), Some(1.0));
}

#[test]
fn counts_of_several_workers_add_up_and_survive_a_reload() {
    let metrics = Metrics::new();
    std::thread::scope(|s| {
        for worker in 0..4 {
            let shard = metrics.shard(worker);
            s.spawn(move || {
                for _reload in 0..10 {
                    let route = shard.route("r", &["u"]);
                    (0..100).for_each(|_| route.record(&ok(1)));
                }
            });
        }
    });
    let m = read(&metrics);
    assert_eq!(m.get(r#"http_requests_total{route="r",status="200",upstream="u"}"#), Some(4000.0));
    assert_eq!(m.get(r#"request_duration_seconds_count{route="r"}"#), Some(4000.0));
    for worker in 0..4 {
        assert_eq!(m.get(&format!(r#"worker_requests_total{{worker="{worker}"}}"#)), Some(1000.0));
    }
}

#[test]
fn a_route_keeps_its_counts_when_its_upstreams_change_places() {
    let metrics = Metrics::new();
    let shard = metrics.shard(0);
    shard.route("r", &["a", "b"]).record(&ok(1));
    shard.route("r", &["b", "a"]).record(&ok(1));
    shard.route("r", &["a"]).record(&ok(7)); // a slot that is not there
    let m = read(&metrics);
    assert_eq!(m.get(r#"http_requests_total{route="r",status="200",upstream="a"}"#), Some(1.0));
    assert_eq!(m.get(r#"http_requests_total{route="r",status="200",upstream="b"}"#), Some(1.0));
    assert_eq!(m.get(r#"http_requests_total{route="r",status="200",upstream="-"}"#), Some(1.0));
}

#[test]
fn any_status_is_counted() {
    let metrics = Metrics::new();
    let shard = metrics.shard(0);
    let route = shard.route("r", &[]);
    for status in [0, 99, 100, 101, 199, 299, 499, 599, 600, 999, 1000, u16::MAX] {
        route.record(&Record { status, ..ok(0) });
    }
    let m = read(&metrics);
    let count = |status| m.get(&format!(r#"http_requests_total{{route="r",status="{status}",upstream="-"}}"#));
    assert_eq!(
        [100, 101, 199, 299, 499, 599, 600, 999].map(count).map(Option::unwrap),
        [3., 1., 1., 1., 1., 1., 1., 3.]
    );
}

#[test]
fn a_name_out_of_use_is_reported_for_ten_minutes_and_not_for_ever() {
    let names = Names::<LimitCells>::default();
    let start = Instant::now();
    let minutes = |n: u64| start + Duration::from_secs(60 * n);
    let (one, other) = (names.get("old", 0), names.get("old", 3));
    one.dropped.add(2);
    let reported = |at| names.snapshot(at).iter().any(|(name, _)| **name == *"old");
    assert!(reported(minutes(60)), "in use");
    drop(one);
    assert!(reported(minutes(120)), "still in use by worker 3");
    drop(other);
    assert!(reported(minutes(180)) && reported(minutes(189)));
    names.get("old", 0).dropped.add(1);
    assert!(reported(minutes(195)), "came back in between");
    let dropped: u64 = names.snapshot(minutes(195))[0].1.iter().map(|c| c.dropped.get()).sum();
    assert_eq!(dropped, 3, "and kept its counts");
    assert!(reported(minutes(204)));
    assert!(!reported(minutes(205)));
    assert_eq!(names.get("old", 0).dropped.get(), 0, "a new start");
}

#[test]
fn connections_errors_and_upstreams_are_counted() {
    let metrics = Metrics::new();
    let shard = metrics.shard(1);
    (0..3).for_each(|_| shard.connection_opened());
    shard.connection_closed();
    shard.connection_handed_over();
    shard.panicked();
    (0..2).for_each(|_| shard.early_deadline_counter()());
    assert_eq!(shard.open_connections(), 2);
    let upstream = shard.upstream("u");
    upstream.connection_opened();
    (0..5).for_each(|_| upstream.connection_reused());
    upstream.connection_discarded();
    upstream.retried();
    upstream.fallback();
    metrics.reload_applied();
    metrics.reload_refused();
    let m = read(&metrics);
    for (sample, value) in [
        (r#"client_connections_accepted_total{worker="0"}"#, 0.0),
        (r#"client_connections_accepted_total{worker="1"}"#, 3.0),
        (r#"client_connections_open{worker="1"}"#, 2.0),
        (r#"client_connections_handed_over_total{worker="1"}"#, 1.0),
        ("weir_panics_total", 1.0),
        (r#"worker_deadlines_fired_early_total{worker="1"}"#, 2.0),
        (r#"upstream_connections_opened_total{upstream="u"}"#, 1.0),
        (r#"upstream_connections_reused_total{upstream="u"}"#, 5.0),
        (r#"upstream_connections_discarded_total{upstream="u"}"#, 1.0),
        (r#"upstream_retries_total{upstream="u"}"#, 1.0),
        (r#"upstream_fallbacks_total{upstream="u"}"#, 1.0),
        (r#"weir_reloads_total{result="applied"}"#, 1.0),
        (r#"weir_reloads_total{result="refused"}"#, 1.0),
        ("weir_last_reload_successful", 0.0),
    ] {
        assert_eq!(m.get(sample), Some(value), "{sample}");
    }
    let (start, reload) = ("process_start_time_seconds", "weir_last_reload_success_timestamp_seconds");
    // One is in milliseconds, rounded down.
    assert!(m.get(reload).unwrap() + 0.001 >= m.get(start).unwrap());
    metrics.reload_applied();
    assert_eq!(read(&metrics).get("weir_last_reload_successful"), Some(1.0));
}

#[test]
fn the_process_is_described() {
    let m = read(&Metrics::new());
    assert_eq!(m.get(&format!(r#"weir_build_info{{version="{}"}}"#, env!("CARGO_PKG_VERSION"))), Some(1.0));
    for positive in [
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
        "process_threads",
        "process_open_fds",
        "process_max_fds",
    ] {
        assert!(m.get(positive) > Some(0.0), "{positive}");
    }
    assert!(m.get("process_cpu_seconds_total").is_some() && m.get("weir_uptime_seconds").is_some());
}

#[test]
fn sources_are_read_at_every_scrape_and_any_label_value_is_escaped() {
    let metrics = Metrics::new();
    let nasty = "a\"b\\c\nd{e=\"f\"} 1";
    metrics.add_source(Arc::new(move |out: &mut Exposition<'_>| {
        out.gauge("upstream_target_in_flight", "Requests in flight", |s| {
            s.add(&[("upstream", nasty), ("target", "127.0.0.1:1")], 4u64)?;
            s.add(&[("upstream", "b"), ("target", "")], -0.5)
        })?;
        out.gauge("upstream_target_healthy", "1 when healthy", |s| s.add(&[("upstream", nasty)], true))?;
        out.histogram("waits", "Waits", |s| s.add_buckets(&[], &[0.5], &[2, 1], 3.0))?;
        out.counter("upstream_ejections", "Ejections", |_| Ok(()))
    }));
    metrics.shard(0).route(nasty, &[nasty]).record(&ok(1));
    for format in [Format::OpenMetrics, Format::Classic] {
        let m = parse(&metrics.render(format), format);
        let label = format!("{nasty:?}");
        assert_eq!(m.get(&format!(r#"upstream_target_in_flight{{target="127.0.0.1:1",upstream={label}}}"#)), Some(4.0));
        assert_eq!(m.get(r#"upstream_target_in_flight{target="",upstream="b"}"#), Some(-0.5));
        assert_eq!(m.get(&format!("upstream_target_healthy{{upstream={label}}}")), Some(1.0));
        // Without this bucket Prometheus can tell no quantile.
        assert_eq!(m.get(r#"waits_bucket{le="+Inf"}"#), Some(3.0));
        assert_eq!(m.get(&format!("http_requests_total{{route={label},status=\"200\",upstream={label}}}")), Some(1.0));
    }
}

#[test]
fn each_bucket_has_the_newest_trace_of_all_workers() {
    use telemetry::{Parent, SpanId, TraceId};

    let metrics = Metrics::new();
    let put = |worker: usize, trace: u128, total_ns: u64| {
        let route = metrics.shard(worker).route("r", &["u"]);
        let request = Record { total_ns, ..ok(1) };
        route.record(&request);
        route.keep_trace(&request, Parent { trace: TraceId(trace), span: SpanId(7), is_sampled: true });
    };
    put(0, 0xa1, 2_500_000);
    // A later millisecond: the newest one is the other worker's.
    let now = || unix_ms(SystemTime::now());
    let before = now();
    while now() == before {
        std::thread::yield_now();
    }
    put(1, 0xb2, 2_900_000);
    put(0, 0xc3, 3_000_000_000_000);
    let text = metrics.render(Format::OpenMetrics);
    parse(&text, Format::OpenMetrics);
    let of = |le: &str| {
        let bucket = format!("request_duration_seconds_bucket{{route=\"r\",le=\"{le}\"}} ");
        let line = text.lines().find(|line| line.starts_with(&bucket)).unwrap_or_else(|| panic!("{le}: {text}"));
        line.split_once(" # ").map(|(_, exemplar)| exemplar.split(' ').take(2).collect::<Vec<_>>().join(" "))
    };
    let trace =
        |trace: &str, value: &str| Some(format!("{{trace_id=\"{trace:0>32}\",span_id=\"0000000000000007\"}} {value}"));
    assert_eq!((of("0.003"), of("0.002"), of("0.005")), (trace("b2", "0.0029"), None, None));
    assert_eq!(of("+Inf"), trace("c3", "3000"));
    let classic = metrics.render(Format::Classic);
    parse(&classic, Format::Classic);
    assert!(!classic.contains("trace_id"), "the classic format has no exemplars");
}

#[test]
fn the_classic_format_says_the_same_in_its_own_way() {
    let metrics = Metrics::new();
    let shard = metrics.shard(0);
    shard.route("r", &["u"]).record(&ok(1));
    let open = parse(&metrics.render(Format::OpenMetrics), Format::OpenMetrics);
    let classic = parse(&metrics.render(Format::Classic), Format::Classic);
    assert_eq!(open.samples.keys().collect::<Vec<_>>(), classic.samples.keys().collect::<Vec<_>>());
    assert_eq!(classic.types["http_requests_total"], "counter");
    assert_eq!(classic.types["weir_build_info"], "gauge");
    assert_eq!(classic.types["request_duration_seconds"], "histogram");
}

#[test]
fn the_format_follows_accept() {
    use Format::{Classic, OpenMetrics};
    for (accept, format) in [
        ("", Classic),
        ("*/*", Classic),
        ("text/plain;version=0.0.4", Classic),
        ("application/openmetrics-text", OpenMetrics),
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.4,*/*;q=0.2",
            OpenMetrics,
        ),
        ("text/plain, Application/OpenMetrics-Text; version=1.0.0", OpenMetrics),
        ("application/openmetrics-text;q=0, text/plain", Classic),
    ] {
        assert_eq!(Format::of_accept(accept), format, "{accept}");
    }
}

#[test]
fn a_route_takes_little_memory() {
    assert!(size_of::<RouteCells>() + size_of::<Statuses>() <= 2048);
    // Once for each worker.
    assert!(size_of::<WorkerCells>() <= 1536);
}
