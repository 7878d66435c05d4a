//! What is left when a campaign is stopped, and what the same command makes of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gauge::campaign::progress::Progress;
use gauge::campaign::{self, CampaignError, Options};
use gauge::plan::Plan;

use super::campaign::{Campaign, GATEWAYS};
use crate::endless;

/// One round of one gateway.
fn short() -> String {
    format!("{}control: false\n", GATEWAYS.replace("repeats: 2", "repeats: 1"))
}

#[test]
fn servers_end_with_a_campaign_that_is_killed() {
    let campaign = Campaign::new(&endless());
    let process = campaign.start();
    campaign.wait_until_loaded();
    campaign.wait_until_something_runs();
    process.kill();
    campaign.everything_ends();
}

#[test]
fn a_second_ctrl_c_ends_at_once_also_what_does_not_listen() {
    let stubborn = "command: [sh, -c, 'trap \"\" TERM; \"$0\" demo --listen \"$1\" & wait', '{gauge}', '{address}:{http}']\n  \
        restart: never";
    let demo = "command: ['{gauge}', demo, --listen, '{address}:{http}']";
    assert!(GATEWAYS.contains(demo));
    let campaign = Campaign::new(&endless().replace(demo, stubborn));
    let process = campaign.start();
    campaign.wait_until_loaded();
    let (code, stderr) = process.interrupt_twice();
    assert_eq!(code, 130, "{stderr}");
    assert!(!stderr.contains("the same command continues"), "it ended in order: {stderr}");
    campaign.everything_ends();
}

