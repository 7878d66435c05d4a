//! The corpus of the fuzz targets, and changes of it, without a fuzzer.

#[path = "support/checks.rs"]
#[allow(unreachable_pub)]
mod checks;

use std::path::Path;

use proptest::prelude::*;

/// Every file of a target's corpus.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
}

/// A target and its check.
type Target = (&'static str, fn(&[u8]));

fn targets() -> [Target; 4] {
    [
        ("jwt", checks::jwt),
        ("api_key", checks::api_key),
        ("htpasswd", checks::htpasswd),
        ("authorization", checks::authorization),
    ]
}

#[test]
fn the_corpus_passes_every_check() {
    for (target, check) in targets() {
        let inputs = corpus(target);
        assert!(inputs.len() >= 3, "{target}: {} inputs", inputs.len());
        inputs.iter().for_each(|input| check(input));
    }
}

/// The corpus reaches what lies behind the first test of each parser.
#[test]
fn each_corpus_has_inputs_that_are_accepted() {
    let text =
        |target: &str| corpus(target).into_iter().filter_map(|input| String::from_utf8(input).ok()).collect::<Vec<_>>();
    assert!(text("api_key").iter().any(|input| auth::api_key::Key::parse(input).is_ok()));
    assert!(
        text("api_key").iter().any(|input| auth::api_key::Store::read(input, None).is_ok_and(|store| store.len() > 1))
    );
    assert!(text("htpasswd").iter().any(|input| auth::basic::Htpasswd::read(input).is_ok_and(|users| users.len() > 1)));
    let basic =
        |input: &String| auth::field::credentials(input.as_bytes(), "basic").map(auth::basic::Credentials::parse);
    assert!(text("authorization").iter().any(|input| basic(input).is_some_and(|read| read.is_ok())));
}

proptest! {
    #[test]
    fn changed_inputs_pass_too(which in 0usize..4, input in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte: u8) {
        let (target, check) = targets()[which];
        let inputs = corpus(target);
        let mut changed = input.get(&inputs).clone();
        if !changed.is_empty() {
            let at = at.index(changed.len());
            changed[at] = byte;
        }
        check(&changed);
    }
}
