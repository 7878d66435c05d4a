//! Cost of picking a target and of the whole life of a lease. `cargo bench -p weir --bench pick`
//!
//! The allocation counts that are printed have to be zero.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use divan::{AllocProfiler, Bencher};
use weir::config::{UpstreamId, load_text};
use weir::runtime::hash::hash_key;
use weir::upstream::{Clock, FailureKind, Lease, Moment, Pick, Request, Upstreams, Views};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

const TARGETS: [usize; 4] = [1, 2, 8, 64];

/// One upstream with so many targets; `options` are further keys of it.
fn views(targets: usize, balance: &str, options: &str) -> Views {
    let list: Vec<String> = (0..targets).map(|n| format!("http://10.0.{}.{}:80", n / 250, n % 250)).collect();
    let text = format!(
        "listen: 127.0.0.1:0\nroutes: [{{match: {{path: /*}}, upstream: u}}]\nupstreams:\n  u: {{targets: [{}], balance: {balance}{options}}}\n",
        list.join(", ")
    );
    let config = load_text("bench", &text, &|_| None).unwrap().config;
    Views::new(Arc::new(Upstreams::new(&config, Clock::manual())), 1)
}

fn pick(views: &Views, key: u64, now: Moment) -> Lease {
    match views.get(UpstreamId(0)).pick(&Request { hash: Some(key), ..Request::default() }, now) {
        Pick::Target(lease) => lease,
        other => panic!("{other:?}"),
    }
}

/// A pick, and the lease given back.
fn pick_and_drop(bencher: Bencher<'_, '_>, views: &Views) {
    let mut key = 0u64;
    bencher.bench_local(|| {
        key = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
        drop(black_box(pick(views, key, Moment::from_millis(5000))));
    });
}

#[divan::bench(args = TARGETS)]
fn round_robin(bencher: Bencher<'_, '_>, targets: usize) {
    pick_and_drop(bencher, &views(targets, "round_robin", ""));
}

#[divan::bench(args = TARGETS)]
fn least_request(bencher: Bencher<'_, '_>, targets: usize) {
    pick_and_drop(bencher, &views(targets, "least_request", ""));
}

#[divan::bench(args = TARGETS)]
fn ewma(bencher: Bencher<'_, '_>, targets: usize) {
    pick_and_drop(bencher, &views(targets, "ewma", ""));
}

#[divan::bench(args = TARGETS)]
fn hash(bencher: Bencher<'_, '_>, targets: usize) {
    pick_and_drop(bencher, &views(targets, "{hash: path}", ""));
}

/// A request that succeeds, with the features of an upstream's default and with all of them.
#[divan::bench(args = ["", ", breaker: {}, max_in_flight: 100, queue: {}, slow_start: 10s"])]
fn whole_request(bencher: Bencher<'_, '_>, options: &str) {
    let views = views(4, "ewma", options);
    let mut micros = 5_000_000;
    bencher.bench_local(|| {
        micros += 20;
        let now = Moment::from_micros(micros);
        let mut lease = pick(&views, 1, now);
        lease.first_byte(Duration::from_micros(700), now);
        lease.success(now);
    });
}

/// A target that fails and is not ejected, since it is the last one.
#[divan::bench]
fn failing_request(bencher: Bencher<'_, '_>) {
    let views = views(1, "least_request", "");
    bencher.bench_local(|| {
        let now = Moment::from_millis(5000);
        pick(&views, 1, now).failure(FailureKind::Connect, now);
    });
}

/// Two workers on the same four targets: what sharing costs.
#[divan::bench(threads = [1, 2])]
fn shared_least_request(bencher: Bencher<'_, '_>) {
    let views = views(4, "least_request", "");
    let upstreams = views.upstreams().clone();
    std::thread_local! {
        static VIEWS: std::cell::OnceCell<Views> = const { std::cell::OnceCell::new() };
    }
    bencher.bench(|| {
        VIEWS.with(|own| {
            let views = own.get_or_init(|| Views::new(upstreams.clone(), 1));
            drop(black_box(pick(views, 1, Moment::from_millis(5000))));
        });
    });
}

#[divan::bench(args = [9, 40])]
fn hash_of_a_key(bencher: Bencher<'_, '_>, bytes: usize) {
    let key = vec![b'k'; bytes];
    bencher.bench_local(|| hash_key(black_box(&key)));
}
