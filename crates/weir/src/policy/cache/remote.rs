//! The level in Redis: shared by all gateways, there after a restart, and never a reason to fail.
//!
//! ```text
//! NAMESPACE:cache:CACHE:DIGEST     a response, or what responses differ by (see `wire.rs`), with an expiry; DIGEST is keyed
//! NAMESPACE:cache:{CACHE}:purges   hash: what was purged, with numbers in order; the field without a name holds the highest number and a random word
//! NAMESPACE:cache:{CACHE}:changes  stream of URLs that unsafe methods changed, the newest 10,000, with an expiry
//! ```
//!
//! **Purges.** With each response the field without a name is read. Where it is not what was read last, the purges are read first, so that a response
//! from Redis is never served after its purge: once for all requests of the process that wait for it. What is in memory follows within a second. A process that finds that Redis lost a purge (a
//! restart, a fail-over to a replica that lagged) writes it again, with its number. The hash holds up to [`MOST_PURGES`] targets; beyond that, after those that
//! are older than any response, one purge of everything takes their place. Nothing is forgotten.
//!
//! **Changes** by unsafe methods: see `changes.rs`.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::task::spawn_local;

use super::entry::Entry;
use super::purge::{Change, Target, Which};
use super::purges::{LONGEST, ReadPurges, Ticket, Unwritten};
use super::wire::{self, Stored};
use super::{Cache, RouteCache, changes};
use crate::redis::{Client, Cmd, Failure, KeyedHash, Script, Value};
use crate::runtime::clock;

/// A response that can be confirmed by the origin is kept so long beyond its freshness.
const KEEP_MS: u64 = 24 * 3600 * 1000;
/// Targets of purges that are distinguished.
pub const MOST_PURGES: usize = 10_000;
/// Redis forgets a purge a day after all that it concerned, and after the gateways did, which would write it again.
const FORGOTTEN_MS: u128 = LONGEST.as_millis() + 24 * 3600 * 1000;
/// Bytes that one worker writes to Redis for one cache at the same time; what comes beyond that is not written. One value is always taken.
const MOST_WRITING: u64 = 8 * 1024 * 1024;
/// Attempts to write a purge before its caller hears of the failure, and the pause between two.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);

static PURGE: LazyLock<Script> = LazyLock::new(|| Script::new("purge", include_str!("purge.lua")));
static STORE: LazyLock<Script> = LazyLock::new(|| Script::new("store", include_str!("store.lua")));

/// One worker's way to the responses of one cache in Redis.
#[derive(Clone)]
pub struct Remote {
    client: Rc<Client>,
    /// First part of every name.
    namespace: Rc<str>,
    /// Name of the cache.
    cache: Arc<str>,
    /// Makes digests of keys, which hold what clients are distinguished by.
    keyed: Rc<KeyedHash>,
    /// Bytes that are being written.
    writing: Rc<Cell<u64>>,
}

/// Bytes that are being written, until it is dropped.
struct Writing(Rc<Cell<u64>>, u64);

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.set(self.0.get() - self.1);
    }
}

impl Remote {
    /// A way that uses `client`.
    pub fn new(client: Rc<Client>, cache: Arc<str>) -> Self {
        let config = client.redis().config();
        let (keyed, namespace) = (Rc::new(KeyedHash::new(config.hash_key())), config.namespace.as_str().into());
        Remote { client, namespace, cache, keyed, writing: Rc::default() }
    }

