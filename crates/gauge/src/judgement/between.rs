//! Two campaigns of one evaluation: what changed from the first to the second.
//!
//! The method is that of a campaign: ratios of costs in rounds of the same number, which have the same order of systems, the exact signed-rank test and
//! the Benjamini-Hochberg procedure over all that is tested of a system: whether one system became worse is a question of its own, whatever stands beside it. Where both campaigns have the baseline, costs are multiples of the baseline's in the same
//! round, as in the score: a machine that is slower on the second day slows the baseline too, and is not held against a gateway.

use super::judge::{Case, Series, differences};
use crate::criterion::CRITERIA;
use crate::results::{Environment, Results, WorkloadPlan};
use crate::stats::{self, MIN_ROUNDS, SIGNIFICANCE};

/// What changed from one campaign to another.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Between {
    /// Each system that both have, in each criterion of each workload.
    pub changes: Vec<Change>,
    /// Why the rest, or all, cannot be compared.
    pub not_comparable: Vec<String>,
    /// What differs without making them incomparable: it may be what is compared.
    pub notes: Vec<String>,
}

/// A system in one criterion.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Which system.
    pub system: String,
    /// Under which workload.
    pub workload: String,
    /// Name of the criterion.
    pub criterion: &'static str,
    /// Whether costs are multiples of the baseline's.
    pub by_baseline: bool,
    /// Cost in the second campaign over that in the first: above 1, it became worse.
    pub result: stats::Comparison,
}

/// What a comparison ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// No system became worse.
    SameOrBetter,
    /// One did.
    Worse,
    /// None is known to have, and something could not be compared.
    NotComparable,
}

impl Change {
    /// Whether it is worse by more than this share, beyond chance.
    pub fn is_worse(&self, tolerance: f64) -> bool {
        self.result.declared && self.result.ratio.low.unwrap_or(self.result.ratio.value) > 1.0 + tolerance
    }

    /// Whether it is better, beyond chance.
    pub fn is_better(&self) -> bool {
        self.result.declared && self.result.ratio.value < 1.0
    }
}

impl Between {
    /// What it ends with, when so large a share more is accepted.
    pub fn ends(&self, tolerance: f64) -> Ends {
        if self.changes.iter().any(|change| change.is_worse(tolerance)) {
            return Ends::Worse;
        }
        if self.changes.is_empty() || !self.not_comparable.is_empty() {
            Ends::NotComparable
        } else {
            Ends::SameOrBetter
        }
    }
}

/// Compares a campaign with an earlier one.
pub fn between(before: &Results, after: &Results) -> Between {
    let mut all = Between::default();
    different(&before.environment, &after.environment, &mut all);
    if before.profile != after.profile {
        all.not_comparable.push(format!("the profile was {} and is {}", before.profile, after.profile));
    }
    for (what, one, other) in [("only the first", before, after), ("only the second", after, before)] {
        let gateways = one.systems.iter().filter(|system| system.role.is_compared());
        let missing = gateways.filter(|system| !other.systems.iter().any(|own| own.name == system.name));
        all.notes.extend(missing.map(|system| format!("{}: in {what} campaign", system.name)));
    }
    // On another machine no figure says anything of a gateway.
    if !all.not_comparable.is_empty() {
        return all;
    }
    let (first, second) = (Case::of(before), Case::of(after));
    for workload in &before.workloads {
        let Some(same) = after.workloads.iter().find(|own| own.name == workload.name) else {
            all.not_comparable.push(format!("workload {}: only the first campaign has it", workload.name));
            continue;
        };
        if !is_same_load(workload, same) {
            all.not_comparable
                .push(format!("workload {}: the load was {} and is {}", workload.name, workload.load, same.load));
            continue;
        }
        for system in before.systems.iter().filter(|system| system.role.is_compared()) {
            if !after.systems.iter().any(|own| own.name == system.name && own.role == system.role) {
                continue;
            }
            compare(&first, &second, &workload.name, &system.name, &mut all);
        }
    }
    for system in &before.systems {
        declare(&system.name, &mut all);
    }
    if all.changes.is_empty() && all.not_comparable.is_empty() {
        all.not_comparable.push(format!("no {} was measured under the same workload in both", after.subject().one()));
    }
    all
}

