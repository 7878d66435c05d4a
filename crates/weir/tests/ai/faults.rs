//! Every fault of the table, alone and with a candidate that can take its place, each API at each other one, streams and whole responses, all at once, with
//! authentication, limits, log, metrics, health checks and circuit breakers around them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{DEADLINE, Weir, wait};

use crate::client::send;
use crate::judge::{Verdict, judge};
use crate::rig::Provider;

const CANARY: &str = "canary-of-the-prompt";
const KEY: &str = "sk-canary-of-the-provider-key";
/// What the simulator says.
const OUTPUT: &str = "quick brown";

/// What a client has in the end. Not `alone`: there is another candidate.
fn expected(case: &Case) -> Verdict {
    let Case { fault, client, provider, streams, alone } = *case;
    use Verdict::{Complete, ErrorEvent, Other, Status};
    let overloaded = if client == ANTHROPIC { 529 } else { 503 };
    let translated = client != provider;
    let unless_replaced = |verdict| if alone { verdict } else { Complete };
    match (fault, streams) {
        // An overloaded provider that says so in its stream.
        (21, true) if provider == ANTHROPIC => unless_replaced(Status(overloaded)),
        (1 | 7 | 17 | 18 | 21, _) => unless_replaced(Status(502)),
        (2..=4, _) => unless_replaced(Status(429)),
        (5, _) => unless_replaced(Status(500)),
        (6 | 32, _) => unless_replaced(Status(overloaded)),
        (8 | 9, _) => unless_replaced(Status(504)),
        (10 | 11 | 20 | 22 | 23, true) => ErrorEvent,
        (10 | 11 | 19 | 20 | 22 | 23, false) => unless_replaced(Status(502)),
        (12, _) => unless_replaced(Status(400)),
        // A refusal is a response with an end reason of its own; and no event ends a stream, so that one may follow any other.
        (13, _) | (25, true) if provider == GEMINI => Other,
        (13, _) => Status(400),
        (14, _) => unless_replaced(Status(502)),
        // Nobody can say what it means in the other API.
        (15, true) if translated => ErrorEvent,
        (15, false) if translated => unless_replaced(Status(502)),
        (15 | 26, _) => Other,
        (16, _) => Status(422),
        (34, _) => Status(502),
        _ => Complete,
    }
}

