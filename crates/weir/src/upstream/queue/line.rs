//! Who of those that wait is served next.
//!
//! Three classes of priority, and in each of them tenants that share what is served by what their requests cost. A higher class goes first, except for one
//! turn in [`ONE_IN`] while a lower one waits, so that none starves. Within a class the order is self-clocked fair queueing (Golestani, "A self-clocked
//! fair queueing scheme for broadband applications", INFOCOM 1994): the first request of each tenant has a finish tag, that of the request served last plus
//! its own cost, and the lowest tag is next. Only first requests have tags: what leaves without having been served costs its tenant nothing. Of equal tags
//! that of a tenant that has just come is lower, so that one with a request at a time waits for one of the others, not for two.
//!
//! With one tenant, one class and no cost, all of this is first come, first served.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use auth::Priority;

/// Of so many requests that leave the queue, one is of a class below the highest that waits.
pub(super) const ONE_IN: u32 = 16;

/// So many of a class are looked at for one that may be served while the first may not.
const LOOKED_AT: usize = 64;

const CLASSES: usize = Priority::ALL.len();

/// What is known of a request that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueEntry {
    /// Its class.
    pub priority: Priority,
    /// Equal for requests of one tenant.
    pub tenant: u64,
    /// What serving it costs, in tokens of AI models or as 1.
    pub cost: u64,
    /// What is left of the time for the whole exchange, if that is bounded.
    pub left: Option<Duration>,
}

/// A place in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueueSlot {
    priority: Priority,
    tenant: u64,
    number: u64,
}

/// Those who wait.
#[derive(Debug)]
pub(super) struct Line<T> {
    classes: [Class<T>; CLASSES],
    length: usize,
    numbers: u64,
    /// Turns that a higher class had in a row while a lower one waited.
    ahead: u32,
    /// Turns that lower classes were given; which of two it is alternates.
    given: usize,
}

#[derive(Debug)]
struct Class<T> {
    /// Finish tag of the request that was served last.
    now: u64,
    tenants: HashMap<u64, Tenant<T>>,
    /// The first request of each tenant.
    firsts: BTreeSet<First>,
    length: usize,
}

/// The first request of a tenant, in the order of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct First {
    finish: u64,
    /// The tenant had waited before this request was its first.
    goes_on: bool,
    number: u64,
    tenant: u64,
}

#[derive(Debug)]
struct Tenant<T> {
    first: First,
    cost: u64,
    waiters: VecDeque<Waiter<T>>,
}

#[derive(Debug)]
struct Waiter<T> {
    number: u64,
    cost: u64,
    value: T,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Line { classes: std::array::from_fn(|_| Class::default()), length: 0, numbers: 0, ahead: 0, given: 0 }
    }
}

impl<T> Default for Class<T> {
    fn default() -> Self {
        Class { now: 0, tenants: HashMap::new(), firsts: BTreeSet::new(), length: 0 }
    }
}

impl<T> Line<T> {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Enters the line.
    pub(super) fn acquire(&mut self, entry: QueueEntry, value: T) -> QueueSlot {
        let number = self.numbers;
        self.numbers += 1;
        self.length += 1;
        self.classes[entry.priority as usize].acquire(entry, number, value);
        QueueSlot { priority: entry.priority, tenant: entry.tenant, number }
    }

    /// Who is next. Nothing changes: the same until somebody enters, leaves or is served.
    pub(super) fn first(&self) -> Option<(QueueSlot, &T)> {
        let (priority, class) = self.next_class()?;
        let &First { number, tenant, .. } = class.firsts.first()?;
        let waiter = class.tenants.get(&tenant)?.waiters.front()?;
        Some((QueueSlot { priority, tenant, number }, &waiter.value))
    }

    /// Takes out who is next.
    pub(super) fn serve(&mut self) -> Option<T> {
        let (priority, _) = self.next_class()?;
        let served = self.classes[priority as usize].serve()?;
        self.length -= 1;
        let is_lower = self.classes[..priority as usize].iter().any(|class| class.length > 0);
        let passes_over = self.classes[priority as usize + 1..].iter().any(|class| class.length > 0);
        if is_lower {
            self.given = self.given.wrapping_add(1);
        }
        self.ahead = if !is_lower && passes_over { self.ahead + 1 } else { 0 };
        Some(served)
    }

