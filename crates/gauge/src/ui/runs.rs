//! All campaigns, page by page.

use super::App;
use super::html::{Cell, link, options, table, tag, text, url};
use super::page::{Failure, Page, Shown};
use super::request::PageRequest;
use crate::history::{CampaignFilter, CampaignRow};
use crate::report::date;

/// Rows of a page.
const ROWS: u32 = 50;

/// Campaigns as a table.
pub(super) fn rows(caption: &str, rows: &[CampaignRow]) -> String {
    let row = |row: &CampaignRow| {
        let took =
            row.ended_unix_ms.map_or("—".to_owned(), |ended| duration(ended.saturating_sub(row.started_unix_ms)));
        vec![
            Cell::Head(link(&format!("/runs/{}", url(&row.id)), &row.name)),
            Cell::Text(tag(&row.status)),
            Cell::Text(text(&date(row.started_unix_ms))),
            Cell::Number(took),
            Cell::Text(text(&row.apis.join(", "))),
            Cell::Number(row.runs.to_string()),
            Cell::Number(row.failed.to_string()),
            Cell::Text(text(&row.host)),
        ]
    };
    let cells: Vec<Vec<Cell>> = rows.iter().map(row).collect();
    table(caption, &["run", "state", "began", "took", "systems", "trials", "failed", "machine"], &cells)
}

/// A time in words.
pub(super) fn duration(ms: u64) -> String {
    match ms / 1000 {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

pub(super) fn page(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    let query = &request.query;
    let page: u32 = query.get("page").parse().unwrap_or(1).clamp(1, 1_000_000);
    let filter = CampaignFilter {
        api: query.some("system"),
        status: query.some("state"),
        name: query.some("name"),
        skip: (page - 1) * ROWS,
        limit: ROWS,
    };
    let history = app.history()?;
    let found = history.campaigns(&filter)?;
    let states = [("", "all"), ("running", "running"), ("done", "done"), ("aborted", "aborted")];
    let mut body = format!(
        "<form class=\"panel\" method=\"get\" action=\"/runs\"><label>Name has <input name=\"name\" value=\"{}\"></label>\
         <label>System <input name=\"system\" value=\"{}\"></label><label>State <select name=\"state\">{}</select></label><button>Filter</button></form>",
        text(query.get("name")),
        text(query.get("system")),
        options(states, query.get("state"))
    );
    if found.rows.is_empty() {
        body.push_str("<p>No run is as the filter wants it.</p>");
    } else {
        let first = u64::from(filter.skip) + 1;
        let caption = format!("{first} to {} of {}, the newest first", first + found.rows.len() as u64 - 1, found.all);
        body.push_str(&rows(&caption, &found.rows));
    }
    let last = found.all.div_ceil(u64::from(ROWS));
    let to = |page: u64, name: &str| {
        let parts = [("name", query.get("name")), ("system", query.get("system")), ("state", query.get("state"))];
        let set = parts.iter().filter(|(_, value)| !value.is_empty());
        let query: String = set.map(|(name, value)| format!("{name}={}&", url(value))).collect();
        link(&format!("/runs?{query}page={page}"), name)
    };
    if last > 1 {
        body.push_str("<nav class=\"pages\" aria-label=\"Pages of the list\">");
        if page > 1 {
            body.push_str(&to(u64::from(page) - 1, "Newer"));
        }
        body.push_str(&format!("<span>Page {page} of {last}</span>"));
        if u64::from(page) < last {
            body.push_str(&to(u64::from(page) + 1, "Older"));
        }
        body.push_str("</nav>");
    }
    Ok(Shown::Page(Page::new("Runs", "/runs", body)))
}
