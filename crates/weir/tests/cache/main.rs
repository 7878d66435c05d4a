//! The cache, end to end: a real gateway between raw clients and origins that count their requests.

mod coalescing;
mod expiry;
mod http;
mod keys;
mod limits;
mod operate;
mod purges;
mod redis;
mod rfc;
mod ttl;

use std::time::Duration;

use testkit::http::Message;
use testkit::{Conn, Upstream, Weir, WireError};

pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A gateway whose every path goes to `origin` through the cache `c`, described by `cache`; `more` is appended to the file, at the
/// level of a route.
pub(crate) fn gateway_with(origin: &Upstream, cache: &str, top: &str, more: &str) -> Weir {
    let yaml = format!(
        "listen: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nworkers: 2\n{top}\nupstreams:\n  u:\n    targets: [{}]\n    retry: {{extra_attempts: 0}}\n\
         caches:\n  c: {cache}\nroutes:\n  - match: {{path: /*}}\n    upstream: u\n    cache: c\n{more}",
        origin.url()
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

pub(crate) fn gateway(origin: &Upstream, cache: &str) -> Weir {
    gateway_with(origin, cache, "", "")
}

/// A number out of `/cachez`.
pub(crate) fn count(weir: &Weir, name: &str) -> u64 {
    let document = weir.admin_get("/cachez");
    let text = document.text();
    let start = text.find(&format!("\"{name}\":")).unwrap_or_else(|| panic!("no {name} in {text}")) + name.len() + 3;
    text[start..].chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

/// Responds with these fields and how many requests came so far.
pub(crate) fn counting(
    fields: &'static [(&'static str, &'static str)],
) -> impl Fn(&mut Conn, &Message) -> Result<(), WireError> + Send + Sync + 'static {
    let count = std::sync::atomic::AtomicUsize::new(0);
    move |conn, _| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
        conn.respond(200, fields, format!("answer {number}"))
    }
}

pub(crate) fn x_cache(response: &Message) -> Option<&str> {
    response.field("x-cache")
}
