//! Whether anything is decided, who is first, by how much, and how sure that is.

use std::fmt::Write;

use super::super::findings::place_anchor;
use super::super::rankings;
use super::charts::{self, Series};
use super::svg::escape;
use super::{Page, badges, table, table_with_anchors, view, words};
use crate::criterion::{Criterion, Reference};
use crate::results::{Ranked, Verdict, Weight};
use crate::stats::Estimate;

pub(super) fn write(html: &mut String, page: &Page<'_>) {
    let judgement = page.judgement;
    let (one, many) = (judgement.subject.one(), judgement.subject.many());
    let class = if judgement.decision.decided { "headline" } else { "headline undecided" };
    let _ = writeln!(
        html,
        "<h2 id=\"ranking\">Ranking</h2>\n<p class=\"{class}\">{}</p>",
        escape(&view::headline(judgement))
    );
    for note in &judgement.notes {
        let _ = writeln!(html, "<p class=\"note\">{}</p>", escape(note));
    }
    if !judgement.ranking.is_empty() {
        let reference = judgement.reference.as_deref().unwrap_or("no system");
        let _ = writeln!(
            html,
            "<p>The unit of the score, 100, is <strong>{}</strong>: {}. Twice the score is half the cost. In each round it is the weighted sum of the \
             logarithms of the costs below, each over that of the reference, so no {one}'s score depends on the others. Estimates are Hodges-Lehmann's over \
             the rounds, with the 95 % confidence interval of the signed-rank test. The place of a {one} is one more than the number of {many} that were \
             declared better. {}</p>",
            escape(reference),
            super::super::unit(judgement),
            view::tested(judgement)
        );
        if let Some(note) = rankings::note(judgement) {
            let _ = writeln!(html, "<p class=\"note\">{}</p>", escape(&note));
        }
        html.push_str(&forest(page));
        cards(html, page);
        weights(html, page);
    }
    by_figure(html, page);
    if !judgement.unranked.is_empty() {
        html.push_str("<h3 id=\"not-ranked\">Not ranked</h3>\n");
        let rows: Vec<Vec<String>> = judgement
            .unranked
            .iter()
            .map(|system| {
                let why: Vec<String> = system.why.iter().map(|why| escape(why)).collect();
                vec![escape(&system.system), words(&why.join("<br>"))]
            })
            .collect();
        html.push_str(&table("", &[one, "why"], &rows));
    }
    sensitivity(html, page);
}

fn forest(page: &Page<'_>) -> String {
    let rows: Vec<(Series, Estimate)> =
        page.judgement.ranking.iter().map(|place| (page.series(&place.system), place.score)).collect();
    let svg = charts::intervals("Scores with their intervals", &rows, &view::score, false);
    let cells: Vec<Vec<String>> = page
        .judgement
        .ranking
        .iter()
        .map(|place| {
            let verdicts: Vec<_> = page
                .judgement
                .rows
                .iter()
                .filter(|row| row.system == place.system)
                .flat_map(|row| row.verdicts.clone())
                .collect();
            vec![
                escape(&place.system),
                place.place.to_string(),
                super::with_interval(Some(&place.score), view::score),
                place.score.rounds.to_string(),
                place.failed.to_string(),
                words(&if place.tied_with.is_empty() {
                    "none".to_owned()
                } else {
                    escape(&place.tied_with.join(", "))
                }),
                words(&badges(&dedup(verdicts))),
            ]
        })
        .collect();
    let head = [page.judgement.subject.one(), "place", "score", "n", "failed trials", "tied with", "validity findings"];
    let anchors: Vec<String> =
        page.judgement.ranking.iter().map(|place| place_anchor(page.results, &place.system)).collect();
    charts::figure("Score, higher is better. The line is the 95 % confidence interval.", &svg, "")
        + &table_with_anchors("", &head, &cells, &anchors)
}

/// Rankings by single figures, workload by workload.
fn by_figure(html: &mut String, page: &Page<'_>) {
    let mut tables = String::new();
    for workload in &page.results.workloads {
        let Some((head, rows)) = rankings::table(page.results, page.judgement, &workload.name) else { continue };
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        let rows: Vec<Vec<String>> = rows.iter().map(|cells| cells.iter().map(|text| escape(text)).collect()).collect();
        tables.push_str(&table(&workload.name, &head, &rows));
    }
    if !tables.is_empty() {
        let _ = writeln!(
            html,
            "<h3 id=\"rankings\">Rankings by single figures</h3>\n<p>A place is one more than the number of {} that were declared better in the figure; \
             without a place, too few rounds could be compared.</p>\n{tables}",
            page.judgement.subject.many()
        );
    }
}

