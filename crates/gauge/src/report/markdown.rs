//! `report.md`: what a reviewer wants to read in a pull request.

use std::fmt::Write;

use super::view::{
    added, date, findings, headline, highest_rate, interval, is_searched, number, or_dash, part, percent, place, row,
    score, shown, size, time, us, version,
};
use crate::campaign::Results;
use crate::judgement::Judgement;

pub(super) fn page(results: &Results, judgement: &Judgement) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(text, "# {}\n", cell(&results.name));
    if let Some(description) = &results.description {
        let _ = writeln!(text, "{}\n", description.trim());
    }
    let _ = writeln!(text, "{}\n", headline(judgement));
    for note in &judgement.notes {
        let _ = writeln!(text, "> {note}\n");
    }
    ranking(&mut text, judgement);
    for workload in &results.workloads {
        figures(&mut text, results, judgement, &workload.name, &workload.load);
    }
    verdicts(&mut text, judgement);
    if let Some(age) = &judgement.age {
        let _ = writeln!(text, "## AGE\n\nAs in the paper ({} of 10 metrics), and as coded.\n", age.metrics);
        let _ = writeln!(text, "| gateway | paper | as coded |\n|---|---|---|");
        for own in &age.paper {
            let coded = age.coded.iter().find(|(name, _)| *name == own.system).map(|(_, score)| *score);
            let _ = writeln!(text, "| {} | {} | {} |", cell(&own.system), score(own.score), or_dash(coded, number));
        }
        text.push('\n');
    }
    let environment = &results.environment;
    let _ = writeln!(text, "## How it was measured\n");
    let _ =
        writeln!(text, "- {} rounds, begun {}, gauge {}", results.rounds, date(results.started_unix_ms), results.gauge);
    for (name, value) in [
        ("host", environment.host.clone()),
        ("system", environment.system.clone()),
        ("processor", environment.processor.clone()),
        ("processors", environment.cpus.map(|cpus| cpus.to_string())),
        ("memory", environment.memory_bytes.map(|bytes| size(bytes as f64))),
        ("congestion control of TCP", environment.congestion_control.clone()),
        ("caps", environment.caps.clone()),
    ] {
        if let Some(value) = value {
            let _ = writeln!(text, "- {name}: {}", cell(&value));
        }
    }
    for system in &results.systems {
        let _ = writeln!(text, "- {}: {}", cell(&system.name), cell(&version(system)));
    }
    let _ = writeln!(text, "\nAgain: `{}`", results.command.replace('`', "'"));
    text
}

fn ranking(text: &mut String, judgement: &Judgement) {
    if !judgement.ranking.is_empty() {
        let reference = judgement.reference.as_deref().unwrap_or("direct");
        let _ = writeln!(
            text,
            "## Ranking\n\nScore: 100 is as costly as `{reference}`; twice the score is half the cost. Intervals hold 95 %.\n"
        );
        let _ = writeln!(text, "| place | gateway | score | first in | tied with |\n|---|---|---|---|---|");
        for place in &judgement.ranking {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                place.place,
                cell(&place.system),
                interval(Some(&place.score), score),
                percent(place.first),
                cell(&place.tied_with.join(", ")),
            );
        }
        let weights: Vec<String> =
            judgement.weights.iter().map(|weight| format!("{} {}", part(weight.part), percent(weight.used))).collect();
        let _ = writeln!(text, "\nWeights: {}.\n", weights.join(", "));
    }
    if !judgement.unranked.is_empty() {
        let _ = writeln!(text, "## Not ranked\n");
        for system in &judgement.unranked {
            let _ = writeln!(text, "- **{}**: {}", cell(&system.system), cell(&system.why.join("; ")));
        }
        text.push('\n');
    }
}

fn figures(text: &mut String, results: &Results, judgement: &Judgement, workload: &str, load: &str) {
    let _ = writeln!(text, "## {}\n\n{}\n", cell(workload), cell(load));
    let tail = judgement.rows.iter().filter(|row| row.workload == workload).find_map(|row| row.tail);
    let tail = tail.map_or("tail".to_owned(), |tail| format!("p{}", number(tail.percentile)));
    let searched = is_searched(judgement.rows.iter().filter(|row| row.workload == workload));
    let _ = writeln!(
        text,
        "| system | place | answers/s | errors | p50, all rounds | {tail} | added | CPU/request | memory |{}\n|---|---|---|---|---|---|---|---|---|{}",
        if searched { " highest rate |" } else { "" },
        if searched { "---|" } else { "" },
    );
    for system in shown(results, judgement) {
        let Some(row) = row(judgement, &system.name, workload) else { continue };
        let place = place(judgement, &system.name);
        let rate = searched.then(|| {
            let (rate, remark) = highest_rate(results, row, |rate| interval(rate, number));
            format!(" {} |", remark.map_or(rate.clone(), |remark| format!("{rate}, {remark}")))
        });
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |{}",
            cell(&system.name),
            place.map_or("—".to_owned(), |place| place.place.to_string()),
            interval(row.rate.as_ref(), number),
            or_dash(row.error_rate, percent),
            or_dash(row.latency.as_ref().and_then(|latency| latency.p50_ms), time),
            interval(row.tail.as_ref().map(|tail| &tail.value_ms), time),
            interval(row.tail.as_ref().and_then(|tail| tail.added_ms.as_ref()), added),
            interval(row.cpu_us_per_request.as_ref(), us),
            interval(row.rss_peak_bytes.as_ref(), size),
            rate.unwrap_or_default(),
        );
    }
    text.push('\n');
}

fn verdicts(text: &mut String, judgement: &Judgement) {
    let all = findings(judgement);
    if all.is_empty() {
        let _ = writeln!(text, "Nothing was found to be wrong with any row.\n");
        return;
    }
    let _ = writeln!(
        text,
        "## What is wrong with what was measured\n\n| systems | workload | verdict | evidence |\n|---|---|---|---|"
    );
    for finding in all {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            cell(&finding.systems.join(", ")),
            cell(finding.workload),
            finding.verdict.name,
            cell(&finding.verdict.evidence)
        );
    }
    text.push('\n');
}

/// Text that does not end a cell or a line.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}
