//! Whether anything is decided, why not, and what would help.

use super::judge::Case;
use super::ranking::Scores;
use crate::results::{Decision, Name, Role, SystemState, Unranked};
use crate::stats;

/// What would help where a condition was not met.
fn remedy(name: Name) -> &'static str {
    match name {
        Name::GeneratorLag => {
            "a processor of its own for the generator (`hardware: {pin: ...}`), a lower rate, or a machine with more processors"
        }
        Name::Steal => "a machine whose processors its host gives to nobody else",
        Name::Throttled | Name::Frequency => {
            "a fixed frequency of the processors, cooling, and no quota of processor time"
        }
        Name::NoisyControl => "an idle machine: end what else runs on it",
        Name::FewSamples => "a longer `duration` of each rate of the search",
        Name::NotMeasured => "an upstream and a generator that run until the end",
        Name::Truncated => "to let every trial run to its end",
        Name::LittlesLaw => "a generator whose figures do not contradict each other",
        _ => "an upstream that carries the load by itself: a lower rate, or more processors for it",
    }
}

/// Without enough valid rounds nothing is decided. That is never a property of a gateway.
pub(super) fn decide(case: &Case<'_>, scores: &Scores, unranked: &[Unranked]) -> Decision {
    let own = |name: &str| unranked.iter().any(|unranked| unranked.system == name);
    let gateways: Vec<&str> = case
        .results
        .systems
        .iter()
        .filter(|system| system.role.is_compared() && !own(&system.name))
        .map(|system| system.name.as_str())
        .collect();
    let rounds = gateways.iter().map(|name| scores.rounds(name)).min().unwrap_or(0);
    let pairs = gateways.len() * gateways.len().saturating_sub(1) / 2;
    let needed = stats::rounds_to_declare_scores(gateways.len());
    let mut decision =
        Decision { decided: rounds >= needed, rounds: rounds as u32, needed: needed as u32, ..Decision::default() };
    if decision.decided {
        return decision;
    }
    let (why, help) = (&mut decision.why, &mut decision.help);
    if !case.results.life.is_empty() {
        why.push("the profile life ranks nothing: what became of requests is below".to_owned());
        return decision;
    }
    if gateways.is_empty() {
        why.push(format!("no {} could be compared", case.results.subject().one()));
        return decision;
    }
    let planned = case.results.rounds;
    why.push(format!(
        "{rounds} of {planned} rounds are valid, and {needed} are needed to declare a difference{}",
        if pairs > 1 { format!(" among {pairs} pairs of {}", case.results.subject().many()) } else { String::new() }
    ));
    for name in &gateways {
        let missing = scores.missing(name);
        if !missing.is_empty() {
            why.push(format!("{name} has no value for {}", missing.join(", ")));
            help.push(
                "a longer load: a figure needs 100 ms of CPU time and enough samples for its percentile".to_owned(),
            );
        }
    }
    if case.reference.is_none() {
        why.push("no system was measured that others could be scored by".to_owned());
    }
    for name in Name::ALL {
        let mut left_out = case.trials.left_out().filter(|left_out| left_out.name == *name).peekable();
        let Some(first) = left_out.peek() else { continue };
        let first = format!("{}, round {}: {}", first.workload, first.round, first.why);
        let count = left_out.count();
        let rounds = if count == 1 { "1 round is" } else { &format!("{count} rounds are") };
        why.push(format!("{rounds} left out for {name} ({first})"));
        help.push(remedy(*name).to_owned());
    }
    if case.results.quick {
        help.push("a whole campaign: the same command without --quick".to_owned());
    } else if planned < needed as u32 {
        help.push(format!("more rounds: `repeats: {}`", needed + 4));
    } else {
        help.push(format!("more rounds: `repeats: {}`", planned * 2));
    }
    help.dedup();
    decision
}

/// What a reader must know besides.
pub(super) fn notes(case: &Case<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let results = case.results;
    if results.quick {
        notes.push("This is a first look (--quick): fewer and shorter rounds than the evaluation defines.".to_owned());
    }
    if results.ended_unix_ms.is_none() {
        notes.push("The campaign is not complete; the report covers the trials that finished.".to_owned());
    }
    // Linux paces bbr with a timer for each burst of a connection where no queueing discipline does it, on loopback too: a gateway pays by how it cuts
    // a body into writes. With cubic the order of gateways that pass large bodies was another one.
    if results.environment.congestion_control.as_deref() == Some("bbr") {
        let one = results.subject().one();
        notes.push(format!(
            "TCP on this machine uses bbr, which paces what is sent: large bodies cost more CPU time than with cubic, and not every {one} as much more. \
             Compare large bodies under the congestion control of the machines that the {one} is for."
        ));
    }
    for difference in &results.continued {
        notes.push(format!("The campaign was continued with differences from the rounds before: {difference}."));
    }
    if case.trials.direct.is_none() {
        notes.push(
            match case.reference {
                Some(reference) => format!(
                    "There is no baseline: what a system adds is not known, the score is relative to {reference}, and a round counts as noisy when all \
                     systems move together."
                ),
                None => "There is no baseline: what a system adds is not known.".to_owned(),
            }
        );
    }
    if let Some(name) = results.reference.as_deref()
        && case.reference != Some(name)
    {
        notes.push(format!("The reference `{name}` is not a system of this campaign; the baseline is used."));
    }
    if !results.systems.iter().any(|system| matches!(system.role, Role::ControlOf(_))) {
        notes.push("No system has an A/A control, so the noise floor was not measured.".to_owned());
    }
    for system in &results.systems {
        if let (SystemState::Failed(why), Role::Direct) = (&system.state, &system.role) {
            notes.push(format!("The baseline failed: {why}"));
        }
    }
    notes
}
