//! Limits of tokens and of money: what a call of an AI model may use is reserved before it, and what it did use takes its place afterwards.
//!
//! - [`Budgets`] belongs to a configuration, as [`Limits`](super::Limits) does; what is counted the same way as before goes on counting
//!   where it was. A window's count stays when its quota changes: who has spent half of a month's money has spent it.
//! - [`reserve`](reserve::reserve) checks all limits of a call at once: those in memory under their locks, then those in Redis in one script
//!   call. If one refuses, nothing is reserved.
//! - A [`Reservation`] is settled once, by whoever made it. One that is dropped without being settled, and one whose gateway died, stands as
//!   used: in memory at once, in Redis when it ends ([`LASTS_BEYOND`]). That is the safe side.
//!
//! A count in Redis is `NAMESPACE:budget:DEFINITION:KEY`; its form is in `reserve.lua`.

mod account;
mod calendar;
mod explain;
mod fields;
mod remote;
mod reserve;
mod table;

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::{Key, KeyBytes, Now};
use crate::config::{self, BudgetAlgorithm, BudgetUnit, BudgetWindow, Config, LimitStore};
use crate::observe::LimitMetrics;
use account::Rule;
use table::Table;

pub use fields::{write_allowed, write_refused};
pub use reserve::{Amounts, Refused, RefusedFor, Reservation, Wish, reserve};

/// How long a reservation in Redis lasts beyond the deadline of its call.
const LASTS_BEYOND: Duration = Duration::from_secs(60);
/// How long it lasts where the call has no deadline.
const LASTS_WITHOUT_DEADLINE: Duration = Duration::from_secs(24 * 3600);

/// One limit of tokens or money.
#[derive(Debug)]
pub struct Budget {
    /// What the configuration says.
    pub spec: config::Budget,
    rule: Rule,
    /// What counts in memory: for a limit in Redis the part of this gateway, for while Redis is away.
    own: Rule,
    identity: u128,
    /// First part of the names of its counts in Redis.
    store_prefix: Box<str>,
    table: Arc<Table>,
}

/// A limit of tokens or money, for one worker.
pub struct WorkerBudget {
    /// What all workers share.
    pub budget: Arc<Budget>,
    /// Counts of what it decided here.
    pub metrics: LimitMetrics,
}

/// The limits of tokens and money of a configuration.
#[derive(Debug, Default)]
pub struct Budgets {
    /// By [`BudgetId`](crate::config::BudgetId); `None` for those that are switched off.
    list: Vec<Option<Arc<Budget>>>,
}

impl Budgets {
    pub(super) fn new(config: &Config, before: Option<&Budgets>) -> Self {
        let namespace = config.redis.as_ref().map_or("", |redis| &redis.namespace);
        let mut list: Vec<Option<Arc<Budget>>> = Vec::with_capacity(config.budgets.len());
        for spec in &config.budgets {
            let identity = identity(spec);
            let known = before.into_iter().flat_map(|before| &before.list).chain(&list).flatten();
            let same = known.into_iter().find(|budget| budget.identity == identity);
            let next = rule(spec.algorithm).map(|rule| {
                let own = match spec.store {
                    LimitStore::Memory => rule,
                    LimitStore::Redis => rule.divided(u64::from(spec.replicas.get())),
                };
                let table = same.map_or_else(|| Table::new(spec.max_keys), |same| same.table.clone());
                table.set_max_keys(spec.max_keys);
                let store_prefix = format!("{namespace}:budget:{:016x}:", (identity >> 64) as u64).into();
                Arc::new(Budget { spec: spec.clone(), rule, own, identity, store_prefix, table })
            });
            list.push(next);
        }
        Budgets { list }
    }

    /// The limit at an index; `None` when it is switched off.
    pub fn get(&self, index: usize) -> Option<&Arc<Budget>> {
        self.list.get(index)?.as_ref()
    }

    /// How many there are, those that are switched off included.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// All that are switched on.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Budget>> {
        self.list.iter().flatten()
    }

    pub(super) fn sweep(&self, now: Now) {
        self.iter().for_each(|budget| budget.table.sweep(&budget.own, micros(now)));
    }
}

impl Budget {
    fn key(&self, bytes: &KeyBytes, limits: &super::Limits) -> Key {
        match self.spec.store {
            LimitStore::Memory => Key::local(bytes, &limits.secret),
            LimitStore::Redis => Key::shared(self.identity, bytes, &limits.shared_hash),
        }
    }

    fn name(&self, key: Key) -> Vec<u8> {
        format!("{}{:032x}", self.store_prefix, key.0).into_bytes()
    }

    fn is_money(&self) -> bool {
        self.spec.unit == BudgetUnit::Money
    }
}

/// Microseconds since 1970.
fn micros(now: Now) -> u64 {
    now.started_unix_ns.saturating_add(now.ns) / 1000
}

/// The numbers ready for use; `None` for a limit that is switched off by a quota of 0.
fn rule(algorithm: BudgetAlgorithm) -> Option<Rule> {
    match algorithm {
        BudgetAlgorithm::FixedWindow { quota: 0, .. } => None,
        BudgetAlgorithm::FixedWindow { quota, window } => Some(Rule::Window { quota, window }),
        BudgetAlgorithm::TokenBucket { rate_per_second, burst } => {
            // Rounded up: never faster. The configuration was checked: at most 10,000,000 a second.
            let interval_ns = (1e9 / rate_per_second * (1.0 - 1e-15)).ceil().max(1.0) as u64;
            Some(Rule::Bucket { burst, interval_ns })
        }
    }
}

/// The first half of the SHA-256 of a text that says what is counted, the same in every version: gateways share counts by it.
fn identity(spec: &config::Budget) -> u128 {
    let unit = match spec.unit {
        BudgetUnit::Tokens => "tokens",
        BudgetUnit::InputTokens => "input_tokens",
        BudgetUnit::OutputTokens => "output_tokens",
        BudgetUnit::Money => "money",
    };
    let algorithm = match spec.algorithm {
        BudgetAlgorithm::TokenBucket { rate_per_second, burst } => {
            format!("token_bucket rate={:016x} burst={burst}", rate_per_second.to_bits())
        }
        BudgetAlgorithm::FixedWindow { window, .. } => match window {
            BudgetWindow::First(length) => format!("fixed_window window={} aligned=0", length.as_nanos()),
            BudgetWindow::Aligned(length) => format!("fixed_window window={} aligned=1", length.as_nanos()),
            BudgetWindow::Day(minutes) => format!("fixed_window day={minutes}"),
            BudgetWindow::Month(minutes) => format!("fixed_window month={minutes}"),
        },
    };
    let store = match spec.store {
        LimitStore::Memory => "memory",
        LimitStore::Redis => "redis",
    };
    let group = &spec.group;
    let mut text =
        format!("weir-budget=1\nname={}:{group}\nunit={unit}\nalgorithm={algorithm}\nstore={store}\n", group.len());
    super::shared::write_key_lines(&mut text, &spec.key);
    let digest = Sha256::digest(text);
    let mut half = [0; 16];
    half.copy_from_slice(&digest[..16]);
    u128::from_be_bytes(half)
}
