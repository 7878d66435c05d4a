//! One section for each workload: figures, percentiles, rate, processors, rounds, operations.

mod figures;

use std::fmt::Write;

use super::super::findings::figures_anchor;
use super::charts::{self, Axes, Line, Mark, Series, Strip};
use super::svg::escape;
use super::{Page, badges, table, table_with_anchors, view, with_interval, words};
use crate::criterion::{Better, Criterion, Measured};
use crate::results::report::{Histogram, Latency};
use crate::results::{Row, Slo, Trial, TrialJudgement, TrialState, WorkloadPlan};
use crate::stats::Estimate;

pub(super) fn write(html: &mut String, page: &Page<'_>) {
    for (index, workload) in page.results.workloads.iter().enumerate() {
        let _ = writeln!(
            html,
            "<h2 id=\"workload-{}\">{}</h2>\n<p class=\"soft\">{} · sent by {} · weight {}</p>",
            index + 1,
            escape(&workload.name),
            escape(&workload.load),
            escape(&workload.generator),
            view::number(workload.weight)
        );
        let part = Part { page, workload };
        part.figures(html);
        part.protocols(html);
        part.phases(html);
        part.measures(html);
        part.percentiles(html);
        part.rates(html);
        part.resources(html);
        part.rounds(html);
        part.operations(html);
    }
}

struct Part<'p> {
    page: &'p Page<'p>,
    workload: &'p WorkloadPlan,
}

