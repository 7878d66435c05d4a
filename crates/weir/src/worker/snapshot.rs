//! A configuration as one worker follows it: everything looked up once, so that a request only follows indices.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ::http2::hpack::SensitiveNames;

use crate::client::origin::Origin;
use crate::config::{
    Action, AuthMethod, Balance, CacheStore, Config, Proxy, RouteId, TimeoutOverrides, Timeouts, UpstreamId,
};
use crate::http::response::Prepared;
use crate::http::websocket;
use crate::observe::{ContractMetrics, FaultMetrics, MirrorMetrics, RouteMetrics, Shard, UpstreamMetrics};
use crate::policy::ai::AiState;
use crate::policy::auth::{Authenticators, RouteEdits, WorkerAuth};
use crate::policy::cache::remote::Remote;
use crate::policy::cache::{Cache, RouteCache};
use crate::policy::limit::{self, Limits, RouteLimits, WorkerLimits};
use crate::redis::{Client, Purpose, Redis};
use crate::route::Table;
use crate::upstream::{Upstreams, Views};

/// What is made once from a configuration, for all workers.
pub struct Generation {
    /// The configuration.
    pub config: Arc<Config>,
    /// Its routes: those of listeners without a name, or whose name no route has.
    pub table: Table,
    /// Routes of the listeners that routes name.
    pub listener_tables: Vec<(Arc<str>, Table)>,
    /// Names of the request fields that decide something: other spellings of them are removed.
    pub decisive_fields: Box<[Arc<str>]>,
    /// State of its upstreams.
    pub upstreams: Arc<Upstreams>,
    /// Its caches; by [`CacheId`](crate::config::CacheId).
    pub caches: Vec<Arc<Cache>>,
    /// State of its authenticators.
    pub auth: Arc<Authenticators>,
    /// State of AI traffic.
    pub ai: Arc<AiState>,
    /// State of its limits.
    pub limits: Arc<Limits>,
    /// The Redis that limits, caches and API keys may use.
    pub redis: Option<Arc<Redis>>,
}

impl Generation {
    /// The routes for what comes by a listener.
    #[inline]
    pub fn table_of(&self, origin: &Origin) -> &Table {
        if self.listener_tables.is_empty() { &self.table } else { self.named_table(&origin.name()) }
    }

    /// The routes for what comes by a listener of this name; the empty one stands for listeners without a name.
    #[cold]
    pub fn named_table(&self, name: &str) -> &Table {
        let found = self.listener_tables.binary_search_by(|(known, _)| (**known).cmp(name));
        found.map_or(&self.table, |at| &self.listener_tables[at].1)
    }
}

/// One worker's view of a [`Generation`].
pub struct Snapshot {
    /// What all workers follow.
    pub generation: Arc<Generation>,
    /// Where targets are picked.
    pub views: Views,
    /// By [`UpstreamId`].
    pub upstream_metrics: Vec<UpstreamMetrics>,
    /// By [`RouteId`].
    pub routes: Vec<RouteState>,
    /// Counts of requests that match no route.
    pub unmatched: RouteMetrics,
    /// Authenticators.
    pub auth: WorkerAuth,
    /// The ways to authorizers; by [`AuthId`](crate::config::AuthId), empty for other authenticators.
    pub authorizers: Vec<Vec<Choice>>,
    /// Rate limits.
    pub limits: WorkerLimits,
    /// Those of requests that match no route.
    pub unmatched_limits: RouteLimits,
    /// Limits on heads, for the codec.
    pub head_limits: h1::Limits,
    /// Whether some upstream is told of its clients by PROXY headers.
    pub sends_proxy_headers: bool,
    /// Whether some route lets WebSockets through.
    pub offers_websocket: bool,
    /// Fields that hold credentials, which HTTP/2 never puts into a table.
    pub sensitive: Arc<SensitiveNames>,
    /// The way to Redis that the caches use.
    pub cache_client: Option<Rc<Client>>,
    /// Levels in Redis; by [`CacheId`](crate::config::CacheId).
    pub remotes: Vec<Option<Remote>>,
}

/// What a worker keeps for one route.
pub struct RouteState {
    /// Counts.
    pub metrics: RouteMetrics,
    /// The path pattern as text.
    pub pattern: Arc<str>,
    /// Rate limits.
    pub limits: RouteLimits,
    /// What the upstream does not see of the sender's credentials.
    pub auth_edits: RouteEdits,
    /// Upstreams: those that share the requests, then fallbacks in the order in which they are tried; empty for local responses. Position + 1
    /// is the slot in `metrics`.
    pub choices: Vec<Choice>,
    /// How many of them share the requests; the others are fallbacks.
    pub members: usize,
    /// The way to the guard of a route with `ai`; empty without one.
    pub guard: Vec<Choice>,
    /// A fixed response, put together.
    pub prepared: Option<Prepared>,
    /// Counts of requests that break the route's description.
    pub contract: Option<ContractMetrics>,
    /// Counts of copies of its requests.
    pub mirror: Option<MirrorMetrics>,
    /// Counts of faults that it injects.
    pub faults: Option<FaultMetrics>,
    /// The way to the cache of a route that forwards.
    pub cache: Option<Rc<RouteCache>>,
}

