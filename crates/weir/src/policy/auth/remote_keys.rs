//! API keys in Redis: what one process knows of them, and look-ups of the others.
//!
//! A worker looks a key up on its own connection, in a task of its own, and never blocks. Requests of all workers that present the same key
//! wait for one look-up. Its result is for all workers too: a known key holds for 30 s, an unknown one for 5 s.
//!
//! A message on the channel [`Names::channel`] says that an entry has changed: the key is looked up with its next request. While the channel
//! is not followed, changes are seen at the end of the 30 s; when it is followed again every key is looked up once more, because messages
//! may be missing.
//!
//! While Redis does not respond, keys that were looked up before go on holding for `stale`. Others are refused with 503: a 401 would make
//! clients throw good keys away.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use auth::Refusal;
use auth::api_key::{Cached, Digester, Entry, KeyCache, Lifetimes, Record, from_hex, hex};
use tokio::sync::watch;
use tokio::task::spawn_local;

use crate::config::RedisKeys;
use crate::redis::{Client, Cmd, Event, Failure, Redis, Value, follow};
use crate::runtime::clock;
use crate::runtime::deadline::nanos;
use crate::runtime::lock::lock;
use crate::runtime::seldom::OnceAMinute;

/// Keys that one authenticator holds, known and unknown ones.
const CAPACITY: usize = 100_000;
/// Locks over them, so that workers seldom wait for one another. A power of two.
const SHARDS: usize = 16;
const KNOWN: Duration = Duration::from_secs(30);
const UNKNOWN: Duration = Duration::from_secs(5);
/// Look-ups of one authenticator in flight.
const MOST_IN_FLIGHT: usize = 1_024;
/// Of these, the share that keys of which nothing is known may have: the rest is for keys that were in use.
const MOST_NEW_IN_FLIGHT: usize = MOST_IN_FLIGHT / 4 * 3;
/// What a message says that is about all keys.
const EVERYTHING: &[u8] = b"*";

const SILENT: &str = "the key store does not respond";
const BROKEN: &str = "the entry of the key in the store cannot be used";
const BUSY: &str = "too many keys are being looked up";

/// Outcomes of look-ups, as metrics name them.
const OUTCOMES: [&str; 5] = ["known", "unknown", "invalid", "failed", "dropped"];

/// Names in Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names(Box<str>);

impl Names {
    /// Those of a namespace.
    pub(super) fn new(namespace: &str) -> Self {
        Names(namespace.into())
    }

    /// The hash that holds the entry of a key: `weir:key:` and the digest.
    pub(super) fn entry(&self, digest: &[u8; 32]) -> Vec<u8> {
        format!("{}:key:{}", self.0, hex(digest)).into_bytes()
    }

    /// The hash that holds the digests of all keys by id, for those who manage them.
    pub(super) fn index(&self) -> Vec<u8> {
        format!("{}:keys", self.0).into_bytes()
    }

    /// The channel that says which entries changed: digests, or `*` for all.
    pub(super) fn channel(&self) -> String {
        format!("{}:keys:changed", self.0)
    }
}

/// The keys of one authenticator, for all workers.
pub(super) struct RemoteKeys {
    /// Name of the authenticator.
    name: Arc<str>,
    spec: RedisKeys,
    pepper: Option<Arc<str>>,
    redis: Arc<Redis>,
    names: Names,
    digester: Digester,
    shards: [Mutex<Shard>; SHARDS],
    in_flight: AtomicUsize,
    /// By place in [`OUTCOMES`].
    outcomes: [AtomicU64; OUTCOMES.len()],
    /// One worker follows the channel.
    is_followed: AtomicBool,
    /// Whether messages arrive.
    is_current: AtomicBool,
    /// Lines about entries that cannot be used.
    broken_lines: OnceAMinute,
    /// Lines about refused look-ups.
    refused_lines: OnceAMinute,
}

struct Shard {
    cache: KeyCache,
    /// Look-ups whose result counts.
    flights: HashMap<[u8; 32], Arc<Flight>>,
}

/// A look-up that requests wait for.
type Flight = watch::Sender<Option<KeyLookup>>;

