//! Streams that break off after content and go on at another attempt: the client has one response, or an error event, never two that are mixed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::{Conn, DEADLINE, Gate, Message, RawClient, Upstream, Weir, WireError, wait};

use crate::client::{Received, send};
use crate::judge::{TEXT, Verdict, judge};

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";

/// What a provider does with one request.
#[derive(Debug, Clone, Copy)]
struct Plan {
    text: &'static str,
    /// Characters of an event.
    cut: usize,
    /// Events that are sent.
    events: usize,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// The body ends, whole or not.
    Proper,
    Cut,
    Stall,
    Malformed,
    /// An error event with this type.
    Error(&'static str),
    /// No stream at all.
    Status(u16),
    /// A whole response instead.
    Json,
}

const WHOLE: Plan = Plan { text: TEXT, cut: 5, events: usize::MAX, end: End::Proper };

const fn breaks(events: usize, end: End) -> Plan {
    Plan { events, end, ..WHOLE }
}

/// The events of a response in OpenAI's form or in Anthropic's.
fn events(plan: &Plan, number: usize, is_chat: bool) -> Vec<String> {
    let chars: Vec<char> = plan.text.chars().collect();
    let parts: Vec<String> = chars.chunks(plan.cut).map(|chars| chars.iter().collect()).collect();
    if is_chat {
        let chunk = |delta: Value, end: Value| {
            let data = json!({"id": format!("c{number}"), "object": "chat.completion.chunk", "created": 1, "model": "real",
                "choices": [{"index": 0, "delta": delta, "finish_reason": end}]});
            format!("data: {data}\n\n")
        };
        let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
        events.extend(parts.iter().map(|part| chunk(json!({"content": part}), Value::Null)));
        events.push(chunk(json!({}), "stop".into()));
        let usage = json!({"id": format!("c{number}"), "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 8, "total_tokens": 18}});
        events.push(format!("data: {usage}\n\n"));
        events.push("data: [DONE]\n\n".to_owned());
        return events;
    }
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": format!("m{number}"), "type": "message", "role": "assistant", "model": "real",
            "content": [], "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
    ];
    events.extend(
        parts.iter().map(
            |part| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": part}}),
        ),
    );
    events.extend([
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 8}}),
        json!({"type": "message_stop"}),
    ]);
    events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())).collect()
}

fn respond(conn: &mut Conn, plan: &Plan, number: usize, is_chat: bool) -> Result<(), WireError> {
    let json = [("Content-Type", "application/json")];
    match plan.end {
        End::Status(status) => {
            return conn.respond(
                status,
                &json,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"no"}}"#,
            );
        }
        End::Json => return conn.respond(200, &json, r#"{"id":"c","object":"chat.completion","choices":[]}"#),
        _ => {}
    }
    conn.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    for event in events(plan, number, is_chat).iter().take(plan.events) {
        conn.write_chunk(event)?;
    }
    match plan.end {
        End::Cut => return conn.close(),
        End::Stall => return conn.stall(),
        End::Malformed => conn.write_chunk("data: {\"choices\"\n\n")?,
        End::Error(kind) => conn.write_chunk(format!(
            "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"{kind}\",\"message\":\"own words\",\"code\":\"{kind}\"}}}}\n\n"
        ))?,
        _ => {}
    }
    conn.write("0\r\n\r\n")
}

/// The next candidate of `pair` is dear.
const PRICES: &str =
    "currency: USD\nper: 1M\nmodels:\n  p/real: {input: 1, output: 1}\n  r/real: {input: 100000, output: 100000}\n";

struct Rig {
    weir: Weir,
    targets: [Upstream; 2],
    other: Upstream,
    plans: Arc<Mutex<VecDeque<Plan>>>,
}

