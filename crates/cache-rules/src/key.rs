//! The primary key: which requests may share a response (RFC 9111 section 2), and never across partitions.
//!
//! ```text
//! scheme://host/path?query 00 class  configuration  authority  forwarded  partition values  [SHA-256 of the JSON body]
//! ```
//!
//! It begins with the URL, so that a purge by URL or by prefix compares the beginning of keys. Two different sets of inputs never have the same
//! bytes: each part has a length or an end.
//!
//! The authority comes a second time where a client wrote it in another form than that of the URL (`A.example`, `a.example:80`). It is forwarded as it
//! came, and origins make links of it, or choose a site by it.

use message::validate::push_lower;
use sha2::{Digest, Sha256};

use super::lines::Lines;
use super::request::Class;
use super::{Policy, forwarded, json, query};

/// A target URI in parts.
#[derive(Debug, Clone, Copy)]
pub struct Url<'a> {
    /// `http` or `https`: as the client sees it, which behind a trusted proxy is what `X-Forwarded-Proto` says.
    pub scheme: &'a [u8],
    /// Host and port as they came; empty where there is none.
    pub authority: &'a [u8],
    /// Path in the one form that [`normalise`](message::path::normalise) gives it.
    pub path: &'a [u8],
    /// Query without `?`.
    pub query: Option<&'a [u8]>,
}

impl Policy {
    /// Appends the URL part of a key, which is also what invalidation and purges name: scheme and host in lower case, default ports left out, of the
    /// query what counts.
    pub fn write_url(&self, url: &Url<'_>, out: &mut Vec<u8>) {
        match url.scheme {
            b"http" => out.extend_from_slice(b"http://"),
            scheme => {
                push_lower(out, scheme);
                out.extend_from_slice(b"://");
            }
        }
        push_lower(out, without_default_port(url.scheme, url.authority));
        out.extend_from_slice(url.path);
        query::write(&self.query, url.query, out);
    }

    /// Appends the primary key of a request. What a trusted peer says of the URL that the client requested is part of it: it is passed on as it came, and
    /// origins make links of it. `body` belongs to POST and to nothing else. Returns where the class stands.
    pub fn write_key<'a>(
        &self,
        class: Class,
        url: &Url<'_>,
        peer_is_trusted: bool,
        request: impl Lines<'a>,
        body: Option<&BodyDigest>,
        out: &mut Vec<u8>,
    ) -> usize {
        let authority_at = out.len() + url.scheme.len() + b"://".len();
        self.write_url(url, out);
        // The form in the URL is never longer than the one that came: where that stands there as it is, it has no other.
        let is_normal = out[authority_at..].starts_with(url.authority);
        out.push(0);
        let class_at = out.len();
        out.push(class.byte());
        sized(out, &self.fingerprint);
        if is_normal {
            out.push(0);
        } else {
            out.push(1);
            sized(out, url.authority);
        }
        if peer_is_trusted {
            forwarded::write(request, out);
        } else {
            out.extend_from_slice(forwarded::NOTHING);
        }
        for (known, name) in &self.partition_by {
            // A field that came in several lines is not the same as one line with a comma: both are distinguished.
            for value in request.all().filter(|line| line.known == *known && line.is(name.as_bytes())) {
                out.push(1);
                sized(out, value.value);
            }
            out.push(0);
        }
        if let Some(BodyDigest(digest)) = body {
            out.extend_from_slice(digest);
        }
        class_at
    }
}

/// Turns the key of one class into that of another: HEAD is looked up under GET first.
pub fn set_class(key: &mut [u8], class: Class) {
    if let Some(end) = memchr::memchr(0, key)
        && let Some(byte) = key.get_mut(end + 1)
    {
        *byte = class.byte();
    }
}

/// The URL part of a key.
pub fn url_of(key: &[u8]) -> &[u8] {
    &key[..memchr::memchr(0, key).unwrap_or(key.len())]
}

/// SHA-256 of a key, for stores that outlive this process or are shared: the same everywhere, and it tells nothing of the credentials that a
/// partition holds. No two keys with the same digest are known to exist, so that it stands for the bytes.
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Digest of a JSON body in its canonical form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyDigest(pub [u8; 32]);

impl BodyDigest {
    /// Digest of a body; `scratch` is cleared first.
    ///
    /// # Errors
    /// When the body has no canonical form: the request bypasses the cache.
    pub fn of(body: &[u8], scratch: &mut Vec<u8>) -> Result<Self, json::NotCanonical> {
        scratch.clear();
        json::write_canonical(body, scratch)?;
        Ok(BodyDigest(Sha256::digest(&scratch).into()))
    }
}

/// Appends bytes behind their length.
pub fn sized(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// RFC 9110 section 4.2.3: an empty port and the default one mean no port.
pub fn without_default_port<'a>(scheme: &[u8], authority: &'a [u8]) -> &'a [u8] {
    let default: &[u8] = if scheme.eq_ignore_ascii_case(b"https") { b":443" } else { b":80" };
    authority.strip_suffix(default).or_else(|| authority.strip_suffix(b":")).unwrap_or(authority)
}
