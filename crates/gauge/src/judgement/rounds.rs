//! Runs with their verdicts, and which of them count.

use std::collections::BTreeMap;

use super::LeftOut;
use crate::campaign::Results;
use crate::campaign::results::{Role, Run, RunState, System, WorkloadPlan};
use crate::load::Report;
use crate::verdict::{self, Context, Control, Name, Verdict};

/// A run as it was judged.
pub(super) struct Judged<'r> {
    pub(super) run: &'r Run,
    pub(super) verdicts: Vec<Verdict>,
    /// Why nothing of it counts.
    void: Option<String>,
    /// Why its times and rates do not count: the generator was late, and that no other run makes good.
    late: Option<String>,
    /// Why its times and rates had better not count: the machine was not as it was in other rounds.
    moved: Option<String>,
    /// They do nevertheless, since most runs of the row are such.
    kept: bool,
}

impl<'r> Judged<'r> {
    /// Its report, if its times and rates count.
    pub(super) fn used(&self) -> Option<&'r Report> {
        if self.left_out().is_some() { None } else { self.run.report.as_ref() }
    }

    /// Its report, if its processor time and memory count. Those hardly depend on what else the machine does.
    pub(super) fn cpu_used(&self) -> Option<&'r Report> {
        if self.void.is_some() { None } else { self.run.report.as_ref() }
    }

    /// Why its times and rates do not count.
    fn left_out(&self) -> Option<&String> {
        self.void.as_ref().or(self.late.as_ref()).or(self.moved.as_ref().filter(|_| !self.kept))
    }

    /// Whether its times and rates count though the machine was not as it was in other rounds.
    pub(super) fn kept(&self) -> bool {
        self.kept && self.moved.is_some() && self.used().is_some()
    }
}

/// Share of a row's runs that must be readable for the others to be left out. With fewer, what is left says less than all of them: systems are compared within
/// a round, and what the machine did in it happened to all.
const READABLE: f64 = 0.5;

/// The lane without a gateway.
pub(crate) fn direct(results: &Results) -> Option<&str> {
    results.systems.iter().find(|system| system.role == Role::Direct).map(|system| system.name.as_str())
}

/// The runs of a campaign, each looked at.
pub(super) struct Runs<'r> {
    pub(super) results: &'r Results,
    /// In the order of the results.
    pub(super) all: Vec<Judged<'r>>,
    /// The lane without a gateway.
    pub(super) direct: Option<&'r str>,
}

impl<'r> Runs<'r> {
    /// Looks at every run.
    pub(super) fn of(results: &'r Results) -> Self {
        let direct = direct(results);
        let mut controls: BTreeMap<(&str, u32), &Run> = BTreeMap::new();
        for run in &results.runs {
            if Some(run.system.as_str()) == direct && run.state == RunState::Done && run.report.is_some() {
                controls.insert((&run.workload, run.round), run);
            }
        }
        let mut noisy: BTreeMap<(&str, u32), String> = BTreeMap::new();
        for workload in &results.workloads {
            let lanes: Vec<Control<'_>> = controls
                .iter()
                .filter(|((name, _), _)| *name == workload.name)
                .filter_map(|((_, round), run)| Some(Control { round: *round, total: &run.report.as_ref()?.total }))
                .collect();
            for (round, evidence) in verdict::noisy_rounds(&lanes) {
                noisy.insert((&workload.name, round), evidence);
            }
        }
        let mut all: Vec<Judged<'r>> = results
            .runs
            .iter()
            .map(|run| {
                let key = (run.workload.as_str(), run.round);
                let control = controls.get(&key).copied().filter(|control| control.system != run.system);
                judge_run(results, run, control, noisy.get(&key))
            })
            .collect();
        keep(&mut all);
        Runs { results, all, direct }
    }

