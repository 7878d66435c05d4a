//! Requests in flight that are counted in Redis.
//!
//! A count is a list of what each worker of each gateway holds, with the time at which that ends. A request is counted by `count.lua` with
//! the other limits of its route, and let go by `hold.lua` when it is over. As long as a worker holds anything, it says so again every
//! [`AGAIN`]; a gateway that was killed says nothing, and what it held ends after [`LASTS`]. All times are those of Redis.
//!
//! What a worker says again is the number that it knows, so that a message that was lost, or a Redis that lost its data, is corrected.
//! While a call about a count is on its way the number is not known: then it only says that what is there lasts on.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::Duration;

use tokio::task::spawn_local;

use super::Remote;
use super::call::{Name, Question};
use crate::redis::{Failure, Script};

/// How long what a worker holds lasts without a word of it.
pub(super) const LASTS: Duration = Duration::from_secs(10);
/// How often a worker says what it holds.
const AGAIN: Duration = Duration::from_secs(3);
/// Counts that one message is about.
const MESSAGE: usize = 64;

static HOLD: LazyLock<Script> = LazyLock::new(|| Script::new("hold", include_str!("hold.lua")));

/// Kind of such a count for the scripts.
pub(super) const KIND: u64 = 5;

/// What is done to a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    LastsOn,
    Is(u64),
    Less(u64),
}

/// What this worker holds.
pub(super) struct Holds {
    /// Tells workers apart, those of all gateways.
    pub(super) worker: u64,
    counts: RefCell<HashMap<Name, Count, foldhash::fast::RandomState>>,
    is_saying: Cell<bool>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    held: u64,
    /// Calls on their way that change it.
    pending: u32,
    /// Redis may have another number.
    is_doubtful: bool,
}

impl Holds {
    /// Changes what is known of a count, and forgets one of which nothing is held, on its way or in doubt.
    fn change(&self, name: &Name, change: impl FnOnce(&mut Count)) {
        let mut counts = self.counts.borrow_mut();
        let Some(count) = counts.get_mut(name) else { return };
        change(count);
        if count.held == 0 && count.pending == 0 && !count.is_doubtful {
            counts.remove(name);
        }
    }

    /// A call that changes the count is over; in doubt if its result is not known.
    fn call_ended(&self, name: &Name, is_doubtful: bool) {
        self.change(name, |count| {
            count.pending = count.pending.saturating_sub(1);
            count.is_doubtful |= is_doubtful;
        });
    }
}

impl Default for Holds {
    fn default() -> Self {
        // Scripts calculate with 53 bits.
        let mut bytes = [0; 8];
        // Without randomness there would be no TLS either; then two workers could be taken for one.
        let _ = getrandom::fill(&mut bytes);
        let worker = u64::from_le_bytes(bytes) >> 12;
        Holds { worker, counts: RefCell::default(), is_saying: Cell::new(false) }
    }
}

/// A call for places is on its way. Dropped before [`PendingCall::end`], its result is unknown.
pub(super) struct PendingCall {
    remote: Rc<Remote>,
    names: Vec<Name>,
}

impl PendingCall {
    /// Its result is known, except for the counts in `doubtful`.
    pub(super) fn end(mut self, doubtful: impl Fn(&Name) -> bool) {
        for name in self.names.drain(..) {
            self.remote.holds.call_ended(&name, doubtful(&name));
        }
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        for name in self.names.drain(..) {
            self.remote.holds.call_ended(&name, true);
        }
    }
}

/// A place among the requests in flight of a count in Redis; free again when this is dropped.
pub(in super::super) struct Held {
    remote: Rc<Remote>,
    name: Name,
    cost: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        let known = self.remote.holds.counts.borrow_mut().get_mut(&self.name).map(|count| {
            count.held = count.held.saturating_sub(self.cost);
        });
        if known.is_some() {
            self.remote.let_go(self.name, self.cost);
        }
    }
}

impl Remote {
    /// Notes that a call for places begins.
    pub(super) fn pending_call(self: &Rc<Self>, questions: &[Question]) -> Option<PendingCall> {
        let names = questions.iter().filter(|question| question.definition[0] == KIND).map(|question| question.name);
        let names: Vec<Name> = names.collect();
        if names.is_empty() {
            return None;
        }
        let mut counts = self.holds.counts.borrow_mut();
        for name in &names {
            counts.entry(*name).or_default().pending += 1;
        }
        drop(counts);
        if !self.holds.is_saying.replace(true) {
            spawn_local(say_again(self.clone()));
        }
        Some(PendingCall { remote: self.clone(), names })
    }

    /// A place that Redis gave.
    pub(super) fn held(self: &Rc<Self>, name: Name, cost: u64) -> Held {
        self.holds.counts.borrow_mut().entry(name).or_default().held += cost;
        Held { remote: self.clone(), name, cost }
    }

    /// Tells Redis that so many places are free again.
    pub(super) fn let_go(self: &Rc<Self>, name: Name, cost: u64) {
        self.holds.counts.borrow_mut().entry(name).or_default().pending += 1;
        let remote = self.clone();
        spawn_local(async move {
            let told = remote.say(&[(name, Word::Less(cost))]).await;
            remote.holds.call_ended(&name, told.is_err());
        });
    }

    async fn say(&self, words: &[(Name, Word)]) -> Result<(), Failure> {
        let names: Vec<&[u8]> = words.iter().map(|(name, _)| &name[..]).collect();
        let write = |cmd: &mut crate::redis::Cmd| {
            cmd.arg(self.holds.worker);
            cmd.arg(LASTS.as_micros() as u64);
            for (_, word) in words {
                let [what, number] = match *word {
                    Word::LastsOn => [0, 0],
                    Word::Is(number) => [1, number],
                    Word::Less(number) => [2, number],
                };
                cmd.arg(what);
                cmd.arg(number);
            }
        };
        self.client.script_with(&HOLD, &names, write).await.map(drop)
    }

    fn words(&self) -> Vec<(Name, Word)> {
        let counts = self.holds.counts.borrow();
        let word = |count: &Count| if count.pending == 0 { Word::Is(count.held) } else { Word::LastsOn };
        counts.iter().map(|(name, count)| (*name, word(count))).collect()
    }
}

/// Says what this worker holds, until that is nothing.
async fn say_again(remote: Rc<Remote>) {
    loop {
        tokio::time::sleep(AGAIN).await;
        let words = remote.words();
        // On a cluster each count has its own place.
        let size = if remote.client.is_cluster() { 1 } else { MESSAGE };
        for words in words.chunks(size) {
            let told = remote.say(words).await;
            for (name, word) in words {
                remote.holds.change(name, |count| {
                    if let (true, Word::Is(number)) = (told.is_ok(), word) {
                        // What was held when this was said, and nothing was on its way: no longer in doubt, unless a call has begun since.
                        count.is_doubtful &= count.pending > 0 || count.held != *number;
                    }
                });
            }
        }
        if remote.holds.counts.borrow().is_empty() {
            remote.holds.is_saying.set(false);
            return;
        }
    }
}
