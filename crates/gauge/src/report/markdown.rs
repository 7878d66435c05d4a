//! `report.md`: what a reviewer wants to read in a pull request.

use std::fmt::Write;

use super::view::{
    added, criteria, date, figure, findings, headline, interval, number, or_dash, percent, place, row, score, shown,
    size, tested, time, title, title_of, version,
};
use crate::results::{Judgement, Results};

pub(super) fn page(results: &Results, judgement: &Judgement) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(text, "# {}\n\n**{}**\n", cell(&results.name), headline(judgement));
    if let Some(description) = &results.description {
        let _ = writeln!(text, "{}\n", description.trim());
    }
    for note in &judgement.notes {
        let _ = writeln!(text, "> {note}\n");
    }
    outcomes(&mut text, judgement);
    ranking(&mut text, judgement);
    declared(&mut text, results, judgement);
    life(&mut text, results);
    for workload in results.workloads.iter().filter(|_| results.life.is_empty()) {
        figures(&mut text, results, judgement, &workload.name, &workload.load);
    }
    verdicts(&mut text, judgement);
    if let Some(age) = &judgement.age {
        let _ = writeln!(text, "## AGE\n\nAs in the paper ({} of 10 metrics), and as coded.\n", age.metrics);
        let _ = writeln!(text, "| {} | paper | as coded |\n|---|---|---|", judgement.subject.one());
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
    let _ = writeln!(text, "\nReproduce: `{}`", results.command.replace('`', "'"));
    text
}

fn ranking(text: &mut String, judgement: &Judgement) {
    if !judgement.ranking.is_empty() {
        let reference = judgement.reference.as_deref().unwrap_or("no system");
        let _ = writeln!(
            text,
            "## Ranking\n\nThe unit of the score, 100, is `{reference}`: {}. Twice the score is half the cost. Estimates with 95 % confidence intervals \
             (Hodges-Lehmann, signed-rank, n rounds). {}\n",
            super::unit(judgement),
            tested(judgement)
        );
        let one = judgement.subject.one();
        let _ = writeln!(text, "| place | {one} | score | n | failed trials | tied with |\n|---|---|---|---|---|---|");
        for place in &judgement.ranking {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} |",
                place.place,
                cell(&place.system),
                interval(Some(&place.score), score),
                place.score.rounds,
                place.failed,
                cell(&place.tied_with.join(", ")),
            );
        }
        let used = judgement.weights.iter().filter(|weight| weight.used > 0.0);
        let weights: Vec<String> =
            used.map(|weight| format!("{} {}", title_of(&weight.criterion), percent(weight.used))).collect();
        let _ = writeln!(text, "\nWeights: {}.\n", weights.join(", "));
        if let Some(note) = super::rankings::note(judgement) {
            let _ = writeln!(text, "{note}\n");
        }
    }
    if !judgement.unranked.is_empty() {
        let _ = writeln!(text, "## Not ranked\n");
        for system in &judgement.unranked {
            let _ = writeln!(text, "- **{}**: {}", cell(&system.system), cell(&system.why.join("; ")));
        }
        text.push('\n');
    }
}

/// Pass, warn and fail.
fn outcomes(text: &mut String, judgement: &Judgement) {
    let Some(sentence) = super::outcomes::sentence(judgement) else { return };
    let one = judgement.subject.one();
    let _ = writeln!(text, "## Summary\n\n{sentence}\n\n| {one} | outcome | why |\n|---|---|---|");
    for own in &judgement.outcomes {
        let why: Vec<&str> = own.why.iter().map(|why| why.text.trim_start_matches([':', ' '])).collect();
        let _ = writeln!(text, "| {} | {} | {} |", cell(&own.system), own.outcome.name(), cell(&why.join("; ")));
    }
    text.push('\n');
    let checks = super::outcomes::checks(judgement);
    if !checks.is_empty() {
        let head = super::outcomes::HEAD;
        let _ = writeln!(text, "| {} |\n|{}", head.join(" | "), "---|".repeat(head.len()));
        for (cells, outcome) in checks {
            let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
            let _ = writeln!(text, "| {} | {} |", cells.join(" | "), outcome.name());
        }
        text.push('\n');
    }
}

