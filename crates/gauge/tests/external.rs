//! Other generators, run for real. `scripts/suites/50-gauge-tools.sh` installs them and runs these tests; elsewhere they count as ignored.

use std::io::{BufRead, BufReader, Read, Write};
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
    // A busy machine may have left k6 no user for some.
    let due = report.total.requests.responses.zip(report.total.requests.dropped);
    assert!(due.is_some_and(|(responses, dropped)| responses + dropped >= 190), "{:?}", report.total.requests);
    assert_eq!(report.total.rate.requested, Some(100.0));
    let targets: Vec<String> = upstream.requests().iter().map(|request| request.head.target().to_owned()).collect();
    assert!(targets.iter().any(|target| target == "/c/5"), "captured: {targets:?}");
}

/// `gauge demo`, which counts what reaches it.
struct Demo {
    program: std::process::Child,
    url: String,
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

impl Demo {
    fn start() -> Self {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_gauge"));
        let command = command.args(["demo", "--listen", "127.0.0.1:0"]).stdout(std::process::Stdio::piped());
        let mut program = command.spawn().expect("gauge starts");
        let mut line = String::new();
        BufReader::new(program.stdout.take().expect("its output")).read_line(&mut line).expect("its address");
        let url = line.trim().strip_prefix("listening on ").expect("its address").to_owned();
        Demo { program, url }
    }

    fn requests(&self) -> u64 {
        let address = self.url.trim_start_matches("http://");
        let mut stream = std::net::TcpStream::connect(address).expect("a connection");
        stream
            .write_all(b"GET /.gauge/counts HTTP/1.1\r\nHost: demo\r\nConnection: close\r\n\r\n")
            .expect("it is sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("a response");
        let counts = text.split("\"requests\":").nth(1).expect("a count");
        counts.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).expect("a number")
    }
}

#[test]
#[ignore = "needs k6"]
fn k6_runs_phases_and_is_read_phase_by_phase() {
    let demo = Demo::start();
    let yaml = format!(
        "base: {}\noperations:\n  - {{id: get, path: '/items/{{n}}', params: {{n: {{int: [1, 5]}}}}}}\n\
         load:\n  phases:\n    - {{name: warm up, warmup: true, closed: {{users: 2, duration: 1s}}}}\n    \
         - {{name: few, closed: {{users: 2, duration: 1s}}}}\n    \
         - {{name: counted, closed: {{users: 4, iterations: 40, duration: 1s}}}}\n    \
         - {{name: rate, open: {{rate: 100/s, duration: 1s, connections: 8}}}}\n    \
         - {{name: more, closed: {{users: {{from: 1, to: 4}}, duration: 1s}}}}\n    \
         - {{name: last, closed: {{users: 4, iterations: 10}}}}\n",
        demo.url
    );
    let report = run(Tool::K6, &yaml).expect("a report");
    let names: Vec<(&str, bool)> = report.phases.iter().map(|phase| (phase.name.as_str(), phase.measured)).collect();
    let expected = ["few", "counted", "rate", "more", "last"].map(|name| (name, true));
    assert_eq!(names[0], ("warm up", false));
    assert_eq!(names[1..], expected);
    let mut sum = 0;
    for phase in &report.phases {
        let (total, responses) = (&phase.total, phase.total.requests.responses.expect("counted"));
        assert!(responses > 0, "{phase:?}");
        assert_eq!(total.statuses, Some([(200, responses)].into()), "{phase:?}");
        assert_eq!(total.errors.total, Some(0), "{phase:?}");
        let latency = total.latency.as_ref().expect("latency");
        assert!(latency.count == Some(responses) && latency.p99_ms >= latency.p50_ms, "{latency:?}");
        assert!(total.bytes.received > Some(500 * responses), "{:?}", total.bytes);
        sum += if phase.measured { responses } else { 0 };
    }
    let of = |name: &str| report.phases.iter().find(|phase| phase.name == name).expect("a phase");
    assert_eq!(of("counted").total.requests.responses, Some(40));
    assert_eq!(of("last").total.requests.responses, Some(10));
    let rate = &of("rate").total;
    let due = rate.requests.responses.zip(rate.requests.dropped).map(|(responses, dropped)| responses + dropped);
    assert!(due.is_some_and(|due| (99..=101).contains(&due)), "{:?}", rate.requests);
    assert_eq!(
        (rate.rate.requested, rate.duration_s, of("more").total.concurrency),
        (Some(100.0), Some(1.0), Some(2.5))
    );
    let starts: Vec<f64> = report.phases.iter().map(|phase| phase.start_s).collect();
    assert!(starts.windows(2).all(|pair| pair[1] >= pair[0] + 0.9), "one after the other: {starts:?}");
    assert_eq!((report.total.requests.responses, report.total.errors.total), (Some(sum), Some(0)));
    assert_eq!(report.total.latency.as_ref().and_then(|latency| latency.count), Some(sum), "without the warm-up");
    let warmup = report.phases[0].total.requests.responses.unwrap_or(0);
    assert_eq!(sum + warmup, demo.requests(), "what k6 counts is what the server saw");
}

#[test]
#[ignore = "needs k6"]
fn k6_counts_errors_by_kind() {
    let upstream = Upstream::start(responder::ok("{}"));
    let yaml = format!(
        "base: {}\noperations: [{{id: a, path: /a, expect: [404]}}]\nload: {{closed: {{users: 2, iterations: 20}}}}\n",
        upstream.url()
    );
    let total = run(Tool::K6, &yaml).expect("a report").total;
    assert_eq!((total.statuses, total.errors.status), (Some([(200, 20)].into()), Some(20)));
    let port = testkit::ports::Port::free();
    let total = run(Tool::K6, &to_nobody(&port).replace("duration: 1s", "iterations: 6")).expect("a report").total;
    assert_eq!((total.requests.responses, total.errors.connect, total.errors.total), (Some(0), Some(6), Some(6)));
    // One that accepts, and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let yaml = format!(
        "base: http://{}\ntimeout: 300ms\noperations: [{{id: a, path: /a}}]\nload: {{closed: {{users: 2, iterations: 4}}}}\n",
        silent.local_addr().expect("its address")
    );
    let total = run(Tool::K6, &yaml).expect("a report").total;
    assert_eq!((total.requests.responses, total.errors.timeout, total.errors.total), (Some(0), Some(4), Some(4)));
}

