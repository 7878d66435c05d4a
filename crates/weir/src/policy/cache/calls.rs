//! Calls of AI models: what the exchange that calls a provider does for the cache, and for those who wait.
//!
//! None of RFC 9111 applies to them: what may be looked up and stored is decided where calls are known (`exchange/ai/cached.rs`). They share with other
//! responses the stores, the fetches in flight and the purges. A response is kept as `recording.rs` says, with a line before its fields that names its
//! model: the tag that it is purged by.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use h1::encode;

use super::entry::{Entry, Head};
use super::fill::{Budget, Fill, Reader};
use super::flights::{Began, Joined};
use super::key::{Key, KeyRef};
use super::recording::{self, Mark};
use super::rules::{Class, Freshness, LifetimeSource};
use super::store::Slot;
use super::wire::Stored;
use super::{RouteCache, State};
use crate::config::Edits;
use crate::error::Error;
use crate::runtime::clock;

/// Field of the line that names the model, as [`Settings`](crate::config::Cache::tags) of such caches have it.
const TAG: &[u8] = b"weir-cache-model";

/// The response of a provider that nobody but the leader's client gets.
#[derive(Debug)]
pub struct Refusal {
    /// Status.
    pub status: u16,
    /// Field lines.
    pub lines: Vec<u8>,
    /// Body.
    pub body: Vec<u8>,
}

/// The part of the one who calls the provider for all. Dropped before it came to a result, it lets those who wait try for themselves.
pub struct CallLead {
    /// `None` for a call that nobody else can join, and whose response is not kept.
    cache: Option<Rc<RouteCache>>,
    fill: Arc<Fill>,
    key: Key,
    /// Whether others find the call.
    is_known: Cell<bool>,
    /// When the call began.
    began: Began,
    /// Name of the model, by which the response is purged.
    model: Arc<str>,
    head: RefCell<Option<Arc<Head>>>,
    /// When the last piece came.
    last_ns: Cell<u64>,
    may_be_stored: Cell<bool>,
    has_failed: Cell<bool>,
    is_settled: Cell<bool>,
    refusal: RefCell<Option<Refusal>>,
}

impl CallLead {
    /// The leader of a call that others may join, with the first reader of it, unless somebody else leads it.
    ///
    /// # Errors
    /// A reader of the call that is in progress.
    pub fn join(cache: &Rc<RouteCache>, key: KeyRef<'_>, model: &Arc<str>) -> Result<(Self, Reader), Reader> {
        let state = &cache.cache.state;
        let bounds = (cache.cache.settings.max_body_bytes, &state.budget);
        let began = state.now();
        match state.flights.join(key, bounds, began, &state.invalidated) {
            Joined::Follow(reader) => Err(reader),
            Joined::Lead { fill, key, is_known } => {
                Ok(Self::new((Some(cache.clone()), is_known), (fill, key), began, model))
            }
        }
    }

    /// The leader of a call for one client, with its reader: nothing is kept for others.
    pub fn alone(model: &Arc<str>) -> (Self, Reader) {
        let fill = Fill::new(0, Budget::new(0));
        Self::new((None, false), (fill, KeyRef::of(&[]).to_key()), Began::default(), model)
    }

    fn new(
        (cache, is_known): (Option<Rc<RouteCache>>, bool),
        (fill, key): (Arc<Fill>, Key),
        began: Began,
        model: &Arc<str>,
    ) -> (Self, Reader) {
        let reader = fill.first_reader();
        let lead = CallLead {
            cache,
            fill,
            key,
            is_known: Cell::new(is_known),
            began,
            model: model.clone(),
            head: RefCell::default(),
            last_ns: Cell::new(clock::loop_ns()),
            may_be_stored: Cell::new(false),
            has_failed: Cell::new(false),
            is_settled: Cell::new(false),
            refusal: RefCell::default(),
        };
        (lead, reader)
    }

    fn state(&self) -> Option<&State> {
        self.cache.as_ref().map(|cache| &*cache.cache.state)
    }

    /// Its key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The call.
    pub fn fill(&self) -> &Arc<Fill> {
        &self.fill
    }

    /// The response begins: from now on no other attempt can take its place. `length` of the body where it is whole.
    pub fn begin(&self, status: u16, lines: &[u8], length: Option<u64>) {
        let settings = self.cache.as_ref().map(|cache| &cache.cache.settings);
        let calls = settings.and_then(|settings| settings.calls());
        let ttl = calls.map_or(0, |calls| u64::try_from(calls.ttl.as_millis()).unwrap_or(u64::MAX));
        let freshness = Freshness {
            status,
            received_ms: clock::unix_ms(),
            initial_age_ms: 0,
            // 2^53 ms are 285,000 years: sums of a few of them cannot overflow.
            lifetime_ms: ttl.min(1 << 53),
            source: LifetimeSource::Fixed,
            stale_while_revalidate_ms: 0,
            stale_if_error_ms: 0,
            date_ms: self.began.at_ms,
            always_validate: false,
            never_stale: true,
            for_authorized: true,
            for_all: true,
            has_validator: false,
            has_age: false,
        };
        let mut fields = Vec::with_capacity(lines.len() + 64);
        encode::field(&mut fields, TAG, self.model.as_bytes());
        fields.extend_from_slice(lines);
        let filed = (self.key.clone(), None);
        let (edits, tags) = (Edits::default(), settings.map_or(&[][..], |settings| &settings.tags));
        let head = Head::new((freshness, Class::Post), (&fields[..], &[][..]), length, filed, self.began, &edits, tags);
        let head = Arc::new(head);
        *self.head.borrow_mut() = Some(head.clone());
        self.last_ns.set(clock::loop_ns());
        self.fill.begin(head);
    }