/// The findings in words.
fn declared(text: &mut String, results: &Results, judgement: &Judgement) {
    let findings = super::findings(results, judgement);
    let _ = writeln!(text, "## Findings\n");
    for finding in &findings.declared {
        let link = |(name, anchor): &(String, String)| format!("[{name}](report.html#{anchor})");
        let links: Vec<String> = finding.rows.iter().map(link).collect();
        let _ = writeln!(text, "- {} Rows: {}.", cell(&finding.text), links.join(", "));
    }
    if let Some(undecided) = &findings.undecided {
        let _ = writeln!(text, "- {undecided}");
    }
    text.push('\n');
}

fn figures(text: &mut String, results: &Results, judgement: &Judgement, workload: &str, load: &str) {
    let _ = writeln!(text, "## {}\n\n{}\n", cell(workload), cell(load));
    let rows = || judgement.rows.iter().filter(|row| row.workload == workload);
    let percentile = rows().find_map(|row| row.percentile);
    let criteria = criteria(rows());
    let titles: Vec<String> = criteria.iter().map(|criterion| title(criterion, percentile)).collect();
    let _ = writeln!(text, "| system | place | errors | p50, all rounds | added | {} |", titles.join(" | "));
    let _ = writeln!(text, "|---|---|---|---|---|{}", "---|".repeat(titles.len()));
    for system in shown(results, judgement) {
        let Some(row) = row(judgement, &system.name, workload) else { continue };
        let figures: Vec<String> = criteria
            .iter()
            .map(|criterion| {
                let words = |value| criterion.words(value);
                let (value, remark) = figure(results, row, criterion, |estimate| interval(estimate, words));
                remark.map_or(value.clone(), |remark| format!("{value}, {remark}"))
            })
            .collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            cell(&system.name),
            place(judgement, &system.name).map_or("—".to_owned(), |place| place.place.to_string()),
            or_dash(row.error_rate, percent),
            or_dash(row.latency.as_ref().and_then(|latency| latency.p50_ms), time),
            interval(row.added_ms.as_ref(), added),
            figures.join(" | "),
        );
    }
    text.push('\n');
    if let Some((head, rows)) = super::rankings::table(results, judgement, workload) {
        let head: Vec<String> = head.iter().map(|text| cell(text)).collect();
        let _ =
            writeln!(text, "Rankings by single figures.\n\n| {} |\n|{}", head.join(" | "), "---|".repeat(head.len()));
        for cells in rows {
            let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        text.push('\n');
    }
    for table in super::protocols::tables(results, judgement, workload) {
        let (caption, head) = (table.caption, table.head);
        let _ = writeln!(text, "{caption}\n\n| {} |\n|{}", head.join(" | "), "---|".repeat(head.len()));
        for cells in table.rows {
            let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        text.push('\n');
    }
    let phases = super::phases::rows(results, judgement, workload);
    if !phases.is_empty() {
        let head = super::phases::HEAD;
        let _ = writeln!(text, "| {} | findings |\n|{}", head.join(" | "), "---|".repeat(head.len() + 1));
        for (cells, findings) in phases {
            let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
            let _ = writeln!(text, "| {} | {} |", cells.join(" | "), findings.join(", "));
        }
        text.push('\n');
    }
}

fn verdicts(text: &mut String, judgement: &Judgement) {
    let all = findings(judgement);
    if all.is_empty() {
        let _ = writeln!(text, "There are no validity findings.\n");
        return;
    }
    let _ = writeln!(text, "## Validity findings\n\n| systems | workload | finding | evidence |\n|---|---|---|---|");
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

fn life(text: &mut String, results: &Results) {
    let rows = super::life::rows(results);
    if rows.is_empty() {
        return;
    }
    let _ =
        writeln!(text, "## Life\n\n| {} |\n|{}", super::life::HEAD.join(" | "), "---|".repeat(super::life::HEAD.len()));
    for row in rows {
        let cells: Vec<String> = row.iter().map(|text| cell(text)).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text.push('\n');
}

/// Text that does not end a cell or a line, and is no markup: some of it comes from the systems.
fn cell(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('|', "\\|").replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn text_of_a_system_is_no_markup() {
        assert_eq!(super::cell("a | <script>x</script>\n&lt;"), "a \\| &lt;script>x&lt;/script> &amp;lt;");
    }
}
