//! `gauge run` as its user runs it: nginx and the baseline in front of gauge's own demonstration service.

mod run {
    pub(crate) mod campaign;
    mod going_on;
    mod grpc;
    mod history;
    mod k6;
    mod killed;
    mod llm;
    mod machines;
    mod made;
    mod metrics;
    mod names;
    mod profiles;
    mod services;
    mod ssh;
}

use run::campaign::{Campaign, GATEWAYS};
use serde_json::Value;

/// One gateway under a short load.
pub(crate) fn endless() -> String {
    format!("{}baseline: false\ncontrol: false\n", GATEWAYS.replace("duration: 300ms", "duration: 300s"))
}

/// CPU time of a part of a run.
pub(crate) fn cpu(run: &Value, part: &str) -> Option<f64> {
    let of = |field: &str| run["observed"][part][field].as_f64();
    Some(of("user_s")? + of("system_s")?)
}

#[test]
fn rounds_are_run_forwards_and_backwards_and_reported() {
    let campaign = Campaign::new(GATEWAYS);
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    assert!(finished.stdout.contains("6 trials; report: "), "{}", finished.text());
    for file in ["report.html", "report.md", "results.json", "results.csv", "raw/campaign.json"] {
        assert!(campaign.out.join(file).is_file(), "{file} is missing");
    }
    let runs = campaign.trials();
    assert_eq!(runs.len(), 6, "two rounds of direct, nginx and its control");
    let order = |round: u64| {
        let mut of: Vec<(u64, &str)> = runs
            .iter()
            .filter(|run| run["round"] == round)
            .map(|run| (run["place"].as_u64().unwrap_or(9), run["system"].as_str().unwrap_or_default()))
            .collect();
        of.sort_unstable();
        of.into_iter().map(|(_, system)| system).collect::<Vec<_>>()
    };
    assert_eq!(order(1), ["direct", "nginx", "nginx (control)"]);
    assert_eq!(order(2), ["nginx (control)", "nginx", "direct"]);
    for run in &runs {
        assert_eq!(run["state"], "done", "{run}");
        let total = &run["report"]["total"];
        assert!(total["requests"]["responses"].as_u64() > Some(0) && total["errors"]["total"] == 0, "{total}");
        // The processes are read before the first request and after the last response.
        let seconds = |of: &Value| of["duration_s"].as_f64().expect("seconds");
        assert!(seconds(&run["observed"]) >= seconds(total), "{} {}", run["observed"], total["duration_s"]);
        let used = |part: &str| cpu(run, part);
        assert_eq!(used("system").is_some(), run["system"] != "direct", "{run}");
        assert!(used("upstream") > Some(0.0) && used("generator") > Some(0.0), "{}", run["observed"]);
        assert!(run["observed"]["system"].is_null() || used("system") > Some(0.0), "{}", run["observed"]);
    }
    let results = campaign.json("raw/campaign.json");
    let nginx = &results["systems"][1];
    assert_eq!(nginx["conformance"]["differences"], Value::Array(Vec::new()));
    assert!(nginx["version"].as_str().is_some_and(|version| version.starts_with('1')), "{nginx}");
    assert_eq!(results["systems"][2]["role"]["control_of"], "nginx");
    let congestion = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").expect("Linux says it");
    assert_eq!(results["environment"]["congestion_control"], congestion.trim());
    assert!(results["ended_unix_ms"].is_u64());
    for file in ["tmp", "state.json"] {
        assert!(!campaign.out.join(file).exists(), "{file} is of no use any more");
    }
    campaign.nothing_runs();
}

#[test]
fn a_campaign_that_is_done_is_reported_again_and_not_run_again() {
    let campaign = Campaign::new(GATEWAYS);
    assert_eq!(campaign.run(&[]).code, 0);
    let before = campaign.raw();
    std::fs::remove_file(campaign.out.join("report.html")).expect("there was a report");
    let again = campaign.run(&[]);
    assert_eq!(again.code, 0, "{}", again.text());
    assert_eq!(campaign.raw(), before, "nothing was measured again");
    assert!(campaign.out.join("report.html").is_file());
    // Another evaluation does not overwrite it unless told to.
    campaign.rewrite(&GATEWAYS.replace("users: 4", "users: 5"));
    let other = campaign.run(&[]);
    assert_eq!(other.code, 64, "{}", other.text());
    assert!(
        other.stderr.contains("results of another evaluation") && other.stderr.contains("--fresh"),
        "{}",
        other.text()
    );
    assert_eq!(campaign.raw(), before);
    assert_eq!(campaign.run(&["--fresh"]).code, 0);
    assert_ne!(campaign.raw(), before);
}

