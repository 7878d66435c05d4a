//! What a stream of events pays for the gateway: time to its first byte, and whether every piece of many streams arrives before the deadline.
//! `cargo bench -p weir --bench streams`, or `scripts/bench streams`, which keeps the result.
//!
//! The gateway has core 0 to itself; the upstream and the clients, which share this process and its clock, have core 1. Every piece
//! carries the moment when it was sent, so that a late generator is not taken for a late gateway. The same streams without the gateway,
//! through nginx (`proxy_buffering off`, keep-alive to the upstream), and through a relay that copies bytes and knows no HTTP, are measured
//! beside it, turn by turn. What the relay adds is the price of a second process on a second core: no gateway can be below it.
//!
//! One stream at a time leaves both cores idle between any two steps, and a virtual core that idles is given back to the host: each of the
//! four times that a request wakes the other core then costs what the host takes to schedule that core again, whatever the gateway does.
//! The first table shows that. For the second a program of the lowest priority (SCHED_IDLE, which yields to everything at once) keeps each core
//! awake, as `idle=poll` or other work would.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use h1::{BodyDecoder, BodyEvent, HeadScanner, Limits, Method, ResponseHead};
use testkit::{Nginx, Process, Weir};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep_until;

/// Streams one after the other, for the time to the first byte.
const FIRST_BYTES: usize = 2000;
/// Streams at once.
const STREAMS: usize = 512;
/// Pieces of each of them.
const PIECES: u32 = 500;
/// Between two pieces of one stream.
const PACE: Duration = Duration::from_millis(20);
/// A piece that takes longer is late.
const LATE: Duration = Duration::from_millis(200);

/// When this is set the program is a relay to the address that it holds.
const RELAY: &str = "RELAY_TO";

fn main() {
    if let Some(address) = std::env::var_os(RELAY) {
        return relay(address.to_str().and_then(|address| address.parse().ok()).expect("an address"));
    }
    let start = Instant::now();
    pin(std::process::id(), "1");
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        runtime().block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            sender.send(listener.local_addr().expect("an address")).expect("the main thread waits");
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let _ = stream.set_nodelay(true);
                tokio::spawn(serve(stream, start));
            }
        });
    });
    let direct = receiver.recv().expect("the upstream listens");
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir"))
        .config(format!(
            "listen: 127.0.0.1:0\nworkers: 1\nupstreams: {{u: {{targets: [http://{direct}]}}}}\nroutes: [{{match: {{path: /*}}, upstream: u}}]\n"
        ))
        .start();
    let nginx = Nginx::start_beside(
        &format!(
            "upstream u {{ server {direct}; keepalive 1024; keepalive_requests 1000000000; }} keepalive_requests 1000000000;"
        ),
        "location / { proxy_pass http://u; proxy_buffering off; proxy_http_version 1.1; proxy_set_header Connection \"\";\n\
         proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Request-Id $request_id; }",
    );
    let program = std::env::current_exe().expect("the program's own path");
    let copier = Process::builder(program).env(RELAY, direct.to_string()).start();
    let relayed = copier.wait_for_line("its address", |line| line.strip_prefix("relay on ")?.parse().ok());
    for process in [weir.pid(), nginx.process().pid(), copier.pid()] {
        pin(process, "0");
    }
    let workers = [
        ("direct", direct),
        ("through weir", weir.addr()),
        ("through nginx", nginx.address()),
        ("through a relay", relayed),
    ];

    let runtime = runtime();
    println!("| time to first byte, us | p50 | added | p99 | added |\n|---|---|---|---|---|");
    runtime.block_on(first_bytes(&workers, "cores that may sleep"));
    let awake: Vec<Process> = ["0", "1"].map(keep_awake).into();
    runtime.block_on(first_bytes(&workers, "cores kept awake"));
    drop(awake);

    println!(
        "\n| {STREAMS} streams, a piece per {PACE:?} | pieces | lost | late (> {LATE:?}) | p50 us | p99 us | most us |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (name, address) in workers {
        let delays = runtime.block_on(streams(address, start));
        let lost = STREAMS * PIECES as usize - delays.len();
        let late = delays.iter().filter(|&&delay| delay > LATE.as_secs_f64() * 1e6).count();
        let spread = Spread::of(delays);
        println!(
            "| {name} | {} | {lost} | {late} | {:.0} | {:.0} | {:.0} |",
            spread.count, spread.p50, spread.p99, spread.most
        );
    }
}

/// One stream at a time through each system in turn.
async fn first_bytes(workers: &[(&str, SocketAddr)], cores: &str) {
    let mut clients = Vec::new();
    for &(_, address) in workers {
        clients.push((Client::connect(address).await, Vec::with_capacity(FIRST_BYTES)));
    }
    for _ in 0..FIRST_BYTES {
        for (client, times) in &mut clients {
            times.push(client.first_byte().await);
        }
    }
    let spreads: Vec<Spread> = clients.into_iter().map(|(_, times)| Spread::of(times)).collect();
    for ((name, _), spread) in workers.iter().zip(&spreads) {
        let (p50, p99) = (spread.p50 - spreads[0].p50, spread.p99 - spreads[0].p99);
        println!("| {name}, {cores} | {:.0} | {p50:.0} | {:.0} | {p99:.0} |", spread.p50, spread.p99);
    }
}

/// Work for a core that has none. It ends with this process.
fn keep_awake(core: &str) -> Process {
    let builder = Process::builder("taskset").hint("util-linux").args(["-c", core, "chrt", "--idle", "0"]);
    builder.args(["sh", "-c", "while :; do :; done"]).start()
}

