//! Stored responses of the Responses API: who may read them, and where requests about them go, with two providers, two keys of one of them, teams,
//! reloads, faults and a second gateway.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use serde_json::{Value, json};
use testkit::{DEADLINE, Upstream, Weir, responder, wait};

use crate::client::{Received, send};
use crate::rig::Provider;

const RESPONSES: &str = "/v1/responses";
const KEYS: &str = "keys: [sk-a-one-0123456789, sk-a-two-0123456789]";

/// A gateway with the model `chat` at two providers, each with stored responses of its own, and API keys.
struct Rig {
    weir: Weir,
    a: Provider,
    b: Provider,
    /// Two of the team `one`, one of the team `two`, one of none, and one of the team `one` for the model `small` only.
    one: String,
    one_more: String,
    two: String,
    none: String,
    small: String,
    yaml: String,
}

impl Rig {
    fn start(model: &str) -> Self {
        Rig::with(model, "", "")
    }

    /// `model`: name at both providers; `route`: more of `ai`; `top`: more lines.
    fn with(model: &str, route: &str, top: &str) -> Self {
        let (a, b) = (Provider::start(), Provider::start());
        let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
        let file = builder.dir().join("keys.yaml").display().to_string();
        let create = |name: &str, more: &[&str]| {
            let args = [&["keys", "create", name, "--file", &file], more].concat();
            Weir::builder(env!("CARGO_BIN_EXE_weir")).args(args).command().stdout.trim().to_owned()
        };
        let one = create("one", &["--meta", "team=one"]);
        let one_more = create("one-more", &["--meta", "team=one"]);
        let two = create("two", &["--meta", "team=two"]);
        let none = create("none", &[]);
        let small = create("small", &["--meta", "team=one", "--model", "small"]);
        let limits = if top.contains("limits:") { ", limits: [tokens]" } else { "" };
        let yaml = format!(
            "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 2\naccess_log: {{path: stdout}}\n{top}\
             auth: {{keys: {{api_key: {{in: [bearer], store: {{file: {file}}}}}}}}}\n\
             upstreams:\n  a: {{targets: [\"http://{}\"], eject: none, retry: {{budget: 100%}}}}\n  \
             b: {{targets: [\"http://{}\"], eject: none, retry: {{budget: 100%}}}}\n\
             providers:\n  claude: {{api: anthropic, upstream: a}}\n  a: {{api: openai, upstream: a, {KEYS}}}\n  \
             b: {{api: openai, upstream: b, keys: [sk-b-0123456789]}}\n\
             models:\n  claude: {{candidates: [{{provider: claude, model: sim, max_output: 9}}]}}\n  \
             chat: {{candidates: [{{provider: a, model: {model}}}, {{provider: b, model: {model}}}]}}\n  \
             small: {{candidates: [{{provider: claude, model: sim, max_output: 9}}]}}\n\
             routes:\n  - {{name: ai, match: {{path: /v1/*}}, auth: keys, ai: {{{route}}}{limits}}}\n",
            a.address(),
            b.address()
        );
        let weir = builder.config(yaml.clone()).start();
        Rig { weir, a, b, one, one_more, two, none, small, yaml }
    }

    fn call(&self, key: &str, method: &str, path: &str, body: &str) -> Received {
        at(&self.weir, key, method, path, body)
    }

    fn make(&self, key: &str, members: Value) -> Received {
        make(&self.weir, key, members)
    }

    fn reload(&self, yaml: &str) {
        let mark = self.weir.mark();
        self.weir.rewrite_config(yaml);
        self.weir.signal(testkit::Signal::HUP);
        let is_reloaded = |line: &str| line.contains("configuration reloaded").then_some(());
        self.weir.wait_for_line_after(mark, "the reload", DEADLINE, is_reloaded);
    }

    /// Requests about stored responses that providers have had.
    fn reads(&self) -> u64 {
        let names = ["GET ", "DELETE ", "POST cancel", "GET input_items"];
        names.iter().map(|name| self.a.calls(name) + self.b.calls(name)).sum()
    }
}

