//! A test for each requirement of RFC 9111 sections 3 to 5, RFC 5861, RFC 9211 and RFC 9213 (the first line of its comment says which, and
//! `docs/cache-rfc9111.md` lists them), and tests of everything that these do not name.

mod canonical_json;
mod dates;
mod heads;
mod hostile;
mod keys;
mod modes;
mod properties;
mod ranges;
mod rfc5861;
mod rfc9111_3;
mod rfc9111_4;
mod rfc9111_4_3;
mod rfc9111_5;
mod rfc9211;
mod rfc9213;
mod stored_freshness;
mod table;
mod variants;

use h1::{Limits, Method, RequestHead, ResponseHead};

use super::lines::{LiveLines, StoredLines};
use super::request::{Admission, Bypass, CacheRequest, Incoming, admit};
use super::storable::{NotStored, consider};
use super::targeted::Effective;
use super::*;
use config::{Cache, CacheHeaders, CacheMode, CacheQuery, CacheStore, LimitKey};
use std::time::Duration;

/// Sun, 06 Nov 1994 08:49:37 GMT.
const NOW: u64 = 784_111_777_000;
/// The same.
const DATE: &str = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
const TIMES: Times = Times { sent_ms: NOW, received_ms: NOW };

fn seconds(count: u64) -> u64 {
    count * 1000
}

/// A cache with the defaults of the configuration.
fn config(mode: CacheMode) -> Cache {
    Cache {
        name: "answers".into(),
        mode,
        stores: vec![CacheStore::Memory],
        max_bytes: 1 << 28,
        max_entries: 10_000,
        max_body_bytes: 1 << 20,
        query: CacheQuery::All,
        partition_by: Vec::new(),
        by_consumer: false,
        post_json: false,
        strips_set_cookie: false,
        stale_if_error: None,
        stale_while_revalidate: None,
        tags: Vec::new(),
        headers: CacheHeaders { age: true, x_cache: true, cache_status: true },
    }
}

/// Mode `http`, changed as the test likes.
fn http_with(change: impl FnOnce(&mut Cache)) -> Policy {
    let mut cache = config(CacheMode::Http { default_ttl: None });
    change(&mut cache);
    Policy::new(&cache, [], "")
}

fn http() -> Policy {
    http_with(|_| {})
}

/// Mode `http` with a heuristic lifetime of 100 s.
fn guessing() -> Policy {
    http_with(|cache| cache.mode = CacheMode::Http { default_ttl: Some(Duration::from_secs(100)) })
}

/// Mode `ttl`, 300 s.
fn ttl() -> Policy {
    Policy::new(&config(CacheMode::Ttl(Duration::from_secs(300))), [], "")
}

/// A limit that keys on this field.
fn by_field(name: &str) -> LimitKey {
    LimitKey::Header(name.into())
}

/// A request that has come.
struct Request {
    buf: Vec<u8>,
    head: RequestHead,
}

impl Request {
    fn new(method: &str, fields: &str) -> Self {
        Self::of(method, "/a", fields)
    }

    fn of(method: &str, target: &str, fields: &str) -> Self {
        let buf = format!("{method} {target} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n").into_bytes();
        let mut head = RequestHead::default();
        head.parse(&buf, 0, buf.len(), &Limits::default()).unwrap();
        Request { buf, head }
    }

    fn lines(&self) -> LiveLines<'_> {
        LiveLines::new(&self.head.fields, &self.buf)
    }

    fn admit(&self, policy: &Policy) -> Admission {
        admit(
            policy,
            Incoming {
                method: self.head.method,
                query: self.head.query.map(|query| query.of_buf(&self.buf)),
                has_content: self.head.body != h1::BodyKind::None,
                is_upgrade: self.head.upgrade,
                lines: self.lines(),
            },
        )
    }

    fn wanted(&self, policy: &Policy) -> CacheRequest {
        match self.admit(policy) {
            Admission::Use(wanted) => wanted,
            Admission::Bypass(bypass) => panic!("goes around the cache: {bypass:?}"),
        }
    }

    fn bypass(&self, policy: &Policy) -> Bypass {
        match self.admit(policy) {
            Admission::Use(wanted) => panic!("uses the cache: {wanted:?}"),
            Admission::Bypass(bypass) => bypass,
        }
    }
}

fn get(fields: &str) -> Request {
    Request::new("GET", fields)
}

/// What a GET with these fields requires in mode `http`.
fn request_with(fields: &str) -> CacheRequest {
    get(fields).wanted(&http())
}

/// A response that has come.
struct Response {
    buf: Vec<u8>,
    head: ResponseHead,
}

impl Response {
    fn new(status: u16, fields: &str) -> Self {
        let buf = format!("HTTP/1.1 {status} \r\n{fields}\r\n").into_bytes();
        let mut head = ResponseHead::default();
        head.parse(&buf, 0, buf.len(), Method::Get, &Limits::default()).unwrap();
        Response { buf, head }
    }

    fn lines(&self) -> LiveLines<'_> {
        LiveLines::new(&self.head.fields, &self.buf)
    }

    fn consider(&self, policy: &Policy, wanted: &CacheRequest) -> Result<Freshness, NotStored> {
        consider(policy, wanted, self.head.status, self.lines(), &Effective::read(self.lines()), TIMES)
    }

    /// Its lines as they are stored.
    fn stored(&self, policy: &Policy) -> Vec<u8> {
        let mut stored = Vec::new();
        head::store(policy, self.lines(), &Effective::read(self.lines()), NOW, &mut stored);
        stored
    }
}

/// What happens to a 200 with these fields, that a plain GET got now in mode `http`; `Date` is added.
fn store(fields: &str) -> Result<Freshness, NotStored> {
    Response::new(200, &format!("{DATE}{fields}")).consider(&http(), &request_with(""))
}

/// The terms of a 200 with these fields.
fn freshness(fields: &str) -> Freshness {
    store(fields).unwrap()
}

/// Whether a stored 200 with these response fields responds to a GET with those request fields, so many seconds later.
fn reuse(response: &str, request: &str, later_s: u64) -> reuse::Reuse {
    reuse::assess(&freshness(response), &request_with(request), NOW + seconds(later_s))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}
