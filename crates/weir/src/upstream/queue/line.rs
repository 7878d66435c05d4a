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

use auth::Priority;

/// Of so many turns, one is given to a class below the highest that waits.
pub(super) const ONE_IN: u32 = 16;

const CLASSES: usize = Priority::ALL.len();

/// What is known of a request that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Turn {
    /// Its class.
    pub priority: Priority,
    /// Equal for requests of one tenant.
    pub tenant: u64,
    /// What serving it costs, in tokens of AI models or as 1.
    pub cost: u64,
}

/// A place in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
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
    cost: u64,
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
        Class { now: 0, tenants: HashMap::new(), firsts: BTreeSet::new(), length: 0, cost: 0 }
    }
}

impl<T> Line<T> {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Enters the line.
    pub(super) fn enter(&mut self, turn: Turn, value: T) -> Place {
        let number = self.numbers;
        self.numbers += 1;
        self.length += 1;
        self.classes[turn.priority as usize].enter(turn, number, value);
        Place { priority: turn.priority, tenant: turn.tenant, number }
    }

    /// Who is next. Nothing changes: the same until somebody enters, leaves or is served.
    pub(super) fn first(&self) -> Option<(Place, &T)> {
        let (priority, class) = self.next_class()?;
        let &First { number, tenant, .. } = class.firsts.first()?;
        let waiter = class.tenants.get(&tenant)?.waiters.front()?;
        Some((Place { priority, tenant, number }, &waiter.value))
    }

    /// Takes out who is next, which has been served at this cost.
    pub(super) fn serve(&mut self) -> Option<(T, u64)> {
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
    pub(super) fn leave(&mut self, place: Place) -> Option<T> {
        let left = self.classes[place.priority as usize].leave(place)?;
        self.length -= 1;
        Some(left)
    }

    /// Who gives up its place to this request when the line is full: the last of a lower class, or the last of a tenant that has at least two places more in
    /// its own class; of those the tenant with the most. Nobody for a request that has no better right to a place than those who wait.
    pub(super) fn give_up_for(&mut self, turn: &Turn) -> Option<T> {
        let own = turn.priority as usize;
        let (priority, tenant) = Priority::ALL[own..].iter().rev().find_map(|&priority| {
            let class = &self.classes[priority as usize];
            let longest = class.tenants.iter().max_by_key(|(tenant, one)| (one.waiters.len(), **tenant));
            let (&tenant, longest) = longest?;
            let has_fewer =
                class.tenants.get(&turn.tenant).map_or(0, |one| one.waiters.len()) + 1 < longest.waiters.len();
            (priority as usize > own || has_fewer).then_some((priority, tenant))
        })?;
        let number = self.classes[priority as usize].tenants.get(&tenant)?.waiters.back()?.number;
        self.leave(Place { priority, tenant, number })
    }

    /// What is served before such a request would be, at most: all of higher classes, and of its own what each tenant has that is not behind it.
    pub(super) fn cost_before(&self, turn: &Turn) -> u64 {
        let own = turn.priority as usize;
        let higher = self.classes[..own].iter().map(|class| class.cost);
        higher.fold(self.classes[own].cost_before(turn), u64::saturating_add)
    }

    /// The same without looking at tenants, which is as much or more.
    pub(super) fn cost_before_at_most(&self, turn: &Turn) -> u64 {
        self.classes[..=turn.priority as usize].iter().map(|class| class.cost).fold(0, u64::saturating_add)
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
    fn enter(&mut self, turn: Turn, number: u64, value: T) {
        let Turn { tenant, cost, .. } = turn;
        self.length += 1;
        self.cost = self.cost.saturating_add(cost);
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

    fn serve(&mut self) -> Option<(T, u64)> {
        let &First { finish, number, tenant, .. } = self.firsts.first()?;
        self.now = finish;
        self.take(tenant, number, (finish, true)).map(|waiter| (waiter.value, waiter.cost))
    }

    fn leave(&mut self, place: Place) -> Option<T> {
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
        self.cost = self.cost.saturating_sub(waiter.cost);
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

    fn cost_before(&self, turn: &Turn) -> u64 {
        let own = self.tenants.get(&turn.tenant).map_or(0, |one| one.cost);
        // When its turn comes, each other tenant has had as much as its own tenant then has.
        let most = own.saturating_add(turn.cost);
        let others = self.tenants.iter().filter(|(tenant, _)| **tenant != turn.tenant);
        others.map(|(_, one)| one.cost.min(most)).fold(own, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests;
