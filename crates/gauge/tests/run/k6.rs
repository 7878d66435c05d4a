//! k6 in place of Gauge's own generator: phases over REST and over gRPC in one evaluation. `scripts/suites/50-gauge-tools.sh` installs it and runs these tests.

use super::campaign::Campaign;

/// gauge's demonstration service twice, called in each of its protocols.
const SERVICES: &str = "name: k6
api: api.yaml
systems:
  - name: rest
    command: ['{gauge}', demo, --listen, '{address}:{http}']
    ports: {http: 'http://127.0.0.1:8090'}
    ready: 'http://{address}:{http}/healthz'
  - name: calls
    command: ['{gauge}', demo, --listen, '{address}:{port}']
    ports: {port: 'http://127.0.0.1:8090'}
    ready: 'grpc://{address}:{port}'
    grpc: {proto: items.proto, methods: {addItem: gauge.demo.Items/Add}}
control: false
repeats: 1
workloads:
  - name: write
    generator: k6
    operations: [{id: addItem}]
    load:
      phases:
        - {name: up, warmup: true, closed: {users: 2, duration: 1s}}
        - {name: few, closed: {users: 2, duration: 2s, think: {mean: 2ms}}}
        - {name: rate, open: {rate: 200/s, duration: 2s, connections: 8}}
";

const PROTO: &str = include_str!("../../../../examples/evaluations/grpc.proto");

fn campaign(text: &str) -> Campaign {
    let campaign = Campaign::new(text);
    campaign.file("items.proto", PROTO);
    campaign
}

#[test]
#[ignore = "needs k6"]
fn phases_of_k6_are_observed_and_judged_as_those_of_gauge() {
    let campaign = campaign(SERVICES);
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    let results = campaign.json("results.json");
    for (system, status, protocol) in [("rest", "201", "HTTP/1.1"), ("calls", "200", "gRPC")] {
        let trial = campaign.trials().into_iter().find(|trial| trial["system"] == system).expect("a trial");
        let report = &trial["report"];
        assert_eq!((&report["generator"]["name"], &report["generator"]["protocol"]), (&"k6".into(), &protocol.into()));
        let phases = report["phases"].as_array().expect("phases");
        let names: Vec<_> = phases.iter().map(|phase| (&phase["name"], &phase["measured"])).collect();
        assert_eq!(names, [(&"few".into(), &true.into()), (&"rate".into(), &true.into())], "the warm-up is before it");
        let mut sum = 0;
        for phase in phases {
            let total = &phase["total"];
            let responses = total["requests"]["responses"].as_u64().expect("counted");
            assert!(responses > 0 && total["latency"]["p99_ms"].as_f64() > Some(0.0), "{total}");
            assert_eq!(
                (&total["statuses"][status], &total["errors"]["total"]),
                (&responses.into(), &0.into()),
                "{total}"
            );
            sum += responses;
        }
        assert_eq!(
            (&report["total"]["requests"]["responses"], report["total"]["duration_s"].as_f64()),
            (&sum.into(), Some(4.0))
        );
        let rate = &phases[1]["total"];
        assert_eq!((&rate["rate"]["requested"], &rate["requests"]["dropped"]), (&200.0.into(), &0.into()), "{rate}");
        // What k6 needs to start is not in what was observed: the processes are read when its load begins.
        let observed = trial["observed"]["duration_s"].as_f64().expect("seconds");
        let last = phases[1]["start_s"].as_f64().expect("seconds") + 2.0;
        assert!(observed >= last, "{observed} of {last}");
        assert!(super::super::cpu(&trial, "system") > Some(0.0), "{}", trial["observed"]);
        let row = results["judgement"]["rows"].as_array().expect("rows").iter().find(|row| row["system"] == system);
        let row = row.expect("a row");
        // On a machine that gave its time to others the only round counts for nobody, and has no figures.
        if row["rounds"].as_array().is_some_and(|rounds| !rounds.is_empty()) {
            for phase in row["phases"].as_array().expect("phases") {
                assert!(phase["requests"].as_u64() > Some(0) && phase["rate"].as_f64() > Some(0.0), "{phase}");
                assert!(phase["cpu_percent"].is_f64() && phase["memory_mb_per_request"].is_f64(), "{phase}");
            }
        }
    }
    let report = std::fs::read_to_string(campaign.out.join("report.md")).expect("a report");
    assert!(report.contains("| rate | calls | 200/s, 2 s |"), "{report}");
    campaign.nothing_runs();
}

/// It ends as soon as it is started: the trial has no figures, and the campaign says why.
#[test]
fn a_k6_that_ends_at_once_is_said() {
    let campaign = campaign(&SERVICES.replace("repeats: 1", "repeats: 1\nwarmup: 0s"));
    let tool = campaign.script("k6", "echo 'out of memory' >&2\nexit 137");
    let finished = campaign.run_with(&[], &[("K6", &tool)]);
    assert_ne!(finished.code, 0, "{}", finished.text());
    assert!(finished.text().contains("out of memory"), "{}", finished.text());
    campaign.nothing_runs();
}

#[test]
fn what_k6_cannot_do_is_refused_when_the_evaluation_is_read() {
    let campaign = campaign(SERVICES);
    for (from, to, named) in [
        ("duration: 2s, connections: 8", "duration: 2s, arrivals: poisson", "phase `rate`: `open.arrivals: poisson`"),
        (
            "closed: {users: 2, duration: 2s, think: {mean: 2ms}}",
            "closed: {users: 2, iterations: 9}",
            "phase `few`: `closed.iterations` without `closed.duration`",
        ),
        ("gauge.demo.Items/Add}", "gauge.demo.Items/AddAll}", "`gauge.demo.Items/AddAll` takes or returns a stream"),
        ("generator: k6", "generator: {k6: mine.js}", "not by k6 with a script"),
        ("generator: k6", "generator: wrk", "wrk cannot do this workload: several phases"),
    ] {
        campaign.rewrite(&SERVICES.replace(from, to));
        let finished = campaign.gauge(&["run", "--check"]);
        assert!(finished.code != 0 && finished.stderr.contains(named), "{named}: {}", finished.text());
    }
    campaign.rewrite(SERVICES);
    assert_eq!(campaign.gauge(&["run", "--check"]).code, 0);
}
