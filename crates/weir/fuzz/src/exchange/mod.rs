//! The whole exchange under a schedule of reads, writes, closes and steps of the clock on both sides: a real worker with its pipeline, pools,
//! caches and deadlines in this thread, between a client and an upstream that do what the input says, byte by byte.
//!
//! [`script`] turns bytes into steps, [`sides`] plays both ends, [`judge`] reads what they saw with a parser that shares no code with the
//! gateway's.

mod judge;
// The grammar, read without the codec's help.
#[allow(dead_code, unreachable_pub)]
#[path = "../../../../h1/tests/codec/support/oracle.rs"]
mod oracle;
mod script;
mod sides;

use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, LocalSet};
use weir::client::identity::Client;
use weir::config::{self, Config, TrustedProxies};
use weir::downstream::http1;
use weir::io::stream::Stream;
use weir::observe::Metrics;
use weir::runtime::{clock, wakeups};
use weir::server::reload::generation;
use weir::worker::Worker;
use weir::worker::shared::Shared;
use weir::worker::snapshot::Snapshot;

use script::Step;
use sides::{Peer, Upstreams};

/// Timeouts of the gateway, and how far one step of the clock goes at most. Where the clock cannot be moved, the test waits in earnest.
#[cfg(fuzzing)]
const TIMEOUT: Duration = Duration::from_secs(10);
#[cfg(not(fuzzing))]
const TIMEOUT: Duration = Duration::from_millis(40);

/// Polls of everything after which nothing moves any more: a byte takes a few of them from one side through the gateway to the other.
const SETTLED: usize = 16;
/// Timeouts after which every exchange and connection must be over; the gateway lingers for two seconds.
const OVER: usize = if cfg!(fuzzing) { 24 } else { 80 };
/// The same for each request in the queue behind: `timeouts.total`, and its body.
const OVER_EACH: usize = 7;

/// How long the kernel may take to tell one side that the other has closed.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);

/// A gateway without listeners: connections are handed to its one worker.
pub struct Lab {
    runtime: tokio::runtime::Runtime,
    config: Config,
    front: TcpListener,
    back: TcpListener,
}

/// A running worker and both of its sides.
struct Rig {
    worker: Rc<Worker>,
    client: Peer,
    upstreams: Upstreams,
    serving: JoinHandle<()>,
    deadlines: JoinHandle<()>,
}

/// What a schedule came to.
pub struct Outcome {
    /// Whole responses that the client got.
    pub responses: usize,
    /// Requests, whole or not, that reached the upstream.
    pub forwarded: usize,
}