    /// Whether the response has begun.
    pub fn has_begun(&self) -> bool {
        self.head.borrow().is_some()
    }

    /// Bytes of the body came; `is_between`: they end where an event does.
    pub fn push(&self, bytes: &[u8], is_between: bool) {
        let mut mark = Mark { gap_ms: self.gap_ms(), is_between, has_failed: self.has_failed.get() };
        let count = bytes.len().div_ceil(recording::LONGEST);
        for (number, piece) in bytes.chunks(recording::LONGEST).enumerate() {
            mark.is_between = is_between && number + 1 == count;
            let mut piece_of = Vec::with_capacity(piece.len() + 8);
            recording::write(mark, piece, &mut piece_of);
            self.fill.push(piece_of.into());
            mark.gap_ms = 0;
        }
    }

    fn gap_ms(&self) -> u32 {
        let now = clock::loop_ns();
        let gap = now.saturating_sub(self.last_ns.replace(now));
        u32::try_from(gap / 1_000_000).unwrap_or(u32::MAX)
    }

    /// What comes next says that the response broke off.
    pub fn broke_off(&self) {
        self.has_failed.set(true);
    }

    /// The response is complete and may be stored.
    pub fn may_be_stored(&self) {
        self.may_be_stored.set(true);
    }

    /// The provider's own response, which is an error that another call may not meet.
    pub fn refuse(&self, refusal: Refusal) {
        *self.refusal.borrow_mut() = Some(refusal);
    }

    /// Whether there is such a response.
    pub fn is_refused(&self) -> bool {
        self.refusal.borrow().is_some()
    }

    /// Takes the response for the leader's client.
    pub fn take_refusal(&self) -> Option<Refusal> {
        self.refusal.borrow_mut().take()
    }

    /// The response is at its end, complete or with an event that says what is missing. It is stored if it may be.
    pub fn end(&self) {
        if self.is_settled.get() {
            return;
        }
        let Some(cache) = &self.cache else {
            self.settle();
            self.fill.end();
            return;
        };
        let head = self.head.borrow().clone();
        let may_be_stored = self.may_be_stored.get() && !self.has_failed.get();
        let body = if may_be_stored { self.fill.take_body() } else { None };
        let (Some(head), Some(body)) = (head, body) else {
            cache.metrics.uncacheable();
            self.settle();
            self.fill.end();
            return;
        };
        let entry = Entry::new(head, body);
        if self.store(cache, &entry) {
            cache.metrics.stored();
            cache.l2_put(&self.key, &entry);
        }
        self.settle();
        self.fill.complete(entry);
    }

    /// L2 had it.
    pub fn found(self, entry: Entry) {
        if let Some(cache) = &self.cache {
            self.store(cache, &entry);
        }
        self.settle();
        self.fill.found(entry);
    }

    /// There is no response, or no end of it; `error` is what those are told who have waited for two such calls.
    pub fn fail(&self, error: Option<Error>) {
        self.settle();
        self.fill.fail(error);
    }

    /// Keeps a response, unless it was purged since the call began. Returns whether it did, or would if there were a memory store.
    fn store(&self, cache: &RouteCache, entry: &Entry) -> bool {
        let state = &cache.cache.state;
        let is_purged = || state.purges.covers_since(self.began.purges, entry);
        if is_purged() {
            return false;
        }
        if cache.cache.has_memory() {
            let memory = &state.memory;
            memory.put(self.key.clone(), Slot::Response(entry.clone()));
            // A purge that ran between the question and the line above looked through a store without it.
            if is_purged() {
                memory.remove_response(&self.key, entry);
                return false;
            }
            state.stores.fetch_add(1, Ordering::Release);
        }
        true
    }

    /// Nobody joins any more.
    fn settle(&self) {
        if let (true, Some(state)) = (self.is_known.take(), self.state()) {
            state.flights.close(&self.key, &self.fill);
        }
        self.is_settled.set(true);
    }
}

impl Drop for CallLead {
    fn drop(&mut self) {
        if !self.is_settled.get() {
            self.settle();
            self.fill.fail(None);
        }
    }
}

/// Field lines of a kept response as clients get them.
pub fn client_lines(head: &Head) -> &[u8] {
    let fields = head.fields().0;
    // The first line is the gateway's own.
    let end = memchr::memchr(b'\n', fields).map_or(0, |at| at + 1);
    &fields[end..]
}

impl RouteCache {
    /// What memory has for a call, if it may be used.
    pub fn find_call(&self, key: KeyRef<'_>) -> Option<Entry> {
        let Some(Slot::Response(entry)) = self.cache.state.memory.get(key) else { return None };
        self.cache.freshness(&entry).is_fresh(clock::unix_ms()).then_some(entry)
    }

    /// What Redis has for a call, if it may be used. Anybody may have written it: what is not whole is not there.
    pub async fn get_call(&self, key: &[u8]) -> Option<Entry> {
        let remote = self.remote.as_ref()?;
        let Ok(stored) = tokio::time::timeout(remote.timeout(), self.l2_get(key)).await else {
            self.metrics.store_error();
            return None;
        };
        let Some(Stored::Response(entry)) = stored else { return None };
        let length = recording::length_of(entry.body())?;
        let is_sound = entry.head.freshness.status == 200
            && entry.head.fields().0.starts_with(TAG)
            && entry.head.length.is_none_or(|known| known == length);
        (is_sound && self.cache.freshness(&entry).is_fresh(clock::unix_ms())).then_some(entry)
    }
}
