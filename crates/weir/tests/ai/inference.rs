//! `balance: inference`: replicas are picked by what their engines tell and by the prompts that they have seen.

use std::io::Write;
use std::net::TcpStream;

use serde_json::json;
use testkit::ports::Port;
use testkit::{DEADLINE, Weir, wait};

use crate::client::{Received, send};
use crate::rig::Provider;

const CHAT: &str = "/v1/chat/completions";
/// Held by the simulator until its client disconnects.
const SLOW: &str = "sim-first600000";

/// Replicas with a gateway in front.
struct Fleet {
    weir: Weir,
    replicas: Vec<Option<Provider>>,
    ports: Vec<Port>,
}

impl Fleet {
    /// `settings` of the balance, `upstream` further keys, `top` and `route` of the file.
    fn start(count: usize, settings: &str, upstream: &str) -> Fleet {
        Fleet::with(count, settings, upstream, "", "")
    }

    fn with(count: usize, settings: &str, upstream: &str, top: &str, route: &str) -> Fleet {
        let ports: Vec<Port> = (0..count).map(|_| Port::free()).collect();
        let replicas = ports.iter().map(|port| Some(Provider::start_at(port.address()))).collect();
        let targets: Vec<String> = ports.iter().map(|port| format!("\"http://{}\"", port.address())).collect();
        let yaml = format!(
            "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 2\n{top}upstreams:\n  replicas: {{targets: [{}], \
             balance: {{inference: {{scrape: 500ms{settings}}}}}{upstream}}}\n\
             providers: {{local: {{api: openai, upstream: replicas}}}}\n\
             models:\n  m: {{candidates: [{{provider: local, model: sim}}], timeouts: {{first_token: none}}}}\n  \
             slow: {{candidates: [{{provider: local, model: {SLOW}}}], timeouts: {{first_token: none}}}}\n\
             routes: [{{name: ai, match: {{path: /v1/*}}, ai: {{}}{route}}}]\n",
            targets.join(", ")
        );
        let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
        let fleet = Fleet { weir, replicas, ports };
        wait::until(DEADLINE, "every replica is scraped", || (0..count).all(|n| fleet.gauge("waiting", n).is_some()));
        fleet
    }

    fn replica(&self, number: usize) -> &Provider {
        self.replicas[number].as_ref().unwrap()
    }

    /// A sample of a replica, as far as there is one.
    fn sample(&self, family: &str, number: usize) -> Option<f64> {
        let metrics = self.weir.admin_get("/metrics");
        let target = format!("target=\"{}\"", self.ports[number].address());
        let mut lines = metrics.text().lines();
        let line = lines.find(|line| line.starts_with(&format!("{family}{{")) && line.contains(&target))?;
        Some(line.rsplit(' ').next().unwrap().parse().unwrap())
    }

    fn gauge(&self, what: &str, number: usize) -> Option<f64> {
        self.sample(&format!("weir_ai_replica_{what}"), number)
    }

    fn picks(&self, by: &str) -> u64 {
        let metrics = self.weir.admin_get("/metrics");
        let label = format!("by=\"{by}\"");
        let mut lines = metrics.text().lines();
        let line = lines.find(|line| line.starts_with("weir_ai_replica_picks_total{") && line.contains(&label));
        line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    }

    /// The engine of a replica tells this, and the gateway has read it.
    fn tell(&self, number: usize, waiting: u32, kv: f64) {
        let (name, value) = if waiting > 0 { ("waiting", f64::from(waiting)) } else { ("kv", kv) };
        self.replica(number).set_metrics(format!(
            "vllm:num_requests_waiting {waiting}\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc {kv}\n"
        ));
        wait::until(DEADLINE, "the gateway has read it", || self.gauge(name, number) == Some(value));
    }

    fn calls(&self) -> Vec<u64> {
        self.replicas.iter().map(|replica| replica.as_ref().map_or(0, |replica| replica.calls("sim"))).collect()
    }

