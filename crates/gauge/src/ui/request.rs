//! A request as pages see it: parts of the path, the query, and the fields of a form with the secret that only a page of this program knows.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Extension, Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};

use super::App;
use super::access::Visitor;
use super::multipart::{self, Upload};
use super::page::{Failure, Shown, respond};

/// Bytes of a form, with a file or without.
pub(super) const FORM: usize = 8 << 20;
/// Time for a form to arrive.
const ARRIVAL: Duration = Duration::from_secs(60);
/// Fields of a form or a query.
const FIELDS: usize = 10_000;

/// Names and values, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields(pub(super) Vec<(String, String)>);

impl Fields {
    fn parse(text: &[u8]) -> Self {
        Fields(form_urlencoded::parse(text).into_owned().take(FIELDS).collect())
    }

    /// The first value of a name; empty when there is none.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.trim())
    }

    /// The same; none when it is empty.
    pub(super) fn some(&self, name: &str) -> Option<String> {
        Some(self.get(name)).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    /// All values of a name.
    pub(super) fn all<'f>(&'f self, name: &'f str) -> impl Iterator<Item = &'f str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether a box is checked, or a name is there at all.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }
}

/// A request for a page, or for an action.
#[derive(Debug)]
pub(super) struct PageRequest {
    /// The secret for forms of the page.
    pub(super) csrf: String,
    /// Parts of the path, decoded.
    path: Vec<String>,
    /// What is behind the question mark.
    pub(super) query: Fields,
    /// Fields of a form.
    pub(super) form: Fields,
    /// A file of a form.
    pub(super) upload: Option<Upload>,
}

impl PageRequest {
    /// A part of the path, from 0.
    pub(super) fn part(&self, index: usize) -> &str {
        self.path.get(index).map_or("", String::as_str)
    }

    /// What is left of the path from a part on.
    pub(super) fn rest(&self, index: usize) -> String {
        self.path.get(index..).unwrap_or_default().join("/")
    }

    /// The hidden field that every form has.
    pub(super) fn secret(&self) -> String {
        format!("<input type=\"hidden\" name=\"csrf\" value=\"{}\">", super::html::text(&self.csrf))
    }
}

/// What makes a page.
pub(super) type Work = fn(&App, &PageRequest) -> Result<Shown, Failure>;

/// A page to look at.
pub(super) fn view(work: Work) -> MethodRouter<Arc<App>> {
    get(move |State(app), Extension(visitor), request| handle(app, visitor, request, work, false))
}

/// An action, which changes something.
pub(super) fn action(work: Work) -> MethodRouter<Arc<App>> {
    post(move |State(app), Extension(visitor), request| handle(app, visitor, request, work, true))
}

async fn handle(app: Arc<App>, visitor: Visitor, request: Request, work: Work, acts: bool) -> Response {
    let has_login = app.access.has_login();
    let csrf = visitor.csrf;
    let page_request = match read(&csrf, request, acts).await {
        Ok(request) => request,
        Err(failure) => return respond(Err(failure), &csrf, has_login),
    };
    let response = tokio::task::spawn_blocking(move || work(&app, &page_request)).await;
    let response =
        response.unwrap_or_else(|_| Err(Failure::internal("This page could not be made; the program says more.")));
    respond(response, &csrf, has_login)
}

async fn read(csrf: &str, request: Request, acts: bool) -> Result<PageRequest, Failure> {
    let (head, body) = request.into_parts();
    let decode = |part: &str| {
        // A plus is a plus in a path.
        let part = part.replace('+', "%2B");
        form_urlencoded::parse(part.as_bytes()).next().map(|(name, _)| name.into_owned()).unwrap_or_default()
    };
    let path = head
        .uri
        .path()
        .trim_start_matches('/')
        .split('/')
        .map(|part| decode(&part.replace('=', "%3D").replace('&', "%26")));
    let mut page_request = PageRequest {
        csrf: csrf.to_owned(),
        path: path.collect(),
        query: Fields::parse(head.uri.query().unwrap_or_default().as_bytes()),
        form: Fields::default(),
        upload: None,
    };
    if acts {
        let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        (page_request.form, page_request.upload) = form(kind, body).await?;
        if !super::access::is_same(page_request.form.get("csrf"), csrf) {
            let why = "The form does not come from a page of this program, or the page is out of date: load it again.";
            return Err(Failure::new(StatusCode::FORBIDDEN, why));
        }
    }
    Ok(page_request)
}

async fn form(kind: &str, body: Body) -> Result<(Fields, Option<Upload>), Failure> {
    let large = |_| {
        let why = format!("The form has more than {} MB, or its connection ended.", FORM >> 20);
        Failure::new(StatusCode::PAYLOAD_TOO_LARGE, why)
    };
    let late = |_| Failure::new(StatusCode::REQUEST_TIMEOUT, "The form did not arrive before the deadline.");
    let bytes = tokio::time::timeout(ARRIVAL, to_bytes(body, FORM)).await.map_err(late)?.map_err(large)?;
    match kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "application/x-www-form-urlencoded" => Ok((Fields::parse(&bytes), None)),
        "multipart/form-data" => {
            let parts = multipart::parse(kind, &bytes).map_err(|why| Failure::new(StatusCode::BAD_REQUEST, why))?;
            Ok((Fields(parts.fields), parts.upload))
        }
        _ => Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Actions are forms.")),
    }
}
