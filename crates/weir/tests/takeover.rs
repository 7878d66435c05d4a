//! Take-over: every listening socket changes hands, or everything stays as it was.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use testkit::{Gate, Signal, Upstream, Weir, responder, wait};

const DEADLINE: Duration = Duration::from_secs(20);

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_weir")
}

fn config(socket: &Path, top: &str, body: &str) -> String {
    format!(
        "listen: [127.0.0.1:0]\nadmin: 127.0.0.1:0\ntakeover: {}\n{top}\n\
         routes:\n  - match: {{path: /*}}\n    respond: {{status: 200, body: {body}}}\n",
        socket.display()
    )
}

#[test]
fn the_admin_listener_changes_hands_too() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("takeover.sock");
    let mut running = Weir::builder(program()).config(config(&socket, "workers: 2", "one")).start();
    let (address, admin) = (running.addr(), running.admin_addr());
    for (number, workers) in [3, 1, 2].into_iter().enumerate() {
        // By its number once, as a file in production has it.
        let text = config(&socket, &format!("workers: {workers}"), "two");
        let text = text.replace("admin: 127.0.0.1:0", &format!("admin: {admin}"));
        let text =
            if number == 1 { text.replace("listen: [127.0.0.1:0]", &format!("listen: [{address}]")) } else { text };
        let next = Weir::builder(program()).config(text).start();
        assert_eq!((next.addr(), next.admin_addr()), (address, admin));
        assert_eq!(running.wait_for_exit(DEADLINE).code(), Some(0), "{}", next.tail());
        assert_eq!(next.admin_get("/healthz").status(), 200);
        assert_eq!(next.get("/").text(), "two");
        running = next;
    }
}

#[test]
fn a_process_that_cannot_start_leaves_the_old_one_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("takeover.sock");
    let running = Weir::builder(program()).config(config(&socket, "workers: 1", "one")).start();
    let mut client = running.connect();
    assert_eq!(client.get("/").text(), "one");
    // Everything is taken, more sockets are bound for three workers, then the log cannot be opened.
    let broken = config(&socket, "workers: 3\naccess_log: {path: /nonexistent/folder/log}", "two");
    let failed = Weir::builder(program()).config(broken).run();
    assert_eq!(failed.code, Some(71), "{}", failed.stderr);
    running.wait_for_line("the end of the attempt", |line| line.contains("begun and not finished").then_some(()));
    for _ in 0..20 {
        assert_eq!(running.get("/").text(), "one");
    }
    assert_eq!(client.get("/").text(), "one", "on the old connection");
    assert_eq!(running.admin_get("/healthz").status(), 200);
    // And the next one can have it all.
    let next = Weir::builder(program()).config(config(&socket, "workers: 3", "two")).start();
    assert_eq!(next.addr(), running.addr());
    assert_eq!(running.wait_for_exit(DEADLINE).code(), Some(0));
}

#[test]
fn a_signal_ends_the_process_also_while_another_takes_over() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("takeover.sock");
    let running = Weir::builder(program()).config(config(&socket, "workers: 1", "one")).start();
    // A new process that received the sockets, and is never ready.
    let mut silent = UnixStream::connect(&socket).unwrap();
    silent.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut lines = String::new();
    while !lines.ends_with("end\n") {
        let mut byte = [0];
        silent.read_exact(&mut byte).unwrap();
        lines.push(char::from(byte[0]));
    }
    assert!(lines.contains("listen ") && lines.contains("admin ") && lines.contains("control "), "{lines}");
    running.signal(Signal::TERM);
    // Less than what a process waits for the other side.
    assert_eq!(running.wait_for_exit(Duration::from_secs(8)).code(), Some(0));
    drop(silent);
}

#[test]
fn a_gateway_that_cannot_have_its_workers_does_not_start() {
    let upstream = Upstream::start(responder::ok("hello"));
    let gateway = Weir::builder("/bin/sh");
    let path = gateway.dir().join("weir.yaml");
    let text = format!(
        "listen: [127.0.0.1:0]\nworkers: 32\nupstreams: {{u: {{targets: [{}]}}}}\nroutes: [{{match: {{path: /*}}, upstream: u}}]\n",
        upstream.url()
    );
    std::fs::write(&path, text).unwrap();
    // Enough for the sockets, not for the event loops.
    let command = format!("ulimit -n 60; exec {} --config {}", program(), path.display());
    let failed = gateway.args(["-c", &command]).run();
    assert_eq!(failed.code, Some(71), "{}", failed.stderr);
    assert!(failed.stderr.contains("cannot start a worker"), "{}", failed.stderr);
    assert!(!failed.stdout.contains("listening"), "{}", failed.stdout);
}

