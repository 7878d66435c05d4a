//! The files of the pages, as the repository has them: nothing generates them.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::admin::problem;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Name, type and content.
type Asset = (&'static str, &'static str, &'static str);

pub(super) const PAGE: &str = include_str!("web/index.html");

/// All of them but the page.
pub(super) const FILES: [Asset; 14] = [
    ("console.css", CSS, include_str!("web/console.css")),
    ("icon.svg", "image/svg+xml", include_str!("web/icon.svg")),
    ("main.js", SCRIPT, include_str!("web/main.js")),
    ("api.js", SCRIPT, include_str!("web/api.js")),
    ("dom.js", SCRIPT, include_str!("web/dom.js")),
    ("chart.js", SCRIPT, include_str!("web/chart.js")),
    ("overview.js", SCRIPT, include_str!("web/overview.js")),
    ("errors.js", SCRIPT, include_str!("web/errors.js")),
    ("pages.js", SCRIPT, include_str!("web/pages.js")),
    ("auth.js", SCRIPT, include_str!("web/auth.js")),
    ("routes.js", SCRIPT, include_str!("web/routes.js")),
    ("policies.js", SCRIPT, include_str!("web/policies.js")),
    ("settings.js", SCRIPT, include_str!("web/settings.js")),
    ("forms.js", SCRIPT, include_str!("web/forms.js")),
];

pub(super) async fn page() -> Response {
    ([(header::CONTENT_TYPE, HTML)], PAGE).into_response()
}

pub(super) async fn file(Path(name): Path<String>) -> Response {
    match FILES.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, content)) => ([(header::CONTENT_TYPE, *kind)], *content).into_response(),
        None => problem::of(StatusCode::NOT_FOUND, "The console has no such file.").into_response(),
    }
}