fn at(weir: &Weir, key: &str, method: &str, path: &str, body: &str) -> Received {
    let bearer = format!("Bearer {key}");
    send(weir.addr(), method, path, &[("Authorization", &bearer), ("Content-Type", "application/json")], body)
}

/// Makes a response.
fn make(weir: &Weir, key: &str, members: Value) -> Received {
    let mut body = json!({"model": "chat", "input": "hi"});
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    at(weir, key, "POST", RESPONSES, &body.to_string())
}

/// The id of a response, whole or streamed.
fn id_of(received: &Received) -> String {
    assert_eq!(received.status, 200, "{}", received.text());
    let text = received.text();
    let document = match text.lines().find_map(|line| line.strip_prefix("data: ")) {
        Some(event) => serde_json::from_str::<Value>(event).unwrap()["response"].clone(),
        None => received.json(),
    };
    document["id"].as_str().unwrap().to_owned()
}

fn of(id: &str, rest: &str) -> String {
    format!("{RESPONSES}/{id}{rest}")
}

fn is_missing(received: &Received) -> bool {
    let code = received.json()["error"]["code"].clone();
    let is_own = code == "response_not_found" || code == "previous_response_not_found";
    received.status == 404 && is_own && received.field("x-weir-model").is_none()
}

/// Each provider finds only what the same key has made.
#[test]
fn requests_go_to_the_provider_and_the_key_that_made_the_response() {
    let rig = Rig::start("sim");
    let mut served = BTreeSet::new();
    for streams in [false, true].repeat(12) {
        let made = rig.make(&rig.one, json!({"stream": streams}));
        let (id, by) = (id_of(&made), made.field("x-weir-model").unwrap().to_owned());
        let read = rig.call(&rig.one, "GET", &of(&id, ""), "");
        assert_eq!((id_of(&read), read.field("x-weir-model")), (id.clone(), Some(&*by)), "{read:?}");
        assert_eq!(read.field("x-upstream-request-id"), Some("req_sim"));
        let items = rig.call(&rig.one_more, "GET", &of(&id, "/input_items?limit=5&order=asc"), "");
        assert_eq!(items.json()["data"][0]["query"], "limit=5&order=asc", "{items:?}");
        let cancelled = rig.call(&rig.one, "POST", &of(&id, "/cancel"), "{}");
        assert_eq!(cancelled.json()["status"], "cancelled", "{cancelled:?}");
        let next = rig.make(&rig.one_more, json!({"previous_response_id": id, "stream": streams}));
        assert_eq!(next.field("x-weir-model"), Some(&*by), "{next:?}");
        let next = id_of(&next);
        assert_eq!(id_of(&rig.call(&rig.one, "GET", &of(&next, ""), "")), next);
        let deleted = rig.call(&rig.one, "DELETE", &of(&id, ""), "");
        assert_eq!(deleted.json()["deleted"], true, "{deleted:?}");
        let read = rig.call(&rig.one, "GET", &of(&id, ""), "");
        assert_eq!((read.status, read.field("x-weir-model")), (404, Some(&*by)), "the provider's own: {read:?}");
        served.insert(by);
    }
    assert_eq!(served, BTreeSet::from(["a/sim".to_owned(), "b/sim".to_owned()]));
    let lines = || -> Vec<Value> {
        let log = rig.weir.stdout();
        log.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .filter(|line: &Value| line["ai"].is_object())
            .collect()
    };
    wait::until(DEADLINE, "all calls are logged", || lines().len() == 24 * 8);
    for line in lines() {
        let ai = &line["ai"];
        assert_eq!(
            (&ai["api"], &ai["model"], &ai["end"]),
            (&json!("responses"), &json!("chat"), &json!("complete")),
            "{line}"
        );
        let is_call = line["method"] == "POST" && line["path"] == RESPONSES;
        assert_eq!(ai["tokens_in"].is_u64(), is_call, "{line}");
    }
    let metrics = rig.weir.admin_get("/metrics").text().to_owned();
    assert!(!metrics.contains("resp_"), "ids are in no metric");
}

