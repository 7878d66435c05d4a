//! Targets from a file: changes in every way that programs write files, under load, and beside everything else that operators do.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::{Gate, Signal, Upstream, Weir, responder, wait};

use super::load::{Load, Request, Way};
use super::{DEADLINE, File, program, reload, rewrite, take_over};

/// A file of targets.
struct Targets(PathBuf);

impl Targets {
    fn new(folder: &Path, text: &str) -> Self {
        let targets = Targets(folder.join("targets.yaml"));
        targets.replace(text);
        targets
    }

    fn replace(&self, text: &str) {
        let new = self.0.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(&new, &self.0).unwrap();
    }
}

fn list(servers: &[&Upstream]) -> String {
    servers.iter().map(|server| format!("- {}\n", server.url())).collect()
}

/// A configuration whose targets are in `targets.yaml` beside it.
fn config(folder: &Path, options: &str) -> String {
    format!(
        "listen: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nworkers: 2\ntakeover: {}\nupstreams:\n  u: {{targets: {{file: targets.yaml}}{options}}}\nroutes: [{{match: {{path: /*}}, upstream: u}}]\n",
        folder.join("takeover.sock").display()
    )
}

fn upstream(gateway: &Weir) -> Value {
    serde_json::from_str::<Value>(gateway.admin_get("/upstreams").text()).unwrap()[0].take()
}

fn wait_for_targets(gateway: &Weir, servers: &[&Upstream]) {
    let expected: Vec<String> = servers.iter().map(|server| server.socket_addr().to_string()).collect();
    let found = || -> Vec<String> {
        let upstream = upstream(gateway);
        let targets = upstream["targets"].as_array().unwrap().iter();
        targets.map(|target| target["address"].as_str().unwrap().to_owned()).collect()
    };
    wait::until(DEADLINE, &format!("targets {expected:?}"), || found() == expected);
}

/// Waits until the file is said to be wrong, and returns why.
fn wait_for_error(gateway: &Weir, words: &str) -> String {
    let error = || upstream(gateway)["sources"][0]["error"].as_str().map(str::to_owned);
    wait::some(DEADLINE, &format!("an error with {words:?}"), || error().filter(|error| error.contains(words)))
}

fn wait_for_no_error(gateway: &Weir) {
    wait::until(DEADLINE, "no error", || upstream(gateway)["sources"][0]["error"].is_null());
}

#[test]
fn a_hundred_changes_under_load_fail_no_request() {
    let folder = tempfile::tempdir().unwrap();
    let servers = ["a", "b", "c"].map(|body| Upstream::start(responder::ok(body)));
    let two = |first: usize| [&servers[first % 3], &servers[(first + 1) % 3]];
    let targets = Targets::new(folder.path(), &list(&two(0)));
    // A retry would hide a failure.
    let file = File::new(folder.path(), &config(folder.path(), ", retry: none"));
    let gateway = file.start();
    let load = Load::start(&[Way::from(gateway.addr()), gateway.addr().into()], &[Request::get("/")], |s| s == 200);
    for change in 1..=100 {
        targets.replace(&list(&two(change)));
        wait_for_targets(&gateway, &two(change));
    }
    load.wait_for(100);
    assert_eq!(load.stop(), Vec::<String>::new());
    assert!(servers.iter().all(|server| server.request_count() > 0));
}

