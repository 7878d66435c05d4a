//! `report.html`: one file that holds everything and requests nothing, to be read by somebody who did not run the campaign.

mod charts;
mod evidence;
mod findings;
mod outcomes;
mod summary;
mod svg;
mod workloads;

use std::fmt::Write;

use super::view;
use crate::results::Effect;
use crate::results::{Judgement, Results, Role, System};
use charts::Series;
use svg::escape;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// What every part of the page needs.
struct Page<'p> {
    results: &'p Results,
    judgement: &'p Judgement,
    /// Systems with figures, in the order of the ranking, then the others, the baseline last.
    systems: Vec<&'p System>,
}

impl<'p> Page<'p> {
    fn of(results: &'p Results, judgement: &'p Judgement) -> Self {
        let mut systems = view::shown(results, judgement);
        let rank = |system: &System| judgement.ranking.iter().position(|place| place.system == system.name);
        systems.sort_by_key(|system| (system.role == Role::Direct, rank(system).unwrap_or(usize::MAX)));
        Page { results, judgement, systems }
    }

    /// A system's name, colour and shape: by its place in the evaluation, so that they stay from report to report.
    fn series(&self, system: &str) -> Series {
        let compared = self.results.systems.iter().filter(|system| system.role.is_compared());
        let index =
            compared.map(|system| system.name.as_str()).position(|name| name == system).map_or(0, |index| index + 1);
        Series { name: system.to_owned(), index }
    }
}

/// The whole page.
pub(super) fn page(results: &Results, judgement: &Judgement) -> String {
    let page = Page::of(results, judgement);
    let mut html = String::with_capacity(200_000);
    head(&mut html, &page);
    html.push_str("<main>\n");
    outcomes::write(&mut html, &page);
    summary::write(&mut html, &page);
    let names: Vec<&str> = results.workloads.iter().map(|workload| workload.name.as_str()).collect();
    findings::write(&mut html, &super::findings(results, judgement), &names);
    life(&mut html, results);
    workloads::write(&mut html, &page);
    evidence::write(&mut html, &page);
    html.push_str("</main>\n");
    // Writing to a string cannot fail, here and in all parts of the page.
    let _ = writeln!(
        html,
        "<footer>Made by gauge {} from the campaign's raw data; <code>gauge recompute DIR</code> reproduces it, byte for byte. This file loads nothing \
         from anywhere.</footer>\n<script>\n{SCRIPT}</script>\n</body>\n</html>",
        escape(&judgement.gauge)
    );
    html
}

fn head(html: &mut String, page: &Page<'_>) {
    let results = page.results;
    let name = escape(&results.name);
    let _ = write!(
        html,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{name}: report of gauge</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<div class=\"top\"><div>\n<h1>{name}</h1>\n"
    );
    let mut facts = vec![view::date(results.started_unix_ms)];
    facts.push(format!("{} round{}", results.rounds, if results.rounds == 1 { "" } else { "s" }));
    facts.push(format!("{} systems", page.systems.len()));
    facts.extend(results.environment.host.as_ref().map(|host| format!("on {host}")));
    facts.extend(results.environment.processor.clone());
    let _ = writeln!(html, "<p class=\"soft\">{}</p>", escape(&facts.join(" · ")));
    html.push_str("</div><button type=\"button\" id=\"theme\" hidden>Dark</button></div>\n");
    if let Some(description) = &results.description {
        let _ = writeln!(html, "<p>{}</p>", escape(description.trim()));
    }
    html.push_str("<nav aria-label=\"Sections\">");
    let mut sections = vec![("ranking", "Ranking"), ("findings", "Findings")];
    if !page.judgement.outcomes.is_empty() {
        sections.insert(0, ("summary", "Summary"));
    }
    let ids: Vec<String> = (1..=results.workloads.len()).map(|index| format!("workload-{index}")).collect();
    for (id, workload) in ids.iter().zip(&results.workloads) {
        sections.push((id, &workload.name));
    }
    sections.extend([
        ("validity", "Validity"),
        ("conformance", "Conformance"),
        ("other-scores", "Other scores"),
        ("environment", "Environment"),
        ("configurations", "Configurations"),
        ("reproduce", "Reproduce"),
    ]);
    for (id, name) in sections {
        let _ = write!(html, "<a href=\"#{id}\">{}</a>", escape(name));
    }
    html.push_str("</nav>\n</header>\n");
}

/// What became of requests while something happened.
fn life(html: &mut String, results: &Results) {
    let rows: Vec<Vec<String>> = super::life::rows(results)
        .iter()
        .map(|row| {
            row.iter().enumerate().map(|(i, text)| if i == 0 { escape(text) } else { words(&escape(text)) }).collect()
        })
        .collect();
    if !rows.is_empty() {
        html.push_str("<h2 id=\"life\">Life</h2>\n");
        html.push_str(&table("", &super::life::HEAD, &rows));
    }
}

/// A table; the first column heads its row. Cells are HTML.
fn table(caption: &str, head: &[&str], rows: &[Vec<String>]) -> String {
    table_with_anchors(caption, head, rows, &[])
}

/// The same with an anchor for each row.
fn table_with_anchors(caption: &str, head: &[&str], rows: &[Vec<String>], anchors: &[String]) -> String {
    let mut html = String::from("<div class=\"scroll\"><table>\n");
    if !caption.is_empty() {
        let _ = writeln!(html, "<caption>{}</caption>", escape(caption));
    }
    html.push_str("<thead><tr>");
    for (index, name) in head.iter().enumerate() {
        let words = rows.iter().any(|row| row.get(index).is_some_and(|cell| cell.starts_with(WORDS)));
        let class = if words { " class=\"words\"" } else { "" };
        let _ = write!(html, "<th scope=\"col\"{class}>{}</th>", escape(name));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for (number, row) in rows.iter().enumerate() {
        match anchors.get(number) {
            Some(anchor) => _ = write!(html, "<tr id=\"{anchor}\">"),
            None => html.push_str("<tr>"),
        }
        for (index, cell) in row.iter().enumerate() {
            let _ = match cell.strip_prefix(WORDS) {
                _ if index == 0 => write!(html, "<th scope=\"row\">{cell}</th>"),
                Some(words) => write!(html, "<td class=\"words\">{words}</td>"),
                None => write!(html, "<td>{cell}</td>"),
            };
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    html
}

/// Begins a cell that holds sentences.
const WORDS: char = '\u{1}';

/// A cell that holds sentences.
fn words(html: &str) -> String {
    format!("{WORDS}{html}")
}

/// A figure with its interval below.
fn with_interval(estimate: Option<&crate::stats::Estimate>, words: impl Fn(f64) -> String) -> String {
    match estimate {
        None => "—".to_owned(),
        Some(estimate) => {
            format!("{}<small>{}</small>", escape(&words(estimate.value)), escape(&view::range(estimate, words)))
        }
    }
}

/// The names of validity findings, each with its sign.
fn badges(verdicts: &[crate::verdict::Verdict]) -> String {
    if verdicts.is_empty() {
        return "<span class=\"badge good\">✓ none</span>".to_owned();
    }
    verdicts
        .iter()
        .map(|verdict| {
            let (class, sign) = match verdict.name.effect() {
                Effect::Failure => ("bad", "✕"),
                Effect::Condition | Effect::Remark => ("warn", "!"),
            };
            format!(
                "<span class=\"badge {class}\" title=\"{}\">{sign} {}</span>",
                escape(&verdict.evidence),
                verdict.name
            )
        })
        .collect()
}