#[test]
fn a_response_of_another_tenant_does_not_exist() {
    for streams in [false, true] {
        let rig = Rig::start("sim");
        let id = id_of(&rig.make(&rig.one, json!({"stream": streams})));
        for key in [&rig.two, &rig.none] {
            for (method, path) in [
                ("GET", of(&id, "")),
                ("DELETE", of(&id, "")),
                ("POST", of(&id, "/cancel")),
                ("GET", of(&id, "/input_items")),
            ] {
                let received = rig.call(key, method, &path, "");
                assert!(is_missing(&received), "{method} {path}: {received:?}");
                assert_eq!(received.json()["error"]["type"], "invalid_request_error");
                assert_eq!(received.field("x-should-retry"), Some("false"));
            }
            let received = rig.call(key, "GET", &of(&id, "?stream=true"), "");
            assert!(is_missing(&received), "{received:?}");
            let received = rig.make(key, json!({"previous_response_id": id}));
            assert!(is_missing(&received), "{received:?}");
            assert_eq!(received.json()["error"]["param"], "previous_response_id");
        }
        assert_eq!(rig.reads(), 0, "no provider was called");
        assert_eq!(id_of(&rig.call(&rig.one_more, "GET", &of(&id, ""), "")), id);
        // It may not use the model that made it, nor any other at that provider.
        assert!(is_missing(&rig.call(&rig.small, "GET", &of(&id, ""), "")));
        let own = id_of(&rig.make(&rig.none, json!({"stream": streams})));
        assert_eq!(rig.call(&rig.none, "GET", &of(&own, ""), "").status, 200);
        assert!(is_missing(&rig.call(&rig.one, "GET", &of(&own, ""), "")));
    }
}

/// A client must not be told another one's text, whatever the two do at once.
#[test]
fn two_tenants_at_once_find_their_own_responses_only() {
    let rig = Rig::start("sim-gap1");
    let rig = &rig;
    let (one, two) = thread::scope(|scope| {
        let run = |key: &'static str| {
            let key = if key == "one" { &rig.one } else { &rig.two };
            scope.spawn(move || {
                let mut last: Option<String> = None;
                let mut ids = Vec::new();
                for number in 0..20 {
                    let mut members = json!({"stream": number % 2 == 0, "input": key});
                    if let Some(last) = &last {
                        members["previous_response_id"] = last.as_str().into();
                    }
                    let id = id_of(&rig.make(key, members));
                    let items = rig.call(key, "GET", &of(&id, "/input_items"), "").json();
                    assert_eq!(items["data"][0]["content"], **key, "{items}");
                    ids.push(id.clone());
                    last = Some(id);
                }
                ids
            })
        };
        let (one, two) = (run("one"), run("two"));
        (one.join().unwrap(), two.join().unwrap())
    });
    for (key, ids) in [(&rig.one, &two), (&rig.two, &one)] {
        for id in ids {
            assert!(is_missing(&rig.call(key, "GET", &of(id, ""), "")));
        }
    }
}

