//! The summary: which systems pass, with warnings, and which fail, and by what.

use std::fmt::Write;

use super::super::outcomes;
use super::svg::escape;
use super::{Page, table, words};
use crate::results::Outcome;

pub(super) fn write(html: &mut String, page: &Page<'_>) {
    let Some(sentence) = outcomes::sentence(page.judgement) else { return };
    let limits = if page.results.fail.is_empty() {
        "The limits are the defaults for services; <code>fail:</code> of the evaluation sets others."
    } else {
        "The limits are those of the evaluation (<code>fail:</code>)."
    };
    let _ = writeln!(
        html,
        "<h2 id=\"summary\">Summary</h2>\n<p><strong>{}</strong> {} Where one fails, <code>gauge run</code> ends with exit code 99.</p>",
        escape(&sentence),
        limits
    );
    let rows: Vec<Vec<String>> = page
        .judgement
        .outcomes
        .iter()
        .map(|one| {
            let why: Vec<String> = one.why.iter().map(|why| escape(why.text.trim_start_matches([':', ' ']))).collect();
            vec![escape(&one.system), words(&badge(one.outcome)), words(&why.join("<br>"))]
        })
        .collect();
    html.push_str(&table("", &[page.judgement.subject.one(), "outcome", "why"], &rows));
    let checks: Vec<Vec<String>> = outcomes::checks(page.judgement)
        .into_iter()
        .map(|(cells, outcome)| cells.iter().map(|cell| escape(cell)).chain([words(&badge(outcome))]).collect())
        .collect();
    if !checks.is_empty() {
        html.push_str("<details><summary>Every figure beside its limit</summary>\n");
        html.push_str(&table("", &outcomes::HEAD, &checks));
        html.push_str("</details>\n");
    }
}

fn badge(outcome: Outcome) -> String {
    let (class, sign) = match outcome {
        Outcome::Pass => ("good", "✓"),
        Outcome::Warn => ("warn", "!"),
        Outcome::Fail => ("bad", "✕"),
    };
    format!("<span class=\"badge {class}\">{sign} {}</span>", outcome.name())
}
