//! `docs/metrics.md` lists every metric with its type and meaning as `/metrics` gives them, and with its labels. `WEIR_UPDATE=1` writes the
//! list anew; the labels of a metric that has no sample here are kept as they are written.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use testkit::{Upstream, Weir, manual, ports::Port, responder};

/// Every family that a gateway with all of these features names, and some requests for labels.
fn exposition() -> String {
    let (upstream, dead) = (Upstream::start(responder::ok("hello")), Port::free());
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let spec = "openapi: 3.1.0\ninfo: {title: T, version: '1'}\npaths:\n  /o: {get: {operationId: o, parameters: [{name: q, in: query, required: true}]}}\n";
    fs::write(builder.dir().join("api.yaml"), spec).unwrap();
    fs::write(builder.dir().join("targets.yaml"), "[]").unwrap();
    let yaml = format!(
        "listen: 127.0.0.1:0
admin: 127.0.0.1:0
workers: 1
telemetry: {{traces: {{endpoint: \"http://{dead}/v1/traces\"}}}}
redis: {{url: \"redis://{dead}\", timeout: 5ms, secret: \"0123456789abcdef0123456789abcdef\"}}
upstreams:
  live:
    targets: [{live}]
    health: {{path: /}}
    breaker: {{failures: 50%}}
    balance: ewma
    max_in_flight: 10
    queue: {{size: 10}}
  dead: {{targets: [\"http://{dead}\"], retry: {{extra_attempts: 0}}}}
  replicas: {{targets: [\"http://{dead}\"], balance: inference}}
  listed: {{targets: {{file: targets.yaml}}}}
limits:
  shared: {{rate: 100/s, burst: 100, store: redis}}
  tight: {{algorithm: fixed_window, quota: 1, window: 1h}}
  tokens: {{unit: tokens, algorithm: fixed_window, quota: 1000, window: day}}
caches: {{pages: {{mode: ttl, store: [memory, redis]}}}}
auth: {{users: {{jwt: {{issuer: i, audience: a, secret: \"0123456789abcdef0123456789abcdef\"}}}}, keys: {{api_key: {{store: redis}}}}}}
apis: {{api: {{spec: api.yaml, upstream: live}}}}
server: {{faults: true}}
routes:
  - {{name: cached, match: {{path: /c}}, upstream: live, cache: pages, limits: [shared]}}
  - {{name: tight, match: {{path: /t}}, upstream: live, limits: [tight]}}
  - {{name: broken, match: {{path: /b}}, upstream: dead}}
  - {{name: copied, match: {{path: /m}}, upstream: live, mirror: {{upstream: dead}}, fault: {{status: 500, share: 0%}}}}
  - {{name: closed, match: {{path: /a}}, upstream: live, auth: users}}
",
        live = upstream.url(),
        dead = dead.address()
    );
    let weir = builder.config(yaml).start();
    let mut client = weir.connect();
    for (path, status) in
        [("/c", 200), ("/c", 200), ("/t", 200), ("/t", 429), ("/b", 502), ("/a", 401), ("/o", 400), ("/x", 404)]
    {
        assert_eq!(client.get(path).status(), status, "{path}");
    }
    weir.admin_get("/metrics").text().to_owned()
}

/// Labels by family, without `le`, which histograms have anyway.
fn labels(exposition: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found = BTreeMap::<String, BTreeSet<String>>::new();
    for line in exposition.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let family = if exposition.contains(&format!("# TYPE {name} ")) { name } else { family };
        let names = found.entry(family.to_owned()).or_default();
        for part in line.split_once('{').map_or("", |(_, rest)| rest).split("=\"") {
            let label = part.rsplit([',', '"']).next().unwrap();
            if label.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_')
                && !label.is_empty()
                && label != "le"
            {
                names.insert(label.to_owned());
            }
        }
    }
    found
}

#[test]
fn the_page_lists_every_metric() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let exposition = exposition();
    let seen = labels(&exposition);
    let written = fs::read_to_string(&page).unwrap();
    let mut rows = Vec::new();
    for line in exposition.lines() {
        let Some((name, meaning)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        let kind = exposition.split_once(&format!("# TYPE {name} ")).unwrap().1.lines().next().unwrap();
        let row = format!("| `{name}` | {kind} | ");
        let labels = match seen.get(name) {
            Some(seen) => seen.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", "),
            None => {
                written.lines().find_map(|line| line.strip_prefix(&row)?.split(" | ").next()).unwrap_or("?").to_owned()
            }
        };
        rows.push(format!("{row}{labels} | {} |", meaning.replace('|', "\\|")));
    }
    rows.sort();
    assert!(rows.len() > 60, "{} metrics", rows.len());
    let table = format!("| metric | type | labels | meaning |\n|---|---|---|---|\n{}", rows.join("\n"));
    manual::assert_generated(&page, &table);
    if std::env::var_os("WEIR_UPDATE").is_none() {
        assert!(!written.contains(" | ? | "), "{}: labels are missing", page.display());
    }
}
