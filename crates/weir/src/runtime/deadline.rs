//! Deadlines of connections, lazily kept: moving one is a store, not a timer.
//!
//! A connection has one deadline at a time (head, body, first byte, keep-alive, ...). Nearly all are moved long before they are
//! reached, so the wheel is not told of every move: an entry is armed at some time, and when that comes the connection's current
//! deadline is looked at; one that has moved on is armed again. Only a deadline earlier than the armed time costs more than a store.
//!
//! A deadline must not fire because this thread was late itself:
//!
//! - It is measured from a recent reading of the clock. What that reading may have been behind, stalls included, is added before it fires.
//! - When it is due by the true clock, the sockets come first: events are collected once more, and every task that has one runs. A
//!   deadline that has been moved by then does not fire. This relies on the run queue of a current-thread runtime being
//!   a queue (FIFO), and on `yield_now` waking its task behind the tasks that have events.
//! - Whoever waits for bytes looks whether there are any before it gives up ([`Deadline::poll_passed_without`]).

use std::cell::{Cell, OnceCell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::clock;

/// Events that a runtime collects at once, tokio's default.
const EVENTS_AT_ONCE: usize = 1024;
/// Most that stalls postpone a deadline by.
const MOST_POSTPONED_NS: u64 = 1_000_000_000;

/// A new connection without a request is left alone for so long when room is needed.
const FIRST_REQUEST_NS: u64 = 1_000_000_000;

/// Resolution: deadlines are rounded up to it, so that many are handled in one wake-up.
const TICK_NS: u64 = 10_000_000;
const NEVER: u64 = u64::MAX;

struct Slot {
    /// Nanoseconds since process start; `NEVER` for none.
    due: Cell<u64>,
    /// [`clock::stalled_ns`] when it was set.
    stalled: Cell<u64>,
    /// How far behind the clock was when it was set; what tests hold against the time of firing.
    #[cfg(debug_assertions)]
    behind: Cell<u64>,
    /// Tick at which the heap will look at this slot; `NEVER` when no entry counts.
    armed: Cell<u64>,
    fired: Cell<bool>,
    /// Since when its connection has been between two requests, where nothing is lost when it fires early; `NEVER` while it is not.
    idle_since: Cell<u64>,
    /// Whether its connection has had a request.
    has_served: Cell<bool>,
    /// The connection's task.
    waker: RefCell<Option<Waker>>,
}

impl Slot {
    fn new() -> Self {
        Slot {
            due: Cell::new(NEVER),
            stalled: Cell::new(0),
            #[cfg(debug_assertions)]
            behind: Cell::new(0),
            armed: Cell::new(NEVER),
            fired: Cell::new(false),
            idle_since: Cell::new(NEVER),
            has_served: Cell::new(false),
            waker: RefCell::new(None),
        }
    }

    /// When it may fire: the time that it was set to, and what stalls took since.
    fn effective_due(&self) -> u64 {
        let stalled = clock::stalled_ns().saturating_sub(self.stalled.get());
        self.due.get().saturating_add(stalled.min(MOST_POSTPONED_NS))
    }

    /// Whether firing now would be too early, by what is known of the true time at which it was set.
    fn is_early(&self, now_ns: u64) -> bool {
        #[cfg(debug_assertions)]
        let behind = self.behind.get();
        #[cfg(not(debug_assertions))]
        let behind = 0;
        now_ns < self.due.get().saturating_add(behind)
    }

    fn fire(&self) {
        self.fired.set(true);
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

/// All deadlines of one worker.
#[derive(Default)]
pub struct Deadlines {
    slots: RefCell<Vec<Rc<Slot>>>,
    free: RefCell<Vec<usize>>,
    /// Ticks with indices of slots, earliest first; entries whose tick is not the slot's `armed` are stale.
    heap: RefCell<BinaryHeap<Reverse<(u64, usize)>>>,
    /// Indices of slots that are due, until events were collected once more.
    expiring: RefCell<Vec<usize>>,
    /// The task in [`Deadlines::run`], and the tick that it sleeps until.
    driver: RefCell<Option<Waker>>,
    sleeping_until: Cell<u64>,
    /// Counts a deadline that came too early: before its time, or while bytes were waiting.
    count_early: OnceCell<Box<dyn Fn()>>,
}

impl Deadlines {
    /// None yet.
    pub fn new() -> Rc<Self> {
        Rc::new(Deadlines { sleeping_until: Cell::new(NEVER), ..Deadlines::default() })
    }

    /// A deadline for one task, not set.
    pub fn add(self: &Rc<Self>) -> Deadline {
        let index = self.free.borrow_mut().pop();
        let mut slots = self.slots.borrow_mut();
        let index = index.unwrap_or_else(|| {
            slots.push(Rc::new(Slot::new()));
            slots.len() - 1
        });
        Deadline { slot: slots[index].clone(), index, deadlines: self.clone() }
    }

    /// Calls `count` for each deadline that comes too early: before its time, or while bytes are waiting.
    pub fn count_early(&self, count: impl Fn() + 'static) {
        let _ = self.count_early.set(Box::new(count));
    }

    /// Fires the deadlines that are marked [idle](Deadline::set_idle): the worker drains.
    pub fn fire_idle(&self) {
        for slot in self.slots.borrow().iter().filter(|slot| slot.idle_since.get() != NEVER) {
            slot.fire();
        }
    }

    /// Fires those of at most `count` connections that have been idle for the longest time; returns how many. The first request of a new
    /// connection is most likely on its way: for [`FIRST_REQUEST_NS`] it is not idle.
    pub fn fire_idlest(&self, count: usize) -> usize {
        let slots = self.slots.borrow();
        let long_ago = clock::loop_ns().saturating_sub(FIRST_REQUEST_NS);
        let is_idle = |slot: &&Rc<Slot>| {
            let since = slot.idle_since.get();
            since != NEVER && (slot.has_served.get() || since < long_ago) && !slot.fired.get()
        };
        let mut idle: Vec<&Rc<Slot>> = slots.iter().filter(is_idle).collect();
        if idle.len() > count {
            idle.select_nth_unstable_by_key(count, |slot| slot.idle_since.get());
            idle.truncate(count);
        }
        idle.iter().for_each(|slot| slot.fire());
        idle.len()
    }

    fn arm(&self, slot: &Slot, index: usize, due: u64) {
        let tick = tick_of(due);
        slot.armed.set(tick);
        self.heap.borrow_mut().push(Reverse((tick, index)));
        if tick < self.sleeping_until.get()
            && let Some(driver) = &*self.driver.borrow()
        {
            driver.wake_by_ref();
        }
    }

    /// Collects what is due in `expiring`; returns the tick to look again at.
    fn collect_due(&self, now_ns: u64) -> u64 {
        loop {
            let Some(&Reverse((tick, index))) = self.heap.borrow().peek() else { return NEVER };
            let slot = self.slots.borrow()[index].clone();
            if slot.armed.get() != tick {
                self.heap.borrow_mut().pop();
                continue;
            }
            if tick.saturating_mul(TICK_NS) > now_ns {
                return tick;
            }
            self.heap.borrow_mut().pop();
            slot.armed.set(NEVER);
            match slot.effective_due() {
                NEVER => {}
                due if tick_of(due).saturating_mul(TICK_NS) > now_ns => self.arm(&slot, index, due),
                _ => self.expiring.borrow_mut().push(index),
            }
        }
    }

    /// Fires what was due and has not been moved since.
    fn fire_expiring(&self, now_ns: u64) {
        let mut expiring = self.expiring.take();
        for index in expiring.drain(..) {
            let slot = self.slots.borrow()[index].clone();
            match slot.effective_due() {
                // Moved; whoever moved it has armed it.
                _ if slot.armed.get() != NEVER => {}
                NEVER => {}
                due if due > now_ns => self.arm(&slot, index, due),
                _ => {
                    if slot.is_early(clock::now_ns()) {
                        self.note_early();
                    }
                    slot.fire();
                }
            }
        }
        self.expiring.replace(expiring);
    }

    /// Has the driver look at the clock again, which was moved.
    #[cfg(fuzzing)]
    pub fn look_again(&self) {
        if let Some(driver) = &*self.driver.borrow() {
            driver.wake_by_ref();
        }
    }

    fn note_early(&self) {
        if let Some(count) = self.count_early.get() {
            count();
        }
    }

    /// Drives the deadlines of a worker; runs as long as the worker does.
    pub async fn run(self: Rc<Self>) {
        let sleep = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(sleep);
        loop {
            let next = self.collect_due(clock::refresh());
            if !self.expiring.borrow().is_empty() {
                // Until then nobody may wake this task: it would run before the events are there.
                self.sleeping_until.set(0);
                // Two sockets a deadline, one batch of events at a time.
                let batches = 1 + self.slots.borrow().len() * 2 / EVENTS_AT_ONCE;
                for _ in 0..batches {
                    tokio::task::yield_now().await;
                }
                self.fire_expiring(clock::refresh());
                continue;
            }
            self.sleeping_until.set(next);
            let mut is_woken = false;
            std::future::poll_fn(|cx| {
                *self.driver.borrow_mut() = Some(cx.waker().clone());
                if is_woken {
                    return Poll::Ready(());
                }
                is_woken = true;
                if next == NEVER {
                    return Poll::Pending;
                }
                let at = clock::process_start() + Duration::from_nanos(next * TICK_NS);
                sleep.as_mut().reset(tokio::time::Instant::from_std(at));
                sleep.as_mut().poll(cx)
            })
            .await;
        }
    }
}

/// The first tick at which a deadline may fire: it was measured from a reading that may be [`clock::STALL_NS`] old.
fn tick_of(due: u64) -> u64 {
    due.saturating_add(clock::STALL_NS).div_ceil(TICK_NS)
}

/// One deadline that is moved from one thing waited for to the next.
pub struct Deadline {
    slot: Rc<Slot>,
    index: usize,
    deadlines: Rc<Deadlines>,
}

impl Deadline {
    /// Sets it to `timeout` from the last reading of the clock; `None` switches it off.
    #[inline]
    pub fn set(&self, timeout: Option<Duration>) {
        let due = timeout.map_or(NEVER, |timeout| clock::loop_ns().saturating_add(nanos(timeout)));
        self.set_at(due);
    }

    /// Says whether the connection is between two requests, where it may be ended at any time.
    pub fn set_idle(&self, idle: bool) {
        self.slot.idle_since.set(if idle { clock::loop_ns() } else { NEVER });
        if !idle {
            self.slot.has_served.set(true);
        }
    }

    /// Sets it to a time in nanoseconds since process start.
    #[inline]
    pub fn set_at(&self, due: u64) {
        self.slot.due.set(due);
        self.slot.fired.set(false);
        self.slot.stalled.set(clock::stalled_ns());
        #[cfg(debug_assertions)]
        self.slot.behind.set(clock::now_ns().saturating_sub(clock::loop_ns()));
        if due != NEVER && tick_of(due) < self.slot.armed.get() {
            self.deadlines.arm(&self.slot, self.index, due);
        }
    }

    /// Whether it has passed; if not, the task of `cx` is woken when it does. Looks at no clock.
    #[inline]
    pub fn poll_passed(&self, cx: &Context<'_>) -> bool {
        if self.slot.fired.get() {
            return true;
        }
        let mut waker = self.slot.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        false
    }
}

impl Deadline {
    /// Like [`Deadline::poll_passed`], for one who waits for `socket` to become ready: if it is, but the event loop has not said so yet,
    /// the deadline has not passed. The task is woken by that event.
    pub fn poll_passed_without(&self, cx: &Context<'_>, socket: Option<BorrowedFd<'_>>, ready: PollFlags) -> bool {
        if !self.poll_passed(cx) {
            return false;
        }
        let Some(socket) = socket else { return true };
        let mut waiting = [PollFd::from_borrowed_fd(socket, ready)];
        let is_ready = poll(&mut waiting, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0);
        if is_ready {
            self.deadlines.note_early();
        }
        !is_ready
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.slot.due.set(NEVER);
        self.slot.fired.set(false);
        self.slot.idle_since.set(NEVER);
        self.slot.has_served.set(false);
        *self.slot.waker.borrow_mut() = None;
        self.deadlines.free.borrow_mut().push(self.index);
    }
}

/// Nanoseconds of a duration, at most 584 years.
#[inline]
pub fn nanos(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos().into())
}

#[cfg(test)]
mod tests;