/// An upstream that a route may go to.
pub struct Choice {
    /// Which.
    pub upstream: UpstreamId,
    /// Deadlines, those of the route over those of the upstream.
    pub timeouts: Timeouts,
    /// Whether the balance needs a hash.
    pub is_hashed: bool,
    /// The cookie that names a client's target.
    pub cookie: Option<Arc<str>>,
}

impl Snapshot {
    /// The view of one of `workers`. What stayed the same since `before` is taken over: views of upstreams, ways to Redis.
    pub fn new(
        generation: Arc<Generation>,
        shard: &Shard,
        seed: u64,
        workers: usize,
        before: Option<&Snapshot>,
    ) -> Self {
        let config = &generation.config;
        let views = match before {
            Some(before) => before.views.reload(generation.upstreams.clone(), seed),
            None => Views::new(generation.upstreams.clone(), seed),
        };
        let upstream_metrics = config.upstreams.iter().map(|upstream| shard.upstream(&upstream.name)).collect();
        let limits = WorkerLimits::new(
            generation.limits.clone(),
            config.limits.len(),
            shard,
            workers,
            remote(&generation, shard, before.and_then(|before| before.limits.remote.clone())),
        );
        let unmatched_limits = limits.of_route(&config.gateway_limits);
        let cache_client = cache_client(&generation, shard, before.and_then(|before| before.cache_client.clone()));
        let remotes = remotes(&generation, cache_client.as_ref());
        let keys_client = keys_client(&generation, shard, before.and_then(|before| before.auth.keys_client().cloned()));
        let route = |index| RouteState::new(&generation, RouteId(index), shard, &limits, &remotes);
        let routes = (0..config.routes.len()).map(route).collect();
        let head_limits = h1::Limits {
            start_line: config.server.request_line_bytes,
            head: config.server.head_bytes,
            fields: config.server.fields,
        };
        let authorizers = config.auth.iter().map(|one| match &one.method {
            AuthMethod::Authorizer(authorizer) => choices(config, &authorizer.action),
            _ => Vec::new(),
        });
        Snapshot {
            authorizers: authorizers.collect(),
            views,
            auth: WorkerAuth::new(generation.auth.clone(), keys_client, shard),
            upstream_metrics,
            routes,
            unmatched: shard.unmatched(),
            limits,
            unmatched_limits,
            head_limits,
            sends_proxy_headers: config.upstreams.iter().any(|upstream| upstream.proxy_protocol.is_some()),
            offers_websocket: config.routes.iter().any(|route| route.action.allows_upgrade(websocket::NAME)),
            sensitive: Arc::new(SensitiveNames::new(config.credential_fields().iter().map(|name| &**name))),
            cache_client,
            remotes,
            generation,
        }
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.generation.config
    }
}

/// The way to counts in Redis, if a limit has any there; the one that there is as long as it leads to the same Redis.
fn remote(generation: &Generation, shard: &Shard, before: Option<Rc<limit::Remote>>) -> Option<Rc<limit::Remote>> {
    let redis = generation.redis.as_ref()?;
    if !generation.limits.uses_redis() {
        return None;
    }
    let same = before.filter(|before| std::ptr::eq(before.redis(), &**redis));
    Some(same.unwrap_or_else(|| {
        let client = Client::new(redis.clone(), Purpose::Limits, shard.redis(Purpose::Limits.name()));
        limit::Remote::new(client)
    }))
}

/// The way to responses in Redis, if a cache has a level there; the one that there is as long as it leads to the same Redis.
fn cache_client(generation: &Generation, shard: &Shard, before: Option<Rc<Client>>) -> Option<Rc<Client>> {
    let redis = generation.redis.as_ref()?;
    generation.caches.iter().find(|cache| cache.settings.stores.contains(&CacheStore::Redis))?;
    let same = before.filter(|before| Arc::ptr_eq(before.redis(), redis));
    Some(same.unwrap_or_else(|| {
        let client = Client::new(redis.clone(), Purpose::Cache, shard.redis(Purpose::Cache.name()));
        client.warm_up();
        client
    }))
}