    /// Takes out one that is not to be served, if it is still there.
    pub(super) fn release(&mut self, place: QueueSlot) -> Option<T> {
        let left = self.classes[place.priority as usize].release(place)?;
        self.length -= 1;
        Some(left)
    }

    /// Whether there is one that [`serve_where`](Self::serve_where) would take out.
    pub(super) fn has_where(&self, fits: impl Fn(&T) -> bool) -> bool {
        self.classes.iter().any(|class| class.first_where(&fits).is_some())
    }

    /// Takes out the first of those that `fits` says may be served while others before it may not. Looks at [`LOOKED_AT`] of each class.
    pub(super) fn serve_where(&mut self, fits: impl Fn(&T) -> bool) -> Option<T> {
        for class in &mut self.classes {
            if let Some(served) = class.serve_where(&fits) {
                self.length -= 1;
                return Some(served);
            }
        }
        None
    }

    /// Who gives up its place to this request when a line of this size is full. Each class has a sixteenth of the places for itself; of those beyond, the last of
    /// a lower class goes, or the last of a tenant of its own class that has at least two places more; of those the tenant with the most. Nobody for a request
    /// that has no better right to a place than those who wait.
    pub(super) fn give_up_for(&mut self, entry: &QueueEntry, size: usize) -> Option<T> {
        let own = entry.priority as usize;
        let least = (size / ONE_IN as usize).max(1);
        let has_more = |class: &Class<T>| class.length > least;
        let lower = self.classes[own + 1..].iter().rposition(has_more).map(|position| own + 1 + position);
        let most = self.classes[own].longest().map_or(0, |(_, length)| length);
        let of_own = (self.classes[own].places_of(entry.tenant) + 1 < most).then_some(own);
        // Its class has less than what it has for itself: the class with the most gives.
        let others = (0..CLASSES).filter(|other| *other != own && has_more(&self.classes[*other]));
        let of_others = || others.max_by_key(|other| self.classes[*other].length);
        let class = lower.or(of_own).or_else(|| (self.classes[own].length < least).then(of_others).flatten())?;
        let (tenant, _) = self.classes[class].longest()?;
        let number = self.classes[class].tenants.get(&tenant)?.waiters.back()?.number;
        self.release(QueueSlot { priority: Priority::ALL[class], tenant, number })
    }

    /// How many are served before such a request would be, at least: all of higher classes, or as many as go before the requests of its class; and of its own
    /// class what each tenant has that is not behind it.
    pub(super) fn served_before(&self, entry: &QueueEntry) -> usize {
        let own = entry.priority as usize;
        let in_class = self.classes[own].served_before(entry);
        self.higher_before(own, in_class) + in_class
    }

    /// The same without looking at tenants, which is as much or more.
    pub(super) fn served_before_at_most(&self, entry: &QueueEntry) -> usize {
        let own = entry.priority as usize;
        self.higher_before(own, self.classes[own].length) + self.classes[own].length
    }

    /// Of higher classes, before the one behind so many of its own class.
    fn higher_before(&self, own: usize, in_class: usize) -> usize {
        let higher: usize = self.classes[..own].iter().map(|class| class.length).sum();
        // The dispatches of lower classes alternate between them.
        let lower =
            self.classes[1..].iter().enumerate().filter(|(at, class)| class.length > 0 || at + 1 == own).count();
        let each = (ONE_IN as usize * lower.max(1)).saturating_sub(1);
        higher.min(each.saturating_mul(in_class + 1))
    }

    fn next_class(&self) -> Option<(Priority, &Class<T>)> {
        let mut waiting = Priority::ALL
            .into_iter()
            .map(|one| (one, &self.classes[one as usize]))
            .filter(|(_, class)| class.length > 0);
        let highest = waiting.next()?;
        if self.ahead + 1 < ONE_IN {
            return Some(highest);
        }
        match (waiting.next(), waiting.next()) {
            (None, _) => Some(highest),
            (Some(_), Some(lowest)) if self.given % 2 == 1 => Some(lowest),
            (lower, _) => lower,
        }
    }
}

