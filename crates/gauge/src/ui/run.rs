//! One campaign: what follows from it, its figures by system, workload and operation, and its files.

use std::fmt::Write as _;
use std::sync::Arc;

use super::App;
use super::html::{Cell, facts, lines, table, tag, text, url};
use super::page::{Failure, Page, Shown};
use super::request::PageRequest;
use super::runs::duration;
use crate::history::{Figures, Filter, Group, StoredHead, figure_words, stored};
use crate::judgement::judge;
use crate::report::{self, date};
use crate::results::{Judgement, Results, Row, SystemState};
use crate::verdict::words::{number, percent, time};

/// A campaign with what follows from it.
pub(super) struct Judged {
    pub(super) results: Results,
    pub(super) judgement: Judgement,
}

fn judged(app: &App, id: &str) -> Result<Arc<Judged>, Failure> {
    let results = app.history()?.load(id)?.results;
    let judgement = judge(&results);
    Ok(Arc::new(Judged { results, judgement }))
}

pub(super) fn page(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    let history = app.history()?;
    let head = history.head(request.part(1))?;
    let path = format!("/runs/{}", url(&head.id));
    if head.status == "running" {
        return Ok(Shown::See(format!("{path}/live")));
    }
    let groups = history.list(&Filter { campaign: Some(head.id.clone()), ..Filter::default() })?;
    let judged = judged(app, &head.id)?;
    let (results, judgement) = (&judged.results, &judged.judgement);
    let mut body = about(&head);
    let _ = write!(
        body,
        "<div class=\"actions\"><a class=\"button\" href=\"{path}/report\">Full report</a><a class=\"button\" href=\"{path}/results.json\">JSON</a>\
         <a class=\"button\" href=\"{path}/results.csv\">CSV</a><a class=\"button\" href=\"{path}/configurations\">Configuration files</a>\
         <a class=\"button\" href=\"/compare?b={}\">Compare with an earlier run</a></div>",
        url(&head.id)
    );
    let class = if judgement.decision.decided { "fine" } else { "note" };
    let _ = write!(body, "<p class=\"{class}\">{}</p>", text(&report::headline(judgement)));
    if let Some(line) = report::outcome_line(judgement) {
        let _ = write!(body, "<p>{}</p>", text(&line));
    }
    body.push_str(&cards(results, judgement));
    for workload in &results.workloads {
        let _ = write!(body, "<h2>{}</h2><p class=\"quiet\">{}</p>", text(&workload.name), text(&workload.load));
        body.push_str(&workload_table(&workload.name, &groups, judgement));
        body.push_str(&phases(results, judgement, &workload.name));
        body.push_str(&operations(&workload.name, judgement));
    }
    for line in report::life_lines(results) {
        let _ = write!(body, "<p>{}</p>", text(&line));
    }
    body.push_str(&findings(judgement));
    let _ = write!(
        body,
        "<details><summary>The evaluation</summary>{}</details>",
        lines(&results.evaluation, "The evaluation")
    );
    Ok(Shown::Page(Page::new(head.results.name, "/runs", body)))
}

fn about(head: &StoredHead) -> String {
    let results = &head.results;
    let took = results.ended_unix_ms.map(|ended| duration(ended.saturating_sub(results.started_unix_ms)));
    let description = results.description.as_ref().map_or(String::new(), |text_| format!("<p>{}</p>", text(text_)));
    let known = [
        ("Began", date(results.started_unix_ms)),
        ("Took", took.unwrap_or_else(|| "—".to_owned())),
        ("Rounds", results.rounds.to_string()),
        ("Profile", results.profile.clone()),
        ("Machine", head.host.clone()),
        ("Gauge", results.gauge.clone()),
        ("Id", head.id.clone()),
        ("Files", head.directory.clone()),
    ];
    format!("<p>{}</p>{description}{}", tag(&head.status), facts(known))
}