/// Wants the campaign to end once this system's state is read.
struct StopAt(&'static str, Arc<AtomicBool>);

impl Progress for StopAt {
    fn checking(&mut self, system: &str) {
        if system == self.0 {
            self.1.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn what_was_not_sent_before_ctrl_c_is_sent_by_the_next_run() {
    let campaign = Campaign::new(&GATEWAYS.replace("repeats: 2", "repeats: 1"));
    let plan = Plan::read(&campaign.path("e.yaml")).unwrap_or_else(|error| panic!("{error}"));
    let options = Options {
        gauge: env!("CARGO_BIN_EXE_gauge").into(),
        command: "gauge run e.yaml".to_owned(),
        fresh: false,
        stop: Arc::default(),
        machines: Default::default(),
    };
    // A thread of its own: a campaign pins the one that it runs on.
    let stopped = std::thread::scope(|scope| {
        let run = || campaign::run(&plan, &campaign.out, &options, &mut StopAt("direct", Arc::clone(&options.stop)));
        scope.spawn(run).join().expect("no panic")
    });
    assert!(matches!(stopped, Err(CampaignError::Stopped)), "{stopped:?}");
    let checked = || -> Vec<bool> {
        let results = campaign.json("raw/campaign.json");
        results["systems"].as_array().into_iter().flatten().map(|system| system["conformance"].is_object()).collect()
    };
    assert_eq!(checked(), [true, false, false], "it was stopped between two systems");
    let again = campaign.run(&[]);
    assert_eq!(again.code, 0, "{}", again.text());
    assert_eq!(checked(), [true; 3]);
}

#[test]
fn a_campaign_does_not_go_on_with_files_that_changed() {
    let own = "[nginx, {name: other, gateway: nginx, files: {nginx.conf: own.conf}}]";
    let campaign = Campaign::new(&short().replace("[nginx]", own));
    campaign.file("own.conf", "this is no configuration;\n");
    assert_eq!(campaign.run(&[]).code, 0);
    let refused = |what: &str| {
        let again = campaign.run(&[]);
        assert_eq!(again.code, 64, "{}", again.text());
        assert!(again.stderr.contains(what) && again.stderr.contains("--fresh"), "{}", again.text());
    };
    campaign.file("own.conf", "this is another one;\n");
    refused("from before `nginx.conf` of `other` changed");
    campaign.file("own.conf", "this is no configuration;\n");
    let api = std::fs::read_to_string(campaign.path("api.yaml")).expect("the description");
    campaign.file("api.yaml", &format!("{api}  /more:\n    get: {{operationId: more, responses: {{}}}}\n"));
    refused("from before the API description changed");
    campaign.file("api.yaml", &format!("# It says the same.\n{api}"));
    let before = campaign.raw();
    let again = campaign.run(&[]);
    assert_eq!(again.code, 0, "{}", again.text());
    assert_eq!(campaign.raw(), before);
}

#[test]
fn a_campaign_does_not_go_on_with_another_program() {
    let campaign = Campaign::new(GATEWAYS);
    let nginx = campaign.script("own-nginx", "exec nginx \"$@\"");
    let env = [("GAUGE_NGINX", nginx.as_str())];
    let process = campaign.start_in(&[], &env);
    campaign.wait_for(|raw| !raw.is_empty());
    assert_eq!(process.interrupt().0, 130);
    campaign.script("own-nginx", "# A later version.\nexec nginx \"$@\"");
    let again = campaign.run_with(&[], &env);
    assert_eq!(again.code, 64, "{}", again.text());
    assert!(again.stderr.contains("from before the program of `nginx` changed"), "{}", again.text());
    campaign.nothing_runs();
    campaign.script("own-nginx", "exec nginx \"$@\"");
    let again = campaign.run_with(&[], &env);
    assert_eq!(again.code, 0, "{}", again.text());
    assert_eq!(campaign.trials().len(), 6);
    // Of a campaign that is done nothing is measured: it is reported, whatever is on the machine now.
    campaign.script("own-nginx", "# A later version.\nexec nginx \"$@\"");
    assert_eq!(campaign.run_with(&[], &env).code, 0);
}

#[test]
fn an_unfinished_round_of_an_earlier_version_is_made_again_and_not_kept_beside_it() {
    let campaign = Campaign::new(&short());
    assert_eq!(campaign.run(&[]).code, 0);
    let (now, then) = (campaign.out.join("raw/r01-nginx.read.json"), campaign.out.join("raw/r01-nginx-read.json"));
    let mut run = campaign.json("raw/r01-nginx.read.json");
    (run["id"], run["state"]) =
        ("r01-nginx-read".into(), serde_json::json!({"aborted": "stopped by Ctrl-C or a signal"}));
    std::fs::remove_file(now).expect("the run");
    std::fs::write(&then, run.to_string()).expect("the run as it was called");
    let again = campaign.run(&[]);
    assert_eq!(again.code, 0, "{}", again.text());
    let names: Vec<String> = campaign.raw().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["r01-direct.read.json", "r01-nginx.read.json"]);
    assert!(campaign.trials().iter().all(|run| run["state"] == "done"));
}

/// What the upstream does in the middle of a trial is a condition of that trial: it alone is repeated, and what the others were stays, failures too.
#[test]
fn a_trial_whose_upstream_ended_is_repeated_alone() {
    // It ends once, as soon as the second workload of the turn is loaded.
    let once = "command: [sh, -c, 'if mkdir \"$3/once\" 2>/dev/null; then \"$0\" demo --listen \"$1\" & \
                until grep -q \"second.*warming\\|warming.*second\" \"$3/out/state.json\" 2>/dev/null; do sleep 0.02; done; kill $!; \
                else exec \"$0\" demo --listen \"$1\"; fi', '{gauge}', '{address}:{http}', x, '{folder}']\n  restart: never";
    let demo = "command: ['{gauge}', demo, --listen, '{address}:{http}']";
    let second = "  - {name: second, operations: [{id: getItem, params: {id: {int: [1, 50]}}}], load: {closed: {users: 2, duration: 300ms}}}\n";
    // The first requires more of one connection than any gateway can do: it fails, whatever happens to the other.
    let closed = "load: {closed: {users: 4, duration: 300ms}}";
    assert!(GATEWAYS.contains(closed));
    let first = GATEWAYS
        .replace(demo, once)
        .replace("name: read,", "name: first,")
        .replace(closed, "load: {open: {rate: 200000/s, duration: 300ms, connections: 1}}")
        .replace("repeats: 2", "repeats: 1");
    let evaluation = format!("{first}{second}workload_order: fixed\nbaseline: false\ncontrol: false\n");
    let campaign = Campaign::new(&evaluation);
    let finished = campaign.run(&[]);
    let trials = campaign.trials();
    let of = |workload: &str| {
        trials.iter().find(|trial| trial["workload"] == workload).unwrap_or_else(|| panic!("{}", finished.text()))
    };
    let (first, second) = (of("first"), of("second"));
    assert_eq!((&second["state"], trials.len()), (&"done".into(), 2), "{}", finished.text());
    let why = second["repeated"][0].as_str().unwrap_or_default();
    assert!(why.starts_with("not-measured: the backend"), "{second}");
    assert!(!first["repeated"].to_string().contains("not-measured"), "it met its conditions: {first}");
    assert!(first["started_unix_ms"].as_u64() < second["started_unix_ms"].as_u64());
    if finished.text().contains("left out for") {
        // The machine gave time to others, and the round says nothing about any gateway.
        return;
    }
    let failed = campaign.json("results.json")["judgement"]["rows"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|row| row["workload"] == "first")
        .map(|row| row["failed"][0]["why"].clone())
        .unwrap_or_default();
    assert!(failed.as_str().unwrap_or_default().starts_with("rate-not-achieved"), "{failed}: {}", finished.text());
}