#[test]
fn a_killed_campaign_leaves_nothing_behind_and_goes_on_where_it_was() {
    let campaign = Campaign::new(GATEWAYS);
    let process = campaign.start();
    // The second round has begun, and a gateway runs.
    campaign.wait_for(|raw| raw.iter().any(|(name, _)| name.starts_with("r02-")));
    campaign.wait_until_something_runs();
    process.kill();
    let before = campaign.raw();
    assert!(!before.iter().any(|(name, _)| name.contains("r02-direct")), "it was killed too late to show anything");
    let listed = campaign.gauge(&["list"]);
    assert!(listed.code == 0 && listed.stdout.contains("  aborted  "), "{}", listed.text());
    let again = campaign.run(&[]);
    assert_eq!(again.code, 0, "{}", again.text());
    assert!(again.stderr.contains("continuing:"), "{}", again.text());
    campaign.nothing_runs();
    let after = campaign.raw();
    let kept = |round: &str| before.iter().filter(|(name, _)| name.starts_with(round)).cloned().collect::<Vec<_>>();
    assert_eq!(kept("r01-").len(), 3);
    for run in kept("r01-").iter().chain(&kept("r02-nginx-control.read")) {
        assert!(after.contains(run), "{} was measured again", run.0);
    }
    assert_eq!(campaign.trials().len(), 6);
    let listed = campaign.gauge(&["list"]);
    let done = listed.stdout.lines().filter(|line| line.contains("  done    2  ")).count();
    assert_eq!((listed.stdout.lines().count(), done), (4, 3), "{}", listed.text());
}

#[test]
fn what_a_killed_campaign_left_running_is_ended_by_the_next_command() {
    let campaign = Campaign::new(GATEWAYS);
    let process = campaign.start();
    campaign.wait_for(|raw| raw.iter().any(|(name, _)| name.starts_with("r01-")));
    campaign.wait_until_something_runs();
    process.kill();
    // Another evaluation, which starts nothing at all.
    let check = campaign.gauge(&["run", "--check"]);
    assert_eq!(check.code, 0, "{}", check.text());
    campaign.nothing_runs();
}

#[test]
fn ctrl_c_ends_everything_in_order() {
    let campaign = Campaign::new(&endless());
    let process = campaign.start();
    campaign.wait_until_loaded();
    let (code, stderr) = process.interrupt();
    assert_eq!(code, 130, "{stderr}");
    assert!(stderr.contains("the same command continues"), "{stderr}");
    campaign.nothing_runs();
    let runs = campaign.trials();
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0]["state"]["aborted"], "stopped by Ctrl-C or a signal");
}

#[test]
fn a_gateway_that_responds_otherwise_is_shown_with_the_difference_and_not_loaded() {
    let own = "daemon off;\npid nginx.pid;\nerror_log stderr error;\nevents {}\nhttp {\n  access_log off;\n  client_body_temp_path t1;\n  \
        proxy_temp_path t2;\n  fastcgi_temp_path t3;\n  uwsgi_temp_path t4;\n  scgi_temp_path t5;\n  server {\n    listen {listen};\n    \
        location / { proxy_pass {upstream 1}; }\n    location = /items { return 418 short; }\n  }\n}\n";
    let campaign = Campaign::new(
        &GATEWAYS.replace("[nginx]", "[nginx, {name: other, gateway: nginx, files: {nginx.conf: own.conf}}]"),
    );
    campaign.file("own.conf", own);
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    assert!(finished.stdout.contains("addItem: status: 418 (short) instead of 201"), "{}", finished.text());
    let results = campaign.json("raw/campaign.json");
    let other =
        results["systems"].as_array().into_iter().flatten().find(|system| system["name"] == "other").expect("it");
    assert_eq!(other["state"], "not_conforming");
    // It passes an unknown path on, which the upstream refuses: that is not a fault. That it forwards no address is one.
    let differences = other["conformance"]["differences"].as_array().expect("a list");
    assert!(differences.iter().any(|one| one["what"] == "forwarded x-forwarded-for"), "{differences:?}");
    assert!(campaign.trials().iter().all(|run| run["system"] != "other"));
}

#[test]
fn a_gateway_that_does_not_start_fails_alone() {
    let campaign = Campaign::new(
        &GATEWAYS.replace("[nginx]", "[nginx, {name: broken, gateway: nginx, files: {nginx.conf: own.conf}}]"),
    );
    campaign.file("own.conf", "this is no configuration;\n");
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    let results = campaign.json("raw/campaign.json");
    let broken =
        results["systems"].as_array().into_iter().flatten().find(|system| system["name"] == "broken").expect("it");
    let why = broken["state"]["failed"].as_str().unwrap_or_default();
    assert!(why.contains("its own check refuses the configuration") && why.contains("unknown directive"), "{broken}");
    let log = std::fs::read_to_string(campaign.out.join("logs/check-broken.log")).expect("a log");
    assert_eq!(log.matches("--- ").count(), 1, "what it refuses it refuses on every port: {log}");
    assert_eq!(campaign.trials().len(), 6, "the others ran");
}

