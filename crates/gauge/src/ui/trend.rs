//! A figure of a system, campaign by campaign.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::App;
use super::chart::{Line, chart};
use super::html::{Cell, link, options, table, text, url};
use super::page::{Failure, Page, Shown};
use super::request::PageRequest;
use crate::history::{Filter, Group, STORED, figure_words, stored};
use crate::report::date;
use crate::stats::{LEAST, change_points};

/// Campaigns that are looked at, the newest: the search for changes takes the square of their number.
const CAMPAIGNS: usize = 100;

pub(super) fn page(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    let query = &request.query;
    let history = app.history()?;
    let systems: Vec<String> = history.overview()?.into_iter().map(|system| system.api).collect();
    let system = query.some("system").or_else(|| systems.first().cloned()).unwrap_or_default();
    let metric = query.some("metric").unwrap_or_else(|| "p99_ms".to_owned());
    let Some(column) = stored(&metric) else {
        return Err(Failure::not_found(format!("Unknown figure `{metric}`; expected one of {}.", STORED.join(", "))));
    };
    let mut body = format!(
        "<form class=\"panel\" method=\"get\" action=\"/trends\"><label>System <select name=\"system\">{}</select></label>\
         <label>Figure <select name=\"metric\">{}</select></label><label>Workload (empty: all) <input name=\"workload\" value=\"{}\"></label><button>Show</button></form>",
        options(systems.iter().map(|name| (name.as_str(), name.as_str())), &system),
        options(STORED.iter().map(|name| (*name, *name)), STORED[column]),
        text(query.get("workload"))
    );
    let filter = Filter {
        api: Some(system.clone()),
        workload: query.some("workload"),
        limit: Some(CAMPAIGNS),
        ..Filter::default()
    };
    let mut groups = history.list(&filter)?;
    groups.reverse();
    // Another machine is another level, and no change of the system.
    let mut series: BTreeMap<(&str, Option<&str>, &str), Vec<&Group>> = BTreeMap::new();
    for group in groups.iter().filter(|group| group.figures[column].is_some()) {
        series.entry((&group.workload, group.payload.as_deref(), &group.host)).or_default().push(group);
    }
    if series.is_empty() {
        body.push_str("<p>There is no such figure in the history.</p>");
    }
    for ((workload, payload, host), groups) in series {
        let payload = payload.map_or(String::new(), |payload| format!(", {payload}"));
        let title = format!("{} under {workload}{payload} on {host}", STORED[column]);
        let _ = write!(body, "<h2>{}</h2>{}", text(&title), one(column, &title, &groups));
    }
    Ok(Shown::Page(Page::new(format!("Trends of {system}"), "/trends", body)))
}

fn one(column: usize, title: &str, groups: &[&Group]) -> String {
    let values: Vec<f64> = groups.iter().filter_map(|group| group.figures[column]).collect();
    let changes = change_points(&values);
    let words = |value: f64| figure_words(column, Some(value));
    let line = Line { name: STORED[column], values: values.iter().copied().map(Some).collect() };
    let end = |group: Option<&&Group>| group.map_or(String::new(), |group| date(group.started_unix_ms));
    let marks: Vec<usize> = changes.iter().map(|change| change.at).collect();
    let mut out = chart(title, &[line], words, (&end(groups.first()), &end(groups.last())), &marks);
    let _ = match (changes.len(), values.len()) {
        (0, count) if count < LEAST => {
            write!(out, "<p class=\"quiet\">{count} campaigns; a change can be seen in {LEAST} or more.</p>")
        }
        (0, count) => write!(out, "<p class=\"quiet\">{count} campaigns, no change.</p>"),
        (changes, count) => write!(out, "<p class=\"note\">{count} campaigns, changes: {changes}.</p>"),
    };
    let row = |(index, group): (usize, &&Group)| {
        let change = changes.iter().find(|change| change.at == index).map_or(String::new(), |change| {
            format!("changed: {} → {}, p = {:.4}", words(change.before), words(change.after), change.p)
        });
        vec![
            Cell::Head(link(&format!("/runs/{}", url(&group.campaign)), &date(group.started_unix_ms))),
            Cell::Text(text(&group.name)),
            Cell::Number(text(&figure_words(column, group.figures[column]))),
            Cell::Text(text(&change)),
        ]
    };
    let mut rows: Vec<Vec<Cell>> = groups.iter().enumerate().map(row).collect();
    rows.reverse();
    let _ = write!(
        out,
        "<details><summary>All figures</summary>{}</details>",
        table(title, &["began", "run", STORED[column], "change"], &rows)
    );
    out
}
