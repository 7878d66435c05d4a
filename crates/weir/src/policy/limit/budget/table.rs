//! Accounts in memory, shared by all workers. A call of a model takes milliseconds at least, so a lock for each limit is not in its way, and
//! while all of a call's limits are locked, it is charged to all or to none.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::Decision;
use super::account::{Account, Rule};
use crate::runtime::hash::Hashed;

/// What new keys share when no more are held.
const SHARED: u128 = 0;
/// A full table is looked through only so often.
const PURGE_US: u64 = 1_000_000;

/// By the keyed hash of what a limit counts by.
type Accounts = HashMap<u128, Account, Hashed>;

/// The accounts of one limit.
#[derive(Debug, Default)]
pub(super) struct Table {
    accounts: Mutex<Accounts>,
    most: AtomicUsize,
    overflowed: AtomicU64,
    /// When it was last looked through for keys that can be forgotten.
    purged_us: AtomicU64,
}

/// What a call wants of one limit.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) table: &'a Arc<Table>,
    pub(super) rule: Rule,
    /// Whose account; afterwards the one that was charged.
    pub(super) key: u128,
    pub(super) amount: u64,
    /// Whether it refuses.
    pub(super) enforced: bool,
    pub(super) decision: Decision,
    /// What settling wants to know.
    pub(super) mark: u64,
}

impl Table {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Table { most: AtomicUsize::new(most), ..Table::default() })
    }

    pub(super) fn set_max_keys(&self, most: usize) {
        self.most.store(most, Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn settle(&self, rule: &Rule, key: u128, (reserved, used): (u64, u64), mark: u64, now_us: u64) {
        // A key that was reset meanwhile has nothing to correct.
        if let Some(account) = self.lock().get_mut(&key) {
            account.settle(rule, reserved, used, mark, now_us);
        }
    }

    /// What a reservation of nothing would lead to.
    pub(super) fn look(&self, rule: &Rule, key: u128, now_us: u64) -> Decision {
        let mut account = self.lock().get(&key).copied().unwrap_or_default();
        account.reserve(rule, 0, now_us).0
    }

    /// Forgets a key; false when nothing was charged to it.
    pub(super) fn reset(&self, rule: &Rule, key: u128, now_us: u64) -> bool {
        self.lock().remove(&key).is_some_and(|account| account.is_live(rule, now_us))
    }

    /// Forgets keys that say nothing any more.
    pub(super) fn sweep(&self, rule: &Rule, now_us: u64) {
        let mut accounts = self.lock();
        accounts.retain(|_, account| account.is_live(rule, now_us));
        if accounts.len() < accounts.capacity() / 8 {
            accounts.shrink_to_fit();
        }
    }

    pub(super) fn keys(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn overflowed(&self) -> u64 {
        self.overflowed.load(Relaxed)
    }
}

/// Reserves from all accounts or, if one that refuses has too little left, from none; says which. An account that does not refuse is charged if
/// it has enough.
pub(super) fn reserve_all(wanted: &mut [Wanted<'_>], now_us: u64) -> bool {
    // Always locked in the same order, each once: no two calls wait for each other.
    let mut tables: Vec<&Arc<Table>> = wanted.iter().map(|one| one.table).collect();
    tables.sort_by_key(|table| Arc::as_ptr(table));
    tables.dedup_by(|one, other| Arc::ptr_eq(one, other));
    let mut locked: Vec<MutexGuard<'_, Accounts>> = tables.iter().map(|table| table.lock()).collect();
    let of = |table: &Arc<Table>| tables.iter().position(|other| Arc::ptr_eq(other, table)).unwrap_or(0);
    for one in wanted.iter_mut() {
        let accounts = &mut locked[of(one.table)];
        let mut account = accounts.get(&one.key).copied();
        if account.is_none() && accounts.len() >= one.table.most.load(Relaxed) {
            if now_us.saturating_sub(one.table.purged_us.swap(now_us, Relaxed)) >= PURGE_US {
                accounts.retain(|_, account| account.is_live(&one.rule, now_us));
            }
            if accounts.len() >= one.table.most.load(Relaxed) {
                one.table.overflowed.fetch_add(1, Relaxed);
                one.key = SHARED;
                account = accounts.get(&SHARED).copied();
            }
        }
        let mut account = account.unwrap_or_default();
        (one.decision, one.mark) = account.reserve(&one.rule, one.amount, now_us);
    }
    if wanted.iter().any(|one| one.enforced && !one.decision.allowed) {
        return false;
    }
    for one in wanted.iter_mut().filter(|one| one.decision.allowed) {
        let account = locked[of(one.table)].entry(one.key).or_default();
        (one.decision, one.mark) = account.reserve(&one.rule, one.amount, now_us);
    }
    true
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::BudgetWindow;

    fn rule(quota: u64) -> Rule {
        Rule::Window { quota, window: BudgetWindow::Aligned(Duration::from_secs(1 << 30)) }
    }

    fn wanted(table: &Arc<Table>, quota: u64, key: u128, amount: u64) -> Wanted<'_> {
        let (rule, decision) = (rule(quota), Decision::default());
        Wanted { table, rule, key, amount, enforced: true, decision, mark: 0 }
    }

    #[test]
    fn a_refusal_by_one_charges_none() {
        let (wide, narrow) = (Table::new(10), Table::new(10));
        let mut both = [wanted(&wide, 100, 1, 60), wanted(&narrow, 50, 1, 60)];
        assert!(!reserve_all(&mut both, 1));
        assert_eq!(wide.look(&rule(100), 1, 1).remaining, 100);
        let mut both = [wanted(&wide, 100, 1, 60), wanted(&narrow, 50, 1, 60)];
        both[1].enforced = false;
        assert!(reserve_all(&mut both, 1));
        assert_eq!((wide.look(&rule(100), 1, 1).remaining, narrow.look(&rule(50), 1, 1).remaining), (40, 50));
    }

    #[test]
    fn threads_reserve_exactly_the_quota_in_any_order_of_limits() {
        let (one, other) = (Table::new(10), Table::new(10));
        let passed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (one, other, passed) = (&one, &other, &passed);
                scope.spawn(move || {
                    for _ in 0..200 {
                        let mut both = [wanted(one, 5_000, 7, 10), wanted(other, 9_999, 7, 10)];
                        if thread % 2 == 0 {
                            both.reverse();
                        }
                        passed.fetch_add(u64::from(reserve_all(&mut both, 1)), Relaxed);
                    }
                });
            }
        });
        assert_eq!(passed.load(Relaxed), 500);
        assert_eq!(other.look(&rule(9_999), 7, 1).remaining, 9_999 - 5_000);
    }

    #[test]
    fn keys_beyond_the_most_share_one_account() {
        let table = Table::new(1);
        for (key, passes) in [(1, true), (2, true), (3, false)] {
            assert_eq!(reserve_all(&mut [wanted(&table, 10, key, 6)], 1), passes, "{key}");
        }
        assert_eq!(table.overflowed(), 2);
    }
}
