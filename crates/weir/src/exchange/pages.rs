//! Pages in place of errors: a file of the configuration, or what an upstream makes of the status.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use h1::{Known, encode};

use super::Exchange;
use super::proxy::poll_client_disconnect;
use super::stall::Stall;
use super::subrequest::{self, Subrequest};
use crate::config::{ErrorPage, ErrorPages, PageSource, Proxy};
use crate::error::{Error, Reason};
use crate::http::edits::is_edited;
use crate::http::response;
use crate::policy::accept::wants_page;
use crate::runtime::clock;
use crate::runtime::deadline::nanos;
use crate::worker::snapshot::choice;

/// Requests for pages that one worker has in flight.
const QUESTIONS: usize = 256;
/// Largest page of an upstream; a larger one is not sent.
const LARGEST: usize = 256 << 10;
/// Longest wait for a page of an upstream.
const LONGEST: Duration = Duration::from_secs(5);
/// Its type where it says none.
const HTML: &str = "text/html; charset=utf-8";

/// A page that is here.
pub(super) struct Page {
    content_type: Vec<u8>,
    body: Arc<[u8]>,
}

/// What remains of an upstream's error that a page takes the place of.
pub(super) struct Replaced {
    status: u16,
    /// Whole lines.
    fields: Vec<u8>,
}