/// Copies bytes both ways between whoever connects and `to`, until it is killed.
fn relay(to: SocketAddr) {
    runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        println!("relay on {}", listener.local_addr().expect("an address"));
        while let Ok((mut near, _)) = listener.accept().await {
            let Ok(mut far) = TcpStream::connect(to).await else { continue };
            let _ = (near.set_nodelay(true), far.set_nodelay(true));
            tokio::task::spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });
        }
    });
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Gives a process and its children one core.
fn pin(pid: u32, core: &str) {
    let done = std::process::Command::new("taskset").args(["-apc", core, &pid.to_string()]).output();
    assert!(done.is_ok_and(|done| done.status.success()), "taskset could not pin process {pid} to core {core}");
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    for child in children.split_whitespace().filter_map(|child| child.parse().ok()) {
        pin(child, core);
    }
}

/// The upstream: `/first` is one event and its end, `/stream` is many, each sent when it is due.
async fn serve(mut stream: TcpStream, start: Instant) -> io::Result<()> {
    let mut buffer = vec![0; 4096];
    loop {
        let mut length = 0;
        while !buffer[..length].ends_with(b"\r\n\r\n") {
            let count = stream.read(&mut buffer[length..]).await?;
            if count == 0 {
                return Ok(());
            }
            length += count;
        }
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        if buffer.starts_with(b"GET /first") {
            stream.write_all(format!("{head}7\r\ndata: x\r\n").as_bytes()).await?;
            // The end is a piece of its own, as in a stream that goes on.
            tokio::time::sleep(Duration::from_millis(1)).await;
        } else {
            stream.write_all(head.as_bytes()).await?;
            let first = tokio::time::Instant::now();
            for number in 0..PIECES {
                sleep_until(first + PACE * number).await;
                let event = format!("data: {:020}\n\n", start.elapsed().as_nanos());
                stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).await?;
            }
        }
        stream.write_all(b"0\r\n\r\n").await?;
    }
}

/// All streams at once, begun evenly over one pace. Returns the microseconds that each piece was in progress.
async fn streams(address: SocketAddr, start: Instant) -> Vec<f64> {
    let mut tasks = Vec::new();
    for number in 0..STREAMS {
        tasks.push(tokio::spawn(async move {
            tokio::time::sleep(PACE * u32::try_from(number).unwrap_or(0) / 512).await;
            Client::connect(address).await.pieces(start).await
        }));
    }
    let mut delays = Vec::new();
    for task in tasks {
        delays.extend(task.await.unwrap_or_default());
    }
    delays
}

/// A client of event streams.
struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the address listens");
        stream.set_nodelay(true).expect("a socket takes options");
        Client { stream, buffer: Vec::with_capacity(64 * 1024) }
    }

    /// Microseconds from the request to the first byte of the stream's body.
    async fn first_byte(&mut self) -> f64 {
        let begun = Instant::now();
        let mut body = self.request("/first").await;
        let mut first = None;
        loop {
            let (consumed, event) = body.decode(&self.buffer).expect("a valid body");
            self.buffer.drain(..consumed);
            match event {
                BodyEvent::Data(_) => _ = first.get_or_insert_with(|| begun.elapsed()),
                BodyEvent::End => return first.expect("a body").as_secs_f64() * 1e6,
                BodyEvent::NeedMore => _ = self.stream.read_buf(&mut self.buffer).await.expect("the stream goes on"),
            }
        }
    }

    /// Microseconds that each piece of one stream was in progress.
    async fn pieces(mut self, start: Instant) -> Vec<f64> {
        let mut body = self.request("/stream").await;
        let (mut text, mut delays) = (Vec::new(), Vec::new());
        loop {
            let (consumed, event) = body.decode(&self.buffer).expect("a valid body");
            if let BodyEvent::Data(range) = &event {
                text.extend_from_slice(&self.buffer[range.clone()]);
            }
            self.buffer.drain(..consumed);
            let now = start.elapsed().as_nanos();
            while let Some(end) = text.windows(2).position(|pair| pair == b"\n\n") {
                let sent: u128 =
                    std::str::from_utf8(&text[6..end]).ok().and_then(|sent| sent.parse().ok()).expect("a time");
                delays.push(now.saturating_sub(sent) as f64 / 1e3);
                text.drain(..end + 2);
            }
            match event {
                BodyEvent::Data(_) => {}
                BodyEvent::End => return delays,
                BodyEvent::NeedMore => match self.stream.read_buf(&mut self.buffer).await {
                    Ok(0) | Err(_) => return delays,
                    Ok(_) => {}
                },
            }
        }
    }

    /// Sends a request and reads the head of its response.
    async fn request(&mut self, path: &str) -> BodyDecoder {
        let request = format!("GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n");
        self.stream.write_all(request.as_bytes()).await.expect("the request is taken");
        let (mut scanner, limits) = (HeadScanner::new(), Limits::default());
        loop {
            if let Some(end) = scanner.scan(&self.buffer, &limits).expect("a valid head") {
                let mut head = ResponseHead::default();
                head.parse(&self.buffer, 0, end, Method::Get, &limits).expect("a valid head");
                self.buffer.drain(..end);
                return BodyDecoder::new(head.body);
            }
            let count = self.stream.read_buf(&mut self.buffer).await.expect("a response");
            assert!(count > 0, "closed before the end of the head");
        }
    }
}

struct Spread {
    count: usize,
    p50: f64,
    p99: f64,
    most: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            values.get(((values.len() as f64 * share) as usize).min(values.len().saturating_sub(1))).copied()
        };
        Spread {
            count: values.len(),
            p50: at(0.5).unwrap_or(f64::NAN),
            p99: at(0.99).unwrap_or(f64::NAN),
            most: at(1.0).unwrap_or(f64::NAN),
        }
    }
}
