//! Trials with their validity findings, and which rounds count.

use std::collections::BTreeMap;

use crate::results::Report;
use crate::results::{Effect, LeftOut, Name, Results, System, Trial, TrialState, Verdict, WorkloadPlan};
use crate::verdict::{self, ALLOWED_ERRORS, Baseline, Context};

/// A trial as it was judged.
pub(super) struct Judged<'r> {
    pub(super) trial: &'r Trial,
    pub(super) verdicts: Vec<Verdict>,
    /// Those of its phases, by their names.
    pub(super) phases: Vec<(&'r str, Vec<Verdict>)>,
    /// Why it counts against its system.
    pub(super) failed: Option<String>,
    /// Whether it came to its end, and its round counts.
    pub(super) used: bool,
}

impl<'r> Judged<'r> {
    /// Its report, if its round counts and it did not fail.
    pub(super) fn report(&self) -> Option<&'r Report> {
        self.trial.report.as_ref().filter(|_| self.used && self.failed.is_none())
    }
}

/// The trials of a campaign, each checked.
pub(super) struct Trials<'r> {
    pub(super) results: &'r Results,
    /// In the order of the results.
    pub(super) all: Vec<Judged<'r>>,
    pub(super) direct: Option<&'r str>,
    /// By workload and round.
    left_out: BTreeMap<(&'r str, u32), LeftOut>,
}

impl<'r> Trials<'r> {
    pub(super) fn of(results: &'r Results) -> Self {
        let direct = results.baseline();
        let mut baselines: BTreeMap<(&str, u32), &Trial> = BTreeMap::new();
        for trial in results.trials.iter().filter(|trial| Some(trial.system.as_str()) == direct) {
            if trial.state == TrialState::Done && trial.report.is_some() {
                baselines.insert((&trial.workload, trial.round), trial);
            }
        }
        let mut moved: BTreeMap<(&str, u32), Vec<Verdict>> = BTreeMap::new();
        for workload in &results.workloads {
            let own: Vec<Baseline<'_>> = baselines
                .iter()
                .filter(|((name, _), _)| *name == workload.name)
                .filter_map(|((_, round), trial)| {
                    Some(Baseline { round: *round, total: &trial.report.as_ref()?.total })
                })
                .collect();
            let noisy = match direct {
                Some(_) => verdict::noisy_rounds(&own),
                None => verdict::noisy_together(&together(results, &workload.name)),
            };
            for (round, evidence) in noisy {
                moved.entry((&workload.name, round)).or_default().push(Verdict { name: Name::NoisyControl, evidence });
            }
            let mhz: Vec<(u32, f64)> = baselines
                .iter()
                .filter(|((name, _), _)| *name == workload.name)
                .filter_map(|((_, round), trial)| Some((*round, trial.observed.as_ref()?.machine.mhz?)))
                .collect();
            for far in verdict::moved(&mhz, 0.0) {
                let found = Verdict { name: Name::Frequency, evidence: far.frequency() };
                moved.entry((&workload.name, far.round)).or_default().push(found);
            }
        }
        let mut left_out = BTreeMap::new();
        let all: Vec<Judged<'r>> = results
            .trials
            .iter()
            .map(|trial| {
                let key = (trial.workload.as_str(), trial.round);
                let baseline = baselines.get(&key).copied().filter(|baseline| baseline.system != trial.system);
                check(results, trial, baseline, moved.get(&key))
            })
            .collect();
        // The first of a round in the order in which it was measured, whatever the order here.
        let mut measured: Vec<&Judged<'r>> = all.iter().collect();
        measured.sort_by_key(|judged| (judged.trial.round, judged.trial.place, &judged.trial.id));
        for judged in measured {
            let trial = judged.trial;
            let Some((name, why)) = condition(judged, direct) else { continue };
            left_out.entry((trial.workload.as_str(), trial.round)).or_insert_with(|| LeftOut {
                workload: trial.workload.clone(),
                round: trial.round,
                system: trial.system.clone(),
                name,
                why,
            });
        }
        for search in &results.searches {
            if let Some(why) = &search.invalid {
                left_out.entry((&search.workload, search.round)).or_insert_with(|| LeftOut {
                    workload: search.workload.clone(),
                    round: search.round,
                    system: search.system.clone(),
                    // It begins with the name of the finding.
                    name: Name::ALL
                        .iter()
                        .copied()
                        .find(|name| why.starts_with(name.as_str()))
                        .unwrap_or(Name::FewSamples),
                    why: why.clone(),
                });
            }
        }
        let mut trials = Trials { results, all, direct, left_out };
        for judged in &mut trials.all {
            let finished = matches!(judged.trial.state, TrialState::Done | TrialState::Failed(_));
            judged.used =
                finished && !trials.left_out.contains_key(&(judged.trial.workload.as_str(), judged.trial.round));
        }
        trials
    }

    /// The rounds that count for no system.
    pub(super) fn left_out(&self) -> impl Iterator<Item = &LeftOut> {
        self.left_out.values()
    }

    /// Whether a round of a workload counts.
    pub(super) fn counts(&self, workload: &str, round: u32) -> bool {
        !self.left_out.contains_key(&(workload, round))
    }

