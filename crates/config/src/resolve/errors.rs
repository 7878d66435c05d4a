//! Pages for errors.

use std::path::Path;
use std::sync::Arc;

use super::Resolver;
use crate::raw;
use crate::raw::shape::{OrNone, Spanned};
use crate::raw::target::check_path;
use crate::{ErrorPage, ErrorPages, PageSource, Proxy, Rewrite, TimeoutOverrides, UpstreamId};

/// Largest file of a page.
const LARGEST: usize = 256 << 10;

impl Resolver<'_> {
    /// The pages of `defaults`.
    pub(super) fn default_errors(&mut self) -> Option<Arc<ErrorPages>> {
        let file = self.file;
        file.defaults.errors.as_option().map(|raw| self.error_pages(raw))
    }

    /// The pages of a route.
    pub(super) fn route_errors(
        &mut self,
        raw: &raw::Route,
        default: Option<&Arc<ErrorPages>>,
    ) -> Option<Arc<ErrorPages>> {
        match &raw.errors {
            None if raw.ai.is_some() => None,
            None => default.cloned(),
            Some(own) => {
                if raw.ai.is_some() && own.as_option().is_some() {
                    self.problem(own.origin, "clients of AI APIs read errors as JSON; a route with `ai` has no pages");
                }
                match &own.value {
                    OrNone::None => None,
                    OrNone::Some(pages) => Some(self.error_pages(pages)),
                }
            }
        }
    }

    fn error_pages(&mut self, raw: &raw::ErrorPages) -> Arc<ErrorPages> {
        let mut pages: Vec<ErrorPage> = raw.iter().filter_map(|(key, page)| self.error_page(key, page)).collect();
        pages.sort_by_key(|page| page.last - page.first);
        Arc::new(ErrorPages(pages))
    }

    fn error_page(&mut self, key: &Spanned<String>, raw: &Spanned<raw::ErrorPage>) -> Option<ErrorPage> {
        let Some((first, last)) = statuses(key) else {
            let message = format!("`{}` is not an error; write a status from 400 to 599, `4xx` or `5xx`", key.value);
            self.problem(key.origin, message);
            return None;
        };
        let source = match (&raw.file, &raw.upstream) {
            (Some(file), None) => self.page_file(file)?,
            (None, Some(name)) => {
                self.check(raw.path.origin, check_path(&raw.path.replace("{status}", "500")));
                let action = Box::new(way_to(self.upstream_id(name)));
                PageSource::Upstream { action, path: raw.path.as_str().into() }
            }
            _ => {
                self.problem(raw.origin, "a page needs either `file` or `upstream`");
                return None;
            }
        };
        Some(ErrorPage { first, last, of_upstream: raw.of == raw::ErrorsOf::Upstream, source })
    }

    fn page_file(&mut self, file: &Spanned<String>) -> Option<PageSource> {
        let path = self.folder.join(file.as_str());
        let content_type = match path.extension().and_then(|end| end.to_str()) {
            Some("html" | "htm") => "text/html; charset=utf-8",
            Some("txt") => "text/plain; charset=utf-8",
            Some("json") => "application/json",
            Some("xml") => "application/xml",
            _ => {
                let message = format!("the name of `{}` must end in `.html`, `.txt`, `.json` or `.xml`", file.value);
                self.problem(file.origin, message);
                return None;
            }
        };
        match self.watched(&path) {
            Ok(body) if body.len() <= LARGEST => Some(PageSource::File { content_type, body: body.into() }),
            Ok(body) => {
                let message = format!("`{}` has {} bytes; a page may have {LARGEST}", file.value, body.len());
                self.problem(file.origin, message);
                None
            }
            Err(error) => {
                self.problem(file.origin, format!("cannot read {}: {error}", path.display()));
                None
            }
        }
    }

    /// Reads a file whose changes cause a reload.
    fn watched(&mut self, path: &Path) -> std::io::Result<Vec<u8>> {
        if !self.tls_files.iter().any(|known| known == path) {
            self.tls_files.push(path.to_owned());
        }
        (self.read_file)(path)
    }
}

fn statuses(key: &str) -> Option<(u16, u16)> {
    match key {
        "4xx" => Some((400, 499)),
        "5xx" => Some((500, 599)),
        _ => key.parse().ok().filter(|status| (400..600).contains(status)).map(|status| (status, status)),
    }
}

/// Forwarding to one upstream, and nothing else.
pub(super) fn way_to(upstream: UpstreamId) -> Proxy {
    Proxy {
        upstream,
        split: None,
        fallback: Vec::new(),
        rewrite: Rewrite::None,
        host: None,
        timeouts: TimeoutOverrides::default(),
        upgrade: Vec::new(),
        forwards_trailers: false,
    }
}
