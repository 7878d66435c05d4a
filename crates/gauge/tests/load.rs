//! `gauge load` against servers that misbehave, through the library and through the program.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gauge::load::{Generator, Options, Prepared, Workload};
use gauge::results::Report;
use gauge::results::report::Measurement;
use gauge::verdict;
use testkit::{DEADLINE, Gate, Process, Signal, Upstream, responder, wait};

fn workload(yaml: &str) -> Workload {
    serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{yaml}\n{error}"))
}

fn generator(yaml: &str, threads: u32) -> Generator {
    let prepared = Prepared::new(&workload(yaml)).expect("a workload that makes sense");
    Generator::new(prepared, Options { threads: Some(threads), ..Options::default() })
}

fn run(yaml: &str) -> Report {
    generator(yaml, 2).run().expect("a report")
}

fn get(upstream: &Upstream, load: &str) -> String {
    format!("base: {}\noperations: [{{id: get, path: /x}}]\nload: {load}\n", upstream.url())
}

/// Every request that was scheduled came to exactly one end.
fn balanced(total: &Measurement) {
    let requests = &total.requests;
    let errors = &total.errors;
    let without_response = [errors.connect, errors.reset, errors.timeout, errors.invalid_response]
        .iter()
        .map(|count| count.expect("counted"))
        .sum::<u64>();
    let ends = requests.responses.expect("counted")
        + without_response
        + requests.dropped.expect("counted")
        + requests.no_response.expect("counted");
    assert_eq!(requests.scheduled, Some(ends), "{total:?}");
}

/// Who watches may be ready before the generator's threads are: `gauge run` then waited without end.
#[test]
fn a_load_that_is_let_go_before_it_runs_begins() {
    let upstream = Upstream::start(responder::ok("hello"));
    let generator = generator(&get(&upstream, "{closed: {users: 2, iterations: 5}}"), 2);
    let watch = generator.watch();
    for _ in 0..2 {
        watch.close(0);
        watch.open();
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let report = std::thread::scope(|scope| {
            let running = scope.spawn(|| (generator.run(), drop(done)).0);
            if is_done.recv_timeout(testkit::DEADLINE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                watch.stop();
            }
            running.join().expect("no panic").expect("a report")
        });
        assert_eq!((report.total.requests.responses, report.truncated), (Some(5), None));
    }
}

#[test]
fn a_closed_loop_sends_what_it_was_told_to() {
    let upstream = Upstream::start(responder::ok("hello"));
    let report = run(&get(&upstream, "{closed: {users: 7, iterations: 50}}"));
    let total = &report.total;
    assert_eq!((total.requests.responses, total.requests.sent), (Some(50), Some(50)));
    assert_eq!(upstream.request_count(), 50);
    assert_eq!(total.connections_opened, Some(7), "each user keeps its connection");
    assert_eq!(total.statuses, Some(BTreeMap::from([(200, 50)])));
    assert_eq!(total.errors.total, Some(0));
    assert_eq!(total.latency.as_ref().and_then(|latency| latency.samples_ns.as_ref()).map(Vec::len), Some(50));
    assert_eq!(report.truncated, None);
    assert_eq!(report.operations[0].name, "get");
    assert!(upstream.errors().is_empty(), "{:?}", upstream.errors());
    balanced(total);
}

#[test]
fn an_open_loop_reaches_its_rate_and_says_how_late_it_was() {
    let upstream = Upstream::start(responder::ok("hello"));
    let report = run(&get(&upstream, "{open: {rate: 400/s, duration: 2s}}"));
    let total = &report.total;
    assert_eq!((total.requests.scheduled, total.requests.sent), (Some(800), Some(800)));
    assert_eq!(upstream.request_count(), 800);
    assert_eq!(total.rate.requested, Some(400.0));
    assert!(total.rate.achieved.expect("a rate") > 380.0, "{:?}", total.rate);
    assert_eq!(total.lag.as_ref().and_then(|lag| lag.count), Some(800));
    assert!(
        total.generator_lag.as_ref().and_then(|lag| lag.count) <= Some(800),
        "of those that a connection was free for"
    );
    assert_eq!(total.requests.dropped, Some(0));
    assert_eq!(total.corrected, None, "an open loop needs no correction");
    assert_eq!(report.seconds.iter().map(|second| second.sent.unwrap_or(0)).sum::<u64>(), 800);
    balanced(total);
}

