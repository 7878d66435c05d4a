//! In steady state a proxied request allocates nothing, with rate limits on, and neither does one that they refuse or a cache serves: the process has made
//! as many allocations after 11,000 requests as after 1,000.
//!
//! The gateway runs inside the test's process, whose allocator counts. Client and upstream use fixed buffers.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

struct Counting;
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory of it.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nVary: Accept-Encoding\r\nContent-Length: 5\r\n\r\nhello";
const GET: &[u8] = b"GET /a?b=c HTTP/1.1\r\nHost: example.com\r\nUser-Agent: test\r\nAccept: */*\r\n\r\n";
const POST: &[u8] =
    b"POST /a HTTP/1.1\r\nHost: example.com\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello";

/// An upstream that responds to every read of a whole request with the same reply.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || {
                let mut stream = stream.unwrap();
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).is_ok_and(|count| count > 0) {
                    stream.write_all(RESPONSE).unwrap();
                }
            });
        }
    });
    address
}

const LIMITS: &str = "\
limits:
  client: {rate: 1000000/s, burst: 1000000, headers: [ietf, legacy, scope]}
  agent: {algorithm: sliding_window, key: [header:user-agent, route], quota: 60000000, window: 1h}
  flight: {algorithm: concurrency, key: global, quota: 100}
  once: {algorithm: fixed_window, key: 'query:b', quota: 1, window: 24h}
";
const REFUSED: &[u8] = b"GET /refused?b=c HTTP/1.1\r\nHost: example.com\r\nUser-Agent: test\r\n\r\n";

/// Served from a cache, all but the first.
const KEPT: &[u8] =
    b"GET /kept?b=c HTTP/1.1\r\nHost: example.com\r\nUser-Agent: test\r\nAccept-Encoding: gzip, br\r\n\r\n";

/// Bypasses the cache: a limit counts by a field of it.
const AROUND: &[u8] = b"GET /around HTTP/1.1\r\nHost: example.com\r\nUser-Agent: test\r\n\r\n";

fn exchange(stream: &mut TcpStream, request: &[u8], buffer: &mut [u8]) {
    stream.write_all(request).unwrap();
    let mut length = 0;
    let (end, status): (&[u8], &[u8]) =
        if request == REFUSED { (b"}\n", b"HTTP/1.1 429") } else { (b"hello", b"HTTP/1.1 200") };
    while !buffer[..length].ends_with(end) {
        let count = stream.read(&mut buffer[length..]).unwrap();
        assert!(count > 0, "closed: {}", String::from_utf8_lossy(&buffer[..length]));
        length += count;
    }
    assert!(buffer.starts_with(status), "{}", String::from_utf8_lossy(&buffer[..length]));
}

#[test]
fn no_proxied_refused_or_cached_request_allocates_in_steady_state() {
    let upstream = upstream();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("weir.yaml");
    let port = {
        let probe = TcpListener::bind("127.0.0.1:0").unwrap();
        probe.local_addr().unwrap().port()
    };
    let yaml = format!(
        "listen: [127.0.0.1:{port}]\nworkers: 1\nupstreams: {{u: {{targets: [http://{upstream}]}}}}\n{LIMITS}caches: {{kept: {{mode: ttl, query: sorted, partition_by: ['header:User-Agent']}}, around: {{mode: ttl}}}}\ndefaults: {{limits: [client, agent, flight]}}\nroutes:\n  - {{match: {{path: /*}}, upstream: u}}\n  - {{match: {{path: /refused}}, upstream: u, limits: [once]}}\n  - {{match: {{path: /kept}}, upstream: u, cache: kept}}\n  - {{match: {{path: /around}}, upstream: u, cache: around}}\n"
    );
    std::fs::write(&path, yaml).unwrap();
    std::thread::spawn(move || {
        weir::server::serve(weir::server::Source::File(path), weir::server::Options::default()).unwrap();
    });

    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    let mut stream = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => break stream,
            Err(error) => assert!(std::time::Instant::now() < deadline, "the gateway does not listen: {error}"),
        }
    };
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut buffer = [0; 4096];
    // The one that the last limit lets through.
    stream.write_all(REFUSED).unwrap();
    assert!(stream.read(&mut buffer).unwrap() > 0);
    let mut round = |count: u32| {
        for number in 0..count {
            exchange(&mut stream, [GET, POST, REFUSED, KEPT, AROUND][number as usize % 5], &mut buffer);
        }
        ALLOCATIONS.load(Ordering::Relaxed)
    };
    let after_1_000 = round(1_000);
    let after_11_000 = round(10_000);
    // Twice a second or so a thread that looks after the process may allocate; nothing does so per request.
    let background = after_11_000 - after_1_000;
    assert!(background < 10, "{background} allocations in 10,000 requests");
    exchange(&mut stream, KEPT, &mut buffer);
    assert!(buffer.windows(12).any(|window| window == b"X-Cache: HIT"), "{}", String::from_utf8_lossy(&buffer));
}
