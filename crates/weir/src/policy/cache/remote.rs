//! The level in Redis: shared by all gateways, there after a restart, and never a reason to fail.
//!
//! ```text
//! NAMESPACE:cache:CACHE:DIGEST     a response, or what responses differ by (see `wire.rs`), with an expiry; DIGEST is keyed
//! NAMESPACE:cache:{CACHE}:purges   hash: what was purged, with numbers in order; the field without a name holds the highest number and a random word
//! NAMESPACE:cache:{CACHE}:changes  stream of URLs that unsafe methods changed, the newest 10,000, with an expiry
//! ```
//!
//! **Purges.** With each response the field without a name is read. Where it is not what was read last, the purges are read first, so that a response
//! from Redis is never served after its purge. What is in memory follows within a second. A process that finds that Redis lost a purge (a
//! restart, a fail-over to a replica that lagged) writes it again, with its number. The hash holds up to [`MOST_PURGES`] targets; beyond that, after those that
//! are older than any response, one purge of everything takes their place. Nothing is forgotten.
//!
//! **Changes** by unsafe methods are compared by time. Who missed some because the stream was trimmed validates everything of that time or before.

use std::rc::Rc;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use tokio::task::spawn_local;

use super::entry::Entry;
use super::purge::{Change, Target, Which};
use super::purges::{LONGEST, Untold};
use super::wire::{self, Stored};
use super::{Cache, RouteCache};
use crate::redis::{Client, Cmd, Failure, KeyedHash, Script, Value};
use crate::server::clock;
use crate::server::shared::lock;

/// An answer that can be confirmed by the origin is kept so long beyond its freshness.
const KEEP_MS: u64 = 24 * 3600 * 1000;
/// Changes that the stream holds, about.
const CHANGES: usize = 10_000;
/// Changes that are read at once.
const BATCH: usize = 1_000;
/// Targets of purges that are told apart.
pub const MOST_PURGES: usize = 10_000;
/// Redis forgets a purge a day after all that it concerned, and after the gateways did, which would write it again.
const FORGOTTEN_MS: u128 = LONGEST.as_millis() + 24 * 3600 * 1000;
/// Attempts to write a purge before its caller hears of the failure, and the pause between two.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);

static PURGE: LazyLock<Script> = LazyLock::new(|| Script::new("purge", include_str!("purge.lua")));
static STORE: LazyLock<Script> = LazyLock::new(|| Script::new("store", include_str!("store.lua")));

/// One worker's way to the answers of one cache in Redis.
#[derive(Clone)]
pub struct Remote {
    client: Rc<Client>,
    /// First part of every name.
    namespace: Rc<str>,
    /// Name of the cache.
    cache: Arc<str>,
    /// Makes digests of keys, which hold what clients are told apart by.
    keyed: Rc<KeyedHash>,
}

