//! Who may use the pages.
//!
//! Without a token they are for connections over the loopback interface, and the program listens nowhere else. With one they need a login: it makes a
//! session in memory, known to the browser by a cookie that scripts cannot read and that other sites cannot send.
//!
//! An action needs a second secret, which only a page of this origin can have read; it is a field of its form. Before that, [`guard`] refuses what a page of
//! another site may have caused ([`admin_http::guard`]).

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Redirect, Response};

use super::App;
use super::page::{Failure, Page, frame, refusal};

/// Life of a session.
const SESSION: Duration = Duration::from_secs(12 * 3600);
/// Sessions that are held; the oldest makes room.
const SESSIONS: usize = 100;
/// Wrong tokens within [`WINDOW`]; then every login is refused.
const FAILURES: usize = 5;
const WINDOW: Duration = Duration::from_secs(60);
/// Bytes of a login.
const LOGIN: usize = 4096;

/// Nothing is loaded from elsewhere, no page has scripts or styles in it, and none can be in a frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
                      frame-ancestors 'none'; base-uri 'none'";

#[derive(Debug)]
pub(super) struct Access {
    /// Digest of the token, where there is one.
    token: Option<[u8; 32]>,
    /// The secret of forms where nobody logs in.
    csrf: String,
    /// Cookies do not tell ports apart.
    cookie: String,
    sessions: Mutex<Vec<Session>>,
    failures: Mutex<Vec<Instant>>,
}

#[derive(Debug, Clone)]
struct Session {
    id: String,
    csrf: String,
    until: Instant,
}

/// Somebody who may use the pages.
#[derive(Debug, Clone)]
pub(super) struct Visitor {
    /// The secret of their forms.
    pub(super) csrf: String,
}

impl Access {
    pub(super) fn new(token: Option<&str>, address: SocketAddr) -> io::Result<Self> {
        Ok(Access {
            token: token.map(sum),
            csrf: random_text()?,
            cookie: format!("gauge_ui_{}", address.port()),
            sessions: Mutex::default(),
            failures: Mutex::default(),
        })
    }

    pub(super) fn has_login(&self) -> bool {
        self.token.is_some()
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<Session>> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        sessions.retain(|session| session.until > now);
        sessions
    }

    fn visitor(&self, headers: &HeaderMap) -> Option<Visitor> {
        if self.token.is_none() {
            return Some(Visitor { csrf: self.csrf.clone() });
        }
        let id = self.cookie_of(headers)?;
        let session = self.sessions().iter().find(|session| is_same(id, &session.id)).cloned()?;
        Some(Visitor { csrf: session.csrf })
    }

    fn cookie_of<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let fields = headers.get_all(header::COOKIE).iter().filter_map(|field| field.to_str().ok());
        let mut pairs = fields.flat_map(|field| field.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.cookie).map(|(_, id)| id)
    }

    /// Whether another login may be tried.
    fn may_try(&self) -> bool {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.retain(|at| at.elapsed() < WINDOW);
        failures.len() < FAILURES
    }

    fn failed(&self) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
    }

    fn log_in(&self) -> io::Result<Session> {
        let session = Session { id: random_text()?, csrf: random_text()?, until: Instant::now() + SESSION };
        let mut sessions = self.sessions();
        if sessions.len() == SESSIONS {
            sessions.remove(0);
        }
        sessions.push(session.clone());
        Ok(session)
    }

    fn see(&self, to: &str, id: &str, seconds: u64) -> Response {
        let cookie = format!("{}={id}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict", self.cookie);
        ([(header::SET_COOKIE, cookie)], Redirect::to(to)).into_response()
    }
}

/// Refuses what a foreign page may have caused, and says in each response what its page may do.
pub(super) async fn guard(request: Request, next: Next) -> Response {
    let mut response = match admin_http::guard::check(&request) {
        Err(refused) => refusal(&Failure::new(refused.status(), refused.to_string()), "", false),
        Ok(()) => next.run(request).await,
    };
    let fields = response.headers_mut();
    fields.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(POLICY));
    fields.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // With `no-referrer` browsers send `Origin: null` with forms.
    fields.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    fields.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    fields.insert(HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin"));
    fields.insert(HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin"));
    response
}

/// Lets pass who may look.
pub(super) async fn require_visitor(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    match app.access.visitor(request.headers()) {
        Some(visitor) => {
            request.extensions_mut().insert(visitor);
            next.run(request).await
        }
        None if *request.method() == Method::GET => Redirect::to("/login").into_response(),
        None => refusal(&Failure::new(StatusCode::UNAUTHORIZED, "Log in first."), "", false),
    }
}

pub(super) async fn login_page(State(app): State<Arc<App>>) -> Response {
    if app.access.has_login() { form(StatusCode::OK, "") } else { Redirect::to("/").into_response() }
}

fn form(status: StatusCode, wrong: &str) -> Response {
    let wrong =
        if wrong.is_empty() { String::new() } else { format!("<p class=\"failed\" role=\"alert\">{wrong}</p>") };
    let body = format!(
        "{wrong}<form class=\"panel\" method=\"post\" action=\"/login\"><label class=\"wide\">Token \
         <input type=\"password\" name=\"token\" autocomplete=\"current-password\" required></label><button class=\"main\">Log in</button></form>\
         <p class=\"quiet\">The token is the one that <code>gauge ui</code> was started with.</p>"
    );
    (status, Html(frame(&Page::new("Log in", "", body), "", false))).into_response()
}

pub(super) async fn login(State(app): State<Arc<App>>, request: Request) -> Response {
    let access = &app.access;
    let Some(token) = access.token else { return Redirect::to("/").into_response() };
    if !access.may_try() {
        let mut response = form(StatusCode::TOO_MANY_REQUESTS, "Too many wrong tokens. Try again in a minute.");
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(WINDOW.as_secs()));
        return response;
    }
    let body = axum::body::to_bytes(request.into_body(), LOGIN);
    let Ok(Ok(body)) = tokio::time::timeout(Duration::from_secs(10), body).await else {
        return form(StatusCode::BAD_REQUEST, "The form did not arrive.");
    };
    let given = form_urlencoded::parse(&body).find(|(name, _)| name == "token").map(|(_, value)| value.into_owned());
    if verify_slices_are_equal(&sum(given.unwrap_or_default().as_str()), &token).is_err() {
        access.failed();
        return form(StatusCode::UNAUTHORIZED, "The token is wrong.");
    }
    match access.log_in() {
        Ok(session) => access.see("/", &session.id, SESSION.as_secs()),
        Err(error) => refusal(&Failure::internal(error), "", false),
    }
}

/// Ends the session, if there is one.
pub(super) async fn logout(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let access = &app.access;
    if let Some(id) = access.cookie_of(&headers) {
        access.sessions().retain(|session| !is_same(id, &session.id));
    }
    access.see("/login", "", 0)
}

/// Compares in a time that depends on neither; two empty texts are not the same.
pub(super) fn is_same(given: &str, known: &str) -> bool {
    !known.is_empty() && verify_slices_are_equal(&sum(given), &sum(known)).is_ok()
}

fn sum(text: &str) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    out
}

/// 256 bits in hex.
fn random_text() -> io::Result<String> {
    let mut bytes = [0; 32];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| io::Error::other("the system has no random bytes"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