#[test]
fn health_says_503_for_as_long_as_the_listeners_stay_open_after_sigterm() {
    let weir = Weir::builder(program())
        .config(
            "listen: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nserver: {drain_delay: 1h}\n\
             routes:\n  - {match: {path: /healthz}, respond: {builtin: healthz}}\n\
             \x20 - {match: {path: /*}, respond: {status: 200, body: one}}\n",
        )
        .start();
    let mut client = weir.connect();
    assert_eq!(client.get("/healthz").status(), 200);
    weir.signal(Signal::TERM);
    wait::until(DEADLINE, "readiness to end", || client.get("/healthz").status() == 503);
    assert_eq!(weir.admin_get("/healthz").status(), 503);
    assert_eq!(weir.get("/").text(), "one", "new connections are served");
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait_for_exit(DEADLINE).code(), Some(0), "a second signal ends it at once");
}

#[test]
fn listeners_close_when_the_delay_is_over() {
    let weir = Weir::builder(program())
        .config("listen: [127.0.0.1:0]\nserver: {drain_delay: 200ms}\nroutes: [{match: {path: /*}, respond: {body: one}}]\n")
        .start();
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait_for_exit(DEADLINE).code(), Some(0));
    assert!(testkit::RawClient::try_connect(weir.addr(), None).is_err());
}

/// Two processes with one configuration: the running one, and another that begins to take over.
struct Pair {
    directory: tempfile::TempDir,
    running: Weir,
    text: String,
}

impl Pair {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("takeover.sock");
        let running = Weir::builder(program()).config(config(&socket, "workers: 2", "one")).start();
        Pair { text: config(&socket, "workers: 2", "two"), directory, running }
    }

    /// Another process, which need not come to serve.
    fn next(&self) -> (tempfile::TempDir, testkit::Process) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("weir.yaml");
        std::fs::write(&path, &self.text).unwrap();
        (directory, testkit::Process::builder(program()).arg("--config").arg(&path).start())
    }
}

#[test]
fn a_stalled_predecessor_goes_on_and_its_successor_ends_with_75() {
    let pair = Pair::start();
    let mut client = pair.running.connect();
    assert_eq!(client.get("/").text(), "one");
    pair.running.pause();
    let (_directory, next) = pair.next();
    assert_eq!(next.wait_for_exit(DEADLINE).code(), Some(75), "{}", next.stderr());
    assert!(next.stderr().contains("cannot take over from the process at"), "{}", next.stderr());
    assert!(!next.stdout().contains("listening"), "{}", next.stdout());
    pair.running.resume();
    assert_eq!(client.get("/").text(), "one", "on the connection from before");
    for _ in 0..20 {
        assert_eq!(pair.running.get("/").text(), "one");
    }
    // The next one that comes takes over.
    let next = Weir::builder(program()).config(&pair.text).start();
    assert_eq!(pair.running.wait_for_exit(DEADLINE).code(), Some(0));
    assert_eq!(next.get("/").text(), "two");
}

#[test]
fn a_stalled_successor_ends_with_75_and_its_predecessor_goes_on() {
    let pair = Pair::start();
    // A successor that has the sockets and stalls.
    let mut silent = UnixStream::connect(pair.directory.path().join("takeover.sock")).unwrap();
    silent.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut lines = String::new();
    while !lines.ends_with("end\n") {
        let mut byte = [0];
        silent.read_exact(&mut byte).unwrap();
        lines.push(char::from(byte[0]));
    }
    pair.running.wait_for_line("the end of the attempt", |line| line.contains("begun and not finished").then_some(()));
    let mut said = String::new();
    silent.read_to_string(&mut said).unwrap();
    assert_eq!(said, "withdrawn\n");
    assert_eq!(pair.running.get("/").text(), "one");
    // The next one that comes takes over.
    let next = Weir::builder(program()).config(&pair.text).start();
    assert_eq!(pair.running.wait_for_exit(DEADLINE).code(), Some(0));
    assert_eq!(next.get("/").text(), "two");
}