#[test]
fn a_reload_keeps_where_responses_were_made() {
    let rig = Rig::start("sim");
    let made: Vec<(String, String)> = (0..16)
        .map(|number| {
            let made = rig.make(&rig.one, json!({"stream": number % 2 == 0}));
            (id_of(&made), made.field("x-weir-model").unwrap().to_owned())
        })
        .collect();
    // The keys and the candidates change places, and names of models change.
    let other = rig
        .yaml
        .replace(KEYS, "keys: [sk-a-two-0123456789, sk-a-one-0123456789]")
        .replace(
            "[{provider: a, model: sim}, {provider: b, model: sim}]",
            "[{provider: b, model: new}, {provider: a, model: new}, {provider: a, model: sim}]",
        )
        .replace("  chat:", "  renamed: {candidates: [{provider: b, model: sim}]}\n  chat:");
    assert_ne!(other, rig.yaml);
    rig.reload(&other);
    for (id, by) in &made {
        let read = rig.call(&rig.one, "GET", &of(id, ""), "");
        assert_eq!(id_of(&read), *id);
        assert_eq!(read.field("x-weir-model").unwrap().split('/').next(), by.split('/').next());
        assert!(is_missing(&rig.call(&rig.two, "GET", &of(id, ""), "")));
        let next = rig.make(&rig.one, json!({"previous_response_id": id}));
        assert_eq!(next.status, 200, "{next:?}");
    }
    // Without the provider nobody can have them.
    rig.reload(
        &rig.yaml.replace("[{provider: a, model: sim}, {provider: b, model: sim}]", "[{provider: a, model: sim}]"),
    );
    for (id, by) in &made {
        let read = rig.call(&rig.one, "GET", &of(id, ""), "");
        let next = rig.make(&rig.one, json!({"previous_response_id": id}));
        if by.starts_with("a/") {
            assert_eq!((read.status, next.status), (200, 200));
        } else {
            assert!(is_missing(&read), "{read:?}");
            assert_eq!((next.status, &next.json()["error"]["code"]), (400, &json!("unsupported_state")), "{next:?}");
        }
    }
    rig.reload(&rig.yaml);
    for (id, _) in &made {
        assert_eq!(id_of(&rig.call(&rig.one, "GET", &of(id, ""), "")), *id);
    }
}

/// Another gateway knows nothing: the first provider is as good as any, and says what it has.
#[test]
fn an_unknown_id_goes_to_the_first_provider() {
    let rig = Rig::start("sim");
    let yaml = rig.yaml.replace(KEYS, "keys: [sk-a-one-0123456789]").replace("workers: 2", "workers: 1");
    let first = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml.clone()).start();
    let second = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    let mut found = BTreeSet::new();
    for _ in 0..24 {
        let made = make(&first, &rig.one, json!({}));
        let (id, by) = (id_of(&made), made.field("x-weir-model").unwrap().to_owned());
        let expected = if by == "a/sim" { 200 } else { 404 };
        let read = at(&second, &rig.one, "GET", &of(&id, ""), "");
        assert_eq!((read.status, read.field("x-weir-model")), (expected, Some("a/sim")), "{read:?}");
        let next = make(&second, &rig.one, json!({"previous_response_id": id}));
        let expected = if by == "a/sim" { 200 } else { 400 };
        assert_eq!((next.status, next.field("x-weir-model")), (expected, Some("a/sim")), "{next:?}");
        found.insert(by);
    }
    assert_eq!(found.len(), 2);
    // A key without a model of OpenAI's API has no such provider.
    assert!(is_missing(&rig.call(&rig.small, "GET", &of("resp_unknown", ""), "")));
    // Nobody knows which provider has it.
    let refused = rig.make(&rig.one, json!({"conversation": "conv_1"}));
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!("unsupported_state")), "{refused:?}");
}

#[test]
fn what_is_not_served_is_refused() {
    let rig = Rig::start("sim");
    for (method, path, allow) in [
        ("POST", "/v1/responses/resp_1", "GET, DELETE"),
        ("PUT", "/v1/responses/resp_1", "GET, DELETE"),
        ("GET", "/v1/responses/resp_1/cancel", "POST"),
        ("DELETE", "/v1/responses/resp_1/cancel", "POST"),
        ("POST", "/v1/responses/resp_1/input_items", "GET"),
        ("GET", "/v1/responses", "POST"),
    ] {
        let received = rig.call(&rig.one, method, path, "{}");
        assert_eq!((received.status, received.field("allow")), (405, Some(allow)), "{method} {path}: {received:?}");
        assert_eq!(received.json()["error"]["code"], "method_not_allowed", "{received:?}");
    }
    let long = format!("/v1/responses/{}", "r".repeat(300));
    for path in
        ["/v1/responses/a%22b", "/v1/responses/resp_1/other", "/v1/responses/a b", "/v1/responses/compact", &long]
    {
        let received = rig.call(&rig.one, "GET", &path.replace(' ', "%20"), "");
        assert!((400..405).contains(&received.status), "{path}: {received:?}");
        assert!(received.json()["error"]["code"].is_string(), "{received:?}");
    }
    // Clients of other APIs are told in the form of this one.
    let fields = [("Authorization", &*format!("Bearer {}", rig.two)), ("anthropic-version", "2023-06-01")];
    let received = send(rig.weir.addr(), "POST", "/v1/responses/resp_1", &fields, "");
    assert_eq!(received.json()["error"]["code"], "method_not_allowed", "{received:?}");
    assert_eq!(rig.reads(), 0);
}

