//! Secrets are placed wherever a configuration and a request may hold one, and looked for in everything that the gateway tells.

use std::time::Duration;

use testkit::{RawClient, Upstream, Weir, responder, wait};

const DEADLINE: Duration = Duration::from_secs(30);
const TOKEN: &str = "canary-console-token-0123456789";

/// Console, stores, collectors, upstreams and providers, each with a credential.
fn configuration(upstream: &Upstream, collector: &Upstream, log: &str) -> String {
    let (live, collector) = (upstream.url(), collector.url());
    format!(
        "listen: 127.0.0.1:0
admin: 127.0.0.1:0
workers: 1
console: {{token: {TOKEN}}}
access_log: {{path: '{log}'}}
redact: [Coupon, x-own]
redis: {{url: 'redis://user:canary-redis-password@127.0.0.1:9', secret: canary-redis-secret-0123456789abcdef, timeout: 5ms}}
telemetry:
  traces: {{endpoint: '{collector}/v1/traces?token=canary-traces-token', sample: 100%, every: 50ms, headers: {{Authorization: Bearer canary-traces-field}}}}
  metrics: {{endpoint: '{collector}/v1/metrics?key=canary-metrics-token&coupon=canary-own-collector', every: 50ms, headers: {{X-Key: canary-metrics-field}}}}
upstreams:
  live: {{targets: ['{live}']}}
  dead: {{targets: ['http://127.0.0.1:9'], retry: {{extra_attempts: 0}}}}
providers: {{p: {{api: openai, upstream: live, keys: [sk-canary-provider-key-0000]}}}}
models: {{m: {{candidates: [{{provider: p, model: m}}]}}}}
limits: {{few: {{rate: 1000/s, burst: 1000, store: redis, key: 'header:X-API-Key'}}}}
caches: {{pages: {{mode: ttl, ttl: 1h}}}}
auth: {{users: {{jwt: {{issuer: i, audience: a, secret: canary-jwt-secret-0123456789abcdef}}}}}}
routes:
  - {{name: ai, match: {{path: /v1/*}}, ai: {{}}}}
  - {{name: closed, match: {{path: /closed}}, auth: users, upstream: live}}
  - {{name: broken, match: {{path: /broken}}, upstream: dead}}
  - name: open
    match: {{path: /open/*}}
    upstream: live
    limits: [few]
    cache: pages
    headers: {{request: {{set: {{Authorization: Bearer canary-upstream-field, X-Own: canary-own-field}}}}}}
  - name: chosen
    match: {{path: /open/*, headers: {{X-Own: canary-own-header}}, query: {{coupon: canary-own-condition}}}}
    upstream: dead
"
    )
}

/// Sends credentials in every place of a request; what the gateway itself responds.
fn requests(weir: &Weir) -> Vec<String> {
    let fields = [
        ("Authorization", "Bearer canary-client-bearer"),
        ("Proxy-Authorization", "Basic canary-client-proxy"),
        ("Cookie", "session=canary-client-cookie"),
        ("X-API-Key", "canary-client-key"),
        ("Referer", "https://shop.example/a?b=1&access_token=canary-client-referer&coupon=canary-own-referer"),
    ];
    let query = "page=2&token=canary-client-query?x&Api_Key=canary-client-upper&signature=canary-client-signature&COUPON=canary-own-query&c%6fupon=canary-own-escaped";
    let question = "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"canary-client-prompt\"}]}";
    let mut problems = Vec::new();
    for path in ["/open/a", "/closed", "/broken", "/nowhere"] {
        let message = weir.request("GET", &format!("{path}?{query}"), &fields, "");
        if path != "/open/a" {
            assert!(message.status() >= 400, "{path}");
            problems.push(message.text().to_owned());
        }
    }
    let message = weir.request("POST", &format!("/v1/chat/completions?{query}"), &fields, question);
    assert!(message.status() >= 400);
    problems.push(message.text().to_owned());
    problems
}

fn with_token(weir: &Weir, target: &str) -> testkit::Message {
    let (host, bearer) = (weir.admin_addr().to_string(), format!("Bearer {TOKEN}"));
    let mut client = RawClient::connect(weir.admin_addr());
    client.request("GET", target, &[("Host", &host), ("Authorization", &bearer)], "");
    client.read_response_to("GET")
}

#[test]
fn no_secret_is_told_to_anybody() {
    let collector = Upstream::builder().record_limit(8 << 20).start(responder::ok(""));
    let upstream = Upstream::start(responder::raw(
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nSet-Cookie: id=canary-upstream-cookie\r\n\r\n{}",
    ));
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let yaml = configuration(&upstream, &collector, &log.display().to_string());
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    let mut told: Vec<(String, String)> = Vec::new();
    told.extend(requests(&weir).into_iter().map(|problem| ("a response".to_owned(), problem)));

    for page in ["metrics", "upstreams", "routes", "config", "limits", "healthz", "cachez"] {
        told.push((page.to_owned(), with_token(&weir, &format!("/{page}")).text().to_owned()));
    }
    for page in [
        "session",
        "live",
        "overview",
        "errors",
        "routes",
        "upstreams",
        "drained",
        "limits",
        "caches",
        "ai",
        "tls",
        "config",
    ] {
        let message = with_token(&weir, &format!("/console/api/{page}"));
        assert_eq!(message.status(), 200, "{page}");
        told.push((format!("console {page}"), message.text().to_owned()));
    }
    let bodies = |signal: &str| {
        let calls = collector.requests();
        let of_signal = calls.iter().filter(|call| call.complete && call.head.target().contains(signal));
        of_signal.map(|call| String::from_utf8_lossy(&call.body).into_owned()).collect::<String>()
    };
    let file = weir.config_path().display().to_string();
    for command in [&["check", &file, "--print"][..], &["routes", &file], &["routes", &file, "http://a/open/a"]] {
        let finished = Weir::builder(env!("CARGO_BIN_EXE_weir")).args(command.iter().copied()).command();
        assert_eq!(finished.code, Some(0), "{finished:?}");
        told.push((format!("weir {}", command[0]), finished.stdout + &finished.stderr));
    }
    wait::until(DEADLINE, "spans", || bodies("traces").contains("/nowhere"));
    wait::until(DEADLINE, "metrics", || bodies("metrics").contains("closed"));
    weir.stop(DEADLINE);
    told.push(("spans".to_owned(), bodies("traces")));
    told.push(("metrics over OTLP".to_owned(), bodies("metrics")));
    told.push(("the log".to_owned(), format!("{}{}", weir.stdout(), weir.stderr())));
    let lines = std::fs::read_to_string(&log).unwrap();
    assert_eq!(lines.lines().count(), 5);
    assert!(lines.contains("page=2&token=[redacted]&Api_Key=[redacted]"), "{lines}");
    assert!(lines.contains("https://shop.example/a?b=1&access_token=[redacted]"), "{lines}");
    let lines_with_own = lines.matches("COUPON=[redacted]&c%6fupon=[redacted]").count();
    told.push(("the access log".to_owned(), lines));

    // It was there to be told: the upstream and the collector received the secrets.
    assert_eq!(lines_with_own, 4 + 1, "each query has a name of the configuration");
    let got =
        |place: &Upstream, text: &str| place.requests().iter().any(|one| format!("{:?}", one.head).contains(text));
    assert!(
        got(&upstream, "canary-upstream-field")
            && got(&upstream, "canary-own-field")
            && got(&collector, "canary-traces-field")
    );
    for (place, text) in &told {
        assert!(!text.is_empty(), "{place} says nothing");
        if let Some(at) = text.find("canary-") {
            panic!("{place} tells a secret: {}", text[at..].chars().take(60).collect::<String>());
        }
    }
}
