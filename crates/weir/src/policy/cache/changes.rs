//! Changes by unsafe methods (RFC 9111 section 4.4), as the gateways that share a Redis tell one another of them.
//!
//! A change waits here until the stream in Redis has it: when it is made it is sent at once, and after a failure once a second. Of one URL only the last
//! waits. Beyond [`MOST_WAITING`] URLs one change of everything takes their place. Who missed some because the stream was trimmed validates everything of that
//! time or before.
//!
//! A change of another gateway counts from the moment at which it is read here, as that gateway's clock may be behind: what was requested between the two is
//! validated once more than needed. What this process changed counts from when it did, so its own items, which name it as their writer, are left out.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::Cache;
use super::purge::Change;
use super::purges::LONGEST;
use super::remote::Remote;
use crate::redis::{Cmd, Failure, Pipeline, Value};
use crate::runtime::clock;
use crate::runtime::lock::lock;

/// Changes that the stream holds, about.
const CHANGES: usize = 10_000;
/// Changes that are read or written at once.
const BATCH: usize = 1_000;
/// URLs whose changes wait.
pub const MOST_WAITING: usize = 10_000;
/// The URL of a change of everything.
const EVERYTHING: &str = "";

/// Changes on their way.
#[derive(Debug)]
pub struct Changes {
    /// By URL, when it was changed.
    waiting: Mutex<HashMap<String, u64>>,
    /// How many those are.
    count: AtomicUsize,
    /// One task of the process sends at a time.
    sending: tokio::sync::Mutex<()>,
    /// The last attempt failed, which was said in the log.
    is_failing: AtomicBool,
    /// Position in the stream.
    position: Mutex<Vec<u8>>,
    /// Names this process in the items that it writes: a random number. The id that Redis gives an item would not do, as the item can be read before
    /// the response to the command that wrote it.
    writer: String,
}

impl Default for Changes {
    fn default() -> Self {
        Changes {
            waiting: Mutex::default(),
            count: AtomicUsize::new(0),
            sending: tokio::sync::Mutex::default(),
            is_failing: AtomicBool::new(false),
            position: Mutex::default(),
            writer: format!("{:016x}", RandomState::new().hash_one(std::process::id())),
        }
    }
}

impl Changes {
    /// Has a change sent.
    pub fn add(&self, change: Change) {
        let mut waiting = lock(&self.waiting);
        if waiting.len() >= MOST_WAITING && !waiting.contains_key(&change.url) {
            let latest_ms = waiting.values().copied().max().unwrap_or(0).max(change.at_ms);
            waiting.clear();
            waiting.insert(EVERYTHING.to_owned(), latest_ms);
        } else {
            let at_ms = waiting.entry(change.url).or_default();
            *at_ms = change.at_ms.max(*at_ms);
        }
        self.count.store(waiting.len(), Ordering::Release);
    }

