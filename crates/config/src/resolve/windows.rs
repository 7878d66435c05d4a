//! The windows of a limit, of requests as of tokens and money: one, several, or other ones for each tier.

use std::sync::Arc;

use super::Resolver;
use crate::LimitTiers;
use crate::problem::Origin;
use crate::raw;
use crate::raw::shape::Spanned;

pub(super) enum Windows<'a> {
    /// The one that the keys of the limit itself describe.
    Single(raw::LimitWindow),
    /// Those of `windows`, and those of each tier.
    Several(Vec<(LimitTiers, &'a [Spanned<raw::LimitWindow>])>),
}

impl Resolver<'_> {
    pub(super) fn windows_of<'a>(&mut self, raw: &'a raw::Limit) -> Windows<'a> {
        let single = raw::LimitWindow {
            algorithm: raw.algorithm,
            rate: raw.rate,
            burst: raw.burst,
            quota: raw.quota,
            window: raw.window,
            aligned: raw.aligned,
        };
        let Some(windows) = &raw.windows else {
            if let Some((tier, _)) = raw.tiers.iter().next() {
                self.problem(tier.origin, "`tiers` needs `windows`, which apply to all other tiers");
            }
            return Windows::Single(single);
        };
        let algorithm = single.algorithm.map(|at| ("algorithm", at.origin));
        let numbers = given_keys(&single).into_iter().filter_map(|(key, origin)| Some((key, origin?)));
        for (key, origin) in algorithm.into_iter().chain(numbers) {
            self.problem(origin, format!("`{key}` must be in an item of `windows`"));
        }
        if windows.is_empty() && raw.tiers.iter().all(|(_, windows)| windows.is_empty()) {
            self.problem(windows.origin, "`windows` is empty; without `tiers`, nothing would be limited");
        }
        let names: Arc<[Arc<str>]> = raw.tiers.iter().map(|(tier, _)| tier.as_str().into()).collect();
        let others = if names.is_empty() { LimitTiers::All } else { LimitTiers::Except(names) };
        let tiers = raw.tiers.iter().map(|(tier, windows)| (LimitTiers::Only(tier.as_str().into()), &windows[..]));
        Windows::Several(std::iter::once((others, &windows[..])).chain(tiers).collect())
    }

    /// Reports keys of a window that its algorithm does not use, and those that it needs and that are absent.
    pub(super) fn check_window_keys(
        &mut self,
        name: &Spanned<String>,
        origin: Origin,
        raw: &raw::LimitWindow,
        uses: &[&str],
        needs: &[&str],
    ) {
        for (key, given) in given_keys(raw) {
            match given {
                Some(origin) if !uses.contains(&key) => {
                    let uses = uses.join("`, `");
                    self.problem(origin, format!("`{key}` has no effect with this algorithm; expected `{uses}`"));
                }
                None if uses.contains(&key) && needs.contains(&key) => {
                    self.problem(origin, format!("the limit `{}` needs `{key}`", name.value));
                }
                _ => {}
            }
        }
    }

    /// The name of a window in metrics and header fields; `is_taken`: another window of the same tier has it.
    pub(super) fn window_name(
        &mut self,
        limit: &Spanned<String>,
        origin: Origin,
        suffix: &str,
        is_taken: impl FnOnce(&str) -> bool,
    ) -> Arc<str> {
        let name = format!("{}-{suffix}", limit.value);
        if is_taken(&name) {
            self.problem(origin, format!("a second window of `{suffix}`: only the smaller one would have an effect"));
        }
        name.into()
    }
}

/// The algorithm of an item of `windows` that does not name one.
pub(super) fn default_algorithm(raw: &raw::LimitWindow) -> raw::Algorithm {
    if raw.rate.is_none() && raw.burst.is_none() { raw::Algorithm::FixedWindow } else { raw::Algorithm::TokenBucket }
}

fn given_keys(raw: &raw::LimitWindow) -> [(&'static str, Option<Origin>); 5] {
    [
        ("rate", raw.rate.map(|at| at.origin)),
        ("burst", raw.burst.map(|at| at.origin)),
        ("quota", raw.quota.map(|at| at.origin)),
        ("window", raw.window.map(|at| at.origin)),
        ("aligned", raw.aligned.map(|at| at.origin)),
    ]
}
