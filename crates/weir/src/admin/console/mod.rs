//! The console: pages for people on the admin listener. They show what runs, and can start the few actions that the
//! listener has anyway; the configuration file is never edited.
//!
//! Pages are three kinds of files in [`assets`], which a browser renders from JSON. All that is dynamic on them is set as
//! text, never as HTML, and the policy in [`headers`] lets nothing run that is not one of these files. [`access`] says who
//! may look and act; [`live`] keeps ten minutes of traffic; [`pages`] has the JSON; [`actions`] change something, [`questions`]
//! change nothing and have a body.

mod access;
mod actions;
mod assets;
mod live;
mod pages;
mod questions;
mod state;

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

pub(super) use access::require_bearer;
pub use state::{
    CandidateState, CertificateState, Load, ModelState, ProcessState, ProviderKeyState, ProviderState, ReloadEvent,
};

use sha2::{Digest, Sha256};

use super::{Control, problem};
use crate::runtime::lock::lock;

/// Bytes of an action's body.
const BODY: usize = 64 * 1024;

/// No script, style or request but those of the console itself; no page may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// What the console has beside the process.
pub(super) struct Console {
    control: Arc<dyn Control>,
    access: access::Access,
    live: live::Live,
    /// Digest of the configuration in force, and how many were put in force before it was made.
    digest: Mutex<Option<(u64, String)>>,
}

impl Console {
    pub(super) fn new(control: Arc<dyn Control>) -> Arc<Self> {
        Arc::new(Console {
            control,
            access: access::Access::new(),
            live: live::Live::default(),
            digest: Mutex::default(),
        })
    }

    /// A digest of the configuration in force, as it is shown: one of the file itself would let secrets be guessed.
    fn digest(&self) -> String {
        let [applied, _] = self.control.metrics().reload_counts();
        let mut known = lock(&self.digest);
        match &*known {
            Some((at, digest)) if *at == applied => digest.clone(),
            _ => {
                let digest = Sha256::digest(self.control.config_yaml());
                let digest: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
                *known = Some((applied, digest.clone()));
                digest
            }
        }
    }

    /// Measures traffic once a second, as long as it is polled.
    pub(super) async fn sample(&self) {
        self.live.sample(&*self.control).await;
    }
}

type Shared = axum::extract::State<Arc<Console>>;

/// Everything below `/console`.
pub(super) fn router(console: Arc<Console>) -> Router {
    let data = Router::new()
        .route("/live", get(live::live))
        .route("/overview", get(pages::overview))
        .route("/routes", get(pages::routes))
        .route("/upstreams", get(pages::upstreams))
        .route("/drained", get(pages::drained))
        .route("/auth", get(pages::auth))
        .route("/errors", get(pages::errors))
        .route("/limits", get(pages::limits))
        .route("/caches", get(pages::caches))
        .route("/ai", get(pages::ai))
        .route("/tls", get(pages::tls))
        .route("/config", get(pages::config))
        .route("/config/difference", get(pages::difference))
        .route_layer(middleware::from_fn_with_state(console.clone(), access::require_visitor));
    let actions = Router::new()
        .route("/reload", post(actions::reload))
        .route("/purge", post(actions::purge))
        .route("/targets", post(actions::act_on_target))
        .route("/limits/reset", post(actions::reset_limits))
        .route_layer(middleware::from_fn_with_state(console.clone(), access::require_action));
    let questions = Router::new()
        .route("/routes/test", post(questions::test_route))
        .route("/caches/look-up", post(questions::look_up_cached))
        .route("/auth/token", post(questions::judge_token))
        .route_layer(middleware::from_fn_with_state(console.clone(), access::require_page));
    let api = data
        .merge(actions)
        .merge(questions)
        .route("/session", get(access::session))
        .route("/login", post(access::login))
        .route("/logout", post(access::logout))
        .fallback(async || problem::of(StatusCode::NOT_FOUND, "The console has no such data."));
    Router::new()
        .route("/console", get(async || (StatusCode::SEE_OTHER, [(header::LOCATION, "/console/")])))
        .route("/console/", get(assets::page))
        .route("/console/{file}", get(assets::file))
        .nest("/console/api", api)
        .layer(DefaultBodyLimit::max(BODY))
        .layer(middleware::from_fn(headers))
        .with_state(console)
}

/// An error of the configuration without the lines of the file that it quotes: one may hold a secret.
fn without_excerpts(error: &str) -> String {
    let is_quoted = |line: &str| {
        let rest = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        line.starts_with(' ') && rest.trim_start().starts_with('|')
    };
    error.lines().filter(|line| !is_quoted(line)).collect::<Vec<_>>().join("\n")
}

async fn headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await.into_response();
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    fields.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    fields.insert(HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin"));
    response
}

#[cfg(test)]
mod tests;
