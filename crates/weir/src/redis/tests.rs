//! Against real servers, on the runtime of a worker.

mod address;
mod cluster;
mod failures;
mod sentinel;
mod serving;

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Client, Purpose, Redis, State};
use crate::config;
use crate::observe::Metrics;
use testkit::DEADLINE;

/// A deadline that no machine is too slow for; tests of the timeout itself set another.
const LONG_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs a test on what a worker runs on.
fn run<T>(test: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build_local(tokio::runtime::LocalOptions::default());
    runtime.unwrap().block_on(test)
}

/// A client with what counts its calls.
struct Rig {
    redis: Arc<Redis>,
    metrics: Metrics,
    client: Rc<Client>,
}

impl Rig {
    fn new(url: &str, timeout: Duration) -> Self {
        let redis =
            Redis::new(&config::Redis { url: url.to_owned(), timeout, namespace: "weir".to_owned(), secret: None })
                .unwrap();
        let metrics = Metrics::new();
        let client = Client::new(redis.clone(), Purpose::Limits, metrics.shard(0).redis(Purpose::Limits.name()));
        Rig { redis, metrics, client }
    }

    /// Value of a sample of the metrics, labels without `use`: `redis_failures_total`, `reason="timeout"`.
    fn sample(&self, name: &str, label: &str) -> f64 {
        let text = self.metrics.render(crate::observe::metrics::Format::OpenMetrics);
        let mut start = format!("{name}{{use=\"limits\"");
        if !label.is_empty() {
            start = format!("{start},{label}");
        }
        let line = text.lines().find_map(|line| line.strip_prefix(&start)?.strip_prefix("} ").map(str::to_owned));
        line.unwrap_or_else(|| panic!("no {start} in\n{text}")).parse().unwrap()
    }

    fn state(&self) -> State {
        self.redis.state(Purpose::Limits)
    }

    /// Waits until calls get a response, and says how long that took.
    async fn recovers(&self) -> Duration {
        let began = Instant::now();
        until("calls are answered", async || self.client.get(b"recovers").await.is_ok()).await;
        began.elapsed()
    }
}

/// Waits, while the tasks of this thread go on, until `condition` holds.
async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !condition().await {
        assert!(Instant::now() < end, "this did not come true: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
