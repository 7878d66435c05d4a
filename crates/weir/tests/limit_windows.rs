//! Limits of several windows and tiers, limits that only watch, and failed logins: with the real program, authentication and a real Redis.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::thread;

use serde_json::Value;
use testkit::{DEADLINE, Message, RawClient, Redis, Weir, wait};

struct Rig {
    weir: Weir,
    file: String,
}

fn create(file: &str, consumer: &str, more: &[&str]) -> String {
    let made = Weir::builder(env!("CARGO_BIN_EXE_weir"))
        .args(["keys", "create", consumer, "--file", file])
        .args(more.iter().copied())
        .command();
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    made.stdout.trim().to_owned()
}

/// A gateway with API keys on `/a` and these limits; `keys` is a file of keys that is there already.
fn rig(server: &str, redis: Option<&Redis>, limits: &str, names: &str, keys: Option<&str>) -> Rig {
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let file = keys.map_or_else(|| builder.dir().join("keys.yaml").display().to_string(), str::to_owned);
    if keys.is_none() {
        std::fs::write(&file, "").unwrap();
    }
    let redis = redis.map_or(String::new(), |redis| format!("redis: {{url: '{}', timeout: 10s}}\n", redis.url()));
    let yaml = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 2\naccess_log: {{path: stdout}}\n{server}{redis}\
         auth: {{keys: {{api_key: {{store: {{file: {file}}}}}}}}}\nlimits:\n{limits}routes:\n  \
         - match: {{path: /a}}\n    auth: keys\n    limits: [{names}]\n    respond: {{body: a}}\n  \
         - match: {{path: /open}}\n    limits: [{names}]\n    respond: {{body: o}}\n"
    );
    Rig { weir: builder.config(yaml).start(), file }
}

impl Rig {
    /// A new key that is known to the gateway.
    fn key(&self, consumer: &str, more: &[&str]) -> String {
        let key = create(&self.file, consumer, more);
        wait::until(DEADLINE, "the new key", || self.get("/known", &key).status() == 404 && self.is_known(&key));
        key
    }

    fn is_known(&self, key: &str) -> bool {
        // Refused keys are not charged to anybody.
        self.get("/a", key).status() != 401
    }

    fn get(&self, path: &str, key: &str) -> Message {
        self.weir.request("GET", path, &[("X-API-Key", key)], "")
    }

    fn statuses(&self, count: usize, key: &str) -> Vec<u16> {
        (0..count).map(|_| self.get("/a", key).status()).collect()
    }

    /// What the admin listener says is left of each window.
    fn left(&self, limit: &str, key: &str) -> BTreeMap<String, u64> {
        let response = self.weir.admin_get(&format!("/limits?limit={limit}&key={key}"));
        let value: Value = serde_json::from_str(response.text()).unwrap();
        let entries = value["limits"].as_array().unwrap();
        let entry = |one: &Value| {
            let tier = one["tiers"].as_str().map_or(String::new(), |tier| format!(" {tier}"));
            (format!("{}{tier}", one["name"].as_str().unwrap()), one["state"]["remaining"].as_u64().unwrap())
        };
        entries.iter().map(entry).collect()
    }

