//! Validity findings, A/A controls, comparisons, conformance, other scores, environment, configurations, and how to reproduce it.

use std::fmt::Write;

use super::super::findings::pair_anchor;
use super::svg::escape;
use super::{Page, table, table_with_anchors, view, with_interval, words};
use crate::results::{Comparison, ConfigurationFile, Role, Subject, TrialState};

pub(super) fn write(html: &mut String, page: &Page<'_>) {
    validity(html, page);
    conformance(html, page);
    other_scores(html, page);
    environment(html, page);
    configurations(html, page);
    reproduce(html, page);
}

fn validity(html: &mut String, page: &Page<'_>) {
    html.push_str("<h2 id=\"validity\">Validity</h2>\n");
    let rows: Vec<Vec<String>> = view::findings(page.judgement)
        .iter()
        .map(|finding| {
            vec![
                escape(&finding.systems.join(", ")),
                words(&escape(finding.workload)),
                words(&super::badges(std::slice::from_ref(finding.verdict))),
                words(&escape(&finding.verdict.evidence)),
            ]
        })
        .collect();
    if rows.is_empty() {
        // What was not there did not stay as it was.
        let rest = match page.results.baseline() {
            Some(_) => {
                "generator and upstream had time left, rates were reached, samples suffice, and the baseline did not move"
            }
            None => "the generator had time left, rates were reached, and samples suffice",
        };
        let _ = writeln!(html, "<p>There are no validity findings: Little's law holds, {rest}.</p>");
    } else {
        let _ = writeln!(
            html,
            "<p>✕ is a failed trial, which counts against its {}; ! is a condition of the machine or the generator, for which the round is left \
             out for all systems, or a limit of what the figures say.</p>",
            page.judgement.subject.one()
        );
        html.push_str(&table("", &["systems", "workload", "finding", "evidence"], &rows));
    }
    let unfinished: Vec<Vec<String>> = page
        .results
        .trials
        .iter()
        .filter_map(|run| {
            let why = match &run.state {
                TrialState::Failed(why) => format!("failed: {why}"),
                TrialState::Void(why) => format!("void: {why}"),
                TrialState::Aborted(why) => format!("stopped: {why}"),
                _ => return None,
            };
            Some(vec![escape(&run.id), words(&escape(&why))])
        })
        .collect();
    if !unfinished.is_empty() {
        html.push_str("<h3>Trials that did not finish</h3>\n");
        html.push_str(&table("", &["trial", "why"], &unfinished));
    }
    left_out(html, page);
    let controls = "<p>A system and its control are the same program, so what the two differ by is noise: the A/A noise floor. A declared difference is a \
                    false positive.</p>\n";
    pairs(html, "A/A controls", controls, &page.judgement.controls, &[]);
    let intro = "<p>Ratios of the cost of the first to that of the second in the same rounds; below 1, the first is better. Estimates are \
                 Hodges-Lehmann's, intervals and p are exact (signed-rank). ";
    let intro = format!("{intro}{}</p>\n", view::tested(page.judgement));
    let title = format!("Every pair of {}", page.judgement.subject.many());
    let anchors: Vec<String> = (0..page.judgement.comparisons.len()).map(pair_anchor).collect();
    pairs(html, &title, &intro, &page.judgement.comparisons, &anchors);
}

fn left_out(html: &mut String, page: &Page<'_>) {
    let rows: Vec<Vec<String>> = page
        .judgement
        .left_out
        .iter()
        .map(|left_out| {
            vec![
                escape(&left_out.workload),
                left_out.round.to_string(),
                words(&escape(&left_out.system)),
                left_out.name.to_string(),
                words(&escape(&left_out.why)),
            ]
        })
        .collect();
    if !rows.is_empty() {
        let _ = writeln!(html, "<h3>Rounds that are left out for all systems ({})</h3>", rows.len());
        html.push_str(&table("", &["workload", "round", "trial of", "condition", "evidence"], &rows));
    }
    let failed: Vec<Vec<String>> = page
        .judgement
        .rows
        .iter()
        .flat_map(|row| row.failed.iter().map(move |failed| (row, failed)))
        .map(|(row, failed)| {
            let why = words(&escape(&failed.why));
            vec![escape(&row.system), words(&escape(&row.workload)), failed.round.to_string(), why]
        })
        .collect();
    if !failed.is_empty() {
        let _ = writeln!(html, "<h3>Failed trials ({})</h3>", failed.len());
        html.push_str(&table("", &["system", "workload", "round", "why"], &failed));
    }
}

