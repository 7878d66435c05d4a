//! The documents of `/healthz` and `/cachez`, for the admin listener and for the public routes that serve the same.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::observe::CacheTotals;
use crate::redis::{Purpose, Redis};
use crate::upstream::{Health, TargetSnapshot, UpstreamSnapshot};

/// Appends the document of `/healthz`: `{"ok":true,"service":"weir","uptime_ms":12345,"targets":{...}}`.
///
/// `ok` says that this process takes requests, whatever the state of its upstreams. `targets` has each upstream by its
/// name: `url` and `healthy`, which is the verdict of the active checks (what is not checked counts as healthy). An
/// upstream that has not exactly one target has `healthy`, which is true when any of them is, and the list `targets`
/// with the same of each.
///
/// Where a Redis is configured, `redis` has `up`, `degraded` or `unused` for each use of it; a Redis that does not serve is no failure of
/// this process, which goes on as configured for that.
pub fn write_healthz(
    out: &mut Vec<u8>,
    ok: bool,
    uptime_ms: u64,
    upstreams: &[UpstreamSnapshot],
    redis: Option<&Redis>,
) {
    #[derive(Serialize)]
    struct Document<'a> {
        ok: bool,
        service: &'static str,
        uptime_ms: u64,
        targets: Targets<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        redis: Option<BTreeMap<&'static str, &'static str>>,
    }
    let redis = redis.map(|redis| Purpose::ALL.map(|use_| (use_.name(), redis.state(use_).name())).into());
    let document = Document { ok, service: "weir", uptime_ms, targets: Targets(upstreams), redis };
    serde_json::to_writer(out, &document).expect("a Vec takes what is written, and keys are strings");
}

struct Targets<'a>(&'a [UpstreamSnapshot]);

impl Serialize for Targets<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for upstream in self.0 {
            match &*upstream.targets {
                [only] => map.serialize_entry(&upstream.name, &One::of(only))?,
                targets => {
                    let targets: Vec<One> = targets.iter().map(One::of).collect();
                    let several = Several { healthy: targets.iter().any(|t| t.healthy), targets };
                    map.serialize_entry(&upstream.name, &several)?;
                }
            }
        }
        map.end()
    }
}

#[derive(Serialize)]
struct One {
    url: String,
    healthy: bool,
}

impl One {
    fn of(target: &TargetSnapshot) -> One {
        // A Unix socket is its own URL; else the authority of the configured one, which tells more than the address
        // that it resolved to.
        let url = match &target.authority {
            _ if target.address.starts_with("unix:") => target.address.clone(),
            // All targets of a service have its domain.
            _ if target.source.as_deref().is_some_and(|source| source.starts_with("srv:")) => {
                format!("http://{}", target.address)
            }
            Some(authority) => format!("http://{authority}"),
            None => format!("http://{}", target.address),
        };
        One { url, healthy: target.health != Health::Unhealthy }
    }
}

#[derive(Serialize)]
struct Several {
    healthy: bool,
    targets: Vec<One>,
}

/// What `/cachez` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cachez {
    /// Counts of all caches.
    pub totals: CacheTotals,
    /// Farthest level of the first cache: `memory` or `redis`.
    pub backend: &'static str,
    /// Life of an entry of the first cache; none when the origin decides.
    pub ttl: Option<Duration>,
    /// Bytes kept in this process.
    pub bytes: u64,
    /// Responses kept in this process.
    pub entries: u64,
    /// Responses that had to leave for others.
    pub evictions: u64,
}

/// Appends the document of `/cachez`: `{"hits":1,"misses":1,"hit_ratio":0.5,"backend":"memory","ttl":"300s",...}`. Before
/// the first request the ratio is 0: its readers calculate with it, and the counts beside it tell the difference.
pub fn write_cachez(out: &mut Vec<u8>, cache: &Cachez) {
    #[derive(Serialize)]
    struct Document {
        hits: u64,
        misses: u64,
        hit_ratio: f64,
        backend: &'static str,
        ttl: Option<String>,
        bytes: u64,
        entries: u64,
        evictions: u64,
        coalesced: u64,
        stale: u64,
        store_errors: u64,
    }
    let &Cachez { totals, backend, ttl, bytes, entries, evictions } = cache;
    let CacheTotals { hits, misses, coalesced, stale, store_errors } = totals;
    let requests = hits as f64 + misses as f64;
    let ttl = ttl.map(|ttl| match ttl.subsec_millis() {
        0 => format!("{}s", ttl.as_secs()),
        _ => format!("{}ms", ttl.as_millis()),
    });
    let hit_ratio = if requests > 0.0 { hits as f64 / requests } else { 0.0 };
    let document =
        Document { hits, misses, hit_ratio, backend, ttl, bytes, entries, evictions, coalesced, stale, store_errors };
    serde_json::to_writer(out, &document).expect("a Vec takes what is written");
}
