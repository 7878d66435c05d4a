//! Providers that say what the test writes, with a gateway in front: what they get, and what happens to their responses.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use testkit::{Gate, Upstream, Weir};

use crate::client::{Received, send};

pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const MESSAGES: &str = "/v1/messages";
pub(crate) const GEMINI: &str = "/v1beta/models/";

/// What a provider sends next.
#[derive(Clone, Default)]
struct Script {
    status: u16,
    content_type: &'static str,
    /// Each waits at the gate, if there is one.
    pieces: Vec<String>,
    gate: Option<Gate>,
}

/// A model `gpt` at a provider of OpenAI's API, a model `claude` at one of Anthropic's, and a model `gemini` at one of Gemini's.
pub(crate) struct Scripted {
    pub weir: Weir,
    openai: Upstream,
    anthropic: Upstream,
    gemini: Upstream,
    script: Arc<Mutex<Script>>,
}

impl Scripted {
    pub(crate) fn start() -> Self {
        let script = Arc::new(Mutex::new(Script::default()));
        let provider = || {
            let script = script.clone();
            Upstream::start(move |conn, _| {
                let Script { status, content_type, pieces, gate } = script.lock().unwrap().clone();
                let head =
                    format!("HTTP/1.1 {status} Status\r\nContent-Type: {content_type}\r\nrequest-id: req_up\r\n");
                conn.write(format!("{head}Transfer-Encoding: chunked\r\n\r\n"))?;
                for piece in pieces {
                    if let Some(gate) = &gate {
                        conn.pass(gate)?;
                    }
                    conn.write_chunk(piece)?;
                }
                conn.write("0\r\n\r\n")
            })
        };
        let (openai, anthropic, gemini) = (provider(), provider(), provider());
        let yaml = format!(
            "listen: 127.0.0.1:0\nworkers: 1\nupstreams:\n  o: {{targets: [\"{}\"]}}\n  a: {{targets: [\"{}\"]}}\n  g: {{targets: [\"{}\"]}}\n\
             providers:\n  openai: {{api: openai, upstream: o, keys: [sk-openai-0123456789]}}\n  \
             anthropic: {{api: anthropic, upstream: a, keys: [sk-ant-0123456789]}}\n  \
             google: {{api: gemini, upstream: g, keys: [goog-0123456789]}}\n\
             models:\n  gpt: {{candidates: [{{provider: openai, model: real-gpt}}], attempts: 1}}\n  \
             claude: {{candidates: [{{provider: anthropic, model: real-claude, max_output: 512}}], attempts: 1}}\n  \
             gemini: {{candidates: [{{provider: google, model: gemini-3-real, max_output: 512}}], attempts: 1}}\n\
             routes: [{{match: {{path: /v1/*}}, ai: {{}}}}, {{match: {{path: /v1beta/*}}, ai: {{}}}}]\n",
            openai.url(),
            anthropic.url(),
            gemini.url()
        );
        let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
        Scripted { weir, openai, anthropic, gemini, script }
    }

    /// The provider responds with this document.
    pub(crate) fn says(&self, status: u16, body: &Value) {
        *self.script.lock().unwrap() =
            Script { status, content_type: "application/json", pieces: vec![body.to_string()], gate: None };
    }

    /// The provider streams these events, one for each permit of the gate.
    pub(crate) fn streams(&self, events: Vec<String>, gate: Option<Gate>) {
        *self.script.lock().unwrap() = Script { status: 200, content_type: "text/event-stream", pieces: events, gate };
    }

    /// Sends a call; translated where the model's provider speaks the other API.
    pub(crate) fn call(&self, path: &str, body: &Value) -> Received {
        let fields = [("Authorization", "Bearer client"), ("Content-Type", "application/json")];
        send(self.weir.addr(), "POST", path, &fields, &body.to_string())
    }

    /// The last request to a provider: its path, its head in lower case, and its body.
    pub(crate) fn provider_saw(&self, path: &str) -> (String, String, Value) {
        Self::seen(if path == CHAT { &self.anthropic } else { &self.openai })
    }

    /// The last request to the provider that this API belongs to.
    pub(crate) fn api_saw(&self, path: &str) -> (String, String, Value) {
        Self::seen(match path {
            CHAT => &self.openai,
            MESSAGES => &self.anthropic,
            _ => &self.gemini,
        })
    }

    fn seen(provider: &Upstream) -> (String, String, Value) {
        let request = provider.requests().pop().expect("the provider has a request");
        let head = String::from_utf8(request.head.raw.clone()).unwrap().to_ascii_lowercase();
        (request.head.target().to_owned(), head, serde_json::from_slice(&request.body).unwrap())
    }

    /// The body of the last request to a provider of OpenAI's API, byte for byte.
    pub(crate) fn openai_bytes(&self) -> String {
        String::from_utf8(self.openai.requests().pop().expect("the provider has a request").body).unwrap()
    }

    /// How many requests providers have seen.
    pub(crate) fn count(&self) -> usize {
        [&self.openai, &self.anthropic, &self.gemini].map(|provider| provider.requests().len()).iter().sum()
    }
}

/// Data of the events of a stream; comments are left out.
pub(crate) fn events(text: &str) -> Vec<Value> {
    text.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap_or_else(|_| data.into()))
        .collect()
}

/// An event as a chunk of OpenAI's.
pub(crate) fn chunk(data: Value) -> String {
    format!("data: {data}\n\n")
}

/// An event as Anthropic sends it.
pub(crate) fn named(data: Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}