#[test]
fn reloads_take_overs_and_drains_go_on_with_a_file_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let servers = ["a", "b"].map(|body| Upstream::start(responder::ok(body)));
    let [a, b] = servers.each_ref();
    let targets = Targets::new(folder.path(), &list(&[a]));
    let from_file = config(folder.path(), "");
    let listed = from_file.replace("{file: targets.yaml}", &format!("[{}]", a.url()));
    let file = File::new(folder.path(), &listed);
    let mut running = file.start();
    let load = Load::start(&[running.addr().into()], &[Request::get("/")], |s| s == 200);
    load.wait_for(20);
    let id = upstream(&running)["targets"][0]["id"].clone();

    // From a list to a file: the target stays the same one.
    rewrite(&file, &from_file, &running, "upstream u changed");
    load.wait_for(20);
    assert_eq!(upstream(&running)["targets"][0]["id"], id);
    targets.replace(&list(&[a, b]));
    wait_for_targets(&running, &[a, b]);
    assert_eq!(upstream(&running)["targets"][0]["id"], id);

    // A reload for another reason reads what is there now, and follows the file afterwards.
    targets.replace(&list(&[b]));
    file.write(&from_file.replace("path: /*", "path: /**"));
    reload(&running, "");
    wait_for_targets(&running, &[b]);
    targets.replace(&list(&[b, a]));
    wait_for_targets(&running, &[b, a]);
    load.wait_for(20);

    // A broken file refuses a reload, and changes nothing.
    targets.replace("- oops\n");
    wait_for_error(&running, "targets.yaml:1:3");
    let mark = running.mark();
    running.signal(Signal::HUP);
    let is_refused = |line: &str| line.contains("targets.yaml:1:3").then_some(());
    running.wait_for_line_after(mark, "the refusal", DEADLINE, is_refused);
    wait_for_targets(&running, &[b, a]);
    targets.replace(&list(&[b, a]));
    wait_for_no_error(&running);

    running = take_over(&file, running);
    targets.replace(&list(&[a]));
    wait_for_targets(&running, &[a]);
    load.wait_for(20);

    rewrite(&file, &listed, &running, "upstream u changed");
    assert_eq!(upstream(&running)["sources"], Value::Array(Vec::new()));
    load.wait_for(20);
    rewrite(&file, &from_file, &running, "upstream u changed");
    load.expect_the_end();
    running.signal(Signal::TERM);
    assert_eq!(running.wait_for_exit(DEADLINE).code(), Some(0));
    assert_eq!(load.stop(), Vec::<String>::new());
}

#[test]
fn what_is_in_flight_and_what_stays_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Gate::new();
    let slow = Upstream::start(responder::gated(&gate, responder::ok("slow")));
    let stays = Upstream::start(responder::ok("stays"));
    let targets = Targets::new(folder.path(), &list(&[&slow]));
    let file = File::new(folder.path(), &config(folder.path(), "").replace("workers: 2", "workers: 1"));
    let gateway = file.start();
    let mut waiting = gateway.connect();
    waiting.request("GET", "/", &[], "");
    slow.wait_for_requests(1);
    targets.replace(&list(&[&stays]));
    wait_for_targets(&gateway, &[&stays]);
    let mut client = gateway.connect();
    assert_eq!(client.get("/").text(), "stays");
    gate.open();
    assert_eq!(waiting.read_response().text(), "slow", "its target is no longer listed");

    let others = ["a", "b"].map(|body| Upstream::start(responder::ok(body)));
    for other in &others {
        // Last in the list, then first; the connection to it is the same one all the time.
        for servers in [[&stays, other], [other, &stays]] {
            targets.replace(&list(&servers));
            wait_for_targets(&gateway, &servers);
            wait::until(DEADLINE, "it serves", || client.get("/").text() == "stays");
        }
    }
    assert_eq!(stays.accepted(), 1);
}

/// How long a file that is written in place stays as it is before it is read.
const REST: Duration = Duration::from_secs(1);

const PIECES: usize = 12;

/// Writes one target after the other, slowly: several looks of the gateway fall into each pause, at a list that is complete so far. Returns the longest
/// pause.
fn write_in_pieces(path: &Path, url: &str) -> Duration {
    let mut file = fs::File::create(path).unwrap();
    let mut last = Instant::now();
    let mut longest = Duration::ZERO;
    for piece in 0..PIECES {
        file.write_all(format!("- {url}/{piece}\n").as_bytes()).unwrap();
        longest = longest.max(last.elapsed());
        last = Instant::now();
        std::thread::sleep(Duration::from_millis(300));
    }
    longest
}

