//! The table of `docs/cache-rfc9111.md` is made from the tests: the first line of a test's comment is `RFC N section S. Requirement`.

use std::fmt::Write as _;
use std::path::Path;

const SOURCES: [(&str, &str); 7] = [
    ("rfc9111_3", include_str!("rfc9111_3.rs")),
    ("rfc9111_4", include_str!("rfc9111_4.rs")),
    ("rfc9111_4_3", include_str!("rfc9111_4_3.rs")),
    ("rfc9111_5", include_str!("rfc9111_5.rs")),
    ("rfc5861", include_str!("rfc5861.rs")),
    ("rfc9211", include_str!("rfc9211.rs")),
    ("rfc9213", include_str!("rfc9213.rs")),
];

const BEGIN: &str = "<!-- requirements: written by the test tests::table of the crate cache-rules -->\n";
const END: &str = "<!-- end of requirements -->\n";

/// The rows: section, requirement, test.
fn rows() -> String {
    let mut table = String::from("| section | requirement | test |\n|---|---|---|\n");
    let mut count = 0;
    for (module, source) in SOURCES {
        for block in source.split("\n\n") {
            let Some((comment, code)) = block.split_once("#[test]\nfn ") else { continue };
            let text: Vec<&str> = comment.lines().filter_map(|line| line.strip_prefix("/// ")).collect();
            let text = text.join(" ");
            let Some((section, requirement)) = text.strip_prefix("RFC ").and_then(|text| text.split_once(". ")) else {
                continue;
            };
            let name = code.split('(').next().unwrap();
            assert!(code.contains("assert"), "{name} shows nothing");
            count += 1;
            writeln!(table, "| RFC {section} | {requirement} | `{module}::{name}` |").unwrap();
        }
    }
    assert!(count > 90, "{count} requirements");
    table
}

/// The sections of RFC 9111 with requirements on a shared cache. Not those on clients and origins, nor `no-transform`: nothing is transformed.
const SECTIONS: &str = "3 3.1 3.2 3.4 3.5 4 4.1 4.2 4.2.1 4.2.2 4.2.3 4.2.4 4.3.1 4.3.2 4.3.3 4.3.4 4.3.5 4.4 5.1 5.2 5.2.1.1 5.2.1.2 5.2.1.3 \
                        5.2.1.4 5.2.1.5 5.2.1.7 5.2.2.1 5.2.2.2 5.2.2.3 5.2.2.4 5.2.2.5 5.2.2.7 5.2.2.8 5.2.2.9 5.2.2.10 5.2.3 5.3 5.4";

#[test]
fn every_section_with_requirements_has_a_test() {
    let table = rows();
    for section in SECTIONS.split_whitespace() {
        assert!(table.contains(&format!("| RFC 9111 section {section} |")), "section {section}");
    }
}

#[test]
fn the_documented_requirements_are_the_tested_ones() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cache-rfc9111.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = document.split_once(BEGIN).expect("the table begins");
    let (table, after) = rest.split_once(END).expect("the table ends");
    if std::env::var_os("WEIR_UPDATE").is_some() {
        std::fs::write(&path, [before, BEGIN, &rows(), END, after].concat()).unwrap();
    } else {
        let message = "docs/cache-rfc9111.md is not what the tests say; refresh it with: WEIR_UPDATE=1 cargo test -p cache-rules table";
        assert!(table == rows(), "{message}");
    }
}