/// The ranking as cards, the best first.
fn cards(results: &Results, judgement: &Judgement) -> String {
    let mut out = String::new();
    for place in &judgement.ranking {
        let decided = judgement.decision.decided;
        let first = decided && place.place == 1;
        let version =
            results.systems.iter().find(|system| system.name == place.system).and_then(|system| system.version.clone());
        let interval = match (place.score.low, place.score.high) {
            (Some(low), Some(high)) => format!("{low:.1} to {high:.1} (95 %, n = {})", place.score.rounds),
            _ => format!("n = {}, too few for an interval", place.score.rounds),
        };
        let place_words = match (decided, place.tied_with.is_empty()) {
            (false, _) => "no place: not decided".to_owned(),
            (true, true) if first => "place 1: the best".to_owned(),
            (true, true) => format!("place {}", place.place),
            (true, false) => format!("place {}, tied with {}", place.place, place.tied_with.join(", ")),
        };
        let failed = if place.failed > 0 { format!("<p>{} trials failed</p>", place.failed) } else { String::new() };
        let _ = write!(
            out,
            "<li{}><h3>{} <span class=\"quiet\">{}</span></h3><p class=\"score\">{:.1}</p><p class=\"quiet\">{}</p><p>{}</p>{failed}</li>",
            if first { " class=\"first\"" } else { "" },
            text(&place.system),
            text(&version.unwrap_or_default()),
            place.score.value,
            text(&interval),
            text(&place_words)
        );
    }
    for system in &results.systems {
        let why = match &system.state {
            SystemState::Ready => continue,
            SystemState::NotHere(hint) => format!("not on this machine: {hint}"),
            SystemState::NotSupported(why) => format!("not supported: {why}"),
            SystemState::Failed(why) => format!("failed: {}", why.lines().next().unwrap_or_default()),
            SystemState::NotConforming => judgement.subject.not_conforming().to_owned(),
        };
        let _ = write!(out, "<li><h3>{}</h3><p>{}</p></li>", text(&system.name), text(&why));
    }
    for one in &judgement.unranked {
        let is_ready =
            results.systems.iter().any(|system| system.name == one.system && system.state == SystemState::Ready);
        if is_ready {
            let _ = write!(out, "<li><h3>{}</h3><p>{}</p></li>", text(&one.system), text(&one.why.join("; ")));
        }
    }
    if out.is_empty() { out } else { format!("<h2>Scores</h2><ul class=\"cards\">{out}</ul>") }
}

/// The columns of the table of a workload, each with whether small is best.
const COLUMNS: [(&str, &str, bool); 9] = [
    ("throughput", "rate", false),
    ("mean_ms", "mean", true),
    ("p50_ms", "p50", true),
    ("p90_ms", "p90", true),
    ("p95_ms", "p95", true),
    ("p99_ms", "p99", true),
    ("error_rate", "errors", true),
    ("cpu_us_per_request", "CPU per request", true),
    ("memory_bytes", "memory", true),
];

/// Systems under a workload, in the order of the ranking. The best of each column is marked, among those that are ranked.
fn workload_table(workload: &str, groups: &[Group], judgement: &Judgement) -> String {
    let place = |system: &str| judgement.ranking.iter().position(|place| place.system == system);
    let mut own: Vec<&Group> = groups.iter().filter(|group| group.workload == workload).collect();
    own.sort_by_key(|group| (place(&group.api).unwrap_or(usize::MAX), group.api.clone()));
    let figure = |figures: &Figures, name: &str| figures[stored(name).unwrap_or(0)];
    let best = |name: &str, small: bool| {
        let ranked = own.iter().filter(|group| place(&group.api).is_some());
        let all: Vec<f64> = ranked.filter_map(|group| figure(&group.figures, name)).collect();
        let best = all.iter().copied().reduce(if small { f64::min } else { f64::max });
        best.filter(|best| all.len() > 1 && all.iter().filter(|value| *value == best).count() == 1)
    };
    let row = |group: &&Group| {
        let mut cells = vec![Cell::Head(text(&group.api)), Cell::Number(format!("{} of {}", group.done, group.runs))];
        for (name, _, small) in COLUMNS {
            let value = figure(&group.figures, name);
            let words = text(&figure_words(stored(name).unwrap_or(0), value));
            let is_best = value.is_some() && value == best(name, small);
            cells.push(Cell::Number(if is_best { format!("<span class=\"best\">{words} ✓</span>") } else { words }));
        }
        cells
    };
    let rows: Vec<Vec<Cell>> = own.iter().map(row).collect();
    if rows.is_empty() {
        return "<p>Nothing was measured.</p>".to_owned();
    }
    let columns: Vec<&str> =
        ["system", "trials"].into_iter().chain(COLUMNS.iter().map(|(_, shown, _)| *shown)).collect();
    let caption = format!(
        "{workload}: medians over the trials that are done, in the order of the ranking; ✓ marks the best median of a column"
    );
    table(&caption, &columns, &rows)
}

/// Phase by phase, where a load has several.
fn phases(results: &Results, judgement: &Judgement, workload: &str) -> String {
    let Some((head, rows)) = report::phase_table(results, judgement, workload) else { return String::new() };
    let row = |cells: Vec<String>| {
        let mut cells = cells.iter().map(|cell| text(cell));
        let phase = Cell::Head(cells.next().unwrap_or_default());
        let words = [cells.next(), cells.next()].into_iter().flatten().map(Cell::Text);
        std::iter::once(phase).chain(words.collect::<Vec<_>>()).chain(cells.map(Cell::Number)).collect()
    };
    let rows: Vec<Vec<Cell>> = rows.into_iter().map(row).collect();
    format!(
        "<details open><summary>Phases</summary>{}</details>",
        table(&format!("{workload}: all valid rounds together; CPU: 100 % is one processor"), &head, &rows)
    )
}