/// Pairs of systems, criterion by criterion.
fn pairs(html: &mut String, title: &str, intro: &str, all: &[Comparison], anchors: &[String]) {
    if all.is_empty() {
        return;
    }
    let row = |pair: &Comparison| {
        vec![
            format!("{} / {}", escape(&pair.a), escape(&pair.b)),
            words(&pair.workload.as_deref().map_or("all".to_owned(), escape)),
            words(view::title_of(&pair.criterion)),
            with_interval(Some(&pair.result.ratio), view::times),
            pair.result.ratio.rounds.to_string(),
            view::or_dash(pair.result.p, view::number),
            match (pair.result.p, pair.better()) {
                (None, _) => "not enough rounds".to_owned(),
                (_, Some(better)) => format!("{} is better", escape(better)),
                (_, None) => "not declared".to_owned(),
            },
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let _ = writeln!(html, "<details><summary>{title}</summary>\n{intro}");
    let head = ["pair", "workload", "criterion", "ratio", "n", "p", "difference"];
    html.push_str(&table_with_anchors("", &head, &rows, anchors));
    html.push_str("</details>\n");
}

fn conformance(html: &mut String, page: &Page<'_>) {
    let what = match page.judgement.subject {
        Subject::Gateways => {
            "Before the load, the responses of every gateway are compared with those of the upstream itself, operation by operation; it must forward the \
             required headers and refuse a path that is not described."
        }
        Subject::Services => {
            "Before the load, every service is sent each operation once, and its responses must be those that the workload expects; where the evaluation has \
             steps before each trial, they must succeed too."
        }
        Subject::Systems => {
            "Before the load, every system is sent each operation once. The responses of a gateway are compared with those of the upstream itself, those of \
             a service with what the workload expects."
        }
    };
    let _ = writeln!(html, "<h2 id=\"conformance\">Conformance</h2>\n<p>{what}</p>");
    let rows: Vec<Vec<String>> = page
        .results
        .systems
        .iter()
        .filter(|system| system.role != Role::Direct)
        .map(|system| {
            let (state, what) = match (&system.conformance, view::not_run(system)) {
                (_, Some(why)) => ("not run here".to_owned(), escape(why)),
                (None, None) => ("<span class=\"badge warn\">! not compared</span>".to_owned(), String::new()),
                (Some(conformance), None) if conformance.differences.is_empty() => (
                    "<span class=\"badge good\">✓ the same</span>".to_owned(),
                    escape(&conformance.operations.join(", ")),
                ),
                (Some(conformance), None) => {
                    let differences: Vec<String> = conformance
                        .differences
                        .iter()
                        .map(|difference| {
                            format!(
                                "{}, {}: required <code>{}</code>, found <code>{}</code>",
                                escape(&difference.operation),
                                escape(&difference.what),
                                escape(&difference.expected),
                                escape(&difference.found)
                            )
                        })
                        .collect();
                    ("<span class=\"badge bad\">✕ differs</span>".to_owned(), differences.join("<br>"))
                }
            };
            vec![escape(&system.name), words(&escape(&view::version(system))), words(&state), words(&what)]
        })
        .collect();
    html.push_str(&table("", &["system", "version", "result", "what"], &rows));
}

fn other_scores(html: &mut String, page: &Page<'_>) {
    html.push_str("<h2 id=\"other-scores\">Other scores</h2>\n");
    let (one, many) = (page.judgement.subject.one(), page.judgement.subject.many());
    let Some(age) = &page.judgement.age else {
        html.push_str(&format!("<p>The score of the automatic gateway evaluator (AGE) compares {many} with each other; fewer than two have figures.</p>\n"));
        return;
    };
    let _ = writeln!(
        html,
        "<p>The score of the paper on the automatic gateway evaluator (AGE): the mean of up to ten metrics, each relative to the best {one} present, \
         and what that evaluator's program computes. {} of the ten metrics are known of every {one} here. Unlike the score above, it depends on which \
         {many} are present, counts no processors and no memory, and weighs the same distribution eight times.</p>",
        age.metrics
    );
    let endpoints: Vec<&str> = age
        .paper
        .first()
        .map(|score| score.endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect())
        .unwrap_or_default();
    let mut head = vec![one, "as in the paper", "as coded"];
    head.extend(&endpoints);
    let rows: Vec<Vec<String>> = age
        .paper
        .iter()
        .map(|score| {
            let coded = age.coded.iter().find(|(system, _)| *system == score.system).map(|(_, score)| *score);
            let mut cells = vec![escape(&score.system), view::score(score.score), view::or_dash(coded, view::number)];
            cells.extend(score.endpoints.iter().map(|endpoint| {
                format!("{}<small>n = {}</small>", view::score(endpoint.score), view::number(endpoint.samples as f64))
            }));
            cells
        })
        .collect();
    html.push_str(&table("", &head, &rows));
}

fn environment(html: &mut String, page: &Page<'_>) {
    let environment = &page.results.environment;
    html.push_str("<h2 id=\"environment\">Environment</h2>\n<dl class=\"facts\">\n");
    let pinned: Vec<String> = environment
        .pinned
        .iter()
        .map(|(part, cpus)| format!("{part} to {}", cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")))
        .collect();
    let end = page.results.ended_unix_ms.map_or("not".to_owned(), view::date);
    let facts = [
        ("Began", Some(view::date(page.results.started_unix_ms))),
        ("Ended", Some(end)),
        ("Host", environment.host.clone()),
        ("System", environment.system.clone()),
        ("Processor", environment.processor.clone()),
        ("Processors", environment.cpus.map(|cpus| cpus.to_string())),
        ("Memory", environment.memory_bytes.map(|bytes| view::size(bytes as f64))),
        ("Congestion control of TCP", environment.congestion_control.clone()),
        ("Deployed", Some(environment.deploy.clone()).filter(|deploy| !deploy.is_empty())),
        ("Generators", Some(view::generators(environment)).filter(|generators| !generators.is_empty())),
        ("Given to a system", {
            let cpus =
                environment.hardware_cpus.map(|cpus| format!("{cpus} processor{}", if cpus == 1 { "" } else { "s" }));
            let memory = environment.hardware_memory_bytes.map(|bytes| view::size(bytes as f64));
            let both: Vec<String> = [cpus, memory].into_iter().flatten().collect();
            Some(both.join(", ")).filter(|both| !both.is_empty())
        }),
        ("Caps by", environment.caps.clone()),
        ("Pinned", Some(if pinned.is_empty() { "nothing".to_owned() } else { pinned.join("; ") })),
        ("Commit", environment.commit.clone()),
        ("gauge", Some(page.results.gauge.clone())),
    ];
    for (name, value) in facts {
        if let Some(value) = value {
            let _ = writeln!(html, "<dt>{name}</dt><dd>{}</dd>", escape(&value));
        }
    }
    for (name, version) in environment.versions.iter().filter(|(name, _)| *name != "gauge") {
        let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(version));
    }
    html.push_str("</dl>\n");
}

fn configurations(html: &mut String, page: &Page<'_>) {
    let made = match page.judgement.subject {
        Subject::Gateways => "What each gateway was started with, made from the one description of the API.",
        Subject::Services => "What each service was started with, as the evaluation says.",
        Subject::Systems => {
            "What each system was started with: gateways with files made from the one description of the API, services as the evaluation says."
        }
    };
    let _ = writeln!(html, "<h2 id=\"configurations\">Configurations</h2>\n<p>{made}</p>");
    for system in &page.results.systems {
        if system.configuration.is_empty() && system.command.is_empty() {
            continue;
        }
        let control = match &system.role {
            Role::ControlOf(of) => format!(" (A/A control of {})", escape(of)),
            Role::Direct | Role::Gateway | Role::Service => String::new(),
        };
        let here = if view::not_run(system).is_some() { ", configured, not run here" } else { "" };
        let _ = writeln!(html, "<details><summary>{}{control}{here}</summary>", escape(&system.name));
        if !system.command.is_empty() {
            let _ = writeln!(html, "<p>Started with:</p><pre>{}</pre>", escape(&system.command.join(" ")));
        }
        for ConfigurationFile { path, text } in &system.configuration {
            let _ = writeln!(html, "<p><code>{}</code></p>\n<pre>{}</pre>", escape(path), escape(text));
        }
        html.push_str("</details>\n");
    }
}

fn reproduce(html: &mut String, page: &Page<'_>) {
    let results = page.results;
    let _ = writeln!(
        html,
        "<h2 id=\"reproduce\">Reproduce</h2>\n<pre>{}</pre>\n<p>All figures from the raw data beside this file:</p>\n<pre>gauge recompute .</pre>\n\
         <details><summary>The evaluation file</summary>\n<pre>{}</pre></details>",
        escape(&results.command),
        escape(&results.evaluation)
    );
}