fn dedup(verdicts: Vec<Verdict>) -> Vec<Verdict> {
    let mut seen = Vec::new();
    verdicts
        .into_iter()
        .filter(|verdict| {
            let new = !seen.contains(&verdict.name);
            seen.push(verdict.name);
            new
        })
        .collect()
}

fn cards(html: &mut String, page: &Page<'_>) {
    html.push_str("<ul class=\"cards\">\n");
    for place in &page.judgement.ranking {
        card(html, page, place);
    }
    let _ = writeln!(
        html,
        "</ul>\n<p class=\"small soft\">A full bar is the least cost among the {} here; half a bar is twice that cost.</p>",
        page.judgement.subject.many()
    );
}

fn card(html: &mut String, page: &Page<'_>, place: &Ranked) {
    let system = page.results.systems.iter().find(|system| system.name == place.system);
    let series = page.series(&place.system);
    let tied = if place.tied_with.is_empty() { "" } else { ", tied" };
    let _ = write!(
        html,
        "<li class=\"card {}\"><h3><span>{}</span><span>#{}{tied}</span></h3>\n<div class=\"small soft\">{}</div>\n<div class=\"score\">{}</div>\n\
         <div class=\"small soft\">{}</div>\n<dl>\n",
        charts::color(series.index),
        escape(&place.system),
        place.place,
        escape(&system.map(view::version).unwrap_or_default()),
        view::score(place.score.value),
        escape(&view::range(&place.score, view::score)),
    );
    for part in place.parts.iter().filter(|part| part.workload.is_none()) {
        let best = page
            .judgement
            .ranking
            .iter()
            .flat_map(|place| &place.parts)
            .filter(|other| other.criterion == part.criterion && other.workload.is_none())
            .map(|other| other.cost.value)
            .fold(f64::INFINITY, f64::min);
        let _ = writeln!(
            html,
            "<dt>{}</dt><dd>{}</dd><dd class=\"bar\"><span style=\"width:{}%\"></span></dd>",
            view::title_of(&part.criterion),
            view::times(part.cost.value),
            (best / part.cost.value * 100.0).round()
        );
    }
    html.push_str("</dl></li>\n");
}

fn weights(html: &mut String, page: &Page<'_>) {
    let without_gateway = page.judgement.reference.as_deref() == Some(crate::results::DIRECT);
    let unit = |name: &str| match Criterion::named(name).map(|criterion| criterion.reference) {
        Some(Reference::Upstream(_)) if without_gateway => "what the upstream itself uses, without a gateway",
        _ if without_gateway => "the same without a gateway",
        _ => "the same of the reference",
    };
    let about = |name: &str| Criterion::named(name).map_or("", |criterion| criterion.about);
    let rows: Vec<Vec<String>> = page
        .judgement
        .weights
        .iter()
        .map(|weight| {
            vec![
                view::title_of(&weight.criterion).to_owned(),
                view::percent(weight.planned),
                match weight {
                    Weight { used, .. } if *used > 0.0 => view::percent(*used),
                    Weight { planned, .. } if *planned > 0.0 => "not measured".to_owned(),
                    _ => "beside the score".to_owned(),
                },
                words(unit(&weight.criterion)),
                words(about(&weight.criterion)),
            ]
        })
        .collect();
    html.push_str("<details><summary>What the score is made of</summary>\n");
    html.push_str(&table("", &["part", "weight", "weight used", "in units of", "what it is"], &rows));
    html.push_str("</details>\n");
}

fn sensitivity(html: &mut String, page: &Page<'_>) {
    if page.judgement.sensitivity.is_empty() || page.judgement.ranking.len() < 2 {
        return;
    }
    let changed = page.judgement.sensitivity.iter().filter(|change| !change.same_order).count();
    let many = page.judgement.subject.many();
    let words_of = match changed {
        0 => format!("No: whichever part counts double or not at all, {many} that differ keep their order."),
        1 => format!("Once: with one of the other weights below, {many} that differ change places."),
        count => format!("With {count} of the other weights below, {many} that differ change places."),
    };
    let _ = writeln!(
        html,
        "<h3>Would other weights change the order?</h3>\n<p>{words_of}</p>\n<details><summary>Other weights</summary>"
    );
    let rows: Vec<Vec<String>> = page
        .judgement
        .sensitivity
        .iter()
        .map(|change| {
            let order: Vec<String> = change
                .order
                .iter()
                .map(|(system, score)| format!("{} {}", escape(system), view::score(*score)))
                .collect();
            let same = if change.same_order { "the same" } else { "another" };
            vec![change.change.clone(), same.to_owned(), words(&order.join(" · "))]
        })
        .collect();
    html.push_str(&table("", &["change", "order", "scores"], &rows));
    html.push_str("</details>\n");
}
