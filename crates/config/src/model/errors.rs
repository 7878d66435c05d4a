//! Pages for errors, copies of requests, injected faults.

use std::sync::Arc;
use std::time::Duration;

use super::{HeaderEdits, Proxy};

/// Pages by status; the more exact ones come first.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorPages(pub Vec<ErrorPage>);

impl ErrorPages {
    /// The page for a status.
    pub fn find(&self, status: u16, is_upstreams: bool) -> Option<&ErrorPage> {
        let page = self.0.iter().find(|page| (page.first..=page.last).contains(&status))?;
        (page.of_upstream || !is_upstreams).then_some(page)
    }
}

/// What a browser gets for an error.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorPage {
    /// First status that it is for.
    pub first: u16,
    /// Last status.
    pub last: u16,
    /// Also for errors of the upstream.
    pub of_upstream: bool,
    /// Where it comes from.
    pub source: PageSource,
}

/// Where a page comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum PageSource {
    /// It was read with the configuration.
    File {
        /// Media type.
        content_type: &'static str,
        /// The page.
        body: Arc<[u8]>,
    },
    /// An upstream makes it.
    Upstream {
        /// The way there.
        action: Box<Proxy>,
        /// Path, with `{status}` for the status.
        path: Arc<str>,
    },
}

/// Copies of requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Mirror {
    /// The way to the upstream that gets them.
    pub action: Proxy,
    /// Edits of their heads.
    pub edits: HeaderEdits,
    /// Share of requests that are copied, 0.0 to 1.0.
    pub share: f64,
    /// Methods that are copied.
    pub methods: Vec<Arc<str>>,
    /// Largest body that is copied.
    pub body_bytes: usize,
}

/// A fault that is injected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InjectedFault {
    /// How long a request is held back.
    pub delay: Option<Duration>,
    /// Status in place of the route's response.
    pub status: Option<u16>,
    /// Share of requests, 0.0 to 1.0.
    pub share: f64,
}