#[test]
fn a_gateway_whose_program_is_not_here_is_configured_and_has_no_number() {
    let campaign = Campaign::new(&GATEWAYS.replace("[nginx]", "[nginx, krakend]"));
    let finished = campaign.run_with(&[], &[("GAUGE_KRAKEND", "/nowhere/krakend")]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    assert!(finished.stdout.contains("configured, not run here"), "{}", finished.text());
    let results = campaign.json("raw/campaign.json");
    let krakend =
        results["systems"].as_array().into_iter().flatten().find(|system| system["name"] == "krakend").expect("it");
    assert!(krakend["state"]["not_here"].is_string(), "{krakend}");
    assert!(krakend["configuration"][0]["text"].as_str().is_some_and(|text| text.contains("/items")), "{krakend}");
    assert!(campaign.trials().iter().all(|run| run["system"] != "krakend"));
}

#[test]
fn an_upstream_that_does_not_respond_as_expected_ends_it_with_the_reason() {
    let campaign = Campaign::new(&GATEWAYS.replace("{id: addItem}", "{id: addItem, expect: [418]}"));
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 69, "{}", finished.text());
    assert!(
        finished.stderr.contains("the upstream itself, without a gateway, responded with 201"),
        "{}",
        finished.text()
    );
    campaign.nothing_runs();
}

#[test]
fn a_treatment_is_counted_in_the_responses() {
    let seen = "treatment: {name: json, header: content-type, value: application/json, at_least: 100%}, load: {closed";
    let campaign = Campaign::new(&GATEWAYS.replace("load: {closed", seen));
    assert_eq!(campaign.run(&[]).code, 0);
    assert!(campaign.trials().iter().all(|run| run["treated"] == 1.0), "{:?}", campaign.trials()[0]["treated"]);
}

#[test]
fn the_rate_that_an_slo_allows_is_searched_for() {
    let search = "load: {search: {from: 200/s, to: 400/s, duration: 300ms, connections: 8, rounds: 1, precision: 0.5, \
        curve: [0.5], slo: {p50: 10s, errors: 100%}}}";
    let text =
        GATEWAYS.replace("load: {closed: {users: 4, duration: 300ms}}", search).replace("repeats: 2", "repeats: 1");
    let campaign = Campaign::new(&text);
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    let results = campaign.json("raw/campaign.json");
    let searches = results["searches"].as_array().expect("a list");
    assert_eq!(searches.len(), 3);
    assert!(finished.text().contains("trying 200/s"), "{}", finished.text());
    for search in searches {
        // On a machine that does not let the generator send on schedule, a search says so instead.
        let ends = ["highest", "failed", "invalid"].iter().filter(|end| !search[**end].is_null()).count();
        assert_eq!(ends, 1, "{search}");
        assert!(search["points"].as_array().is_some_and(|points| !points.is_empty()), "{search}");
    }
}

#[test]
fn a_system_that_does_not_start_is_no_gap_in_a_search() {
    let search = "load: {search: {from: 200/s, to: 400/s, duration: 300ms, connections: 8, rounds: 1, precision: 0.5, \
        curve: [], slo: {p50: 10s, errors: 100%}}}";
    let text = GATEWAYS.replace("load: {closed: {users: 4, duration: 300ms}}", search);
    let campaign = Campaign::new(&format!("{}control: false\n", text.replace("repeats: 2", "repeats: 1")));
    // It starts once, to be checked, and not again.
    let nginx = campaign.script(
        "nginx-once",
        "case \"$*\" in -v|*-t) exec nginx \"$@\";; esac\n[ ! -e \"$0.started\" ] || exit 1\ntouch \"$0.started\"\nexec nginx \"$@\"",
    );
    let finished = campaign.run_with(&[], &[("GAUGE_NGINX", &nginx)]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    let results = campaign.json("raw/campaign.json");
    let searches: Vec<&Value> = results["searches"].as_array().into_iter().flatten().collect();
    assert_eq!(searches.len(), 2, "{searches:?}");
    assert_eq!(searches[0]["system"], "direct");
    assert!(searches[0]["points"].as_array().is_some_and(|points| !points.is_empty()), "{}", searches[0]);
    let nginx = searches[1];
    assert_eq!(
        (&nginx["system"], &nginx["points"], &nginx["round"]),
        (&"nginx".into(), &Value::Array(Vec::new()), &1.into())
    );
    assert!(nginx["failed"].as_str().is_some_and(|why| why.contains("it ended at its start")), "{nginx}");
}

#[test]
fn an_evaluation_that_makes_no_sense_starts_nothing() {
    let campaign = Campaign::new(&GATEWAYS.replace("repeats", "repeat"));
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 64, "{}", finished.text());
    assert!(finished.stderr.contains("repeat") && finished.stderr.contains("e.yaml:"), "{}", finished.text());
    assert!(!campaign.out.exists());
    let missing = campaign.gauge(&["run", "/nowhere/e.yaml"]);
    assert_eq!(missing.code, 66, "{}", missing.text());
}

#[test]
fn two_campaigns_do_not_write_to_one_directory() {
    let campaign = Campaign::new(&endless());
    let process = campaign.start();
    campaign.wait_until_loaded();
    let second = campaign.run(&[]);
    assert_eq!(second.code, 73, "{}", second.text());
    assert!(second.stderr.contains("another gauge is writing"), "{}", second.text());
    process.kill();
    campaign.everything_ends();
}
