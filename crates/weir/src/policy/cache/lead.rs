//! What the exchange that calls the origin does for the cache, and for those who wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use h1::RequestHead;

use super::entry::{Entry, Head};
use super::fill::{Fill, Reader};
use super::flights::{Began, Joined};
use super::key::Key;
use super::lookup::{KeyScratch, Varies};
use super::rules::{CacheRequest, Class, Fwd, storable, update};
use super::store::{HitForMiss, Slot};
use super::{Cache, State};
use crate::error::{Error, Reason};
use crate::runtime::clock;

/// How long after a response that could not be kept the requests of its key do not wait for one another.
const PASS_NS: u64 = 10_000_000_000;

/// Why a response is for its own client only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotShared {
    /// The origin does not let it be stored: the next one will be no different.
    Uncacheable,
    /// It is an error of the origin, which is not stored. Requests go on waiting for one another: an origin that fails must not get them all at once.
    Error,
    /// It refuses the request of one client: the next one may well be served. Those who wait fetch for themselves, and nothing is stored; otherwise one
    /// client could have every request for the key sent to the origin.
    Refusal,
    /// Its request had credentials, and nothing says that it is for all. A request without them may get one that is.
    Credentials,
    /// There was no room, or a fallback sent it: the next one may well be kept.
    Transient,
}

impl NotShared {
    /// For a response to such a request that the rules do not let be stored.
    pub fn uncacheable(wanted: &CacheRequest, status: u16) -> Self {
        if wanted.has_credentials() {
            NotShared::Credentials
        } else if (400..=499).contains(&status) && !storable::supersedes(wanted, status) {
            NotShared::Refusal
        } else {
            NotShared::Uncacheable
        }
    }
}

/// A key, and what the responses beside it differ by.
pub type Filed = (Key, Option<Arc<Varies>>);

/// The part of a leader. Dropped before it came to a result, it lets those who wait try for themselves.
#[derive(Debug)]
pub struct Lead {
    cache: Arc<Cache>,
    fill: Arc<Fill>,
    /// What the response is filed under, as far as is known.
    key: Key,
    /// What all variants of the response share, where that is not `key`.
    primary: Option<Key>,
    /// What was requested, where that is not `key`.
    requested: Option<Key>,
    /// Whether others find the fetch under the key that was requested.
    is_known: bool,
    /// Whether they find it under the variant that it turned out to be, too.
    is_known_as_variant: bool,
    /// What the request required of the cache.
    pub wanted: CacheRequest,
    /// Why the cache has no response.
    pub fwd: Fwd,
    /// What is kept and must be confirmed by the origin, if there is something.
    pub stored: Option<Entry>,
    /// The stored response to GET that this HEAD could not use, and may say something about.
    pub beside: Option<Entry>,
    /// Whether the request to the origin revalidates it: else a 304 is the response to a condition of the client's own.
    pub is_conditional: bool,
    /// When the fetch began.
    began: Began,
    /// Milliseconds since the Unix epoch when the origin is called.
    pub sent_ms: u64,
    /// The last response could not be stored: there is no use in looking in Redis.
    pub skips_remote: bool,
    /// The client's own conditions and range are not sent, because the response is for others too.
    fetches_whole: bool,
    is_settled: bool,
}

impl Lead {
    /// The leader of a fetch that others may join, unless somebody else leads it.
    ///
    /// # Errors
    /// A reader of the fetch that is in progress.
    pub fn join(cache: &Arc<Cache>, keys: &KeyScratch, wanted: CacheRequest, fwd: Fwd) -> Result<Box<Self>, Reader> {
        let (state, bounds) = (&cache.state, (cache.settings.max_body_bytes, &cache.state.budget));
        let now = state.now();
        match state.flights.join(keys.whole(), bounds, now, &state.invalidated) {
            Joined::Follow(reader) => Err(reader),
            Joined::Lead { fill, key, is_known } => {
                let mut lead = Lead::new(cache, fill, now, key, keys, (wanted, fwd));
                lead.is_known = is_known;
                lead.fetches_whole = is_known;
                Ok(lead)
            }
        }
    }

    /// The leader of a fetch that nobody else may join.
    pub fn alone(cache: &Arc<Cache>, keys: &KeyScratch, wanted: CacheRequest, fwd: Fwd) -> Box<Self> {
        let fill = Fill::new(cache.settings.max_body_bytes, cache.state.budget.clone());
        Lead::new(cache, fill, cache.state.now(), keys.whole().to_key(), keys, (wanted, fwd))
    }