fn configuration(provider: &Provider, keys: &str) -> String {
    let url = format!("http://{}", provider.address());
    let (mut upstreams, mut providers, mut models) = (String::new(), String::new(), String::new());
    for fault in 0..=35 {
        upstreams.push_str(&format!("  u{fault}: {{targets: [\"{url}\"], health: {{path: /health, interval: 1s}}}}\n"));
        for (name, api) in [(OPENAI, "openai"), (ANTHROPIC, "anthropic"), (GEMINI, "gemini")] {
            providers.push_str(&format!(
                "  {name}{fault}: {{api: {api}, upstream: u{fault}, keys: [{KEY}-{name}{fault}]}}\n"
            ));
            let timeouts = "timeouts: {first_token: 3s, token_idle: 3s, total: 40s}";
            let faulty = format!("{{provider: {name}{fault}, model: sim-f{fault}, context: 8000}}");
            let good = format!("{{provider: {name}0, model: sim, context: 100000, tier: 2}}");
            models.push_str(&format!("  {name}{fault}-alone: {{candidates: [{faulty}], {timeouts}}}\n"));
            models.push_str(&format!("  {name}{fault}-pair: {{candidates: [{faulty}, {good}], {timeouts}}}\n"));
        }
    }
    format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 2\naccess_log: {{path: stdout}}\n\
         auth: {{keys: {{api_key: {{store: {{file: {keys}}}}}}}}}\n\
         limits: {{each: {{rate: 100000/s, burst: 100000, key: consumer}}}}\n\
         upstreams:\n{upstreams}  breaking: {{targets: [\"{url}\"], breaker: {{failures: 50%, of_last: 20, open_for: 1s}}}}\n\
         providers:\n{providers}models:\n{models}\
         routes:\n{}{}",
        route("/v1/*"),
        route("/v1beta/*")
    )
}

fn route(path: &str) -> String {
    format!(
        "  - {{match: {{path: {path}}}, ai: {{}}, auth: keys, limits: [each], headers: {{response: {{set: {{X-Set: here}}}}}}}}\n"
    )
}

const OPENAI: &str = "o";
const ANTHROPIC: &str = "c";
const GEMINI: &str = "g";
const APIS: [&str; 3] = [OPENAI, ANTHROPIC, GEMINI];

struct Case {
    fault: u8,
    /// API of the client.
    client: &'static str,
    /// API of the provider; translated if it is another one.
    provider: &'static str,
    streams: bool,
    alone: bool,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for fault in 1..=35 {
        for (client, provider) in APIS.into_iter().flat_map(|client| APIS.map(|provider| (client, provider))) {
            for (streams, alone) in [(false, false), (false, true), (true, false), (true, true)] {
                cases.push(Case { fault, client, provider, streams, alone });
            }
        }
    }
    cases
}

#[test]
fn no_fault_passes_for_success() {
    let provider = Provider::start();
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let keys = builder.dir().join("keys.yaml").display().to_string();
    std::fs::write(&keys, "").unwrap();
    let made = Weir::builder(env!("CARGO_BIN_EXE_weir")).args(["keys", "create", "tester", "--file", &keys]).command();
    let key = made.stdout.trim().to_owned();
    let weir = builder.config(configuration(&provider, &keys)).start();
    let ready = || send(weir.addr(), "GET", "/v1/models", &[("X-API-Key", &key)], "").status == 200;
    wait::until(DEADLINE, "the key opens", ready);

    let cases = cases();
    let next = AtomicUsize::new(0);
    let wrong: Mutex<Vec<String>> = Mutex::default();
    let verdicts: Mutex<BTreeMap<String, u32>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let Case { fault, client, provider, streams, alone } = *case;
                    let form = if alone { "alone" } else { "pair" };
                    let model = format!("{provider}{fault}-{form}");
                    let mut path = if client == ANTHROPIC { "/v1/messages" } else { "/v1/chat/completions" }.to_owned();
                    let mut body = json!({"model": model, "stream": streams, "max_tokens": 64,
                        "messages": [{"role": "user", "content": CANARY}]});
                    if client == GEMINI {
                        let method = if streams { "streamGenerateContent?alt=sse" } else { "generateContent" };
                        path = format!("/v1beta/models/{model}:{method}");
                        body = json!({"contents": [{"role": "user", "parts": [{"text": CANARY}]}], "generationConfig": {"maxOutputTokens": 64}});
                    }
                    let began = Instant::now();
                    let received = send(weir.addr(), "POST", &path, &[("X-API-Key", &key)], &body.to_string());
                    let verdict = judge(&path, streams, &received);
                    *verdicts.lock().unwrap().entry(format!("{verdict:?}")).or_default() += 1;
                    let expected = expected(case);
                    // It is well from its fourth call on.
                    let is_well = fault == 32 && verdict == Verdict::Complete;
                    if (verdict != expected && !is_well) || began.elapsed() > Duration::from_secs(45) {
                        wrong.lock().unwrap().push(format!(
                            "F{fault} {path} streams={streams} provider={provider} {form}: {verdict:?}, expected {expected:?} after {:?}\n{:?}\n{}",
                            began.elapsed(), received.fields, received.text().chars().take(600).collect::<String>()
                        ));
                    }
                    if received.field("x-set") != Some("here") && received.status == 200 {
                        wrong.lock().unwrap().push(format!("F{fault}: the route's edits are missing"));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} wrong of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    let verdicts = verdicts.into_inner().unwrap();
    assert_eq!(verdicts.get("TruncatedSuccess"), None, "{verdicts:?}");

    // The books: one line for each request, one count, no prompt, no key, no response.
    let lines = || -> Vec<Value> {
        let log = weir.stdout();
        log.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .filter(|line: &Value| line["ai"].is_object())
            .collect()
    };
    wait::until(DEADLINE, "all requests are logged", || lines().len() == cases.len());
    for line in lines() {
        let ai = &line["ai"];
        let is_served = ai["end"] == "complete" && line["status"] == 200;
        assert!(!is_served || (ai["tokens_in"].is_u64() && ai["ttft_ms"].is_number()), "{line}");
        assert_eq!(line["consumer"], "tester", "{line}");
    }
    let metrics = weir.admin_get("/metrics").text().to_owned();
    let counted: u64 = metrics
        .lines()
        .filter(|line| line.starts_with("weir_ai_requests_total{"))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(counted, cases.len() as u64);
    for output in [weir.stdout(), weir.stderr(), metrics] {
        for secret in [CANARY, KEY, OUTPUT] {
            assert!(!output.contains(secret), "{secret} is in an output");
        }
    }
}

/// A client that disconnects ends the upstream's work, before content and in the stream.
#[test]
fn a_client_that_disconnects_ends_the_upstreams_work() {
    use std::io::{Read, Write};
    let provider = Provider::start();
    let models = "  slow: {candidates: [{provider: openai, model: sim-tokens1000-gap50}]}\n  \
                  silent: {candidates: [{provider: openai, model: sim-f8}]}\n";
    let weir = crate::rig::gateway(&provider, "", models, "");
    for (count, model) in [(1, "slow"), (2, "silent")] {
        let body = json!({"model": model, "stream": true, "messages": []}).to_string();
        let mut stream = std::net::TcpStream::connect(weir.addr()).unwrap();
        let head = format!("POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).unwrap();
        if model == "slow" {
            let mut buffer = [0; 1024];
            assert!(stream.read(&mut buffer).unwrap() > 0);
        } else {
            wait::until(DEADLINE, "the provider is called", || provider.calls("sim-f8") == 1);
        }
        drop(stream);
        wait::until(DEADLINE, "the provider sees that nobody waits", || provider.ledger()["cancelled"] == json!(count));
    }
    let metrics = || weir.admin_get("/metrics").text().to_owned();
    wait::until(DEADLINE, "both are counted", || {
        metrics().lines().any(|line| {
            line.starts_with("weir_ai_requests_total{") && line.contains("client_disconnected") && line.ends_with(" 1")
        })
    });
    assert!(!metrics().contains("upstream_errors_total{upstream=\"sim\""), "{}", metrics());
}
