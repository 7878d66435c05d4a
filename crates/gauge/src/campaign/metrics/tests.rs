use super::*;
use crate::campaign::progress::LoadMoment;

fn moment(trial: &str, responses: u64, errors: u64) -> Moment {
    let load = LoadMoment { responses, errors, rate: 5.0, p99_ms: Some(2.0), ..LoadMoment::default() };
    let part = PartMoment { cpu_percent: 150.0, memory_bytes: 7 };
    Moment { trial: trial.to_owned(), load: Some(load), system: Some(part), ..Moment::default() }
}

fn metrics() -> RunMetrics {
    let metrics = RunMetrics::default();
    let plan = |name: &str| WorkloadPlan {
        name: name.to_owned(),
        operations: Vec::new(),
        generator: "gauge".to_owned(),
        load: String::new(),
        weight: 1.0,
        planned: Planned { rate: Some(40.0), ..Planned::default() },
        phases: Vec::new(),
        payload: None,
        mode: None,
        treatment: None,
    };
    metrics.with(|state| {
        state.systems = vec!["a".to_owned(), "a\"b".to_owned()];
        state.workloads = vec![plan("read"), plan("read-more")];
    });
    metrics
}

#[test]
fn counters_never_fall_and_belong_to_the_system_in_the_name() {
    let metrics = metrics();
    let count = |text: &str, line: &str| {
        let found = text.lines().find_map(|own| own.strip_prefix(line));
        found.and_then(|value| value.trim().parse::<u64>().ok())
    };
    metrics.moment(&moment("r01-a.read-more", 10, 1));
    metrics.moment(&moment("r01-a.read-more", 25, 2));
    let line = "gauge_responses_total{system=\"a\",workload=\"read-more\"}";
    assert_eq!(count(&metrics.text(), line), Some(25));
    // The trial is repeated: its generator begins anew.
    metrics.moment(&moment("r01-a.read-more", 4, 0));
    assert_eq!(count(&metrics.text(), line), Some(29));
    assert_eq!(count(&metrics.text(), "gauge_failures_total{system=\"a\",workload=\"read-more\"}"), Some(2));
    let text = metrics.text();
    assert!(
        text.contains("gauge_processors_used{system=\"a\",workload=\"read-more\",part=\"system\"} 1.5\n"),
        "{text}"
    );
    assert!(
        text.contains(
            "gauge_latency_seconds{system=\"a\",workload=\"read-more\",phase=\"\",percentile=\"99\"} 0.002\n"
        )
    );
    assert!(text.contains("gauge_planned_requests_per_second{system=\"a\",workload=\"read-more\",phase=\"\"} 40\n"));
    metrics.ended();
    let text = metrics.text();
    assert!(!text.contains("gauge_trial_info") && text.contains(line), "{text}");
}

#[test]
fn labels_are_escaped_and_each_family_is_described_once() {
    let metrics = metrics();
    metrics.moment(&moment("r01-a\"b.read", 1, 0));
    let text = metrics.text();
    assert!(text.contains("system=\"a\\\"b\""), "{text}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        assert_eq!(text.matches(&format!("# TYPE {name} ")).count(), 1, "{name}");
    }
}
