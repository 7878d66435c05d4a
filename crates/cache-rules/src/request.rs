//! Which requests the cache has a part in, and what they require of it.

use h1::{Known, Method};

use super::Policy;
use super::cache_control::RequestControl;
use super::lines::Lines;
use super::list;
use super::query;
use super::status::Fwd;

/// Which stored responses can serve a request. Part of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// GET.
    Get,
    /// HEAD: served from responses to GET, else from responses to HEAD.
    Head,
    /// POST with a JSON body, where that is configured.
    Post,
}

impl Class {
    /// What stands for it in keys and stores.
    pub fn byte(self) -> u8 {
        match self {
            Class::Get => b'G',
            Class::Head => b'H',
            Class::Post => b'P',
        }
    }

    /// Reads [`byte`](Self::byte).
    pub fn of_byte(byte: u8) -> Option<Self> {
        [Class::Get, Class::Head, Class::Post].into_iter().find(|class| class.byte() == byte)
    }
}

/// What a request requires of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheRequest {
    /// Which stored responses can serve it.
    pub class: Class,
    /// Its directives; all absent in mode `ttl`.
    pub control: RequestControl,
    /// Carries `Authorization`, which separates no tenants: only what RFC 9111 section 3.5 allows.
    pub is_authorized: bool,
    /// Carries a cookie, or a field or query parameter that a limit keys on, which separates no tenants: only what is expressly for all.
    pub is_guarded: bool,
    /// GET with `Range`.
    pub has_range: bool,
    /// Carries `If-None-Match` or `If-Modified-Since`.
    pub is_conditional: bool,
}

impl CacheRequest {
    /// Whether it wants a response from the cache or none: 504 where the cache has none that it may give (RFC 9111 section 5.2.1.7).
    pub fn must_not_forward(&self) -> bool {
        self.control.only_if_cached
    }

    /// Whether it carries credentials that separate no tenants: it may be sent only what the origin says is for all.
    pub fn has_credentials(&self) -> bool {
        self.is_authorized || self.is_guarded
    }

    /// Whether its own fields let the upstream respond with less than the whole: with a part, or with 304. Such a response is never stored,
    /// except a 206 that holds everything.
    pub fn may_get_less(&self) -> bool {
        self.has_range || self.is_conditional
    }
}

/// Why a request bypasses the cache: it is not served from it, and its response is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bypass {
    /// Not a method that is cached.
    Method,
    /// Has content that the key does not cover.
    Content,
    /// Requests another protocol.
    Upgrade,
    /// Carries `Authorization`, a cookie, or a field or query parameter that a limit keys on, in mode `ttl`.
    Credentials,
    /// Says `no-store`.
    NoStore,
    /// Has a precondition that only the origin can evaluate (RFC 9111 section 4.3.2).
    OriginPrecondition,
    /// POST whose content is not called plain JSON.
    NotJson,
}

impl Bypass {
    /// What `Cache-Status` calls it.
    pub fn fwd(self) -> Fwd {
        match self {
            Bypass::Method => Fwd::Method,
            _ => Fwd::Bypass,
        }
    }
}

/// The cache's part in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Look it up, and store the response where the rules allow. A POST must have its body as canonical JSON for the key first; if that
    /// fails it bypasses the cache.
    Use(CacheRequest),
    /// Around the cache.
    Bypass(Bypass),
}

/// A request, as far as the cache cares.
#[derive(Debug, Clone, Copy)]
pub struct Incoming<'a, L> {
    /// Method.
    pub method: Method,
    /// Query without `?`.
    pub query: Option<&'a [u8]>,
    /// Whether there is content, of whatever length.
    pub has_content: bool,
    /// Whether it requests an upgrade.
    pub is_upgrade: bool,
    /// Fields, as they came from the client.
    pub lines: L,
}

/// The fields that [`admit`] reads, beside those that a limit keys on: most requests have none of them.
const READ: u64 = Known::CacheControl.bit()
    | Known::Authorization.bit()
    | Known::Cookie.bit()
    | Known::Range.bit()
    | Known::IfNoneMatch.bit()
    | Known::IfModifiedSince.bit()
    | Known::IfMatch.bit()
    | Known::IfUnmodifiedSince.bit()
    | Known::ContentType.bit()
    | Known::ContentEncoding.bit();

/// Decides on a request, in one pass over its fields.
pub fn admit<'a, L: Lines<'a>>(policy: &Policy, request: Incoming<'a, L>) -> Admission {
    let class = match request.method {
        Method::Get => Class::Get,
        Method::Head => Class::Head,
        Method::Post if policy.post_json => Class::Post,
        _ => return Admission::Bypass(Bypass::Method),
    };
    if request.is_upgrade {
        return Admission::Bypass(Bypass::Upgrade);
    }
    // Some origins read the content of a GET. The key does not cover it, so that one client could plant its response for all.
    if request.has_content && class != Class::Post {
        return Admission::Bypass(Bypass::Content);
    }
    let mut wanted = CacheRequest {
        class,
        control: RequestControl::default(),
        is_authorized: false,
        is_guarded: false,
        has_range: false,
        is_conditional: false,
    };
    let mut is_json = false;
    let mut is_encoded = false;
    let mut has_origin_precondition = false;
    if !policy.guarded.is_empty() || request.lines.may_have(READ) {
        for line in request.lines.all() {
            match line.known {
                Known::CacheControl => wanted.control.add(line.value),
                Known::Authorization => wanted.is_authorized |= !policy.authorization_partitions,
                Known::Cookie => wanted.is_guarded |= !policy.cookie_partitions,
                Known::Range => wanted.has_range |= class == Class::Get,
                Known::IfNoneMatch | Known::IfModifiedSince => wanted.is_conditional = true,
                Known::IfMatch | Known::IfUnmodifiedSince => has_origin_precondition = true,
                Known::ContentType => is_json = is_plain_json(line.value),
                Known::ContentEncoding => is_encoded = true,
                _ => {}
            }
            if !policy.guarded.is_empty() {
                wanted.is_guarded |= policy.guarded.iter().any(|name| line.is(name.as_bytes()));
            }
        }
    }
    if let Some(query) = request.query {
        wanted.is_guarded |= policy.guarded_query.iter().any(|name| query::has(query, name));
    }
    if wanted.control.no_store {
        return Admission::Bypass(Bypass::NoStore);
    }
    // To a POST a matching tag means 412, which is the origin's to say.
    if has_origin_precondition || (class == Class::Post && wanted.is_conditional) {
        return Admission::Bypass(Bypass::OriginPrecondition);
    }
    if class == Class::Post && (!is_json || is_encoded || !request.has_content) {
        return Admission::Bypass(Bypass::NotJson);
    }
    if !policy.is_http() {
        if wanted.is_authorized || wanted.is_guarded {
            return Admission::Bypass(Bypass::Credentials);
        }
        // A fixed time is for the origin's protection: clients have no say in it.
        wanted.control = RequestControl::default();
    }
    Admission::Use(wanted)
}

/// `application/json`, with no parameter but `charset=utf-8`.
fn is_plain_json(content_type: &[u8]) -> bool {
    let mut parts = content_type.split(|&byte| byte == b';').map(list::trim);
    parts.next().is_some_and(|essence| essence.eq_ignore_ascii_case(b"application/json"))
        && parts.all(|parameter| {
            parameter.is_empty()
                || parameter.eq_ignore_ascii_case(b"charset=utf-8")
                || parameter.eq_ignore_ascii_case(b"charset=\"utf-8\"")
        })
}
