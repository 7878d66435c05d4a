//! What several of the reports show alike: figures in words, systems by name.

use ::time::UtcDateTime;

use crate::criterion::{CRITERIA, Criterion};
use crate::results::{Judgement, Ranked, Results, Role, Row, Search, System, SystemState, Verdict};
use crate::stats::Estimate;
pub(super) use crate::verdict::words::{number, percent, size, time};

/// Whether a system has trials to show: not a control, not one that was never run.
pub(super) fn shown<'r>(results: &'r Results, judgement: &Judgement) -> Vec<&'r System> {
    results
        .systems
        .iter()
        .filter(|system| !matches!(system.role, Role::ControlOf(_)))
        .filter(|system| judgement.rows.iter().any(|row| row.system == system.name && row.is_measured()))
        .collect()
}

/// The row of a system.
pub(super) fn row<'j>(judgement: &'j Judgement, system: &str, workload: &str) -> Option<&'j Row> {
    judgement.rows.iter().find(|row| row.system == system && row.workload == workload)
}

/// A system's place.
pub(super) fn place<'j>(judgement: &'j Judgement, system: &str) -> Option<&'j Ranked> {
    judgement.ranking.iter().find(|place| place.system == system)
}

/// `12.3 (11.9 to 12.8)`; without an interval, `12.3 (3 rounds)`.
pub(super) fn interval(estimate: Option<&Estimate>, words: impl Fn(f64) -> String) -> String {
    estimate.map_or("—".to_owned(), |estimate| format!("{} ({})", words(estimate.value), range(estimate, words)))
}

/// `11.9 to 12.8 ms`: the unit once, where it is the same; how many rounds there are, where they are too few for an interval.
pub(super) fn range(estimate: &Estimate, words: impl Fn(f64) -> String) -> String {
    match (estimate.low.map(&words), estimate.high.map(&words)) {
        (Some(low), Some(high)) => {
            let unit = |text: &str| text.rsplit_once(' ').map(|(_, unit)| unit.to_owned());
            match (unit(&low), unit(&high)) {
                (Some(own), Some(other)) if own == other => {
                    format!("{} to {high}", &low[..low.len() - own.len() - 1])
                }
                _ => format!("{low} to {high}"),
            }
        }
        (Some(low), None) => format!("{low} or more"),
        (None, Some(high)) => format!("{high} or less"),
        (None, None) if estimate.rounds == 1 => "1 round".to_owned(),
        (None, None) => format!("{} rounds", estimate.rounds),
    }
}

/// The criteria that some row of a workload has.
pub(super) fn criteria<'j>(rows: impl Iterator<Item = &'j Row> + Clone) -> Vec<&'static Criterion> {
    let searched = |row: &Row, criterion: &Criterion| criterion.is_searched() && row.search_failed.is_some();
    let has = |criterion: &&Criterion| {
        rows.clone().any(|row| row.figure(criterion.name).is_some() || searched(row, criterion))
    };
    CRITERIA.iter().filter(has).collect()
}

/// A criterion's title, with the percentile where it is one.
pub(super) fn title(criterion: &Criterion, percentile: Option<f64>) -> String {
    match percentile.filter(|_| criterion.is_percentile()) {
        Some(percentile) => format!("p{} {}", number(percentile), criterion.title),
        None => criterion.title.to_owned(),
    }
}

/// A criterion's title, by its name.
pub(super) fn title_of(name: &str) -> &str {
    Criterion::named(name).map_or(name, |criterion| criterion.title)
}

/// What a criterion of a row is, and a remark where not every search found a rate.
pub(super) fn figure(
    results: &Results,
    row: &Row,
    criterion: &Criterion,
    interval: impl Fn(Option<&Estimate>) -> String,
) -> (String, Option<String>) {
    let estimate = row.figure(criterion.name);
    if !criterion.is_searched() || row.search_failed.is_none() {
        return (interval(estimate), None);
    }
    let own = |search: &&Search| search.system == row.system && search.workload == row.workload;
    let (all, found) = results
        .searches
        .iter()
        .filter(own)
        .fold((0, 0), |(all, found), search| (all + 1, found + usize::from(search.highest.is_some())));
    if found == 0 {
        return ("none".to_owned(), None);
    }
    (interval(estimate), Some(format!("found in {found} of {all} searches")))
}

/// A figure or a dash.
pub(super) fn or_dash(value: Option<f64>, words: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "—".to_owned(), words)
}

/// A score: a tenth is finer than any interval.
pub(super) fn score(score: f64) -> String {
    format!("{score:.1}")
}

/// `+0.12 ms`.
pub(super) fn added(ms: f64) -> String {
    if ms < 0.0 { format!("−{}", time(-ms)) } else { format!("+{}", time(ms)) }
}

/// `1.42 x`.
pub(super) fn times(ratio: f64) -> String {
    if ratio >= 100.0 { format!("{} ×", number(ratio)) } else { format!("{ratio:.2} ×") }
}

