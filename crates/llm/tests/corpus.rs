//! The corpus of the fuzz targets, and changes of it, without a fuzzer.

#[path = "support/checks.rs"]
#[allow(unreachable_pub)]
mod checks;

use proptest::prelude::*;
use std::path::Path;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let files = std::fs::read_dir(&folder).expect("a corpus");
    files.map(|file| std::fs::read(file.expect("an entry").path()).expect("a file")).collect()
}

#[test]
fn every_file_of_the_corpus() {
    let (requests, streams, translations) = (corpus("request"), corpus("stream"), corpus("translate"));
    let forms = corpus("form");
    assert!(requests.len() > 3 && streams.len() > 3 && translations.len() > 3 && forms.len() > 3);
    forms.iter().for_each(|input| checks::form(input));
    requests.iter().for_each(|body| checks::request(body));
    requests.iter().for_each(|body| checks::cache_key(body));
    streams.iter().for_each(|input| checks::stream(input));
    streams.iter().for_each(|input| checks::splice(input));
    translations.iter().for_each(|input| checks::translate(input));
}

/// A file with some bytes replaced, and a part of it repeated.
fn changed(target: &str) -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop::sample::select(b"{}[]\",:\\ \r\n0e.a\xff\0".to_vec());
    let changes = prop::collection::vec((any::<prop::sample::Index>(), bytes), 0..6);
    (prop::sample::select(corpus(target)), changes, any::<[prop::sample::Index; 2]>()).prop_map(
        |(mut file, changes, part)| {
            for (at, byte) in changes {
                let at = at.index(file.len());
                file[at] = byte;
            }
            let [a, b] = part.map(|index| index.index(file.len() + 1));
            let again = file[a.min(b)..a.max(b)].to_vec();
            file.extend(again);
            file
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn changed_requests(body in changed("request")) {
        checks::request(&body);
        checks::cache_key(&body);
    }

    #[test]
    fn changed_forms(input in changed("form")) {
        checks::form(&input);
    }

    #[test]
    fn changed_streams(input in changed("stream")) {
        checks::stream(&input);
        checks::splice(&input);
    }

    #[test]
    fn changed_translations(input in changed("translate")) {
        checks::translate(&input);
    }
}