/// Faults of reads, which are repeated at the same provider and nowhere else.
#[test]
fn faults_of_reads() {
    for (model, status, code, reads) in [
        ("sim-g1", 502, "upstream_reset", 2),
        ("sim-g2", 429, "rate_limit_exceeded", 2),
        ("sim-g5", 500, "", 2),
        ("sim-g6", 503, "upstream_overloaded", 1),
        ("sim-g14", 502, "upstream_auth", 1),
        ("sim-g17", 502, "upstream_malformed", 2),
        ("sim-g19", 502, "upstream_malformed", 2),
        ("sim-g22", 200, "", 1),
        ("sim-g34", 502, "upstream_malformed", 1),
    ] {
        let rig = Rig::start(model);
        let id = id_of(&rig.make(&rig.one, json!({})));
        let received = rig.call(&rig.one, "GET", &of(&id, ""), "");
        assert_eq!(received.status, status, "{model}: {received:?}");
        if !code.is_empty() {
            assert_eq!(received.json()["error"]["code"], code, "{model}: {received:?}");
        }
        // A connection that was idle before is worth another try.
        let is_reused = model == "sim-g1" && rig.reads() == reads + 1;
        assert!(rig.reads() == reads || is_reused, "{model}: {}", rig.reads());
        assert!(rig.a.calls("GET ") == 0 || rig.b.calls("GET ") == 0, "{model}: one provider only");
    }
}

/// An id of nobody must not take the key or the model from others.
#[test]
fn ids_that_the_provider_does_not_know_say_nothing_about_it() {
    let rig = Rig::start("sim");
    for _ in 0..5 {
        let received = rig.call(&rig.two, "GET", &of("resp_nowhere", ""), "");
        assert_eq!((received.status, received.field("x-weir-model")), (404, Some("a/sim")), "{received:?}");
    }
    let made: Vec<_> = (0..40).map(|_| rig.make(&rig.two, json!({}))).collect();
    assert!(made.iter().any(|made| made.field("x-weir-model") == Some("a/sim")), "its keys do not rest");
    assert!(made.iter().all(|made| made.field("x-fallback").is_none()));
}

/// The events of a stored response are the provider's bytes, from where the client wants them; a cut is no end.
#[test]
fn events_of_a_stored_response_pass() {
    let rig = Rig::start("sim");
    let made = rig.make(&rig.one, json!({"stream": true}));
    let id = id_of(&made);
    let whole = rig.call(&rig.one, "GET", &of(&id, "?stream=true"), "");
    assert_eq!((whole.text(), whole.is_whole), (made.text(), true));
    assert!(whole.field("content-type").unwrap().starts_with("text/event-stream"));
    let rest = rig.call(&rig.one, "GET", &of(&id, "?stream=true&starting_after=3"), "");
    let number = made.text().find("\"sequence_number\":3").unwrap();
    let behind = number + made.text()[number..].find("\n\n").unwrap() + 2;
    assert_eq!((rest.text().as_str(), rest.is_whole), (&made.text()[behind..], true));

    let rig = Rig::start("sim-g10");
    let id = id_of(&rig.make(&rig.one, json!({"stream": true})));
    let cut = rig.call(&rig.one, "GET", &of(&id, "?stream=true"), "");
    assert!(cut.status == 200 && !cut.is_whole && !cut.body.is_empty(), "{cut:?}");
    assert!(!cut.text().contains("response.completed"));
}