/// What came of a look-up.
#[derive(Clone)]
enum KeyLookup {
    Known(Arc<Record>),
    Unknown,
    /// It says nothing about the key, and why.
    Nothing(&'static str),
}

impl RemoteKeys {
    /// Keys of which nothing is known yet; those of the configuration before if they are the same ones.
    pub(super) fn new(
        name: &Arc<str>,
        spec: RedisKeys,
        pepper: Option<&Arc<str>>,
        redis: &Arc<Redis>,
        before: Option<&Arc<RemoteKeys>>,
    ) -> Arc<Self> {
        let same = before.filter(|before| {
            before.name == *name
                && before.spec == spec
                && before.pepper.as_ref() == pepper
                && Arc::ptr_eq(&before.redis, redis)
        });
        if let Some(same) = same {
            return same.clone();
        }
        let lifetimes =
            Lifetimes { known_ns: nanos(KNOWN), unknown_ns: nanos(UNKNOWN), stale_ns: nanos(spec.stale.max(KNOWN)) };
        let shard =
            |_| Mutex::new(Shard { cache: KeyCache::new(CAPACITY / SHARDS, lifetimes), flights: HashMap::default() });
        Arc::new(RemoteKeys {
            name: name.clone(),
            spec,
            pepper: pepper.cloned(),
            redis: redis.clone(),
            names: Names::new(&redis.config().namespace),
            digester: Digester::new(pepper.map(|pepper| pepper.as_bytes())),
            shards: std::array::from_fn(shard),
            in_flight: AtomicUsize::new(0),
            outcomes: Default::default(),
            is_followed: AtomicBool::new(false),
            is_current: AtomicBool::new(false),
            broken_lines: OnceAMinute::default(),
            refused_lines: OnceAMinute::default(),
        })
    }

    /// Name of the authenticator.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether these are the keys of an authenticator with this name.
    pub(super) fn is_of(&self, name: &str) -> bool {
        *self.name == *name
    }

    /// The digest of a presented key.
    ///
    /// # Errors
    /// What no store has to be queried about: bytes that no key has, a wrong checksum.
    pub(super) fn digest(&self, presented: &[u8]) -> Result<[u8; 32], Refusal> {
        self.digester.digest(presented)
    }

    /// The record of a key, from what is known or from Redis. `is_hit` says which.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] for a key that the store does not have, [`Refusal::Unavailable`] when that is not known.
    pub(super) async fn find(
        self: &Arc<Self>,
        client: &Rc<Client>,
        digest: [u8; 32],
        is_hit: &Cell<bool>,
    ) -> Result<Arc<Record>, Refusal> {
        let (stale, waiting) = {
            let mut shard = lock(self.shard(&digest));
            is_hit.set(true);
            let stale = match shard.cache.get(&digest, clock::now_ns()) {
                Cached::Known(record) => return Ok(record),
                Cached::Unknown => return Err(Refusal::Invalid("unknown key")),
                Cached::Stale(record) => Some(record),
                Cached::Absent => None,
            };
            is_hit.set(false);
            let waiting = match shard.flights.get(&digest) {
                Some(flight) => Some(flight.subscribe()),
                None => self.begin(client, &mut shard, digest, stale.is_some()),
            };
            (stale, waiting)
        };
        let found = match waiting {
            None => KeyLookup::Nothing(BUSY),
            // The task sets it before it ends, whatever happens to it.
            Some(mut waiting) => match waiting.wait_for(Option::is_some).await {
                Ok(found) => found.clone().unwrap_or(KeyLookup::Nothing(SILENT)),
                Err(_) => KeyLookup::Nothing(SILENT),
            },
        };
        match (found, stale) {
            (KeyLookup::Known(record), _) | (KeyLookup::Nothing(_), Some(record)) => Ok(record),
            (KeyLookup::Unknown, _) => Err(Refusal::Invalid("unknown key")),
            (KeyLookup::Nothing(why), None) => Err(Refusal::Unavailable(why)),
        }
    }

