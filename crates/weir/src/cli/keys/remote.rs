//! Keys in Redis.

use std::future::Future;
use std::time::Duration;

use auth::api_key::Entry;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use weir::config;
use weir::observe::Metrics;
use weir::policy::auth::{KeyRegistry, RegistryError};
use weir::redis::{Client, Purpose, Redis};

use super::{Failure, Successor, UNAVAILABLE, successor};

/// A person waits so long for each response.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The keys of one namespace of a Redis.
pub(super) struct RemoteKeys {
    registry: KeyRegistry,
    servers: String,
    runtime: LocalRuntime,
}

impl RemoteKeys {
    pub(super) fn open(url: &str, namespace: &str) -> Result<Self, Failure> {
        let settings =
            config::Redis { url: url.to_owned(), timeout: TIMEOUT, namespace: namespace.to_owned(), secret: None };
        let redis = Redis::new(&settings).map_err(|bad| Failure::usage(bad.to_string()))?;
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        let runtime = runtime.map_err(|error| Failure { message: error.to_string(), code: 71 })?;
        let servers = redis.servers();
        let client = Client::new(redis, Purpose::Keys, Metrics::new().shard(0).redis(Purpose::Keys.name()));
        Ok(RemoteKeys { registry: KeyRegistry::new(client), servers, runtime })
    }

    fn run<T>(&self, call: impl Future<Output = Result<T, RegistryError>>) -> Result<T, Failure> {
        self.runtime.block_on(call).map_err(|error| match error {
            RegistryError::Redis(failure) => Failure {
                message: format!("{}: {failure}; check address, user and password", self.servers),
                code: UNAVAILABLE,
            },
            error => Failure::usage(format!("{}: {error}", self.servers)),
        })
    }

    /// Runs a change. Whoever made it has to know when a failover may undo it.
    fn write(&self, change: impl Future<Output = Result<bool, RegistryError>>) -> Result<(), Failure> {
        if !self.run(change)? {
            eprintln!(
                "weir: {}: the change is made, and no replica has confirmed it: if one takes over, the change may be lost; \
                 `weir keys list` shows the entries that it has",
                self.servers
            );
        }
        Ok(())
    }

    pub(super) fn add(&self, entry: &Entry) -> Result<(), Failure> {
        self.write(self.registry.add(entry))
    }

    pub(super) fn list(&self) -> Result<Vec<Result<Entry, String>>, Failure> {
        let entries = self.run(self.registry.list())?;
        Ok(entries.into_iter().map(|entry| entry.map_err(|broken| broken.to_string())).collect())
    }

    pub(super) fn rotate(&self, id: &str, overlap: Duration) -> Result<Successor, Failure> {
        let next = successor(&self.run(self.registry.get(id))?, overlap)?;
        // First the new one: whoever is interrupted has two keys that work, not none.
        self.write(self.registry.add(&next.entry))?;
        self.write(self.registry.change(id, &[("expires", &next.old_expires)]))?;
        Ok(next)
    }

    pub(super) fn revoke(&self, id: &str) -> Result<(), Failure> {
        self.write(self.registry.change(id, &[("disabled", "true")]))
    }
}
