//! What all threads of the process share.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc::UnboundedSender;

use super::Worker;
use super::healthz::{Cachez, write_healthz};
use super::snapshot::Generation;
use crate::client::origin::Origin;
use crate::config::ClientAddress;
use crate::config::{Bind, CacheMode, CacheStore};
use crate::io::listening::ListeningSocket;
use crate::io::socket::DetachedSocket;
use crate::observe::metrics::CacheSnapshot;
use crate::observe::{AccessLog, Metrics, Push, Traces};
use crate::policy::cache::Cache;
use crate::policy::cache::store::Memory;
use crate::policy::limit::{Remote, Workers};
use crate::runtime::lock::lock;

/// What a worker is told.
pub enum Message {
    /// Follow this configuration from the next request on.
    Reload(Arc<Generation>),
    /// Accept connections: all workers could be set up.
    Accept,
    /// Listen on these sockets too: the configuration has new listeners.
    Listen(Vec<ListenerSocket>),
    /// Listen there no more; what waits in the queues is still accepted.
    Unlisten(Vec<Bind>),
    /// Serve a connection that another worker accepted, from this address if it has one.
    Serve(DetachedSocket, Option<SocketAddr>, Arc<Origin>),
    /// Do something that needs what only the worker has.
    Run(Box<dyn FnOnce(&Worker) + Send>),
    /// Accept no more, end what is in progress, then end.
    Drain,
    /// Close connections that have been idle for the longest time: the process needs room for others.
    MakeRoom,
    /// Flush what is buffered for the log.
    FlushLog,
}

/// One socket of a listener, for one worker.
#[derive(Debug)]
pub struct ListenerSocket {
    /// Where its listener takes connections.
    pub bind: Bind,
    /// What its connections know of it.
    pub origin: Arc<Origin>,
    /// The socket itself.
    pub listener: ListeningSocket,
}

/// A worker as others see it.
pub struct WorkerHandle {
    /// Client connections that it has, those on their way to it included.
    pub connections: AtomicUsize,
    mailbox: UnboundedSender<Message>,
}

/// State of the process.
pub struct Shared {
    /// The configuration that new requests follow.
    generation: Mutex<Arc<Generation>>,
    workers: Vec<WorkerHandle>,
    /// Client connections that descriptors allow.
    descriptor_bound: usize,
    per_client: Mutex<HashMap<ClientAddress, usize>>,
    /// Whether load balancers should send requests here.
    ready: AtomicBool,
    /// Whether what is in flight is given up.
    cut_off: AtomicBool,
    metrics: Metrics,
    access_log: Option<AccessLog>,
    traces: Option<Traces>,
    push: Option<Push>,
    /// Copies of requests in flight.
    pub mirrors: Arc<AtomicUsize>,
}

impl Shared {
    /// State for workers that listen to these mailboxes.
    pub fn new(
        generation: Arc<Generation>,
        mailboxes: Vec<UnboundedSender<Message>>,
        metrics: Metrics,
        access_log: Option<AccessLog>,
        traces: Option<Traces>,
        push: Option<Push>,
        descriptor_bound: usize,
    ) -> Arc<Self> {
        Arc::new(Shared {
            generation: Mutex::new(generation),
            workers: mailboxes.into_iter().map(WorkerHandle::new).collect(),
            descriptor_bound,
            per_client: Mutex::default(),
            ready: AtomicBool::new(true),
            cut_off: AtomicBool::new(false),
            metrics,
            access_log,
            traces,
            push,
            mirrors: Arc::default(),
        })
    }

    /// The configuration at the moment.
    pub fn generation(&self) -> Arc<Generation> {
        lock(&self.generation).clone()
    }

    /// Makes all workers follow another configuration.
    pub fn publish(&self, generation: Arc<Generation>) {
        *lock(&self.generation) = generation.clone();
        self.tell_all(|| Message::Reload(generation.clone()));
    }

    /// Makes all workers end.
    pub fn drain(&self) {
        self.tell_all(|| Message::Drain);
    }

    /// Makes workers that drain give up what is still in flight.
    pub fn cut_off(&self) {
        self.cut_off.store(true, Ordering::Relaxed);
    }

    /// Whether what is in flight is given up.
    pub fn is_cut_off(&self) -> bool {
        self.cut_off.load(Ordering::Relaxed)
    }

    /// Lets health endpoints say that this process will end. Not after a take-over: its address goes on being served.
    pub fn refuse_readiness(&self) {
        self.ready.store(false, Ordering::Relaxed);
    }

    /// Lets health endpoints say that this process serves.
    pub fn allow_readiness(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }

