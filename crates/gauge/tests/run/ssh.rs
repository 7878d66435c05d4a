//! Systems on another machine, which is this one behind an OpenSSH server of the test's own. Run by scripts/suites/56-gauge-run.sh, which installs it.

use super::campaign::{Campaign, GATEWAYS};
use crate::{cpu, endless};

#[test]
#[ignore = "needs sshd"]
fn systems_run_on_another_machine_over_ssh() {
    // Long enough for a look at processes to come before its end also where a round trip takes its time.
    let evaluation = GATEWAYS.replace("duration: 300ms", "duration: 2s");
    let campaign = Campaign::new(&evaluation);
    let server = campaign.sshd();
    campaign.rewrite(&format!("{evaluation}deploy: {{ssh: {}}}\n", server.config()));
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    let runs = campaign.trials();
    assert_eq!(runs.len(), 6);
    for run in &runs {
        assert_eq!(run["state"], "done", "{run}");
        assert!(cpu(run, "upstream") > Some(0.0), "{}", run["observed"]);
        assert_eq!(run["observed"]["system"].is_null(), run["system"] == "direct");
    }
    assert!(
        campaign.json("raw/campaign.json")["environment"]["deploy"]
            .as_str()
            .is_some_and(|deploy| deploy.starts_with("ssh "))
    );
    server.nothing_runs();

    // Killed: the connection ends, and with it what ran there.
    campaign.rewrite(&format!("{}deploy: {{ssh: {}}}\n", endless(), server.config()));
    let process = campaign.start_with(&["--fresh"]);
    campaign.wait_until_loaded();
    server.something_runs();
    process.kill();
    server.nothing_runs();
}

#[test]
#[ignore = "needs sshd"]
fn a_backend_is_reset_where_it_runs() {
    let demo = "command: ['{gauge}', demo, --listen, '{address}:{http}']";
    assert!(GATEWAYS.contains(demo));
    let reset = format!("{demo}\n  env: {{STORE: '{{data}}'}}\n  restart: never\n  reset: [./reset.sh]");
    let evaluation = format!("{}control: false\n", GATEWAYS.replace(demo, &reset).replace("repeats: 2", "repeats: 1"));
    let campaign = Campaign::new(&evaluation);
    let server = campaign.sshd();
    campaign.rewrite(&format!("{evaluation}deploy: {{ssh: {}}}\n", server.config()));
    campaign.script("reset.sh", "pwd\n[ -d \"$STORE\" ] && case $PWD in */remote/gauge-*) ;; *) exit 1;; esac");
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    assert_eq!(campaign.trials().len(), 2);
    server.nothing_runs();
}

#[test]
#[ignore = "needs sshd"]
fn what_the_other_machine_lacks_is_said_before_anything_runs() {
    let campaign = Campaign::new(GATEWAYS);
    let few = campaign.path("few");
    std::fs::create_dir(&few).expect("a folder");
    for folder in ["/usr/bin", "/bin"] {
        for program in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if program.file_name() != "timeout" {
                // Most of them are in both folders.
                let _ = std::os::unix::fs::symlink(program.path(), few.join(program.file_name()));
            }
        }
    }
    let server = campaign.sshd_with(&format!("SetEnv PATH={}\n", few.display()));
    campaign.rewrite(&format!("{GATEWAYS}deploy: {{ssh: {}}}\n", server.config()));
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 69, "{}", finished.text());
    assert!(finished.stderr.contains("these programs are missing there: timeout"), "{}", finished.text());
    server.nothing_runs();
}

/// All of them are one machine here, with a connection for each role.
#[test]
#[ignore = "needs sshd"]
fn several_generators_share_the_load_of_a_gateway_on_a_third_machine() {
    let evaluation = GATEWAYS.replace("duration: 300ms", "duration: 2s");
    let campaign = Campaign::new(&evaluation);
    let server = campaign.sshd();
    let hosts: Vec<String> =
        ["generator", "generator", "gateway", "upstream"].iter().map(|role| server.host(role)).collect();
    campaign.rewrite(&format!("{evaluation}deploy: {{hosts: [{}]}}\n", hosts.join(", ")));
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    let runs = campaign.trials();
    assert_eq!(runs.len(), 6);
    for run in &runs {
        assert_eq!(run["state"], "done", "{run}");
        let parts = run["observed"]["generators"].as_array().expect("a list");
        let names: Vec<&str> = parts.iter().filter_map(|part| part["name"].as_str()).collect();
        assert_eq!(names, ["generator-1", "generator-2"]);
        let of = |part: &serde_json::Value| part["requests"]["responses"].as_u64().unwrap_or(0);
        assert!(parts.iter().all(|part| of(part) > 0), "{run}");
        let total = &run["report"]["total"];
        assert_eq!(total["requests"]["responses"].as_u64(), Some(parts.iter().map(of).sum()));
        assert_eq!(total["latency"]["count"], total["requests"]["responses"], "histograms are merged");
        assert_eq!(total["concurrency"], 4.0, "two users on each");
    }
    let environment = &campaign.json("raw/campaign.json")["environment"];
    let machines = environment["generators"].as_array().expect("a list");
    assert_eq!(machines.len(), 2);
    for machine in machines {
        let (offset, trip) = (machine["clock_offset_ms"].as_f64(), machine["clock_round_trip_ms"].as_f64());
        let (Some(offset), Some(trip)) = (offset, trip) else { panic!("{machine}") };
        assert!(offset.abs() <= trip, "it is this machine's own clock: {machine}");
    }
    server.nothing_runs();

    // Killed: all connections end, and with them what ran there.
    let endless = endless().replace("users: 4", "users: 2");
    campaign.rewrite(&format!("{endless}deploy: {{hosts: [{}]}}\n", hosts.join(", ")));
    let process = campaign.start_with(&["--fresh"]);
    campaign.wait_until_loaded();
    server.something_runs();
    process.kill();
    server.nothing_runs();
}

#[test]
#[ignore = "needs sshd"]
fn a_load_for_fewer_users_than_generators_is_refused() {
    let evaluation = GATEWAYS.replace("users: 4", "users: 1");
    let campaign = Campaign::new(&evaluation);
    let server = campaign.sshd();
    let hosts: Vec<String> = ["generator", "generator", "gateway"].iter().map(|role| server.host(role)).collect();
    campaign.rewrite(&format!("{evaluation}deploy: {{hosts: [{}]}}\n", hosts.join(", ")));
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 64, "{}", finished.text());
    assert!(finished.stderr.contains("cannot be spread over 2 generators"), "{}", finished.text());
    server.nothing_runs();
}