/// A response that its provider makes later: it is not made twice, and what it may use is charged.
#[test]
fn background_responses() {
    let top = "limits: {tokens: {unit: tokens, algorithm: fixed_window, quota: 100000, window: day, key: global}}\n";
    let rig = Rig::with("sim", "", top);
    let remaining = || {
        let state: Value = serde_json::from_str(rig.weir.admin_get("/limits?limit=tokens").text()).unwrap();
        state["limits"][0]["state"]["remaining"].as_u64().unwrap_or(100_000)
    };
    for _ in 0..6 {
        let before = remaining();
        let made = rig.make(&rig.one, json!({"background": true, "max_output_tokens": 500}));
        assert_eq!(made.json()["status"], "queued", "{made:?}");
        wait::until(DEADLINE, "the call is settled", || (500..600).contains(&(before - remaining())));
        let used = remaining();
        let id = id_of(&made);
        let read = rig.call(&rig.one, "GET", &of(&id, ""), "");
        assert_eq!(
            (read.json()["status"].clone(), read.field("x-weir-model")),
            (json!("completed"), made.field("x-weir-model"))
        );
        assert_eq!(remaining(), used, "reads use no tokens");
        assert!(is_missing(&rig.call(&rig.two, "GET", &of(&id, ""), "")));
    }
    for (model, calls) in [("sim-f5", 1), ("sim-f7", 1), ("sim-f17", 1), ("sim-f6", 2)] {
        let rig = Rig::start(model);
        let made = rig.make(&rig.one, json!({"background": true}));
        assert!(made.status >= 500, "{made:?}");
        assert_eq!(rig.a.calls(model) + rig.b.calls(model), calls, "{model}");
    }
}

