//! How a judgement is made.

use std::collections::BTreeMap;

use super::compare::{comparisons, declared_in_smaller, twins};
use super::rounds::Runs;
use super::rows::{self, Figures};
use super::{FORMAT, Judgement, Row, RunJudgement};
use crate::campaign::Results;
use crate::campaign::results::{Role, SystemState};

/// All that is known of a campaign while it is judged.
pub(super) struct Case<'r> {
    pub(super) results: &'r Results,
    pub(super) runs: Runs<'r>,
    /// By workload and system.
    pub(super) figures: BTreeMap<(&'r str, &'r str), Figures>,
    pub(super) rows: Vec<Row>,
    /// The system whose figures are the unit of the score.
    pub(super) reference: Option<&'r str>,
    /// Rounds to draw from.
    pub(super) rounds: u32,
    /// The percentile that a workload is compared by.
    pub(super) tails: BTreeMap<&'r str, f64>,
}

impl<'r> Case<'r> {
    fn of(results: &'r Results) -> Self {
        let runs = Runs::of(results);
        let named =
            results.reference.as_deref().filter(|name| results.systems.iter().any(|system| system.name == **name));
        let reference = named.or(runs.direct);
        let mut figures = BTreeMap::new();
        let mut tails = BTreeMap::new();
        let mut all = Vec::new();
        for workload in &results.workloads {
            let name = workload.name.as_str();
            // Without a lane to go by, the first system with runs is as good as any.
            let measure = reference.or_else(|| runs.systems().next().map(|system| system.name.as_str()));
            let tail = measure.and_then(|measure| rows::tail_percentile(&runs.row(measure, name), &workload.planned));
            tails.extend(tail.map(|tail| (name, tail)));
            for system in runs.systems() {
                let judged = runs.row(&system.name, name);
                let searches = rows::searches(&runs, &system.name, name);
                let mut own = rows::figures(&judged, &searches, tail);
                // Slow rounds have the fewest answers: without them it would look better than it is. (The reference, by whose answers the percentile was
                // chosen, lacks a round only for all alike.)
                if measure != Some(system.name.as_str()) && !rows::too_few(&judged, tail).is_empty() {
                    own.tail_ms.clear();
                }
                figures.insert((name, system.name.as_str()), own);
            }
            for system in runs.systems() {
                let direct = runs.direct.and_then(|direct| figures.get(&(name, direct)));
                let own = &figures[&(name, system.name.as_str())];
                all.push(rows::row(&runs, &system.name, name, own, direct, tail));
            }
        }
        let rounds = results.runs.iter().map(|run| run.round).chain(results.searches.iter().map(|search| search.round));
        let rounds = rounds.max().unwrap_or(0).max(results.rounds.min(10_000));
        Case { results, runs, figures, rows: all, reference, rounds, tails }
    }

    /// Whether the score's unit is the lane without a gateway, and not a gateway.
    pub(super) fn without_gateway(&self) -> bool {
        self.reference == self.runs.direct
    }

    /// The rows of a system.
    pub(super) fn rows_of(&self, system: &str) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.system == system)
    }
}

/// Judges a campaign. The same results give the same judgement, byte for byte.
pub fn judge(results: &Results) -> Judgement {
    let case = Case::of(results);
    let scored = super::ranking::rank(&case);
    let comparisons = comparisons(&case, &scored);
    let twins = twins(&case, &scored);
    let mut notes = notes(&case);
    notes.extend(scored.notes.iter().cloned());
    notes.extend(twins.iter().filter(|twin| twin.result.declared).map(|twin| {
        format!(
            "{} and its twin {}, which are the same, were declared different in {}{}; smaller differences are not declared there. Chance does so in up to \
             one of twenty figures.",
            twin.system,
            twin.twin,
            twin.figure.as_str(),
            twin.workload.as_ref().map_or(String::new(), |workload| format!(" under {workload}")),
        )
    }));
    Judgement {
        format: FORMAT,
        gauge: env!("CARGO_PKG_VERSION").to_owned(),
        reference: case.reference.map(str::to_owned),
        twins,
        twins_declared_in_smaller: declared_in_smaller(&case),
        weights: scored.weights,
        sensitivity: scored.sensitivity,
        ranking: scored.ranking,
        unranked: scored.unranked,
        age: super::age::age(&case),
        comparisons,
        runs: case
            .runs
            .all
            .iter()
            .map(|judged| RunJudgement {
                id: judged.run.id.clone(),
                used: judged.used().is_some(),
                cpu_used: judged.cpu_used().is_some(),
                verdicts: judged.verdicts.clone(),
            })
            .collect(),
        rows: case.rows,
        notes,
    }
}

fn notes(case: &Case<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let results = case.results;
    if results.quick {
        notes.push(
            "This is a first look (--quick): fewer and shorter rounds than the evaluation asks for. Nothing here is a result.".to_owned(),
        );
    }
    if results.ended_unix_ms.is_none() {
        notes.push("The campaign did not come to its end; this is of the runs that did.".to_owned());
    }
    // Linux paces bbr with a timer for each burst of a connection where no queueing discipline does it, on loopback too: a gateway pays by how it cuts
    // a body into writes. With cubic the order of gateways that pass large bodies was another one.
    if results.environment.congestion_control.as_deref() == Some("bbr") {
        notes.push(
            "TCP on this machine uses bbr, which paces what is sent: large bodies cost more CPU time than with cubic, and not every gateway as much more. \
             Compare large bodies under the congestion control of the machines that the gateway is for."
                .to_owned(),
        );
    }
    if case.rounds < crate::stats::MIN_ROUNDS as u32 {
        notes.push(format!(
            "With {} rounds no difference can be declared: that takes {}. Systems are in the order of their medians, and all are tied.",
            case.rounds,
            crate::stats::MIN_ROUNDS
        ));
    }
    let unreadable: Vec<&str> = case
        .results
        .workloads
        .iter()
        .map(|workload| workload.name.as_str())
        .filter(|name| case.rows.iter().any(|row| row.workload == *name && !row.unreadable.is_empty()))
        .collect();
    if !unreadable.is_empty() {
        notes.push(format!(
            "The machine was restless: of {} most rounds would have to be left out, so they count, and response times and rates are no better than the \
             comparison within each round makes them.",
            unreadable.join(", ")
        ));
    }
    if case.runs.direct.is_none() {
        notes.push("There is no lane without a gateway: what a gateway adds is not known, and noise of the machine is not seen.".to_owned());
    }
    if let Some(name) = results.reference.as_deref()
        && case.reference != Some(name)
    {
        notes.push(format!(
            "The reference `{name}` is no system of this campaign; the lane without a gateway stands in."
        ));
    }
    if !results.systems.iter().any(|system| matches!(system.role, Role::TwinOf(_))) {
        notes.push("No system was entered twice, so what equal systems differ by was not measured.".to_owned());
    }
    for system in &results.systems {
        if let (SystemState::Failed(why), Role::Direct) = (&system.state, &system.role) {
            notes.push(format!("The lane without a gateway failed: {why}"));
        }
    }
    notes
}
