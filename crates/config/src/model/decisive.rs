//! Request fields by which something is decided.

use std::sync::Arc;

use super::{Action, Balance, Config, HashKey, LimitCost, LimitKey, SplitKey};

impl Config {
    /// Names of the request fields that decide about routes, limits, places in a cache, members of a split or targets; each once.
    pub fn decisive_fields(&self) -> Box<[Arc<str>]> {
        let matched = self.routes.iter().flat_map(|route| &route.matcher.headers).map(|(name, _)| name.clone());
        let cached = self.caches.iter().flat_map(|cache| &cache.partition_by).cloned();
        let limited = self.limits.iter().flat_map(|limit| {
            let counted = limit.key.iter().filter_map(|key| match key {
                LimitKey::Header(name) => Some(name.clone()),
                _ => None,
            });
            let cost = match &limit.cost {
                LimitCost::Header(name) => Some(name.clone()),
                LimitCost::Fixed(_) => None,
            };
            counted.chain(cost)
        });
        let split = self.routes.iter().filter_map(|route| match &route.action {
            Action::Proxy(proxy) => match proxy.split.as_ref()?.by.as_ref()? {
                SplitKey::Header(name) => Some(name.clone()),
                _ => None,
            },
            _ => None,
        });
        let balanced = self.upstreams.iter().filter_map(|upstream| match &upstream.balance {
            Balance::Hash(HashKey::Header(name)) => Some(name.clone()),
            _ => None,
        });
        let mut names: Vec<Arc<str>> = matched.chain(cached).chain(limited).chain(split).chain(balanced).collect();
        names.sort();
        names.dedup();
        names.into()
    }
}