#[test]
fn a_file_that_is_written_in_place_and_in_pieces_is_taken_whole() {
    let folder = tempfile::tempdir().unwrap();
    let server = Upstream::start(responder::ok("x"));
    let targets = Targets::new(folder.path(), &list(&[&server]));
    let gateway = File::new(folder.path(), &config(folder.path(), "")).start();
    // The first reading of its own, so that all further ones are of changes.
    wait::until(DEADLINE, "the file is followed", || upstream(&gateway)["sources"][0]["successes"] == 1);
    let mark = loop {
        let mark = gateway.mark();
        if write_in_pieces(&targets.0, &server.url()) < REST {
            break mark;
        }
        // The test itself was held up for so long that the gateway had to take it for the end: once more.
        targets.replace(&list(&[&server]));
        wait_for_targets(&gateway, &[&server]);
    };
    let count = || upstream(&gateway)["targets"].as_array().unwrap().len();
    wait::until(DEADLINE, "all of it", || count() == PIECES);
    let read: Vec<String> =
        gateway.lines_after(mark).into_iter().filter(|line| line.contains("file of targets")).collect();
    assert!(read.len() == 1 && read[0].contains(&format!("targets={PIECES}")), "{read:?}");
    assert_eq!(gateway.get("/").status(), 200);
}

#[test]
fn a_broken_a_missing_and_an_empty_file_keep_the_targets() {
    let folder = tempfile::tempdir().unwrap();
    let servers = ["a", "b"].map(|body| Upstream::start(responder::ok(body)));
    let [a, b] = servers.each_ref();
    let targets = Targets::new(folder.path(), "[]");
    let gateway = File::new(folder.path(), &config(folder.path(), "")).start();
    let unavailable = |gateway: &Weir| {
        let response = gateway.get("/");
        assert_eq!(response.status(), 503);
        assert!(response.text().contains("\"unavailable\""), "{}", response.text());
    };
    unavailable(&gateway);
    targets.replace(&list(&[a]));
    wait_for_targets(&gateway, &[a]);
    let metric = |name: &str, more: &str| -> f64 {
        let label = format!("source=\"file:{}\"", targets.0.display());
        let text = gateway.admin_get("/metrics").text().to_owned();
        let is_it = |line: &&str| line.starts_with(name) && line.contains(&label) && line.contains(more);
        text.lines()
            .find(is_it)
            .unwrap_or_else(|| panic!("{name}: {text}"))
            .rsplit(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap()
    };
    let mistakes: [(&str, &str); 3] = [
        ("- http://127.0.0.1:1\n- {url: http://127.0.0.1:2, wieght: 3}\n", "targets.yaml:2:"),
        ("[\"http://127.0.0.1:1\"", "targets.yaml:1:"),
        ("", "targets.yaml:1:1"),
    ];
    for (text, place) in mistakes {
        let mark = gateway.mark();
        let failed = metric("upstream_source_reads_total", "result=\"error\"");
        targets.replace(text);
        wait_for_error(&gateway, place);
        gateway.wait_for_line_after(mark, "the place in the log", DEADLINE, |line| line.contains(place).then_some(()));
        assert_eq!(gateway.get("/").text(), "a");
        assert_eq!(metric("upstream_source_failing", ""), 1.0);
        assert_eq!(metric("upstream_source_reads_total", "result=\"error\""), failed + 1.0, "it is read once");
        targets.replace(&list(&[a]));
        wait_for_no_error(&gateway);
        assert_eq!(metric("upstream_source_failing", ""), 0.0);
    }
    fs::remove_file(&targets.0).unwrap();
    wait_for_error(&gateway, "cannot read the file of targets");
    assert_eq!(gateway.get("/").text(), "a");
    targets.replace(&list(&[b]));
    wait_for_targets(&gateway, &[b]);
    wait_for_no_error(&gateway);
    // An empty list is meant.
    targets.replace("[]\n");
    wait_for_targets(&gateway, &[]);
    unavailable(&gateway);
    targets.replace(&format!("[{{\"url\": \"{}\", \"weight\": 2}}]", a.url()));
    wait_for_targets(&gateway, &[a]);
    assert_eq!((gateway.get("/").text(), &upstream(&gateway)["targets"][0]["weight"]), ("a", &Value::from(2)));
}

#[test]
fn the_links_of_a_config_map_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let mounted = folder.path().join("mounted");
    fs::create_dir(&mounted).unwrap();
    let servers = ["a", "b", "c"].map(|body| Upstream::start(responder::ok(body)));
    // As the kubelet does it: a folder of its own for each version, and one link that is renamed over.
    let publish = |version: usize| {
        let data = format!("..version_{version}");
        fs::create_dir(mounted.join(&data)).unwrap();
        fs::write(mounted.join(&data).join("targets.yaml"), list(&[&servers[version]])).unwrap();
        symlink(&data, mounted.join("..data_tmp")).unwrap();
        fs::rename(mounted.join("..data_tmp"), mounted.join("..data")).unwrap();
        if let Some(before) = version.checked_sub(1) {
            fs::remove_dir_all(mounted.join(format!("..version_{before}"))).unwrap();
        }
    };
    publish(0);
    symlink("..data/targets.yaml", mounted.join("targets.yaml")).unwrap();
    let text = config(folder.path(), "").replace("file: targets.yaml", "file: mounted/targets.yaml");
    let gateway = File::new(folder.path(), &text).start();
    for (version, body) in ["a", "b", "c"].into_iter().enumerate() {
        if version > 0 {
            publish(version);
        }
        wait_for_targets(&gateway, &[&servers[version]]);
        assert_eq!(gateway.get("/").text(), body);
    }
}

