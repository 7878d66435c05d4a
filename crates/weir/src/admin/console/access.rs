//! Who may look and who may act.
//!
//! Without a token the console is for connections over the loopback interface: whoever has those has the rest of the admin
//! listener too. With `console.token` it needs a login from everywhere, and programs need the token for every page but
//! those of probes and scrapers. A login makes a session in memory, known to the browser by a cookie that scripts cannot
//! read and that other sites cannot send.
//!
//! An action needs a second secret, which only a page of this origin can have read, in a header field that a form cannot
//! send. [`guard`](admin_http::guard) has refused requests from pages of other sites before.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use admin_http::LocalAddress;
use auth::secret::is_same;
use axum::body::Bytes;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{Console, Shared};
use crate::admin::routes::json;
use crate::admin::{Control, problem};

/// Life of a session.
const SESSION: Duration = Duration::from_secs(12 * 3600);
/// Sessions that are held; the oldest makes room.
const SESSIONS: usize = 100;
/// Wrong tokens within [`WINDOW`]; then every login is refused.
const FAILURES: usize = 5;
const WINDOW: Duration = Duration::from_secs(60);
/// Carries the secret of actions.
const CSRF: HeaderName = HeaderName::from_static("x-weir-csrf");

pub(super) struct Access {
    /// Differs between processes; the secret of actions where nobody logs in. Empty when the system has no random bytes.
    instance: String,
    csrf: String,
    sessions: Mutex<Vec<Session>>,
    /// When the last wrong tokens came.
    failures: Mutex<Vec<Instant>>,
}

#[derive(Clone)]
struct Session {
    id: String,
    csrf: String,
    /// The session ends when the token changes.
    token: [u8; 32],
    until: Instant,
}

/// Whom a request is from.
enum Visitor {
    /// May look, and act with this secret.
    Known(String),
    /// A program with the token: a page of another site cannot make a browser send it, so it needs no other secret.
    Program,
    /// Has to log in.
    Unknown,
    /// Came from another machine, and no token is configured.
    Remote,
}

