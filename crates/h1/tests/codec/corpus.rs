//! Every input that the fuzzers start from, and every one that once broke something, through the same checks.

use std::path::Path;

use crate::support::checks;

fn run(target: &str, check: fn(&[u8])) {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let mut files = Vec::new();
    for folder in ["corpus", "artifacts"] {
        let Ok(entries) = std::fs::read_dir(fuzz.join(folder).join(target)) else { continue };
        files.extend(entries.map(|entry| entry.unwrap().path()));
    }
    assert!(files.len() >= 5, "{target} has a corpus");
    files.sort();
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        if std::panic::catch_unwind(|| check(&bytes)).is_err() {
            panic!("{target} fails with {}", file.display());
        }
    }
}

#[test]
fn request_head() {
    run("request_head", checks::request_head);
}

#[test]
fn response_head() {
    run("response_head", checks::response_head);
}

#[test]
fn chunked() {
    run("chunked", checks::chunked);
}

#[test]
fn connection() {
    run("connection", checks::connection);
}
