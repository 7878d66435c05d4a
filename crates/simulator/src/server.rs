//! Connections and routes.

use crate::api::{Content, anthropic, gemini, openai};
use crate::fault::{self, Step};
use crate::http::{self, Request};
use crate::{Ledger, Scenario, media, stored};
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Chat,
    Completions,
    Responses,
    Embeddings,
    Moderations,
    Images,
    Messages,
    Gemini,
}

/// A simulator that runs until it is dropped. Needs a tokio runtime.
#[derive(Debug)]
pub struct Simulator {
    address: SocketAddr,
    ledger: Arc<Ledger>,
    task: AbortHandle,
}

impl Simulator {
    /// Starts one on a free port of the loopback.
    ///
    /// # Errors
    /// No port could be bound.
    pub async fn start() -> io::Result<Self> {
        Self::start_at(([127, 0, 0, 1], 0).into()).await
    }

    /// Starts one at this address.
    ///
    /// # Errors
    /// It could not be bound.
    pub async fn start_at(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let ledger = Arc::new(Ledger::default());
        let task = tokio::spawn(serve(listener, ledger.clone())).abort_handle();
        Ok(Simulator { address, ledger, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has done.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves every connection of the listener.
///
/// # Errors
/// Accepting fails.
pub async fn serve(listener: TcpListener, ledger: Arc<Ledger>) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let ledger = ledger.clone();
        tokio::spawn(async move {
            // a client that disconnects is no error of the simulator
            let _ = connection(stream, &ledger).await;
        });
    }
}

async fn connection(mut stream: TcpStream, ledger: &Ledger) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    while let Some(request) = http::read(&mut stream, &mut buffer).await? {
        let _running = (request.method == "POST").then(|| ledger.begin());
        let steps = respond(&request, ledger);
        if !send(&mut stream, steps, &mut buffer, ledger).await? {
            break;
        }
    }
    Ok(())
}

/// Sends the steps; whether the connection goes on.
async fn send(stream: &mut TcpStream, steps: Vec<Step>, buffer: &mut Vec<u8>, ledger: &Ledger) -> io::Result<bool> {
    for step in steps {
        match step {
            Step::Bytes(bytes) => {
                if let Err(error) = stream.write_all(&bytes).await {
                    ledger.cancelled();
                    return Err(error);
                }
            }
            Step::Pause(time) => {
                if !time.is_zero() {
                    tokio::select! {
                        () = tokio::time::sleep(time) => {}
                        () = disconnected(stream, buffer) => {
                            ledger.cancelled();
                            return Ok(false);
                        }
                    }
                }
            }
            Step::Stall => {
                disconnected(stream, buffer).await;
                ledger.cancelled();
                return Ok(false);
            }
            Step::Reset => {
                stream.set_zero_linger()?;
                return Ok(false);
            }
            Step::Close => return Ok(false),
        }
    }
    Ok(true)
}

/// Ends when the client has closed the connection; pipelined bytes are kept.
async fn disconnected(stream: &mut TcpStream, buffer: &mut Vec<u8>) {
    while stream.read_buf(buffer).await.is_ok_and(|read| read > 0) {}
}

pub(crate) fn json_response(status: u16, body: &Value) -> Vec<Step> {
    vec![Step::Bytes(http::whole(status, "application/json", "", body.to_string().as_bytes()))]
}

fn respond(request: &Request, ledger: &Ledger) -> Vec<Step> {
    let path = request.path.as_str();
    match (request.method.as_str(), path) {
        ("GET", "/metrics" | "/prometheus/metrics") => match ledger.metrics().as_str() {
            "none" => json_response(404, &json!({})),
            "stall" => vec![Step::Stall],
            text => vec![Step::Bytes(http::whole(200, "text/plain; version=0.0.4", "", text.as_bytes()))],
        },
        ("PUT", "/simulator/metrics") => {
            ledger.set_metrics(String::from_utf8_lossy(&request.body));
            json_response(200, &json!({}))
        }
        ("GET", "/simulator/ledger") => json_response(200, &ledger.to_json()),
        ("GET", "/health") => json_response(200, &json!({})),
        ("GET", "/v1/models") if request.field("anthropic-version").is_some() => {
            json_response(200, &anthropic::models())
        }
        ("GET", "/v1/models") => json_response(200, &openai::models()),
        ("GET", "/v1beta/models") => json_response(200, &gemini::models()),
        ("POST", "/v1/chat/completions") => call(Api::Chat, None, "", request, ledger),
        ("POST", "/v1/completions") => call(Api::Completions, None, "", request, ledger),
        ("POST", "/v1/responses") => call(Api::Responses, None, "", request, ledger),
        ("POST", "/v1/embeddings") => call(Api::Embeddings, None, "", request, ledger),
        ("POST", "/v1/moderations") => call(Api::Moderations, None, "", request, ledger),
        ("POST", "/v1/images/generations") => call(Api::Images, None, "", request, ledger),
        ("POST", "/v1/audio/speech") => media::speech(request, ledger),
        ("POST", path) if media::FORMS.contains(&path) => media::form(request, ledger),
        (_, path) if path.starts_with("/v1/responses/") => {
            stored::respond(request, &path["/v1/responses/".len()..], ledger)
        }
        ("POST", "/v1/messages") => call(Api::Messages, None, "", request, ledger),
        ("POST", "/v1/messages/count_tokens") => call(Api::Messages, None, "count", request, ledger),
        ("POST", path) => match path.strip_prefix("/v1beta/models/").and_then(|rest| rest.rsplit_once(':')) {
            Some((model, method)) => call(Api::Gemini, Some(model), method, request, ledger),
            None => json_response(404, &openai::error("invalid_request_error", None, "unknown path")),
        },
        _ => json_response(404, &openai::error("invalid_request_error", None, "unknown path")),
    }
}

/// A call of a model. `model`: from the path, else from the body.
fn call(api: Api, model: Option<&str>, method: &str, request: &Request, ledger: &Ledger) -> Vec<Step> {
    let Ok(body) = serde_json::from_slice::<Value>(&request.body) else {
        return json_response(400, &fault::error_body(api, 400, None, "invalid JSON"));
    };
    let Some(model) = model.or_else(|| body["model"].as_str()) else {
        return json_response(400, &fault::error_body(api, 400, None, "you must provide a model parameter"));
    };
    let calls = ledger.call(model);
    let mut scenario = Scenario::of(model);
    // a provider that flaps is well from the fourth call on
    if (scenario.once && calls > 1) || (scenario.fault == 32 && calls > 3) {
        scenario.fault = 0;
    }
    let last = body["messages"].as_array().and_then(|messages| messages.last());
    let prefilled = last.is_some_and(|last| last["role"] == "assistant");
    if let Some(steps) = fault::before_response(api, &scenario, prefilled) {
        return steps;
    }
    let tool = match api {
        Api::Messages => anthropic::open_tool(&body),
        Api::Gemini => gemini::open_tool(&body),
        _ => openai::open_tool(&body),
    };
    let tool = tool.or_else(|| (scenario.fault == 23 && api != Api::Completions).then(|| "weather".into()));
    let json = ["response_format", "output_config", "text"]
        .iter()
        .any(|name| !body[name]["format"].is_null() || body[name]["type"] == "json_schema")
        || !body["generationConfig"]["responseMimeType"].is_null();
    let mut content = Content::new(model, &body, scenario.tokens, tool, json);
    content.choices = body["n"].as_u64().unwrap_or(1).clamp(1, 16);
    content.usage = scenario.fault != 27;
    content.end_reason = end_reason(api, scenario.fault);
    if method.starts_with("count") {
        let name = if api == Api::Gemini { "totalTokens" } else { "input_tokens" };
        return json_response(200, &json!({name: content.input}));
    }
    if api == Api::Embeddings {
        ledger.reported(content.input, 0);
        return fault::whole(api, &scenario, openai::embeddings(model, &body, content.input));
    }
    if matches!(api, Api::Moderations | Api::Images) {
        return fault::whole(api, &scenario, openai::document(api == Api::Moderations, model));
    }
    if api == Api::Responses {
        if let Some(steps) = stored::missing_previous(ledger, request, &body) {
            return steps;
        }
        if body["store"] != false {
            content.response_id = stored::next_id();
            stored::keep(ledger, request, &content, &body["input"]);
        }
    }
    let streams = body["stream"] == true || method == "streamGenerateContent";
    if content.usage {
        ledger.reported(content.input, content.output());
    }
    if streams {
        let include_usage = body["stream_options"]["include_usage"] == true;
        let events = match api {
            Api::Chat => openai::chat_events(&content, include_usage),
            Api::Completions => openai::completion_events(&content, include_usage),
            Api::Responses => openai::response_events(&content),
            Api::Messages => anthropic::events(&content),
            Api::Gemini if request.query.contains("alt=sse") => gemini::events(&content),
            Api::Gemini => return fault::whole(api, &scenario, json!([gemini::response(&content)])),
            Api::Embeddings | Api::Moderations | Api::Images => Vec::new(),
        };
        return fault::stream(api, &scenario, events);
    }
    let body = match api {
        Api::Chat => openai::chat(&content),
        Api::Completions => openai::completion(&content),
        Api::Responses if body["background"] == true => openai::queued_response(&content),
        Api::Responses => openai::response(&content),
        Api::Messages => anthropic::message(&content),
        _ => gemini::response(&content),
    };
    fault::whole(api, &scenario, body)
}

fn end_reason(api: Api, fault: u8) -> Option<&'static str> {
    match (fault, api) {
        (13, Api::Gemini) => Some("SAFETY"),
        (15, _) => Some("strange"),
        (26, Api::Messages) => Some("max_tokens"),
        (26, Api::Gemini) => Some("MAX_TOKENS"),
        (26, Api::Responses) => Some("max_output_tokens"),
        (26, _) => Some("length"),
        _ => None,
    }
}
