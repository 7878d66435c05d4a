//! The requirements of RFC 9111 sections 3 to 5, RFC 5861, RFC 9211 and RFC 9213 as a client and an origin see them: each test is named after
//! what it shows. The rules have their own tests (the crate `cache-rules`), which go through the arithmetic; here it is seen that the
//! gateway does what they say.

mod directives;
mod reuse;
mod storing;
mod validation;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use testkit::http::Message;
use testkit::{Conn, Upstream, Weir, WireError};

use crate::{gateway, x_cache};

/// An origin that responds as the request's `X-Reply` says, and a gateway before it.
///
/// A reply is `STATUS|Field: value|Field: value|=body`; `@-10` and `@+10` in a value stand for the date ten seconds ago and to come. Without `=body`
/// the body is `answer N`, and N counts the requests.
struct Rig {
    origin: Upstream,
    weir: Weir,
    paths: AtomicUsize,
}

impl Rig {
    fn new(cache: &str) -> Self {
        let count = AtomicUsize::new(0);
        let origin = Upstream::start(move |conn, request| {
            let number = count.fetch_add(1, Ordering::SeqCst) + 1;
            response(conn, request, number)
        });
        let weir = gateway(&origin, cache);
        Rig { origin, weir, paths: AtomicUsize::new(0) }
    }

    fn http() -> Self {
        Rig::new("{mode: http}")
    }

    /// A path that nobody requested yet.
    fn path(&self) -> String {
        format!("/{}", self.paths.fetch_add(1, Ordering::SeqCst))
    }

    fn send(&self, method: &str, path: &str, response: &str, fields: &[(&str, &str)]) -> Message {
        let mut all = vec![("X-Reply", response)];
        all.extend(fields);
        self.weir.request(method, path, &all, "")
    }

    fn get(&self, path: &str, response: &str, fields: &[(&str, &str)]) -> Message {
        self.send("GET", path, response, fields)
    }

    /// The last request that the origin saw.
    fn seen(&self) -> testkit::Recorded {
        self.origin.requests().pop().expect("a request")
    }

    /// Whether, where the origin responds so, a request with `second` is served what a request with `first` fetched.
    fn serves(&self, response: &str, first: &[(&str, &str)], second: &[(&str, &str)]) -> bool {
        let path = self.path();
        let fetched = self.get(&path, response, first);
        // Without the requests that revalidate in the background for an earlier client.
        let requested = || self.origin.requests().iter().filter(|request| request.head.target() == path).count();
        let before = requested();
        let again = self.get(&path, response, second);
        let is_served = x_cache(&again) == Some("HIT");
        // Bodies are numbered. Behind the back of one that was served stale the origin may be called.
        assert!(!is_served || again.body == fetched.body, "{response}: {again:?}");
        assert!(is_served || requested() == before + 1, "{response}: {again:?}");
        is_served
    }

    /// Whether the second of two like requests is served from the store.
    fn stores(&self, response: &str) -> bool {
        self.serves(response, &[], &[])
    }
}

fn response(conn: &mut Conn, request: &Message, number: usize) -> Result<(), WireError> {
    let script = request.head.field("x-reply").unwrap_or("200").to_owned();
    let mut parts = script.split('|');
    let status = parts.next().and_then(|status| status.parse().ok()).expect("a status");
    let mut fields: Vec<(String, String)> = Vec::new();
    let mut body = format!("answer {number}");
    for part in parts {
        match (part.strip_prefix('='), part.split_once(": ")) {
            (Some(text), _) => text.clone_into(&mut body),
            (None, Some((name, value))) => fields.push((name.to_owned(), dates(value))),
            (None, None) => panic!("`{part}` in the script of a reply"),
        }
    }
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
    conn.respond(status, &fields, body)
}

fn dates(value: &str) -> String {
    match value.strip_prefix('@').and_then(|offset| offset.parse::<i64>().ok()) {
        Some(offset) => http_date(offset),
        None => value.to_owned(),
    }
}

/// The date so many seconds from now.
fn http_date(offset: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let line = h1::encode::date_of_second(now.saturating_add_signed(offset));
    std::str::from_utf8(&line).unwrap().trim_start_matches("Date: ").trim_end().to_owned()
}

fn age(response: &Message) -> Option<u64> {
    response.field("age").map(|age| age.parse().expect("a number of seconds"))
}

fn cache_status(response: &Message) -> &str {
    response.field("cache-status").expect("Cache-Status")
}
