//! Services beside each other, without gateways: started one at a time, emptied and proved before each trial.

use serde_json::Value;

use super::campaign::Campaign;

/// gauge's demonstration service under two names, with steps that leave a line for each trial.
const SERVICES: &str = "name: services
api: api.yaml
systems:
  - name: one
    command: ['{gauge}', demo, --listen, '{address}:{http}']
    env: {MARK: 'mark of {system}'}
    ports: {http: 'http://127.0.0.1:8090'}
    ready: 'http://{address}:{http}/healthz'
  - name: two
    command: ['{gauge}', demo, --listen, '{address}:{port_of_two}']
    ports: {port_of_two: 'http://127.0.0.1:8090'}
    ready: 'tcp://{address}:{port_of_two}'
before_each:
  - {run: [sh, -c, 'echo \"{system} $MARK\" >> {folder}/steps']}
  - {send: addItem}
  - {run: [sh, -c, 'echo \" 1\"'], prints: 1}
repeats: 2
warmup: 100ms
workloads:
  - {name: write, operations: [{id: addItem}], load: {closed: {users: 4, duration: 300ms}}}
";

fn systems(campaign: &Campaign) -> Vec<Value> {
    campaign.json("raw/campaign.json")["systems"].as_array().cloned().unwrap_or_default()
}

#[test]
fn services_are_measured_one_at_a_time_without_a_baseline() {
    let campaign = Campaign::new(SERVICES);
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    assert!(finished.stderr.contains("2 services, 2 rounds"), "{}", finished.text());
    let roles: Vec<Value> = systems(&campaign).iter().map(|system| system["role"].clone()).collect();
    assert_eq!(roles, [Value::from("service"), "service".into(), serde_json::json!({"control_of": "one"})]);
    let trials = campaign.trials();
    assert_eq!(trials.len(), 6, "two rounds of two services and a control");
    for trial in &trials {
        assert_eq!(trial["state"], "done", "{trial}");
        assert_eq!(trial["report"]["total"]["errors"]["total"], 0, "{trial}");
        assert!(super::super::cpu(trial, "system") > Some(0.0), "{}", trial["observed"]);
        assert!(trial["observed"]["upstream"].is_null(), "there is none: {}", trial["observed"]);
    }
    // Once at the check, and before each trial, with the environment of the service; a trial may have been repeated.
    let steps = std::fs::read_to_string(campaign.path("steps")).expect("steps");
    let count = |line: &str| steps.lines().filter(|own| *own == line).count();
    assert!(count("one mark of one") >= 5 && count("two ") >= 3, "{steps}");
    let listed = campaign.gauge(&["list", "--api", "two"]);
    assert!(listed.code == 0 && listed.stdout.contains("  done    2  "), "{}", listed.text());
    let results = campaign.json("results.json");
    let reference = &results["judgement"]["reference"];
    assert!(*reference == "one" || campaign.was_disturbed(), "{}", results["judgement"]["decision"]);
    campaign.nothing_runs();
}

#[test]
fn a_service_that_does_not_store_is_not_loaded() {
    // It stores nothing under its own name, which the other one does.
    let proof = "  - {run: [sh, -c, 'test {system} = one && echo 1 || echo 0'], prints: 1}\nrepeats: 1";
    let campaign = Campaign::new(&SERVICES.replace("repeats: 2", &format!("{proof}\ncontrol: false")));
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 99, "it has not passed: {}", finished.text());
    assert!(
        finished.stderr.contains("gauge: fail: two: not checked: it does not do what is required"),
        "{}",
        finished.text()
    );
    let systems = systems(&campaign);
    assert_eq!((&systems[0]["state"], &systems[1]["state"]), (&"ready".into(), &"not_conforming".into()));
    let difference = &systems[1]["conformance"]["differences"][0];
    assert_eq!(difference["what"], "before each trial");
    assert!(difference["found"].as_str().is_some_and(|found| found.contains("printed `0` instead of `1`")));
    assert!(campaign.trials().iter().all(|trial| trial["system"] == "one"));
}

#[test]
fn a_service_that_does_not_start_or_responds_otherwise_fails_alone() {
    let text = SERVICES.replace(
        "command: ['{gauge}', demo, --listen, '{address}:{port_of_two}']",
        "command: [sh, -c, 'echo no database; exit 3']",
    );
    let campaign = Campaign::new(&text.replace("repeats: 2", "repeats: 1\ncontrol: false"));
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 99, "{}", finished.text());
    let outcomes = campaign.json("results.json")["judgement"]["outcomes"].clone();
    assert_eq!((&outcomes[1]["system"], &outcomes[1]["outcome"]), (&"two".into(), &"fail".into()), "{outcomes}");
    assert_ne!(outcomes[0]["outcome"], "fail", "{outcomes}");
    let why = systems(&campaign)[1]["state"]["failed"].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("it ended at its start") && why.contains("no database"), "{why}");
    assert_eq!(campaign.trials().len(), 1, "the other ran");
    let refusing =
        Campaign::new(&SERVICES.replace("operations: [{id: addItem}]", "operations: [{id: addItem, expect: [204]}]"));
    let finished = refusing.run(&[]);
    assert_eq!(finished.code, 1, "{}", finished.text());
    let differences = systems(&refusing)[0]["conformance"]["differences"].clone();
    assert!(differences.to_string().contains("responded with 201"), "{differences}");
}

