//! Phases of a load, each judged by itself: which findings it has, and what a system did in it over all rounds.

use super::rows::{pool, suffices};
use super::trials::Judged;
use crate::results::Report;
use crate::results::report::Phase;
use crate::results::{
    Effect, GeneratorPart, Observed, PhasePlan, PhaseRow, Stretch, Trial, Usage, Verdict, WorkloadPlan,
};
use crate::verdict::{self, Context};

/// When a phase began and ended, in seconds since the measuring began.
fn span(report: &Report, phase: &Phase) -> Option<(f64, f64)> {
    let begun = report.phases.iter().find(|phase| phase.measured)?.start_s;
    let from = phase.start_s - begun;
    Some((from, from + phase.total.duration_s?))
}

/// What a system used in a phase of a trial.
pub(crate) fn used(usage: Option<&Usage>, report: &Report, phase: &Phase) -> Option<Stretch> {
    let (from, to) = span(report, phase)?;
    usage?.within(from, to)
}

/// The findings of each phase of a trial, by its name; none where a load has one phase, of which all is known already.
pub(super) fn verdicts<'p>(
    plan: &'p WorkloadPlan,
    trial: &Trial,
    context: &Context<'_>,
) -> Vec<(&'p str, Vec<Verdict>)> {
    let Some(report) = trial.report.as_ref().filter(|_| plan.phases.len() > 1) else { return Vec::new() };
    let of = |planned: &'p PhasePlan| {
        let phase = report.phases.iter().find(|phase| phase.name == planned.name)?;
        let observed = trial.observed.as_ref().map(|observed| observed_in(observed, report, phase));
        let alone = Report {
            total: phase.total.clone(),
            operations: phase.operations.clone(),
            phases: Vec::new(),
            seconds: Vec::new(),
            ..report.clone()
        };
        let context = Context {
            planned: planned.planned,
            // The baseline is known for the whole load.
            direct: None,
            direct_observed: None,
            observed: observed.as_ref(),
            treatment: None,
            ..*context
        };
        Some((planned.name.as_str(), verdict::look(&alone, &context)))
    };
    plan.phases.iter().filter_map(of).collect()
}

/// The conditions that phases did not meet: they are the machine's or the generator's, and take the round out. What a system fails in within a phase is
/// that phase's.
pub(super) fn conditions(phases: &[(&str, Vec<Verdict>)], known: &[Verdict]) -> Vec<Verdict> {
    let mut found: Vec<Verdict> = Vec::new();
    for (phase, verdicts) in phases {
        for verdict in verdicts.iter().filter(|verdict| verdict.name.effect() == Effect::Condition) {
            if !known.iter().chain(&found).any(|other| other.name == verdict.name) {
                found.push(Verdict { name: verdict.name, evidence: format!("phase {phase}: {}", verdict.evidence) });
            }
        }
    }
    found
}

fn observed_in(observed: &Observed, report: &Report, phase: &Phase) -> Observed {
    let part = |usage: &Option<Usage>| {
        let stretch = used(usage.as_ref(), report, phase)?;
        let cpus = usage.as_ref().and_then(|usage| usage.cpus);
        // Samples have the sum of both.
        Some(Usage { user_s: Some(stretch.cpu_s), system_s: Some(0.0), cpus, ..Usage::default() })
    };
    Observed {
        reached: None,
        duration_s: phase.total.duration_s.unwrap_or(0.0),
        system: part(&observed.system),
        upstream: part(&observed.upstream),
        generator: part(&observed.generator),
        machine: observed.machine.clone(),
        // What each did in a phase is not known apart; that they are other machines is.
        generators: observed
            .generators
            .iter()
            .map(|one| GeneratorPart { name: one.name.clone(), cpus: one.cpus, ..GeneratorPart::default() })
            .collect(),
    }
}

/// The phases of a row.
pub(super) fn rows(plan: &WorkloadPlan, judged: &[&Judged<'_>]) -> Vec<PhaseRow> {
    if plan.phases.len() < 2 {
        return Vec::new();
    }
    plan.phases.iter().map(|planned| row(planned, judged)).collect()
}

fn row(planned: &PhasePlan, judged: &[&Judged<'_>]) -> PhaseRow {
    let trials = judged.iter().filter_map(|judged| Some((judged.trial, judged.report()?)));
    let parts: Vec<(&Trial, &Report, &Phase)> = trials
        .filter_map(|(trial, report)| {
            Some((trial, report, report.phases.iter().find(|phase| phase.name == planned.name)?))
        })
        .collect();
    let total = pool(parts.iter().map(|(_, _, phase)| &phase.total));
    let stretches: Vec<(Stretch, u64)> = parts
        .iter()
        .filter_map(|(trial, report, phase)| {
            let system = trial.observed.as_ref()?.system.as_ref();
            Some((used(system, report, phase)?, phase.total.ended()?))
        })
        .collect();
    let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let each: Vec<(f64, f64)> =
        stretches.iter().filter_map(|(stretch, requests)| stretch.per_request(*requests)).collect();
    let mut verdicts: Vec<Verdict> = Vec::new();
    for (_, found) in judged.iter().flat_map(|judged| &judged.phases).filter(|(name, _)| *name == planned.name) {
        for verdict in found {
            if !verdicts.iter().any(|known| known.name == verdict.name) {
                verdicts.push(verdict.clone());
            }
        }
    }
    verdicts.sort_by_key(|verdict| verdict.name);
    PhaseRow {
        name: planned.name.clone(),
        planned: planned.planned,
        requests: parts.iter().filter_map(|(_, _, phase)| phase.total.ended()).sum(),
        rate: total.rate,
        error_rate: total.error_rate(),
        latency: total.latency.as_ref().map(suffices),
        cpu_percent: mean(stretches.iter().map(|(stretch, _)| stretch.cpu_percent()).collect()),
        memory_bytes: mean(stretches.iter().map(|(stretch, _)| stretch.memory_bytes).collect()),
        cpu_percent_per_request: mean(each.iter().map(|(cpu, _)| *cpu).collect()),
        memory_mb_per_request: mean(each.iter().map(|(_, memory)| *memory).collect()),
        verdicts,
    }
}
