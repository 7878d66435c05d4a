//! Golden cases of files that are wrong. Each case of `bad-config/` is one file: the configuration, a line of dashes, and what is
//! reported. `WEIR_UPDATE=1 cargo test -p weir --test bad_config` writes what is reported now; read the difference before it is committed.

use std::fmt::Write;
use std::path::Path;

use weir::config::load_text;

const SEPARATOR: &str = "\n----------\n";

/// The variables that the cases see.
fn environment(name: &str) -> Option<String> {
    let value = match name {
        "EMPTY" => "",
        "PORT" => "8080",
        "WORD" => "word",
        "STRUCTURE" => "x\nroutes: []\nadmin: {a: b}",
        "SECRET" => "s3cr3t",
        _ => return None,
    };
    Some(value.to_owned())
}

#[test]
fn every_bad_file_is_refused_as_written_beside_it() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad-config");
    let update = std::env::var_os("WEIR_UPDATE").is_some();
    let mut cases = 0;
    let mut wrong = String::new();
    let mut paths: Vec<_> = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        cases += 1;
        let case = std::fs::read_to_string(&path).unwrap();
        let (input, expected) = case.split_once(SEPARATOR).unwrap_or((case.trim_end_matches('\n'), ""));
        let reported = match load_text("weir.yaml", &format!("{input}\n"), &environment) {
            Ok(_) => "accepted\n".to_owned(),
            Err(problems) => format!("{problems}\n"),
        };
        assert!(!reported.contains("s3cr3t"), "{}: a secret is shown", path.display());
        if update {
            std::fs::write(&path, format!("{input}{SEPARATOR}{reported}")).unwrap();
        } else if reported != expected || reported == "accepted\n" {
            let name = path.file_name().unwrap().to_string_lossy();
            writeln!(wrong, "{name}:\nexpected:\n{expected}reported:\n{reported}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(cases >= 60, "only {cases} cases were found in {}", directory.display());
}
