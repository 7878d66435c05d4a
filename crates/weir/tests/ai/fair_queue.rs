//! `queue: {order: fair}`: tenants take turns, classes go first, and a call that would wait too long is told at once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{DEADLINE, Weir, wait};

use crate::client::{Received, send};
use crate::rig::Provider;

/// A gateway whose model takes one call at a time, each of 50 ms.
struct Rig {
    weir: Weir,
    provider: Provider,
    folder: TempDir,
}

/// Sets a flag when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

impl Rig {
    fn start(queue: &str) -> Rig {
        Rig::with(queue, "")
    }

    /// `model`: further keys of the model.
    fn with(queue: &str, model: &str) -> Rig {
        let provider = Provider::start();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys.yaml");
        std::fs::write(&file, "").unwrap();
        let yaml = format!(
            "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 2\n\
             auth: {{keys: {{api_key: {{in: [bearer], store: {{file: {}}}}}}}}}\n\
             upstreams: {{sim: {{targets: [\"http://{}\"], max_in_flight: 1, queue: {{order: fair, {queue}}}}}}}\n\
             providers: {{sim: {{api: openai, upstream: sim}}}}\n\
             models: {{m: {{candidates: [{{provider: sim, model: sim-first50}}], attempts: 1{model}}}}}\n\
             routes: [{{name: ai, match: {{path: /v1/*}}, auth: keys, ai: {{}}}}]\n",
            file.display(),
            provider.address()
        );
        let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
        Rig { weir, provider, folder }
    }

    /// A key of a consumer, which the gateway knows.
    fn key(&self, consumer: &str, priority: &str) -> String {
        let file = self.folder.path().join("keys.yaml");
        let args = ["keys", "create", consumer, "--file", file.to_str().unwrap(), "--priority", priority];
        let key = Weir::builder(env!("CARGO_BIN_EXE_weir")).args(args).command().stdout.trim().to_owned();
        wait::until(DEADLINE, "the key is known", || self.list(&key).status == 200);
        key
    }

    fn list(&self, key: &str) -> Received {
        send(self.weir.addr(), "GET", "/v1/models", &[("Authorization", &format!("Bearer {key}"))], "")
    }

    fn call(&self, key: &str, fields: &[(&str, &str)]) -> Received {
        let body = json!({"model": "m", "max_tokens": 16, "messages": [{"role": "user", "content": "hi"}]});
        let bearer = format!("Bearer {key}");
        let all = [&[("Content-Type", "application/json"), ("Authorization", &*bearer)], fields].concat();
        send(self.weir.addr(), "POST", "/v1/chat/completions", &all, &body.to_string())
    }

    fn waiting(&self) -> u64 {
        self.queue("waiting")
    }

    fn queue(&self, what: &str) -> u64 {
        let upstreams: Value = serde_json::from_str(self.weir.admin_get("/upstreams").text()).unwrap();
        upstreams[0]["queue"][what].as_u64().unwrap()
    }

    /// Keeps calling with this key from so many threads while `during` runs; returns how many calls were served then.
    fn beside<R>(&self, key: &str, threads: usize, during: impl FnOnce(&AtomicU32) -> R) -> R {
        let (is_over, served) = (AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|scope| {
            // Also where something panics, or the threads would go on without end.
            let _over = Over(&is_over);
            for _ in 0..threads {
                scope.spawn(|| {
                    while !is_over.load(SeqCst) {
                        if self.call(key, &[]).status == 200 {
                            served.fetch_add(1, SeqCst);
                        }
                    }
                });
            }
            wait::until(DEADLINE, "the others wait", || self.waiting() > threads as u64 / 3);
            during(&served)
        })
    }
}

#[test]
fn a_tenant_with_many_calls_does_not_delay_another() {
    let rig = Rig::start("size: 100, timeout: 60s");
    let (busy, quiet) = (rig.key("busy", "standard"), rig.key("quiet", "standard"));
    let (own, others) = rig.beside(&busy, 30, |served| {
        let before = served.load(SeqCst);
        let own = (0..20).filter(|_| rig.call(&quiet, &[]).status == 200).count();
        (own, served.load(SeqCst) - before)
    });
    assert_eq!(own, 20);
    // One of each in turn; a few more for what this machine needs between two calls.
    assert!(others <= 36, "{others} calls of the other were served beside 20: 600 would be first come, first served");
}

#[test]
fn a_full_queue_is_for_others_too() {
    let rig = Rig::start("size: 8, timeout: 60s");
    let (busy, quiet) = (rig.key("busy", "standard"), rig.key("quiet", "standard"));
    let statuses = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let status = rig.call(&busy, &[]).status;
                statuses.lock().unwrap().push(status);
            });
        }
        wait::until(DEADLINE, "the queue is full", || rig.queue("refused") > 0);
        for _ in 0..5 {
            assert_eq!(rig.call(&quiet, &[]).status, 200);
        }
    });
    let statuses = statuses.into_inner().unwrap();
    assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&503) && statuses.contains(&200), "{statuses:?}");
}

