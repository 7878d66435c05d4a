use super::*;

fn latency(durations_ns: &[u64]) -> Latency {
    let mut histogram = Histogram::default();
    for &duration in durations_ns {
        histogram.record(duration);
    }
    Latency::of(histogram).expect("not empty")
}

fn report(durations_ns: &[u64]) -> Report {
    let mut report = Report::of("gauge");
    let count = durations_ns.len() as u64;
    report.total = Measurement {
        duration_s: Some(2.0),
        concurrency: Some(1.0),
        requests: Requests { responses: Some(count), ..Requests::default() },
        statuses: Some(BTreeMap::from([(200, count)])),
        errors: Errors::none(),
        latency: Some(latency(durations_ns)),
        ..Measurement::default()
    };
    report.operations = vec![Operation { name: "get".to_owned(), total: report.total.clone() }];
    report.seconds = vec![Second {
        at_s: 0,
        sent: Some(count),
        responses: Some(count),
        succeeded: Some(count),
        errors: Some(0),
        dropped: Some(0),
        received_bytes: None,
        latency: Some(latency(durations_ns)),
    }];
    report
}

#[test]
fn a_report_survives_json() {
    let before = report(&[100_000, 250_000, 3_600_000_000_001]);
    let text = before.to_json().expect("JSON");
    let after = Report::from_json(&text).expect("a report");
    assert_eq!(after.total.requests, before.total.requests);
    let (own, added) = (before.total.latency.expect("latency"), after.total.latency.expect("latency"));
    assert_eq!(added.p50_ms, own.p50_ms);
    let (own, added) = (own.histogram.expect("histogram"), added.histogram.expect("histogram"));
    assert_eq!(added.buckets().collect::<Vec<_>>(), own.buckets().collect::<Vec<_>>());
    assert!(text.contains("\"HISTFAAA"), "the form that other ports read: {text}");
    assert!(text.contains("\"corrected\": null"), "what was not measured is null: {text}");
}

/// Reports that earlier versions wrote have other names for the same counts.
#[test]
fn names_of_earlier_versions_are_read() {
    let mut report = report(&[100_000]);
    report.total.requests.late_responses = Some(1);
    report.total.requests.no_response = Some(2);
    report.total.errors.invalid_response = Some(3);
    let text = report.to_json().expect("JSON");
    let old = [
        ("responses", "answered"),
        ("late_responses", "answered_late"),
        ("no_response", "unanswered"),
        ("invalid_response", "bad_reply"),
    ]
    .iter()
    .fold(text, |text, (new, old)| text.replace(&format!("\"{new}\":"), &format!("\"{old}\":")));
    assert!(old.contains("\"answered\":") && old.contains("\"bad_reply\":"));
    let read = Report::from_json(&old).expect("a report");
    assert_eq!((read.total.requests, read.total.errors), (report.total.requests, report.total.errors));
}

#[test]
fn a_later_format_is_refused() {
    let mut report = report(&[1]);
    report.format = FORMAT + 1;
    let error = Report::from_json(&report.to_json().expect("JSON")).expect_err("a later format");
    assert!(error.to_string().contains("use a later gauge"), "{error}");
}

#[test]
fn a_generator_that_ends_early_has_no_rate_afterwards() {
    let of = |requests: u64, seconds: f64| Measurement {
        duration_s: Some(seconds),
        rate: Rate { requested: None, achieved: Some(requests as f64 / seconds) },
        ..Measurement::default()
    };
    let mut sum = of(100, 1.0);
    sum.merge(&of(100, 4.0));
    assert_eq!((sum.duration_s, sum.rate.achieved), (Some(4.0), Some(50.0)));
    sum.merge(&of(200, 2.0));
    assert_eq!((sum.duration_s, sum.rate.achieved), (Some(4.0), Some(100.0)));
    sum.merge(&Measurement::default());
    assert_eq!(sum.rate.achieved, None);
}

#[test]
fn generators_of_one_run_add_up() {
    let mut sum = report(&[1_000_000; 99]);
    sum.merge(&report(&[9_000_000]));
    assert_eq!(sum.total.requests.responses, Some(100));
    assert_eq!(sum.total.statuses, Some(BTreeMap::from([(200, 100)])));
    assert_eq!(sum.total.duration_s, Some(2.0));
    assert_eq!(sum.total.concurrency, Some(2.0));
    let total = sum.total.latency.as_ref().expect("latency");
    assert_eq!(total.count, Some(100));
    assert!((total.p99_ms.expect("p99") - 1.0).abs() < 0.01, "{total:?}");
    assert!((total.max_ms.expect("max") - 9.0).abs() < 0.01, "{total:?}");
    assert_eq!(sum.operations.len(), 1);
    assert_eq!(sum.operations[0].total.requests.responses, Some(100));
    assert_eq!(sum.seconds.len(), 1);
    assert_eq!(sum.seconds[0].responses, Some(100));
}

#[test]
fn connections_of_websocket_add_up() {
    let of = |code, first_error: Option<&str>| WebSocket {
        handshakes: 2,
        handshake: Some(latency(&[1_000_000; 2])),
        pings: 3,
        closes: BTreeMap::from([(code, 1)]),
        first_error: first_error.map(str::to_owned),
    };
    let with = |websocket, closed| Measurement {
        websocket: Some(websocket),
        errors: Errors { closed: Some(closed), ..Errors::none() },
        ..Measurement::default()
    };
    let mut sum = with(of(1006, None), 1);
    sum.merge(&with(of(1011, Some("why")), 2));
    sum.merge(&with(of(1006, Some("another")), 0));
    let websocket = sum.websocket.as_ref().expect("WebSocket");
    assert_eq!((websocket.handshakes, websocket.pings, websocket.first_error.as_deref()), (6, 9, Some("why")));
    assert_eq!(websocket.closes, BTreeMap::from([(1006, 2), (1011, 1)]));
    assert_eq!(websocket.handshake.as_ref().and_then(|handshake| handshake.count), Some(6));
    assert_eq!(sum.errors.closed, Some(3));
    let json = serde_json::to_string(&sum).expect("JSON");
    assert_eq!(serde_json::from_str::<Measurement>(&json).expect("the same").websocket, sum.websocket);
}

