//! No bytes make a reader panic or run away: fixtures with their bytes disturbed, and every input that ever did harm
//! (`fuzz/corpus`, `fuzz/crashes`). Long runs are `cargo fuzz`'s, see `fuzz/`.

use proptest::prelude::*;
use std::path::{Path, PathBuf};

fn files(folder: &str, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path.to_string_lossy(), found);
        } else if !path.to_string_lossy().ends_with(".golden.json") {
            found.push(path);
        }
    }
    found.sort();
}

/// What is read can be written and read again; anything else is described in words.
fn exercise(bytes: &[u8]) {
    match apidoc::read_bytes("input", bytes) {
        Ok(read) => {
            for format in apidoc::Format::ALL {
                let written = apidoc::write(&read.api, format, apidoc::Syntax::Yaml);
                let _ = apidoc::read_bytes("written", written.text.as_bytes());
            }
        }
        Err(problems) => assert!(!problems.errors.is_empty() && !problems.to_string().is_empty()),
    }
}

#[test]
fn inputs_that_did_harm_do_none_now() {
    let mut found = Vec::new();
    files("fuzz/corpus", &mut found);
    files("fuzz/crashes", &mut found);
    assert!(found.len() > 5, "the corpus is not where it is looked for");
    for path in found {
        exercise(&std::fs::read(path).unwrap());
    }
}

fn fixtures() -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    files("tests/golden", &mut found);
    found.into_iter().map(|path| std::fs::read(path).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn disturbed_fixtures_are_read_or_refused(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..5u8, prop::sample::select(b"{}[]:,-#&*!|>'\"%@`\n \t+/?<>0\xff\0".to_vec())), 1..8),
    ) {
        let all = fixtures();
        let mut bytes = which.get(&all).clone();
        for (place, what, byte) in changes {
            if bytes.is_empty() {
                break;
            }
            let at = place.index(bytes.len());
            match what {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => { bytes.remove(at); }
                3 => bytes.truncate(at),
                _ => { let end = (at + 40).min(bytes.len()); let copy = bytes[at..end].to_vec(); bytes.extend(copy); }
            }
        }
        exercise(&bytes);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(#%RAML 1.0\n|FORMAT: 1A\n|openapi: 3.1.0\npaths: |swagger: '2.0'\npaths: |)\\PC{0,200}") {
        exercise(text.as_bytes());
    }
}
