//! Cost of counting and of logging a request. `cargo bench -p weir --bench observe`
//!
//! The allocation counts that are printed have to be zero, but for those of a scrape.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use divan::{AllocProfiler, Bencher};
use weir::config::{AccessLog as Config, AccessLogTarget, LogFields, LogFormat};
use weir::observe::metrics::Format;
use weir::observe::{AccessLog, Line, Metrics, Record, Shard};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

fn record(n: u64) -> Record {
    Record {
        upstream_slot: 1,
        status: 200,
        grpc_status: None,
        request_bytes: 300,
        response_bytes: 1200,
        total_ns: 100_000 + (n % 1024) * 3000,
        upstream_ns: Some(90_000 + (n % 1024) * 3000),
        overhead_ns: Some(8_000 + n % 4096),
    }
}

#[divan::bench]
fn count(bencher: Bencher<'_, '_>) {
    let metrics = Metrics::new();
    let shard = metrics.shard(0);
    let route = shard.route("infer", &["python", "node"]);
    let mut n = 0;
    bencher.bench_local(|| {
        n += 1;
        route.record(black_box(&record(n)));
    });
}

fn line() -> Line<'static> {
    Line {
        time_ms: 1_735_689_599_123,
        client: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 77)).into(),
        protocol: "HTTP/1.1",
        method: b"POST",
        host: Some(b"api.example.com"),
        path: b"/infer/python",
        status: 200,
        route: Some("infer-python"),
        upstream: Some("python"),
        target: Some("127.0.0.1:8001"),
        request_bytes: 310,
        response_bytes: 1234,
        duration_ns: 41_234_567,
        upstream_ns: Some(40_000_999),
        request_id: b"0123456789abcdef0123456789abcdef",
        user_agent: Some(b"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
        attempts: 1,
        ..Line::default()
    }
}

/// Rendering and handing over; the file is `/dev/null`.
#[divan::bench]
fn log(bencher: Bencher<'_, '_>) {
    let config = Config {
        to: AccessLogTarget::File("/dev/null".into()),
        sample: 1.0,
        format: LogFormat::Json,
        fields: LogFields::default(),
        only: None,
    };
    let log = AccessLog::start(&config, &Metrics::new()).unwrap();
    let mut writer = log.worker();
    bencher.bench_local(|| writer.line(black_box(&line())));
}

/// Two workers, so many routes with some upstreams and statuses each.
#[divan::bench(args = [10, 100, 1000])]
fn scrape(bencher: Bencher<'_, '_>, routes: usize) {
    let metrics = Metrics::new();
    let shards = [metrics.shard(0), metrics.shard(1)];
    let fill = |shard: &Shard| {
        for name in 0..routes {
            let route = shard.route(&format!("route-{name}"), &["python", "node"]);
            (0..100).for_each(|n| route.record(&Record { status: [200, 404, 503][n % 3], ..record(n as u64) }));
        }
    };
    shards.iter().for_each(fill);
    bencher.bench_local(|| metrics.render(Format::OpenMetrics));
}
