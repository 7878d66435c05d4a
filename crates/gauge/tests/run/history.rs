//! What a run does with the history and with thresholds.

use super::campaign::{Campaign, GATEWAYS};

/// One round of one gateway.
fn short(more: &str) -> Campaign {
    Campaign::new(&format!("{}control: false\n{more}", GATEWAYS.replace("repeats: 2", "repeats: 1")))
}

#[test]
fn a_threshold_fails_a_run_that_is_stored_and_reported_all_the_same() {
    let campaign = short("fail: {p50: '>10s', mean: '>1us', rate: '<1/s'}\n");
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 99, "{}", finished.text());
    // On a machine that gave its time to others, the only round counts for nobody, and nothing could be checked.
    let checked = "gauge: fail: nginx under read: mean is ";
    assert!(finished.stderr.contains(checked) || finished.stderr.contains("not checked"), "{}", finished.text());
    let fails: Vec<&str> = finished.stderr.lines().filter(|line| line.starts_with("gauge: fail: ")).collect();
    assert!(fails.iter().all(|line| !line.contains("p50 is") && !line.contains("direct under")), "{}", finished.text());
    assert!(campaign.out.join("report.html").exists());
    let listed = campaign.gauge(&["list", "--api", "nginx"]);
    assert!(listed.stdout.contains("  done    1  "), "{}", listed.text());
    // It is part of what was measured, and is in the directory.
    assert_eq!(campaign.json("raw/campaign.json")["fail"][0]["written"], ">1us");
}

#[test]
fn a_history_that_was_named_is_needed_and_the_default_is_not() {
    let campaign = short("");
    let refused = campaign.run(&["--store", "postgres://127.0.0.1:1/x"]);
    assert_eq!(refused.code, 69, "{}", refused.text());
    assert!(refused.stderr.contains("postgres://127.0.0.1:1/x") && !campaign.out.exists(), "{}", refused.text());
    // A file is where the folder of the default would be.
    campaign.file("data", "");
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    assert!(finished.stderr.contains("stored in its files only"), "{}", finished.text());
    let none = campaign.run(&["--store", "none"]);
    assert!(none.code == 0 && !none.stderr.contains("stored"), "{}", none.text());
}