#[test]
fn handshakes_of_generators_add_up() {
    let of = |version: &str, verified, first_error: Option<&str>| Tls {
        verified,
        full: 2,
        resumed: 1,
        versions: BTreeMap::from([(version.to_owned(), 3)]),
        ciphers: BTreeMap::from([("C".to_owned(), 3)]),
        handshake: Some(latency(&[1_000_000; 3])),
        first_error: first_error.map(str::to_owned),
    };
    let mut sum = Measurement {
        tls: Some(of("TLSv1.3", true, None)),
        errors: Errors { tls: Some(1), ..Errors::none() },
        ..Measurement::default()
    };
    let other = Measurement {
        tls: Some(of("TLSv1.2", false, Some("why"))),
        errors: Errors { tls: Some(2), ..Errors::none() },
        ..Measurement::default()
    };
    sum.merge(&other);
    sum.merge(&Measurement { errors: Errors { tls: Some(0), ..Errors::none() }, ..Measurement::default() });
    let tls = sum.tls.as_ref().expect("TLS");
    assert_eq!((tls.full, tls.resumed, tls.verified, tls.first_error.as_deref()), (4, 2, false, Some("why")));
    assert_eq!(tls.versions, BTreeMap::from([("TLSv1.2".to_owned(), 3), ("TLSv1.3".to_owned(), 3)]));
    assert_eq!(tls.ciphers, BTreeMap::from([("C".to_owned(), 6)]));
    assert_eq!(tls.handshake.as_ref().and_then(|handshake| handshake.count), Some(6));
    assert_eq!(sum.errors.tls, Some(3));
    let json = serde_json::to_string(&sum).expect("JSON");
    assert_eq!(serde_json::from_str::<Measurement>(&json).expect("the same").tls.map(|tls| tls.full), Some(4));
    assert!(!serde_json::to_string(&Measurement::default()).expect("JSON").contains("tls"), "nothing new without TLS");
}

#[test]
fn what_one_generator_did_not_measure_the_sum_does_not_have() {
    let mut sum = report(&[1_000]);
    let mut other = report(&[1_000]);
    other.total.statuses = None;
    other.total.latency.as_mut().expect("latency").histogram = None;
    sum.merge(&other);
    assert_eq!(sum.total.statuses, None);
    assert_eq!(sum.total.latency, None, "percentiles cannot be merged");
}

#[test]
fn samples_make_the_summary_exact() {
    let latency = Latency::of_samples((1..=100).rev().map(|n| n * 1_000_000).collect()).expect("samples");
    assert_eq!(latency.count, Some(100));
    assert_eq!((latency.min_ms, latency.max_ms), (Some(1.0), Some(100.0)));
    assert_eq!((latency.p50_ms, latency.p95_ms, latency.p99_ms), (Some(50.0), Some(95.0), Some(99.0)));
    assert_eq!(latency.mean_ms, Some(50.5));
    let deviation = latency.stdev_ms.expect("deviation");
    assert!((deviation - 28.866_07).abs() < 1e-4, "{deviation}");
    assert!(!latency.p99_suffices());
}

#[test]
fn nothing_recorded_is_null() {
    assert_eq!(Latency::of(Histogram::default()), None);
    assert_eq!(Latency::of_samples(Vec::new()), None);
    assert_eq!(Measurement::default().error_rate(), None);
}

#[test]
fn an_error_rate_counts_each_request_once() {
    let measurement = Measurement {
        requests: Requests { responses: Some(90), ..Requests::default() },
        errors: Errors { status: Some(5), timeout: Some(10), total: Some(15), ..Errors::none() },
        ..Measurement::default()
    };
    assert_eq!(measurement.ended(), Some(100));
    assert_eq!(measurement.error_rate(), Some(0.15));
}

mod properties {
    use proptest::prelude::*;

    use super::super::*;

    proptest! {
        #[test]
        fn a_quantile_is_within_a_thousandth_of_the_exact_one(durations in prop::collection::vec(1_u64..10_000_000_000, 1..200)) {
            let exact = Latency::of_samples(durations.clone()).expect("samples");
            let mut histogram = Histogram::default();
            for duration in durations {
                histogram.record(duration);
            }
            let latency = Latency::of(histogram).expect("not empty");
            for (own, added) in [(latency.p50_ms, exact.p50_ms), (latency.p99_ms, exact.p99_ms), (latency.max_ms, exact.max_ms)] {
                let (own, added) = (own.expect("set"), added.expect("set"));
                // The histogram's finest step is 64 ns.
                prop_assert!((own - added).abs() <= added * 0.001 + 64e-6, "{} {}", own, added);
            }
        }

        #[test]
        fn any_text_for_a_histogram_is_read_or_refused(text in ".*") {
            let _ = Histogram::decode(&text);
        }

        #[test]
        fn any_bytes_for_a_histogram_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            use ::base64::prelude::*;
            let _ = Histogram::decode(&BASE64_STANDARD.encode(bytes));
        }
    }
}
