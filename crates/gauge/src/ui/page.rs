//! What all pages have around their content, and how one says that it cannot be shown.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};

use super::App;
use super::html::text;
use crate::history::HistoryError;

const SECTIONS: [(&str, &str); 6] = [
    ("/", "Dashboard"),
    ("/runs", "Runs"),
    ("/compare", "Compare"),
    ("/trends", "Trends"),
    ("/evaluations", "Evaluations"),
    ("/new", "New evaluation"),
];

/// A page that can be shown.
pub(super) struct Page {
    /// Its title.
    pub(super) title: String,
    /// The section that it belongs to: a path of the navigation.
    pub(super) section: &'static str,
    /// HTML below the title.
    pub(super) body: String,
    /// Its content changes: it is loaded anew while it is looked at.
    pub(super) live: bool,
    /// 200, or 422 for a form with something wrong in it.
    pub(super) status: StatusCode,
}

impl Page {
    pub(super) fn new(title: impl Into<String>, section: &'static str, body: String) -> Self {
        Page { title: title.into(), section, body, live: false, status: StatusCode::OK }
    }
}

/// What a request leads to.
pub(super) enum Shown {
    Page(Page),
    /// To another page, after an action.
    See(String),
    /// A file: its media type, its name where it is to be saved, and its content.
    File {
        kind: &'static str,
        name: Option<String>,
        content: Vec<u8>,
    },
    /// A page that somebody else made, with scripts of its own: it is shown without any rights here.
    Sandboxed(String),
}

/// Why a page cannot be shown, or an action not be done.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) status: StatusCode,
    pub(super) why: String,
}

impl Failure {
    pub(super) fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Failure { status, why: why.into() }
    }

    pub(super) fn not_found(why: impl Into<String>) -> Self {
        Failure::new(StatusCode::NOT_FOUND, why)
    }

    /// Something on this machine that the visitor cannot change.
    pub(super) fn internal(why: impl std::fmt::Display) -> Self {
        Failure::new(StatusCode::INTERNAL_SERVER_ERROR, why.to_string())
    }
}

impl From<HistoryError> for Failure {
    fn from(error: HistoryError) -> Self {
        let status = if error.is_of_database() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::NOT_FOUND };
        Failure::new(status, error.to_string())
    }
}

/// A reply as a response. `csrf` is in the form of the logout.
pub(super) fn respond(shown: Result<Shown, Failure>, csrf: &str, has_login: bool) -> Response {
    match shown {
        Ok(Shown::Page(page)) => {
            let status = page.status;
            (status, Html(frame(&page, csrf, has_login))).into_response()
        }
        Ok(Shown::See(to)) => Redirect::to(&to).into_response(),
        Ok(Shown::File { kind, name, content }) => {
            let mut response = ([(header::CONTENT_TYPE, kind)], content).into_response();
            if let Some(name) = name {
                // Names are made here, of letters, digits, dots and dashes.
                let value = format!("attachment; filename=\"{name}\"");
                if let Ok(value) = HeaderValue::from_str(&value) {
                    response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
                }
            }
            response
        }
        Ok(Shown::Sandboxed(html)) => {
            let policy = "sandbox allow-scripts allow-popups; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";
            ([(header::CONTENT_SECURITY_POLICY, policy)], Html(html)).into_response()
        }
        Err(failure) => refusal(&failure, csrf, has_login),
    }
}

/// A page that says what went wrong.
pub(super) fn refusal(failure: &Failure, csrf: &str, has_login: bool) -> Response {
    let title = failure.status.canonical_reason().unwrap_or("Error");
    let body = format!("<p class=\"failed\" role=\"alert\">{}</p>", text(&failure.why));
    let page = Page::new(title, "", body);
    (failure.status, Html(frame(&page, csrf, has_login))).into_response()
}

/// The whole document.
pub(super) fn frame(page: &Page, csrf: &str, has_login: bool) -> String {
    let title = text(&page.title);
    let links: String = SECTIONS
        .iter()
        .map(|(path, name)| {
            let current = if *path == page.section { " aria-current=\"page\"" } else { "" };
            format!("<li><a href=\"{path}\"{current}>{name}</a></li>")
        })
        .collect();
    let logout = if has_login && !csrf.is_empty() {
        format!(
            "<form method=\"post\" action=\"/logout\"><input type=\"hidden\" name=\"csrf\" value=\"{}\"><button>Log out</button></form>",
            text(csrf)
        )
    } else {
        String::new()
    };
    let (mark, refresh) = if page.live {
        (" data-live", "<noscript><meta http-equiv=\"refresh\" content=\"3\"></noscript>")
    } else {
        ("", "")
    };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">{refresh}\n<title>{title} · Gauge</title>\n<link rel=\"icon\" href=\"/web/icon.svg\">\n\
         <link rel=\"stylesheet\" href=\"/web/ui.css\">\n<script src=\"/web/live.js\" defer></script>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to content</a>\n\
         <header><p class=\"brand\"><a href=\"/\">Gauge</a></p><nav aria-label=\"Pages\"><ul>{links}</ul></nav>{logout}</header>\n\
         <main id=\"main\" tabindex=\"-1\"{mark}>\n<h1>{title}</h1>\n{}\n</main>\n</body>\n</html>\n",
        page.body
    )
}

/// Name, type and content.
type Asset = (&'static str, &'static str, &'static str);

/// As the repository has them: nothing generates them.
const ASSETS: [Asset; 3] = [
    ("ui.css", "text/css; charset=utf-8", include_str!("web/ui.css")),
    ("live.js", "text/javascript; charset=utf-8", include_str!("web/live.js")),
    ("icon.svg", "image/svg+xml", include_str!("web/icon.svg")),
];

pub(super) async fn asset(Path(name): Path<String>) -> Response {
    match ASSETS.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, content)) => ([(header::CONTENT_TYPE, *kind)], *content).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

pub(super) async fn not_found(State(app): State<Arc<App>>) -> Response {
    refusal(&Failure::not_found("There is no such page."), "", app.access.has_login())
}