impl<T> Class<T> {
    fn acquire(&mut self, entry: QueueEntry, number: u64, value: T) {
        let QueueEntry { tenant, cost, .. } = entry;
        self.length += 1;
        let waiter = Waiter { number, cost, value };
        match self.tenants.get_mut(&tenant) {
            Some(one) => {
                one.cost = one.cost.saturating_add(cost);
                one.waiters.push_back(waiter);
            }
            None => {
                let first = First { finish: self.now.saturating_add(cost), goes_on: false, number, tenant };
                self.firsts.insert(first);
                self.tenants.insert(tenant, Tenant { first, cost, waiters: VecDeque::from([waiter]) });
            }
        }
    }

    fn serve(&mut self) -> Option<T> {
        let &First { finish, number, tenant, .. } = self.firsts.first()?;
        // One that was served before others that could not be may have had a higher one.
        self.now = self.now.max(finish);
        self.take(tenant, number, (finish, true)).map(|waiter| waiter.value)
    }

    fn release(&mut self, place: QueueSlot) -> Option<T> {
        let one = self.tenants.get(&place.tenant)?;
        // Where the tag of a first one began is where that of the next one begins.
        let start = one.first.finish.saturating_sub(one.waiters.front()?.cost);
        let goes_on = one.first.goes_on;
        self.take(place.tenant, place.number, (start, goes_on)).map(|waiter| waiter.value)
    }

    /// Takes out one of a tenant. If it was the first, the tag of the next one begins at `start`.
    fn take(&mut self, tenant: u64, number: u64, (start, goes_on): (u64, bool)) -> Option<Waiter<T>> {
        let one = self.tenants.get_mut(&tenant)?;
        let position = one.waiters.binary_search_by_key(&number, |waiter| waiter.number).ok()?;
        let waiter = one.waiters.remove(position)?;
        one.cost = one.cost.saturating_sub(waiter.cost);
        self.length -= 1;
        if position == 0 {
            self.firsts.remove(&one.first);
            match one.waiters.front() {
                Some(next) => {
                    let finish = start.saturating_add(next.cost);
                    one.first = First { finish, goes_on, number: next.number, tenant };
                    self.firsts.insert(one.first);
                }
                None => drop(self.tenants.remove(&tenant)),
            }
        }
        Some(waiter)
    }

    fn serve_where(&mut self, fits: impl Fn(&T) -> bool) -> Option<T> {
        let (first, number) = self.first_where(fits)?;
        if first.number == number {
            self.now = self.now.max(first.finish);
        }
        self.take(first.tenant, number, (first.finish, true)).map(|waiter| waiter.value)
    }

    /// The first that fits: the first of its tenant, and its number.
    fn first_where(&self, fits: impl Fn(&T) -> bool) -> Option<(First, u64)> {
        let of_tenant = |first: &First| self.tenants.get(&first.tenant).map(|one| (*first, &one.waiters));
        let waiting = self.firsts.iter().filter_map(of_tenant);
        let mut waiting =
            waiting.flat_map(|(first, waiters)| waiters.iter().map(move |waiter| (first, waiter))).take(LOOKED_AT);
        waiting.find(|(_, waiter)| fits(&waiter.value)).map(|(first, waiter)| (first, waiter.number))
    }

    /// The tenant with the most places, and how many.
    fn longest(&self) -> Option<(u64, usize)> {
        let lengths = self.tenants.iter().map(|(tenant, one)| (*tenant, one.waiters.len()));
        lengths.max_by_key(|(tenant, length)| (*length, *tenant))
    }

    fn places_of(&self, tenant: u64) -> usize {
        self.tenants.get(&tenant).map_or(0, |one| one.waiters.len())
    }

    fn served_before(&self, entry: &QueueEntry) -> usize {
        let (own, own_cost) = self.tenants.get(&entry.tenant).map_or((0, 0), |one| (one.waiters.len(), one.cost));
        // When it is served, each other tenant has had as much as its own tenant then has.
        let most = own_cost.saturating_add(entry.cost);
        let others = self.tenants.iter().filter(|(tenant, _)| **tenant != entry.tenant);
        let before = |one: &Tenant<T>| match one.cost {
            0 => one.waiters.len(),
            cost => (one.waiters.len() as f64 * (most as f64 / cost as f64).min(1.0)) as usize,
        };
        own + others.map(|(_, one)| before(one)).sum::<usize>()
    }
}

#[cfg(test)]
mod tests;
