//! What a route's cache is configured to do, in the form that requests need.

use std::sync::Arc;
use std::time::Duration;

use h1::Known;

use super::key::sized;
use config::ForgedNames;
use config::{Cache, CacheHeaders, CacheMode, CacheQuery, LimitKey};
use message::path;

/// A cache as one route uses it. Made when the configuration is loaded.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Fixed time or RFC 9111.
    pub mode: Mode,
    /// Which of the query is part of the key.
    pub query: CacheQuery,
    /// Request fields that separate tenants, in lower case.
    pub partition_by: Vec<(Known, Arc<str>)>,
    /// Whether the authenticated consumer is part of the key.
    pub by_consumer: bool,
    /// Request fields, beside `Authorization` and `Cookie`, that a limit of the route keys on and that separate no tenants.
    pub guarded: Vec<Arc<str>>,
    /// Query parameters that a limit of the route keys on and that are no part of the key.
    pub guarded_query: Vec<Arc<str>>,
    /// Whether `Authorization` separates tenants.
    pub authorization_partitions: bool,
    /// Whether `Cookie` separates tenants.
    pub cookie_partitions: bool,
    /// POST is keyed by the canonical form of its JSON body.
    pub post_json: bool,
    /// Responses are stored and sent without `Set-Cookie`.
    pub strips_set_cookie: bool,
    /// RFC 5861, where the origin does not say; milliseconds.
    pub stale_if_error_ms: Option<u64>,
    /// RFC 5861, where the origin does not say; milliseconds.
    pub stale_while_revalidate_ms: Option<u64>,
    /// Field of the request id, which is never stored: each response has its own. Lower case.
    pub request_id: Arc<str>,
    /// Fields that authentication writes: what the upstream saw in them is not what a request shows.
    pub unseen: ForgedNames,
    /// How paths are read.
    pub path: path::Policy,
    /// Fields that are written.
    pub headers: CacheHeaders,
    /// Is in every key: a response stored under other rules is never found.
    pub(super) fingerprint: Box<[u8]>,
}

/// How freshness is decided; times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Every 200 for the same time.
    Ttl(u64),
    /// RFC 9111.
    Http {
        /// Heuristic freshness (section 4.2.2).
        default_ttl_ms: Option<u64>,
    },
}

impl Policy {
    /// Makes a route's policy. `limited_by` is what the route's limits key on. `matched_by` is
    /// what distinguishes the route from others of the same URL: two of them must not share responses.
    pub fn new<'a>(cache: &Cache, limited_by: impl IntoIterator<Item = &'a LimitKey>, matched_by: &str) -> Self {
        let partitions = |name: &str| cache.partition_by.iter().any(|field| field.eq_ignore_ascii_case(name));
        let (mut guarded, mut guarded_query): (Vec<Arc<str>>, Vec<Arc<str>>) = Default::default();
        for key in limited_by {
            match (key, &cache.query) {
                (LimitKey::Header(name), _) => {
                    let is_credential = ["authorization", "cookie"].iter().any(|own| name.eq_ignore_ascii_case(own));
                    if !partitions(name) && !is_credential {
                        guarded.push(name.to_ascii_lowercase().into());
                    }
                }
                // In every other query it separates tenants by itself.
                (LimitKey::Query(name), CacheQuery::Only(names)) if !names.contains(name) => {
                    guarded_query.push(name.clone());
                }
                // A cached route has no authentication, so nobody has an identity there.
                (
                    LimitKey::Consumer
                    | LimitKey::VirtualKey
                    | LimitKey::Team
                    | LimitKey::Tier
                    | LimitKey::Claim(_)
                    | LimitKey::Meta(_),
                    _,
                ) => {}
                (LimitKey::Query(_) | LimitKey::ClientIp | LimitKey::Route | LimitKey::Model | LimitKey::Global, _) => {
                }
            }
        }
        for names in [&mut guarded, &mut guarded_query] {
            names.sort();
            names.dedup();
        }
        Policy {
            mode: match &cache.mode {
                CacheMode::Ttl(ttl) => Mode::Ttl(millis(*ttl)),
                CacheMode::Http { default_ttl } => Mode::Http { default_ttl_ms: default_ttl.map(millis) },
                // Its own rules decide what is stored.
                CacheMode::Llm(calls) => Mode::Ttl(millis(calls.ttl)),
            },
            query: cache.query.clone(),
            partition_by: cache
                .partition_by
                .iter()
                .map(|name| (Known::of(name.as_bytes()), name.to_ascii_lowercase().into()))
                .collect(),
            by_consumer: cache.by_consumer,
            authorization_partitions: partitions("authorization"),
            cookie_partitions: partitions("cookie"),
            post_json: cache.post_json,
            strips_set_cookie: cache.strips_set_cookie,
            stale_if_error_ms: cache.stale_if_error.map(millis),
            stale_while_revalidate_ms: cache.stale_while_revalidate.map(millis),
            request_id: Known::XRequestId.name().into(),
            unseen: ForgedNames::default(),
            path: path::Policy::default(),
            headers: cache.headers,
            fingerprint: fingerprint(cache, &guarded, &guarded_query, matched_by),
            guarded,
            guarded_query,
        }
    }

    /// The same where the request id has another field. The name becomes a part of every key: what was stored before may hold that field.
    #[must_use]
    pub fn with_request_id(mut self, name: &str) -> Self {
        if !name.eq_ignore_ascii_case(&self.request_id) {
            self.request_id = name.to_ascii_lowercase().into();
            let mut fingerprint = std::mem::take(&mut self.fingerprint).into_vec();
            sized(&mut fingerprint, b"id");
            sized(&mut fingerprint, self.request_id.as_bytes());
            self.fingerprint = fingerprint.into();
        }
        self
    }

    /// The same where paths are read in another way. What was stored before is found only under a path that both read alike.
    #[must_use]
    pub fn with_path(self, path: path::Policy) -> Self {
        Policy { path, ..self }
    }

    /// The same where authentication writes these fields.
    #[must_use]
    pub fn with_unseen(self, unseen: ForgedNames) -> Self {
        Policy { unseen, ..self }
    }

    /// Whether responses say themselves how long they are fresh.
    pub fn is_http(&self) -> bool {
        matches!(self.mode, Mode::Http { .. })
    }
}

/// Everything in the configuration that decides which requests share a response.
fn fingerprint(cache: &Cache, guarded: &[Arc<str>], guarded_query: &[Arc<str>], matched_by: &str) -> Box<[u8]> {
    let mut bytes = Vec::new();
    let mut text = |text: &str| sized(&mut bytes, text.as_bytes());
    text(&cache.name);
    text(match &cache.mode {
        CacheMode::Ttl(_) => "ttl",
        CacheMode::Http { .. } => "http",
        CacheMode::Llm(_) => "llm",
    });
    text(matched_by);
    match &cache.query {
        CacheQuery::All => text("all"),
        CacheQuery::Sorted => text("sorted"),
        CacheQuery::Only(names) => {
            text("only");
            names.iter().for_each(|name| text(name));
        }
    }
    text("by");
    cache.partition_by.iter().for_each(|name| text(&name.to_ascii_lowercase()));
    if cache.by_consumer {
        text("consumer");
    }
    text("guarded");
    guarded.iter().for_each(|name| text(name));
    text("query");
    guarded_query.iter().for_each(|name| text(name));
    if cache.strips_set_cookie {
        text("without set-cookie");
    }
    bytes.into_boxed_slice()
}

fn millis(time: Duration) -> u64 {
    // 2^53 ms are 285,000 years: sums of a few of them cannot overflow.
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).min(1 << 53)
}