/// The way to API keys in Redis, if an authenticator has them there; the one that there is as long as it leads to the same Redis.
fn keys_client(generation: &Generation, shard: &Shard, before: Option<Rc<Client>>) -> Option<Rc<Client>> {
    let redis = generation.redis.as_ref().filter(|_| generation.auth.uses_redis())?;
    let same = before.filter(|before| Arc::ptr_eq(before.redis(), redis));
    Some(same.unwrap_or_else(|| {
        let client = Client::new(redis.clone(), Purpose::Keys, shard.redis(Purpose::Keys.name()));
        client.warm_up();
        client
    }))
}

fn remotes(generation: &Generation, client: Option<&Rc<Client>>) -> Vec<Option<Remote>> {
    let remote = |cache: &Arc<Cache>| {
        let client = client.filter(|_| cache.settings.stores.contains(&CacheStore::Redis))?;
        Some(Remote::new(client.clone(), cache.settings.name.clone()))
    };
    generation.caches.iter().map(remote).collect()
}

impl RouteState {
    fn new(
        generation: &Generation,
        id: RouteId,
        shard: &Shard,
        limits: &WorkerLimits,
        remotes: &[Option<Remote>],
    ) -> Self {
        let config = &generation.config;
        let route = &config.routes[id.0];
        let choices = match &route.action {
            Action::Proxy(proxy) => choices(config, proxy),
            Action::Ai(ai) => ai.upstreams.iter().map(|id| choice(config, *id, TimeoutOverrides::default())).collect(),
            _ => Vec::new(),
        };
        let guard = match &route.action {
            Action::Ai(ai) => ai.guard.as_ref().map_or_else(Vec::new, |guard| self::choices(config, &guard.action)),
            _ => Vec::new(),
        };
        let members = match &route.action {
            Action::Proxy(proxy) => proxy.first_choices().count(),
            _ => 1,
        };
        let names: Vec<&str> = choices.iter().map(|choice| &*config.upstreams[choice.upstream.0].name).collect();
        let prepared = match &route.action {
            Action::Respond(respond) => {
                let content_type = respond.content_type.as_deref();
                Some(Prepared::edited(respond.status, content_type, &[], &respond.body, &route.headers.response))
            }
            _ => None,
        };
        let cache = match &route.action {
            Action::Proxy(_) | Action::Ai(_) => {
                RouteCache::new(config, route, &generation.caches, remotes, shard).map(Rc::new)
            }
            _ => None,
        };
        let limits = limits.with_budgets(limits.of_route(&route.limits), &route.budgets);
        let auth_edits = RouteEdits::new(&route.auth, &config.auth);
        let contract = route.contract.as_ref().map(|rules| shard.contract(&rules.api, &rules.operation));
        let metrics = shard.route(&route.name, &names);
        let mirror = route.mirror.as_ref().map(|_| shard.mirror(&route.name));
        let faults = route.fault.map(|_| shard.fault(&route.name));
        let pattern = route.matcher.path.to_string().into();
        RouteState {
            metrics,
            pattern,
            limits,
            auth_edits,
            choices,
            members,
            guard,
            prepared,
            contract,
            mirror,
            faults,
            cache,
        }
    }

    /// How long a request may take: with several upstreams that share them, as long as the most patient one lets it.
    pub fn total(&self) -> Option<Duration> {
        let totals = self.choices.iter().take(self.members).map(|choice| choice.timeouts.total);
        totals.reduce(|one, other| one.zip(other).map(|(one, other)| one.max(other))).flatten()
    }
}

fn choices(config: &Config, proxy: &Proxy) -> Vec<Choice> {
    let fallback = proxy.fallback.iter().copied();
    proxy.first_choices().chain(fallback).map(|id| choice(config, id, proxy.timeouts)).collect()
}

/// One upstream, with the deadlines of a route over its own.
pub fn choice(config: &Config, id: UpstreamId, timeouts: TimeoutOverrides) -> Choice {
    let upstream = &config.upstreams[id.0];
    Choice {
        upstream: id,
        timeouts: merge(upstream.timeouts, timeouts),
        is_hashed: matches!(upstream.balance, Balance::Hash(_)),
        cookie: match &upstream.balance {
            Balance::Cookie(affinity) => Some(affinity.cookie.clone()),
            _ => None,
        },
    }
}

fn merge(own: Timeouts, route: TimeoutOverrides) -> Timeouts {
    Timeouts {
        connect: route.connect.unwrap_or(own.connect),
        per_try: route.per_try.unwrap_or(own.per_try),
        first_byte: route.first_byte.unwrap_or(own.first_byte),
        idle: route.idle.unwrap_or(own.idle),
        total: route.total.unwrap_or(own.total),
        tunnel_idle: route.tunnel_idle.unwrap_or(own.tunnel_idle),
    }
}
