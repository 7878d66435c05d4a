//! The level in Redis: shared by all gateways, there after a restart, and never a reason to fail.
//!
//! ```text
//! gw:v1:CACHE:DIGEST    an answer, or what answers differ by (see `wire.rs`), with an expiry
//! gw:v1:CACHE:purges    stream of what was purged or changed, newest 10,000, with an expiry
//! ```
//!
//! A purge, and a change by an unsafe method, concerns every gateway, also what they keep in memory: each reads the stream once a second.
//! What was asked for before a purge is not taken from Redis any more; it is left there to expire. The times of several machines are
//! compared, so their clocks have to agree as well as purges have to be exact.

use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::spawn_local;

use super::entry::Entry;
use super::purge::{Chosen, Event};
use super::rules::key::digest;
use super::wire::{self, Stored};
use super::{Cache, RouteCache};
use crate::config::Edits;
use crate::redis::{Client, Cmd, Failure, Value};
use crate::server::clock;
use crate::server::shared::lock;

/// An answer that can be confirmed by the origin is kept so long beyond its freshness.
const KEEP_MS: u64 = 24 * 3600 * 1000;
/// Nothing is kept longer, so that purges need not be remembered longer.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// Purges that are remembered.
const EVENTS: usize = 10_000;

/// One worker's way to the answers of one cache in Redis.
#[derive(Clone)]
pub struct Remote {
    client: Rc<Client>,
    /// Name of the cache.
    cache: Arc<str>,
}

impl Remote {
    /// A way that uses `client`.
    pub fn new(client: Rc<Client>, cache: Arc<str>) -> Self {
        Remote { client, cache }
    }

    fn name_of(&self, key: &[u8]) -> Vec<u8> {
        let mut name = format!("gw:v1:{}:", self.cache).into_bytes();
        for byte in digest(key) {
            name.extend_from_slice(&[
                b"0123456789abcdef"[usize::from(byte >> 4)],
                b"0123456789abcdef"[usize::from(byte & 15)],
            ]);
        }
        name
    }

    fn purges(&self) -> Vec<u8> {
        format!("gw:v1:{}:purges", self.cache).into_bytes()
    }

    async fn get(&self, key: &[u8], edits: &Edits, tags: &[Arc<str>]) -> Result<Option<Stored>, Failure> {
        let value = self.client.get(&self.name_of(key)).await?;
        Ok(value.and_then(|value| wire::read(value, key, edits, tags)))
    }
}

impl RouteCache {
    /// Reads what Redis has for a key. A failure counts, and is otherwise nothing.
    pub async fn recall(&self, key: &[u8]) -> Option<Stored> {
        let remote = self.remote.as_ref()?;
        match remote.get(key, &self.edits, &self.cache.settings.tags).await {
            Ok(Some(Stored::Answer(entry))) => self.cache.state.events.allows(entry).map(Stored::Answer),
            Ok(stored) => stored,
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
        let expiry = Duration::from_millis(lasts_ms).min(LONGEST);
        let mut values = vec![(remote.name_of(&entry.head.key), wire::answer(entry))];
        if let Some(varies) = &entry.head.varies {
            values.push((remote.name_of(primary), wire::varies(primary, varies)));
        }
        let (cache, remote) = (self.clone(), remote.clone());
        spawn_local(async move {
            for (name, value) in values {
                if remote.client.set(&name, &value, expiry).await.is_err() {
                    cache.metrics.store_error();
                }
            }
        });
    }

    /// Tells all gateways of a purge or a change.
    pub fn announce(&self, event: &Event) {
        if let Some(remote) = &self.remote {
            spawn_local(announce(remote.clone(), event.clone()));
        }
    }
}

/// Writes an event to the stream.
pub async fn announce(remote: Remote, event: Event) {
    let (name, text) = (remote.purges(), event.to_text());
    let mut add = Cmd::with_capacity(8, 128 + text.len());
    add.arg("XADD").arg(&name).arg("MAXLEN").arg("~").arg(EVENTS).arg("*").arg("e").arg(text);
    let mut expire = Cmd::with_capacity(3, 64);
    expire.arg("PEXPIRE").arg(&name).arg(u64::try_from(LONGEST.as_millis()).unwrap_or(u64::MAX));
    let result = match remote.client.command(&name, &add).await {
        Ok(_) => remote.client.command(&name, &expire).await,
        failed => failed,
    };
    if let Err(error) = result {
        tracing::warn!(%error, cache = &*remote.cache, "a purge did not reach Redis: other gateways, and what is in Redis, do not know of it");
    }
}

/// What was purged and changed anywhere, as far as it was read.
#[derive(Debug, Default)]
pub struct Events {
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    /// Position in the stream.
    last: Vec<u8>,
    events: Vec<(Event, Chosen)>,
}

impl Events {
    /// Lets an entry from Redis pass unless it was purged; what was purged softly is stale.
    fn allows(&self, entry: Entry) -> Option<Entry> {
        let list = lock(&self.list);
        let concerned = list.events.iter().filter(|(event, chosen)| {
            entry.head.asked_ms <= event.at_ms && !event.is_change && chosen.holds(&entry.head.key, &entry)
        });
        for (event, _) in concerned {
            if !event.soft {
                return None;
            }
            entry.call_stale(event.at_ms);
        }
        Some(entry)
    }

    /// Notes an event of this process.
    pub fn note(&self, event: Event, chosen: Chosen) {
        let mut list = lock(&self.list);
        if list.events.len() >= EVENTS {
            list.events.drain(..EVENTS / 10);
        }
        list.events.push((event, chosen));
    }
}

/// Reads what other gateways purged and changed since the last time, and does the same here.
pub async fn follow(remote: Remote, cache: Arc<Cache>) {
    let state = &cache.state;
    loop {
        let last = lock(&state.events.list).last.clone();
        let from = if last.is_empty() { b"-".to_vec() } else { [b"(", &last[..]].concat() };
        let name = remote.purges();
        let mut range = Cmd::with_capacity(6, 128);
        range.arg("XRANGE").arg(&name).arg(from).arg("+").arg("COUNT").arg(1000);
        let Ok(Value::Array(items)) = remote.client.command(&name, &range).await else { return };
        if items.is_empty() {
            return;
        }
        for item in &items {
            let Some((id, text)) = parse(item) else { continue };
            lock(&state.events.list).last = id.to_vec();
            if let Some(event) = Event::from_text(text) {
                cache.apply(event);
            }
        }
    }
}

/// Id and text of an item of the stream.
fn parse(item: &Value) -> Option<(&[u8], &[u8])> {
    let Value::Array(parts) = item else { return None };
    let [Value::BulkString(id), Value::Array(fields)] = &parts[..] else { return None };
    let text = match &fields[..] {
        [_, Value::BulkString(text), ..] => &text[..],
        _ => &[],
    };
    Some((id, text))
}

impl Cache {
    /// Does what an event says.
    pub fn apply(&self, event: Event) {
        let Ok(chosen) = self.chosen(&event.which) else { return };
        if event.is_change {
            if let Chosen::Url(url) = &chosen {
                self.state.invalidated.note(url, event.at_ms);
            }
            return;
        }
        self.take_out(&chosen, event.soft, event.at_ms);
        self.state.events.note(event, chosen);
    }
}