impl Rig {
    /// Two targets of a provider, and a provider of Anthropic's API as the next candidate of the model `pair`.
    fn start(top: &str, route: &str, retry: &str) -> Self {
        let plans: Arc<Mutex<VecDeque<Plan>>> = Arc::default();
        let numbers = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let target = || {
            let (plans, numbers) = (plans.clone(), numbers.clone());
            Upstream::start(move |conn, message: &Message| {
                let number = numbers.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
                let plan = plans.lock().unwrap().pop_front().unwrap_or(WHOLE);
                respond(conn, &plan, number, message.head.target() == CHAT)
            })
        };
        let (targets, other) = ([target(), target()], target());
        let timeouts = "recover: splice, timeouts: {first_token: 5s, token_idle: 500ms, total: 30s}";
        let yaml = format!(
            "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 2\naccess_log: {{path: stdout}}\nprices: prices.yaml\n{top}\
             upstreams:\n  u: {{targets: [\"{}\", \"{}\"], eject: none, retry: {retry}}}\n  \
             a: {{targets: [\"{}\"], eject: none, retry: {retry}}}\n\
             providers:\n  p: {{api: openai, upstream: u, keys: [sk-0123456789]}}\n  q: {{api: anthropic, upstream: u, keys: [sk-ant-0123456789]}}\n  \
             r: {{api: anthropic, upstream: a, keys: [sk-ant-0123456789]}}\n\
             models:\n  chat: {{candidates: [{{provider: p, model: real}}], {timeouts}}}\n  \
             claude: {{candidates: [{{provider: q, model: real, max_output: 100}}], {timeouts}}}\n  \
             once: {{candidates: [{{provider: p, model: real}}], attempts: 1, {timeouts}}}\n  \
             go: {{candidates: [{{provider: p, model: real, prefill: continue_final_message}}], recover: continue, timeouts: {{token_idle: 500ms}}}}\n  \
             both: {{candidates: [{{provider: p, model: real, prefill: assistant}}, {{provider: r, model: real, tier: 2, max_output: 100}}], recover: continue, timeouts: {{token_idle: 500ms}}}}\n  \
             off: {{candidates: [{{provider: p, model: real}}]}}\n  \
             pair: {{candidates: [{{provider: p, model: real}}, {{provider: r, model: real, tier: 2, max_output: 100}}], {timeouts}}}\n\
             routes:\n  - {{name: ai, match: {{path: /v1/*}}, ai: {{}}{route}}}\n",
            targets[0].url(),
            targets[1].url(),
            other.url()
        );
        let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
        std::fs::write(builder.dir().join("prices.yaml"), PRICES).unwrap();
        Rig { weir: builder.config(yaml).start(), targets, other, plans }
    }

    fn usual() -> Self {
        Self::start("", "", "{budget: 100%}")
    }

    fn requests(&self) -> usize {
        self.targets.iter().map(Upstream::request_count).sum::<usize>() + self.other.request_count()
    }

    /// Sends a call whose requests to providers go by these plans; returns what came of it and how many requests there were.
    fn call(&self, model: &str, plans: &[Plan]) -> (Received, Verdict, usize) {
        let before = self.requests();
        *self.plans.lock().unwrap() = plans.iter().copied().collect();
        let path = if model == "claude" { MESSAGES } else { CHAT };
        let received = send(self.weir.addr(), "POST", path, &[("Content-Type", "application/json")], &body(model));
        let verdict = judge(path, true, &received);
        (received, verdict, self.requests() - before)
    }

    /// `ai` of the last line, when there are so many.
    fn line(&self, count: usize) -> Value {
        let lines = || -> Vec<String> {
            self.weir.stdout().lines().filter(|line| line.contains("\"ai\":")).map(str::to_owned).collect()
        };
        wait::until(DEADLINE, "the line", || lines().len() == count);
        let line: Value = serde_json::from_str(&lines()[count - 1]).unwrap();
        line["ai"].clone()
    }

    fn recovered(&self, result: &str) -> u64 {
        let metrics = self.weir.admin_get("/metrics").text().to_owned();
        let lines = metrics.lines().filter(|line| line.starts_with("weir_ai_recovered_total{"));
        let lines = lines.filter(|line| line.contains(&format!("result=\"{result}\"")));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }
}