/// Declares the changes of a system, among all that are tested of it. Fewer rounds than could declare a single one have not shown that it is the same.
fn declare(system: &str, all: &mut Between) {
    let own = |change: &&mut Change| change.system == system;
    let tested = all.changes.iter_mut().filter(own).map(|change| &mut change.result);
    let count = stats::declare(tested, SIGNIFICANCE) as usize;
    let needed = stats::rounds_to_declare(count, SIGNIFICANCE);
    let rounds =
        all.changes.iter().filter(|change| change.system == system).map(|change| change.result.ratio.rounds).min();
    if let Some(rounds) = rounds.filter(|rounds| (*rounds as usize) < needed) {
        let text = format!(
            "{system}: {rounds} valid rounds in common, and {needed} are needed to declare a change among {count} figures"
        );
        all.not_comparable.push(text);
    }
}

fn is_same_load(one: &WorkloadPlan, other: &WorkloadPlan) -> bool {
    let of = |plan: &WorkloadPlan| (plan.load.clone(), plan.operations.clone(), plan.generator.clone(), plan.planned);
    of(one) == of(other)
}

fn compare(first: &Case<'_>, second: &Case<'_>, workload: &str, system: &str, all: &mut Between) {
    let place = format!("{system} under {workload}");
    let before = all.changes.len();
    for criterion in CRITERIA {
        let (Some(then), Some(now)) =
            (first.costs(workload, criterion, system), second.costs(workload, criterion, system))
        else {
            continue;
        };
        if criterion.is_percentile() && first.percentiles.get(workload) != second.percentiles.get(workload) {
            let text = "the samples suffice for different percentiles";
            all.not_comparable.push(format!("{place}: {}: {text}", criterion.title));
            continue;
        }
        let units = first.baseline_unit(workload, criterion).zip(second.baseline_unit(workload, criterion));
        let ratios = match units {
            Some((then_unit, now_unit)) => differences(&over(now, now_unit), &over(then, then_unit)),
            None => differences(now, then),
        };
        if ratios.len() < MIN_ROUNDS {
            let text = format!("{} valid rounds in common, and {MIN_ROUNDS} are needed", ratios.len());
            all.not_comparable.push(format!("{place}: {}: {text}", criterion.title));
            continue;
        }
        all.changes.extend(stats::Comparison::of(&ratios).map(|result| Change {
            system: system.to_owned(),
            workload: workload.to_owned(),
            criterion: criterion.name,
            by_baseline: units.is_some(),
            result,
        }));
    }
    if all.changes.len() == before && !all.not_comparable.iter().any(|text| text.starts_with(&place)) {
        all.not_comparable.push(format!("{place}: no figure that both have"));
    }
}

/// Costs as multiples of a unit's in the same round. A failed trial stays worse than any value.
fn over(costs: &Series, unit: &Series) -> Series {
    let of = |(round, cost): (&u32, &f64)| {
        if *cost >= stats::WORST { Some((*round, *cost)) } else { Some((*round, cost - unit.get(round)?)) }
    };
    costs.iter().filter_map(of).collect()
}

/// Clocks of hosts are never the same twice, and say nothing of the machine.
fn without_clocks(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Object(fields) => {
            let stays = |name: &str| !matches!(name, "clock_offset_ms" | "clock_round_trip_ms");
            let fields = fields.into_iter().filter(|(name, _)| stays(name));
            Value::Object(fields.map(|(name, value)| (name, without_clocks(value))).collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(without_clocks).collect()),
        other => other,
    }
}

/// A machine is another one by what decides its speed; other differences are only noted.
fn different(before: &Environment, after: &Environment, all: &mut Between) {
    let fields = |of: &Environment| match serde_json::to_value(of).map(without_clocks) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (then, now) = (fields(before), fields(after));
    for (name, was) in &then {
        let is = now.get(name).unwrap_or(&serde_json::Value::Null);
        if was == is {
            continue;
        }
        let text = format!("`{name}` was {was} and is {is}");
        let same_machine = ["system", "commit", "versions", "congestion_control"].contains(&name.as_str());
        if same_machine { all.notes.push(text) } else { all.not_comparable.push(text) }
    }
}
