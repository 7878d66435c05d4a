//! Rate limits. One with several windows or with tiers becomes a limit for each window of each tier: all limits of a request are checked
//! together, so that such a limit needs no rules of its own where requests are counted.

use std::ops::Range;

use super::Resolver;
use super::policy::lower;
use super::windows::{Windows, default_algorithm};
use crate::problem::Origin;
use crate::raw;
use crate::raw::Window;
use crate::raw::shape::{OneOrMany, OrNone, Spanned};
use crate::raw::target::LimitKeyText;
use crate::raw::units::{Rate, Time};
use crate::{
    Limit, LimitAlgorithm, LimitCost, LimitHeaders, LimitId, LimitKey, LimitStore, LimitTiers, MissingKey,
    OnStoreFailure,
};
use limiter::{Algorithm, Unfit};

/// Token bucket where the file says nothing.
const DEFAULT_RATE: Rate = Rate { count: 20.0, seconds: 1 };
const DEFAULT_BURST: u64 = 40;

impl Resolver<'_> {
    pub(super) fn limits(&mut self) -> Vec<Limit> {
        let file = self.file;
        let mut all: Vec<Limit> = Vec::with_capacity(file.limits.0.len());
        for (name, raw) in file.limits.iter() {
            let (first, first_budget) = (all.len(), self.budgets.len());
            if *raw.unit == raw::LimitUnit::Requests {
                self.limit(name, raw, &mut all);
            } else {
                self.budget(name, raw);
            }
            self.limit_spans.push(first..all.len());
            self.budget_spans.push(first_budget..self.budgets.len());
        }
        // Metrics and header fields know limits by their names.
        let names = all.iter().map(|limit| (&limit.name, &limit.group));
        let names: Vec<_> = names.chain(self.budgets.iter().map(|budget| (&budget.name, &budget.group))).collect();
        let mut twice = Vec::new();
        for (index, (own, group)) in names.iter().enumerate() {
            if let Some((_, other)) = names[..index].iter().find(|(name, other)| name == own && other != group) {
                let origin = file.limits.iter().find(|(name, _)| *name.value == ***group).map(|(name, _)| name.origin);
                let message = format!("`{other}` and `{group}` both count under the name `{own}`; rename one");
                twice.push((origin.unwrap_or_default(), message));
            }
        }
        for (origin, message) in twice {
            self.problem(origin, message);
        }
        all
    }

    /// What a client may do wrong, such as failed logins: as many at once as the rate has in its time.
    pub(super) fn events(&mut self, rate: &OrNone<Spanned<Rate>>) -> Option<LimitAlgorithm> {
        let rate = rate.as_option()?;
        let algorithm = LimitAlgorithm::TokenBucket {
            rate_per_second: rate.per_second(),
            burst: (rate.count.ceil() as u64).max(1),
        };
        if let Err(unfit) = Algorithm::new(algorithm) {
            self.problem(rate.origin, unfit.to_string());
        }
        Some(algorithm)
    }

    /// The limits that a name of the file stands for.
    pub(super) fn limit_span(&self, position: usize) -> impl Iterator<Item = LimitId> + use<> {
        self.limit_spans.get(position).cloned().unwrap_or(Range::default()).map(LimitId)
    }

    /// Appends the limits that one of the file is.
    fn limit(&mut self, name: &Spanned<String>, raw: &raw::Limit, all: &mut Vec<Limit>) {
        self.check_name(name);
        let plain = self.limit_alone(name, raw);
        if let Some(timezone) = raw.timezone {
            self.problem(
                timezone.origin,
                "`timezone` needs a calendar window, `day` or `month`, and `unit: tokens` or `money`",
            );
        }
        if plain.key.contains(&LimitKey::Model) {
            let message = "`model` is known once the body is read: it is a key for limits with `unit` tokens or money";
            self.problem(name.origin, message);
        }
        match self.windows_of(raw) {
            Windows::Single(window) => {
                let algorithm = self.algorithm(name, name.origin, &window, raw::Algorithm::TokenBucket);
                all.push(Limit { algorithm, ..plain });
            }
            Windows::Several(tiers) => {
                for (tiers, windows) in tiers {
                    self.windows(name, windows, &plain, &tiers, all);
                }
            }
        }
    }

    /// Appends a limit for each of these windows.
    fn windows(
        &mut self,
        name: &Spanned<String>,
        windows: &[Spanned<raw::LimitWindow>],
        plain: &Limit,
        tiers: &LimitTiers,
        all: &mut Vec<Limit>,
    ) {
        let first = all.len();
        let mut buckets = 0;
        for raw in windows {
            let algorithm = self.algorithm(name, raw.origin, raw, default_algorithm(raw));
            let suffix = match algorithm {
                LimitAlgorithm::TokenBucket { .. } => {
                    buckets += 1;
                    if buckets == 1 { "rate".to_owned() } else { format!("rate-{buckets}") }
                }
                LimitAlgorithm::Concurrency { .. } => "concurrency".to_owned(),
                LimitAlgorithm::FixedWindow { window, .. } | LimitAlgorithm::SlidingWindow { window, .. } => {
                    Time(window).to_string()
                }
            };
            if let (Some(quota), Ok(None)) = (raw.quota, Algorithm::new(algorithm)) {
                let message = "a window with a quota of 0 would admit everything; leave it out, or refuse the tier with `allow` of a route";
                self.problem(quota.origin, message);
            }
            let window_name =
                self.window_name(name, raw.origin, &suffix, |own| all[first..].iter().any(|other| &*other.name == own));
            let (tiers, plain) = (tiers.clone(), plain.clone());
            all.push(Limit { name: window_name, is_window: true, tiers, algorithm, ..plain });
        }
    }

    /// The parts of a key, which must be there, and make sense together. `owner` is what has it, in the words of a message.
    pub(super) fn key_parts(&mut self, origin: Origin, owner: &str, raw: &OneOrMany<LimitKeyText>) -> Vec<LimitKey> {
        let key: Vec<LimitKey> = raw.iter().map(|key| key.0.clone()).collect();
        if key.is_empty() {
            self.problem(origin, format!("{owner} needs a `key`"));
        }
        if key.len() > 1 && key.contains(&LimitKey::Global) {
            let message = "`global` is one count for everything; it cannot be combined with other keys";
            self.problem(origin, message);
        }
        if let Some(twice) = (1..key.len()).find(|&index| key[..index].contains(&key[index])) {
            let message = format!("the key `{}` is named twice", raw[twice]);
            self.problem(origin, message);
        }
        key
    }

    /// A limit without its numbers.
    pub(super) fn limit_alone(&mut self, name: &Spanned<String>, raw: &raw::Limit) -> Limit {
        let key = self.key_parts(name.origin, &format!("the limit `{}`", name.value), &raw.key);
        let store = match *raw.store {
            raw::LimitStore::Memory => LimitStore::Memory,
            raw::LimitStore::Redis => {
                self.needs_redis(raw.store.origin);
                LimitStore::Redis
            }
        };
        Limit {
            name: name.as_str().into(),
            group: name.as_str().into(),
            is_window: false,
            tiers: LimitTiers::All,
            enforce: raw.enforce,
            algorithm: LimitAlgorithm::Concurrency { quota: 0 },
            key,
            store,
            cost: match &raw.cost {
                raw::Cost::Fixed(number) => LimitCost::Fixed(number.get()),
                raw::Cost::Header(field) => LimitCost::Header(lower(&field.0)),
            },
            max_keys: raw.max_keys.get(),
            on_store_failure: match raw.on_store_failure {
                raw::OnStoreFailure::Local => OnStoreFailure::Local,
                raw::OnStoreFailure::Open => OnStoreFailure::Open,
                raw::OnStoreFailure::Closed => OnStoreFailure::Closed,
            },
            replicas: raw.replicas,
            lease: raw.lease,
            missing_key: match &raw.missing_key {
                raw::MissingKey::Shared => MissingKey::Shared,
                raw::MissingKey::Skip => MissingKey::Skip,
                raw::MissingKey::Refuse(refusal) => MissingKey::Refuse {
                    status: self.error_status(&refusal.status),
                    body: refusal.body.as_deref().map(Into::into),
                },
            },
            refusal_status: self.error_status(&raw.on_limit.status),
            refusal_body: raw.on_limit.body.as_deref().map(Into::into),
            headers: LimitHeaders {
                ietf: raw.headers.contains(&raw::LimitHeader::Ietf),
                legacy: raw.headers.contains(&raw::LimitHeader::Legacy),
                scope: raw.headers.contains(&raw::LimitHeader::Scope),
            },
        }
    }

    /// The algorithm of a limit or of one of its windows, which stands at `origin`.
    fn algorithm(
        &mut self,
        name: &Spanned<String>,
        origin: Origin,
        raw: &raw::LimitWindow,
        default: raw::Algorithm,
    ) -> LimitAlgorithm {
        let kind = raw.algorithm.map_or(default, |algorithm| algorithm.value);
        let uses: &[&str] = match kind {
            raw::Algorithm::TokenBucket => &["rate", "burst"],
            raw::Algorithm::FixedWindow => &["quota", "window", "aligned"],
            raw::Algorithm::SlidingWindow => &["quota", "window"],
            raw::Algorithm::Concurrency => &["quota"],
        };
        self.check_window_keys(name, origin, raw, uses, &["quota", "window"]);
        let quota = raw.quota.map_or(0, |quota| self.whole(&quota));
        let window = match raw.window.map(|window| (window.value, window.origin)) {
            None => Default::default(),
            Some((Window::Time(time), _)) => time.0,
            Some((window, origin)) => {
                let message = format!("`{window}` of the calendar needs `unit: tokens` or `money`; use `1d`");
                self.problem(origin, message);
                Default::default()
            }
        };
        let algorithm = match kind {
            raw::Algorithm::TokenBucket => LimitAlgorithm::TokenBucket {
                rate_per_second: raw.rate.map_or(DEFAULT_RATE, |rate| rate.value).per_second(),
                burst: raw.burst.map_or(DEFAULT_BURST, |burst| burst.get()),
            },
            raw::Algorithm::FixedWindow => {
                LimitAlgorithm::FixedWindow { quota, window, aligned: raw.aligned.is_some_and(|aligned| aligned.value) }
            }
            raw::Algorithm::SlidingWindow => LimitAlgorithm::SlidingWindow { quota, window },
            raw::Algorithm::Concurrency => LimitAlgorithm::Concurrency { quota },
        };
        if let Err(unfit) = Algorithm::new(algorithm) {
            let culprit = match unfit {
                Unfit::Quota(_) => raw.quota.map(|at| at.origin),
                Unfit::Window(_) => raw.window.map(|at| at.origin),
                Unfit::Fill(_) => raw.rate.map(|at| at.origin).or(raw.burst.map(|at| at.origin)),
            };
            self.problem(culprit.unwrap_or(origin), unfit.to_string());
        }
        algorithm
    }

    /// A number of things that cannot be divided.
    pub(super) fn whole(&mut self, amount: &Spanned<raw::Amount>) -> u64 {
        amount.whole().unwrap_or_else(|| {
            self.problem(amount.origin, format!("`{}` is not a whole number; only money has fractions", amount.value));
            0
        })
    }

    /// A status that says no.
    fn error_status(&mut self, status: &Spanned<u16>) -> u16 {
        if !(400..600).contains(&status.value) {
            self.problem(status.origin, "a refusal has a status from 400 to 599");
        }
        status.value
    }

    pub(super) fn needs_redis(&mut self, origin: Origin) {
        if self.file.redis.is_none() {
            self.problem(origin, "`store: redis` needs a `redis` section");
        }
    }
}
