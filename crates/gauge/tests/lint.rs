//! `gauge lint` on published figures, which must be found wrong by themselves, and on what it cannot read.

use std::path::Path;
use std::process::Command;

/// Output lines and exit code.
fn lint(arguments: &[&str]) -> (Vec<String>, i32) {
    let output = Command::new(env!("CARGO_BIN_EXE_gauge"))
        .arg("lint")
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden"))
        .output()
        .expect("gauge runs");
    let text = String::from_utf8(output.stdout).expect("text");
    (text.lines().map(str::to_owned).collect(), output.status.code().expect("an exit code"))
}

/// The names of the verdicts on one file.
fn names(lines: &[String], file: &str) -> Vec<String> {
    lines
        .iter()
        .filter_map(|line| line.strip_prefix(&format!("{file}: ")))
        .filter_map(|rest| rest.split_once(": "))
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// 200 connections / 0.98 ms = 204,000/s, and 265,142 were published; the other three rows are coherent.
#[test]
fn gates_break_littles_law_by_30_percent_and_the_other_three_rows_do_not() {
    let (lines, code) = lint(&[
        "published/section2-through-fiber.txt",
        "published/section2-direct.txt",
        "published/section2-gates.txt",
        "published/section2-messages.txt",
    ]);
    assert_eq!(code, 1);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with(
            "published/section2-gates.txt: littles-law: 200 users that wait 0.98 ms for each response make at most 204,082 requests/s, and 265,142 are claimed: 30 % more"
        ),
        "{lines:?}"
    );
}

#[test]
fn a_gateway_beside_its_baseline_has_headroom_and_a_faster_one_would_not() {
    let direct = "published/section2-direct.txt";
    let (lines, code) = lint(&["--direct", direct, "published/section2-through-fiber.txt"]);
    assert_eq!((lines, code), (vec![], 0), "94,010 is 1.44 times 65,505");
    let (lines, code) = lint(&["--direct", direct, "published/section2-messages.txt"]);
    assert_eq!(code, 1);
    assert_eq!(names(&lines, "published/section2-messages.txt"), ["generator-bound"], "94,010 is 1.14 times 82,198");
}

/// 256 workers / 4.2 ms: the generator was the limit. 429 is what a limiter is for.
#[test]
fn two_limiters_were_no_faster_because_the_generator_was_the_limit() {
    let file = "published/section3-two-replicas.json";
    let (lines, code) = lint(&["--rate", "100000", "--concurrency", "256", "--expect", "200,429", file]);
    assert_eq!(code, 1);
    assert_eq!(names(&lines, file), ["generator-bound", "rate-not-achieved"], "{lines:?}");
    assert!(
        lines[0].contains("100,000 requests/s were requested, and with 256 workers that wait 4.20 ms"),
        "{lines:?}"
    );
    // Without knowing that, all that is seen is that 429 was not expected.
    let (lines, _) = lint(&[file]);
    assert_eq!(names(&lines, file), ["errors"]);
}

#[test]
fn rest_services_sat_at_the_generators_ceiling() {
    for file in [
        "published/section5-full-rust-rest.json",
        "published/section5-full-go-rest.json",
        "published/section5-full-java-rest.json",
        "published/section5-saturation-rust-rest.json",
        "published/section5-saturation-go-rest.json",
        "published/section5-saturation-java-rest.json",
    ] {
        let (lines, code) = lint(&["--think", "100ms", file]);
        assert_eq!(code, 1);
        assert_eq!(names(&lines, file), ["generator-bound", "few-samples"], "{lines:?}");
        assert!(lines[1].contains("hold no p90, p95 or p99"), "{lines:?}");
    }
}

#[test]
fn grpc_services_stopped_early_and_nobody_counted_their_errors() {
    for name in ["go-grpc", "java-grpc", "rust-grpc"] {
        let file = &format!("published/section5-saturation-{name}.json");
        let (lines, code) = lint(&["--duration", "840s", file]);
        assert_eq!(code, 1);
        assert_eq!(names(&lines, file), ["truncated", "errors-unmeasured", "few-samples"], "{lines:?}");
    }
    let (lines, _) = lint(&["--duration", "840s", "published/section5-saturation-go-grpc.json"]);
    assert!(
        lines[0].contains("it ran 382 s of the 840 s that were planned (46 %)")
            || lines[0].contains("382.4 s of the 840 s"),
        "{lines:?}"
    );
}

#[test]
fn exit_codes_are_0_clean_1_findings_2_unreadable() {
    assert_eq!(lint(&["published/section2-direct.txt"]).1, 0);
    assert_eq!(lint(&["import/wrk-non2xx.txt"]).1, 1);
    assert_eq!(lint(&["no-such-file"]).1, 2);
    assert_eq!(lint(&["published/README.md"]).1, 2);
    // What can be read is told of nevertheless.
    let (lines, code) = lint(&["no-such-file", "published/section2-gates.txt"]);
    assert_eq!((lines.len(), code), (1, 2));
}

#[test]
fn as_json() {
    let (lines, code) = lint(&["--json", "published/section2-gates.txt", "published/section2-direct.txt"]);
    assert_eq!(code, 1);
    let outcomes: serde_json::Value = serde_json::from_str(&lines.join("\n")).expect("JSON");
    assert_eq!(outcomes[0]["file"], "published/section2-gates.txt");
    assert_eq!(outcomes[0]["verdicts"][0]["name"], "littles-law");
    assert_eq!(outcomes[1]["verdicts"], serde_json::json!([]));
    assert_eq!(outcomes[1]["error"], serde_json::Value::Null);
}

#[test]
fn every_golden_result_can_be_linted() {
    for entry in
        std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/import")).expect("a directory")
    {
        let path = entry.expect("an entry").path();
        let (_, code) = lint(&[path.to_str().expect("text")]);
        assert!(code == 0 || code == 1, "{}: {code}", path.display());
    }
}