    /// Longest time of a call.
    pub fn timeout(&self) -> Duration {
        self.client.timeout()
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Name of the cache.
    pub(super) fn cache(&self) -> &str {
        &self.cache
    }

    fn digest(&self, key: &[u8]) -> [u8; 32] {
        self.keyed.hash(&[b"cache", key])
    }

    fn name_of(&self, digest: &[u8; 32]) -> Vec<u8> {
        let mut name = format!("{}:cache:{}:", self.namespace, self.cache).into_bytes();
        for byte in digest {
            name.extend_from_slice(&[
                b"0123456789abcdef"[usize::from(byte >> 4)],
                b"0123456789abcdef"[usize::from(byte & 15)],
            ]);
        }
        name
    }

    fn purges(&self) -> Vec<u8> {
        format!("{}:cache:{{{}}}:purges", self.namespace, self.cache).into_bytes()
    }

    /// The stream of changes.
    pub(super) fn changes(&self) -> Vec<u8> {
        format!("{}:cache:{{{}}}:changes", self.namespace, self.cache).into_bytes()
    }

    /// The version of the purges.
    async fn version(&self) -> Result<Vec<u8>, Failure> {
        let purges = self.purges();
        let mut version = Cmd::with_capacity(3, 64);
        version.arg("HGET").arg(&purges).arg("");
        Ok(match self.client.command(&purges, &version).await? {
            Value::BulkString(version) => version,
            _ => Vec::new(),
        })
    }

    /// What there is for a key, and the version of the purges at that time or later.
    async fn get(&self, digest: &[u8; 32]) -> Result<(Option<Vec<u8>>, Vec<u8>), Failure> {
        let name = self.name_of(digest);
        let (value, version) = tokio::join!(self.client.get(&name), self.version());
        Ok((value?, version?))
    }

    /// Writes purges; new ones get numbers above `seen`. Returns the highest number, and the new ones.
    async fn write_purges(&self, purges: &[Unwritten], seen: u64) -> Result<(u64, Vec<u64>), Failure> {
        let key = self.purges();
        let word = format!("{:016x}", rand_word());
        let all = Target { which: Which::All, soft: false }.to_text();
        let value = self
            .client
            .script_with(&PURGE, &[&key], |cmd| {
                cmd.arg(&word).arg(MOST_PURGES).arg(FORGOTTEN_MS.to_string()).arg(&all).arg(seen);
                for purge in purges {
                    cmd.arg(&purge.text).arg(purge.number.unwrap_or(0));
                }
            })
            .await?;
        let numbers = match value {
            Value::Array(values) => values,
            _ => Vec::new(),
        };
        let mut numbers = numbers.into_iter().map(|value| match value {
            Value::Int(number) => u64::try_from(number).unwrap_or(0),
            _ => 0,
        });
        let highest = numbers.next();
        let highest = highest
            .ok_or_else(|| Failure::Refused("the purge script returned something other than numbers".to_owned()))?;
        Ok((highest, numbers.collect()))
    }
}

/// Differs from call to call and from process to process.
fn rand_word() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    foldhash::fast::RandomState::default().build_hasher().finish()
        ^ std::collections::hash_map::RandomState::new().build_hasher().finish()
}

impl RouteCache {
    /// Reads what Redis has for a key. A failure counts, and is otherwise nothing.
    pub async fn l2_get(&self, key: &[u8]) -> Option<Stored> {
        let remote = self.remote.as_ref()?;
        let digest = remote.digest(key);
        let read = async {
            let (value, version) = remote.get(&digest).await?;
            if value.is_some() && !self.cache.state.purges.is_current(&version) {
                sync(remote, &self.cache, Some(version)).await?;
            }
            Ok::<_, Failure>(value)
        };
        match read.await {
            Ok(value) => match wire::read(value?, key, &digest, &self.edits, &self.cache.settings.tags)? {
                Stored::Response(entry) => self.cache.state.purges.allows(entry).map(Stored::Response),
                varies @ Stored::Varies(_) => Some(varies),
            },
            Err(_) => {
                self.metrics.store_error();
                None
            }
        }
    }

    /// Writes a response to Redis, behind the client's back.
    pub fn l2_put(self: &Rc<Self>, primary: &[u8], entry: &Entry) {
        let Some(remote) = &self.remote else { return };
        let lasts_ms = entry.head.freshness.useless_at_ms(KEEP_MS).saturating_sub(clock::unix_ms());
        if lasts_ms == 0 {
            return;
        }
        let (is_writing, bytes) = (remote.writing.get(), entry.size() as u64);
        if is_writing > 0 && is_writing + bytes > MOST_WRITING {
            self.metrics.write_dropped();
            return;
        }
        remote.writing.set(is_writing + bytes);
        let writing = Writing(remote.writing.clone(), bytes);
        let expiry_ms = Duration::from_millis(lasts_ms).min(LONGEST).as_millis().to_string();
        let digest = remote.digest(&entry.head.key);
        let mut values = vec![(remote.name_of(&digest), wire::response(&digest, entry))];
        if let Some(varies) = &entry.head.varies {
            let digest = remote.digest(primary);
            values.push((remote.name_of(&digest), wire::varies(&digest, varies, entry)));
        }
        let (cache, remote) = (self.clone(), remote.clone());
        spawn_local(async move {
            let _writing = writing;
            for (name, value) in values {
                if remote.client.script(&STORE, &[&name], &[&value, expiry_ms.as_bytes()]).await.is_err() {
                    cache.metrics.store_error();
                }
            }
        });
    }