impl Remote {
    /// A way that uses `client`.
    pub fn new(client: Rc<Client>, cache: Arc<str>) -> Self {
        let config = client.redis().config();
        let (keyed, namespace) = (Rc::new(config.keyed_hash()), config.namespace.as_str().into());
        Remote { client, namespace, cache, keyed }
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

    fn changes(&self) -> Vec<u8> {
        format!("{}:cache:{{{}}}:changes", self.namespace, self.cache).into_bytes()
    }

    /// What there is for a key, and the version of the purges.
    async fn get(&self, digest: &[u8; 32]) -> Result<(Option<Vec<u8>>, Vec<u8>), Failure> {
        let (name, purges) = (self.name_of(digest), self.purges());
        let mut version = Cmd::with_capacity(3, 64);
        version.arg("HGET").arg(&purges).arg("");
        let (value, version) = tokio::join!(self.client.get(&name), self.client.command(&purges, &version));
        let version = match version? {
            Value::BulkString(version) => version,
            _ => Vec::new(),
        };
        Ok((value?, version))
    }

    /// Writes purges, and returns the highest number; new ones get numbers above `seen`.
    async fn write_purges(&self, purges: &[Untold], seen: u64) -> Result<u64, Failure> {
        let key = self.purges();
        let word = format!("{:016x}", rand_word());
        let all = Target { which: Which::All, soft: false }.to_text();
        let value = self
            .client
            .script_with(&PURGE, &[&key], |cmd| {
                cmd.arg(&word).arg(MOST_PURGES).arg(FORGOTTEN_MS.to_string()).arg(&all).arg(seen);
                for (text, number) in purges {
                    cmd.arg(text).arg(number.unwrap_or(0));
                }
            })
            .await?;
        match value {
            Value::Int(number) => Ok(u64::try_from(number).unwrap_or(0)),
            _ => Err(Failure::Refused("the purge script returned something other than a number".to_owned())),
        }
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
    pub async fn recall(&self, key: &[u8]) -> Option<Stored> {
        let remote = self.remote.as_ref()?;
        let digest = remote.digest(key);
        let read = async {
            let (value, version) = remote.get(&digest).await?;
            if value.is_some() && !self.cache.state.purges.is_current(&version) {
                sync(remote, &self.cache).await?;
            }
            Ok::<_, Failure>(value)
        };
        match read.await {
            Ok(value) => match wire::read(value?, key, &digest, &self.edits, &self.cache.settings.tags)? {
                Stored::Answer(entry) => self.cache.state.purges.allows(entry).map(Stored::Answer),
                varies @ Stored::Varies(_) => Some(varies),
            },
            Err(_) => {
                self.metrics.store_error();
                None
            }
        }
    }

    /// Writes an answer to Redis, behind the client's back.
    pub fn remember(self: &Rc<Self>, primary: &[u8], entry: &Entry) {
        let Some(remote) = &self.remote else { return };
        let lasts_ms = entry.head.terms.useless_at_ms(KEEP_MS).saturating_sub(clock::unix_ms());
        if lasts_ms == 0 {
            return;
        }
        let expiry_ms = Duration::from_millis(lasts_ms).min(LONGEST).as_millis().to_string();
        let digest = remote.digest(&entry.head.key);
        let mut values = vec![(remote.name_of(&digest), wire::answer(&digest, entry))];
        if let Some(varies) = &entry.head.varies {
            let digest = remote.digest(primary);
            values.push((remote.name_of(&digest), wire::varies(&digest, varies, entry)));
        }
        let (cache, remote) = (self.clone(), remote.clone());
        spawn_local(async move {
            for (name, value) in values {
                if remote.client.script(&STORE, &[&name], &[&value, expiry_ms.as_bytes()]).await.is_err() {
                    cache.metrics.store_error();
                }
            }
        });
    }

    /// Tells all gateways of a change.
    pub fn announce(&self, change: &Change) {
        if let Some(remote) = &self.remote {
            spawn_local(announce(remote.clone(), change.clone()));
        }
    }
}

/// Writes a purge of this process to Redis; it was applied and noted here. If that fails, this process goes on trying once a second.
///
/// # Errors
/// Redis did not take it so far.
pub async fn publish(remote: &Remote, cache: &Cache, target: &Target) -> Result<(), Failure> {
    let text = target.to_text();
    let mut attempt = 0;
    loop {
        attempt += 1;
        match remote.write_purges(&[(text.clone(), None)], cache.state.purges.generation()).await {
            Ok(number) => {
                cache.state.purges.told(&text, number);
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

/// Reads what was purged, applies what is new, and writes what Redis does not have.
async fn sync(remote: &Remote, cache: &Cache) -> Result<(), Failure> {
    let key = remote.purges();
    let mut read = Cmd::with_capacity(2, 64);
    read.arg("HGETALL").arg(&key);
    for _ in 0..3 {
        let (version, number, purges) = parse_purges(remote.client.command(&key, &read).await?);
        let untold = cache.merge_purges(&version, number, &purges);
        if untold.is_empty() {
            return Ok(());
        }
        let (lost, new): (Vec<_>, Vec<_>) = untold.into_iter().partition(|(_, number)| number.is_some());
        if !lost.is_empty() {
            remote.write_purges(&lost, 0).await?;
        }
        // One by one, because each gets a number.
        for purge in new {
            let number = remote.write_purges(std::slice::from_ref(&purge), cache.state.purges.generation()).await?;
            cache.state.purges.told(&purge.0, number);
        }
    }
    // Others write all the time: what was read is applied, and the next request reads on.
    Ok(())
}

type ReadPurges = (Vec<u8>, u64, Vec<(Vec<u8>, u64)>);

fn parse_purges(value: Value) -> ReadPurges {
    let pairs: Vec<(Value, Value)> = match value {
        Value::Map(pairs) => pairs,
        Value::Array(items) => {
            let mut items = items.into_iter();
            std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect()
        }
        _ => Vec::new(),
    };
    let (mut version, mut highest, mut purges) = (Vec::new(), 0, Vec::new());
    for (field, value) in pairs {
        let (Value::BulkString(field), Value::BulkString(value)) = (field, value) else { continue };
        let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = std::str::from_utf8(&value[..digits]).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        if field.is_empty() {
            (version, highest) = (value, number);
        } else {
            purges.push((field, number));
        }
    }
    (version, highest, purges)
}

/// Writes a change to the stream.
async fn announce(remote: Remote, change: Change) {
    let (name, text) = (remote.changes(), change.to_text());
    let mut add = Cmd::with_capacity(8, 128 + text.len());
    add.arg("XADD").arg(&name).arg("MAXLEN").arg("~").arg(CHANGES).arg("*").arg("e").arg(text);
    let mut expire = Cmd::with_capacity(3, 64);
    expire.arg("PEXPIRE").arg(&name).arg(u64::try_from(LONGEST.as_millis()).unwrap_or(u64::MAX));
    let result = match remote.client.command(&name, &add).await {
        Ok(_) => remote.client.command(&name, &expire).await,
        failed => failed,
    };
    if let Err(error) = result {
        tracing::warn!(%error, cache = &*remote.cache, "a change did not reach Redis: other gateways may serve what was there before it");
    }
}

/// Position in the stream of changes.
#[derive(Debug, Default)]
pub struct Position(Mutex<Vec<u8>>);

/// Reads what other gateways purged and changed since the last time, and does the same here.
pub async fn follow(remote: Remote, cache: Arc<Cache>) {
    // A failure is counted by the client; the next second tries again.
    let _ = sync(&remote, &cache).await;
    let _ = follow_changes(&remote, &cache).await;
}

async fn follow_changes(remote: &Remote, cache: &Cache) -> Result<(), Failure> {
    let (state, name) = (&cache.state, remote.changes());
    let mut is_first = true;
    loop {
        let last = lock(&state.position.0).clone();
        let from = if last.is_empty() { b"-".to_vec() } else { [b"(", &last[..]].concat() };
        let mut range = Cmd::with_capacity(6, 128);
        range.arg("XRANGE").arg(&name).arg(from).arg("+").arg("COUNT").arg(BATCH);
        let Value::Array(items) = remote.client.command(&name, &range).await? else { return Ok(()) };
        // So many at once may be fewer than there were.
        if std::mem::take(&mut is_first) && items.len() == BATCH {
            note_trimmed(remote, cache, &last).await?;
        }
        for item in &items {
            let Some((id, text)) = parse_item(item) else { continue };
            *lock(&state.position.0) = id.to_vec();
            if let Some(change) = Change::from_text(text) {
                state.invalidated.note(change.url.as_bytes(), change.at_ms);
            }
        }
        if items.len() < BATCH {
            return Ok(());
        }
    }
}

/// If changes after `last` were trimmed, everything of their time must be validated.
async fn note_trimmed(remote: &Remote, cache: &Cache, last: &[u8]) -> Result<(), Failure> {
    let name = remote.changes();
    let mut first = Cmd::with_capacity(6, 64);
    first.arg("XRANGE").arg(&name).arg("-").arg("+").arg("COUNT").arg(1);
    let mut length = Cmd::with_capacity(2, 64);
    length.arg("XLEN").arg(&name);
    let (Value::Array(items), Value::Int(length)) =
        (remote.client.command(&name, &first).await?, remote.client.command(&name, &length).await?)
    else {
        return Ok(());
    };
    let Some((id, text)) = items.first().and_then(parse_item) else { return Ok(()) };
    let is_trimmed = if last.is_empty() { length >= CHANGES as i64 } else { stream_id(id) > stream_id(last) };
    if is_trimmed && let Some(change) = Change::from_text(text) {
        cache.state.invalidated.note_all(change.at_ms);
    }
    Ok(())
}

/// Milliseconds and sequence of an id.
fn stream_id(id: &[u8]) -> (u64, u64) {
    let text = std::str::from_utf8(id).unwrap_or_default();
    let (ms, sequence) = text.split_once('-').unwrap_or((text, "0"));
    (ms.parse().unwrap_or(0), sequence.parse().unwrap_or(0))
}

/// Id and text of an item of the stream.
fn parse_item(item: &Value) -> Option<(&[u8], &[u8])> {
    let Value::Array(parts) = item else { return None };
    let [Value::BulkString(id), Value::Array(fields)] = &parts[..] else { return None };
    let text = match &fields[..] {
        [_, Value::BulkString(text), ..] => &text[..],
        _ => &[],
    };
    Some((id, text))
}