/// Operation by operation, with bars of the 95th percentile.
fn operations(workload: &str, judgement: &Judgement) -> String {
    let rows: Vec<&Row> = judgement.rows.iter().filter(|row| row.workload == workload).collect();
    let mut names: Vec<&str> = Vec::new();
    for operation in rows.iter().flat_map(|row| &row.operations) {
        if !names.contains(&operation.name.as_str()) {
            names.push(&operation.name);
        }
    }
    let mut out = String::new();
    for name in names {
        let own = rows.iter().filter_map(|row| Some((*row, row.operations.iter().find(|own| own.name == name)?)));
        let p95 =
            |operation: &crate::results::OperationRow| operation.latency.as_ref().and_then(|latency| latency.p95_ms);
        let mut own: Vec<_> = own.collect();
        own.sort_by(|(_, a), (_, b)| p95(a).unwrap_or(f64::MAX).total_cmp(&p95(b).unwrap_or(f64::MAX)));
        let top = own.iter().filter_map(|(_, operation)| p95(operation)).fold(0.0, f64::max);
        let cells: Vec<Vec<Cell>> = own
            .iter()
            .map(|(row, operation)| {
                let latency = operation.latency.clone().unwrap_or_default();
                let words = |value: Option<f64>| text(&value.map_or("—".to_owned(), time));
                let share = latency.p95_ms.filter(|_| top > 0.0).map_or(0.0, |p95| p95 / top * 100.0);
                vec![
                    Cell::Head(text(&row.system)),
                    Cell::Number(number(operation.responses as f64)),
                    Cell::Number(operation.rate.map_or("—".to_owned(), |rate| format!("{}/s", number(rate)))),
                    Cell::Number(words(latency.p50_ms)),
                    Cell::Number(words(latency.p95_ms)),
                    Cell::Number(words(latency.p99_ms)),
                    Cell::Number(operation.error_rate.map_or("—".to_owned(), percent)),
                    Cell::Text(format!(
                        "<svg class=\"bar\" viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect width=\"{share:.1}\" height=\"8\"/></svg>"
                    )),
                ]
            })
            .collect();
        let columns = ["system", "responses", "rate", "p50", "p95", "p99", "errors", "p95 as a bar"];
        let _ = write!(
            out,
            "<details><summary>{}</summary>{}</details>",
            text(name),
            table(&format!("{workload}, {name}: the fastest first"), &columns, &cells)
        );
    }
    out
}

/// Validity findings, and rounds that are left out.
fn findings(judgement: &Judgement) -> String {
    let mut rows = Vec::new();
    for row in &judgement.rows {
        for verdict in &row.verdicts {
            let name = serde_json::to_value(verdict.name).ok().and_then(|name| name.as_str().map(str::to_owned));
            rows.push(vec![
                Cell::Head(text(&row.system)),
                Cell::Text(text(&row.workload)),
                Cell::Text(text(&name.unwrap_or_default())),
                Cell::Text(text(&verdict.evidence)),
            ]);
        }
    }
    let mut out = String::new();
    if !rows.is_empty() {
        let columns = ["system", "workload", "finding", "evidence"];
        let _ = write!(out, "<h2>Validity findings</h2>{}", table("What limits what the figures say", &columns, &rows));
    }
    if !judgement.left_out.is_empty() {
        let _ = write!(
            out,
            "<p class=\"note\">Rounds that are left out for all systems: {}; the report says why.</p>",
            judgement.left_out.len()
        );
    }
    out
}

/// The whole report, as `gauge run` writes it.
pub(super) fn report(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    let judged = judged(app, request.part(1))?;
    Ok(Shown::Sandboxed(report::to_html(&judged.results, &judged.judgement)))
}

pub(super) fn json(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    let judged = judged(app, request.part(1))?;
    let content = report::to_json(&judged.results, &judged.judgement).into_bytes();
    Ok(Shown::File { kind: "application/json", name: Some(file_name(&judged.results, "json")), content })
}

pub(super) fn csv(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    let judged = judged(app, request.part(1))?;
    let content = report::to_csv(&judged.results, &judged.judgement).into_bytes();
    Ok(Shown::File { kind: "text/csv; charset=utf-8", name: Some(file_name(&judged.results, "csv")), content })
}

fn file_name(results: &Results, extension: &str) -> String {
    format!("{}-{}.{extension}", crate::plan::file_name(&results.name), results.started_unix_ms)
}
