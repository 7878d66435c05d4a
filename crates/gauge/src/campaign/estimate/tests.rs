use std::time::Duration;

use super::Estimate;
use crate::plan::Plan;

fn estimate(workloads: &str) -> Estimate {
    let folder = tempfile::tempdir().expect("a folder");
    let api = "openapi: 3.1.0\ninfo: {title: A, version: '1'}\nservers: [{url: 'http://127.0.0.1:9001'}]\npaths: {/a: {get: {operationId: a, responses: {}}}}\n";
    std::fs::write(folder.path().join("api.yaml"), api).expect("a file");
    let text = format!(
        "name: t\napi: api.yaml\ngateways: [nginx, weir]\nrepeats: 3\nwarmup: 1s\nslo: {{p99: 50ms}}\nworkloads:\n{workloads}"
    );
    let file = folder.path().join("e.yaml");
    std::fs::write(&file, text).expect("a file");
    Estimate::of(&Plan::read(&file).unwrap_or_else(|error| panic!("{error}")))
}

fn workload(name: &str, load: &str) -> String {
    format!("  - {{name: {name}, operations: [{{id: a}}], load: {load}}}\n")
}

#[test]
fn trials_of_a_planned_length_are_added_up_with_their_warm_up() {
    let two = workload("a", "{closed: {users: 2, duration: 4s}}") + &workload("b", "{mode: short}");
    // The baseline, two gateways and an A/A control, each three times under 5 s and 12 s; the gateways are started once more for their check.
    let expected = Estimate { starts: 3 * 3 + 2, timed: 24, load: Duration::from_secs(12 * (5 + 12)), open: 0 };
    assert_eq!(estimate(&two), expected);
}

#[test]
fn trials_whose_length_is_not_known_are_counted() {
    let open = workload("a", "{mode: smoke}") + &workload("b", "{search: {rounds: 2, duration: 1s}}");
    let expected = Estimate { starts: 11, timed: 0, load: Duration::ZERO, open: 4 * 3 + 4 * 2 };
    assert_eq!(estimate(&open), expected);
}