impl Part<'_> {
    /// Systems with figures, and their rows.
    fn rows(&self) -> Vec<(Series, &Row)> {
        self.page
            .systems
            .iter()
            .filter_map(|system| {
                let row = view::row(self.page.judgement, &system.name, &self.workload.name)?;
                Some((self.page.series(&system.name), row))
            })
            .filter(|(_, row)| row.is_measured())
            .collect()
    }

    fn percentile(&self) -> Option<f64> {
        self.rows().iter().find_map(|(_, row)| row.percentile)
    }

    fn criteria(&self) -> Vec<&'static Criterion> {
        view::criteria(self.rows().iter().map(|(_, row)| *row))
    }

    fn figures(&self, html: &mut String) {
        let rows = self.rows();
        let criteria = self.criteria();
        let titles: Vec<String> = criteria.iter().map(|criterion| view::title(criterion, self.percentile())).collect();
        let mut head = vec!["system", "errors", "p50, all rounds", "added"];
        head.extend(titles.iter().map(String::as_str));
        head.extend(["rounds", "failed", "validity findings"]);
        let cells: Vec<Vec<String>> = rows
            .iter()
            .map(|(series, row)| {
                let mut cells = vec![
                    escape(&series.name),
                    view::or_dash(row.error_rate, view::percent),
                    view::or_dash(row.latency.as_ref().and_then(|latency| latency.p50_ms), view::time),
                    with_interval(row.added_ms.as_ref(), view::added),
                ];
                for criterion in &criteria {
                    let interval =
                        |estimate: Option<&Estimate>| with_interval(estimate, |value| criterion.words(value));
                    let (value, remark) = view::figure(self.page.results, row, criterion, interval);
                    cells.push(value + &remark.map_or_else(String::new, |remark| format!("<small>{remark}</small>")));
                }
                cells.push(row.rounds.len().to_string());
                cells.push(row.failed.len().to_string());
                cells.push(words(&badges(&row.verdicts)));
                cells
            })
            .collect();
        let caption = "Hodges-Lehmann estimates over the valid rounds with 95 % confidence intervals (signed-rank); a failed trial counts as worse than \
                       any value. p50 is over all responses of valid rounds.";
        let anchor =
            |(series, _): &(Series, &Row)| figures_anchor(self.page.results, &self.workload.name, &series.name);
        let anchors: Vec<String> = rows.iter().map(anchor).collect();
        html.push_str(&table_with_anchors(caption, &head, &cells, &anchors));
    }

    fn protocols(&self, html: &mut String) {
        let (results, judgement) = (self.page.results, self.page.judgement);
        for tables in crate::report::protocols::tables(results, judgement, &self.workload.name) {
            let cells: Vec<Vec<String>> =
                tables.rows.iter().map(|cells| cells.iter().map(|text| escape(text)).collect()).collect();
            html.push_str(&table(tables.caption, &tables.head, &cells));
        }
    }

    fn phases(&self, html: &mut String) {
        let rows = crate::report::phases::rows(self.page.results, self.page.judgement, &self.workload.name);
        if rows.is_empty() {
            return;
        }
        let mut head = crate::report::phases::HEAD.to_vec();
        head.push("validity findings");
        let line = |(cells, findings): (Vec<String>, Vec<&str>)| {
            let mut cells: Vec<String> = cells.iter().map(|text| escape(text)).collect();
            cells.push(escape(&findings.join(", ")));
            cells
        };
        let cells: Vec<Vec<String>> = rows.into_iter().map(line).collect();
        let caption = "Phases, all valid rounds together. CPU: 100 % is one processor. CPU and memory per request: the mean over the phase, times its \
                       seconds, over its requests.";
        html.push_str(&table(caption, &head, &cells));
        self.phase_charts(html);
    }

    /// The trials of a system that count.
    fn used(&self, system: &str) -> impl Iterator<Item = &Trial> {
        self.all(system).filter_map(|(run, judged)| (judged.used && judged.failed.is_none()).then_some(run))
    }

    /// The trials of a system that were measured, and whether they count.
    fn all(&self, system: &str) -> impl Iterator<Item = (&Trial, &TrialJudgement)> {
        let judged = &self.page.judgement.trials;
        self.page.results.trials.iter().zip(judged).filter(move |(run, _)| {
            run.system == system && run.workload == self.workload.name && run.state == TrialState::Done
        })
    }

    /// The curve of a system: places are -log10(1 - share), so that each nine takes the same room.
    fn curve(&self, system: &str, row: &Row) -> Vec<(f64, f64, Mark)> {
        let mut merged: Option<Histogram> = None;
        let mut whole = true;
        for latency in self.used(system).filter_map(|run| run.report.as_ref()?.total.latency.as_ref()) {
            match (&latency.histogram, &mut merged) {
                (Some(own), Some(merged)) => merged.add(own),
                (Some(own), None) => merged = Some(own.clone()),
                (None, _) => whole = false,
            }
        }
        let marked = TICKS.map(|(percentile, _)| nines(percentile / 100.0));
        match merged.filter(|_| whole) {
            Some(histogram) => {
                // Ten samples beyond the last one.
                let most = (histogram.count() as f64 / 10.0).log10().min(3.0);
                let steps = (0..=60).map(|step| f64::from(step) * 0.05);
                let mut places: Vec<f64> =
                    steps.chain(marked).filter(|place| *place >= 0.3 && *place <= most + 1e-9).collect();
                places.sort_by(f64::total_cmp);
                places.dedup_by(|a, b| (*a - *b).abs() < 1e-6);
                let point = |place: f64| {
                    let ms = histogram.quantile_ns(1.0 - 10_f64.powf(-place)) as f64 / 1e6;
                    let is_marked = marked.iter().any(|known| (known - place).abs() < 1e-6);
                    (place, ms, if is_marked { Mark::Full } else { Mark::No })
                };
                places.into_iter().map(point).collect()
            }
            None => {
                let Some(latency) = &row.latency else { return Vec::new() };
                let points = TICKS
                    .iter()
                    .filter_map(|(percentile, of)| Some((nines(percentile / 100.0), of(latency)?, Mark::Full)));
                points.collect()
            }
        }
    }

    fn percentiles(&self, html: &mut String) {
        let lines: Vec<Line> = self
            .rows()
            .into_iter()
            .map(|(series, row)| Line { points: self.curve(&series.name, row), beside: Vec::new(), series })
            .filter(|line| line.points.iter().any(|point| point.1 > 0.0))
            .collect();
        if lines.is_empty() {
            return;
        }
        let most = lines.iter().flat_map(|line| &line.points).map(|point| point.0).fold(0.0, f64::max);
        let ticks = TICKS
            .iter()
            .map(|(percentile, _)| (nines(percentile / 100.0), format!("p{}", label(*percentile))))
            .filter(|(place, _)| *place <= most + 1e-9)
            .collect();
        let axes = Axes {
            x_name: "share of responses within the time",
            y_name: "latency",
            x_ticks: ticks,
            limit: None,
            y_words: &view::time,
            x_words: &|place| format!("p{}", label((1.0 - 10_f64.powf(-place)) * 100.0)),
        };
        let svg = charts::lines("Latency by percentile", &lines, &axes);
        let head = ["system", "min", "mean", "p50", "p75", "p90", "p95", "p99", "p99.9", "max", "samples"];
        let cells: Vec<Vec<String>> = self
            .rows()
            .iter()
            .filter_map(|(series, row)| {
                let mut cells = vec![escape(&series.name)];
                cells.extend(of_latency(row.latency.as_ref()?));
                Some(cells)
            })
            .collect();
        html.push_str("<h3>Latency</h3>\n");
        let caption = "All rounds that count, merged. Both axes are by ratios: a line twice as high is slower by the same factor everywhere. \
                       A line ends where fewer than ten responses were slower.";
        html.push_str(&charts::figure(caption, &svg, &table("", &head, &cells)));
    }

    /// Latency against rate, from searches.
    fn rates(&self, html: &mut String) {
        let mut lines = Vec::new();
        let mut cells = Vec::new();
        let objective = self.page.results.slo.unwrap_or_default();
        let (name, figure): (&str, fn(&Latency) -> Option<f64>) = match objective {
            Slo { p99_ms: None, p95_ms: Some(_), .. } => ("p95", |latency| latency.p95_ms),
            Slo { p99_ms: None, p95_ms: None, p50_ms: Some(_), .. } => ("p50", |latency| latency.p50_ms),
            _ => ("p99", |latency| latency.p99_ms),
        };
        let limit = match name {
            "p95" => objective.p95_ms,
            "p50" => objective.p50_ms,
            _ => objective.p99_ms,
        };
        for system in &self.page.systems {
            // The search that tried most makes the line; what others tried are marks beside it.
            let mut curves: Vec<Vec<(f64, f64, Mark)>> = Vec::new();
            for search in &self.page.results.searches {
                if search.system != system.name || search.workload != self.workload.name {
                    continue;
                }
                let mut points = Vec::new();
                for point in &search.points {
                    let Some(ms) = point.report.total.latency.as_ref().and_then(figure) else { continue };
                    points.push((point.rate, ms, if point.met { Mark::Full } else { Mark::Hollow }));
                    cells.push(vec![
                        escape(&system.name),
                        search.round.to_string(),
                        view::number(point.rate),
                        view::time(ms),
                        view::or_dash(point.cpu_per_request_s, |s| view::time(s * 1e3)),
                        if point.met { "met" } else { "not met" }.to_owned(),
                    ]);
                }
                points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
                curves.push(points);
            }
            let longest = curves.iter().enumerate().max_by_key(|(index, points)| (points.len(), usize::MAX - index));
            if let Some(longest) = longest.map(|(index, _)| index).filter(|index| !curves[*index].is_empty()) {
                let points = curves.remove(longest);
                lines.push(Line { series: self.page.series(&system.name), points, beside: curves.concat() });
            }
        }
        if lines.is_empty() {
            return;
        }
        let axes = Axes {
            x_name: "requests per second",
            y_name: name,
            x_ticks: Vec::new(),
            limit: limit.map(|limit| (limit, format!("objective: {name} within {}", view::time(limit)))),
            y_words: &view::time,
            x_words: &view::number,
        };
        let svg = charts::lines("Latency against rate", &lines, &axes);
        let head = ["system", "round", "rate", name, "CPU/request", "objective"];
        html.push_str("<h3>Latency against rate</h3>\n");
        html.push_str(&charts::figure(
            "Hollow marks are rates at which the objective was not met.",
            &svg,
            &table("", &head, &cells),
        ));
    }

    /// A chart for each criterion of which less is better.
    fn resources(&self, html: &mut String) {
        for criterion in self.criteria() {
            let value = |row: &Row| row.figure(criterion.name).copied();
            let mut rows: Vec<(Series, Estimate)> =
                self.rows().into_iter().filter_map(|(series, row)| Some((series, value(row)?))).collect();
            if rows.is_empty() || criterion.better == Better::Higher {
                continue;
            }
            rows.sort_by(|a, b| a.1.value.total_cmp(&b.1.value));
            let title = view::title(criterion, self.percentile());
            let words_of = |value| criterion.words(value);
            let svg = charts::intervals(&title, &rows, &words_of, true);
            let cells: Vec<Vec<String>> = rows
                .iter()
                .map(|(series, estimate)| {
                    vec![
                        escape(&series.name),
                        words_of(estimate.value),
                        escape(&view::range(estimate, words_of)),
                        estimate.rounds.to_string(),
                    ]
                })
                .collect();
            let _ = writeln!(html, "<h3>{}</h3>", escape(&title));
            let head = ["system", "estimate", "95 % interval", "n"];
            html.push_str(&charts::figure(criterion.about, &svg, &table("", &head, &cells)));
        }
    }

    fn rounds(&self, html: &mut String) {
        let percentile = self.percentile();
        let workload = self.workload;
        html.push_str("<details open><summary>Round by round</summary>\n");
        for criterion in self.criteria().into_iter().filter(|criterion| !criterion.is_searched()) {
            let name = view::title(criterion, percentile);
            let words_of = |value| criterion.words(value);
            let strips: Vec<Strip> = self
                .rows()
                .into_iter()
                .map(|(series, _)| {
                    let rounds = self.all(&series.name).filter_map(|(trial, judged)| {
                        let value = criterion
                            .of_trial(workload, &Measured { trial, percentile, price: self.page.results.price })?;
                        Some((trial.round, value, judged.used && judged.failed.is_none()))
                    });
                    Strip { rounds: rounds.collect(), series: series.clone() }
                })
                .filter(|strip| !strip.rounds.is_empty())
                .collect();
            if strips.is_empty() {
                continue;
            }
            let svg = charts::strips(&name, &strips, &words_of);
            let mut numbers: Vec<u32> =
                strips.iter().flat_map(|strip| strip.rounds.iter().map(|round| round.0)).collect();
            numbers.sort_unstable();
            numbers.dedup();
            let names: Vec<String> = numbers.iter().map(|round| format!("round {round}")).collect();
            let head: Vec<&str> = std::iter::once("system").chain(names.iter().map(String::as_str)).collect();
            let cells: Vec<Vec<String>> = strips
                .iter()
                .map(|strip| {
                    let of_round = |round: &u32| match strip.rounds.iter().find(|own| own.0 == *round) {
                        Some((_, value, true)) => words_of(*value),
                        Some((_, value, false)) => format!("{}<small>left out</small>", words_of(*value)),
                        None => "—".to_owned(),
                    };
                    std::iter::once(escape(&strip.series.name)).chain(numbers.iter().map(of_round)).collect()
                })
                .collect();
            let caption =
                format!("{name} of each round. A mark is a round; a cross is one that is left out or failed.");
            html.push_str(&charts::figure(&caption, &svg, &table("", &head, &cells)));
        }
        html.push_str("</details>\n");
    }

    fn operations(&self, html: &mut String) {
        let rows = self.rows();
        if rows.iter().all(|(_, row)| row.operations.len() < 2) {
            return;
        }
        html.push_str("<h3>Operation by operation</h3>\n");
        let head = [
            "system",
            "responses/s",
            "errors",
            "min",
            "mean",
            "p50",
            "p75",
            "p90",
            "p95",
            "p99",
            "p99.9",
            "max",
            "samples",
        ];
        for operation in &self.workload.operations {
            let cells: Vec<Vec<String>> = rows
                .iter()
                .filter_map(|(series, row)| {
                    let own = row.operations.iter().find(|own| own.name == *operation)?;
                    let mut cells = vec![
                        escape(&series.name),
                        view::or_dash(own.rate, view::number),
                        view::or_dash(own.error_rate, view::percent),
                    ];
                    cells.extend(of_latency(own.latency.as_ref()?));
                    Some(cells)
                })
                .collect();
            if !cells.is_empty() {
                html.push_str(&table(operation, &head, &cells));
            }
        }
    }
}

type Percentile = fn(&Latency) -> Option<f64>;

/// The percentiles that are marked, and where they are in a summary.
const TICKS: [(f64, Percentile); 6] = [
    (50.0, |latency| latency.p50_ms),
    (75.0, |latency| latency.p75_ms),
    (90.0, |latency| latency.p90_ms),
    (95.0, |latency| latency.p95_ms),
    (99.0, |latency| latency.p99_ms),
    (99.9, |latency| latency.p999_ms),
];

fn nines(share: f64) -> f64 {
    -(1.0 - share).log10()
}

/// `99.9`, `50`.
fn label(percentile: f64) -> String {
    let text = format!("{percentile:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

fn of_latency(latency: &Latency) -> Vec<String> {
    let mut cells: Vec<String> = [
        latency.min_ms,
        latency.mean_ms,
        latency.p50_ms,
        latency.p75_ms,
        latency.p90_ms,
        latency.p95_ms,
        latency.p99_ms,
        latency.p999_ms,
        latency.max_ms,
    ]
    .into_iter()
    .map(|ms| view::or_dash(ms, view::time))
    .collect();
    cells.push(view::or_dash(latency.count.map(|count| count as f64), view::number));
    cells
}
