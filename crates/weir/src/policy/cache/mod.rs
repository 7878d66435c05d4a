//! The cache: which responses are kept, where, and who waits for one that is on its way.
//!
//! | file | what it does |
//! |---|---|
//! | [`rules`] | a crate of its own: what may be kept and used again, and how it is sent: RFC 9111 and its neighbours, without input and output |
//! | `entry.rs` | a response as it is kept |
//! | `key.rs` | what it is filed under |
//! | `store.rs` | the memory store |
//! | `fill.rs`, `flights.rs` | one fetch for all who miss the same key |
//! | `lookup.rs` | what a request finds: a response, a fetch to lead or to follow, or nothing |
//! | `calls.rs`, `recording.rs` | the same for calls of AI models, and how their responses are kept |
//! | `lead.rs` | what the exchange that calls the origin does for the cache |
//! | `invalid.rs` | URLs that unsafe methods changed |
//! | `purge.rs`, `purges.rs` | what operators take out, and what is known of it |
//! | `remote.rs`, `wire.rs` | the level in Redis, and the form of responses there |
//! | `changes.rs` | changes by unsafe methods, as gateways tell one another of them |
//!
//! A [`Cache`] belongs to the process and survives reloads; a [`RouteCache`] is one worker's way from one route to it. What an exchange does
//! with both is described in `exchange/cached.rs`.

pub mod calls;
pub mod changes;
pub mod entry;
pub mod fill;
pub mod flights;
pub mod invalid;
pub mod key;
pub mod lead;
pub mod lookup;
pub mod purge;
pub mod purges;
pub mod recording;
pub mod remote;
pub mod store;
pub mod sync;
pub mod wire;

pub use cache_rules as rules;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::config::{Cache as Settings, CacheStore, Compression, Config, Edits, Matcher, Route};
use crate::observe::{CacheMetrics, Shard};
use crate::policy::auth::ForgedNames;
use crate::runtime::clock;
use changes::Changes;
use entry::Entry;
use fill::Budget;
use flights::{Began, Flights};
use invalid::Invalidated;
use purges::Purges;
use remote::Remote;
use rules::key::url_of;
use rules::{Freshness, Policy};
use store::Memory;

/// One cache of the configuration, as all workers share it.
#[derive(Debug)]
pub struct Cache {
    /// What the configuration says.
    pub settings: Settings,
    /// How paths are read.
    pub path: crate::route::path::Policy,
    /// What outlives the configuration.
    pub state: Arc<State>,
}

/// What a cache holds.
#[derive(Debug)]
pub struct State {
    /// The memory store.
    pub memory: Memory,
    /// Fetches in flight.
    pub flights: Flights,
    /// Bytes of fetches in flight.
    pub budget: Arc<Budget>,
    /// URLs that were changed.
    pub invalidated: Invalidated,
    /// What was purged, here and by anybody who shares a store.
    pub purges: Purges,
    /// Changes that go to the processes that share a store, and how far the changes of those were read.
    pub changes: Changes,
    /// How often something was stored: who finds that nothing was need not look twice.
    pub stores: AtomicU64,
}

/// Of the bound of bytes, the part (one of so many) that fetches in flight may hold besides the stored entries.
const FETCHING: u64 = 4;

impl Cache {
    /// The caches of a configuration; those of `before` go on where their name and bounds are the same.
    pub fn all(config: &Config, before: &[Arc<Cache>]) -> Vec<Arc<Cache>> {
        let make = |settings: &Settings| {
            let same = before.iter().find(|cache| cache.settings.name == settings.name);
            let state = match same.filter(|cache| has_same_bounds(&cache.settings, settings)) {
                Some(cache) => cache.state.clone(),
                None => Arc::new(State::new(settings)),
            };
            Arc::new(Cache { settings: settings.clone(), path: config.server.path, state })
        };
        config.caches.iter().map(make).collect()
    }