impl Exchange<'_> {
    /// The pages that hold for the request.
    fn error_pages(&self) -> Option<&Arc<ErrorPages>> {
        let config = self.snapshot.config();
        match self.route {
            Some(route) => config.routes[route.0].errors.as_ref(),
            None => config.gateway_errors.as_ref(),
        }
    }

    /// Whether errors with this status of the upstream get a page.
    pub(super) fn replaces_error(&self, status: u16) -> bool {
        self.error_pages().is_some_and(|pages| pages.find(status, true).is_some())
    }

    /// Whether `Accept` decides what an error of the gateway looks like.
    pub(super) fn varies_by_accept(&self, status: u16) -> bool {
        self.error_pages().is_some_and(|pages| pages.find(status, false).is_some())
    }

    /// Whether the client wants the page for an error of the upstream.
    fn wants_page_for(&self, status: u16) -> bool {
        self.error_pages().and_then(|pages| pages.find(status, true)).is_some_and(|page| match &page.source {
            PageSource::File { content_type, .. } => self.wants(content_type),
            PageSource::Upstream { .. } => self.wants(HTML),
        })
    }

    /// The page for an error, if there is one and the client wants it. The fetch ends at `due`.
    ///
    /// # Errors
    /// When the client has disconnected.
    pub(super) async fn page(&mut self, status: u16, is_upstreams: bool, due: u64) -> Result<Option<Page>, Error> {
        let Some(pages) = self.error_pages().cloned() else { return Ok(None) };
        let Some(ErrorPage { source, .. }) = pages.find(status, is_upstreams) else { return Ok(None) };
        match source {
            PageSource::File { content_type, body } => Ok(self
                .wants(content_type)
                .then(|| Page { content_type: content_type.as_bytes().to_vec(), body: body.clone() })),
            PageSource::Upstream { action, path } if self.wants(HTML) => {
                let target = path.replace("{status}", &status.to_string());
                self.fetch_page(action, &target, due).await
            }
            PageSource::Upstream { .. } => Ok(None),
        }
    }

    fn wants(&self, content_type: &str) -> bool {
        let buf = self.down.buffer.whole();
        let named =
            self.scratch.request.fields.iter().filter(|field| field.name.of_buf(buf).eq_ignore_ascii_case(b"accept"));
        let accept: Vec<&[u8]> = named.map(|field| field.value.of_buf(buf)).collect();
        wants_page(accept.iter().copied(), content_type)
    }

    /// What the upstream makes of the status; none if it fails, or has no such page.
    fn fetch_page<'a>(
        &'a mut self,
        action: &'a Proxy,
        target: &'a str,
        due: u64,
    ) -> Pin<Box<dyn Future<Output = Result<Option<Page>, Error>> + 'a>> {
        Box::pin(async move { self.fetch(action, target, due).await })
    }

    async fn fetch(&mut self, action: &Proxy, target: &str, due: u64) -> Result<Option<Page>, Error> {
        let snapshot = self.snapshot.clone();
        let buf = self.down.buffer.whole();
        let host = self.scratch.request.authority.map_or(&b"localhost"[..], |authority| authority.of_buf(buf));
        let choices = [choice(snapshot.config(), action.upstream, action.timeouts)];
        let request = Subrequest {
            service: &snapshot.config().upstreams[action.upstream.0].name,
            choices: &choices,
            action,
            head: encode::get(target.as_bytes(), host, HTML.as_bytes()),
            body: Vec::new(),
            lines: Vec::new(),
            client: self.down.client.clone(),
            origin: self.down.origin.clone(),
            body_bytes: LARGEST,
            is_repeatable: false,
            most: QUESTIONS,
        };
        self.stalls.change(Stall::Gateway);
        let deadline = self.worker.deadlines.add();
        deadline.set_at(due.min(clock::loop_ns().saturating_add(nanos(LONGEST))));
        let mut sent = std::pin::pin!(subrequest::send(self.worker, snapshot.clone(), request));
        let result = std::future::poll_fn(|cx| {
            if let Poll::Ready(result) = sent.as_mut().poll(cx) {
                return Poll::Ready(Ok(result.ok()));
            }
            if deadline.poll_passed(cx) {
                return Poll::Ready(Ok(None));
            }
            poll_client_disconnect(self, cx).map(|()| Err(Error::from(Reason::ClientDisconnected)))
        })
        .await;
        let Some(response) = result? else { return Ok(None) };
        if response.head.status != 200
            || !response.is_whole
            || response.head.fields.first(Known::ContentEncoding, &response.bytes).is_some()
        {
            return Ok(None);
        }
        let content_type =
            response.head.fields.first(Known::ContentType, &response.bytes).unwrap_or(HTML.as_bytes()).to_vec();
        Ok(Some(Page { content_type, body: response.body.into() }))
    }

    /// Puts a page out. `fields` are whole lines.
    pub(super) fn write_page(&mut self, status: u16, page: &Page, fields: &[u8]) {
        let content_type = String::from_utf8_lossy(&page.content_type);
        let framing = self.framing();
        response::write(&mut self.down.out.bytes, status, &content_type, fields, &page.body, framing);
        self.log.status = status;
    }

    /// Keeps what a client acts on of the upstream's error whose head lies in `buf`, if a page takes the place of the rest. The
    /// upstream's connection and its target are free from then on, whatever the page takes.
    pub(super) fn replace_error(&mut self, status: u16, buf: &[u8]) -> bool {
        if self.is_grpc() || !self.wants_page_for(status) {
            return false;
        }
        let Some(route) = self.route else { return false };
        let edits = &self.snapshot.config().routes[route.0].headers.response;
        let mut fields = Vec::new();
        for field in self.scratch.response.fields.iter().filter(|field| !field.is_hop_by_hop()) {
            let name = field.name.of_buf(buf);
            if stays(field.known, name) && !is_edited(edits, name) {
                encode::field(&mut fields, name, field.value.of_buf(buf));
            }
        }
        for (name, value) in edits.set.iter().chain(&edits.add) {
            // What describes the upstream's body is not true of the page.
            if !matches!(Known::of(name.as_bytes()), Known::ContentType | Known::ContentEncoding) {
                encode::field(&mut fields, name.as_bytes(), value.as_bytes());
            }
        }
        encode::field(&mut fields, b"Vary", b"Accept");
        self.replaced = Some(Box::new(Replaced { status, fields }));
        true
    }

    /// Sends the page in place of an error of the upstream; a problem document if there is none until `due`.
    ///
    /// # Errors
    /// When the client does not take it.
    pub(super) async fn send_page_for(&mut self, replaced: Replaced, due: u64) -> Result<(), Error> {
        let Replaced { status, mut fields } = replaced;
        self.log.own = Some("A page replaces the upstream's error");
        let page = match self.page(status, true, due).await? {
            Some(page) => page,
            None => self.problem_of_upstream(status),
        };
        self.skip_body();
        fields.extend_from_slice(&self.scratch.response_lines);
        self.down.out.clear();
        self.write_page(status, &page, &fields);
        self.flush_response().await
    }

    /// What stands for an error of the upstream when its page cannot be had: the body of the response was dropped by then.
    fn problem_of_upstream(&self, status: u16) -> Page {
        let mut body = b"{\"type\":\"about:blank\",\"title\":\"".to_vec();
        let title = encode::reason(status);
        body.extend_from_slice(if title.is_empty() { "Error" } else { title }.as_bytes());
        body.extend_from_slice(b"\",\"status\":");
        encode::decimal(&mut body, u64::from(status));
        body.extend_from_slice(b",\"detail\":\"the upstream responded with this status\",\"request_id\":\"");
        let id = self.scratch.request_id.iter();
        body.extend(id.filter(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\')));
        body.extend_from_slice(b"\"}\n");
        Page { content_type: b"application/problem+json".to_vec(), body: body.into() }
    }
}

/// What clients and caches act on, whatever the page says.
fn stays(known: Known, name: &[u8]) -> bool {
    let named: [&[u8]; 2] = [b"www-authenticate", b"allow"];
    matches!(
        known,
        Known::RetryAfter | Known::SetCookie | Known::Location | Known::CacheControl | Known::Expires | Known::Vary
    ) || named.iter().any(|other| name.eq_ignore_ascii_case(other))
}