    /// Sends a call and returns the replica that served it. One call at a time.
    fn call(&self, prompt: &str) -> usize {
        let before = self.calls();
        let received = self.send(prompt, &[]);
        assert_eq!(received.status, 200, "{received:?}");
        let after = self.calls();
        let more: Vec<usize> = (0..before.len()).filter(|n| after[*n] > before[*n]).collect();
        let [replica] = more[..] else { panic!("served by {more:?}") };
        replica
    }

    fn send(&self, prompt: &str, fields: &[(&str, &str)]) -> Received {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": prompt}]});
        send(self.weir.addr(), "POST", CHAT, fields, &body.to_string())
    }

    /// Begins a call that lasts as long as its connection.
    fn begin(&self, prompt: &str) -> TcpStream {
        let body =
            json!({"model": "slow", "stream": true, "messages": [{"role": "user", "content": prompt}]}).to_string();
        let mut stream = TcpStream::connect(self.weir.addr()).unwrap();
        let head = format!("POST {CHAT} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).unwrap();
        stream
    }

    fn in_flight(&self) -> Vec<u64> {
        (0..self.ports.len()).map(|n| self.sample("upstream_target_in_flight", n).unwrap() as u64).collect()
    }
}

/// Text of 2 KiB that starts with nothing that another number's does.
fn text(number: usize) -> String {
    format!("{number:08} ").repeat(228)
}

#[test]
fn prompts_with_one_start_go_to_one_replica() {
    let fleet = Fleet::start(4, "", "");
    let mut used = [false; 4];
    for conversation in 0..12 {
        let mut prompt = text(conversation);
        let home = fleet.call(&prompt);
        used[home] = true;
        for round in 1..5 {
            prompt.push_str(&text(1000 * round + conversation));
            assert_eq!(fleet.call(&prompt), home, "conversation {conversation}, turn {round}");
        }
    }
    assert!(used.iter().filter(|used| **used).count() > 1, "all conversations are at one replica");
    assert_eq!((fleet.picks("prefix"), fleet.picks("load") + fleet.picks("in_flight")), (48, 12));
    let metrics = fleet.weir.admin_get("/metrics").text().to_owned();
    assert!(metrics.contains("weir_ai_prefix_match_ratio_count{upstream=\"replicas\"} 60"), "{metrics}");
}

#[test]
fn a_full_replica_is_avoided_while_there_is_another() {
    let fleet = Fleet::start(3, "", "");
    let prompt = text(1);
    let home = fleet.call(&prompt);
    assert_eq!(fleet.call(&prompt), home);
    let (other, last) = ((home + 1) % 3, (home + 2) % 3);
    fleet.tell(home, 6, 0.0);
    fleet.tell(other, 0, 0.96);
    for n in 0..10 {
        assert_eq!(fleet.call(&prompt), last, "call {n}");
        assert_eq!(fleet.call(&text(100 + n)), last, "call {n} of another prompt");
    }
    // At the bounds they are not full.
    fleet.tell(home, 5, 0.0);
    fleet.tell(last, 6, 0.0);
    assert_eq!(fleet.call(&prompt), home);
    // Where all are full, all serve.
    fleet.tell(home, 7, 0.0);
    fleet.call(&text(2));
}

#[test]
fn requests_in_flight_decide_where_an_engine_tells_nothing_new() {
    let another_engine = "llamacpp:requests_deferred 0\nllamacpp:requests_processing 0\n";
    for page in ["none", "stall", "", another_engine] {
        let fleet = Fleet::start(2, "", "");
        fleet.tell(0, 50, 0.0);
        for n in 0..4 {
            assert_eq!(fleet.call(&text(n)), 1, "{page:?}: it is full");
        }
        fleet.replica(0).set_metrics(page);
        wait::until(DEADLINE, "the last scrape is too old", || fleet.gauge("waiting", 0).is_none());
        assert!(fleet.gauge("waiting", 1).is_some(), "{page:?}: the other goes on telling");
        // The engine of the other one tells of a queue; a replica of which nothing is known cannot be compared with that.
        fleet.tell(1, 3, 0.0);
        let before = fleet.picks("in_flight");
        let mut held = Vec::new();
        for n in 0..8_u64 {
            held.push(fleet.begin(&text(50 + n as usize)));
            wait::until(DEADLINE, "the call is in flight", || fleet.in_flight().iter().sum::<u64>() == n + 1);
        }
        assert_eq!(fleet.in_flight(), [4, 4], "{page:?}");
        assert_eq!(fleet.picks("in_flight"), before + 8, "{page:?}");
        drop(held);
        // Prefixes decide all the same, and the engine is heard again when it tells.
        wait::until(DEADLINE, "nothing is in flight", || fleet.in_flight() == [0, 0]);
        let home = fleet.call(&text(90));
        assert_eq!(fleet.call(&text(90)), home, "{page:?}");
        fleet.tell(0, 50, 0.0);
        assert_eq!(fleet.call(&text(91)), 1, "{page:?}");
    }
}

#[test]
fn load_does_not_concentrate_beyond_the_bound() {
    let fleet = Fleet::start(4, ", max_imbalance: 4", "");
    let prompt = text(1);
    let mut held = Vec::new();
    for n in 0..40_u64 {
        held.push(fleet.begin(&prompt));
        wait::until(DEADLINE, "the call is in flight", || fleet.in_flight().iter().sum::<u64>() == n + 1);
        let in_flight = fleet.in_flight();
        let (most, least) = (*in_flight.iter().max().unwrap(), *in_flight.iter().min().unwrap());
        // One more than what ends the rule of the prefix, and the one that was on its way when an engine was scraped.
        let bound = (least + 4).max(least * 3 / 2) + 2;
        assert!(most <= bound, "{in_flight:?}");
    }
    assert!(fleet.picks("prefix") > 0 && fleet.picks("load") > 1, "both rules were at work");
}

#[test]
fn a_lost_replica_fails_no_call_and_keeps_no_prompt() {
    let mut fleet = Fleet::start(3, "", ", eject: none");
    let prompt = text(1);
    let home = fleet.call(&prompt);
    fleet.replicas[home] = None;
    let port = fleet.ports[home].address();
    wait::until(DEADLINE, "the port is closed", || TcpStream::connect(port).is_err());
    let next = fleet.call(&prompt);
    let failed = |fleet: &Fleet| fleet.sample("upstream_target_failures_total", home).unwrap_or(0.0);
    let before = failed(&fleet);
    for n in 0..6 {
        assert_eq!(fleet.call(&prompt), next, "call {n}");
    }
    assert_eq!(failed(&fleet), before, "the prompt is not looked for where it was");
    // It comes back with an empty cache.
    fleet.replicas[home] = Some(Provider::start_at(port));
    wait::until(DEADLINE, "it is scraped again", || fleet.gauge("waiting", home).is_some());
    assert_eq!(fleet.call(&prompt), next);
}

#[test]
fn tenants_share_prompts_unless_they_are_isolated() {
    for (isolate, expected) in [(false, 1), (true, 0)] {
        let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
        let keys = builder.dir().join("keys.yaml").display().to_string();
        let key = |name: &str| {
            let made =
                Weir::builder(env!("CARGO_BIN_EXE_weir")).args(["keys", "create", name, "--file", &keys]).command();
            made.stdout.trim().to_owned()
        };
        std::fs::write(&keys, "").unwrap();
        let (one, two) = (key("one"), key("two"));
        let auth = format!("auth: {{keys: {{api_key: {{store: {{file: {keys}}}}}}}}}\n");
        let fleet = Fleet::with(2, &format!(", isolate: {isolate}"), "", &auth, ", auth: keys");
        let call = |key: &str| assert_eq!(fleet.send(&text(1), &[("X-API-Key", key)]).status, 200);
        call(&one);
        assert_eq!(fleet.picks("prefix"), 0);
        call(&two);
        assert_eq!(fleet.picks("prefix"), expected, "isolate: {isolate}");
        call(&one);
        call(&two);
        assert_eq!(fleet.picks("prefix"), expected + 2, "isolate: {isolate}");
    }
}