    /// Changes that Redis does not have yet.
    pub fn waiting(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    fn batch(&self) -> Vec<Change> {
        let waiting = lock(&self.waiting);
        waiting.iter().take(BATCH).map(|(url, at_ms)| Change { url: url.clone(), at_ms: *at_ms }).collect()
    }

    /// These are in Redis; a later change of the same URL goes on waiting.
    fn sent(&self, batch: &[Change]) {
        let mut waiting = lock(&self.waiting);
        for change in batch {
            if waiting.get(&change.url) == Some(&change.at_ms) {
                waiting.remove(&change.url);
            }
        }
        self.count.store(waiting.len(), Ordering::Release);
    }
}

/// Sends what waits. What cannot be sent goes on waiting.
pub async fn send(remote: &Remote, cache: &Cache) {
    let changes = &cache.state.changes;
    let _one = changes.sending.lock().await;
    while changes.waiting() > 0 {
        let batch = changes.batch();
        match write(remote, &batch, &changes.writer).await {
            Ok(()) => {
                changes.sent(&batch);
                if changes.is_failing.swap(false, Ordering::AcqRel) {
                    tracing::info!(cache = remote.cache(), "changes reach Redis again");
                }
            }
            Err(error) => {
                if !changes.is_failing.swap(true, Ordering::AcqRel) {
                    tracing::warn!(%error, cache = remote.cache(), "a change did not reach Redis: other gateways may serve what was there before it; trying again every second");
                }
                return;
            }
        }
    }
}

async fn write(remote: &Remote, batch: &[Change], writer: &str) -> Result<(), Failure> {
    let name = remote.changes();
    let mut pipeline = Pipeline::new();
    for change in batch {
        let add = pipeline.cmd("XADD").arg(&name).arg("MAXLEN").arg("~").arg(CHANGES);
        add.arg("*").arg("e").arg(change.to_text()).arg("writer").arg(writer);
    }
    pipeline.cmd("PEXPIRE").arg(&name).arg(u64::try_from(LONGEST.as_millis()).unwrap_or(u64::MAX));
    remote.client().pipeline(&name, &pipeline).await?;
    Ok(())
}

/// Reads what other gateways changed since the last time; what they changed is validated here.
///
/// # Errors
/// Redis failed; the next call goes on from there.
pub async fn follow(remote: &Remote, cache: &Cache) -> Result<(), Failure> {
    let (state, name) = (&cache.state, remote.changes());
    let mut is_first = true;
    loop {
        let last = lock(&state.changes.position).clone();
        let from = if last.is_empty() { b"-".to_vec() } else { [b"(", &last[..]].concat() };
        let mut range = Cmd::with_capacity(6, 128);
        range.arg("XRANGE").arg(&name).arg(from).arg("+").arg("COUNT").arg(BATCH);
        let Value::Array(items) = remote.client().command(&name, &range).await? else { return Ok(()) };
        // So many at once may be fewer than there were.
        if std::mem::take(&mut is_first) && items.len() == BATCH {
            note_trimmed(remote, cache, &last).await?;
        }
        for item in &items {
            let Some(item) = parse_item(item) else { continue };
            *lock(&state.changes.position) = item.id.to_vec();
            if item.writer == state.changes.writer.as_bytes() {
                continue;
            }
            match Change::from_text(item.text) {
                Some(change) if change.url == EVERYTHING => state.invalidated.note_all(clock::wall_ms()),
                Some(change) => state.invalidated.note(change.url.as_bytes(), clock::wall_ms()),
                None => {}
            }
        }
        if items.len() < BATCH {
            return Ok(());
        }
        tokio::task::yield_now().await;
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
        (remote.client().command(&name, &first).await?, remote.client().command(&name, &length).await?)
    else {
        return Ok(());
    };
    let Some(item) = items.first().and_then(parse_item) else { return Ok(()) };
    let is_trimmed = if last.is_empty() { length >= CHANGES as i64 } else { stream_id(item.id) > stream_id(last) };
    if is_trimmed && let Some(change) = Change::from_text(item.text) {
        // At the start of a process all that was trimmed is older than the oldest item, and with it most that lies in Redis.
        cache.state.invalidated.note_all(if last.is_empty() { change.at_ms } else { clock::wall_ms() });
    }
    Ok(())
}

/// Milliseconds and sequence of an id.
fn stream_id(id: &[u8]) -> (u64, u64) {
    let text = std::str::from_utf8(id).unwrap_or_default();
    let (ms, sequence) = text.split_once('-').unwrap_or((text, "0"));
    (ms.parse().unwrap_or(0), sequence.parse().unwrap_or(0))
}

/// An item of the stream.
#[derive(Debug)]
struct Item<'a> {
    id: &'a [u8],
    text: &'a [u8],
    /// Who wrote it; empty if that is not told.
    writer: &'a [u8],
}

fn parse_item(item: &Value) -> Option<Item<'_>> {
    let Value::Array(parts) = item else { return None };
    let [Value::BulkString(id), Value::Array(fields)] = &parts[..] else { return None };
    let value = |at: usize| match fields.get(at) {
        Some(Value::BulkString(text)) => &text[..],
        _ => &[],
    };
    Some(Item { id, text: value(1), writer: value(3) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(url: &str, at_ms: u64) -> Change {
        Change { url: url.to_owned(), at_ms }
    }

    #[test]
    fn a_change_waits_until_it_is_sent_and_the_last_of_a_url_counts() {
        let changes = Changes::default();
        changes.add(change("a", 5));
        let batch = changes.batch();
        assert_eq!(batch, [change("a", 5)]);
        changes.add(change("a", 7));
        changes.add(change("a", 6));
        changes.sent(&batch);
        assert_eq!(changes.batch(), [change("a", 7)], "what came meanwhile waits");
        changes.sent(&changes.batch());
        assert_eq!(changes.waiting(), 0);
    }

    #[test]
    fn too_many_become_a_change_of_everything_that_is_no_earlier() {
        let changes = Changes::default();
        (0..MOST_WAITING as u64).for_each(|number| changes.add(change(&number.to_string(), 10 + number)));
        assert_eq!(changes.waiting(), MOST_WAITING);
        changes.add(change("one more", 3));
        assert_eq!(changes.batch(), [change(EVERYTHING, 9 + MOST_WAITING as u64)]);
    }
}
