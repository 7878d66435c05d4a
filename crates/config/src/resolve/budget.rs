//! Limits of tokens and of money, and the file of prices.

use std::ops::Range;
use std::sync::Arc;

use llm::money::Price;

use super::Resolver;
use super::windows::{Windows, default_algorithm};
use crate::problem::Origin;
use crate::raw::shape::Spanned;
use crate::raw::{self, Window};
use crate::yaml;
use crate::{
    Action, Budget, BudgetAlgorithm, BudgetId, BudgetUnit, BudgetWindow, Limit, LimitCost, LimitTiers, RouteAi,
};

/// The highest rate: above it, the time in which one comes back would be too short to be counted in nanoseconds.
const HIGHEST_RATE: f64 = 1e7;
/// A bucket fills in this time or less, and a window is no longer: counts in Redis are calculated with 53 bits.
const LONGEST_SECONDS: f64 = 100.0 * 86_400.0;
/// The largest quota, in tokens or millionths, for the same reason.
const LARGEST: u64 = 1 << 50;

impl Resolver<'_> {
    /// Appends the limits of tokens or money that one of the file is.
    pub(super) fn budget(&mut self, name: &Spanned<String>, raw: &raw::Limit) {
        self.check_name(name);
        let plain = self.limit_alone(name, raw);
        let unit = match *raw.unit {
            raw::LimitUnit::InputTokens => BudgetUnit::InputTokens,
            raw::LimitUnit::OutputTokens => BudgetUnit::OutputTokens,
            raw::LimitUnit::Money => BudgetUnit::Money,
            raw::LimitUnit::Tokens | raw::LimitUnit::Requests => BudgetUnit::Tokens,
        };
        if unit == BudgetUnit::Money && self.file.prices.is_none() {
            self.problem(raw.unit.origin, "a limit of money needs `prices`, the file with what models cost");
        }
        let is_for_requests = "has no effect on a limit of tokens or money";
        if plain.cost != LimitCost::Fixed(1) {
            self.problem(raw.unit.origin, format!("`cost` {is_for_requests}: a call takes what it uses"));
        }
        if plain.lease.get() > 1 {
            self.problem(raw.unit.origin, format!("`lease` {is_for_requests}: every call reserves for itself"));
        }
        if plain.refusal_body.is_some() {
            let message = format!("`on_limit.body` {is_for_requests}: refusals have the form of the client's API");
            self.problem(raw.unit.origin, message);
        }
        let timezone = raw.timezone.map_or(0, |timezone| timezone.minutes);
        let tiers = match self.windows_of(raw) {
            Windows::Single(window) => {
                let algorithm = self.budget_algorithm(name, name.origin, &window, unit, timezone);
                self.budgets.push(budget(plain.clone(), plain.name, LimitTiers::All, unit, algorithm));
                return;
            }
            Windows::Several(tiers) => tiers,
        };
        for (tiers, windows) in tiers {
            let mut names: Vec<Arc<str>> = Vec::new();
            for window in windows {
                let algorithm = self.budget_algorithm(name, window.origin, window, unit, timezone);
                let suffix = match (algorithm, window.window) {
                    (BudgetAlgorithm::FixedWindow { .. }, Some(window)) => window.value.to_string(),
                    _ => "rate".to_owned(),
                };
                let own = self.window_name(name, window.origin, &suffix, |own| names.iter().any(|name| &**name == own));
                names.push(own.clone());
                self.budgets.push(budget(plain.clone(), own, tiers.clone(), unit, algorithm));
            }
        }
    }

    fn budget_algorithm(
        &mut self,
        name: &Spanned<String>,
        origin: Origin,
        raw: &raw::LimitWindow,
        unit: BudgetUnit,
        timezone: i32,
    ) -> BudgetAlgorithm {
        let is_bucket = match raw.algorithm.map_or((default_algorithm(raw), origin), |at| (at.value, at.origin)) {
            (raw::Algorithm::TokenBucket, _) => true,
            (raw::Algorithm::FixedWindow, _) => false,
            (raw::Algorithm::SlidingWindow | raw::Algorithm::Concurrency, origin) => {
                let message = "limits of tokens and money need `token_bucket` or `fixed_window`, because reserved amounts are corrected later";
                self.problem(origin, message);
                return BudgetAlgorithm::TokenBucket { rate_per_second: 1.0, burst: 1 };
            }
        };
        let uses: &[&str] = if is_bucket { &["rate", "burst"] } else { &["quota", "window", "aligned"] };
        self.check_window_keys(name, origin, raw, uses, &["rate", "burst", "quota", "window"]);
        let is_money = unit == BudgetUnit::Money;
        if is_bucket {
            let factor = if is_money { 1_000_000 } else { 1 };
            let burst = raw.burst.map_or(1, |burst| burst.get()).saturating_mul(factor);
            let rate_per_second = raw.rate.map_or(1.0, |rate| rate.per_second()) * factor as f64;
            let at = raw.rate.map_or(origin, |rate| rate.origin);
            if rate_per_second > HIGHEST_RATE {
                let most = HIGHEST_RATE / factor as f64;
                self.problem(at, format!("this `rate` is too large; the most is {most} a second"));
            } else if burst as f64 / rate_per_second > LONGEST_SECONDS {
                self.problem(at, "`burst` at this `rate` takes more than 100 days to come back; use a window");
            }
            return BudgetAlgorithm::TokenBucket { rate_per_second, burst };
        }
        let quota = match raw.quota {
            None => 1,
            Some(quota) if is_money => quota.millionths,
            Some(quota) => self.whole(&quota),
        };
        if let Some(at) = raw.quota
            && quota > LARGEST
        {
            self.problem(at.origin, format!("`quota` can be at most {}", Amount(LARGEST, is_money)));
        }
        let is_aligned = raw.aligned.is_some_and(|aligned| aligned.value);
        let window = match raw.window.map(|window| window.value) {
            Some(Window::Day) => BudgetWindow::Day(timezone),
            Some(Window::Month) => BudgetWindow::Month(timezone),
            Some(Window::Time(time)) if is_aligned => BudgetWindow::Aligned(time.0),
            Some(Window::Time(time)) => BudgetWindow::First(time.0),
            None => BudgetWindow::First(std::time::Duration::from_secs(1)),
        };
        if let (Some(at), BudgetWindow::Day(_) | BudgetWindow::Month(_)) = (raw.aligned, window) {
            self.problem(at.origin, "windows of the calendar are always aligned; remove `aligned`");
        }
        BudgetAlgorithm::FixedWindow { quota, window }
    }

    /// The limits of tokens and money of a route: those that it names, or those of `defaults` where it serves AI models.
    pub(super) fn route_budgets(&mut self, own: Option<&[Spanned<String>]>, action: &Action) -> Vec<BudgetId> {
        let file = self.file;
        let names = own.unwrap_or(&file.defaults.limits);
        let mut ids = Vec::new();
        for name in names {
            let span = file.limits.position(name).and_then(|position| self.budget_spans.get(position).cloned());
            let span: Range<usize> = span.unwrap_or_default();
            let Some(unit) = self.budgets.get(span.start).filter(|_| !span.is_empty()).map(|budget| budget.unit) else {
                continue;
            };
            match action {
                Action::Ai(ai) => {
                    if unit == BudgetUnit::Money {
                        self.check_prices(name, ai);
                    }
                    ids.extend(span.map(BudgetId));
                }
                _ if own.is_some() => {
                    let message =
                        format!("`{}` counts what AI models use; this route serves none: it has no `ai`", name.value);
                    self.problem(name.origin, message);
                }
                // Limits of `defaults` are for every route; this one uses nothing that they count.
                _ => {}
            }
        }
        ids
    }

    /// Under a limit of money every candidate has a price.
    fn check_prices(&mut self, limit: &Spanned<String>, ai: &RouteAi) {
        let file = self.file;
        if self.prices.is_none() {
            return;
        }
        for (name, model) in ai.models.iter().filter_map(|id| file.models.iter().nth(id.0)) {
            for candidate in model.candidates.iter() {
                if self.price(&candidate.provider, &candidate.model).is_none() {
                    let message = format!(
                        "`{}` counts money, and the file of prices has none for `{}/{}`, a candidate of `{}`",
                        limit.value, candidate.provider.value, candidate.model.value, name.value
                    );
                    self.problem(limit.origin, message);
                }
            }
        }
    }

    /// What a model of a provider costs.
    pub(super) fn price(&self, provider: &str, model: &str) -> Option<Price> {
        let name = format!("{provider}/{model}");
        let (_, price) = self.prices.as_ref()?.models.iter().find(|(known, _)| known.value == name)?;
        Some(Price {
            input: price.input.millionths,
            cached_input: price.cached_input.map(|amount| amount.millionths),
            cache_write: price.cache_write.map(|amount| amount.millionths),
            output: price.output.millionths,
            request: price.request.millionths,
        })
    }

    /// Reads the file of prices.
    pub(super) fn price_file(&mut self) -> Option<raw::Prices> {
        let path = self.file.prices.as_ref()?;
        let shown = &path.value;
        let bytes = match (self.read_file)(&self.folder.join(shown)) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.problem(path.origin, format!("cannot read {shown}: {error}; it should hold the prices of models"));
                return None;
            }
        };
        match yaml::parse::<raw::Prices>(&String::from_utf8_lossy(&bytes), &|_| None) {
            Ok(prices) => Some(prices),
            Err(problems) => {
                for problem in problems {
                    let line = if let Origin::File { line, .. } = problem.origin { line } else { 1 };
                    self.problem(path.origin, format!("{shown}:{line}: {}", problem.message));
                }
                None
            }
        }
    }
}

/// A number of tokens, or of money in whole units.
struct Amount(u64, bool);

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", if self.1 { self.0 / 1_000_000 } else { self.0 })
    }
}

fn budget(plain: Limit, name: Arc<str>, tiers: LimitTiers, unit: BudgetUnit, algorithm: BudgetAlgorithm) -> Budget {
    Budget {
        name,
        group: plain.group,
        tiers,
        enforce: plain.enforce,
        unit,
        algorithm,
        key: plain.key,
        store: plain.store,
        max_keys: plain.max_keys,
        on_store_failure: plain.on_store_failure,
        replicas: plain.replicas,
        missing_key: plain.missing_key,
        refusal_status: plain.refusal_status,
        headers: plain.headers,
    }
}
