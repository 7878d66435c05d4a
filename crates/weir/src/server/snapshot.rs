//! A configuration as one worker follows it: everything looked up once, so that a request only follows indices.

use std::rc::Rc;
use std::sync::Arc;

use crate::config::{Action, Balance, Config, LimitStore, Proxy, RouteId, TimeoutOverrides, Timeouts, UpstreamId};
use crate::exchange::reply::Prepared;
use crate::observe::{RouteMetrics, Shard, UpstreamMetrics};
use crate::policy::limit::{Limits, Remote, RouteLimits, WorkerLimits};
use crate::redis::{Client, Purpose, Redis};
use crate::route::Table;
use crate::upstream::{Upstreams, Views};

/// What is made once from a configuration, for all workers.
pub struct Generation {
    /// The configuration.
    pub config: Arc<Config>,
    /// Its routes.
    pub table: Table,
    /// State of its upstreams.
    pub upstreams: Arc<Upstreams>,
    /// State of its limits.
    pub limits: Arc<Limits>,
    /// The Redis that limits and caches may use.
    pub redis: Option<Arc<Redis>>,
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
    /// Rate limits.
    pub limits: WorkerLimits,
    /// Those of requests that match no route.
    pub unmatched_limits: RouteLimits,
    /// Limits on heads, for the codec.
    pub head_limits: h1::Limits,
}

/// What a worker keeps for one route.
pub struct RouteState {
    /// Counts.
    pub metrics: RouteMetrics,
    /// Rate limits.
    pub limits: RouteLimits,
    /// Upstreams in the order in which they are tried; empty for local answers. Position + 1 is the slot in `metrics`.
    pub choices: Vec<Choice>,
    /// A fixed answer, put together.
    pub prepared: Option<Prepared>,
}

/// An upstream that a route may go to.
pub struct Choice {
    /// Which.
    pub upstream: UpstreamId,
    /// Deadlines, those of the route over those of the upstream.
    pub timeouts: Timeouts,
    /// Whether the balance needs a hash.
    pub is_hashed: bool,
}

impl Snapshot {
    /// The view of one of `workers`; `remote_before` is the way to Redis that this one has already.
    pub fn new(
        generation: Arc<Generation>,
        shard: &Shard,
        seed: u64,
        workers: usize,
        remote_before: Option<Rc<Remote>>,
    ) -> Self {
        let config = &generation.config;
        let views = Views::new(generation.upstreams.clone(), seed);
        let upstream_metrics = config.upstreams.iter().map(|upstream| shard.upstream(&upstream.name)).collect();
        let limits = WorkerLimits::new(
            generation.limits.clone(),
            config.limits.len(),
            shard,
            workers,
            remote(&generation, shard, remote_before),
        );
        let unmatched_limits = limits.of_route(&config.gateway_limits);
        let route = |index| RouteState::new(config, RouteId(index), shard, &limits);
        let routes = (0..config.routes.len()).map(route).collect();
        let head_limits = h1::Limits {
            start_line: config.server.request_line_bytes,
            head: config.server.head_bytes,
            fields: config.server.fields,
        };
        Snapshot {
            views,
            upstream_metrics,
            routes,
            unmatched: shard.unmatched(),
            limits,
            unmatched_limits,
            head_limits,
            generation,
        }
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.generation.config
    }
}

/// The way to counts in Redis, if a limit has any there; the one that there is as long as it leads to the same Redis.
fn remote(generation: &Generation, shard: &Shard, before: Option<Rc<Remote>>) -> Option<Rc<Remote>> {
    let redis = generation.redis.as_ref()?;
    generation.limits.iter().find(|(_, limit)| limit.spec.store == LimitStore::Redis)?;
    let same = before.filter(|before| std::ptr::eq(before.redis(), &**redis));
    Some(same.unwrap_or_else(|| {
        let client = Client::new(redis.clone(), Purpose::Limits, shard.redis(Purpose::Limits));
        Remote::new(client)
    }))
}

impl RouteState {
    fn new(config: &Config, id: RouteId, shard: &Shard, limits: &WorkerLimits) -> Self {
        let route = &config.routes[id.0];
        let choices = match &route.action {
            Action::Proxy(proxy) => choices(config, proxy),
            _ => Vec::new(),
        };
        let names: Vec<&str> = choices.iter().map(|choice| &*config.upstreams[choice.upstream.0].name).collect();
        let prepared = match &route.action {
            Action::Respond(respond) => Some(Prepared::new(
                respond.status,
                respond.content_type.as_deref(),
                &edits(&route.headers.response),
                &respond.body,
            )),
            _ => None,
        };
        let limits = limits.of_route(&route.limits);
        RouteState { metrics: shard.route(&route.name, &names), limits, choices, prepared }
    }
}

fn choices(config: &Config, proxy: &Proxy) -> Vec<Choice> {
    let choice = |id: &UpstreamId| {
        let upstream = &config.upstreams[id.0];
        Choice {
            upstream: *id,
            timeouts: merge(upstream.timeouts, proxy.timeouts),
            is_hashed: matches!(upstream.balance, Balance::Hash(_)),
        }
    };
    std::iter::once(&proxy.upstream).chain(&proxy.fallback).map(choice).collect()
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

/// The lines that a route sets or adds on every answer of its own.
fn edits(edits: &crate::config::Edits) -> Vec<u8> {
    let mut lines = Vec::new();
    for (name, value) in edits.set.iter().chain(&edits.add) {
        h1::encode::field(&mut lines, name.as_bytes(), value.as_bytes());
    }
    lines
}
