//! What several of the reports show alike: figures in words, systems by name.

use crate::campaign::Results;
use crate::campaign::results::{Role, Search, System, SystemState};
use crate::judgement::{Figure, Judgement, Part, Place, Row};
use crate::stats::Estimate;
use crate::verdict::Verdict;
pub(super) use crate::verdict::words::{number, percent, size, time};

/// Whether a system has runs to show: not a twin, not one that was never run.
pub(super) fn shown<'r>(results: &'r Results, judgement: &Judgement) -> Vec<&'r System> {
    results
        .systems
        .iter()
        .filter(|system| !matches!(system.role, Role::TwinOf(_)))
        .filter(|system| {
            judgement
                .rows
                .iter()
                .any(|row| row.system == system.name && (row.answered > 0 || row.highest_rate.is_some()))
        })
        .collect()
}

/// The row of a system.
pub(super) fn row<'j>(judgement: &'j Judgement, system: &str, workload: &str) -> Option<&'j Row> {
    judgement.rows.iter().find(|row| row.system == system && row.workload == workload)
}

/// A system's place.
pub(super) fn place<'j>(judgement: &'j Judgement, system: &str) -> Option<&'j Place> {
    judgement.ranking.iter().find(|place| place.system == system)
}

/// `12.3 (11.9 to 12.8)`.
pub(super) fn interval(estimate: Option<&Estimate>, words: impl Fn(f64) -> String) -> String {
    match estimate {
        None => "—".to_owned(),
        Some(estimate) if estimate.rounds < 2 || estimate.low == estimate.high => words(estimate.median),
        Some(estimate) => {
            format!("{} ({})", words(estimate.median), range(estimate, words))
        }
    }
}

/// `11.9 to 12.8 ms`: the unit once, where it is the same.
pub(super) fn range(estimate: &Estimate, words: impl Fn(f64) -> String) -> String {
    let (low, high) = (words(estimate.low), words(estimate.high));
    let unit = |text: &str| text.rsplit_once(' ').map(|(_, unit)| unit.to_owned());
    match (unit(&low), unit(&high)) {
        (Some(ours), Some(theirs)) if ours == theirs => format!("{} to {high}", &low[..low.len() - ours.len() - 1]),
        _ => format!("{low} to {high}"),
    }
}

/// Whether the highest rate of some system was looked for.
pub(super) fn is_searched<'j>(rows: impl IntoIterator<Item = &'j Row>) -> bool {
    rows.into_iter().any(|row| row.highest_rate.is_some() || row.search_failed.is_some())
}

/// The highest rate of a system under a workload, and a remark where not every search found one.
pub(super) fn highest_rate(
    results: &Results,
    row: &Row,
    interval: impl Fn(Option<&Estimate>) -> String,
) -> (String, Option<String>) {
    match (&row.highest_rate, &row.search_failed) {
        (None, Some(_)) => ("none".to_owned(), None),
        (rate, None) => (interval(rate.as_ref()), None),
        (Some(rate), Some(_)) => {
            let of_row = |search: &&Search| search.system == row.system && search.workload == row.workload;
            let all = results.searches.iter().filter(of_row).count();
            (interval(Some(rate)), Some(format!("found in {} of {all} searches", rate.rounds)))
        }
    }
}

/// A figure or a dash.
pub(super) fn or_dash(value: Option<f64>, words: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "—".to_owned(), words)
}

/// `14.2 us`.
pub(super) fn us(us: f64) -> String {
    time(us / 1e3)
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

/// A part of the score in words.
pub(super) fn part(part: Part) -> &'static str {
    match part {
        Part::SloRate => "rate within objective",
        Part::AddedLatency => "response time",
        Part::CpuPerRequest => "CPU per request",
        Part::Memory => "memory",
    }
}

/// A figure of a comparison in words.
pub(super) fn figure(figure: Figure) -> &'static str {
    match figure {
        Figure::Rate => "requests per second",
        Figure::Latency => "response time",
        Figure::CpuPerRequest => "CPU per request",
        Figure::Memory => "memory",
        Figure::SloRate => "highest rate within the objective",
        Figure::Score => "the cost behind the score",
    }
}

/// What a system is and which version.
pub(super) fn version(system: &System) -> String {
    match (&system.gateway, &system.version) {
        (Some(gateway), Some(version)) if version.contains(gateway.as_str()) || *gateway == system.name => {
            version.clone()
        }
        (Some(gateway), Some(version)) => format!("{gateway} {version}"),
        (Some(gateway), None) if *gateway != system.name => gateway.clone(),
        (None, _) if system.role == Role::Direct => "no gateway".to_owned(),
        (_, version) => version.clone().unwrap_or_default(),
    }
}

/// Why a system was not run, if it was not.
pub(super) fn not_run(system: &System) -> Option<&str> {
    match &system.state {
        SystemState::NotHere(why) | SystemState::Failed(why) => Some(why),
        SystemState::Ready | SystemState::NotAttested => None,
    }
}

/// UTC, `2026-11-22 03:10`.
pub(super) fn date(unix_ms: u64) -> String {
    let (days, seconds) = (unix_ms / 86_400_000, unix_ms / 1000 % 86_400);
    // Days to a date in the proleptic Gregorian calendar (Hinnant, chrono-compatible low-level date algorithms), for days after 1970.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60)
}

/// The headline: who is first, and whether that is more than chance.
pub(super) fn headline(judgement: &Judgement) -> String {
    let Some(first) = judgement.ranking.first() else {
        return "No gateway is ranked; why is said of each below.".to_owned();
    };
    let top: Vec<&str> =
        judgement.ranking.iter().filter(|place| place.place == 1).map(|place| place.system.as_str()).collect();
    match top.as_slice() {
        [only] if judgement.ranking.len() == 1 => format!("{only} is the only gateway that passed the gates."),
        [only] if first.tied_with.is_empty() => {
            format!("{only} is first, and the difference to every other gateway is more than chance.")
        }
        // Who is tied with the first may still be declared dearer than another.
        [only] => {
            let tied: Vec<&str> = first.tied_with.iter().map(String::as_str).collect();
            format!("{only} is first: nobody was declared better. No difference to {} could be declared.", list(&tied))
        }
        // Pairs are compared by themselves, and may go round in a ring.
        [] => "No gateway is first: of each some other one was declared better.".to_owned(),
        several => format!(
            "{} cannot be told apart: no difference between them could be declared. {} has the best median of them.",
            list(several),
            first.system
        ),
    }
}

/// `a, b and c`.
pub(super) fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// A verdict, and whom it is about: what is wrong with a whole round is said once, not of every system.
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
