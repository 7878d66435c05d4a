//! What an operator reads and resets about keys in Redis. The control thread takes the request and a worker executes it, since it has the
//! connection.

use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use super::super::explain::{BadQuestion, Question, tiers};
use super::super::{Key, Limit, Limits};
use super::Remote;
use super::call::{self, Call, ScriptResult};
use crate::config::LimitStore;
use crate::redis::Failure;

/// The workers, as those see them who want something of their connections to Redis.
pub trait Workers {
    /// Has the first worker do a job with its connection; the job is dropped when it has none. Whether there is such a worker.
    fn first(&self, job: impl FnOnce(Rc<Remote>) + Send + 'static) -> bool;
    /// Has every worker with a connection do something.
    fn all(&self, job: fn(&Remote));
}

impl Limits {
    /// Puts what Redis knows of a key into the result of [`Limits::explain`], in place of what the process itself knows.
    pub async fn explain_remote(&self, workers: &impl Workers, question: &Question, result: &mut Value) {
        self.explain_remote_budgets(workers, question, result).await;
        for (limit, key) in self.remote_keys(question) {
            let (name, tiers) = (limit.spec.name.clone(), tiers(&limit.spec.tiers));
            let found = on_worker(workers, async move |remote| remote.look(&limit, key).await).await;
            let Some(list) = result["limits"].as_array_mut() else { return };
            let Some(entry) = list.iter_mut().find(|entry| entry["name"] == *name && entry["tiers"] == tiers) else {
                continue;
            };
            match found {
                Ok((result, limit)) => {
                    let decision = result.decision(limit, 0);
                    entry["state"] = json!({
                        "in_use": decision.remaining < limit,
                        "remaining": decision.remaining,
                        "allowed": decision.allowed,
                        "retry_seconds": decision.retry_ns as f64 / 1e9,
                    });
                }
                Err(failure) => entry["note"] = format!("{failure}: this is what the gateway itself counts").into(),
            }
        }
    }

    /// Forgets in Redis what was charged to a key, so that all workers call Redis for it; other replicas do so when its window ends. Adds the
    /// names of limits that had something to forget.
    ///
    /// # Errors
    /// When Redis does not respond.
    pub async fn reset_remote(
        &self,
        workers: &impl Workers,
        question: &Question,
        names: &mut Vec<String>,
    ) -> Result<(), BadQuestion> {
        self.reset_remote_budgets(workers, question, names).await?;
        for (limit, key) in self.remote_keys(question) {
            let name = limit.spec.name.to_string();
            let had = on_worker(workers, async move |remote| remote.reset(&limit, key).await).await;
            let had = had.map_err(|failure| BadQuestion::from(format!("`{name}` was not reset: {failure}")))?;
            if had && !names.contains(&name) {
                names.push(name);
            }
        }
        workers.all(Remote::forget);
        Ok(())
    }

    /// The keys in Redis that a question is about; what is wrong with it was said already.
    fn remote_keys(&self, question: &Question) -> Vec<(Arc<Limit>, Key)> {
        let input = self.iter().filter(|(_, limit)| {
            limit.spec.store == LimitStore::Redis && question.names(&limit.spec.name, &limit.spec.group)
        });
        input
            .filter_map(|(_, limit)| Some((limit.clone(), self.key_of(limit, &question.key).ok().flatten()?)))
            .collect()
    }
}

impl Remote {
    async fn look(&self, limit: &Limit, key: Key) -> Result<(ScriptResult, u64), Failure> {
        let question = call::Question {
            name: call::name(limit, key),
            definition: call::definition(limit, self.holds.worker),
            cost: 1,
            wanted: 0,
        };
        let mut call = Call::default();
        let first = call.add(&[question]);
        let results = call.send(&self.client).await?;
        Ok((results.from(first)[0], limit.algorithm.limit()))
    }

    async fn reset(&self, limit: &Limit, key: Key) -> Result<bool, Failure> {
        self.client.delete(&call::name(limit, key)).await
    }
}

/// Has the first worker do something with its connection.
pub(in super::super) async fn on_worker<T: Send + 'static>(
    workers: &impl Workers,
    job: impl AsyncFnOnce(Rc<Remote>) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let (sender, receiver) = oneshot::channel();
    let is_sent = workers.first(move |remote| {
        spawn_local(async move {
            let _ = sender.send(job(remote).await);
        });
    });
    if !is_sent {
        return Err(Failure::Unavailable);
    }
    receiver.await.unwrap_or(Err(Failure::Unavailable))
}