    /// Begins a look-up; `None` when too many are in flight.
    fn begin(
        self: &Arc<Self>,
        client: &Rc<Client>,
        shard: &mut Shard,
        digest: [u8; 32],
        was_known: bool,
    ) -> Option<watch::Receiver<Option<KeyLookup>>> {
        let most = if was_known { MOST_IN_FLIGHT } else { MOST_NEW_IN_FLIGHT };
        let taken = self.in_flight.fetch_update(Relaxed, Relaxed, |count| (count < most).then_some(count + 1));
        if taken.is_err() {
            self.count("dropped");
            return None;
        }
        let (flight, waiting) = watch::channel(None);
        let flight = Arc::new(flight);
        shard.flights.insert(digest, flight.clone());
        let look_up = LookUp { keys: self.clone(), digest, flight, began_ns: clock::now_ns() };
        let client = client.clone();
        // Apart from the request: others wait for it too, and may wait longer.
        spawn_local(async move { look_up.run(&client).await });
        Some(waiting)
    }

    fn shard(&self, digest: &[u8; 32]) -> &Mutex<Shard> {
        &self.shards[usize::from(digest[31]) % SHARDS]
    }

    fn count(&self, outcome: &str) {
        if let Some(index) = OUTCOMES.iter().position(|one| *one == outcome) {
            self.outcomes[index].fetch_add(1, Relaxed);
        }
    }

    /// Look-ups so far, by the label `outcome` of metrics.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        OUTCOMES.into_iter().zip(self.outcomes.each_ref().map(|count| count.load(Relaxed)))
    }

    /// Known and unknown keys that are held.
    pub(super) fn held(&self) -> [usize; 2] {
        self.shards
            .iter()
            .map(|shard| lock(shard).cache.len())
            .fold([0, 0], |all, one| [all[0] + one[0], all[1] + one[1]])
    }

    /// Whether changes are told to this process.
    pub(super) fn is_current(&self) -> bool {
        self.is_current.load(Relaxed)
    }

    /// An entry has changed: neither what is known of it counts any more, nor a look-up that may have read it before.
    fn changed(&self, message: &[u8]) {
        if message == EVERYTHING {
            self.expire_all();
        } else if let Some(digest) = from_hex(message) {
            let mut shard = lock(self.shard(&digest));
            shard.cache.remove(&digest);
            shard.flights.remove(&digest);
        } else {
            tracing::warn!(auth = &*self.name, "a message about changed API keys is neither a digest nor `*`");
        }
    }

    fn expire_all(&self) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            shard.cache.expire_all(clock::now_ns());
            // Those who wait for a look-up get what it read; later requests look again.
            shard.flights.clear();
        }
    }

    /// Follows changes from now on, unless another worker does. To be called on a worker; ends when the keys are not used any more.
    pub(super) fn follow(self: &Arc<Self>) {
        if self.is_followed.swap(true, Relaxed) {
            return;
        }
        let (redis, channel) = (self.redis.clone(), self.names.channel());
        let keys = Arc::downgrade(self);
        spawn_local(async move {
            let is_announced = Cell::new(false);
            let tell = |event| {
                let Some(keys) = keys.upgrade() else { return ControlFlow::Break(()) };
                keys.note(event, &is_announced);
                ControlFlow::Continue(())
            };
            follow(redis, &channel, tell).await;
        });
    }

    fn note(&self, event: Event, is_announced: &Cell<bool>) {
        let auth = &*self.name;
        let has_lasted = matches!(event, Event::Message(_) | Event::Idle);
        match event {
            Event::Began => {
                self.expire_all();
                self.is_current.store(true, Relaxed);
            }
            Event::Message(message) => self.changed(&message),
            Event::Ended(why) => {
                self.is_current.store(false, Relaxed);
                if !is_announced.replace(true) {
                    tracing::warn!(
                        auth,
                        why,
                        "changes of API keys are not followed: a revoked key may be accepted for 30 s until they are, \
                         and longer while Redis does not respond"
                    );
                }
            }
            Event::Idle => {}
        }
        // Not at its start: a subscription that comes and goes must not fill the log.
        if has_lasted && is_announced.replace(false) {
            tracing::info!(auth, "changes of API keys are followed again");
        }
    }

    /// Most such errors concern this command alone, so that the connection counts as serving: a cluster behind `redis://`, a command that
    /// the server does not have.
    fn log_refused(&self, error: &str) {
        if self.refused_lines.pass() {
            tracing::error!(
                auth = &*self.name,
                error,
                "Redis refuses look-ups of API keys; this is logged once a minute at most"
            );
        }
    }

    fn log_broken(&self, digest: &[u8; 32], problem: &str) {
        if self.broken_lines.pass() {
            // Enough of the name to find it by.
            let name = format!("{}:key:{}*", self.names.0, &hex(digest)[..12]);
            tracing::error!(
                auth = &*self.name,
                name,
                "the entry of an API key in Redis cannot be used, requests with the key get 503: {problem}; this is logged once a minute at most"
            );
        }
    }
}

