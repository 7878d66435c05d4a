//! Fields that authentication writes say nothing in the requests of clients: they are removed first.

use super::Resolver;
use crate::ForgedNames;
use crate::raw;
use crate::{Authenticator, HashKey, LimitKey, SplitKey};

impl Resolver<'_> {
    /// Refuses what would decide by such a field: it would be missing in every request.
    pub(super) fn identity_fields(&mut self, auth: &[Authenticator]) {
        let written = ForgedNames::new(auth);
        if written.is_empty() {
            return;
        }
        let file = self.file;
        let why = |name: &str| {
            format!("`{name}` is written by `auth`, and removed from requests before anything looks at it")
        };
        for (limit, raw) in file.limits.iter() {
            for key in &raw.key.0 {
                if let LimitKey::Header(name) = &key.0
                    && written.contains(name.as_bytes())
                {
                    let message = format!("{}; count by `consumer`, `tier`, `claim:PATH` or `meta:NAME`", why(name));
                    self.problem(limit.origin, message);
                }
            }
        }
        for (_, cache) in file.caches.iter() {
            for key in &cache.partition_by {
                if let raw::PartitionKey::Header(name) = &key.value
                    && written.contains(name.0.as_bytes())
                {
                    self.problem(key.origin, format!("{}; partition by `consumer`", why(&name.0)));
                }
            }
        }
        for (upstream, raw) in file.upstreams.iter() {
            if let raw::Balance::Hash(key) = &raw.balance
                && let HashKey::Header(name) = &key.0
                && written.contains(name.as_bytes())
            {
                self.problem(upstream.origin, why(name));
            }
        }
        for route in &file.routes.value {
            let by = route.split.as_ref().and_then(|split| split.by.as_ref());
            if let Some((SplitKey::Header(name), by)) = by.map(|by| (&by.0, by))
                && written.contains(name.as_bytes())
            {
                self.problem(by.origin, format!("{}; split by `consumer`", why(name)));
            }
            for (name, _) in route.matcher.headers.iter().filter(|(name, _)| written.contains(name.as_bytes())) {
                self.problem(name.origin, format!("{}; `allow` decides by who sends a request", why(name)));
            }
        }
    }
}