#[test]
#[ignore = "needs k6"]
fn k6_calls_grpc_in_phases() {
    let demo = Demo::start();
    let yaml = format!(
        "base: {}\nprotocol: {{http2: {{streams: 16}}}}\noperations:\n  \
         - {{id: get, grpc: {{method: gauge.demo.Items/Get}}, body: {{text: '{{\"id\":{{n}}}}'}}, params: {{n: {{int: [1, 5]}}}}}}\n  \
         - {{id: add, grpc: {{method: gauge.demo.Items/Add}}, body: {{text: '{{\"name\":7,\"price\":700}}'}}}}\n\
         load:\n  phases:\n    - {{name: few, closed: {{users: 2, duration: 1s}}}}\n    \
         - {{name: rate, open: {{rate: 100/s, duration: 1s, connections: 8}}}}\n    \
         - {{name: more, closed: {{users: 6, duration: 1s}}}}\n",
        demo.url
    );
    let report = run(Tool::K6, &yaml).expect("a report");
    assert_eq!(report.generator.protocol.as_deref(), Some("gRPC"));
    let names: Vec<&str> = report.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["few", "rate", "more"]);
    let mut sum = 0;
    for phase in &report.phases {
        let responses = phase.total.requests.responses.expect("counted");
        assert_eq!(phase.total.statuses, Some([(200, responses)].into()), "{phase:?}");
        assert_eq!(phase.total.latency.as_ref().and_then(|latency| latency.count), Some(responses), "{phase:?}");
        sum += responses;
    }
    assert_eq!((report.total.requests.responses, report.total.errors.total), (Some(sum), Some(0)));
    // Reflection takes no count.
    assert_eq!(sum, demo.requests());
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