impl Access {
    pub(super) fn new() -> Self {
        Access {
            instance: random_text().map(|text| text[..16].to_owned()).unwrap_or_default(),
            csrf: random_text().unwrap_or_default(),
            sessions: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    pub(super) fn instance(&self) -> &str {
        &self.instance
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<Session>> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        sessions.retain(|session| session.until > now);
        sessions
    }

    fn visitor(&self, token: Option<&str>, headers: &HeaderMap, local: LocalAddress) -> Visitor {
        let Some(token) = token else {
            let is_loopback = local.0.ip().to_canonical().is_loopback();
            return if is_loopback { Visitor::Known(self.csrf.clone()) } else { Visitor::Remote };
        };
        if has_bearer(headers, token) {
            return Visitor::Program;
        }
        let token = digest(token);
        let id = cookie(headers, local);
        let is_own = |session: &Session| id.is_some_and(|id| is_same(id.as_bytes(), session.id.as_bytes()));
        let known = |session: &&Session| session.token == token && is_own(session);
        let session = self.sessions().iter().find(known).cloned();
        session.map_or(Visitor::Unknown, |session| Visitor::Known(session.csrf))
    }

    /// Whether another login may be tried, and how long to wait if not.
    fn may_try(&self) -> Result<(), Duration> {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.retain(|at| at.elapsed() < WINDOW);
        match failures.first() {
            Some(first) if failures.len() >= FAILURES => Err(WINDOW.saturating_sub(first.elapsed())),
            _ => Ok(()),
        }
    }

    fn failed(&self) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
    }

    fn log_in(&self, token: &str) -> Option<Session> {
        let (id, csrf) = (random_text()?, random_text()?);
        let session = Session { id, csrf, token: digest(token), until: Instant::now() + SESSION };
        let mut sessions = self.sessions();
        if sessions.len() == SESSIONS {
            sessions.remove(0);
        }
        sessions.push(session.clone());
        Some(session)
    }
}

/// Lets pass who may look.
pub(super) async fn require_visitor(
    State(console): Shared,
    Extension(local): Extension<LocalAddress>,
    request: Request,
    next: Next,
) -> Response {
    let token = console.control.console().token;
    match console.access.visitor(token.as_deref(), request.headers(), local) {
        Visitor::Known(_) | Visitor::Program => next.run(request).await,
        Visitor::Unknown => problem::of(StatusCode::UNAUTHORIZED, "Log in first.").into_response(),
        Visitor::Remote => remote(),
    }
}

/// Lets pass questions whose parts may be secrets: they come in a body, change nothing, and are not logged.
pub(super) async fn require_page(
    State(console): Shared,
    Extension(local): Extension<LocalAddress>,
    request: Request,
    next: Next,
) -> Response {
    match of_page(&console, request.headers(), local) {
        Ok(()) => next.run(request).await,
        Err(refused) => *refused,
    }
}

/// Whether a request is of a page of this console, or of a program with the token.
fn of_page(console: &Console, headers: &HeaderMap, local: LocalAddress) -> Result<(), Box<Response>> {
    let token = console.control.console().token;
    let csrf = match console.access.visitor(token.as_deref(), headers, local) {
        Visitor::Known(csrf) => csrf,
        Visitor::Program => return Ok(()),
        Visitor::Unknown => {
            return Err(Box::new(problem::of(StatusCode::UNAUTHORIZED, "Log in first.").into_response()));
        }
        Visitor::Remote => return Err(Box::new(remote())),
    };
    let given = headers.get(&CSRF).map_or(&b""[..], |value| value.as_bytes());
    if !csrf.is_empty() && is_same(given, csrf.as_bytes()) {
        return Ok(());
    }
    let detail = "The request does not come from a page of this console, or the page is out of date: load it again.";
    Err(Box::new(problem::of(StatusCode::FORBIDDEN, detail).into_response()))
}

/// Lets pass who may act.
pub(super) async fn require_action(
    State(console): Shared,
    Extension(local): Extension<LocalAddress>,
    request: Request,
    next: Next,
) -> Response {
    if let Err(refused) = of_page(&console, request.headers(), local) {
        return *refused;
    }
    if console.control.console().read_only {
        let detail = "The console is read-only (`console.read_only` in the configuration).";
        return problem::of(StatusCode::FORBIDDEN, detail).into_response();
    }
    tracing::info!(action = request.uri().path(), "requested in the console");
    next.run(request).await
}

/// Lets pass programs that have the token. Where there is none, whoever reaches the listener may look, and act from this machine only.
pub(in crate::admin) async fn require_bearer(
    State(control): State<Arc<dyn Control>>,
    Extension(local): Extension<LocalAddress>,
    request: Request,
    next: Next,
) -> Response {
    let Some(token) = control.console().token else {
        if request.method().is_safe() || local.0.ip().to_canonical().is_loopback() {
            return next.run(request).await;
        }
        let detail =
            "Without `console.token` in the configuration, actions are taken over the loopback interface only.";
        return problem::of(StatusCode::FORBIDDEN, detail).into_response();
    };
    if has_bearer(request.headers(), &token) {
        return next.run(request).await;
    }
    let detail = "This page needs `Authorization: Bearer TOKEN` with the value of `console.token`.";
    let mut response = problem::of(StatusCode::UNAUTHORIZED, detail).into_response();
    let challenge = HeaderValue::from_static("Bearer realm=\"weir admin\"");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    response
}

/// Whether the token is there as a bearer, once.
fn has_bearer(headers: &HeaderMap, token: &str) -> bool {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let is_right = |value: &HeaderValue| {
        let (scheme, rest) = value.as_bytes().split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then(|| is_same(rest, token.as_bytes()))
    };
    given.next().and_then(is_right) == Some(true) && given.next().is_none()
}

/// What the page has to know before anything else.
pub(super) async fn session(
    State(console): Shared,
    Extension(local): Extension<LocalAddress>,
    headers: HeaderMap,
) -> Response {
    let spec = console.control.console();
    let csrf = match console.access.visitor(spec.token.as_deref(), &headers, local) {
        Visitor::Known(csrf) => Some(csrf),
        Visitor::Unknown | Visitor::Program => None,
        Visitor::Remote => return remote(),
    };
    let body = serde_json::json!({
        "instance": console.access.instance,
        "has_login": spec.token.is_some(),
        "csrf": csrf,
        "read_only": spec.read_only,
        "version": env!("CARGO_PKG_VERSION"),
    });
    json(StatusCode::OK, body.to_string())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Login {
    token: String,
}

pub(super) async fn login(State(console): Shared, Extension(local): Extension<LocalAddress>, body: Bytes) -> Response {
    let access = &console.access;
    let Some(token) = console.control.console().token else {
        return problem::of(StatusCode::CONFLICT, "There is no login: `console.token` is not set.").into_response();
    };
    if let Err(wait) = access.may_try() {
        let detail = "Too many wrong tokens. Try again in a minute.";
        let mut response = problem::of(StatusCode::TOO_MANY_REQUESTS, detail).into_response();
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1));
        return response;
    }
    let Ok(login) = serde_json::from_slice::<Login>(&body) else {
        return problem::of(StatusCode::BAD_REQUEST, "Send {\"token\": \"...\"}.").into_response();
    };
    if !is_same(login.token.as_bytes(), token.as_bytes()) {
        access.failed();
        tracing::warn!("a login to the console failed: wrong token");
        return problem::of(StatusCode::UNAUTHORIZED, "The token is wrong.").into_response();
    }
    let Some(session) = access.log_in(&token) else {
        return problem::of(StatusCode::INTERNAL_SERVER_ERROR, "The system has no random bytes.").into_response();
    };
    with_cookie(local, &session.id, SESSION.as_secs())
}

/// Ends the session, if there is one.
pub(super) async fn logout(
    State(console): Shared,
    Extension(local): Extension<LocalAddress>,
    headers: HeaderMap,
) -> Response {
    if let Some(id) = cookie(&headers, local) {
        console.access.sessions().retain(|session| session.id != id);
    }
    with_cookie(local, "", 0)
}

fn with_cookie(local: LocalAddress, id: &str, seconds: u64) -> Response {
    let name = cookie_name(local);
    let cookie = format!("{name}={id}; Path=/console/; Max-Age={seconds}; HttpOnly; SameSite=Strict");
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response()
}

/// Cookies do not tell ports apart: two gateways of one machine would end each other's sessions.
fn cookie_name(local: LocalAddress) -> String {
    format!("weir_console_{}", local.0.port())
}

fn cookie(headers: &HeaderMap, local: LocalAddress) -> Option<&str> {
    let name = cookie_name(local);
    let fields = headers.get_all(header::COOKIE).iter().filter_map(|field| field.to_str().ok());
    let mut pairs = fields.flat_map(|field| field.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, id)| id)
}

fn remote() -> Response {
    let detail =
        "Without `console.token` in the configuration, the console is served over the loopback interface only.";
    problem::of(StatusCode::FORBIDDEN, detail).into_response()
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// 256 bits in hex; none when the system has none. From the system itself: the TLS library's generator takes a tenth of a second to begin with,
/// which a gateway without TLS need not spend.
fn random_text() -> Option<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
