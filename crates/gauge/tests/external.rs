//! Other generators, run for real. `scripts/suites/50-gauge-tools.sh` installs them and runs these tests; elsewhere they count as ignored.

use std::time::Duration;

use gauge::load::Workload;
use gauge::observe::process::Stat;
use gauge::results::Report;
use gauge::tools::{self, ExternalError, Options, Tool};
use testkit::{Upstream, responder, wait};

const LONG: Duration = Duration::from_secs(60);

fn run(tool: Tool, yaml: &str) -> Result<Report, ExternalError> {
    let workload: Workload = serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{yaml}\n{error}"));
    let folder = tools::folder().expect("a folder");
    tool.run(&workload, &Options::default(), folder.path())
}

const LOAD: &str = "operations:\n  - {id: a, path: '/a/{n}', weight: 3, params: {n: {int: [1, 5]}}}\n  - {id: b, method: POST, path: /b, headers: {X-A: '1'}, body: {text: '{\"x\":1}'}}\n";

#[test]
#[ignore = "needs wrk"]
fn wrk_runs_and_is_read() {
    let upstream = Upstream::start(responder::ok("hello"));
    let report =
        run(Tool::Wrk, &format!("base: {}\n{LOAD}load: {{closed: {{users: 4, duration: 1s}}}}\n", upstream.url()))
            .expect("a report");
    check(&report, &upstream);
}

#[test]
#[ignore = "needs hey"]
fn hey_runs_and_is_read() {
    let upstream = Upstream::start(responder::ok("hello"));
    let yaml = format!(
        "base: {}\noperations: [{{id: a, path: /a}}]\nload: {{closed: {{users: 4, iterations: 200}}}}\n",
        upstream.url()
    );
    let report = run(Tool::Hey, &yaml).expect("a report");
    assert_eq!(report.total.requests.responses, Some(200));
    assert_eq!(upstream.request_count(), 200);
}

#[test]
#[ignore = "needs k6"]
fn k6_runs_and_is_read() {
    let upstream = Upstream::start(responder::ok("{\"last\":4}"));
    let yaml = format!(
        "base: {}\n{LOAD}  - {{id: c, path: '/c/{{x}}', params: {{x: {{captured: x, else: 1}}}}, capture: [{{name: x, json: /last, plus: 1}}]}}\nload: {{open: {{rate: 100/s, duration: 2s, connections: 8}}}}\n",
        upstream.url()
    );
    let report = run(Tool::K6, &yaml).expect("a report");
    check(&report, &upstream);
    assert!(report.total.requests.responses >= Some(190), "{:?}", report.total.requests);
    assert_eq!(report.total.rate.requested, Some(100.0));
    let targets: Vec<String> = upstream.requests().iter().map(|request| request.head.target().to_owned()).collect();
    assert!(targets.iter().any(|target| target == "/c/5"), "captured: {targets:?}");
}

#[test]
#[ignore = "needs jmeter"]
fn jmeter_runs_and_is_read() {
    let upstream = Upstream::start(responder::ok("hello"));
    let yaml = format!("base: {}\n{LOAD}load: {{closed: {{users: 4, iterations: 100}}}}\n", upstream.url());
    let report = run(Tool::Jmeter, &yaml).expect("a report");
    check(&report, &upstream);
    assert_eq!(report.total.requests.responses, Some(100));
    assert_eq!(report.operations.len(), 2);
}

/// Starts `gauge load` with a script for k6, kills it when the script has written the number of a process, and waits for the end of that.
fn ends_with_gauge(script: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let tool = folder.path().join("k6");
    std::fs::write(&tool, format!("#!/bin/sh\n{script}\n")).expect("a file");
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("permissions");
    let mut gauge = std::process::Command::new(env!("CARGO_BIN_EXE_gauge"))
        .args(["load", "http://127.0.0.1:9/", "-c", "1", "-n", "1", "--tool", "k6", "--quiet"])
        .env("K6", &tool)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("gauge starts");
    let pid: u32 = wait::some(LONG, "the tool runs", || {
        std::fs::read_to_string(folder.path().join("k6.pid")).ok()?.strip_suffix('\n')?.parse().ok()
    });
    let runs = || Stat::of(pid).is_some_and(|stat| !stat.zombie);
    assert!(runs());
    gauge.kill().expect("it runs");
    gauge.wait().expect("it ends");
    wait::until(LONG, "the tool has ended too", || !runs());
}

#[test]
fn a_tool_ends_with_the_gauge_that_started_it() {
    ends_with_gauge("echo $$ >\"$0.pid\"\nexec sleep 100");
}

/// JMeter's script starts Java and waits for it.
#[test]
fn what_a_script_of_a_tool_started_ends_with_it() {
    ends_with_gauge("sleep 100 &\necho $! >\"$0.pid\"\nwait");
}

/// Both operations were sent as the workload has them, and the report counts what the server saw.
fn check(report: &Report, upstream: &Upstream) {
    let responses = report.total.requests.responses.expect("counted");
    let seen = upstream.request_count() as u64;
    // What was in flight at the end may have been cut off.
    assert!(responses > 0 && responses <= seen && seen - responses <= 8, "{responses} of {seen}");
    assert!(report.total.latency.as_ref().is_some_and(|latency| latency.mean_ms > Some(0.0)), "{report:?}");
    assert_eq!(report.total.errors.total, Some(0), "{report:?}");
    let requests = upstream.requests();
    let posts = requests.iter().filter(|request| request.head.method() == "POST");
    assert!(posts.clone().count() > 0);
    for post in posts {
        assert_eq!((post.head.target(), post.head.field("x-a")), ("/b", Some("1")));
        assert_eq!(String::from_utf8_lossy(&post.body), "{\"x\":1}");
    }
    let gets: Vec<&str> =
        requests.iter().map(|request| request.head.target()).filter(|target| target.starts_with("/a/")).collect();
    assert!(
        !gets.is_empty() && gets.iter().all(|target| ["1", "2", "3", "4", "5"].contains(&&target[3..])),
        "{gets:?}"
    );
    assert!(upstream.errors().len() <= 8, "{:?}", upstream.errors());
}

/// A workload for a port where nobody listens.
fn to_nobody(port: &testkit::ports::Port) -> String {
    format!(
        "base: http://{}\noperations: [{{id: a, path: /a}}]\nload: {{closed: {{users: 2, duration: 1s}}}}\n",
        port.address()
    )
}

#[test]
#[ignore = "needs wrk"]
fn a_dead_server_is_no_crash_with_wrk() {
    let port = testkit::ports::Port::free();
    let error = run(Tool::Wrk, &to_nobody(&port)).expect_err("wrk says that it cannot connect").to_string();
    assert!(error.contains("Connection refused"), "{error}");
}

#[test]
#[ignore = "needs hey"]
fn a_dead_server_is_no_crash_with_hey() {
    let port = testkit::ports::Port::free();
    let report = run(Tool::Hey, &to_nobody(&port)).expect("a report");
    assert_eq!(report.total.requests.responses, Some(0));
    assert!(report.total.errors.connect > Some(0));
}