#[test]
fn a_file_that_changes_while_the_process_starts_is_read_again() {
    let pair = Pair::start();
    // The successor has read its file once it is connected to the process that does not respond.
    pair.running.pause();
    let (directory, next) = pair.next();
    let descriptors = format!("/proc/{}/fd", next.pid());
    wait::until(DEADLINE, "the successor to be connected", || {
        let links = std::fs::read_dir(&descriptors).into_iter().flatten().flatten();
        let mut targets = links.filter_map(|link| std::fs::read_link(link.path()).ok());
        targets.any(|target| target.to_string_lossy().starts_with("socket:"))
    });
    let path = directory.path().join("weir.yaml");
    std::fs::write(path.with_extension("new"), pair.text.replace("body: two", "body: three")).unwrap();
    std::fs::rename(path.with_extension("new"), &path).unwrap();
    pair.running.resume();
    wait::until(DEADLINE, "the new file", || pair.running.get("/").text() == "three");
}

/// A service manager may restart a process that drains for minutes, and an operator may upgrade one that was told to end.
#[test]
fn a_process_that_drains_is_replaced_too() {
    for delay in ["none", "20s"] {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("takeover.sock");
        let clients = directory.path().join("clients.sock");
        let gate = Gate::new();
        let may_respond = gate.clone();
        let upstream = Upstream::start(move |conn, _| {
            conn.pass(&may_respond)?;
            conn.respond(200, &[], "from upstream")
        });
        let text = |admin: &str, body: &str| {
            format!(
                "listen: [127.0.0.1:0, unix:{}]\nadmin: {admin}\ntakeover: {}\nworkers: 1\nserver: {{drain: 60s, drain_delay: {delay}}}\n\
                 upstreams: {{u: {{targets: [{}]}}}}\nroutes:\n  - match: {{path: /slow}}\n    upstream: u\n  \
                 - match: {{path: /*}}\n    respond: {{status: 200, body: {body}}}\n",
                clients.display(),
                socket.display(),
                upstream.url()
            )
        };
        let old = Weir::builder(program()).config(text("127.0.0.1:0", "one")).start();
        let admin = old.admin_addr();
        let mut slow = old.connect();
        slow.request("GET", "/slow", &[], "");
        upstream.wait_for_requests(1);
        old.signal(Signal::TERM);
        let phase = if delay == "none" { "draining" } else { "draining after the delay" };
        old.wait_for_line(phase, |line| line.contains(phase).then_some(()));
        // Two that begin and give up first.
        for _ in 0..2 {
            drop(UnixStream::connect(&socket).unwrap());
        }
        let next = Weir::builder(program()).config(text(&admin.to_string(), "two")).start();
        assert_eq!(next.admin_addr(), admin);
        // The old process may accept for a moment longer where it had not begun to drain.
        wait::until(DEADLINE, "the new process responds", || next.get("/").text() == "two");
        assert_eq!(next.admin_get("/readyz").status(), 200, "{delay}: the new process responds");
        if delay != "none" {
            assert_eq!(next.addr(), old.addr(), "the listeners were open");
        }
        wait::until(DEADLINE, "the new process responds at the socket file", || {
            let mut local = UnixStream::connect(&clients).unwrap();
            local.set_read_timeout(Some(DEADLINE)).unwrap();
            local.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
            let mut response = String::new();
            local.read_to_string(&mut response).unwrap();
            response.ends_with("two")
        });
        gate.open();
        assert_eq!(slow.read_response().text(), "from upstream", "{delay}: what was in flight ends");
        assert_eq!(old.wait_for_exit(DEADLINE).code(), Some(0), "{delay}");
        assert_eq!(next.admin_get("/healthz").status(), 200, "{delay}");
        // And the new one can be replaced as any other.
        let third = Weir::builder(program()).config(text(&admin.to_string(), "three")).start();
        assert_eq!(third.addr(), next.addr());
        wait::until(DEADLINE, "the third process responds", || third.get("/").text() == "three");
    }
}
