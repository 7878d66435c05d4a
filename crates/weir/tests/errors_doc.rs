//! `docs/errors.md` lists the errors that the gateway gives, with the fault, status and title that the code has for them.

use weir::error::{Fault, Reason};

#[test]
fn the_page_and_the_code_list_the_same_errors() {
    let page = include_str!("../../../docs/errors.md");
    let mut listed = Vec::new();
    let mut fault = "";
    for line in page.lines() {
        if let Some(of) = line.strip_prefix("## Faults of the ") {
            fault = of;
        }
        let Some(row) = line.strip_prefix("| `") else { continue };
        let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
        let [error, status, title, when, what_to_do] = cells[..] else { panic!("{line}") };
        assert!(when.len() > 20 && what_to_do.len() >= 8, "{line}");
        listed.push((fault, error.trim_end_matches('`').to_owned(), status.to_owned(), title.to_owned()));
    }
    let mut known = Vec::new();
    for fault in [Fault::Client, Fault::Upstream, Fault::Gateway] {
        for reason in Reason::ALL.iter().filter(|reason| reason.fault() == fault) {
            let (error, status) = (reason.label().to_owned(), reason.status().to_string());
            known.push((fault.label(), error, status, reason.title().to_owned()));
        }
    }
    assert_eq!(listed, known);
}