fn yaml(back: SocketAddr) -> String {
    let t = format!("{}ms", TIMEOUT.as_millis());
    let more = format!(
        "eject: none, timeouts: {{connect: {t}, first_byte: {t}, idle: {t}, total: {}ms, tunnel_idle: {t}}}, keep_alive: {{idle: {t}, max_idle: 4}}",
        5 * TIMEOUT.as_millis()
    );
    format!(
        "listen: [127.0.0.1:1]
workers: 1
server: {{head_timeout: {t}, body_idle_timeout: {t}, keep_alive: {t}}}
upstreams:
  again: {{targets: [\"http://{back}\"], retry: {{extra_attempts: 2, budget: 100%}}, {more}}}
  once: {{targets: [\"http://{back}\"], retry: {{extra_attempts: 0}}, {more}}}
  dead: {{targets: [\"http://127.0.0.1:1\"], retry: {{extra_attempts: 0}}, {more}}}
limits: {{few: {{rate: 3/s, burst: 3, key: global}}}}
caches:
  ttl: {{mode: ttl, ttl: 1h, stale_if_error: 1h, max_body: 64KiB}}
  http: {{mode: http, stale_while_revalidate: 1h}}
routes:
  - {{match: {{path: /again/*}}, upstream: again}}
  - {{match: {{path: /once/*}}, upstream: once, upgrade: [websocket]}}
  - {{match: {{path: /small/*}}, upstream: once, body: 8B}}
  - {{match: {{path: /ttl/*}}, upstream: again, cache: ttl}}
  - {{match: {{path: /http/*}}, upstream: again, cache: http}}
  - {{match: {{path: /dead/*}}, upstream: dead, fallback: [again]}}
  - {{match: {{path: /few/*}}, upstream: once, limits: [few]}}
  - {{match: {{path: /here/*}}, respond: {{status: 200, body: here}}}}
"
    )
}

impl Default for Lab {
    fn default() -> Self {
        let front = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let back = TcpListener::bind("127.0.0.1:0").expect("a free port");
        back.set_nonblocking(true).expect("non-blocking");
        // Each iteration of the event loop looks for events.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .event_interval(1)
            .on_thread_unpark(clock::begin_iteration)
            .build()
            .expect("a runtime");
        let text = yaml(back.local_addr().expect("an address"));
        let loaded = config::load_text("lab", &text, &|_| None).unwrap_or_else(|problems| panic!("{problems}"));
        Lab { runtime, config: loaded.config, front, back }
    }
}

impl Lab {
    /// Plays the schedule that `input` stands for and checks what both sides saw.
    ///
    /// # Panics
    /// With the invariant that is broken.
    pub fn run(&self, input: &[u8]) -> Outcome {
        let steps = script::steps(input);
        LocalSet::new().block_on(&self.runtime, async {
            let mut rig = self.start().await;
            for step in &steps {
                rig.play(step).await;
            }
            rig.end(steps.len()).await;
            let verdict = judge::judge(&rig.client, &rig.upstreams);
            rig.check_nothing_is_left(&steps).await;
            match verdict {
                Ok(outcome) => outcome,
                Err(broken) => panic!("{broken}\n{}", describe(&steps, &rig)),
            }
        })
    }

    /// How many requests wait once the client has sent `request` and the upstream `response`, and whether the client has any of it but an
    /// interim response.
    pub fn waiting(&self, request: &str, response: &str) -> (u64, bool) {
        LocalSet::new().block_on(&self.runtime, async {
            let mut rig = self.start().await;
            for step in [
                Step::ClientQueues(request.into()),
                Step::ClientWrites(255),
                Step::UpstreamQueues(response.into()),
                Step::UpstreamWrites(255),
            ] {
                rig.play(&step).await;
            }
            let seen = (
                wakeups::waiting(),
                !rig.client.received.is_empty() && !rig.client.received.starts_with(b"HTTP/1.1 103"),
            );
            rig.client.end(script::End::Reset);
            rig.end(0).await;
            rig.check_nothing_is_left(&[]).await;
            seen
        })
    }

    async fn start(&self) -> Rig {
        clock::begin_iteration();
        // Left over from the schedule before.
        while self.back.accept().is_ok() {}
        let generation = Arc::new(generation(self.config.clone(), None));
        let (mailbox, _) = tokio::sync::mpsc::unbounded_channel();
        let metrics = Metrics::new();
        let shard = metrics.shard(0);
        let shared = Shared::new(generation.clone(), vec![mailbox], metrics, None, None, None, 1000);
        let snapshot = Snapshot::new(generation, &shard, 1, 1, None);
        let worker = Worker::new(0, shared, snapshot, shard, 1);
        let deadlines = tokio::task::spawn_local(worker.deadlines.clone().run());
        let client = std::net::TcpStream::connect(self.front.local_addr().expect("an address")).expect("a connection");
        let (stream, peer) = self.front.accept().expect("a connection");
        stream.set_nonblocking(true).expect("non-blocking");
        let stream = tokio::net::TcpStream::from_std(stream).expect("a stream");
        stream.set_nodelay(true).expect("no delay");
        let serving = tokio::task::spawn_local(http1::serve(
            worker.clone(),
            Stream::Tcp(stream),
            Client::of_peer(peer.ip().into(), &TrustedProxies::default()),
            Arc::default(),
        ));
        let upstreams = Upstreams::new(self.back.try_clone().expect("a duplicate"));
        let mut rig = Rig { worker, client: Peer::new(client), upstreams, serving, deadlines };
        rig.settle().await;
        rig
    }
}

impl Rig {
    async fn play(&mut self, step: &Step) {
        match step {
            Step::ClientQueues(bytes) => self.client.queue(bytes),
            Step::ClientWrites(part) => self.client.write(*part),
            Step::ClientEnds(how) => self.client.end(*how),
            Step::ClientReads(reads) => self.client.reads = *reads,
            Step::UpstreamQueues(bytes) => self.upstreams.newest(|upstream| upstream.queue(bytes)),
            Step::UpstreamWrites(part) => self.upstreams.newest(|upstream| upstream.write(*part)),
            Step::UpstreamEnds(how) => self.upstreams.newest(|upstream| upstream.end(*how)),
            Step::UpstreamReads(reads) => self.upstreams.newest(|upstream| upstream.reads = *reads),
            Step::TimePasses(part) => self.pass(TIMEOUT.mul_f64(*part)).await,
        }
        self.settle().await;
    }

    /// Lets everything move until nothing does.
    async fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < SETTLED {
            clock::refresh();
            tokio::task::yield_now().await;
            let moved = self.client.poll() | self.upstreams.poll();
            quiet = if moved { 0 } else { quiet + 1 };
        }
    }

    async fn pass(&mut self, time: Duration) {
        #[cfg(fuzzing)]
        {
            clock::advance(time);
            self.worker.deadlines.look_again();
        }
        #[cfg(not(fuzzing))]
        tokio::time::sleep(time).await;
        self.worker.pool.sweep(clock::loop_ns());
    }

    /// Both sides fall silent, and read everything: whatever happened, deadlines end it.
    async fn end(&mut self, steps: usize) {
        self.client.reads = true;
        self.upstreams.each(|upstream| upstream.reads = true);
        // A step sends one request that the gateway serves; more if a mutation made the requests within a body such ones.
        let heads = self.client.sent.windows(4).filter(|bytes| *bytes == b"\r\n\r\n").count();
        for _ in 0..OVER + OVER_EACH * steps.max(heads) {
            self.settle().await;
            if self.client.saw_end || self.client.saw_reset {
                self.client.end(script::End::Close);
                self.settle().await;
            }
            if self.serving.is_finished() {
                break;
            }
            self.pass(TIMEOUT).await;
        }
        self.settle().await;
    }

    /// The connection and all that belonged to it are released.
    async fn check_nothing_is_left(&mut self, steps: &[Step]) {
        if !self.serving.is_finished() {
            panic!("the connection never ends\n{}", describe(steps, self));
        }
        // A fetch for the cache goes on behind its client.
        for _ in 0..OVER {
            if self.in_flight() == 0 {
                break;
            }
            self.pass(TIMEOUT).await;
            self.settle().await;
        }
        assert_eq!(self.in_flight(), 0, "a target is still taken\n{}", describe(steps, self));
        assert_eq!(wakeups::waiting(), 0, "a request still waits\n{}", describe(steps, self));
        self.worker.pool.clear();
        // On a busy machine the kernel may deliver the end of a connection later than the polls after which nothing moves.
        let deadline = Instant::now() + CLOSED_WITHIN;
        let open = loop {
            self.settle().await;
            let open = self.upstreams.count_open();
            if open == 0 || Instant::now() >= deadline {
                break open;
            }
        };
        assert_eq!(open, 0, "{open} upstream connections are left open\n{}", describe(steps, self));
        self.client.end(script::End::Reset);
        self.upstreams.each(|upstream| upstream.end(script::End::Reset));
        self.deadlines.abort();
    }

    fn in_flight(&self) -> u32 {
        let snapshot = self.worker.snapshot.borrow().clone();
        let upstreams = snapshot.generation.upstreams.snapshot();
        upstreams.iter().flat_map(|upstream| &upstream.targets).map(|target| target.in_flight).sum()
    }
}

fn describe(steps: &[Step], rig: &Rig) -> String {
    let steps: String = steps.iter().map(|step| format!("  {step:?}\n")).collect();
    format!("{steps}the client: {:?}\nthe upstreams: {:?}", rig.client, rig.upstreams)
}
