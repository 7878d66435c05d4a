//! Whole configurations, written from the patterns that public documentation shows, with what must become of them.
//!
//! `WEIR_UPDATE=1 cargo test -p import --test golden` writes what there is now; read the difference before it is committed.

use std::fs;
use std::path::{Path, PathBuf};

use import::{Format, import};

/// The file in a case's folder that is read.
fn source(format: Format) -> &'static str {
    match format {
        Format::Nginx => "nginx.conf",
        Format::Kong => "kong.yaml",
        Format::Traefik => "routes.yaml",
        Format::Caddy => "caddy.json",
        Format::Litellm => "config.yaml",
    }
}

fn cases(format: Format) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format.name());
    let mut cases: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    cases
}

#[test]
fn every_configuration_becomes_what_is_written_beside_it() {
    let update = std::env::var_os("WEIR_UPDATE").is_some();
    let mut wrong = Vec::new();
    for format in Format::ALL {
        let cases = cases(format);
        assert!(cases.len() >= 5, "{}: {} cases", format.name(), cases.len());
        for case in cases {
            let imported = import(format, &case.join(source(format))).unwrap_or_else(|error| panic!("{error}"));
            for (name, text) in [("weir.yaml", &imported.yaml), ("report.txt", &imported.report.to_text())] {
                let path = case.join(name);
                if update {
                    fs::write(&path, text).unwrap();
                } else if fs::read_to_string(&path).unwrap_or_default() != *text {
                    wrong.push(format!("{}\n--- it is now:\n{text}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn importing_again_gives_the_same() {
    for format in Format::ALL {
        for case in cases(format) {
            let path = case.join(source(format));
            let (a, b) = (import(format, &path).unwrap(), import(format, &path).unwrap());
            assert_eq!((a.yaml, a.report), (b.yaml, b.report), "{}", path.display());
        }
    }
}
