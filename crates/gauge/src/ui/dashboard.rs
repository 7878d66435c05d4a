//! What runs, what was last measured, and which systems there are.

use std::fmt::Write as _;

use super::html::{Cell, link, table, tag, text, url};
use super::page::{Failure, Page, Shown};
use super::request::PageRequest;
use super::{App, runs};
use crate::history::{CampaignFilter, Filter, figure_words, stored};
use crate::report::date;

/// Campaigns that are listed.
const LATEST: u32 = 8;

pub(super) fn page(app: &App, _: &PageRequest) -> Result<Shown, Failure> {
    let history = app.history()?;
    let started: Vec<_> = app.starts.all().into_iter().filter(|start| start.code.is_none()).collect();
    let running = history.campaigns(&CampaignFilter {
        status: Some("running".to_owned()),
        limit: LATEST,
        ..CampaignFilter::default()
    })?;
    let latest = history.campaigns(&CampaignFilter { limit: LATEST, ..CampaignFilter::default() })?;
    let systems = history.overview()?;
    let tests: i64 = systems.iter().map(|system| system.runs).sum();
    let mut body = format!(
        "<div id=\"live\"><dl class=\"tiles\"><div><dt>Running</dt><dd>{}</dd></div><div><dt>Campaigns</dt><dd>{}</dd></div>\
         <div><dt>Trials</dt><dd>{tests}</dd></div><div><dt>Systems</dt><dd>{}</dd></div></dl>",
        running.all.max(started.len() as u64),
        latest.all,
        systems.len()
    );
    for start in &started {
        let path = format!("/started/{}", url(&start.key));
        let _ = write!(body, "<p class=\"fine\">{} runs: {}</p>", text(&start.file), link(&path, "watch it"));
    }
    if !running.rows.is_empty() {
        body.push_str(&runs::rows("Running now", &running.rows));
    }
    if latest.all == 0 {
        let _ = write!(
            body,
            "<p>There is no run in {} yet. {} or {}, or run <code>gauge run FILE</code> in a terminal.</p>",
            text(&app.options.target.to_string()),
            link("/new", "Make an evaluation"),
            link("/evaluations", "start one of the folder")
        );
    } else {
        body.push_str(&runs::rows("Latest runs", &latest.rows));
        let _ = write!(body, "<p>{}</p>", link("/runs", "All runs"));
    }
    // The latest figures of each system, as far as the latest campaigns have them.
    let (rate, p99) = (stored("throughput").unwrap_or(0), stored("p99_ms").unwrap_or(0));
    let mut rows = Vec::new();
    for system in &systems {
        let filter = Filter { api: Some(system.api.clone()), limit: Some(1), ..Filter::default() };
        let group = history.list(&filter)?.into_iter().next();
        let figure = |column: usize| {
            figure_words(column, group.as_ref().and_then(|group| group.figures.get(column).copied().flatten()))
        };
        let trend = format!("/trends?system={}&metric=p99", url(&system.api));
        rows.push(vec![
            Cell::Head(link(&trend, &system.api)),
            Cell::Number(system.campaigns.to_string()),
            Cell::Number(system.runs.to_string()),
            Cell::Number(system.failed.to_string()),
            Cell::Text(date(u64::try_from(system.last_unix_ms).unwrap_or(0))),
            Cell::Text(group.as_ref().map_or(String::new(), |group| tag(&group.workload))),
            Cell::Number(text(&figure(rate))),
            Cell::Number(text(&figure(p99))),
        ]);
    }
    if !rows.is_empty() {
        body.push_str("<h2>Systems</h2>");
        let columns = ["system", "campaigns", "trials", "failed", "latest", "workload", "rate", "p99"];
        body.push_str(&table("Each system, with the figures of its latest run", &columns, &rows));
    }
    body.push_str("</div>");
    let live = running.all > 0 || !started.is_empty();
    Ok(Shown::Page(Page { live, ..Page::new("Dashboard", "/", body) }))
}
