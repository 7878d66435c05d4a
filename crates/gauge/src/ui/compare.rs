//! What changed from one campaign to a later one: `gauge compare`.

use std::fmt::Write as _;

use super::App;
use super::html::{Cell, link, table, tag, text, url};
use super::page::{Failure, Page, Shown};
use super::request::PageRequest;
use crate::criterion::Criterion;
use crate::history::{CampaignFilter, CampaignRow, History};
use crate::judgement::{Between, Change, Ends, between};
use crate::report::date;
use crate::results::Results;

/// Campaigns to choose from, the newest; others are named by their ids.
const CHOICES: u32 = 100;

pub(super) fn page(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    let query = &request.query;
    let history = app.history()?;
    let choices = history.campaigns(&CampaignFilter { limit: CHOICES, ..CampaignFilter::default() })?;
    let (a, b) = (query.get("a"), query.get("b"));
    let given = query.some("tolerance").unwrap_or_else(|| "0%".to_owned());
    let mut body = format!(
        "<form class=\"panel\" method=\"get\" action=\"/compare\">{}{}<label>Tolerance <input name=\"tolerance\" value=\"{}\" size=\"5\"></label>\
         <button class=\"main\">Compare</button></form>",
        select("a", "Earlier", &choices.rows, a),
        select("b", "Later", &choices.rows, b),
        text(&given)
    );
    if a.is_empty() || b.is_empty() {
        body.push_str(
            "<p>Each system is compared with itself, from the earlier run of an evaluation to the later one, with 95 % confidence intervals.</p>",
        );
        return Ok(Shown::Page(Page::new("Compare", "/compare", body)));
    }
    let tolerance = crate::plan::share(&given).map_err(|why| Failure::new(axum::http::StatusCode::BAD_REQUEST, why))?;
    let (before, after) = (load(&history, a)?, load(&history, b)?);
    body.push_str(&result(&before, &after, tolerance));
    Ok(Shown::Page(Page::new("Compare", "/compare", body)))
}

fn load(history: &History, id: &str) -> Result<(String, Results), Failure> {
    let stored = history.load(id)?;
    Ok((stored.id, stored.results))
}

fn select(name: &str, label: &str, rows: &[CampaignRow], chosen: &str) -> String {
    let mut out =
        format!("<label class=\"wide\">{label} <select name=\"{name}\" required><option value=\"\">choose</option>");
    let mut known = chosen.is_empty();
    for row in rows {
        let is_chosen = row.id == chosen;
        known |= is_chosen;
        let (mark, shown) =
            (if is_chosen { " selected" } else { "" }, format!("{} · {}", row.name, date(row.started_unix_ms)));
        let _ = write!(out, "<option value=\"{}\"{mark}>{}</option>", text(&row.id), text(&shown));
    }
    if !known {
        let _ = write!(out, "<option value=\"{0}\" selected>{0}</option>", text(chosen));
    }
    out + "</select></label>"
}

fn result((a, before): &(String, Results), (b, after): &(String, Results), tolerance: f64) -> String {
    let found = between(before, after);
    let (class, words) = match found.ends(tolerance) {
        Ends::SameOrBetter => ("fine", "Same or better"),
        Ends::Worse => ("failed", "Worse"),
        Ends::NotComparable => ("note", "Not comparable"),
    };
    let run = |id: &str, results: &Results| {
        let name = format!("{} of {}", results.name, date(results.started_unix_ms));
        link(&format!("/runs/{}", url(id)), &name)
    };
    let mut out = format!("<h2>{} and {}</h2><p class=\"{class}\">{words}</p>", run(a, before), run(b, after));
    out.push_str(&changes(&found, tolerance));
    for line in &found.not_comparable {
        let _ = write!(out, "<p class=\"note\">Not comparable: {}</p>", text(line));
    }
    for line in &found.notes {
        let _ = write!(out, "<p class=\"quiet\">Note: {}</p>", text(line));
    }
    out
}

fn changes(found: &Between, tolerance: f64) -> String {
    if found.changes.is_empty() {
        return String::new();
    }
    let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
    let row = |change: &Change| {
        let ratio = &change.result.ratio;
        let interval = match (ratio.low, ratio.high) {
            (Some(low), Some(high)) => format!("{} to {}", percent(low), percent(high)),
            _ => "no bound".to_owned(),
        };
        let judged = if change.is_worse(tolerance) {
            tag("worse")
        } else if change.is_better() {
            tag("better")
        } else if change.result.declared {
            "worse, within the tolerance".to_owned()
        } else {
            "no difference declared".to_owned()
        };
        vec![
            Cell::Head(text(&change.system)),
            Cell::Text(text(&change.workload)),
            Cell::Text(text(Criterion::named(change.criterion).map_or(change.criterion, |criterion| criterion.title))),
            Cell::Number(percent(ratio.value)),
            Cell::Number(interval),
            Cell::Number(change.result.p.map_or("—".to_owned(), |p| format!("{p:.4}"))),
            Cell::Number(ratio.rounds.to_string()),
            Cell::Text(judged),
        ]
    };
    let rows: Vec<Vec<Cell>> = found.changes.iter().map(row).collect();
    let caption = if found.changes.iter().any(|change| change.by_baseline) {
        "Change of the cost as a multiple of the baseline's in the same round; less is better"
    } else {
        "Change of the cost; less is better"
    };
    table(caption, &["system", "workload", "criterion", "change", "95 % interval", "p", "n", "judged"], &rows)
}