#[test]
fn ten_thousand_targets_come_and_go_under_load() {
    let folder = tempfile::tempdir().unwrap();
    let server = Upstream::start(responder::ok("x"));
    // One server, as many URLs.
    let many = |from: usize| -> String { (from..from + 10_000).map(|n| format!("- {}/{n}\n", server.url())).collect() };
    let targets = Targets::new(folder.path(), &list(&[&server]));
    let gateway = File::new(folder.path(), &config(folder.path(), ", retry: none")).start();
    let load = Load::start(&[gateway.addr().into()], &[Request::get("/")], |s| s == 200);
    let named = || upstream(&gateway)["sources"][0]["targets"].as_u64().unwrap();
    for text in [many(0), many(5_000)] {
        targets.replace(&text);
        wait::until(DEADLINE, "all of them", || named() == 10_000);
        load.wait_for(50);
    }
    let last = || server.requests().last().map(|request| request.head.target().to_owned());
    let of_second = || last().is_some_and(|path| path.trim_matches('/').parse::<usize>().is_ok_and(|n| n >= 10_000));
    wait::until(DEADLINE, "one of the second list serves", of_second);
    targets.replace(&(many(0) + "- http://127.0.0.1:1\n"));
    wait_for_error(&gateway, "at most 10000 targets, and here are 10001");
    assert_eq!(named(), 10_000);
    targets.replace(&list(&[&server]));
    wait_for_targets(&gateway, &[&server]);
    load.wait_for(10);
    assert_eq!(load.stop(), Vec::<String>::new());
}

#[test]
fn a_start_needs_the_file_and_a_check_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = File::new(folder.path(), &config(folder.path(), ""));
    let check = || Weir::builder(program()).args(["check", &file.0.display().to_string()]).command();
    let missing = Weir::builder(program()).config_file(&file.0).run();
    assert_eq!((missing.code, check().code), (Some(64), Some(64)));
    for stderr in [missing.stderr, check().stderr] {
        assert!(stderr.contains("weir.yaml:6:23: ") && stderr.contains("cannot read the file of targets"), "{stderr}");
    }
    let targets = Targets::new(folder.path(), "- http://127.0.0.1:1\n- 127.0.0.1:2\n");
    let wrong = check();
    assert_eq!(wrong.code, Some(64));
    assert!(wrong.stderr.contains("targets.yaml:2:3: ") && wrong.stderr.contains("write `http://"), "{}", wrong.stderr);
    targets.replace("- http://127.0.0.1:1\n- srv+http://_api._tcp.example.com\n");
    let good = check();
    assert_eq!(good.code, Some(0), "{}", good.stderr);
    assert!(
        good.stdout.contains("upstream u: 2 targets of ") && good.stdout.contains("targets.yaml"),
        "{}",
        good.stdout
    );
    let routes = Weir::builder(program()).args(["routes", &file.0.display().to_string(), "/x"]).command();
    let sources =
        format!("named by file:{}\n    its targets are named by srv:_api._tcp.example.com", targets.0.display());
    assert!(routes.stdout.contains(&sources), "{}", routes.stdout);
    assert!(good.stdout.contains("upstream u: targets of the SRV records of _api._tcp.example.com"), "{}", good.stdout);
}