/// What a system is and which version.
pub(super) fn version(system: &System) -> String {
    match (&system.gateway, &system.version) {
        (Some(gateway), Some(version)) if version.contains(gateway.as_str()) || *gateway == system.name => {
            version.clone()
        }
        (Some(gateway), Some(version)) => format!("{gateway} {version}"),
        (Some(gateway), None) if *gateway != system.name => gateway.clone(),
        (None, _) if system.role == Role::Direct => "the upstream itself".to_owned(),
        (_, version) => version.clone().unwrap_or_default(),
    }
}

/// Why a system was not run, if it was not.
pub(super) fn not_run(system: &System) -> Option<&str> {
    match &system.state {
        SystemState::NotHere(why) | SystemState::NotSupported(why) | SystemState::Failed(why) => Some(why),
        SystemState::Ready | SystemState::NotConforming => None,
    }
}

/// UTC, `2026-11-22 03:10`.
pub(super) fn date(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1000).unwrap_or(i64::MAX);
    let time = UtcDateTime::from_unix_timestamp(seconds).unwrap_or(UtcDateTime::MAX);
    let (date, hour, minute) = (time.date(), time.hour(), time.minute());
    format!("{}-{:02}-{:02} {hour:02}:{minute:02} UTC", date.year(), u8::from(date.month()), date.day())
}

/// The headline: whether anything is decided, and then who is first.
pub(super) fn headline(judgement: &Judgement) -> String {
    if !judgement.decision.decided {
        let mut text = format!("NO DECISION: {}.", judgement.decision.why.join("; "));
        if !judgement.decision.help.is_empty() {
            text.push_str(&format!(" What would help: {}.", judgement.decision.help.join("; ")));
        }
        return text;
    }
    let (one, many) = (judgement.subject.one(), judgement.subject.many());
    let Some(first) = judgement.ranking.first() else {
        return format!("None of the {many} is ranked; the reason for each is below.");
    };
    let top: Vec<&str> =
        judgement.ranking.iter().filter(|place| place.place == 1).map(|place| place.system.as_str()).collect();
    match top.as_slice() {
        [only] if judgement.ranking.len() == 1 => match judgement.unranked.as_slice() {
            [] => format!("{only} is the only {one} here."),
            others => {
                let why: Vec<String> = others
                    .iter()
                    .map(|other| format!("{} ({})", other.system, other.why.first().map_or("", String::as_str)))
                    .collect();
                format!("{only} is the only {one} with a place; without one: {}.", why.join("; "))
            }
        },
        [only] if first.tied_with.is_empty() => {
            format!("{only} is first, and the difference to every other {one} is more than chance.")
        }
        // A gateway that is tied with the first may still be declared worse than another.
        [only] => {
            let tied: Vec<&str> = first.tied_with.iter().map(String::as_str).collect();
            format!(
                "{only} is first: no {one} was declared better. No difference to {} could be declared.",
                list(&tied)
            )
        }
        // Pairs are compared by themselves, and may form a ring.
        [] => format!("None of the {many} is first: for each another one was declared better."),
        several => format!(
            "{} cannot be distinguished: no difference between them could be declared. {} has the best estimate of them.",
            list(several),
            first.system
        ),
    }
}

/// How many comparisons were made, and of how many differences one may be chance.
pub(super) fn tested(judgement: &Judgement) -> String {
    let declared = judgement.comparisons.iter().filter(|comparison| comparison.result.declared).count();
    format!(
        "{} comparisons were tested together, and {declared} differences are declared; at most 5 % of the declared ones are expected to be chance \
         (Benjamini-Hochberg).",
        judgement.tested
    )
}

/// `a, b and c`.
pub(super) fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// A validity finding and the systems that it is about: what is wrong with a whole round is said once, not for every system.
pub(super) struct Finding<'j> {
    pub(super) systems: Vec<&'j str>,
    pub(super) workload: &'j str,
    pub(super) verdict: &'j Verdict,
}

/// The verdicts on rows, equal ones together.
pub(super) fn findings(judgement: &Judgement) -> Vec<Finding<'_>> {
    let mut findings: Vec<Finding<'_>> = Vec::new();
    for row in &judgement.rows {
        for verdict in &row.verdicts {
            match findings.iter_mut().find(|known| known.workload == row.workload && known.verdict == verdict) {
                Some(known) => known.systems.push(&row.system),
                None => findings.push(Finding { systems: vec![&row.system], workload: &row.workload, verdict }),
            }
        }
    }
    findings
}

/// The machines that sent, each with its clock beside the one of the machine that measured: `generator-1 (ssh me@bench2, 8 processors, clock +0.3 ms ± 0.2 ms)`.
pub(super) fn generators(environment: &crate::results::Environment) -> String {
    let one = |machine: &crate::results::GeneratorMachine| {
        let clock = match (machine.clock_offset_ms, machine.clock_round_trip_ms) {
            (Some(offset), Some(trip)) => format!("clock {offset:+.1} ms ± {:.1} ms", trip / 2.0),
            _ => "clock not compared".to_owned(),
        };
        let processors = if machine.cpus == 1 { "processor" } else { "processors" };
        format!("{} ({}, {} {processors}, {clock})", machine.name, machine.place, machine.cpus)
    };
    environment.generators.iter().map(one).collect::<Vec<_>>().join("; ")
}
