//! Charts of a workload beside its criteria: phase by phase, and of the figures that services are read by.

use std::fmt::Write;

use super::super::charts::{self, Axes, Line, Mark, Series};
use super::super::svg::escape;
use super::super::{table, view};
use super::Part;
use crate::report::measures::{CHARTS, ERRORS, errors};
use crate::results::{PhaseRow, Subject};
use crate::stats::Estimate;

impl Part<'_> {
    /// Rate, latency, CPU and memory from phase to phase; where there is one, there is no line.
    pub(super) fn phase_charts(&self, html: &mut String) {
        type Of = fn(&PhaseRow) -> Option<f64>;
        type Words = fn(f64) -> String;
        let charts: [(&str, &str, Of, Words); 5] = [
            ("Rate over the phases", "requests/s", |phase| phase.rate, view::number),
            ("p95 over the phases", "p95", |phase| phase.latency.as_ref()?.p95_ms, view::time),
            ("CPU over the phases", "CPU", |phase| phase.cpu_percent, |cpu| format!("{} %", view::number(cpu))),
            ("Memory over the phases", "memory", |phase| phase.memory_bytes, view::size),
            (
                "CPU of a request over the phases",
                "CPU % · s",
                |phase| phase.cpu_percent_per_request,
                |value| format!("{value:.3}"),
            ),
        ];
        let names: Vec<&str> = self.workload.phases.iter().map(|phase| phase.name.as_str()).collect();
        if names.len() < 2 {
            return;
        }
        let ticks = || names.iter().enumerate().map(|(index, name)| (index as f64, (*name).to_owned()));
        for (caption, y_name, of, words) in charts {
            let place = |phase: &PhaseRow| {
                let index = names.iter().position(|name| *name == phase.name)?;
                Some((index as f64, of(phase).filter(|value| *value > 0.0)?, Mark::Full))
            };
            let lines: Vec<Line> = self
                .rows()
                .into_iter()
                .map(|(series, row)| Line {
                    series,
                    points: row.phases.iter().filter_map(place).collect(),
                    beside: Vec::new(),
                })
                .filter(|line| !line.points.is_empty())
                .collect();
            if lines.is_empty() {
                continue;
            }
            let axes = Axes {
                x_name: "phase",
                y_name,
                x_ticks: ticks().collect(),
                limit: None,
                y_words: &words,
                x_words: &view::number,
            };
            // The table of phases above says the same.
            html.push_str(&charts::figure(caption, &charts::lines(caption, &lines, &axes), ""));
        }
    }

    /// A chart for each figure that services are read by; reports of gateways have their criteria as charts.
    pub(super) fn measures(&self, html: &mut String) {
        let (results, judgement) = (self.page.results, self.page.judgement);
        if judgement.subject == Subject::Gateways {
            return;
        }
        let workload = &self.workload.name;
        let chart =
            |html: &mut String, title: &str, about: &str, words: fn(f64) -> String, rows: Vec<(Series, Estimate)>| {
                if rows.is_empty() {
                    return;
                }
                let svg = charts::intervals(title, &rows, &words, true);
                let cells: Vec<Vec<String>> = rows
                    .iter()
                    .map(|(series, estimate)| {
                        let range = escape(&view::range(estimate, words));
                        vec![escape(&series.name), escape(&words(estimate.value)), range, estimate.rounds.to_string()]
                    })
                    .collect();
                let head = ["system", "estimate", "95 % interval", "n"];
                html.push_str(&charts::figure(&format!("{title}. {about}"), &svg, &table("", &head, &cells)));
            };
        let _ = writeln!(html, "<h3>Rate, latency, errors and resources of each {}</h3>", judgement.subject.one());
        for measure in &CHARTS {
            let rows = self.rows().into_iter();
            let estimate = |system: &str| measure.estimate(results, judgement, system, workload);
            let rows = rows.filter_map(|(series, _)| Some((series.clone(), estimate(&series.name)?))).collect();
            chart(html, measure.title, measure.about, measure.words, rows);
        }
        let (title, about, words) = ERRORS;
        let rows = self.rows().into_iter().filter_map(|(series, row)| Some((series, errors(row)?))).collect();
        chart(html, title, about, words, rows);
    }
}