    /// Those of a row, in the order of the rounds.
    pub(super) fn row(&self, system: &str, workload: &str) -> Vec<&Judged<'r>> {
        let own = |judged: &&Judged<'_>| judged.trial.system == system && judged.trial.workload == workload;
        let mut trials: Vec<&Judged<'r>> = self.all.iter().filter(own).collect();
        trials.sort_by_key(|judged| judged.trial.round);
        trials
    }

    /// The system of the comparison that has the most trials that count and did not fail, the first of several: what a score without a baseline divides by.
    pub(super) fn most_measured(&self) -> Option<&'r str> {
        let measured = |system: &System| {
            let own = |judged: &&Judged<'_>| judged.trial.system == system.name && judged.report().is_some();
            self.all.iter().filter(own).count()
        };
        let compared = self.results.systems.iter().filter(|system| system.role.is_compared());
        let most = compared.map(|system| (system, measured(system))).rev().max_by_key(|(_, count)| *count);
        most.filter(|(_, count)| *count > 0).map(|(system, _)| system.name.as_str())
    }

    /// Systems with trials or searches.
    pub(super) fn systems(&self) -> impl Iterator<Item = &'r System> + '_ {
        let searches = &self.results.searches;
        self.results.systems.iter().filter(|system| {
            self.all.iter().any(|judged| judged.trial.system == system.name)
                || searches.iter().any(|search| search.system == system.name)
        })
    }
}

/// The trials of every system under a workload that came to their end.
fn together<'r>(results: &'r Results, workload: &str) -> Vec<Vec<Baseline<'r>>> {
    let of = |system: &System| {
        let own = |trial: &&Trial| {
            (trial.system.as_str(), trial.workload.as_str()) == (&system.name, workload)
                && trial.state == TrialState::Done
        };
        let total = |trial: &'r Trial| Some(Baseline { round: trial.round, total: &trial.report.as_ref()?.total });
        results.trials.iter().filter(own).filter_map(total).collect()
    };
    results.systems.iter().map(of).collect()
}

/// Why the round of a trial counts for nobody. What the baseline fails in, no gateway can be held to.
fn condition(judged: &Judged<'_>, direct: Option<&str>) -> Option<(Name, String)> {
    let unmet = |verdict: &&Verdict| verdict.name.effect() == Effect::Condition;
    let found = judged.verdicts.iter().find(unmet).map(|verdict| (verdict.name, verdict.evidence.clone()));
    let baseline = Some(judged.trial.system.as_str()) == direct;
    let failed = || judged.failed.clone().filter(|_| baseline).map(|why| (Name::UpstreamBound, why));
    found.or_else(failed)
}

fn check<'r>(
    results: &'r Results,
    trial: &'r Trial,
    baseline: Option<&'r Trial>,
    moved: Option<&Vec<Verdict>>,
) -> Judged<'r> {
    let mut verdicts = moved.cloned().unwrap_or_default();
    if let TrialState::Void(why) = &trial.state {
        verdicts.push(Verdict { name: Name::NotMeasured, evidence: why.clone() });
    }
    let mut failed = match &trial.state {
        TrialState::Failed(why) => Some(why.clone()),
        _ => None,
    };
    let mut phases = Vec::new();
    if let Some(report) = trial.report.as_ref().filter(|_| failed.is_none()) {
        let plan = results.workloads.iter().find(|workload| workload.name == trial.workload);
        let context = context(results, plan, trial, baseline);
        verdicts.extend(verdict::look(report, &context));
        phases = plan.map_or_else(Vec::new, |plan| super::phases::verdicts(plan, trial, &context));
        verdicts.extend(super::phases::conditions(&phases, &verdicts));
        let failure = verdicts.iter().find(|verdict| verdict.name.effect() == Effect::Failure);
        failed = failure.map(|verdict| format!("{}: {}", verdict.name, verdict.evidence));
    }
    verdicts.sort_by_key(|verdict| verdict.name);
    Judged { trial, verdicts, phases, failed, used: false }
}

/// The condition that a trial did not meet, as far as it can be told without the other rounds.
pub(crate) fn unmet(results: &Results, trial: &Trial) -> Option<String> {
    let judged = check(results, trial, None, None);
    let mut verdicts = judged.verdicts.into_iter();
    let unmet = verdicts.find(|verdict| verdict.name.effect() == Effect::Condition)?;
    Some(format!("{}: {}", unmet.name, unmet.evidence))
}

fn context<'r>(
    results: &'r Results,
    plan: Option<&'r WorkloadPlan>,
    trial: &'r Trial,
    baseline: Option<&'r Trial>,
) -> Context<'r> {
    let mut planned = plan.map(|plan| plan.planned).unwrap_or_default();
    // A plan that says how many users there are says all of them.
    if planned.concurrency.is_some() && planned.think_s.is_none() {
        planned.think_s = Some(0.0);
    }
    let treatment = trial.treatment.as_ref().or_else(|| plan.and_then(|plan| plan.treatment.as_ref()));
    let direct_report = baseline.and_then(|baseline| baseline.report.as_ref());
    // It is a treatment of gateways.
    let is_gateway = results.baseline() != Some(trial.system.as_str());
    Context {
        planned,
        direct: direct_report.map(|report| &report.total),
        direct_operations: direct_report.map_or(&[], |report| &report.operations),
        observed: trial.observed.as_ref(),
        direct_observed: baseline.and_then(|baseline| baseline.observed.as_ref()),
        pinned: Some(&results.environment.pinned),
        treatment: treatment.filter(|_| is_gateway).map(|treatment| (treatment, trial.treated)),
        allowed_errors: Some(results.slo.and_then(|slo| slo.errors).unwrap_or(ALLOWED_ERRORS)),
    }
}
