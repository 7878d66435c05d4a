//! One worker with more work than it can do: a gateway that is late itself must blame nobody.
//!
//! Every deadline is short, every response of the upstream is immediate, so each timeout, retry or ejection is false.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use testkit::Weir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Raises the limit on descriptors: the largest case needs three a connection in this process.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

/// An upstream on a thread of its own that responds at once. testkit's has a thread for each connection, too slow for thousands.
fn upstream() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    socket2::SockRef::from(&listener).listen(8192).unwrap();
    std::thread::spawn(move || {
        runtime().block_on(async move {
            listener.set_nonblocking(true).unwrap();
            let listener = TcpListener::from_std(listener).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(respond(stream));
            }
        });
    });
    address
}

async fn respond(mut stream: TcpStream) -> std::io::Result<()> {
    let mut buffer = [0; 4096];
    let mut filled = 0;
    loop {
        match stream.read(&mut buffer[filled..]).await? {
            0 => return Ok(()),
            count => filled += count,
        }
        if buffer[..filled].ends_with(b"\r\n\r\n") {
            filled = 0;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await?;
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Requests that a client sends in one piece: the clients must cost less than the gateway, or they are the bottleneck.
const PIPELINED: usize = 8;
const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const END_OF_RESPONSE: &[u8] = b"\r\n\r\nhello";

/// Sends requests on one connection until `left` is used up; adds what failed to `failures`.
async fn client(address: SocketAddr, left: Arc<AtomicUsize>, failures: Arc<Mutex<Vec<String>>>) {
    let fail = |what: String| failures.lock().unwrap().push(what);
    let mut stream = match TcpStream::connect(address).await {
        Ok(stream) => stream,
        Err(error) => return fail(format!("connect: {error}")),
    };
    let requests = REQUEST.repeat(PIPELINED);
    let mut buffer = vec![0; 16 * 1024];
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(PIPELINED)).is_ok() {
        if let Err(error) = stream.write_all(requests.as_bytes()).await {
            return fail(format!("send: {error}"));
        }
        let mut filled = 0;
        loop {
            match stream.read(&mut buffer[filled..]).await {
                Ok(count) if count > 0 => filled += count,
                other => return fail(format!("receive: {other:?}: {}", String::from_utf8_lossy(&buffer[..filled]))),
            }
            let responses = occurrences(&buffer[..filled], END_OF_RESPONSE);
            let good = occurrences(&buffer[..filled], b"HTTP/1.1 200");
            if good < occurrences(&buffer[..filled], b"HTTP/1.1 ") {
                return fail(String::from_utf8_lossy(&buffer[..filled]).into_owned());
            }
            if responses == PIPELINED {
                break;
            }
        }
    }
}

/// How often `needle` is in `hay`.
fn occurrences(hay: &[u8], needle: &[u8]) -> usize {
    hay.windows(needle.len()).filter(|window| *window == needle).count()
}

/// The sum of all samples of a metric.
fn total(metrics: &str, name: &str) -> f64 {
    let of_metric = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
    let values = metrics.lines().filter(of_metric).map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap());
    values.sum()
}

/// One case at a time: together they would starve each other's clients, and no worker would have too much to do.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn nobody_is_blamed(connections: usize, requests: usize) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    raise_descriptor_limit();
    let config = format!(
        "listen: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nworkers: 1\n\
         server: {{head_timeout: 1s, body_idle_timeout: 1s, keep_alive: 5s}}\n\
         upstreams:\n  u:\n    targets: [http://{}]\n    eject: {{after: 2, for: 10s, max: 100%}}\n\
         \x20   timeouts: {{connect: 250ms, try: 250ms, first_byte: 250ms, idle: 250ms}}\n\
         \x20   breaker: {{failures: 5%, of_last: 20, open_for: 5s}}\n\
         \x20   keep_alive: {{idle: 60s, max_idle: 10000}}\n\
         routes: [{{match: {{path: /*}}, upstream: u}}]\n",
        upstream()
    );
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(config).start();
    let failures = Arc::default();
    let left = Arc::new(AtomicUsize::new(requests));
    runtime().block_on(async {
        let mut clients = tokio::task::JoinSet::new();
        for _ in 0..connections {
            clients.spawn(client(weir.addr(), left.clone(), Arc::clone(&failures)));
        }
        clients.join_all().await;
    });
    let failures: Vec<String> = std::mem::take(&mut *failures.lock().unwrap());
    let metrics = weir.admin_get("/metrics").text().to_owned();
    assert!(failures.is_empty(), "{} of {requests} failed, first: {}", failures.len(), failures[0]);
    for name in [
        "worker_deadlines_fired_early_total",
        "upstream_retries_total",
        "upstream_target_ejections_total",
        "upstream_target_failures_total",
        "request_errors_total",
    ] {
        assert!(metrics.contains(&format!("# TYPE {name} ")), "no {name}");
        assert_eq!(total(&metrics, name), 0.0, "{name} with {connections} connections");
    }
    assert_eq!(total(&metrics, "worker_requests_total"), requests as f64);
}

#[test]
fn nobody_is_blamed_with_64_connections() {
    nobody_is_blamed(64, 20_000);
}

#[test]
fn nobody_is_blamed_with_256_connections() {
    nobody_is_blamed(256, 30_000);
}

#[test]
fn nobody_is_blamed_with_1024_connections() {
    nobody_is_blamed(1024, 60_000);
}

#[test]
fn nobody_is_blamed_with_4096_connections() {
    nobody_is_blamed(4096, 80_000);
}