#[test]
fn a_command_that_fails_before_a_trial_ends_it_with_the_reason() {
    let campaign = Campaign::new(&SERVICES.replace("'echo \" 1\"'", "'echo no such table >&2; exit 7'"));
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 69, "{}", finished.text());
    assert!(finished.stderr.contains("no such table"), "{}", finished.text());
    campaign.nothing_runs();
}

#[test]
fn phases_are_planned_observed_and_judged_one_by_one() {
    let phases = "load: {phases: [{name: few, closed: {users: 2, duration: 1s}}, {name: many, closed: {users: 8, duration: 1500ms}}]}";
    let text = SERVICES.replace("load: {closed: {users: 4, duration: 300ms}}", phases);
    let text = text.replace("operations: [{id: addItem}]", "operations: [{id: addItem, body: {event: 4k}}]");
    let campaign = Campaign::new(&text.replace("repeats: 2", "repeats: 1\ncontrol: false"));
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    let results = campaign.json("results.json");
    let plan = &results["workloads"][0];
    assert_eq!((&plan["phases"][1]["name"], &plan["phases"][1]["concurrency"]), (&"many".into(), &8.0.into()));
    assert_eq!(plan["payload"], "4k");
    for trial in campaign.trials() {
        assert_eq!((&trial["payload"], &trial["report"]["total"]["errors"]["total"]), (&"4k".into(), &0.into()));
        let sample = &trial["observed"]["system"]["samples"][0];
        assert!(sample["pss_bytes"].as_u64() > Some(0) && sample["context_switches"].is_u64(), "{sample}");
        let total = &trial["report"]["total"];
        let per_request = total["bytes"]["sent"].as_f64().zip(total["requests"]["sent"].as_f64());
        let bytes = per_request.map_or(0.0, |(bytes, requests)| bytes / requests);
        assert!((4050.0..4500.0).contains(&bytes), "a request has {bytes} bytes with its head");
    }
    // On a machine that gave its time to others the only round counts for nobody, and has no figures.
    let rows = results["judgement"]["rows"].as_array().expect("rows");
    for row in rows.iter().filter(|row| row["rounds"].as_array().is_some_and(|rounds| !rounds.is_empty())) {
        let phases = row["phases"].as_array().expect("phases");
        assert_eq!(phases.len(), 2, "{row}");
        for phase in phases {
            assert!(phase["requests"].as_u64() > Some(0) && phase["rate"].as_f64() > Some(0.0), "{phase}");
            assert!(phase["cpu_percent"].as_f64() > Some(0.0) && phase["memory_mb_per_request"].is_f64(), "{phase}");
        }
    }
    let samples = std::fs::read_to_string(campaign.out.join("samples.csv")).expect("samples");
    assert!(samples.lines().any(|line| line.starts_with("r01-two.write,system,")), "{samples}");
    let report = std::fs::read_to_string(campaign.out.join("report.md")).expect("a report");
    assert!(report.contains("| many | two | 8 users, 1.50 s |"), "{report}");
    let listed = campaign.gauge(&["list", "--payload", "4k"]);
    assert_eq!(listed.stdout.lines().count(), 3, "{}", listed.text());
    let id = listed.stdout.lines().nth(1).and_then(|line| line.split_whitespace().next()).expect("an id").to_owned();
    let shown = campaign.gauge(&["show", &id]);
    let disturbed = campaign.was_disturbed();
    assert!(disturbed || shown.stdout.contains("phases of write\n"), "{}", shown.text());
    let phases = campaign.gauge(&["export", &id, "-", "--format", "csv", "--rows", "phases"]).stdout;
    let warm_ups = phases.lines().filter(|line| line.contains(",false,")).count();
    assert_eq!((phases.lines().count(), warm_ups), (1 + 2 * 3, 2), "{phases}");
    assert!(phases.lines().any(|line| line.contains(",two,write,,4k,many,true,8,")), "{phases}");
    let exported = campaign.gauge(&["export", &id, "-", "--format", "csv", "--rows", "samples"]).stdout;
    assert!(exported == samples, "{exported}");
    let refused = campaign.gauge(&["export", &id, "-", "--format", "json", "--rows", "samples"]);
    assert!(refused.code == 64 && refused.stderr.contains("leave out --rows"), "{}", refused.text());
}

#[test]
fn a_smoke_load_is_one_user_and_five_requests() {
    let text = SERVICES.replace("load: {closed: {users: 4, duration: 300ms}}", "load: {mode: smoke}");
    let campaign = Campaign::new(&text.replace("repeats: 2", "repeats: 1\ncontrol: false"));
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    for trial in campaign.trials() {
        assert_eq!(trial["report"]["total"]["requests"]["sent"], 5, "{trial}");
        assert_eq!(trial["report"]["phases"].as_array().map(Vec::len), Some(1), "no warm-up: {trial}");
        assert_eq!(trial["mode"], "smoke", "{trial}");
    }
    for (option, value, lines) in
        [("--mode", "smoke", 3), ("--mode", "full", 1), ("--workload", "write", 3), ("--workload", "smoke", 1)]
    {
        let listed = campaign.gauge(&["list", option, value]);
        assert_eq!(listed.stdout.lines().count(), lines, "{option} {value}: {}", listed.text());
    }
}
