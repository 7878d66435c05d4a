//! Findings in words, each with links to the rows that it rests on.

use std::fmt::Write;

use super::super::findings::{Finding, Findings};
use super::svg::escape;

/// With more, those of single workloads are folded.
const UNFOLDED: usize = 30;

pub(super) fn write(html: &mut String, findings: &Findings, workloads: &[&str]) {
    html.push_str("<h2 id=\"findings\">Findings</h2>\n");
    if findings.declared.is_empty() {
        html.push_str("<p>No difference was declared.</p>\n");
    }
    let of = |workload: Option<&str>| -> Vec<&Finding> {
        findings.declared.iter().filter(|finding| finding.workload.as_deref() == workload).collect()
    };
    list(html, &of(None));
    let open = if findings.declared.len() <= UNFOLDED { " open" } else { "" };
    for workload in workloads {
        let own = of(Some(workload));
        if !own.is_empty() {
            let _ = writeln!(html, "<details{open}><summary>{}: {}</summary>", escape(workload), own.len());
            list(html, &own);
            html.push_str("</details>\n");
        }
    }
    if let Some(undecided) = &findings.undecided {
        let _ = writeln!(html, "<p class=\"undecided-findings\">{}</p>", escape(undecided));
    }
}

fn list(html: &mut String, findings: &[&Finding]) {
    if findings.is_empty() {
        return;
    }
    html.push_str("<ul class=\"findings\">\n");
    for finding in findings {
        let link = |(name, anchor): &(String, String)| format!("<a href=\"#{anchor}\">{}</a>", escape(name));
        let links: Vec<String> = finding.rows.iter().map(link).collect();
        let _ = writeln!(html, "<li>{} <small>Rows: {}</small></li>", escape(&finding.text), links.join(", "));
    }
    html.push_str("</ul>\n");
}
