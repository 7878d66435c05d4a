use super::*;
use crate::results::report::{LatencyFrom, Measurement};

macro_rules! golden {
    ($name:literal) => {
        include_str!(concat!("../../tests/golden/import/", $name))
    };
}

fn total(text: &str) -> Measurement {
    read(text).expect("a result").total
}

fn close(own: Option<f64>, other: f64) {
    let own = own.expect("a number");
    assert!((own - other).abs() <= other.abs() * 1e-6 + 1e-9, "{own} is not {other}");
}

#[test]
fn wrk_with_latencies() {
    let report = read(golden!("wrk-latency.txt")).expect("a result");
    assert_eq!(report.generator.name, "wrk");
    assert_eq!(report.generator.threads, Some(1));
    assert_eq!(report.generator.latency_from, Some(LatencyFrom::Sent));
    let total = &report.total;
    assert_eq!(total.concurrency, Some(4.0));
    assert_eq!(total.requests.responses, Some(38_819));
    close(total.duration_s, 1.0);
    close(total.rate.achieved, 38_682.03);
    assert_eq!(total.errors.total, Some(0));
    let latency = total.latency.as_ref().expect("latency");
    close(latency.mean_ms, 0.20776);
    close(latency.stdev_ms, 0.47635);
    close(latency.max_ms, 5.61);
    close(latency.p50_ms, 0.048);
    close(latency.p75_ms, 0.131);
    close(latency.p99_ms, 2.58);
    assert_eq!(latency.p95_ms, None, "it does not say");
    assert_eq!(total.statuses, None, "it does not say");
}

#[test]
fn wrk_with_errors() {
    let total = total(golden!("wrk-non2xx.txt"));
    assert_eq!(total.errors.status, Some(24_429));
    assert_eq!(total.error_rate(), Some(1.0));
    let text = golden!("wrk-latency.txt")
        .replace("Requests/sec", "  Socket errors: connect 1, read 2, write 3, timeout 4\nRequests/sec");
    let errors = self::total(&text).errors;
    assert_eq!((errors.connect, errors.reset, errors.timeout, errors.total), (Some(1), Some(5), Some(4), Some(10)));
}

#[test]
fn hey_and_what_it_says_of_a_dead_server() {
    let total = total(golden!("hey.txt"));
    assert_eq!(total.requests.responses, Some(500));
    close(total.duration_s, 0.0912);
    close(total.rate.achieved, 500.0 / 0.0912);
    assert_eq!(total.statuses.as_ref().expect("statuses")[&200], 500);
    let latency = total.latency.as_ref().expect("latency");
    close(latency.mean_ms, 0.8);
    close(latency.p99_ms, 5.6);
    close(latency.max_ms, 10.2);
    assert_eq!(total.errors.total, Some(0));

    let total = self::total(golden!("hey-dead.txt"));
    assert_eq!(total.requests.responses, Some(0));
    close(total.rate.achieved, 0.0);
    assert_eq!((total.errors.connect, total.errors.total), (Some(40), Some(40)));
    assert_eq!(total.error_rate(), Some(1.0));
    assert_eq!(total.latency, None);
}

#[test]
fn hey_as_csv() {
    let total = total(golden!("hey.csv"));
    assert_eq!(total.requests.responses, Some(30));
    let latency = total.latency.as_ref().expect("latency");
    assert_eq!(latency.samples_ns.as_ref().map(Vec::len), Some(30));
    assert_eq!(total.errors.total, None, "requests without an answer are not listed");
}

#[test]
fn ab_with_and_without_errors() {
    let total = total(golden!("ab.txt"));
    assert_eq!((total.requests.responses, total.concurrency), (Some(500), Some(5.0)));
    close(total.rate.achieved, 21_309.24);
    assert_eq!(total.bytes.received, Some(96_000));
    assert_eq!(total.errors.total, Some(0));
    let latency = total.latency.as_ref().expect("latency");
    assert_eq!((latency.min_ms, latency.max_ms, latency.p99_ms), (Some(0.0), Some(3.0), Some(2.0)));
    let total = self::total(golden!("ab-non2xx.txt"));
    assert_eq!((total.errors.status, total.errors.total), (Some(50), Some(50)));
}