    /// Tells all gateways of a change.
    pub fn announce(&self, change: Change) {
        if let Some(remote) = &self.remote {
            self.cache.state.changes.add(change);
            let (remote, cache) = (remote.clone(), self.cache.clone());
            spawn_local(async move { changes::send(&remote, &cache).await });
        }
    }
}

/// Writes a purge of this process to Redis; it was applied and noted here. If that fails, this process goes on trying once a second.
///
/// # Errors
/// Redis did not take it so far.
pub async fn publish(remote: &Remote, cache: &Cache, target: &Target, ticket: Ticket) -> Result<(), Failure> {
    let purges = &cache.state.purges;
    let purge = Unwritten { text: target.to_text(), number: None, ticket };
    let mut attempt = 0;
    loop {
        attempt += 1;
        match remote.write_purges(std::slice::from_ref(&purge), purges.generation()).await {
            Ok((highest, numbers)) => {
                purges.told(&purge.text, ticket, numbers.first().copied().unwrap_or(highest));
                return Ok(());
            }
            Err(failure) if attempt == ATTEMPTS => {
                tracing::warn!(error = %failure, cache = &*remote.cache, "a purge did not reach Redis; trying again every second");
                return Err(failure);
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Reads what was purged, applies what is new, and writes what Redis does not have; unless that was done meanwhile for this version. Goes on when the
/// caller no longer waits: a purge that was read must be applied.
async fn sync(remote: &Remote, cache: &Arc<Cache>, version: Option<Vec<u8>>) -> Result<(), Failure> {
    let (remote, cache) = (remote.clone(), cache.clone());
    let task = spawn_local(async move {
        let purges = &cache.state.purges;
        let _one = purges.reading.lock().await;
        if version.is_some_and(|version| purges.is_current(&version)) {
            Ok(())
        } else {
            read_purges(&remote, &cache).await
        }
    });
    task.await.unwrap_or(Err(Failure::Unavailable))
}

async fn read_purges(remote: &Remote, cache: &Arc<Cache>) -> Result<(), Failure> {
    let (key, purges) = (remote.purges(), &cache.state.purges);
    let mut read = Cmd::with_capacity(2, 64);
    read.arg("HGETALL").arg(&key);
    for _ in 0..3 {
        let read = parse_purges(remote.client.command(&key, &read).await?);
        let unwritten = cache.merge_purges(&read).await;
        if unwritten.is_empty() && purges.is_current(&read.version) {
            return Ok(());
        }
        // With what was lost, if anything: numbers go on above those that responses carry.
        let (_, numbers) = remote.write_purges(&unwritten, purges.generation()).await?;
        let new = unwritten.iter().filter(|purge| purge.number.is_none());
        new.zip(numbers).for_each(|(purge, number)| purges.told(&purge.text, purge.ticket, number));
    }
    // Others write all the time: what was read is applied, and the next request reads on.
    Ok(())
}

fn parse_purges(value: Value) -> ReadPurges {
    let pairs: Vec<(Value, Value)> = match value {
        Value::Map(pairs) => pairs,
        Value::Array(items) => {
            let mut items = items.into_iter();
            std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect()
        }
        _ => Vec::new(),
    };
    let mut read = ReadPurges::default();
    for (field, value) in pairs {
        let (Value::BulkString(field), Value::BulkString(value)) = (field, value) else { continue };
        let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = std::str::from_utf8(&value[..digits]).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        if field.is_empty() {
            (read.version, read.number) = (value, number);
        } else {
            read.purges.push((field, number));
        }
    }
    read
}

/// Tells other gateways what changed here, and reads what they purged and changed since the last time, and does the same here.
pub async fn follow(remote: Remote, cache: Arc<Cache>) {
    // A failure is counted by the client; the next second tries again.
    changes::send(&remote, &cache).await;
    let _ = follow_purges(&remote, &cache).await;
    let _ = changes::follow(&remote, &cache).await;
}

/// Reads the purges if they are not what was read last.
async fn follow_purges(remote: &Remote, cache: &Arc<Cache>) -> Result<(), Failure> {
    let version = remote.version().await?;
    let purges = &cache.state.purges;
    if purges.is_current(&version) && !purges.has_unwritten() { Ok(()) } else { sync(remote, cache, None).await }
}
