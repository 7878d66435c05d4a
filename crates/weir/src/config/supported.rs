//! Keys whose feature is not built yet. They are refused with their line, never accepted and ignored.

use super::problem::{Origin, Problem};
use super::raw::shape::OrNone;
use super::raw::{CacheStore, File};

/// A part of the configuration that may come later than its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Feature {
    /// `limits`, and references to them.
    Limits,
    /// `caches`, and references to them.
    Caches,
    /// Caches with `store: redis`.
    RedisCaches,
    /// `https://` targets.
    Tls,
}

/// What is not built yet: a line goes when its feature comes. Nothing else has to change; the environment-only mode, which leaves
/// these out, looks here too.
const NOT_YET: &[Feature] = &[Feature::Tls];

/// Whether a feature is built.
pub(super) fn has(feature: Feature) -> bool {
    !NOT_YET.contains(&feature)
}

/// One problem for each use of a feature that is not built yet.
pub(super) fn refuse(file: &File) -> Vec<Problem> {
    let mut found: Vec<(Feature, String, Origin)> = Vec::new();
    let mut note = |feature, what: &str, origin| found.push((feature, what.to_owned(), origin));

    for (name, _) in file.limits.iter() {
        note(Feature::Limits, "`limits`", name.origin);
    }
    for (name, cache) in file.caches.iter() {
        note(Feature::Caches, "`caches`", name.origin);
        if cache.store.0.contains(&CacheStore::Redis) {
            note(Feature::RedisCaches, "a cache in Redis", cache.store.origin);
        }
    }
    for (_, upstream) in file.upstreams.iter() {
        for target in upstream.targets.iter().filter(|target| target.url.tls) {
            note(Feature::Tls, "an `https://` target", target.origin);
        }
    }
    let route_limits = file.routes.iter().flat_map(|route| route.limits.iter().flatten());
    for limit in file.defaults.limits.iter().chain(route_limits) {
        note(Feature::Limits, "a limit", limit.origin);
    }
    let route_caches = file.routes.iter().filter_map(|route| route.cache.as_ref());
    for cache in route_caches.map(|cache| &cache.value).chain([&file.defaults.cache]) {
        if let OrNone::Some(cache) = cache {
            note(Feature::Caches, "a cache", cache.origin);
        }
    }

    found
        .into_iter()
        .filter(|(feature, _, _)| !has(*feature))
        .map(|(_, what, origin)| Problem::new(origin, format!("{what} is not supported yet")))
        .collect()
}
