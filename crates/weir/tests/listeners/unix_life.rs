//! Unix sockets that come, go and change hands while clients are served.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use testkit::{Certificates, Gate, RawClient, Signal, Upstream, Weir, responder, wait};

use super::unix::{config, folder};
use super::{DEADLINE, curl, program, tls_option};

/// A file with these listeners, besides the harness' own.
fn listening(binds: &[&Path], body: &str, top: &str) -> String {
    let binds: String = binds.iter().map(|path| format!(", 'unix:{}'", path.display())).collect();
    format!(
        "listen: [127.0.0.1:0{binds}]\nworkers: 2\n{top}routes: [{{match: {{path: /*}}, respond: {{body: {body}}}}}]\n"
    )
}

fn reload(weir: &Weir, text: &str) {
    let mark = weir.mark();
    weir.rewrite_config(text);
    weir.wait_for_line_after(mark, "the reload", DEADLINE, |line| {
        line.contains("configuration reloaded").then_some(())
    });
}

#[test]
fn a_reload_adds_and_removes_paths() {
    let (folder, one) = folder();
    let two = folder.path().join("two.sock");
    let weir = Weir::builder(program()).config(listening(&[&one], "one", "")).start();
    let mut before = RawClient::connect(&*one);
    assert_eq!(before.get("/").text(), "one");
    reload(&weir, &listening(&[&one, &two], "two", ""));
    assert_eq!(RawClient::connect(&*two).get("/").text(), "two");
    assert_eq!(before.get("/").text(), "two", "the listener that stays keeps its connections");
    reload(&weir, &listening(&[&two], "three", ""));
    wait::until(DEADLINE, "the file to be removed", || !one.exists());
    let last = before.get("/");
    assert_eq!((last.text(), last.field("connection")), ("three", Some("close")), "its last response");
    assert_eq!(RawClient::connect(&*two).get("/").text(), "three");
    // One that cannot be opened changes nothing.
    let mark = weir.mark();
    let wrong = folder.path().join("missing/http.sock");
    weir.rewrite_config(&listening(&[&one, &wrong], "four", ""));
    let refused = |line: &str| line.contains("missing does not exist").then_some(());
    weir.wait_for_line_after(mark, "the refused reload", DEADLINE, refused);
    assert!(!one.exists());
    assert_eq!(RawClient::connect(&*two).get("/").text(), "three");
}

#[test]
fn a_successor_has_the_path_and_no_connection_is_lost() {
    let (folder, path) = folder();
    let upstream = Upstream::start(responder::ok("hello"));
    let (control, log) = (folder.path().join("takeover.sock"), folder.path().join("log"));
    let certificates = Certificates::localhost();
    let tls = tls_option(&certificates.certificate(), &certificates.key());
    let secure = folder.path().join("https.sock");
    // With its neighbours: admin, TLS, HTTP/2 in clear text, a log, more and fewer workers than before.
    let text = |workers: usize| {
        config(&path, &upstream.url(), ", http2: prior_knowledge", &format!("takeover: {}\n", control.display()), "")
            .replace("listen: [", &format!("listen: [{{bind: 'unix:{}'{tls}}}, ", secure.display()))
            .replace("workers: 2", &format!("workers: {workers}"))
            .replace("path: stdout", &format!("path: {}", log.display()))
    };
    let mut running = Weir::builder(program()).config(text(2)).start();
    let (stops, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stops.load(Ordering::Relaxed) {
                    let mut client = RawClient::connect(&*path);
                    assert_eq!(client.get("/").text(), "hello");
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for workers in [3, 1, 2] {
            let seen = served.load(Ordering::Relaxed);
            wait::until(DEADLINE, "requests", || served.load(Ordering::Relaxed) > seen + 20);
            let next = Weir::builder(program()).config(text(workers)).start();
            assert_eq!(running.wait_for_exit(DEADLINE).code(), Some(0), "{}", next.tail());
            assert!(path.exists() && secure.exists(), "the files belong to the successor");
            let ca = certificates.authority();
            let https =
                ["--unix-socket", secure.to_str().unwrap(), "--cacert", ca.to_str().unwrap(), "https://localhost/"];
            assert_eq!(curl(&https), "hello");
            assert_eq!(
                curl(&["--unix-socket", path.to_str().unwrap(), "--http2-prior-knowledge", "http://localhost/"]),
                "hello"
            );
            assert_eq!(next.admin_get("/healthz").status(), 200);
            running = next;
        }
        stops.store(true, Ordering::Relaxed);
    });
    running.stop(DEADLINE);
    assert!(!path.exists() && !secure.exists(), "the last one removes them");
}

#[test]
fn a_successor_without_the_path_removes_its_file() {
    let (folder, path) = folder();
    let top = format!("takeover: {}\n", folder.path().join("takeover.sock").display());
    let old = Weir::builder(program()).config(listening(&[&path], "one", &top)).start();
    let next = Weir::builder(program()).config(listening(&[], "two", &top)).start();
    assert_eq!(old.wait_for_exit(DEADLINE).code(), Some(0));
    wait::until(DEADLINE, "the file to be removed", || !path.exists());
    assert_eq!(next.get("/").text(), "two");
}

#[test]
fn a_successor_that_cannot_start_leaves_the_path_as_it_was() {
    let (folder, path) = folder();
    let other = folder.path().join("other.sock");
    let top = format!("takeover: {}\n", folder.path().join("takeover.sock").display());
    let old = Weir::builder(program()).config(listening(&[&path], "one", &top)).start();
    let broken = format!("{top}access_log: {{path: /nonexistent/folder/log}}\n");
    let failed = Weir::builder(program()).config(listening(&[&path, &other], "two", &broken)).run();
    assert_eq!(failed.code, Some(71), "{}", failed.stderr);
    old.wait_for_line("the end of the attempt", |line| line.contains("begun and not finished").then_some(()));
    assert_eq!(RawClient::connect(&*path).get("/").text(), "one");
    assert!(!other.exists(), "what it opened itself is removed");
}

#[test]
fn a_process_that_ends_while_it_gives_its_sockets_leaves_their_files() {
    let (folder, path) = folder();
    let control = folder.path().join("takeover.sock");
    let top = format!("takeover: {}\n", control.display());
    let old = Weir::builder(program()).config(listening(&[&path], "one", &top)).start();
    // A successor that has the sockets, and would serve if the old process ended.
    let mut successor = UnixStream::connect(&control).unwrap();
    successor.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut lines = Vec::new();
    while !lines.ends_with(b"end\n") {
        let mut byte = [0];
        successor.read_exact(&mut byte).unwrap();
        lines.push(byte[0]);
    }
    old.signal(Signal::TERM);
    assert_eq!(old.wait_for_exit(DEADLINE).code(), Some(0));
    assert!(path.exists());
}

#[test]
fn a_drain_finishes_requests_and_refuses_new_connections() {
    let (_folder, path) = folder();
    let gate = Gate::new();
    let upstream = Upstream::start(responder::gated(&gate, responder::ok("hello")));
    let weir = Weir::builder(program()).config(config(&path, &upstream.url(), "", "", "")).start();
    let mut client = RawClient::connect(&*path);
    client.request("GET", "/", &[], "");
    upstream.wait_for_requests(1);
    weir.signal(Signal::TERM);
    wait::until(DEADLINE, "the file to be removed", || !path.exists());
    gate.open();
    assert_eq!(client.read_response().text(), "hello");
    assert_eq!(weir.wait_for_exit(DEADLINE).code(), Some(0));
}
