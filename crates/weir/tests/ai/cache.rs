//! Caches of AI routes, with authentication, limits, translation, log and metrics around them: what is stored and for whom, what a hit is, who
//! shares a call, and what purges, reloads, drains, faults and Redis do to it.

mod hits;
mod keeping;
mod sharing;
mod stores;
mod tenants;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use testkit::{Conn, DEADLINE, Gate, Message, RawClient, Upstream, Weir, WireError, wait};

use crate::client::{Received, send};

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";

/// What the provider does with a call of this number, from 1.
type Script = Arc<dyn Fn(&mut Conn, &Message, usize) -> Result<(), WireError> + Send + Sync>;

/// A gateway with a cache in front of a provider that numbers its responses, and API keys of two teams.
pub(crate) struct Rig {
    weir: Weir,
    provider: Upstream,
    /// Two of the team `one`, one of the team `two`, one of none.
    one: String,
    one_more: String,
    two: String,
    none: String,
    yaml: String,
}

/// What a file says beside the usual.
#[derive(Clone, Copy)]
struct Setup<'a> {
    cache: &'a str,
    /// Lines at the top.
    top: &'a str,
    /// More keys of the route.
    route: &'a str,
    listen: &'a str,
}

impl Default for Setup<'_> {
    fn default() -> Self {
        Setup { cache: "partition_by: [team]", top: "", route: "", listen: "127.0.0.1:0" }
    }
}

fn keys(file: &str) -> [String; 4] {
    let create = |name: &str, meta: &[&str]| {
        let args = [&["keys", "create", name, "--file", file], meta].concat();
        let made = Weir::builder(env!("CARGO_BIN_EXE_weir")).args(args).command();
        made.stdout.trim().to_owned()
    };
    [
        create("one", &["--meta", "team=one"]),
        create("one-more", &["--meta", "team=one"]),
        create("two", &["--meta", "team=two"]),
        create("none", &[]),
    ]
}

impl Setup<'_> {
    fn yaml(&self, provider: &Upstream, keys: &str) -> String {
        let Setup { cache, top, route, listen } = self;
        format!(
            "listen: {listen}\nadmin: 127.0.0.1:0\nworkers: 2\naccess_log: {{path: stdout}}\n{top}\
             auth: {{keys: {{api_key: {{store: {{file: {keys}}}}}}}}}\n\
             upstreams: {{u: {{targets: [\"{}\"], eject: none, retry: {{budget: 100%}}}}}}\n\
             providers:\n  p: {{api: openai, upstream: u, keys: [sk-0123456789abcdef]}}\n  a: {{api: anthropic, upstream: u, keys: [sk-ant-0123456789]}}\n\
             models:\n  chat: {{candidates: [{{provider: p, model: real}}], attempts: 1}}\n  \
             claude: {{candidates: [{{provider: a, model: real-claude, max_output: 100}}], attempts: 1}}\n\
             caches: {{answers: {{mode: llm, ttl: 1h, {cache}}}}}\n\
             routes:\n  - {{name: ai, match: {{path: /v1/*}}, ai: {{}}, auth: keys, cache: answers{route}}}\n",
            provider.url()
        )
    }

    fn start(&self) -> Rig {
        self.with(Arc::new(|conn, message, number| respond(conn, message, number, None)))
    }

    fn gated(&self, gate: &Gate) -> Rig {
        let gate = gate.clone();
        self.with(Arc::new(move |conn, message, number| respond(conn, message, number, Some(&gate))))
    }

    fn with(&self, script: Script) -> Rig {
        let count = AtomicUsize::new(0);
        let provider = Upstream::start(move |conn, message| {
            let number = count.fetch_add(1, Ordering::SeqCst) + 1;
            script(conn, message, number)
        });
        let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
        let file = builder.dir().join("keys.yaml").display().to_string();
        let [one, one_more, two, none] = keys(&file);
        let yaml = self.yaml(&provider, &file);
        let weir = builder.config(yaml.clone()).start();
        Rig { weir, provider, one, one_more, two, none, yaml }
    }
}

/// Whether the call wants events.
fn wants_events(message: &Message) -> bool {
    let body: Value = serde_json::from_slice(&message.body).unwrap();
    body["stream"] == true
}

/// A response with the number in it, in the form of the API that the path names. With a gate each event of a stream, and a whole response, waits.
fn respond(conn: &mut Conn, message: &Message, number: usize, gate: Option<&Gate>) -> Result<(), WireError> {
    let is_chat = message.head.target() == CHAT;
    if wants_events(message) {
        let events = if is_chat { chat_events(number, "stop") } else { message_events(number) };
        conn.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nx-request-id: up\r\nX-Kept: yes\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        for event in events {
            if let Some(gate) = gate {
                conn.pass(gate)?;
            }
            conn.write_chunk(event)?;
        }
        return conn.write("0\r\n\r\n");
    }
    if let Some(gate) = gate {
        conn.pass(gate)?;
    }
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    let body = match message.head.target() {
        CHAT => {
            json!({"id": format!("c{number}"), "object": "chat.completion", "created": 1, "model": "real", "usage": usage,
            "choices": [{"index": 0, "message": {"role": "assistant", "content": format!("response {number}")}, "finish_reason": "stop"}]})
        }
        "/v1/embeddings" => {
            json!({"object": "list", "model": "real", "usage": {"prompt_tokens": 10, "total_tokens": 10},
            "data": [{"object": "embedding", "index": 0, "embedding": [0.5, number]}]})
        }
        "/v1/completions" => {
            json!({"id": format!("t{number}"), "object": "text_completion", "created": 1, "model": "real", "usage": usage,
            "choices": [{"index": 0, "text": format!("response {number}"), "finish_reason": "stop"}]})
        }
        _ => json!({"id": format!("m{number}"), "type": "message", "role": "assistant", "model": "real-claude",
            "content": [{"type": "text", "text": format!("response {number}")}], "stop_reason": "end_turn", "stop_sequence": null,
            "usage": {"input_tokens": 10, "output_tokens": 5}}),
    };
    let fields = [("Content-Type", "application/json"), ("x-request-id", "up"), ("X-Kept", "yes")];
    conn.respond(200, &fields, body.to_string())
}

