//! The inference simulator: a model server without a model, paced, and with the same bytes for the same request every
//! time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Serialize;

use super::chat::{CREATED, Chat, Completion, Members};
use super::load::Load;
use super::paced;
use super::refusal::Refusal;
use super::settings::Settings;
use super::tokens::{Crc32, Draws};

/// Bytes of a request's body.
const BODY: usize = 10 * 1024 * 1024;
const JSON: &str = "application/json";

/// Which implementation is played: they differ in the model's name, the service's, and the response to a bad body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flavour {
    Python,
    Node,
}

impl Flavour {
    fn model(self) -> &'static str {
        match self {
            Flavour::Python => "dummy-v0",
            Flavour::Node => "node-dummy-v0",
        }
    }

    fn service(self) -> &'static str {
        match self {
            Flavour::Python => "inference-python",
            Flavour::Node => "inference-node",
        }
    }
}

struct Simulator {
    flavour: Flavour,
    settings: Settings,
    load: Arc<Load>,
    started: Instant,
}

type Shared = State<Arc<Simulator>>;

pub(super) fn router(flavour: Flavour, settings: Settings) -> Router {
    let simulator = Simulator { flavour, settings, load: Arc::default(), started: Instant::now() };
    let mut router = Router::new()
        .route("/infer", post(infer))
        .route("/v1/chat/completions", post(chat))
        .route("/v1/models", get(models))
        .route("/healthz", get(healthz))
        .route("/sim", get(async |State(sim): Shared| json_response(&sim.load.now())));
    if flavour == Flavour::Node {
        router = router.route("/metrics", get(metrics));
    }
    router
        .fallback(async |sim: Shared, request: Request| refuse(sim, &request, StatusCode::NOT_FOUND))
        .method_not_allowed_fallback(async |sim: Shared, request: Request| {
            refuse(sim, &request, StatusCode::METHOD_NOT_ALLOWED)
        })
        .with_state(Arc::new(simulator))
}

fn refuse(State(sim): Shared, request: &Request, status: StatusCode) -> Response {
    Refusal::by_router(sim.flavour, status).into_response(request.uri().path())
}

/// The members are written in the order of the type, which is part of the contract; that of a `json!` would be the
/// alphabet's.
fn json_response(body: &impl Serialize) -> Response {
    let body = serde_json::to_string(body).expect("plain values with string keys");
    ([(header::CONTENT_TYPE, JSON)], body).into_response()
}

#[derive(Serialize)]
struct Healthz {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    uptime_s: Option<f64>,
    service: &'static str,
}

async fn healthz(State(sim): Shared) -> Response {
    json_response(&Healthz { ok: true, uptime_s: None, service: sim.flavour.service() })
}

async fn metrics(State(sim): Shared) -> Response {
    let uptime_s = Some(sim.started.elapsed().as_secs_f64());
    json_response(&Healthz { ok: true, uptime_s, service: sim.flavour.service() })
}

#[derive(Serialize)]
struct List<T> {
    object: &'static str,
    data: [T; 1],
}

#[derive(Serialize)]
struct Model {
    id: &'static str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
}

async fn models(State(sim): Shared) -> Response {
    let model = Model { id: sim.flavour.model(), object: "model", created: CREATED, owned_by: "weir" };
    json_response(&List { object: "list", data: [model] })
}

async fn infer(State(sim): Shared, request: Request) -> Response {
    try_infer(&sim, request).await.unwrap_or_else(|refusal| refusal.into_response("/infer"))
}

async fn try_infer(sim: &Simulator, request: Request) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let body = read(body).await?;
    let prompt = prompt(sim.flavour, &head.headers, &body)?;
    let settings = sim.settings.for_request(&head.headers)?;
    let drawn = || Draws::of(settings.seed, Crc32::new().update(prompt.as_bytes())).latency_ms();
    let latency_ms = settings.latency_ms.unwrap_or_else(drawn);
    let result = serde_json::to_string(&format!("echo: {prompt}")).expect("a string");
    let response = format!(r#"{{"result":{result},"latency_ms":{latency_ms},"model":"{}"}}"#, sim.flavour.model());
    plain(sim, &settings, (Duration::from_millis(latency_ms.into()), response.into())).await
}

async fn chat(State(sim): Shared, request: Request) -> Response {
    try_chat(&sim, request).await.unwrap_or_else(|refusal| refusal.into_response("/v1/chat/completions"))
}

async fn try_chat(sim: &Simulator, request: Request) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let body = read(body).await?;
    let text = json_text(&head.headers, &body).ok_or_else(|| Refusal::bad_body(None, "must be a JSON object"))?;
    let chat = Chat::parse(text)?;
    let settings = sim.settings.for_request(&head.headers)?;
    let is_stream = chat.stream;
    let completion = Completion::new(chat, &settings);
    if !is_stream {
        return plain(sim, &settings, completion.plain()).await;
    }
    let place = sim.load.admit(&settings)?;
    let mut response = paced::response(place, completion.events(), "text/event-stream; charset=utf-8", None).await;
    response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-cache"));
    Ok(response)
}

/// A response in one piece.
async fn plain(sim: &Simulator, settings: &Settings, piece: (Duration, Bytes)) -> Result<Response, Refusal> {
    let place = sim.load.admit(settings)?;
    let length = piece.1.len() as u64;
    Ok(paced::response(place, std::iter::once(piece), JSON, Some(length)).await)
}

/// The whole body. A client that breaks off gets no response anyway.
async fn read(body: Body) -> Result<Bytes, Refusal> {
    to_bytes(body, BODY).await.map_err(|_| Refusal::too_large(BODY))
}

/// The body as text, if it says that it is JSON and can be.
fn json_text<'a>(fields: &HeaderMap, body: &'a Bytes) -> Option<&'a str> {
    let kind = fields.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let essence = kind.split(';').next()?.trim();
    if !essence.eq_ignore_ascii_case(JSON) {
        return None;
    }
    std::str::from_utf8(body).ok()
}

/// The prompt of `/infer`, or what is wrong in pydantic's words.
fn prompt(flavour: Flavour, fields: &HeaderMap, body: &Bytes) -> Result<String, Refusal> {
    let bad = |kind, at, message| Refusal::bad_prompt(flavour, kind, at, message);
    if body.is_empty() {
        return Err(bad("missing", None, "Field required"));
    }
    let no_object = "Input should be a valid dictionary or object to extract fields from";
    let Some(text) = json_text(fields, body) else {
        return Err(bad("model_attributes_type", None, no_object));
    };
    let members: Members<'_> = serde_json::from_str(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => bad("model_attributes_type", None, no_object),
        _ => bad("json_invalid", None, "JSON decode error"),
    })?;
    let at = Some("prompt");
    let raw = members.get("prompt").ok_or_else(|| bad("missing", at, "Field required"))?;
    match serde_json::from_str::<String>(raw.get()) {
        Ok(prompt) if prompt.is_empty() => Err(bad("string_too_short", at, "String should have at least 1 character")),
        Ok(prompt) => Ok(prompt),
        Err(_) if raw.get().starts_with('"') => Err(bad("value_error", at, "Value error, there is a lone surrogate")),
        Err(_) => Err(bad("string_type", at, "Input should be a valid string")),
    }
}
