//! Counting and logging a request allocates nothing once the first ones are through. A test program of its own, because
//! it replaces the allocator.
#![allow(unsafe_code, reason = "an allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use h1::Method;
use weir::config::{AccessLog as Config, AccessLogTarget, LogFormat, LogOnly};
use weir::error::Reason;
use weir::observe::{AccessLog, Line, Metrics, Record, ServerSeries};

struct Counting;

/// Allocations of all threads, the one that writes the log included.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`, which is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn requests_after_the_first_allocate_nothing() {
    // One after the other: the allocations of a process are counted.
    for format in [LogFormat::Json, LogFormat::Combined, LogFormat::Logfmt] {
        requests_allocate_nothing(format);
    }
}

fn requests_allocate_nothing(format: LogFormat) {
    let dir = tempfile::tempdir().unwrap();
    let metrics = Metrics::new();
    let config = Config {
        to: AccessLogTarget::File(dir.path().join("access.log")),
        format,
        only: Some(LogOnly { statuses: vec![(100, 599)], grpc: (0..=16).collect(), slower_ns: Some(1) }),
        fields: weir::config::LogFields::default(),
        sample: 0.9,
    };
    let log = AccessLog::start(&config, &metrics).unwrap();
    let shard = metrics.shard(0);
    let (route, upstream) = (shard.route("r", &["a", "b"]), shard.upstream("a"));
    let mut writer = log.worker();
    let durations = shard.http_durations();
    let pattern: std::sync::Arc<str> = "/infer/{id}".into();
    let mut requests = |count: u64| {
        let before = ALLOCATIONS.load(Relaxed);
        for n in 0..count {
            shard.connection_opened();
            upstream.connection_reused();
            let status = [200, 200, 404, 502][n as usize % 4];
            route.record(&Record {
                upstream_slot: n as usize % 3,
                status,
                grpc_status: Some(n as u8 % 17),
                request_bytes: 200,
                response_bytes: n,
                total_ns: n << 14,
                upstream_ns: Some(n << 13),
                overhead_ns: Some(n << 4),
            });
            if status == 502 {
                shard.not_served(Reason::UpstreamReset);
                upstream.error(Reason::UpstreamReset);
            }
            durations.server(
                ServerSeries {
                    method: Method::Post,
                    route: Some(pattern.clone()),
                    status,
                    error: None,
                    version: "1.1",
                    scheme: "http",
                },
                n << 14,
            );
            if writer.wants(status, Some(n as u8 % 17), n << 14) {
                writer.line(&Line {
                    time_ms: 1_735_689_599_123 + n,
                    client: IpAddr::V4(Ipv4Addr::LOCALHOST).into(),
                    protocol: "HTTP/1.1",
                    method: b"POST",
                    host: Some(b"api.example.com"),
                    path: "/infer/\"\u{1f30a}\"".as_bytes(),
                    query: Some(b"a=1"),
                    status,
                    grpc_status: Some(n as u8 % 17),
                    route: Some("r"),
                    upstream: Some("a"),
                    target: Some("127.0.0.1:8001"),
                    request_bytes: 200,
                    response_bytes: n,
                    duration_ns: n << 14,
                    upstream_ns: Some(n << 13),
                    request_id: b"0123456789abcdef",
                    user_agent: Some(b"test"),
                    // `why` is put together from these.
                    error: match n % 8 {
                        3 => Some(Reason::UpstreamReset.into()),
                        7 => Some(Reason::RateLimited.into()),
                        _ => None,
                    },
                    limit: (n % 8 == 7).then_some("few"),
                    cache: (n % 4 == 2).then_some("hit"),
                    fallback: n % 4 == 1,
                    consumer: Some("shop"),
                    attempts: 1,
                    ..Line::default()
                });
            }
            shard.connection_closed();
        }
        ALLOCATIONS.load(Relaxed) - before
    };
    assert!(requests(1_000) > 0, "the counter counts");
    // Not 0: when a worker takes its last buffers depends on how fast the thread gives the first ones back.
    let allocations = requests(100_000);
    assert!(allocations < 10, "{allocations} allocations in 100,000 requests");
    drop(writer);
    assert!(log.close(Duration::from_secs(60)));
}