    fn new(
        cache: &Arc<Cache>,
        fill: Arc<Fill>,
        began: Began,
        key: Key,
        keys: &KeyScratch,
        (wanted, fwd): (CacheRequest, Fwd),
    ) -> Box<Self> {
        Box::new(Lead {
            cache: cache.clone(),
            fill,
            key,
            primary: keys.is_variant().then(|| keys.primary().into()),
            requested: None,
            is_known: false,
            is_known_as_variant: false,
            wanted,
            fwd,
            stored: None,
            beside: None,
            is_conditional: false,
            began,
            sent_ms: began.at_ms,
            skips_remote: false,
            fetches_whole: false,
            is_settled: false,
        })
    }

    fn state(&self) -> &State {
        &self.cache.state
    }

    /// The cache.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// The fetch.
    pub fn fill(&self) -> &Arc<Fill> {
        &self.fill
    }

    /// The origin is called now: lines that take the place of the client's own conditions and range. They validate the stored response, if there is
    /// one that can be; there are none where others wait for the whole. `None`: the client's own are sent.
    pub fn conditions(&mut self) -> Option<Vec<u8>> {
        self.sent_ms = clock::unix_ms();
        self.is_conditional = false;
        // To a POST a tag that matches means 412 (RFC 9110 section 13.1.2).
        let stored = self.stored.as_ref().filter(|stored| stored.head.freshness.has_validator);
        let Some(stored) = stored.filter(|_| self.wanted.class != Class::Post) else {
            return self.fetches_whole.then(Vec::new);
        };
        self.is_conditional = true;
        let mut lines = Vec::with_capacity(128);
        update::write_conditions(stored.head.fields(), &mut lines);
        Some(lines)
    }

    /// Whether anybody reads what is fetched.
    pub fn is_awaited(&self) -> bool {
        self.fill.readers() > 0
    }

    /// Whether a body of this length may be kept at all.
    pub fn fits(&self, length: u64) -> bool {
        length <= self.cache.settings.max_body_bytes
    }

    /// Whether fetches in progress leave room for a body of this length now.
    pub fn has_room(&self, length: u64) -> bool {
        !self.fits(length) || self.state().budget.has_room(length)
    }

    /// Files the response under the key of its variant, if it differs by the request fields in `names`; those who request the same variant find
    /// the fetch there, others are told what it differs by. Returns the key, and what varies.
    pub fn file(&mut self, names: &[u8], keys: &mut KeyScratch, head: &RequestHead, buf: &[u8]) -> Filed {
        if names.is_empty() {
            if let Some(primary) = self.primary.take() {
                self.requested = Some(std::mem::replace(&mut self.key, primary));
            }
            return (self.key.clone(), None);
        }
        let primary = self.primary().clone();
        let state = &self.cache.state;
        let mut varies = Arc::new(Varies { names: names.into(), born: clock::now_ns() });
        state.memory.update(&primary, |slot| match slot {
            Some(Slot::Varies(there)) if *there.names == *names => {
                varies = there;
                None
            }
            _ => Some(Slot::Varies(varies.clone())),
        });
        keys.set_primary(&primary);
        keys.select(&varies, head, buf);
        if *keys.whole() != *self.key {
            let variant = keys.whole().to_key();
            self.is_known_as_variant =
                self.is_known && state.flights.add(&variant, &self.fill, self.began, &state.invalidated);
            self.requested = Some(std::mem::replace(&mut self.key, variant));
            self.primary = Some(primary);
        }
        (self.key.clone(), Some(varies))
    }

    /// The head is here and the response will be kept, if its body is not too large.
    pub fn begin(&self, head: Arc<Head>) {
        self.fill.begin(head);
    }

    /// The same, for a leader whose client gets the response too.
    pub fn begin_and_read(&self, head: Arc<Head>) -> Reader {
        self.fill.begin_and_read(head)
    }

    /// The whole response is here. Returns whether it was stored.
    pub fn finish(mut self: Box<Self>, entry: &Entry) -> bool {
        let is_stored = self.store(entry);
        self.settle();
        // Nobody finds the fetch now; who found it before holds it.
        if Arc::get_mut(&mut self.fill).is_none() {
            self.fill.complete(entry.clone());
        }
        is_stored
    }

