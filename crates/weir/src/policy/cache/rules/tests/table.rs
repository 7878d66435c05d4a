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

const BEGIN: &str = "<!-- requirements: written by the test policy::cache::rules::tests::table -->\n";
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
            count += 1;
            writeln!(table, "| RFC {section} | {requirement} | `{module}::{name}` |").unwrap();
        }
    }
    assert!(count > 90, "{count} requirements");
    table
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
        let message = "docs/cache-rfc9111.md is not what the tests say; refresh it with: WEIR_UPDATE=1 cargo test -p weir cache::rules::tests::table";
        assert!(table == rows(), "{message}");
    }
}