fn chat_events(number: usize, reason: &str) -> Vec<String> {
    let chunk = |delta: Value, reason: Value| {
        let data = json!({"id": format!("c{number}"), "object": "chat.completion.chunk", "created": 1, "model": "real",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
        format!("data: {data}\n\n")
    };
    let usage = json!({"id": format!("c{number}"), "object": "chat.completion.chunk", "created": 1, "model": "real", "choices": [],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}});
    vec![
        chunk(json!({"role": "assistant", "content": ""}), Value::Null),
        chunk(json!({"content": "response "}), Value::Null),
        chunk(json!({"content": number.to_string()}), Value::Null),
        chunk(json!({}), reason.into()),
        format!("data: {usage}\n\n"),
        "data: [DONE]\n\n".to_owned(),
    ]
}

fn message_events(number: usize) -> Vec<String> {
    let events = [
        json!({"type": "message_start", "message": {"id": format!("m{number}"), "type": "message", "role": "assistant", "model": "real-claude",
            "content": [], "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": format!("response {number}")}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 5}}),
        json!({"type": "message_stop"}),
    ];
    events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())).collect()
}

/// A call that is looked up.
fn body(model: &str, streams: bool, text: &str) -> String {
    json!({"model": model, "stream": streams, "temperature": 0, "max_tokens": 50, "messages": [{"role": "user", "content": text}]}).to_string()
}

impl Rig {
    fn call(&self, key: &str, path: &str, body: &str) -> Received {
        self.call_with(key, path, body, &[])
    }

    fn call_with(&self, key: &str, path: &str, body: &str, fields: &[(&str, &str)]) -> Received {
        let fields = [&[("X-API-Key", key), ("Content-Type", "application/json")], fields].concat();
        send(self.weir.addr(), "POST", path, &fields, body)
    }

    /// Sends a call and leaves its response to be read.
    fn begin(&self, key: &str, path: &str, body: &str) -> RawClient {
        let mut client = self.weir.connect();
        client.set_deadline(DEADLINE);
        client.request("POST", path, &[("X-API-Key", key), ("Content-Type", "application/json")], body);
        client
    }

    fn calls(&self) -> usize {
        self.provider.request_count()
    }

    /// The value of a line of the metrics, 0 without one.
    fn metric(&self, line: &str) -> u64 {
        let metrics = self.weir.admin_get("/metrics").text().to_owned();
        let found = metrics.lines().find_map(|known| known.strip_prefix(line)?.strip_prefix(' ')?.parse().ok());
        found.unwrap_or(0)
    }

    fn results(&self) -> [u64; 4] {
        ["hit", "miss", "coalesced", "bypass"]
            .map(|result| self.metric(&format!("weir_ai_cache_total{{result=\"{result}\"}}")))
    }

    /// Waits until so many requests wait for a call in flight, or read from it.
    fn wait_for_waiting(&self, count: u64) {
        wait::until(DEADLINE, "they wait for one call", || self.metric("cache_waiting{cache=\"answers\"}") == count);
    }

    fn purge(&self, body: &str) -> Value {
        let address = self.weir.admin_addr();
        let mut admin = RawClient::connect(address);
        admin.set_deadline(DEADLINE);
        admin.request("POST", "/cache/purge", &[("Host", &address.to_string())], body);
        let response = admin.read_response();
        assert_eq!(response.status(), 200, "{}", response.text());
        serde_json::from_str(response.text()).unwrap()
    }

    /// Lines of the access log about calls of models, once there are so many.
    fn lines(&self, count: usize) -> Vec<Value> {
        let lines = || -> Vec<Value> {
            let text = self.weir.stdout();
            let all = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            all.filter(|line| line["ai"].is_object()).collect()
        };
        wait::until(DEADLINE, "the lines of the access log are there", || lines().len() >= count);
        lines()
    }
}

/// The fields that are no matter of when and how a response was served.
fn lasting(received: &Received) -> Vec<(String, String)> {
    let own = ["date", "age", "x-cache", "cache-status", "x-request-id"];
    let is_lasting = |(name, _): &&(String, String)| {
        !own.contains(&name.as_str()) && !name.starts_with("x-ratelimit-") && !name.starts_with("ratelimit")
    };
    let mut fields: Vec<_> = received.fields.iter().filter(is_lasting).cloned().collect();
    fields.sort();
    fields
}

fn is_hit(received: &Received) -> bool {
    assert_eq!(received.status, 200, "{received:?}");
    assert!(received.is_whole, "{received:?}");
    received.field("x-cache") == Some("HIT")
}