    /// Whether load balancers should send requests here.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// Tells every worker.
    pub fn tell_all(&self, message: impl Fn() -> Message) {
        for worker in &self.workers {
            // A worker that has ended needs to know nothing.
            let _ = worker.mailbox.send(message());
        }
    }

    /// The workers.
    pub fn workers(&self) -> &[WorkerHandle] {
        &self.workers
    }

    /// Open client connections of the process.
    pub fn connections(&self) -> usize {
        self.workers.iter().map(|worker| worker.connections.load(Ordering::Relaxed)).sum()
    }

    /// Whether another client connection fits, by the configuration and by descriptors.
    pub fn has_room(&self, max_connections: usize) -> bool {
        self.connections() < max_connections.min(self.descriptor_bound)
    }

    /// Most client connections, by the configuration in force and by descriptors.
    pub fn connection_limit(&self) -> usize {
        self.generation().config.server.max_connections.min(self.descriptor_bound)
    }

    /// Counts of the process.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The access log, if there is one.
    pub fn access_log(&self) -> Option<&AccessLog> {
        self.access_log.as_ref()
    }

    /// Traces of requests, if they are recorded.
    pub fn traces(&self) -> Option<&Traces> {
        self.traces.as_ref()
    }

    /// Metrics for a collector, if they are sent to one.
    pub fn push(&self) -> Option<&Push> {
        self.push.as_ref()
    }

    /// The document of `/healthz`.
    pub fn healthz(&self) -> Vec<u8> {
        let mut document = Vec::new();
        let generation = self.generation();
        let upstreams = generation.upstreams.snapshot();
        let redis = generation.redis.as_deref();
        write_healthz(&mut document, self.is_ready(), self.metrics.uptime_ms(), &upstreams, redis);
        document
    }

    /// What each cache holds, for the metrics.
    pub fn caches(&self) -> Vec<CacheSnapshot> {
        let snapshot = |cache: &Arc<Cache>| CacheSnapshot {
            name: cache.settings.name.as_ref().into(),
            bytes: cache.state.memory.bytes(),
            entries: cache.state.memory.entries(),
            evictions: cache.state.memory.evictions(),
            waiting: cache.state.budget.readers(),
        };
        self.generation().caches.iter().map(snapshot).collect()
    }

    /// Counts of the caches; none when there is no cache.
    pub fn cachez(&self) -> Option<Cachez> {
        let generation = self.generation();
        let first = generation.caches.first()?;
        let redis = first.settings.stores.contains(&CacheStore::Redis);
        let sum = |count: fn(&Memory) -> u64| generation.caches.iter().map(|cache| count(&cache.state.memory)).sum();
        Some(Cachez {
            totals: self.metrics.cache_totals(),
            backend: if redis { "redis" } else { "memory" },
            ttl: match &first.settings.mode {
                CacheMode::Ttl(ttl) => Some(*ttl),
                CacheMode::Llm(calls) => Some(calls.ttl),
                CacheMode::Http { .. } => None,
            },
            bytes: sum(Memory::bytes),
            entries: sum(Memory::entries),
            evictions: sum(Memory::evictions),
        })
    }

    /// Counts a connection of `client`, unless it has `most` already.
    pub fn admit_client(&self, client: ClientAddress, most: usize) -> bool {
        let mut counts = lock(&self.per_client);
        let count = counts.entry(client).or_insert(0);
        if *count >= most {
            return false;
        }
        *count += 1;
        true
    }

    /// A counted connection of `client` has ended.
    pub fn release_client(&self, client: ClientAddress) {
        let mut counts = lock(&self.per_client);
        if let Some(count) = counts.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&client);
            }
        }
    }
}

impl WorkerHandle {
    /// A worker without connections that reads this mailbox.
    pub fn new(mailbox: UnboundedSender<Message>) -> Self {
        WorkerHandle { connections: AtomicUsize::new(0), mailbox }
    }

    /// Puts a message into the worker's mailbox; gives it back when the worker has ended.
    ///
    /// # Errors
    /// The message.
    pub fn tell(&self, message: Message) -> Result<(), Message> {
        self.mailbox.send(message).map_err(|undelivered| undelivered.0)
    }
}

impl Workers for Shared {
    fn first(&self, job: impl FnOnce(Rc<Remote>) + Send + 'static) -> bool {
        let message = Message::Run(Box::new(move |worker| {
            if let Some(remote) = worker.snapshot.borrow().limits.remote.clone() {
                job(remote);
            }
        }));
        self.workers.first().is_some_and(|worker| worker.tell(message).is_ok())
    }

    fn all(&self, job: fn(&Remote)) {
        self.tell_all(|| {
            Message::Run(Box::new(move |worker| {
                if let Some(remote) = &worker.snapshot.borrow().limits.remote {
                    job(remote);
                }
            }))
        });
    }
}