#[test]
fn k6_in_both_forms() {
    let total = total(golden!("k6-handle.json"));
    assert_eq!(total.requests.responses, Some(3_472));
    close(total.duration_s, 1.001_788_274);
    assert_eq!(total.concurrency, Some(3.0));
    let latency = total.latency.as_ref().expect("latency");
    close(latency.p99_ms, 8.588_724_989_999_998);
    assert_eq!(latency.count, Some(3_472));
    assert_eq!(total.errors.total, Some(0));
    assert_eq!(total.errors.connect, None, "it does not say");

    let total = self::total(golden!("k6-export.json"));
    assert_eq!(total.requests.responses, Some(6_004));
    close(total.rate.achieved, 5_979.808_767);
    let latency = total.latency.as_ref().expect("latency");
    close(latency.p95_ms, 1.876_546_099_999_987_2);
    assert_eq!(latency.p99_ms, None, "it was not asked for");
    assert_eq!(total.errors.total, Some(0));
}

#[test]
fn k6_counts_failures_as_passes() {
    let text = r#"{"metrics": {"http_reqs": {"count": 200, "rate": 20}, "http_req_failed": {"passes": 30, "fails": 170, "value": 0.15},
        "dropped_iterations": {"count": 7, "rate": 0.7}}}"#;
    let total = total(text);
    assert_eq!(total.errors.total, Some(30));
    assert_eq!(total.error_rate(), Some(0.15));
    assert_eq!(total.requests.dropped, Some(7));
    assert_eq!(total.latency, None);
    assert_eq!(total.duration_s, Some(10.0));
}

#[test]
fn vegeta_as_documented() {
    let total = total(golden!("vegeta.json"));
    assert_eq!((total.requests.sent, total.requests.responses), (Some(100), Some(96)));
    assert_eq!((total.errors.status, total.errors.connect, total.errors.total), (Some(2), Some(4), Some(6)));
    assert_eq!(total.error_rate(), Some(0.06));
    close(total.duration_s, 0.993_507_166);
    close(total.latency.as_ref().expect("latency").p99_ms, 3.53);
}

#[test]
fn oha_as_it_writes() {
    let text = r#"{"summary": {"successRate": 1.0, "total": 2.0, "slowest": 0.02, "fastest": 0.0001, "average": 0.001, "requestsPerSec": 500.0,
        "totalData": 38000, "sizePerRequest": 38, "sizePerSec": 19000.0}, "responseTimeHistogram": {}, "latencyPercentiles": {"p10": 0.0002,
        "p50": 0.0005, "p75": 0.0008, "p90": 0.001, "p95": 0.002, "p99": 0.004, "p99.9": 0.01, "p99.99": null},
        "statusCodeDistribution": {"200": 990, "500": 10}, "errorDistribution": {"aborted due to deadline": 4, "connection closed before message completed": 3}}"#;
    let total = total(text);
    assert_eq!((total.requests.responses, total.requests.no_response), (Some(1_000), Some(4)));
    assert_eq!((total.errors.status, total.errors.reset, total.errors.total), (Some(10), Some(3), Some(13)));
    close(total.latency.as_ref().expect("latency").p999_ms, 10.0);
    close(total.rate.achieved, 500.0);
}