fn body(model: &str) -> String {
    json!({"model": model, "stream": true, "temperature": 0, "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}).to_string()
}

/// Whatever breaks off, after any number of events: the other target repeats it, however it cuts its events, and goes on.
#[test]
fn a_stream_goes_on_at_another_target() {
    let rig = Rig::usual();
    let mut count = 0;
    for model in ["chat", "claude"] {
        let count_of = events(&WHOLE, 0, model == "chat").len();
        let ends = [End::Cut, End::Proper, End::Malformed, End::Error("api_error"), End::Error("overloaded_error")];
        for kept in 3..count_of - 3 {
            for end in ends {
                for cut in [1, 7, 1000] {
                    let plans = [breaks(kept, end), Plan { cut, ..WHOLE }];
                    let (received, verdict, requests) = rig.call(model, &plans);
                    assert_eq!(
                        (verdict, requests),
                        (Verdict::Complete, 2),
                        "{model} {kept} {end:?} {cut}: {}",
                        received.text()
                    );
                    count += 1;
                }
            }
        }
        let (received, verdict, requests) = rig.call(model, &[breaks(4, End::Stall), WHOLE]);
        assert_eq!((verdict, requests), (Verdict::Complete, 2), "{}", received.text());
        count += 1;
    }
    assert_eq!((rig.recovered("complete"), rig.recovered("failed"), rig.recovered("differs")), (count, 0, 0));
    assert!(rig.targets.iter().all(|target| target.request_count() > 20), "both were first, and both were second");
}

#[test]
fn the_first_id_stays_and_the_log_says_what_happened() {
    let rig = Rig::usual();
    let (received, verdict, _) = rig.call("chat", &[breaks(4, End::Cut), WHOLE]);
    assert_eq!(verdict, Verdict::Complete);
    let text = received.text();
    assert!(text.contains("\"c1\"") && !text.contains("\"c2\""), "{text}");
    assert_eq!(text.matches("\"role\"").count(), 1, "{text}");
    let ai = rig.line(1);
    assert_eq!((&ai["recovered"], &ai["end"]), (&"complete".into(), &"complete".into()), "{ai}");
    assert_eq!(ai["tried"], "p/real:F10>p/real:ok", "{ai}");
    // What the attempt used that the response is from.
    assert_eq!((&ai["tokens_in"], &ai["tokens_out"], &ai["estimated"]), (&10.into(), &8.into(), &false.into()), "{ai}");
}

#[test]
fn another_text_is_never_mixed_in() {
    let rig = Rig::usual();
    for model in ["chat", "claude"] {
        for (text, kept) in [("The quick brown dog jumps", 7), ("The", 6), ("", 5)] {
            let (received, verdict, requests) = rig.call(model, &[breaks(kept, End::Cut), Plan { text, ..WHOLE }]);
            assert_eq!((verdict, requests), (Verdict::ErrorEvent, 2), "{model} {text}: {}", received.text());
            assert!(received.text().contains("response broke off before its end"), "{}", received.text());
            assert!(!received.text().contains("dog"), "{}", received.text());
        }
    }
    assert_eq!((rig.recovered("complete"), rig.recovered("differs")), (0, 6));
}

#[test]
fn it_goes_on_twice_and_no_more() {
    let rig = Rig::usual();
    let breaks_at = |kept| breaks(kept, End::Cut);
    for [one, two] in [[4, 6], [6, 4], [4, 4], [6, 1], [6, 0]] {
        let (received, verdict, requests) = rig.call("chat", &[breaks_at(one), breaks_at(two), WHOLE]);
        assert_eq!((verdict, requests), (Verdict::Complete, 3), "{one} {two} {}", received.text());
    }
    let (received, verdict, requests) = rig.call("chat", &[breaks_at(4), breaks_at(5), breaks_at(6), WHOLE]);
    assert_eq!((verdict, requests), (Verdict::ErrorEvent, 3), "{}", received.text());
    assert_eq!((rig.recovered("complete"), rig.recovered("failed")), (5, 1));
}

#[test]
fn what_follows_may_fail_in_any_way() {
    let first = breaks(5, End::Error("overloaded_error"));
    for second in [End::Status(400), End::Status(401), End::Status(422)] {
        let plans = [first, breaks(0, second), breaks(0, second), breaks(0, second)];
        // A key that was refused is not used for a while.
        let (received, verdict, _) = Rig::usual().call("chat", &plans);
        assert_eq!(verdict, Verdict::ErrorEvent, "{second:?}: {}", received.text());
        // The first fault is what the client is told, in the provider's words.
        assert!(received.text().contains("own words"), "{second:?}: {}", received.text());
    }
    let rig = Rig::usual();
    // Other attempts follow, as they would before content.
    for second in [End::Status(500), End::Status(503), End::Json, End::Cut, End::Error("api_error")] {
        let (received, verdict, requests) = rig.call("chat", &[first, breaks(0, second), WHOLE]);
        assert_eq!((verdict, requests), (Verdict::Complete, 3), "{second:?}: {}", received.text());
    }
    // What the provider does not want is not sent again.
    let (received, verdict, requests) = rig.call("chat", &[breaks(5, End::Error("invalid_request_error"))]);
    assert_eq!((verdict, requests), (Verdict::ErrorEvent, 1), "{}", received.text());
}

/// What a client has is charged at the price of the attempt that it has it from.
#[test]
fn a_candidate_that_brings_nothing_costs_nothing() {
    let rig = Rig::usual();
    let cut = [breaks(6, End::Cut), breaks(7, End::Cut)];
    let ends = [
        (breaks(0, End::Status(400)), "failed", "F16"),
        (breaks(0, End::Cut), "failed", "F18"),
        (Plan { text: "Other", ..WHOLE }, "differs", "differs"),
    ];
    for (number, (last, recovered, end)) in ends.into_iter().enumerate() {
        let (received, verdict, _) = rig.call("pair", &[cut[0], cut[1], last, last]);
        assert_eq!(verdict, Verdict::ErrorEvent, "{}", received.text());
        let ai = rig.line(number + 1);
        assert_eq!((&ai["provider"], &ai["recovered"]), (&"p".into(), &recovered.into()), "{ai}");
        assert!(ai["tried"].as_str().unwrap().starts_with(&format!("p/real:F10>p/real:F10>r/real:{end}")), "{ai}");
        assert!(ai["cost"].as_f64().unwrap() < 0.001, "{ai}");
    }
    let (received, verdict, _) = rig.call("pair", &[cut[0], cut[1], WHOLE]);
    assert_eq!(verdict, Verdict::Complete, "{}", received.text());
    let ai = rig.line(4);
    assert_eq!(ai["provider"], "r", "{ai}");
    assert!(ai["cost"].as_f64().unwrap() > 1.0, "{ai}");
}

/// Whatever comes of later attempts.
#[test]
fn the_client_is_told_of_the_first_fault() {
    let rig = Rig::usual();
    let own = breaks(4, End::Error("overloaded_error"));
    let cut = |kept| breaks(kept, End::Cut);
    let (received, verdict, _) = rig.call("chat", &[own, cut(5), cut(6)]);
    assert_eq!(verdict, Verdict::ErrorEvent);
    assert!(received.text().contains("own words"), "{}", received.text());
    let last = breaks(6, End::Error("invalid_request_error"));
    for plans in [[cut(4), cut(5), breaks(6, End::Error("api_error"))], [cut(4), cut(5), last], [cut(4), last, WHOLE]] {
        let (received, verdict, _) = rig.call("chat", &plans);
        assert_eq!(verdict, Verdict::ErrorEvent);
        assert!(received.text().contains("upstream_cut"), "{}", received.text());
    }
}

#[test]
fn attempts_and_the_retry_budget_bound_it() {
    let rig = Rig::usual();
    let (received, verdict, requests) = rig.call("once", &[breaks(5, End::Cut)]);
    assert_eq!((verdict, requests), (Verdict::ErrorEvent, 1), "{}", received.text());
    let (received, verdict, requests) = rig.call("off", &[breaks(5, End::Cut)]);
    assert_eq!((verdict, requests), (Verdict::ErrorEvent, 1), "{}", received.text());
    let rig = Rig::start("", "", "none");
    let (received, verdict, requests) = rig.call("chat", &[breaks(5, End::Cut)]);
    assert_eq!((verdict, requests), (Verdict::ErrorEvent, 1), "{}", received.text());
}

/// The next candidate speaks another API.
#[test]
fn a_candidate_of_another_api_goes_on() {
    let rig = Rig::usual();
    for target in &rig.targets {
        target.forget();
    }
    // The first provider breaks off at both targets.
    let (received, verdict, requests) = rig.call("pair", &[breaks(4, End::Cut), breaks(5, End::Cut), WHOLE]);
    assert_eq!((verdict, requests), (Verdict::Complete, 3), "{}", received.text());
    assert_eq!(rig.other.request_count(), 1);
    let (received, verdict, _) =
        rig.call("pair", &[breaks(4, End::Cut), breaks(5, End::Cut), Plan { text: "Other", ..WHOLE }]);
    assert_eq!(verdict, Verdict::ErrorEvent, "{}", received.text());
}

/// While the text is repeated the client may disconnect: the provider's work ends.
#[test]
fn a_client_that_disconnects_ends_it() {
    let gate = Gate::new();
    let rig = Rig::usual();
    let held = gate.clone();
    for target in &rig.targets {
        let (held, plans) = (held.clone(), rig.plans.clone());
        target.set_responder(move |conn, _| {
            if let Some(plan) = plans.lock().unwrap().pop_front() {
                return respond(conn, &plan, 1, true);
            }
            conn.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            for event in events(&WHOLE, 2, true) {
                conn.pass(&held)?;
                conn.write_chunk(event)?;
            }
            conn.write("0\r\n\r\n")
        });
    }
    rig.plans.lock().unwrap().push_back(breaks(5, End::Cut));
    let mut client = RawClient::connect(rig.weir.addr());
    client.set_deadline(DEADLINE);
    client.request("POST", CHAT, &[("Content-Type", "application/json")], body("chat"));
    wait::until(DEADLINE, "the second attempt", || rig.requests() == 2);
    drop(client);
    wait::until(DEADLINE, "no connection is busy", || rig.targets.iter().map(Upstream::open).sum::<usize>() == 0);
    wait::until(DEADLINE, "the line", || rig.weir.stdout().contains("client_disconnected"));
    gate.open();
}

/// A response of two attempts goes to all who wait for it, and is not stored.
#[test]
fn those_who_share_a_call_have_one_response_that_is_not_stored() {
    let cache = "caches: {answers: {mode: llm, ttl: 1h, shared: true}}\n";
    let rig = Rig::start(cache, ", cache: answers", "{budget: 100%}");
    let (received, verdict, requests) = rig.call("chat", &[breaks(5, End::Cut), WHOLE]);
    assert_eq!((verdict, requests), (Verdict::Complete, 2), "{}", received.text());
    let (received, verdict, requests) = rig.call("chat", &[WHOLE]);
    assert_eq!((verdict, requests), (Verdict::Complete, 1), "{}", received.text());
    // This one is.
    let (received, verdict, requests) = rig.call("chat", &[]);
    assert_eq!((verdict, requests), (Verdict::Complete, 0), "{}", received.text());
    let (received, verdict, requests) = rig.call("claude", &[breaks(5, End::Cut), Plan { text: "Other", ..WHOLE }]);
    assert_eq!((verdict, requests), (Verdict::ErrorEvent, 2), "{}", received.text());
}

/// A model that can is told to go on with the text, once or twice, and repeats nothing; whatever it is told, the client has one response.
#[test]
fn a_model_goes_on_with_the_text() {
    let rig = Rig::usual();
    let rest = |events: usize| {
        let (at, _) = TEXT.char_indices().nth(5 * (events - 1)).unwrap();
        &TEXT[at..]
    };
    for end in [End::Cut, End::Proper, End::Stall, End::Error("overloaded_error")] {
        rig.targets.iter().for_each(Upstream::forget);
        let (received, verdict, requests) = rig.call("go", &[breaks(4, end), Plan { text: rest(4), cut: 7, ..WHOLE }]);
        let text = received.text();
        assert_eq!((verdict, requests), (Verdict::Complete, 2), "{end:?} {text}");
        assert_eq!(text.matches(": weir-recovered\n\n").count(), 1, "{text}");
        assert_eq!(text.matches("\"role\"").count(), 1, "{text}");
        let ids: std::collections::BTreeSet<&str> =
            text.split("\"id\":\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        assert_eq!(ids.len(), 1, "the first id stays: {text}");
        let bodies: Vec<Value> = rig
            .targets
            .iter()
            .flat_map(Upstream::requests)
            .map(|request| serde_json::from_slice(&request.body).unwrap())
            .filter(|body: &Value| body["continue_final_message"] == true)
            .collect();
        let [body] = &bodies[..] else { panic!("one of the two: {bodies:?}") };
        let said: String = TEXT.chars().take(15).collect();
        assert_eq!(body["messages"][1], json!({"role": "assistant", "content": said}));
        assert_eq!(
            (&body["add_generation_prompt"], &body["max_tokens"], &body["model"]),
            (&json!(false), &json!(47), &json!("real"))
        );
    }
    // What the provider counted of the last attempt, and what the client had before.
    let ai = rig.line(4);
    assert_eq!((&ai["tokens_out"], &ai["estimated"]), (&json!(8 + 3), &json!(true)), "{ai}");
    let twice = [breaks(3, End::Cut), Plan { text: rest(3), ..breaks(4, End::Cut) }, Plan { text: rest(6), ..WHOLE }];
    let (received, verdict, requests) = rig.call("go", &twice);
    assert_eq!((verdict, requests), (Verdict::Complete, 3), "{}", received.text());
    // An end before any further text is one.
    let (received, verdict, _) = rig.call("go", &[breaks(4, End::Cut), Plan { text: "", ..WHOLE }]);
    assert!(received.text().contains("[DONE]") && verdict != Verdict::ErrorEvent, "{}", received.text());
    // One that does not take the text repeats it.
    let (received, verdict, requests) = rig.call("go", &[breaks(4, End::Cut), breaks(0, End::Status(400)), WHOLE]);
    assert_eq!((verdict, requests), (Verdict::Complete, 3), "{}", received.text());
}

/// A response that is to be JSON is repeated: a text that two attempts have written might be none.
#[test]
fn where_a_text_cannot_continue_it_is_repeated() {
    let rig = Rig::usual();
    *rig.plans.lock().unwrap() = [breaks(4, End::Cut), WHOLE].into();
    let mut requested: Value = serde_json::from_str(&body("go")).unwrap();
    requested["response_format"] = json!({"type": "json_object"});
    let received = send(rig.weir.addr(), "POST", CHAT, &[("Content-Type", "application/json")], &requested.to_string());
    assert_eq!(judge(CHAT, true, &received), Verdict::Complete, "{}", received.text());
    assert!(!received.text().contains("weir-recovered"));
    assert!(
        rig.targets
            .iter()
            .flat_map(Upstream::requests)
            .all(|request| !request.body.windows(9).any(|nine| nine == b"assistant"))
    );
}

/// What the client wanted would have served it: a request that was written here and is refused goes to the next candidate.
#[test]
fn a_candidate_that_does_not_take_the_text_is_passed_over() {
    let rig = Rig::usual();
    let (received, verdict, requests) = rig.call("both", &[breaks(4, End::Cut), breaks(0, End::Status(400)), WHOLE]);
    assert_eq!((verdict, requests), (Verdict::Complete, 3), "{}", received.text());
    assert_eq!(rig.other.request_count(), 1, "the next candidate repeated it: {}", received.text());
}

/// A server may go on with another choice than the one that was cut.
#[test]
fn one_of_several_choices_is_not_continued() {
    let rig = Rig::usual();
    *rig.plans.lock().unwrap() = [breaks(4, End::Cut), WHOLE, WHOLE].into();
    let mut requested: Value = serde_json::from_str(&body("go")).unwrap();
    requested["n"] = 2.into();
    let received = send(rig.weir.addr(), "POST", CHAT, &[("Content-Type", "application/json")], &requested.to_string());
    assert!(!received.text().contains("weir-recovered"), "{}", received.text());
    let bodies: Vec<_> = rig.targets.iter().flat_map(Upstream::requests).map(|request| request.body).collect();
    assert!(bodies.iter().all(|body| !body.windows(9).any(|nine| nine == b"assistant")));
}
