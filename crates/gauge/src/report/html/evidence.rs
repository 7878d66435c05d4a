//! Why it may be believed, or not: verdicts, attestations, twins, other scores, environment, configurations, and how to do it again.

use std::fmt::Write;

use super::svg::escape;
use super::{Page, table, view, with_interval, words};
use crate::campaign::results::{ConfigurationFile, Role, RunState};
use crate::stats::SIGNIFICANCE;

pub(super) fn write(html: &mut String, page: &Page<'_>) {
    validity(html, page);
    attestation(html, page);
    other_scores(html, page);
    environment(html, page);
    configurations(html, page);
    again(html, page);
}

fn validity(html: &mut String, page: &Page<'_>) {
    html.push_str("<h2 id=\"validity\">Can it be believed?</h2>\n<h3>Verdicts</h3>\n");
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
        html.push_str(
            "<p>Nothing was found to be wrong with any row: Little's law holds, generator and upstream had time left, rates were reached, nothing went wrong, \
             samples suffice, the lane without a gateway stood still.</p>\n",
        );
    } else {
        html.push_str(
            "<p>✕ keeps a gateway out of the ranking; ! leaves rounds out, or limits what the figures say.</p>\n",
        );
        html.push_str(&table("", &["systems", "workload", "verdict", "evidence"], &rows));
    }
    let unfinished: Vec<Vec<String>> = page
        .results
        .runs
        .iter()
        .filter_map(|run| {
            let why = match &run.state {
                RunState::Failed(why) => format!("failed: {why}"),
                RunState::Aborted(why) => format!("stopped: {why}"),
                _ => return None,
            };
            Some(vec![escape(&run.id), words(&escape(&why))])
        })
        .collect();
    if !unfinished.is_empty() {
        html.push_str("<h3>Runs that did not finish</h3>\n");
        html.push_str(&table("", &["run", "why"], &unfinished));
    }
    left_out(html, page);
    twins(html, page);
    comparisons(html, page);
}

fn left_out(html: &mut String, page: &Page<'_>) {
    let rows: Vec<Vec<String>> = page
        .judgement
        .rows
        .iter()
        .flat_map(|row| {
            row.left_out.iter().map(move |left_out| {
                vec![
                    escape(&row.system),
                    words(&escape(&row.workload)),
                    left_out.round.to_string(),
                    words(&escape(&left_out.why)),
                ]
            })
        })
        .collect();
    if !rows.is_empty() {
        let _ = writeln!(html, "<details><summary>Rounds that were left out ({})</summary>", rows.len());
        html.push_str(&table("", &["system", "workload", "round", "why"], &rows));
        html.push_str("</details>\n");
    }
}

fn twins(html: &mut String, page: &Page<'_>) {
    if page.judgement.twins.is_empty() {
        return;
    }
    html.push_str(
        "<h3>The same system twice (A/A)</h3>\n<p>What the two entries differ by is no difference. The last column is of 1,000 smaller campaigns, each of six \
         of these rounds, none twice and all as they were measured: the share in which a difference would be declared. For equal systems it is 3 % on the average, of one \
         figure mostly near 0, and sometimes large by chance.",
    );
    if let Some(share) = page.judgement.twins_declared_in_smaller {
        let _ = write!(
            html,
            " With the rounds of all workloads together: <strong>{}</strong>; more than 6 % would be a fault of the measurement.",
            view::percent(share)
        );
    }
    html.push_str("</p>\n");
    let rows: Vec<Vec<String>> = page
        .judgement
        .twins
        .iter()
        .map(|twin| {
            vec![
                format!("{} and {}", escape(&twin.system), escape(&twin.twin)),
                words(&twin.workload.as_deref().map_or("all".to_owned(), escape)),
                words(view::figure(twin.figure)),
                with_interval(Some(&twin.result.ratio), view::times),
                if twin.result.declared {
                    "<span class=\"badge bad\">✕ declared</span>"
                } else {
                    "<span class=\"badge good\">✓ none</span>"
                }
                .to_owned(),
                view::or_dash(twin.declared_in_smaller, view::percent),
            ]
        })
        .collect();
    html.push_str(&table(
        "",
        &["systems", "workload", "figure", "ratio", "difference", "declared in smaller campaigns"],
        &rows,
    ));
}