    /// Those of a row, in the order of the rounds.
    pub(super) fn row(&self, system: &str, workload: &str) -> Vec<&Judged<'r>> {
        let mut runs: Vec<&Judged<'r>> =
            self.all.iter().filter(|judged| judged.run.system == system && judged.run.workload == workload).collect();
        runs.sort_by_key(|judged| judged.run.round);
        runs
    }

    /// Systems with runs or searches.
    pub(super) fn systems(&self) -> impl Iterator<Item = &'r System> + '_ {
        let searches = &self.results.searches;
        self.results.systems.iter().filter(|system| {
            self.all.iter().any(|judged| judged.run.system == system.name)
                || searches.iter().any(|search| search.system == system.name)
        })
    }
}

fn judge_run<'r>(results: &'r Results, run: &'r Run, control: Option<&'r Run>, noisy: Option<&String>) -> Judged<'r> {
    let state = match &run.state {
        RunState::Done => None,
        RunState::Failed(why) => Some(format!("it failed: {why}")),
        RunState::Aborted(why) => Some(format!("it was stopped: {why}")),
        RunState::Planned | RunState::Starting | RunState::Warming | RunState::Measuring => {
            Some("it was never finished".to_owned())
        }
    };
    let Some(report) = run.report.as_ref() else {
        let void = state.or_else(|| Some("nothing was measured".to_owned()));
        return Judged { run, verdicts: Vec::new(), void, late: None, moved: None, kept: false };
    };
    let plan = results.workloads.iter().find(|workload| workload.name == run.workload);
    let mut verdicts = verdict::look(report, &context(results, plan, run, control));
    if let Some(evidence) = noisy {
        verdicts.push(Verdict { name: Name::NoisyControl, evidence: evidence.clone() });
        verdicts.sort_by_key(|verdict| verdict.name);
    }
    let first = |which: fn(Name) -> bool| verdicts.iter().find(|verdict| which(verdict.name)).map(named);
    let void = state.or_else(|| first(Name::voids_run));
    let moved = first(Name::voids_times);
    let late = verdict::late(report).map(|evidence| format!("{}: {evidence}", Name::GeneratorBound));
    Judged { run, verdicts, void, late, moved, kept: false }
}

/// Where most of a row's runs are of a machine that moved, they count all the same.
fn keep(all: &mut [Judged<'_>]) {
    let mut rows: BTreeMap<(&str, &str), (u32, u32)> = BTreeMap::new();
    for judged in all.iter().filter(|judged| judged.void.is_none() && judged.late.is_none()) {
        let (runs, readable) = rows.entry((&judged.run.system, &judged.run.workload)).or_default();
        *runs += 1;
        *readable += u32::from(judged.moved.is_none());
    }
    for judged in all {
        let row = rows.get(&(judged.run.system.as_str(), judged.run.workload.as_str()));
        judged.kept = row.is_some_and(|(runs, readable)| f64::from(*readable) < f64::from(*runs) * READABLE);
    }
}

fn named(verdict: &Verdict) -> String {
    format!("{}: {}", verdict.name, verdict.evidence)
}

fn context<'r>(
    results: &'r Results,
    plan: Option<&'r WorkloadPlan>,
    run: &'r Run,
    control: Option<&'r Run>,
) -> Context<'r> {
    let mut planned = plan.map(|plan| plan.planned).unwrap_or_default();
    // A plan that says how many users there are says all of them.
    if planned.concurrency.is_some() && planned.think_s.is_none() {
        planned.think_s = Some(0.0);
    }
    let treatment = run.treatment.as_ref().or_else(|| plan.and_then(|plan| plan.treatment.as_ref()));
    Context {
        planned,
        direct: control.and_then(|control| control.report.as_ref()).map(|report| &report.total),
        observed: run.observed.as_ref(),
        direct_observed: control.and_then(|control| control.observed.as_ref()),
        pinned: Some(&results.environment.pinned),
        // It is a treatment of gateways.
        treatment: treatment.filter(|_| control.is_some()).map(|treatment| (treatment, run.treated)),
    }
}

/// The rounds of a row whose times and rates do not count.
pub(super) fn left_out(runs: &[&Judged<'_>]) -> Vec<LeftOut> {
    runs.iter()
        .filter_map(|judged| Some(LeftOut { round: judged.run.round, why: judged.left_out()?.clone() }))
        .collect()
}