#[test]
fn a_results_file_of_jmeter() {
    let text = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,failureMessage,bytes,sentBytes,grpThreads,allThreads,URL,Latency,IdleTime,Connect\n\
        1000,10,get,200,OK,users 1-1,text,true,,300,100,2,2,http://a/,9,0,1\n\
        1500,30,get,503,\"Service, Unavailable\",users 1-2,text,false,,200,100,2,2,http://a/,9,0,1\n\
        2500,500,bid,403,Forbidden,users 1-1,text,true,,200,100,2,2,http://a/b,9,0,1\n\
        2900,100,bid,Non HTTP response code: java.net.SocketTimeoutException,\"Non HTTP response message: Read timed out\",users 1-1,text,false,,0,0,2,2,http://a/b,0,0,1\n";
    let report = read(text).expect("a result");
    assert_eq!(report.operations.iter().map(|operation| operation.name.as_str()).collect::<Vec<_>>(), ["get", "bid"]);
    let total = &report.total;
    assert_eq!(total.requests.responses, Some(3));
    assert_eq!((total.errors.status, total.errors.timeout, total.errors.total), (Some(1), Some(1), Some(2)));
    assert_eq!(total.concurrency, Some(2.0));
    close(total.duration_s, 2.0);
    assert_eq!(total.latency.as_ref().and_then(|latency| latency.max_ms), Some(500.0));
    assert_eq!(
        report.seconds.iter().map(|second| (second.at_s, second.responses)).collect::<Vec<_>>(),
        [(0, Some(2)), (2, Some(1))]
    );
}

#[test]
fn a_table_of_jmeter() {
    let report = read(golden!("aggregate.csv")).expect("a result");
    assert_eq!(report.total.requests.responses, Some(100));
    assert_eq!(report.total.errors.total, Some(1));
    assert_eq!(report.operations[0].name, "create");
    let latency = report.operations[0].total.latency.as_ref().expect("latency");
    assert_eq!((latency.min_ms, latency.stdev_ms, latency.p95_ms), (Some(139.0), Some(43.0), Some(307.0)));
    assert_eq!(report.operations[1].total.errors.total, Some(1));
}

#[test]
fn our_own_report() {
    let report = Report::of("gauge");
    assert_eq!(read(&report.to_json().expect("JSON")), Ok(report));
}

#[test]
fn what_is_no_result_is_refused() {
    for text in ["", "hello", "{}", "{\"metrics\": 1", "[1]", "a,b\n1,2\n", "Label\n"] {
        assert_eq!(read(text), Err(ReadError::Unknown), "{text}");
    }
    for (text, expected) in [
        ("{\"metrics\": {}}", "no metric http_reqs"),
        ("{\"latencies\": {}}", "missing field"),
        ("{\"latencyPercentiles\": {}}", "missing field"),
        ("Running 1s test @ http://a/\n", "`N requests in T` is missing"),
        ("timeStamp,elapsed,label\n", "the column responseCode is missing"),
        ("timeStamp,elapsed,label,responseCode,success\nx,1,a,200,true\n", "line 2 is no sample"),
        ("Label,# Samples\nget,many\n", "no number of samples"),
    ] {
        let error = read(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    const WHOLE: [&str; 9] = [
        golden!("wrk-latency.txt"),
        golden!("wrk-non2xx.txt"),
        golden!("hey.txt"),
        golden!("hey.csv"),
        golden!("ab.txt"),
        golden!("k6-handle.json"),
        golden!("k6-export.json"),
        golden!("vegeta.json"),
        golden!("aggregate.csv"),
    ];

    proptest! {
        #[test]
        fn no_damaged_result_makes_a_reader_panic(which in 0..WHOLE.len(), cut in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), text in ".{0,12}") {
            let whole: Vec<char> = WHOLE[which].chars().collect();
            let mut damaged: Vec<char> = whole[..cut.index(whole.len()) + 1].to_vec();
            let place = at.index(damaged.len());
            damaged.splice(place..place, text.chars());
            let _ = read(&damaged.into_iter().collect::<String>());
            let mut damaged = whole.clone();
            damaged.splice(place..(place + 3).min(whole.len()), text.chars());
            let _ = read(&damaged.into_iter().collect::<String>());
        }
    }
}