    /// The terms on which an entry may be used now.
    #[inline]
    pub fn freshness(&self, entry: &Entry) -> Freshness {
        let mut freshness = entry.freshness();
        if self.state.invalidated.covers(url_of(&entry.head.key), entry.head.requested_ms) {
            freshness.invalidate();
        }
        freshness
    }

    /// Whether this process keeps responses itself.
    pub fn has_memory(&self) -> bool {
        self.settings.stores.contains(&CacheStore::Memory)
    }
}

/// What is kept under other rules than those of now is never found, because the rules are part of every key; only the bounds need a new
/// store.
fn has_same_bounds(a: &Settings, b: &Settings) -> bool {
    (a.max_bytes, a.max_entries, a.max_body_bytes) == (b.max_bytes, b.max_entries, b.max_body_bytes)
}

impl State {
    fn new(settings: &Settings) -> Self {
        State {
            memory: Memory::new(settings.max_bytes, settings.max_entries, settings.max_body_bytes),
            flights: Flights::default(),
            budget: Budget::new((settings.max_bytes / FETCHING).max(settings.max_body_bytes)),
            invalidated: Invalidated::default(),
            purges: Purges::default(),
            changes: Changes::default(),
            stores: AtomicU64::new(0),
        }
    }

    /// The moment of a fetch that begins.
    fn now(&self) -> Began {
        Began { purges: self.purges.count(), generation: self.purges.generation(), at_ms: clock::unix_ms() }
    }
}

/// A route's way to its cache, in one worker.
pub struct RouteCache {
    /// The cache.
    pub cache: Arc<Cache>,
    /// What the rules must know of cache and route.
    pub policy: Policy,
    /// Counts.
    pub metrics: CacheMetrics,
    /// The level in Redis.
    pub remote: Option<Remote>,
    /// What the route changes of every response.
    pub edits: Edits,
    /// How responses are compressed.
    pub compression: Option<Arc<Compression>>,
    /// What of the route decides about responses to calls of AI models; empty for other caches.
    pub matched_by: Box<[u8]>,
}

impl RouteCache {
    /// The way of `route`, if it has a cache.
    pub fn new(
        config: &Config,
        route: &Route,
        caches: &[Arc<Cache>],
        remotes: &[Option<Remote>],
        shard: &Shard,
    ) -> Option<Self> {
        let id = route.cache?.0;
        let cache = caches[id].clone();
        let limited_by = route.limits.iter().flat_map(|id| &config.limits[id.0].key);
        let policy = Policy::new(&cache.settings, limited_by, &matched_by(route))
            .with_request_id(&config.request_id)
            .with_path(config.server.path)
            .with_unseen(ForgedNames::new(&config.auth).with(&route.headers.request.templates));
        let metrics = shard.cache(&cache.settings.name);
        let (remote, edits) = (remotes[id].clone(), route.headers.response.clone());
        let compression = route.compress.clone();
        let matched_by = match cache.settings.calls() {
            // What the route changes of requests and responses is in what is stored.
            Some(_) => {
                format!("{:?} {} {:?}", route.matcher.host, matched_by(route), route.headers).into_bytes().into()
            }
            None => Box::default(),
        };
        Some(RouteCache { cache, policy, metrics, remote, edits, compression, matched_by })
    }
}

/// What beside host and path decides that a request belongs to a route: routes that share URLs must not share responses, and what a route with
/// authentication stored is found by none without, after a reload either. The name of the route would not do: an inserted route renames others.
fn matched_by(route: &Route) -> String {
    let Matcher { listener, methods, headers, query, host: _, path: _ } = &route.matcher;
    let (mut methods, mut headers, mut query) = (methods.clone(), headers.clone(), query.clone());
    methods.sort();
    headers.sort_by(|one, other| one.0.cmp(&other.0));
    query.sort_by(|one, other| one.0.cmp(&other.0));
    let listener = listener.as_ref().map_or_else(String::new, |name| format!(" {name:?}"));
    format!("{methods:?} {headers:?} {query:?} {}{listener}", if route.auth.is_open() { "open" } else { "auth" })
}