impl fmt::Debug for RemoteKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteKeys").field("name", &self.name).finish_non_exhaustive()
    }
}

/// One look-up. Dropped before its end, as with the worker that makes it, it has failed.
struct LookUp {
    keys: Arc<RemoteKeys>,
    digest: [u8; 32],
    flight: Arc<Flight>,
    /// Before the question was sent: what changed since is not certain to be in the response.
    began_ns: u64,
}

impl LookUp {
    async fn run(self, client: &Client) {
        let name = self.keys.names.entry(&self.digest);
        let mut get = Cmd::with_capacity(2, 16 + name.len());
        get.arg("HGETALL").arg(&name);
        let found = match client.command(&name, &get).await {
            Ok(value) => match read(&self.digest, &value) {
                Ok(found) => found,
                Err(problem) => self.broken(&problem),
            },
            Err(Failure::Refused(error)) if error.starts_with("WRONGTYPE") => self.broken("it is not a hash"),
            Err(Failure::Refused(error)) => {
                self.keys.log_refused(&error);
                KeyLookup::Nothing(SILENT)
            }
            Err(_) => KeyLookup::Nothing(SILENT),
        };
        self.keys.count(match &found {
            KeyLookup::Known(_) => "known",
            KeyLookup::Unknown => "unknown",
            KeyLookup::Nothing(BROKEN) => "invalid",
            KeyLookup::Nothing(_) => "failed",
        });
        self.end(found);
    }

    fn broken(&self, problem: &str) -> KeyLookup {
        self.keys.log_broken(&self.digest, problem);
        KeyLookup::Nothing(BROKEN)
    }

    fn end(&self, found: KeyLookup) {
        let mut shard = lock(self.keys.shard(&self.digest));
        // Not if the entry changed meanwhile: those who waited get what was read, later requests look again.
        if shard.flights.get(&self.digest).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
            shard.flights.remove(&self.digest);
            match &found {
                KeyLookup::Known(record) => shard.cache.insert(self.digest, Some(record.clone()), self.began_ns),
                KeyLookup::Unknown => shard.cache.insert(self.digest, None, self.began_ns),
                KeyLookup::Nothing(_) => {}
            }
        }
        drop(shard);
        self.flight.send_if_modified(|slot| {
            let is_open = slot.is_none();
            if is_open {
                *slot = Some(found);
            }
            is_open
        });
    }
}

impl Drop for LookUp {
    fn drop(&mut self) {
        self.keys.in_flight.fetch_sub(1, Relaxed);
        self.end(KeyLookup::Nothing(SILENT));
    }
}

#[cfg(test)]
mod tests;

/// Reads the response to `HGETALL`. A hash without fields does not exist.
fn read(digest: &[u8; 32], value: &Value) -> Result<KeyLookup, String> {
    let text = |value: &Value| match value {
        Value::BulkString(text) => Some(text.clone()),
        Value::SimpleString(text) => Some(text.clone().into_bytes()),
        _ => None,
    };
    // All of them or none: without a field such as `disabled` an entry would say more than it does.
    let pairs: Option<Vec<(Vec<u8>, Vec<u8>)>> = match value {
        Value::Array(list) if list.len().is_multiple_of(2) => {
            list.chunks_exact(2).map(|pair| Some((text(&pair[0])?, text(&pair[1])?))).collect()
        }
        Value::Map(pairs) => pairs.iter().map(|(name, value)| Some((text(name)?, text(value)?))).collect(),
        Value::Nil => Some(Vec::new()),
        _ => None,
    };
    let pairs = pairs.ok_or("it is not a hash of texts")?;
    if pairs.is_empty() {
        return Ok(KeyLookup::Unknown);
    }
    let entry = Entry::from_fields(&hex(digest), pairs.iter().map(|(name, value)| (&name[..], &value[..])))?;
    Ok(KeyLookup::Known(Arc::new(Record::of(entry)?)))
}