#[test]
fn classes_go_first_and_the_lowest_does_not_starve() {
    let rig = Rig::start("size: 100, timeout: 60s");
    let (people, jobs) = (rig.key("people", "interactive"), rig.key("jobs", "batch"));
    // A class alone in the place of a tenant: the flood is of the lowest class, and the other waits for one call at most.
    let order = rig.beside(&jobs, 10, |served| {
        let before = served.load(SeqCst);
        for _ in 0..10 {
            assert_eq!(rig.call(&people, &[]).status, 200);
        }
        served.load(SeqCst) - before
    });
    assert!(order <= 20, "{order}");
    // The other way round, one call in sixteen is of the lowest class.
    let waited = rig.beside(&people, 10, |served| {
        let before = served.load(SeqCst);
        assert_eq!(rig.call(&jobs, &[]).status, 200);
        served.load(SeqCst) - before
    });
    assert!((8..=40).contains(&waited), "{waited}");
}

/// What a client says of its own call lowers its class, and raises none.
#[test]
fn a_field_lowers_the_class_and_raises_none() {
    let rig = Rig::start("size: 100, timeout: 60s");
    let (people, jobs) = (rig.key("people", "interactive"), rig.key("jobs", "batch"));
    let waited = rig.beside(&people, 6, |served| {
        let before = served.load(SeqCst);
        assert_eq!(rig.call(&people, &[("X-Weir-Priority", "batch")]).status, 200);
        let lowered = served.load(SeqCst) - before;
        assert_eq!(rig.call(&jobs, &[("X-Weir-Priority", "interactive")]).status, 200);
        (lowered, served.load(SeqCst) - before - lowered)
    });
    assert!(waited.0 >= 8 && waited.1 >= 8, "{waited:?}");
    assert!(!rig.provider.ledger().to_string().to_lowercase().contains("x-weir"), "not for the provider");
}

#[test]
fn who_would_wait_too_long_is_told_at_once() {
    let rig = Rig::start("size: 1000, timeout: 2s");
    let busy = rig.key("busy", "standard");
    let refused = rig.beside(&busy, 80, |_| {
        wait::until(DEADLINE, "the rate is known", || rig.queue("too_long") > 0);
        let began = Instant::now();
        let refused = loop {
            let received = rig.call(&busy, &[]);
            if received.status == 503 && received.text().contains("queue_too_long") {
                break received;
            }
            assert!(began.elapsed() < DEADLINE, "{}", received.text());
        };
        // Others have their turn all the same.
        let quiet = rig.key("quiet", "standard");
        assert_eq!(rig.call(&quiet, &[]).status, 200);
        refused
    });
    let seconds: u64 = refused.field("retry-after").expect("when to come again").parse().unwrap();
    assert!((2..=60).contains(&seconds), "{seconds}");
    let metrics = rig.weir.admin_get("/metrics");
    assert!(metrics.text().lines().any(|line| line.starts_with("upstream_queue_too_long_total{upstream=\"sim\"}")));
}

/// Calls whose time is over before they have a place say nothing about a target, which must not be ejected for them.
#[test]
fn time_in_the_queue_is_not_the_fault_of_a_target() {
    let rig = Rig::with("size: 100, timeout: 60s", ", timeouts: {total: 400ms}");
    let key = rig.key("busy", "standard");
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..40).map(|_| scope.spawn(|| rig.call(&key, &[]).status)).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert!(statuses.contains(&200) && statuses.iter().any(|status| *status >= 500), "{statuses:?}");
    let upstreams: Value = serde_json::from_str(rig.weir.admin_get("/upstreams").text()).unwrap();
    let target = &upstreams[0]["targets"][0];
    assert_eq!((&target["failures"]["total_timeout"], &target["ejections"]), (&json!(0), &json!(0)), "{target}");
}

/// Nothing is sent to a candidate without a place, so it does not count as an attempt.
#[test]
fn candidates_without_a_place_use_up_no_attempts() {
    let provider = Provider::start();
    let url = format!("http://{}", provider.address());
    let names = ["p1", "p2", "p3", "p4", "p5"];
    let providers: String = names
        .iter()
        .map(|name| format!("  {name}: {{api: openai, upstream: {}}}\n", if *name == "p5" { "free" } else { "full" }))
        .collect();
    let candidates: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(tier, name)| format!("{{provider: {name}, model: sim, tier: {}}}", tier + 1))
        .collect();
    let yaml = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 1\n\
         upstreams:\n  full: {{targets: [\"{url}\"], max_in_flight: 1}}\n  free: {{targets: [\"{url}\"]}}\n\
         providers:\n{providers}\
         models:\n  m: {{candidates: [{}]}}\n  slow: {{candidates: [{{provider: p1, model: sim-first600000}}], timeouts: {{first_token: none}}}}\n\
         routes: [{{name: ai, match: {{path: /v1/*}}, ai: {{}}}}]\n",
        candidates.join(", ")
    );
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    let body = |model: &str| json!({"model": model, "messages": [{"role": "user", "content": "hi"}]}).to_string();
    let mut held = weir.connect();
    held.send(format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
        body("slow").len(),
        body("slow")
    ));
    wait::until(DEADLINE, "the place is taken", || provider.calls("sim-first600000") == 1);
    let received = crate::client::post(weir.addr(), "/v1/chat/completions", &body("m"));
    assert_eq!((received.status, provider.calls("sim")), (200, 1), "{}", received.text());
}
