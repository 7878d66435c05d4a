//! What limits and cache use: commands with a deadline, on this worker's own connection.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, Pipeline, Value};

use super::address::Servers;
use super::cluster::Cluster;
use super::dial::Peer;
use super::link::Link;
use super::{Failure, Purpose, Redis, Script};
use crate::observe::RedisMetrics;

/// One worker's way to Redis, for one purpose. Many requests use it at once; what they send shares one connection (on a cluster, one to each node),
/// and every call ends within the purpose's timeout.
///
/// Keys may be any bytes. On a cluster a call goes to the node that holds its (first) key; all keys of one call must be in one slot.
pub struct Client {
    redis: Arc<Redis>,
    route: Route,
    timeout: Duration,
    metrics: Rc<RedisMetrics>,
}

enum Route {
    One(Rc<Link>),
    Cluster(Rc<Cluster>),
}

impl Client {
    /// A client for the thread that calls this, which runs a current-thread runtime of tokio. No connection is made yet.
    pub fn new(redis: Arc<Redis>, purpose: Purpose, metrics: RedisMetrics) -> Rc<Self> {
        let metrics = Rc::new(metrics);
        let (dialer, health) = (redis.dialer.clone(), redis.health_of(purpose).clone());
        let name = format!("weir-{}", purpose.name());
        let link = |peer| Route::One(Link::new(peer, dialer.clone(), name.clone(), health.clone(), metrics.clone()));
        let route = match &dialer.address().servers {
            Servers::One(host) => link(Peer::Host(host.clone())),
            Servers::Sentinel { .. } => link(Peer::Primary),
            Servers::Cluster(seeds) => {
                let (dialer, health) = (dialer.clone(), health.clone());
                Route::Cluster(Cluster::new(seeds.clone(), dialer, name.clone(), health, metrics.clone()))
            }
        };
        let timeout = redis.timeout_of(purpose);
        Rc::new(Client { redis, route, timeout, metrics })
    }

    /// Connects now, in the background, so that the first request need not wait for that.
    pub fn warm_up(&self) {
        match &self.route {
            Route::One(link) => link.start(),
            Route::Cluster(cluster) => cluster.start(),
        }
    }

    /// Which Redis this is.
    pub fn redis(&self) -> &Arc<Redis> {
        &self.redis
    }

    /// Longest time that a call takes.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Whether keys lie in slots, so that a call can only be about keys of one of them.
    pub fn is_cluster(&self) -> bool {
        matches!(self.route, Route::Cluster(_))
    }

    /// Whether another server takes over when the one that serves fails.
    pub fn has_failover(&self) -> bool {
        !matches!(self.redis.dialer.address().servers, Servers::One(_))
    }

    /// Whether a call about `key` would be tried: false while the breaker is open, when it fails at once.
    pub fn may_serve(&self, key: &[u8]) -> bool {
        match &self.route {
            Route::One(link) => link.may_serve(),
            Route::Cluster(cluster) => cluster.may_serve(key),
        }
    }

    /// Sends one command about `key`.
    ///
    /// # Errors
    /// [`Failure`]; an error reply is [`Failure::Refused`].
    pub async fn command(&self, key: &[u8], cmd: &Cmd) -> Result<Value, Failure> {
        self.counted(async |deadline| response(self.send(key, cmd, deadline).await?)).await
    }

    /// Sends several commands in one round trip; each has its own reply, in order. They are not a transaction: others' commands may come
    /// between. On a cluster all are about keys of the slot of `key`.
    ///
    /// # Errors
    /// [`Failure`]; one error reply fails the whole, though the other commands may have been executed.
    pub async fn pipeline(&self, key: &[u8], pipeline: &Pipeline) -> Result<Vec<Value>, Failure> {
        self.counted(async |deadline| {
            let values = match &self.route {
                Route::One(link) => link.pipeline(pipeline, deadline).await?,
                Route::Cluster(cluster) => cluster.pipeline(key, pipeline, deadline).await?,
            };
            values.into_iter().map(response).collect()
        })
        .await
    }

    /// Calls a script. A server that does not know it (a first call, a restart, a replica that took over) is told within the same call.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn script(&self, script: &Script, keys: &[&[u8]], arguments: &[&[u8]]) -> Result<Value, Failure> {
        let write = |cmd: &mut Cmd| {
            for argument in arguments {
                cmd.arg(*argument);
            }
        };
        self.script_with(script, keys, write).await
    }

    /// Calls a script whose arguments `write` appends, once or twice.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn script_with(
        &self,
        script: &Script,
        keys: &[&[u8]],
        write: impl Fn(&mut Cmd),
    ) -> Result<Value, Failure> {
        let key = keys.first().copied().unwrap_or_default();
        self.counted(async |deadline| {
            let mut by_digest = script.by_digest(keys);
            write(&mut by_digest);
            match self.send(key, &by_digest, deadline).await? {
                Value::ServerError(error) if error.code() == "NOSCRIPT" => {
                    let mut by_text = script.by_text(keys);
                    write(&mut by_text);
                    response(self.send(key, &by_text, deadline).await?)
                }
                value => response(value),
            }
        })
        .await
    }

    /// Reads a value; `None` when there is none.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let mut get = Cmd::with_capacity(2, 3 + key.len());
        get.arg("GET").arg(key);
        match self.command(key, &get).await? {
            Value::Nil => Ok(None),
            Value::BulkString(bytes) => Ok(Some(bytes)),
            _ => Err(Failure::Refused("GET returned something other than a string".to_owned())),
        }
    }

    /// Writes a value that expires after `expiry`, in milliseconds, at least one.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn set(&self, key: &[u8], value: &[u8], expiry: Duration) -> Result<(), Failure> {
        let expiry_ms = u64::try_from(expiry.as_millis()).unwrap_or(u64::MAX >> 1).max(1);
        let mut set = Cmd::with_capacity(5, 32 + key.len() + value.len());
        set.arg("SET").arg(key).arg(value).arg("PX").arg(expiry_ms);
        self.command(key, &set).await.map(drop)
    }

    /// Removes a value; says whether there was one.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn delete(&self, key: &[u8]) -> Result<bool, Failure> {
        let mut delete = Cmd::with_capacity(2, 6 + key.len());
        delete.arg("UNLINK").arg(key);
        Ok(matches!(self.command(key, &delete).await?, Value::Int(count) if count > 0))
    }

    async fn send(&self, key: &[u8], cmd: &Cmd, deadline: Instant) -> Result<Value, Failure> {
        match &self.route {
            Route::One(link) => link.command(cmd, deadline).await,
            Route::Cluster(cluster) => cluster.command(key, cmd, deadline).await,
        }
    }

    async fn counted<T>(&self, call: impl AsyncFnOnce(Instant) -> Result<T, Failure>) -> Result<T, Failure> {
        let began = Instant::now();
        let result = call(began + self.timeout).await;
        match &result {
            Ok(_) => self.metrics.responded(began.elapsed()),
            Err(failure) => self.metrics.failed(failure.index()),
        }
        result
    }
}

/// An error reply as a failure.
fn response(value: Value) -> Result<Value, Failure> {
    match value {
        Value::ServerError(error) => {
            Err(Failure::Refused(format!("{} {}", error.code(), error.details().unwrap_or_default())))
        }
        value => Ok(value),
    }
}