#[test]
fn poisson_arrivals_and_ramps_are_sent() {
    let upstream = Upstream::start(responder::ok(""));
    let report = run(&get(&upstream, "{open: {rate: {from: 0, to: 400/s}, duration: 1s}}"));
    assert_eq!(report.total.requests.scheduled, Some(200));
    let report = run(&get(&upstream, "{open: {rate: 300/s, duration: 1s, arrivals: poisson}}"));
    // A fixed seed: a fixed number, within four deviations of the mean.
    let scheduled = report.total.requests.scheduled.expect("counted");
    assert!((230..370).contains(&scheduled), "{scheduled}");
    balanced(&report.total);
}

/// How long a server stands still, as a server does that collects garbage.
const STALL: Duration = Duration::from_secs(1);

/// Responds at once, but stands still from this request on until so many wait, and then for [`STALL`] more. How long it was is measured.
fn stalls(from: usize, waiting: usize) -> (Upstream, JoinHandle<Duration>) {
    let (gate, came, held) = (Gate::new(), AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let (handlers_gate, are_held) = (gate.clone(), held.clone());
    let upstream = Upstream::start(move |conn, _| {
        if came.fetch_add(1, Ordering::Relaxed) >= from {
            held.fetch_add(1, Ordering::Relaxed);
            assert!(handlers_gate.pass(DEADLINE), "nobody ends the stall");
        }
        conn.respond(200, &[], "ok")
    });
    let ends = std::thread::spawn(move || {
        wait::until(DEADLINE, "the stall", || are_held.load(Ordering::Relaxed) >= waiting);
        let since = Instant::now();
        wait::until(DEADLINE, "its end", || since.elapsed() >= STALL);
        let took = since.elapsed();
        gate.open();
        took
    });
    (upstream, ends)
}

/// So much of the stall is in the latency of at least one request in a hundred, however slow the machine is.
fn most_of(stall: Duration) -> Option<f64> {
    Some(stall.as_secs_f64() * 1e3 * 0.8)
}

#[test]
fn an_open_loop_shows_a_stall_of_the_server() {
    let (upstream, stall) = stalls(450, 8);
    let report = run(&get(&upstream, "{open: {rate: 300/s, duration: 4s, connections: 8}}"));
    let stall = stall.join().expect("a stall");
    let latency = report.total.latency.as_ref().expect("latency");
    assert!(latency.p99_ms >= most_of(stall), "{latency:?}");
    assert_eq!((latency.count, report.total.requests.scheduled), (Some(1200), Some(1200)), "none was left out");
    let (lag, own) = (report.total.lag.as_ref().expect("lag"), report.total.generator_lag.as_ref().expect("lag"));
    assert!(lag.p99_ms >= most_of(stall), "requests waited for a connection: {lag:?}");
    // Three quarters of those that came due meanwhile: the first of them had their connection, the last come due as it ends.
    let due = (stall.as_secs_f64() * 300.0 * 0.75) as u64;
    assert!(own.count <= lag.count.map(|count| count - due), "which was not the generator's doing: {own:?} of {lag:?}");
    balanced(&report.total);
}

#[test]
fn a_closed_loop_shows_a_stall_when_corrected() {
    let (upstream, stall) = stalls(1000, 4);
    let report = run(&get(&upstream, "{closed: {users: 4, iterations: 2000}}"));
    let stall = stall.join().expect("a stall");
    let total = &report.total;
    let (measured, corrected) =
        (total.latency.as_ref().expect("latency"), total.corrected.as_ref().expect("corrected"));
    assert!(measured.p99_ms < corrected.p99_ms, "as measured, it is hidden: {measured:?}, {corrected:?}");
    assert!(corrected.p99_ms >= most_of(stall), "{corrected:?}");
    assert_eq!(measured.count, total.requests.responses);
    assert!(corrected.count > measured.count);
    balanced(total);
}

#[test]
fn what_finds_no_connection_in_time_is_dropped_and_counted() {
    let upstream = Upstream::start(responder::stall());
    let report = run(&(get(&upstream, "{open: {rate: 100/s, duration: 1s, connections: 3}}") + "timeout: 200ms\n"));
    let total = &report.total;
    assert_eq!(total.requests.scheduled, Some(100));
    assert!(total.requests.dropped >= Some(50), "{total:?}");
    assert_eq!(total.requests.dropped_free, Some(0), "the server held all connections");
    let condition = verdict::look(&report, &verdict::Context::default())
        .into_iter()
        .find(|verdict| verdict.name.effect() == verdict::Effect::Condition);
    assert_eq!(condition, None);
    assert!(total.errors.timeout >= Some(3), "{total:?}");
    assert_eq!(total.requests.responses, Some(0));
    assert_eq!(total.latency, None);
    assert!(report.seconds.iter().map(|second| second.dropped.unwrap_or(0)).sum::<u64>() >= 50);
    balanced(total);
}

#[test]
fn a_dead_server_is_errors_and_no_hang() {
    let upstream = Upstream::start(responder::ok(""));
    upstream.stop();
    for load in [
        "{closed: {users: 4, iterations: 20}}",
        "{closed: {users: 4, duration: 300ms}}",
        "{open: {rate: 100/s, duration: 300ms}}",
    ] {
        let report = run(&get(&upstream, load));
        assert_eq!(report.total.errors.connect, report.total.errors.total, "{load}");
        assert!(report.total.errors.total >= Some(20), "{load}: {:?}", report.total.errors);
        assert_eq!(report.total.requests.responses, Some(0), "{load}");
        assert_eq!(report.total.error_rate(), Some(1.0), "{load}");
        balanced(&report.total);
    }
}

#[test]
fn each_kind_of_failure_has_its_count() {
    for (response, timeout, kind) in [
        (responder::close(), "5s", "reset"),
        (responder::reset(), "5s", "reset"),
        (responder::close_after(10, 100), "5s", "reset"),
        (responder::stall(), "150ms", "timeout"),
        (responder::raw("HTTP/2.0 nonsense\r\n\r\n"), "5s", "bad"),
        (responder::raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP"), "5s", "bad"),
        (responder::raw("\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), "5s", "bad"),
        (responder::status(503), "5s", "status"),
    ] {
        let upstream = Upstream::start(response);
        let report = run(&(get(&upstream, "{closed: {users: 2, iterations: 6}}") + &format!("timeout: {timeout}\n")));
        let errors = &report.total.errors;
        let seen = match kind {
            "reset" => errors.reset,
            "timeout" => errors.timeout,
            "status" => errors.status,
            _ => errors.invalid_response,
        };
        assert_eq!((seen, errors.total), (Some(6), Some(6)), "{kind}: {errors:?}");
        balanced(&report.total);
    }
}

#[test]
fn responses_in_every_framing_are_understood() {
    let bytewise = Arc::new(AtomicUsize::new(0));
    let round = Arc::clone(&bytewise);
    let upstream = Upstream::start(move |conn, _| match round.fetch_add(1, Ordering::SeqCst) % 5 {
        0 => conn.write_bytewise("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        1 => conn.write_bytewise("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
        2 => conn.write("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"),
        3 => {
            conn.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").and_then(|()| conn.close())
        }
        _ => conn.write("HTTP/1.0 200 OK\r\n\r\nuntil the end").and_then(|()| conn.close()),
    });
    let report = run(&get(&upstream, "{closed: {users: 1, iterations: 25}}"));
    assert_eq!(report.total.statuses, Some(BTreeMap::from([(200, 20), (204, 5)])));
    assert_eq!(report.total.errors.total, Some(0), "{:?}", report.total.errors);
    assert_eq!(report.total.connections_opened, Some(10), "closed twice in five answers, at the end the last time");
}

#[test]
fn large_bodies_go_out_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("body");
    let size = 32 << 20;
    std::fs::write(&file, testkit::pattern::bytes(size)).expect("a file");
    let upstream = Upstream::connections(responder::sink);
    let yaml = format!(
        "base: {}\noperations: [{{id: put, method: PUT, path: /x, body: {{file: {}}}, capture: [{{name: a, json: ''}}]}}]\nload: {{closed: {{users: 2, iterations: 4}}}}\n",
        upstream.url(),
        file.display()
    );
    let report = run(&yaml);
    assert_eq!(report.total.requests.responses, Some(4), "{:?}", report.total.errors);
    assert!(report.total.bytes.sent > Some(4 * size as u64));
    assert!(upstream.requests().iter().all(|request| request.body_length == size as u64));
}

#[test]
fn large_responses_come_in_whole() {
    let upstream = Upstream::start(responder::large(8 << 20));
    let report = run(&get(&upstream, "{closed: {users: 2, iterations: 6}}"));
    assert_eq!(report.total.requests.responses, Some(6));
    assert!(report.total.bytes.received > Some(6 * (8 << 20)));
}

#[test]
fn captures_reach_later_requests() {
    // A login gives each user a token of its own; a bid responds with the last value, which the next one must exceed.
    let last = AtomicUsize::new(10);
    let logins = AtomicUsize::new(0);
    let refused = Arc::new(AtomicUsize::new(0));
    let refusals = Arc::clone(&refused);
    let upstream = Upstream::start(move |conn, request| {
        if request.head.target() == "/login" {
            let token = logins.fetch_add(1, Ordering::SeqCst);
            return conn.respond(200, &[], format!("{{\"data\":{{\"token\":\"t{token}\"}}}}"));
        }
        let authorised = request.head.field("authorization").is_some_and(|value| value.starts_with("Bearer t"));
        let bid: usize = String::from_utf8_lossy(&request.body)
            .trim_start_matches("{\"bid\":")
            .trim_end_matches('}')
            .parse()
            .unwrap_or(0);
        if !authorised {
            return conn.respond(401, &[], "");
        }
        if bid <= last.load(Ordering::SeqCst) {
            refusals.fetch_add(1, Ordering::SeqCst);
            return conn.respond(403, &[("X-Last", "10")], format!("{{\"last\":{}}}", last.load(Ordering::SeqCst)));
        }
        last.store(bid, Ordering::SeqCst);
        conn.respond(201, &[], format!("{{\"last\":{bid}}}"))
    });
    let yaml = format!(
        r#"
base: {}
setup: [{{id: login, method: POST, path: /login, capture: [{{name: token, json: /data/token}}]}}]
operations:
  - {{id: bid, method: POST, path: /bid, headers: {{Authorization: "Bearer {{token}}"}}, body: {{text: '{{"bid":{{bid}}}}'}},
     params: {{token: {{captured: token}}, bid: {{captured: bid, else: 1}}}}, expect: [201, 403], capture: [{{name: bid, json: /last, plus: 1}}]}}
load: {{closed: {{users: 1, iterations: 8}}}}
"#,
        upstream.url()
    );
    let report = run(&yaml);
    assert_eq!(report.total.statuses, Some(BTreeMap::from([(201, 7), (403, 1)])));
    assert_eq!(report.total.errors.total, Some(0), "a refused bid is an answer");
    assert_eq!(refused.load(Ordering::SeqCst), 1);
    assert_eq!(report.operations.len(), 1, "the login is not part of the total");
    assert_eq!(report.phases[0].name, "setup");
    assert_eq!(report.phases[0].operations[0].total.requests.responses, Some(1));
}

#[test]
fn values_follow_their_sources() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("users.csv");
    std::fs::write(&file, "name,city\nann,x y\nbob,z\n").expect("a file");
    let upstream = Upstream::start(responder::ok(""));
    let yaml = format!(
        "base: {0}\norder: sequence\nload: {{closed: {{users: 4, iterations: 40}}}}\noperations:\n  - {{id: a, path: '/n/{{n}}', params: {{n: {{counter: 100}}}}}}\n  \
         - {{id: b, path: '/u/{{name}}/{{city}}', params: {{name: {{csv: {1}, column: name, order: sequence}}, city: {{csv: {1}, column: city, order: sequence}}}}}}\n",
        upstream.url(),
        file.display()
    );
    run(&yaml);
    let mut targets: Vec<String> = upstream.requests().iter().map(|request| request.head.target().to_owned()).collect();
    targets.sort();
    let numbers: Vec<&str> = targets.iter().filter_map(|target| target.strip_prefix("/n/")).collect();
    let expected: Vec<String> = (100..120).map(|number| number.to_string()).collect();
    assert_eq!(numbers, expected, "each once, over all threads");
    let ann = targets.iter().filter(|target| *target == "/u/ann/x%20y").count();
    let bob = targets.iter().filter(|target| *target == "/u/bob/z").count();
    assert_eq!((ann, bob), (10, 10));
}

#[test]
fn weights_are_shares() {
    let upstream = Upstream::start(responder::ok(""));
    let yaml = format!(
        "base: {}\noperations: [{{id: often, path: /often, weight: 9}}, {{id: seldom, path: /seldom}}, {{id: never, path: /never, weight: 0}}]\nload: {{closed: {{users: 4, iterations: 2000}}}}\n",
        upstream.url()
    );
    let report = run(&yaml);
    let responses: Vec<u64> =
        report.operations.iter().map(|operation| operation.total.requests.responses.expect("counted")).collect();
    assert_eq!(responses.len(), 2, "what is never sent is not reported");
    assert_eq!(responses.iter().sum::<u64>(), 2000);
    assert!((1740..1860).contains(&responses[0]), "{responses:?}");
}

#[test]
fn phases_follow_each_other_and_warm_up_is_left_out() {
    let upstream = Upstream::start(responder::ok(""));
    let report = run(&get(
        &upstream,
        "\n  phases:\n    - {name: warm, warmup: true, open: {rate: 200/s, duration: 500ms}}\n    - {name: steady, open: {rate: 200/s, duration: 1s}}\n    - {name: users, closed: {users: 3, iterations: 30}}\n    - {name: ramp, closed: {users: {from: 1, to: 4}, duration: 500ms, think: {mean: 10ms}}}",
    ));
    let counts: Vec<(&str, Option<u64>)> =
        report.phases.iter().map(|phase| (phase.name.as_str(), phase.total.requests.responses)).collect();
    assert_eq!(counts[..3], [("warm", Some(100)), ("steady", Some(200)), ("users", Some(30))]);
    assert!(counts[3].1 > Some(20), "{counts:?}");
    assert_eq!(report.total.requests.responses, counts[1..].iter().map(|(_, count)| *count).sum());
    assert!((report.phases[1].start_s - 0.5).abs() < 1e-6, "without a gap: {}", report.phases[1].start_s);
    assert_eq!(report.phases[3].total.concurrency, Some(2.5));
    assert_eq!(upstream.request_count() as u64, counts.iter().map(|(_, count)| count.unwrap_or(0)).sum::<u64>());
    balanced(&report.total);
}

#[test]
fn a_stopped_run_reports_what_was() {
    let upstream = Upstream::start(responder::ok(""));
    let generator = generator(&get(&upstream, "{open: {rate: 200/s, duration: 60s}}"), 2);
    let watch = generator.watch();
    let report = std::thread::scope(|scope| {
        let run = scope.spawn(|| generator.run().expect("a report"));
        testkit::wait::until(testkit::DEADLINE, "some answers", || watch.counts().responses >= 40);
        watch.stop();
        run.join().expect("no panic")
    });
    assert_eq!(report.truncated.as_deref(), Some("interrupted"));
    assert!(report.total.requests.responses >= Some(40));
    assert!(report.total.duration_s < Some(30.0));
    balanced(&report.total);
}

/// The program itself, against a server that never ends.
fn program(args: &[&str]) -> Process {
    Process::builder(env!("CARGO_BIN_EXE_gauge")).args(args.iter().copied()).start()
}

#[test]
fn the_program_ends_with_requests_in_time() {
    let upstream = Upstream::start(responder::ok("hello"));
    let process = program(&["load", &upstream.url(), "-c", "4", "-n", "1200"]);
    let status = process.wait_for_exit(testkit::DEADLINE);
    let out = process.stdout();
    assert!(status.success(), "{out}");
    let last = out.lines().last().expect("a line");
    assert!(last.starts_with("1200 requests in "), "{out}");
    assert!(out.contains("p99 ") && !out.contains("p99.9"), "p99 from 1,000 samples on, p99.9 from 10,000: {out}");
    let process = program(&["load", &upstream.url(), "-c", "4", "-n", "500"]);
    process.wait_for_exit(testkit::DEADLINE);
    assert!(!process.stdout().contains("p99"), "{}", process.stdout());
}

#[test]
fn an_interrupt_gives_the_part_that_ran() {
    let upstream = Upstream::start(responder::ok("hello"));
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("report.json");
    let process = program(&["load", &upstream.url(), "-r", "200", "-d", "60s", "--json", &json.display().to_string()]);
    upstream.wait_for_requests(50);
    process.signal(Signal::INT);
    let status = process.wait_for_exit(testkit::DEADLINE);
    assert_eq!(status.code(), Some(130), "{}", process.tail());
    assert!(process.stdout().contains("truncated"), "{}", process.tail());
    let report = Report::from_json(&std::fs::read_to_string(json).expect("a file")).expect("a report");
    assert_eq!(report.truncated.as_deref(), Some("interrupted"));
    assert!(report.total.requests.responses > Some(0));
}

#[test]
fn the_program_says_what_is_wrong() {
    for (args, code, expected) in [
        (vec!["load"], 64, "required"),
        (vec!["load", "ftp://127.0.0.1/"], 64, "only http:// and https://"),
        (vec!["load", "http://127.0.0.1:1/", "-r", "fast"], 64, "not a rate"),
        (vec!["load", "http://127.0.0.1:1/", "-H", "nonsense"], 64, "not a header field"),
        (vec!["load", "http://127.0.0.1:1/", "-b", "@/nowhere"], 66, "/nowhere"),
        (vec!["load", "--targets", "/nowhere"], 66, "/nowhere"),
        (vec!["load", "http://127.0.0.1:1/", "-c", "1", "-n", "1"], 1, ""),
    ] {
        let process = program(&args);
        let status = process.wait_for_exit(testkit::DEADLINE);
        assert_eq!(status.code(), Some(code), "{args:?}\n{}", process.tail());
        assert!(process.stderr().contains(expected), "{args:?}\n{}", process.tail());
    }
}

#[test]
fn options_become_the_request() {
    let upstream = Upstream::start(responder::echo());
    let folder = tempfile::tempdir().expect("a folder");
    let targets = folder.path().join("targets.txt");
    std::fs::write(&targets, format!("GET {0}/a\nX-A: 1\n\nPOST {0}/b\n@body\n", upstream.url())).expect("a file");
    std::fs::write(folder.path().join("body"), "from a file").expect("a file");
    let url = format!("{}/path?q=1", upstream.url());
    let process = program(&["load", &url, "-c", "1", "-n", "1", "-b", "text {x}", "-H", "X-Tier: gold", "-m", "PATCH"]);
    assert!(process.wait_for_exit(testkit::DEADLINE).success(), "{}", process.tail());
    let request = &upstream.requests()[0];
    assert_eq!((request.head.method(), request.head.target()), ("PATCH", "/path?q=1"));
    assert_eq!(request.head.field("x-tier"), Some("gold"));
    assert_eq!(request.body, b"text {x}");
    upstream.forget();
    let process = program(&["load", "--targets", &targets.display().to_string(), "-c", "1", "-n", "4", "-H", "X-B: 2"]);
    assert!(process.wait_for_exit(testkit::DEADLINE).success(), "{}", process.tail());
    let seen: Vec<(String, Vec<u8>)> =
        upstream.requests().iter().map(|request| (request.head.target().to_owned(), request.body.clone())).collect();
    assert_eq!(seen[0], ("/a".to_owned(), Vec::new()));
    assert_eq!(seen[1], ("/b".to_owned(), b"from a file".to_vec()));
    assert_eq!(seen.len(), 4);
    assert!(upstream.requests().iter().all(|request| request.head.field("x-b") == Some("2")));
}

#[test]
fn keep_alive_connections_that_the_server_closes_are_opened_again() {
    let close = Arc::new(AtomicBool::new(false));
    let closing = Arc::clone(&close);
    let upstream = Upstream::start(move |conn, _| {
        // Every other response is the connection's last, and says nothing of it.
        conn.respond(200, &[], "ok")?;
        if closing.fetch_xor(true, Ordering::SeqCst) { conn.close() } else { Ok(()) }
    });
    let report = run(&get(&upstream, "{closed: {users: 1, iterations: 20, think: {mean: 20ms}}}"));
    assert_eq!(report.total.requests.responses, Some(20), "{:?}", report.total.errors);
    assert_eq!(report.total.connections_opened, Some(10));
}
