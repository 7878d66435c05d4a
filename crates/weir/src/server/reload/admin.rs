//! The process as the admin listener and its console see it: what they read, and what they act on.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::{Controller, Source, refused};
use crate::admin::difference::{Difference, difference};
use crate::admin::{Cachez, Control, Later, Load, ProcessState, ReloadError, Reloaded};
use crate::config::{self, CacheId, CacheStore};
use crate::exchange::cached::explain::{self, CacheExplanation, CacheQuestion};
use crate::observe::Metrics;
use crate::policy::cache::Cache;
use crate::policy::cache::purge::{Purge, PurgeError, Target};
use crate::policy::cache::purges::Ticket;
use crate::policy::cache::remote;
use crate::policy::limit::{BadQuestion, Question};
use crate::redis::Redis;
use crate::route::describe;
use crate::route::explain::{Explanation, Request, explain as explain_route};
use crate::runtime::lock::lock;
use crate::server::state;
use crate::upstream::{ActError, DrainedTarget, TargetAction, TargetCondition, UpstreamSnapshot};
use crate::worker::Worker;
use crate::worker::shared::Message;
use crate::worker::snapshot::Snapshot;

/// How long somebody who looks at the console waits for a worker.
const WORKER: Duration = Duration::from_secs(5);

impl Controller {
    /// Has the first worker write a purge to Redis.
    fn publish(
        &self,
        id: CacheId,
        target: Target,
        ticket: Ticket,
    ) -> tokio::sync::oneshot::Receiver<Result<(), String>> {
        self.on_worker(async move |snapshot| {
            let result = match (snapshot.remotes.get(id.0), snapshot.generation.caches.get(id.0)) {
                (Some(Some(remote)), Some(cache)) => remote::publish(remote, cache, &target, ticket).await,
                _ => Ok(()),
            };
            result.map_err(|failure| failure.to_string())
        })
    }

    /// Has the first worker do what needs its connections.
    fn on_worker<T: Send + 'static>(
        &self,
        job: impl AsyncFnOnce(Rc<Snapshot>) -> T + Send + 'static,
    ) -> tokio::sync::oneshot::Receiver<T> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let job = move |worker: &Worker| {
            let snapshot = worker.snapshot.borrow().clone();
            tokio::task::spawn_local(async move {
                let _ = sender.send(job(snapshot).await);
            });
        };
        let _ = self.shared.workers()[0].tell(Message::Run(Box::new(job)));
        receiver
    }
}

impl Control for Controller {
    fn metrics(&self) -> &Metrics {
        self.shared.metrics()
    }

    fn upstreams(&self) -> Vec<UpstreamSnapshot> {
        self.shared.generation().upstreams.snapshot()
    }

    fn act_on_target(&self, upstream: &str, target: &str, action: TargetAction) -> Result<TargetCondition, ActError> {
        self.shared.generation().upstreams.act(upstream, target, action)
    }

    fn drained(&self) -> Vec<DrainedTarget> {
        self.shared.generation().upstreams.drained()
    }

    fn redis(&self) -> Option<Arc<Redis>> {
        self.shared.generation().redis.clone()
    }

    fn routes(&self) -> serde_json::Value {
        serde_json::to_value(describe(&self.shared.generation().config)).unwrap_or_default()
    }