    /// The whole body was passed on; it was too large to keep.
    pub fn end(mut self) {
        self.mark(if self.fill.is_too_large() { NotShared::Uncacheable } else { NotShared::Transient });
        self.settle();
        self.fill.end();
    }

    /// L2 had it.
    pub fn l2_hit(mut self, entry: Entry) {
        self.store(&entry);
        self.settle();
        self.fill.found(entry);
    }

    /// What all variants of the response share.
    pub fn primary(&self) -> &Key {
        self.primary.as_ref().unwrap_or(&self.key)
    }

    fn requested(&self) -> &Key {
        self.requested.as_ref().unwrap_or(&self.key)
    }

    /// The origin confirmed the stored response: it goes on as `entry`.
    pub fn confirmed(mut self, entry: Entry) {
        self.store(&entry);
        self.settle();
        self.fill.complete(entry);
    }

    /// There is no response; a stale one may replace it.
    pub fn serve_stale(mut self, entry: Entry) {
        self.settle();
        self.fill.serve_stale(entry);
    }

    /// Keeps a response, unless it was purged or replaced by a newer one since the origin was called. Returns whether it did, or would if there were a
    /// memory store.
    pub fn store(&self, entry: &Entry) -> bool {
        let is_purged = || self.state().purges.covers_since(self.began.purges, entry);
        if is_purged() {
            return false;
        }
        if self.cache.has_memory() {
            let memory = &self.state().memory;
            let is_filed = memory.update(&entry.head.key, |slot| match slot {
                Some(Slot::Response(stored)) if !entry.replaces(&stored) => None,
                _ => Some(Slot::Response(entry.clone())),
            });
            if !is_filed {
                return false;
            }
            // A purge that ran between the question and the response above looked through a store without it.
            if is_purged() {
                memory.remove_response(&entry.head.key, entry);
                return false;
            }
            self.state().stores.fetch_add(1, Ordering::Release);
        }
        true
    }

    /// When the origin was called, and what was known then.
    pub fn began(&self) -> Began {
        Began { at_ms: self.sent_ms, ..self.began }
    }

    /// The response is for this client only, or cannot be stored: those who wait fetch for themselves. Where the next one will be no different,
    /// nothing waits for a while. After an error of the origin one of those who wait fetches again; if that fails too, so do all others.
    pub fn not_shared(mut self, why: NotShared) {
        self.mark(why);
        self.settle();
        match why {
            NotShared::Error => self.fill.fail(Some(Reason::SharedFetchFailed.into())),
            _ => self.fill.not_shared(why == NotShared::Credentials),
        }
    }

    /// The stored response did not serve, and the whole must be fetched, whatever the client's own conditions are.
    pub fn fetch_whole(&mut self) {
        self.stored = None;
        self.fetches_whole = true;
    }

    fn mark(&self, why: NotShared) {
        let for_ns = match why {
            NotShared::Transient | NotShared::Error | NotShared::Refusal => return,
            NotShared::Uncacheable | NotShared::Credentials => PASS_NS,
        };
        if !self.is_known {
            return;
        }
        let credentials_only = why == NotShared::Credentials;
        let until_ns = clock::loop_ns() + for_ns;
        if let (Some(stored), true) = (&self.stored, credentials_only) {
            stored.separate_credentials(until_ns);
        }
        // A response that differs by nothing is filed beside the variants, which stay: the mark is for who requests this one.
        let key = if self.primary.is_none() { self.requested() } else { &self.key };
        // What is stored is worth more than the mark.
        if self.stored.is_none() {
            self.state().memory.update(key, |slot| match slot {
                Some(Slot::Response(_) | Slot::Varies(_)) => None,
                _ => Some(Slot::HitForMiss(HitForMiss { until_ns, credentials_only })),
            });
        }
    }

    /// There will be no response; `error` is what the leader's client is told.
    pub fn fail(mut self, error: Option<Error>) {
        self.settle();
        self.fill.fail(error);
    }

    /// Nobody joins any more.
    fn settle(&mut self) {
        let flights = &self.cache.state.flights;
        if std::mem::take(&mut self.is_known) {
            flights.close(self.requested(), &self.fill);
        }
        if std::mem::take(&mut self.is_known_as_variant) {
            flights.close(&self.key, &self.fill);
        }
        self.is_settled = true;
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if !self.is_settled {
            self.settle();
            self.fill.fail(None);
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
