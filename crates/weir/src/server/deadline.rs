//! Deadlines of connections, lazily kept: moving one is a store, not a timer.
//!
//! A connection has one deadline at a time (head, body, first byte, keep-alive, ...). Nearly all are moved long before they are
//! reached, so the wheel is not told of every move: an entry is armed at some time, and when that comes the connection's current
//! deadline is looked at; one that has moved on is armed again. Only a deadline earlier than the armed time costs more than a store.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::clock;

/// Resolution: deadlines are rounded up to it, so that many are handled in one wake-up.
const TICK_NS: u64 = 10_000_000;
const NEVER: u64 = u64::MAX;

struct Slot {
    /// Nanoseconds since process start; `NEVER` for none.
    due: Cell<u64>,
    /// Tick at which the heap will look at this slot; `NEVER` when no entry counts.
    armed: Cell<u64>,
    fired: Cell<bool>,
    /// Nothing is lost when it fires early.
    idle: Cell<bool>,
    /// The connection's task.
    waker: RefCell<Option<Waker>>,
}

impl Slot {
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
    /// The task in [`Deadlines::run`], and the tick that it sleeps until.
    driver: RefCell<Option<Waker>>,
    sleeping_until: Cell<u64>,
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
            slots.push(Rc::new(Slot {
                due: Cell::new(NEVER),
                armed: Cell::new(NEVER),
                fired: Cell::new(false),
                idle: Cell::new(false),
                waker: RefCell::new(None),
            }));
            slots.len() - 1
        });
        Deadline { slot: slots[index].clone(), index, deadlines: self.clone() }
    }

    /// Fires the deadlines that are marked [idle](Deadline::set_idle): the worker drains.
    pub fn fire_idle(&self) {
        for slot in self.slots.borrow().iter().filter(|slot| slot.idle.get()) {
            slot.fire();
        }
    }

    fn arm(&self, slot: &Slot, index: usize, due: u64) {
        let tick = due.div_ceil(TICK_NS);
        slot.armed.set(tick);
        self.heap.borrow_mut().push(Reverse((tick, index)));
        if tick < self.sleeping_until.get()
            && let Some(driver) = &*self.driver.borrow()
        {
            driver.wake_by_ref();
        }
    }

    /// Fires what is due; returns the tick to look again at.
    fn fire_due(&self, now_ns: u64) -> u64 {
        loop {
            let Some(&Reverse((tick, index))) = self.heap.borrow().peek() else { return NEVER };
            let slot = self.slots.borrow()[index].clone();
            if slot.armed.get() != tick {
                self.heap.borrow_mut().pop();
                continue;
            }
            if tick * TICK_NS > now_ns {
                return tick;
            }
            self.heap.borrow_mut().pop();
            slot.armed.set(NEVER);
            match slot.due.get() {
                NEVER => {}
                due if due > now_ns => self.arm(&slot, index, due),
                _ => slot.fire(),
            }
        }
    }

    /// Drives the deadlines of a worker; runs as long as the worker does.
    pub async fn run(self: Rc<Self>) {
        let sleep = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(sleep);
        std::future::poll_fn(|cx| {
            *self.driver.borrow_mut() = Some(cx.waker().clone());
            loop {
                let next = self.fire_due(clock::now_ns());
                self.sleeping_until.set(next);
                if next == NEVER {
                    return Poll::<()>::Pending;
                }
                let at = clock::process_start() + Duration::from_nanos(next * TICK_NS);
                sleep.as_mut().reset(tokio::time::Instant::from_std(at));
                if sleep.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await;
    }
}

/// One deadline that is moved from one thing waited for to the next.
pub struct Deadline {
    slot: Rc<Slot>,
    index: usize,
    deadlines: Rc<Deadlines>,
}

impl Deadline {
    /// Sets it to `timeout` from the last turn of the event loop; `None` switches it off.
    #[inline]
    pub fn set(&self, timeout: Option<Duration>) {
        let due = timeout.map_or(NEVER, |timeout| clock::turn_ns().saturating_add(nanos(timeout)));
        self.set_at(due);
    }

    /// Says whether the connection is between two requests, where it may be ended at any time.
    pub fn set_idle(&self, idle: bool) {
        self.slot.idle.set(idle);
    }

    /// Sets it to a time in nanoseconds since process start.
    #[inline]
    pub fn set_at(&self, due: u64) {
        self.slot.due.set(due);
        self.slot.fired.set(false);
        if due != NEVER && due.div_ceil(TICK_NS) < self.slot.armed.get() {
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

impl Drop for Deadline {
    fn drop(&mut self) {
        self.slot.due.set(NEVER);
        self.slot.fired.set(false);
        self.slot.idle.set(false);
        *self.slot.waker.borrow_mut() = None;
        self.deadlines.free.borrow_mut().push(self.index);
    }
}

/// Nanoseconds of a duration, at most 584 years.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn waker() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count(AtomicUsize::new(0)));
        (count.clone(), Waker::from(count))
    }

    #[test]
    fn a_deadline_that_moves_on_does_not_fire_and_costs_one_entry() {
        let (count, waker) = waker();
        let cx = Context::from_waker(&waker);
        let all = Deadlines::new();
        let deadline = all.add();
        for step in 1..1000 {
            deadline.set_at(step * TICK_NS + 75 * TICK_NS);
            assert!(!deadline.poll_passed(&cx));
        }
        assert_eq!(all.heap.borrow().len(), 1);
        all.fire_due(500 * TICK_NS);
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        all.fire_due(2000 * TICK_NS);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(deadline.poll_passed(&cx));
    }

    #[test]
    fn an_earlier_deadline_fires_first_and_once() {
        let (count, waker) = waker();
        let cx = Context::from_waker(&waker);
        let all = Deadlines::new();
        let deadline = all.add();
        deadline.set_at(100 * TICK_NS);
        deadline.set_at(10 * TICK_NS);
        assert!(!deadline.poll_passed(&cx));
        all.fire_due(10 * TICK_NS);
        assert!(deadline.poll_passed(&cx));
        all.fire_due(200 * TICK_NS);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_slot_is_used_again_without_the_old_deadline() {
        let (count, waker) = waker();
        let cx = Context::from_waker(&waker);
        let all = Deadlines::new();
        let first = all.add();
        first.set_at(5 * TICK_NS);
        drop(first);
        let second = all.add();
        assert_eq!(all.slots.borrow().len(), 1);
        assert!(!second.poll_passed(&cx));
        all.fire_due(100 * TICK_NS);
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        second.set_at(150 * TICK_NS);
        all.fire_due(150 * TICK_NS);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }
}