    fn explain_route(&self, mut request: Request) -> Later<'_, Option<Explanation>> {
        let generation = self.shared.generation();
        // Each of thousands of routes is looked at: the thread of signals and health checks must not wait for that.
        let explained = tokio::task::spawn_blocking(move || {
            let listener = request.listener.get_or_insert_default().clone();
            explain_route(&generation.config, generation.named_table(&listener), &request)
        });
        Box::pin(async { explained.await.ok() })
    }

    fn authenticators(&self) -> Later<'_, serde_json::Value> {
        let generation = self.shared.generation();
        // A store may list a hundred thousand keys.
        let described = tokio::task::spawn_blocking(move || generation.auth.describe(&generation.config));
        Box::pin(async { described.await.unwrap_or_default() })
    }

    fn judge_token(&self, token: String) -> Later<'_, Option<serde_json::Value>> {
        let judged = self
            .on_worker(async move |snapshot| snapshot.auth.judge(&snapshot.generation.config, token.as_bytes()).await);
        Box::pin(async { tokio::time::timeout(WORKER, judged).await.ok()?.ok() })
    }

    fn look_up_cached(&self, question: CacheQuestion) -> Later<'_, Option<Result<serde_json::Value, String>>> {
        let found = self.on_worker(async move |snapshot| {
            let found = explain::explain(&snapshot, &question).await;
            found.map(|found| (found, snapshot.generation.clone()))
        });
        Box::pin(async {
            let (CacheExplanation { mut value, place }, generation) =
                match tokio::time::timeout(WORKER, found).await.ok()?.ok()? {
                    Ok(found) => found,
                    Err(wrong) => return Some(Err(wrong)),
                };
            if let Some((id, url)) = place {
                let listed = tokio::task::spawn_blocking(move || explain::variants(&generation.caches[id.0], &url));
                value["variants"] = listed.await.unwrap_or_default();
            }
            Some(Ok(value))
        })
    }

    fn config_yaml(&self) -> String {
        lock(&self.file).to_yaml_without_secrets()
    }

    fn difference(&self) -> Later<'_, Result<Difference, ReloadError>> {
        Box::pin(async {
            if !matches!(self.source, Source::File(_)) {
                return Err(ReloadError::NoFile("There is no configuration file to compare with.".into()));
            }
            let (source, in_force) = (self.source.clone(), lock(&self.file).clone());
            // Files are read and long texts compared.
            let compared = tokio::task::spawn_blocking(move || {
                let file = source.read().map_err(refused)?.file;
                let (before, after) = (in_force.to_yaml_without_secrets(), file.to_yaml_without_secrets());
                let differs_in_secrets = before == after && in_force.to_yaml() != file.to_yaml();
                Ok(Difference { lines: difference(&before, &after), differs_in_secrets })
            });
            compared.await.unwrap_or_else(|_| Err(ReloadError::Failed("The gateway is stopping.".into())))
        })
    }

    fn cachez(&self) -> Option<Cachez> {
        self.shared.cachez()
    }

    fn purge(&self, purge: Purge) -> Pin<Box<dyn Future<Output = Result<u64, PurgeError>> + Send + '_>> {
        Box::pin(async move {
            let generation = self.shared.generation();
            let is_named = |cache: &Arc<Cache>| purge.cache.as_deref().is_none_or(|name| *cache.settings.name == *name);
            let caches: Vec<_> = generation.caches.iter().enumerate().filter(|(_, cache)| is_named(cache)).collect();
            if caches.is_empty() {
                let names: Vec<&str> = generation.caches.iter().map(|cache| &*cache.settings.name).collect();
                return Err(PurgeError::Invalid(match &purge.cache {
                    Some(name) => format!("there is no cache `{name}`; there is: {}", names.join(", ")),
                    None => "there is no cache".to_owned(),
                }));
            }
            let target = Target { which: purge.which, soft: purge.soft };
            let chosen = caches.iter().map(|(_, cache)| cache.chosen(&target.which).map(Arc::new));
            let chosen = chosen.collect::<Result<Vec<_>, _>>().map_err(PurgeError::Invalid)?;
            let mut purged = 0;
            let mut written = Vec::new();
            for ((id, cache), chosen) in caches.into_iter().zip(chosen) {
                if cache.settings.stores.contains(&CacheStore::Redis) {
                    // Before memory is looked through: it is filled from there.
                    let ticket = cache.state.purges.note(&target, chosen.clone());
                    written.push((cache, self.publish(CacheId(id), target.clone(), ticket)));
                }
                purged += cache.take_out(&chosen, target.soft);
            }
            let mut failures = Vec::new();
            for (cache, result) in written {
                if let Err(why) = result.await.unwrap_or_else(|_| Err("the gateway is stopping".to_owned())) {
                    failures.push(format!("cache `{}`: {why}", cache.settings.name));
                }
            }
            if failures.is_empty() {
                return Ok(purged);
            }
            Err(PurgeError::NotShared(format!(
                "{purged} responses were purged in this process, but Redis did not take the purge ({}): other gateways may go on serving them; this process tries again every second while it runs",
                failures.join("; ")
            )))
        })
    }

    fn limits(
        &self,
        question: Question,
    ) -> Pin<Box<dyn Future<Output = Result<serde_json::Value, BadQuestion>> + Send + '_>> {
        Box::pin(async move {
            let limits = self.shared.generation().limits.clone();
            let mut response = limits.explain(&question)?;
            limits.explain_remote(&*self.shared, &question, &mut response).await;
            Ok(response)
        })
    }

    fn reset_limits(
        &self,
        question: Question,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<String>, BadQuestion>> + Send + '_>> {
        Box::pin(async move {
            let limits = self.shared.generation().limits.clone();
            let mut names = limits.reset(&question)?;
            limits.reset_remote(&*self.shared, &question, &mut names).await?;
            Ok(names)
        })
    }

    fn is_ready(&self) -> bool {
        self.shared.is_ready()
    }

    fn console(&self) -> config::Console {
        self.shared.generation().config.console.clone()
    }

    fn load(&self) -> Load {
        let in_flight = self.shared.generation().upstreams.in_flight();
        Load { connections: self.shared.connections(), in_flight }
    }

    fn process_state(&self) -> ProcessState {
        ProcessState {
            file: self.watched().map(|path| path.display().to_string()),
            listeners: self.listeners().urls(),
            reloads: self.history.events(),
            ..state::of(&self.shared)
        }
    }

    fn reload(&self) -> Pin<Box<dyn Future<Output = Result<Reloaded, ReloadError>> + Send + '_>> {
        Box::pin(Controller::reload(self, "requested over the admin listener"))
    }
}