    fn metric(&self, name: &str) -> u64 {
        let metrics = self.weir.admin_get("/metrics");
        let line = metrics.text().lines().find(|line| line.starts_with(name));
        line.map_or(0, |line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
    }
}

const PLAN: &str = "  plan:\n    key: consumer\n    STORE\n    windows: [{quota: 4, window: 1h}, {quota: 6, window: 1d}]\n    \
                    tiers:\n      gold: [{rate: 1000/s, burst: 1000}, {quota: 9, window: 1d}]\n      free: []\n";

fn plan(store: &str) -> String {
    PLAN.replace("STORE", store)
}

fn windows_and_tiers(redis: Option<&Redis>) {
    let store = if redis.is_some() { "store: redis" } else { "store: memory" };
    let rig = rig("", redis, &plan(store), "plan", None);
    // Making sure that the key is known takes one request.
    let shop = rig.key("shop", &[]);
    let response = rig.get("/a", &shop);
    assert_eq!(response.field("ratelimit-policy"), Some("\"plan-1h\";q=4;w=3600, \"plan-1d\";q=6;w=86400"));
    let told = response.field("ratelimit").unwrap();
    assert!(told.starts_with("\"plan-1h\";r=2;t=") && told.contains(", \"plan-1d\";r=4;t="), "{told}");
    assert_eq!(rig.statuses(3, &shop), [200, 200, 429]);
    let refused = rig.get("/a", &shop);
    assert_eq!((refused.status(), refused.field("ratelimit-policy")), (429, Some("\"plan-1h\";q=4;w=3600")));
    assert!(refused.text().contains("\"violated-policies\":[\"plan-1h\"]"), "{}", refused.text());
    // What the hour refused, the day was not charged.
    assert_eq!(rig.left("plan", "shop")["plan-1d"], 2);

    // The tier changes: what was spent of the day stays spent, the hour is no window of the new tier.
    let text = std::fs::read_to_string(&rig.file).unwrap();
    std::fs::write(&rig.file, text.replace(r#""consumer":"shop""#, r#""consumer":"shop","tier":"gold""#)).unwrap();
    wait::until(DEADLINE, "the other tier", || {
        // Each look is a request of its own: 5 of 9 are left when the first one passes.
        rig.get("/a", &shop).status() == 200
    });
    assert_eq!(rig.left("plan", "shop")["plan-1d gold"], 4);
    assert_eq!(rig.statuses(5, &shop), [200, 200, 200, 200, 429]);
    let refused = rig.get("/a", &shop);
    assert!(refused.text().contains("\"violated-policies\":[\"plan-1d\"]"), "{}", refused.text());
    // And back: more is spent than the old tier has.
    std::fs::write(&rig.file, text).unwrap();
    wait::until(DEADLINE, "the tier of before", || {
        rig.get("/a", &shop).field("ratelimit-policy") == Some("\"plan-1h\";q=4;w=3600")
    });

    // A tier without windows is not limited; one that the limit does not know has `windows`.
    let free = rig.key("guest", &["--tier", "free"]);
    assert_eq!(rig.statuses(20, &free), [200; 20]);
    assert_eq!(rig.get("/a", &free).field("ratelimit-policy"), None);
    let other = rig.key("other", &["--tier", "silver"]);
    assert_eq!(rig.statuses(4, &other), [200, 200, 200, 429]);
    // The series are there once each.
    let metrics = rig.weir.admin_get("/metrics");
    let keys: Vec<&str> = metrics.text().lines().filter(|line| line.starts_with("rate_limit_keys{")).collect();
    assert_eq!(keys.len(), 3, "{keys:?}");
    assert!(rig.metric("rate_limit_dropped_total{limit=\"plan-1h\"}") >= 3);
}

#[test]
fn windows_and_tiers_in_memory() {
    windows_and_tiers(None);
}

#[test]
fn windows_and_tiers_in_redis() {
    windows_and_tiers(Some(&Redis::start()));
}

/// Responses by status of 8 clients that send 30 requests each as fast as they can.
fn storm(gateways: &[&Rig], key: &str) -> BTreeMap<u16, usize> {
    let storm = |number: usize| {
        let mut client = gateways[number % gateways.len()].weir.connect();
        let get = |client: &mut RawClient| {
            client.request("GET", "/a", &[("X-API-Key", key)], "");
            client.read_response().status()
        };
        (0..30).map(|_| get(&mut client)).collect::<Vec<u16>>()
    };
    let all: Vec<u16> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|number| scope.spawn(move || storm(number))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    all.into_iter().fold(BTreeMap::new(), |mut counts, status| {
        *counts.entry(status).or_default() += 1;
        counts
    })
}

/// All windows of a request are one call, charged to all or none: two gateways spend the narrowest quota whole and nothing more.
#[test]
fn two_gateways_spend_a_quota_whole_and_no_more() {
    let redis = Redis::start();
    let limits = "  plan:\n    key: consumer\n    store: redis\n    windows: [{rate: 1000/s, burst: 1000}, {quota: 41, window: 1h}, {quota: 70, window: 1d}]\n  \
                  early: {key: client_ip, algorithm: fixed_window, quota: 5000, window: 1h}\n";
    let first = rig("", Some(&redis), limits, "plan, early", None);
    let key = first.key("shop", &[]);
    let second = rig("", Some(&redis), limits, "plan, early", Some(&first.file));
    // Failed attempts count too where it is known who sends them.
    let of_early = || {
        let left = |rig: &Rig| rig.left("early", "127.0.0.1")["early"];
        [&first, &second].map(|rig| 5000 - left(rig)).iter().sum::<u64>()
    };
    let before = of_early();
    let spent = first.metric("rate_limit_allowed_total{limit=\"plan-1h\"}") as usize;
    let counts = storm(&[&first, &second], &key);
    assert_eq!((counts[&200], counts[&429]), (41 - spent, 240 + spent - 41), "{counts:?}");
    assert_eq!(first.left("plan", "shop")["plan-1d"], 70 - 41, "what the hour refused was not charged to the day");
    // The limit in memory came first and got back what the refused requests had taken.
    assert_eq!(of_early() - before, 41 - spent as u64);
    // One script call for the windows of a request, and none for most of what is refused.
    let stats = redis.cli(["INFO", "commandstats"]);
    let calls: usize = stats
        .lines()
        .filter(|line| line.starts_with("cmdstat_evalsha:") || line.starts_with("cmdstat_eval:"))
        .map(|line| line.split(['=', ',']).nth(1).unwrap().parse::<usize>().unwrap())
        .sum();
    assert!(calls <= 41 + 8 + 8, "{calls} calls");
}

fn watching(redis: Option<&Redis>) {
    let store = if redis.is_some() { "redis" } else { "memory" };
    let limits = format!(
        "  soon: {{key: consumer, algorithm: fixed_window, quota: 3, window: 1h, store: {store}, enforce: false}}\n  \
         hard: {{key: consumer, algorithm: fixed_window, quota: 8, window: 1h, store: {store}}}\n  \
         whose: {{key: header:X-Whose, rate: 1/s, store: {store}, enforce: false, missing_key: {{status: 400}}}}\n"
    );
    let rig = rig("", redis, &limits, "soon, hard, whose", None);
    let key = rig.key("shop", &[]);
    let response = rig.get("/a", &key);
    assert_eq!(response.field("ratelimit-policy"), Some("\"hard\";q=8;w=3600"), "clients learn nothing of it");
    assert_eq!(rig.statuses(7, &key), [200, 200, 200, 200, 200, 200, 429]);
    assert_eq!(rig.metric("rate_limit_would_refuse_total{limit=\"soon\"}"), 5);
    assert_eq!(rig.metric("rate_limit_allowed_total{limit=\"soon\"}"), 3);
    assert_eq!(rig.metric("rate_limit_dropped_total{limit=\"soon\"}"), 0);
    assert_eq!(rig.metric("rate_limit_dropped_total{limit=\"hard\"}"), 1);
    assert!(rig.metric("rate_limit_would_refuse_total{limit=\"whose\"}") >= 8);
    assert_eq!(rig.left("soon", "shop")["soon"], 0);
}

#[test]
fn a_limit_that_is_not_enforced_refuses_nothing() {
    watching(None);
}

#[test]
fn a_limit_that_is_not_enforced_refuses_nothing_in_redis() {
    watching(Some(&Redis::start()));
}

#[test]
fn whoever_guesses_is_refused_before_the_credential_is_looked_at() {
    let limits = "  wide: {key: consumer, rate: 1000/s, burst: 1000}\n";
    let other = rig("", None, limits, "wide", None);
    let good = create(&other.file, "shop", &[]);
    let rig = rig("server: {auth_failures: 5/h}\n", None, limits, "wide", Some(&other.file));
    assert_eq!(rig.weir.get("/a").status(), 401, "nothing was shown: that is no failure");
    assert_eq!(rig.get("/a", &good).status(), 200);
    assert_eq!(rig.statuses(7, "wk_guess"), [401, 401, 401, 401, 401, 429, 429]);
    let refused = rig.get("/a", &good);
    assert_eq!(refused.status(), 429, "not even a good one is looked at");
    let wait: u64 = refused.field("retry-after").unwrap().parse().unwrap();
    assert!((600..=720).contains(&wait), "{wait}");
    assert_eq!(rig.weir.get("/open").status(), 200, "open routes do not care");
    let mut client = RawClient::connect_from(IpAddr::from([127, 0, 0, 2]), rig.weir.addr());
    client.request("GET", "/a", &[("X-API-Key", &good)], "");
    assert_eq!(client.read_response().status(), 200, "nor do other addresses");
    assert_eq!(rig.metric("auth_requests_total{auth=\"keys\",outcome=\"too_many_failures\"}"), 3);
}