fn comparisons(html: &mut String, page: &Page<'_>) {
    if page.judgement.comparisons.is_empty() {
        return;
    }
    let pairs = page.judgement.comparisons.len();
    let _ = writeln!(
        html,
        "<details><summary>Every pair of systems</summary>\n<p>Ratios of the first to the second in the same rounds. A difference is declared when the exact \
         signed-rank test gives p ≤ 0.05, the interval does not hold 1, there are six rounds, and the ratio is beyond what the twins reached. The 5 % are of each \
         pair by itself and not corrected for how many there are: if all {pairs} pairs here were equal, up to {} of them would be declared different by chance.</p>",
        view::number((pairs as f64 * SIGNIFICANCE).ceil()),
    );
    let rows: Vec<Vec<String>> = page
        .judgement
        .comparisons
        .iter()
        .map(|comparison| {
            vec![
                format!("{} / {}", escape(&comparison.a), escape(&comparison.b)),
                words(&comparison.workload.as_deref().map_or("all".to_owned(), escape)),
                words(view::figure(comparison.figure)),
                with_interval(Some(&comparison.result.ratio), view::times),
                view::number(comparison.result.p),
                view::times(comparison.result.guard),
                if comparison.result.declared { "yes" } else { "no" }.to_owned(),
            ]
        })
        .collect();
    html.push_str(&table("", &["pair", "workload", "figure", "ratio", "p", "beyond", "different"], &rows));
    html.push_str("</details>\n");
}

fn attestation(html: &mut String, page: &Page<'_>) {
    html.push_str(
        "<h2 id=\"attestation\">Do they do the same?</h2>\n<p>Before the load, every gateway had to answer each operation as the upstream itself does, forward what it \
         must, and refuse what nobody described.</p>\n",
    );
    let rows: Vec<Vec<String>> = page
        .results
        .systems
        .iter()
        .filter(|system| system.role != Role::Direct)
        .map(|system| {
            let (state, what) = match (&system.attestation, view::not_run(system)) {
                (_, Some(why)) => ("not run here".to_owned(), escape(why)),
                (None, None) => ("<span class=\"badge warn\">! not compared</span>".to_owned(), String::new()),
                (Some(attestation), None) if attestation.differences.is_empty() => (
                    "<span class=\"badge good\">✓ the same</span>".to_owned(),
                    escape(&attestation.operations.join(", ")),
                ),
                (Some(attestation), None) => {
                    let differences: Vec<String> = attestation
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
    let Some(age) = &page.judgement.age else {
        html.push_str("<p>The score of the automatic gateway evaluator (AGE) compares gateways with each other; fewer than two have figures.</p>\n");
        return;
    };
    let _ = writeln!(
        html,
        "<p>The score of the paper on the automatic gateway evaluator (AGE): the mean of up to ten metrics, each relative to the best gateway present, \
         and what that evaluator's program computes. {} of the ten metrics are known of every gateway here. Unlike the score above, it depends on which \
         gateways are present, counts no processors and no memory, and weighs the same distribution eight times.</p>",
        age.metrics
    );
    let endpoints: Vec<&str> = age
        .paper
        .first()
        .map(|score| score.endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect())
        .unwrap_or_default();
    let mut head = vec!["gateway", "as in the paper", "as coded"];
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
    for (name, version) in &environment.versions {
        let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(version));
    }
    html.push_str("</dl>\n");
}

fn configurations(html: &mut String, page: &Page<'_>) {
    html.push_str("<h2 id=\"configurations\">Configurations</h2>\n<p>What each system was started with, made from the one description of the API.</p>\n");
    for system in &page.results.systems {
        if system.configuration.is_empty() && system.command.is_empty() {
            continue;
        }
        let twin = match &system.role {
            Role::TwinOf(of) => format!(" (twin of {})", escape(of)),
            Role::Direct | Role::Gateway => String::new(),
        };
        let here = if view::not_run(system).is_some() { ", configured, not run here" } else { "" };
        let _ = writeln!(html, "<details><summary>{}{twin}{here}</summary>", escape(&system.name));
        if !system.command.is_empty() {
            let _ = writeln!(html, "<p>Started with:</p><pre>{}</pre>", escape(&system.command.join(" ")));
        }
        for ConfigurationFile { path, text } in &system.configuration {
            let _ = writeln!(html, "<p><code>{}</code></p>\n<pre>{}</pre>", escape(path), escape(text));
        }
        html.push_str("</details>\n");
    }
}

fn again(html: &mut String, page: &Page<'_>) {
    let results = page.results;
    let _ = writeln!(
        html,
        "<h2 id=\"again\">Do it again</h2>\n<pre>{}</pre>\n<p>All numbers here again, from the raw data beside this file:</p>\n<pre>gauge recompute .</pre>\n\
         <details><summary>The evaluation file</summary>\n<pre>{}</pre></details>",
        escape(&results.command),
        escape(&results.evaluation)
    );
}
