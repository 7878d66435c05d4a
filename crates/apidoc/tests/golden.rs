//! Golden files: each description below `golden/` is read and compared with the file `NAME.golden.json` beside it, which
//! holds the model and the warnings, or the errors. `UPDATE_GOLDEN=1 cargo test -p apidoc --test golden` writes them anew;
//! read what changed before you commit it.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn fixtures(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            // what others refer to
            if name != "parts" {
                fixtures(&path, found);
            }
        } else if !name.ends_with(".golden.json") {
            found.push(path);
        }
    }
}

/// What is compared; names of files are relative, so that the result is the same everywhere.
fn outcome(name: &str) -> Value {
    let told =
        |list: &[apidoc::Diagnostic]| list.iter().map(|d| format!("[{}] {d}", d.code.as_str())).collect::<Vec<_>>();
    match apidoc::read_file(name) {
        Ok(read) => json!({"kind": read.kind, "warnings": told(&read.warnings), "api": read.api}),
        Err(problems) => {
            json!({"errors": told(&problems.errors), "warnings": told(&problems.warnings)})
        }
    }
}

#[test]
fn every_fixture_reads_as_its_golden_file_says() {
    std::env::set_current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")).unwrap();
    let mut found = Vec::new();
    fixtures(Path::new("."), &mut found);
    found.sort();
    assert!(found.len() >= 15, "only {} fixtures found", found.len());
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut different = Vec::new();
    for path in &found {
        let name = path.to_string_lossy().trim_start_matches("./").to_owned();
        let text = serde_json::to_string_pretty(&outcome(&name)).unwrap() + "\n";
        let golden = format!("{name}.golden.json");
        if update {
            std::fs::write(&golden, &text).unwrap();
        } else if std::fs::read_to_string(&golden).unwrap_or_default() != text {
            different.push(format!("{golden} should be:\n{text}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