/// A client that leaves a stream in the background does not end what the provider makes: it is charged what it may use.
#[test]
fn a_stream_in_the_background_that_is_left_is_charged() {
    let top = "limits: {tokens: {unit: tokens, algorithm: fixed_window, quota: 100000, window: day, key: global}}\n";
    let rig = Rig::with("sim-tokens400-gap20", "", top);
    let body = json!({"model": "chat", "input": "hi", "background": true, "stream": true, "max_output_tokens": 500})
        .to_string();
    let mut stream = TcpStream::connect(rig.weir.addr()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let (key, length) = (&rig.one, body.len());
    write!(
        stream,
        "POST {RESPONSES} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("output_text.delta") {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&piece[..read]);
    }
    drop(stream);
    wait::until(DEADLINE, "the call is charged what it reserved", || {
        rig.weir.admin_get("/metrics").text().lines().any(|line| {
            let is_output = line.starts_with("weir_ai_tokens_total{") && line.contains("kind=\"output\"");
            is_output && line.contains("estimated=\"true\"") && line.ends_with(" 500")
        })
    });
}

/// A key may lack the right to read what is stored; that keeps nobody from calls with it.
#[test]
fn refused_reads_keep_no_key_from_calls() {
    let rig = Rig::start("sim-g14");
    for _ in 0..8 {
        let id = id_of(&rig.make(&rig.one, json!({})));
        assert_eq!(rig.call(&rig.one, "GET", &of(&id, ""), "").status, 502);
    }
}

/// An id that no path could contain belongs to its tenant like any other, and one that is too long to be noted to nobody.
#[test]
fn ids_of_any_form_have_a_tenant() {
    let event = |id: &str| {
        json!({"id": id, "object": "response", "status": "completed", "output": [], "usage": {"input_tokens": 1, "output_tokens": 1}}).to_string()
    };
    for (id, own) in [("resp_YWJj=", 200), ("resp_a/b c", 200), (&*"x".repeat(300), 404)] {
        let body = event(id);
        let length = body.len();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
        let upstream = Upstream::start(responder::raw(head + &body));
        let rig = Rig::start("sim");
        rig.reload(
            &rig.yaml
                .replace(&format!("http://{}", rig.a.address()), &upstream.url())
                .replace(&format!("http://{}", rig.b.address()), &upstream.url()),
        );
        assert_eq!(rig.make(&rig.one, json!({})).status, 200);
        let next = |key: &str| rig.make(key, json!({"previous_response_id": id})).status;
        assert_eq!((next(&rig.one), next(&rig.two)), (own, 404), "{id}");
    }
}

/// Calls that an exchange of its own makes are noted for the client that caused them.
#[test]
fn streams_with_heartbeats_are_noted_too() {
    let rig = Rig::with("sim", "heartbeat: 15s", "");
    let id = id_of(&rig.make(&rig.one, json!({"stream": true})));
    assert_eq!(id_of(&rig.call(&rig.one_more, "GET", &of(&id, ""), "")), id);
    assert!(is_missing(&rig.call(&rig.two, "GET", &of(&id, ""), "")));
}

/// What is not stored is not noted: the provider says that it is not there.
#[test]
fn a_response_that_is_not_stored_has_no_owner() {
    let rig = Rig::start("sim");
    let id = id_of(&rig.make(&rig.one, json!({"store": false})));
    for key in [&rig.one, &rig.two] {
        let read = rig.call(key, "GET", &of(&id, ""), "");
        assert_eq!((read.status, read.field("x-weir-model")), (404, Some("a/sim")), "{read:?}");
    }
}

/// A guard that reads responses must not be passed by.
#[test]
fn a_guard_of_responses_is_not_passed_by() {
    let guard = Upstream::start(responder::ok("{\"allow\":true}"));
    let route = format!("guard: {{url: \"{}/check\", when: [after], hold_streams: true}}", guard.url());
    let rig = Rig::with("sim", &route, "");
    let id = id_of(&rig.make(&rig.one, json!({})));
    for (method, rest) in [("GET", ""), ("GET", "?stream=true"), ("GET", "/input_items"), ("POST", "/cancel")] {
        let refused = rig.call(&rig.one, method, &of(&id, rest), "");
        assert_eq!(
            (refused.status, &refused.json()["error"]["code"]),
            (400, &json!("unsupported_operation")),
            "{refused:?}"
        );
    }
    assert_eq!((rig.reads(), guard.request_count()), (0, 1));
    assert_eq!(rig.call(&rig.one, "DELETE", &of(&id, ""), "").status, 200);
}

/// What a provider sees: its own key and none of the client's credentials, no body, and the query without keys.
#[test]
fn a_provider_sees_its_key_and_the_path() {
    let body = "{\"id\":\"resp_1\",\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"x\"},\"output\":[]}";
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nSet-Cookie: a=b\r\nopenai-organization: org\r\n";
    let upstream = Upstream::start(responder::raw(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())));
    let yaml = format!(
        "listen: 127.0.0.1:0\nworkers: 1\nupstreams: {{u: {{targets: [\"{}/base\"]}}}}\n\
         providers: {{p: {{api: openai, upstream: u, keys: [sk-provider-key-abcdef], headers: {{X-Own: yes}}}}}}\n\
         models: {{chat: {{candidates: [{{provider: p, model: m}}]}}}}\n\
         routes: [{{match: {{path: /v1/*}}, ai: {{models: [chat]}}}}]\n",
        upstream.url()
    );
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    let fields = [
        ("Authorization", "Bearer client-secret"),
        ("X-API-Key", "client-secret"),
        ("Cookie", "client-secret"),
        ("OpenAI-Organization", "client-secret"),
        ("X-Weir-Anything", "client-secret"),
        ("Content-Type", "application/json"),
        ("If-None-Match", "client-secret"),
        ("If-Modified-Since", "client-secret"),
        ("Range", "client-secret"),
        ("OpenAI-Beta", "kept"),
    ];
    let query = "?key=client-secret&include%5B%5D=a&include[]=b&api_key%5B%5D=client-secret&after=x&%6Bey=client-secret&access_token=client-secret&model=client-secret";
    for (method, path, sent) in [
        (
            "GET",
            format!("/v1/responses/resp_1{query}"),
            "GET /base/v1/responses/resp_1?include%5B%5D=a&include[]=b&after=x HTTP/1.1",
        ),
        ("DELETE", "/v1/responses/resp_1".to_owned(), "DELETE /base/v1/responses/resp_1 HTTP/1.1"),
        ("POST", "/v1/responses/resp_1/cancel".to_owned(), "POST /base/v1/responses/resp_1/cancel HTTP/1.1"),
        ("GET", "/v1/responses/resp_1/input_items".to_owned(), "GET /base/v1/responses/resp_1/input_items HTTP/1.1"),
    ] {
        upstream.forget();
        let received = send(weir.addr(), method, &path, &fields, "{\"x\":\"client-secret\"}");
        assert_eq!((received.status, received.text().as_str()), (200, body), "{received:?}");
        assert!(received.field("set-cookie").is_none() && received.field("openai-organization").is_none());
        assert_eq!(received.field("x-weir-model"), Some("p/m"));
        let seen = upstream.requests().pop().unwrap();
        let head = String::from_utf8(seen.head.raw.clone()).unwrap();
        assert!(head.starts_with(&format!("{sent}\r\n")), "{head}");
        let lower = head.to_ascii_lowercase();
        assert!(!lower.contains("client-secret") && !lower.contains("content-type"), "{head}");
        assert_eq!(lower.contains("content-length: 0\r\n"), method == "POST", "{head}");
        for line in ["authorization: bearer sk-provider-key-abcdef\r\n", "openai-beta: kept\r\n", "x-own: yes\r\n"] {
            assert!(lower.contains(line), "{head}");
        }
        assert!(seen.body.is_empty());
    }
}

