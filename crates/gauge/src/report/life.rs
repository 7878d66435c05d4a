//! The scenarios of the profile `life`, as rows: one for each scenario and system, all rounds together.

use super::view::{size, time};
use crate::results::{LifeState, LifeTrial, Results};
use crate::stats::median;

/// Fewer trials that count decide nothing.
const LEAST: usize = 3;

pub(super) const HEAD: [&str; 8] =
    ["scenario", "system", "trials", "went wrong", "recovery", "slowest", "took", "memory, CPU/request"];

/// The rows, with a cell for each of [`HEAD`].
pub(super) fn rows(results: &Results) -> Vec<Vec<String>> {
    let mut scenarios: Vec<&str> = Vec::new();
    for trial in &results.life {
        if !scenarios.contains(&trial.scenario.as_str()) {
            scenarios.push(&trial.scenario);
        }
    }
    let mut rows = Vec::new();
    for scenario in scenarios {
        for system in &results.systems {
            let of = |trial: &&LifeTrial| trial.scenario == scenario && trial.system == system.name;
            let trials: Vec<&LifeTrial> = results.life.iter().filter(of).collect();
            if let Some(cells) = row(&trials) {
                rows.push([scenario.to_owned(), system.name.clone()].into_iter().chain(cells).collect());
            }
        }
    }
    rows
}

fn row(trials: &[&LifeTrial]) -> Option<[String; 6]> {
    let none = || "—".to_owned();
    let (mut not, mut failed, mut void) = (None, None, None);
    for trial in trials {
        match &trial.state {
            LifeState::Counts => {}
            LifeState::NotSupported(why) => not = Some(why),
            LifeState::Failed(why) => failed = Some(why),
            LifeState::Void(why) => void = Some(why),
        }
    }
    trials.first()?;
    if let Some(why) = not {
        return Some([none(), format!("not supported: {why}"), none(), none(), none(), none()]);
    }
    let counted: Vec<&&LifeTrial> = trials.iter().filter(|trial| trial.state == LifeState::Counts).collect();
    let number = format!("{} of {}", counted.len(), trials.len());
    if let Some(why) = failed {
        return Some([number, format!("failed: {why}"), none(), none(), none(), none()]);
    }
    if counted.len() < LEAST.min(trials.len()).max(1) || counted.len() < LEAST {
        let why = void.map_or_else(|| format!("{LEAST} trials that count are the least"), |why| format!("void: {why}"));
        return Some([number, format!("no decision: {why}"), none(), none(), none(), none()]);
    }
    let mut kinds = std::collections::BTreeMap::new();
    for (kind, count) in counted.iter().flat_map(|trial| &trial.failed) {
        *kinds.entry(kind).or_insert(0) += count;
    }
    let sent: u64 = counted.iter().map(|trial| trial.sent).sum();
    let wrong = match kinds.values().sum::<u64>() {
        0 => format!("0 of {sent}"),
        all => {
            let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
            format!("{all} of {sent} ({})", kinds.join(", "))
        }
    };
    // The median, and the worst where it is another.
    let both = |figure: fn(&LifeTrial) -> Option<f64>, words: fn(f64) -> String| {
        let values: Vec<f64> = counted.iter().filter_map(|trial| figure(trial)).collect();
        let worst = values.iter().copied().reduce(f64::max)?;
        let middle = words(median(&values)?);
        Some(if words(worst) == middle { middle } else { format!("{middle}, at most {}", words(worst)) })
    };
    let memory = both(|trial| trial.memory_peak_bytes.map(|bytes| bytes as f64), size);
    let cpu = both(|trial| trial.cpu_us_per_request, |us| time(us / 1e3));
    let costs: Vec<String> = [memory, cpu].into_iter().flatten().collect();
    Some([
        number,
        wrong,
        both(|trial| trial.recovery_ms, time).unwrap_or_else(none),
        both(|trial| trial.slowest_ms, time).unwrap_or_else(none),
        both(|trial| trial.took_ms, time).unwrap_or_else(none),
        if costs.is_empty() { none() } else { costs.join("; ") },
    ])
}