/// Requests without a body, forms, audio and events, to a provider that speaks HTTP/2.
#[test]
fn over_http2_too() {
    let provider = Provider::start();
    let http2 = Weir::builder(env!("CARGO_BIN_EXE_weir"))
        .config(format!(
            "listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]\nupstreams: {{u: {{targets: [\"http://{}\"]}}}}\n\
             routes: [{{match: {{path: /*}}, upstream: u}}]\n",
            provider.address()
        ))
        .start();
    let yaml = format!(
        "listen: 127.0.0.1:0\nworkers: 2\nupstreams: {{u: {{targets: [\"http://{}\"], protocol: http2}}}}\n\
         providers: {{p: {{api: openai, upstream: u, keys: [sk-a-one-0123456789]}}}}\n\
         models: {{chat: {{candidates: [{{provider: p, model: sim}}]}}, cut: {{candidates: [{{provider: p, model: sim-f10}}]}}}}\n\
         routes: [{{match: {{path: /v1/*}}, ai: {{}}}}]\n",
        http2.addr()
    );
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    for streams in [false, true] {
        let made = make(&weir, "anybody", json!({"stream": streams}));
        let id = id_of(&made);
        let get = |rest: &str| at(&weir, "anybody", "GET", &of(&id, rest), "");
        assert_eq!(id_of(&get("")), id);
        assert_eq!(get("/input_items").json()["data"][0]["content"], "hi");
        let events = get("?stream=true");
        assert!(events.is_whole && events.text().contains("response.completed"), "{events:?}");
        assert_eq!(at(&weir, "anybody", "POST", &of(&id, "/cancel"), "").json()["status"], "cancelled");
        assert_eq!(at(&weir, "anybody", "DELETE", &of(&id, ""), "").json()["deleted"], true);
        assert_eq!(get("").status, 404);
    }
    let speak = |model: &str| {
        let body = json!({"model": model, "input": "hello", "voice": "alloy"}).to_string();
        at(&weir, "anybody", "POST", "/v1/audio/speech", &body)
    };
    let spoken = speak("chat");
    assert!(spoken.is_whole && spoken.body.len() == 256 * 1024, "{}", spoken.body.len());
    let cut = speak("cut");
    // The reset of a stream may arrive before its content does, so that nothing has been sent yet.
    assert!(cut.status == 502 || (cut.status == 200 && !cut.is_whole), "{} {}", cut.status, cut.text());
    let form = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nRIFF\r\n\
                --b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nchat\r\n--b--\r\n";
    let fields = [("Content-Type", "multipart/form-data; boundary=b")];
    let heard = send(weir.addr(), "POST", "/v1/audio/transcriptions", &fields, form);
    assert!(heard.status == 200 && heard.json()["text"].is_string(), "{heard:?}");
}
