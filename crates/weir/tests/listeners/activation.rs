//! Sockets that the gateway is started with. The test plays systemd: it opens them, and passes them as sd_listen_fds(3) says.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use testkit::{Finished, RawClient, Signal, Weir, WeirBuilder, wait};

use super::unix::folder;
use super::{DEADLINE, logged, program};

/// A gateway that is started with sockets.
struct Activated {
    gateway: WeirBuilder,
    /// Open in the process of the test too until it has started.
    _descriptors: Vec<OwnedFd>,
}

impl Activated {
    /// With these descriptors from 3 on, under these names.
    fn with(descriptors: &[&dyn AsFd], names: &str, config: &str) -> Self {
        Self::of(descriptors, "export LISTEN_PID=$$; ", names, config)
    }

    fn of(descriptors: &[&dyn AsFd], pid: &str, names: &str, config: &str) -> Self {
        let mut gateway = Weir::builder("/bin/bash").env("LISTEN_FDS", descriptors.len().to_string());
        if !names.is_empty() {
            gateway = gateway.env("LISTEN_FDNAMES", names);
        }
        let path = gateway.dir().join("weir.yaml");
        std::fs::write(&path, config).unwrap();
        let mut script = String::from("set -e; ");
        let mut kept = Vec::new();
        for (index, descriptor) in descriptors.iter().enumerate() {
            // Out of the way of the numbers that they get; for children to have.
            let copy = fcntl_dupfd_cloexec(descriptor.as_fd(), 100).unwrap();
            fcntl_setfd(&copy, FdFlags::empty()).unwrap();
            let number = copy.as_raw_fd();
            write!(script, "exec {}<&{number} {number}<&-; ", 3 + index).unwrap();
            kept.push(copy);
        }
        write!(script, "{pid}exec {} --config {}", program(), path.display()).unwrap();
        Activated { gateway: gateway.args(["-c", &script]), _descriptors: kept }
    }

    fn start(self) -> Weir {
        self.gateway.start()
    }

    fn fail(self) -> Finished {
        let failed = self.gateway.run();
        assert_eq!(failed.code, Some(69), "{}", failed.stderr);
        failed
    }
}

fn config(binds: &str, body: &str) -> String {
    format!(
        "listen: [{binds}]\nadmin: 127.0.0.1:0\nworkers: 2\naccess_log: {{path: stdout}}\n\
         routes: [{{match: {{path: /*}}, respond: {{body: {body}}}}}]\n"
    )
}

fn tcp() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[test]
fn sockets_are_taken_by_name_and_by_number() {
    let (_folder, path) = folder();
    let ((web, address), local) = (tcp(), UnixListener::bind(&path).unwrap());
    for (names, binds) in
        [("web:local@1.socket", "fd:web, fd:local@1.socket"), ("", "fd:3, fd:4"), ("web", "fd:web, fd:4")]
    {
        let weir = Activated::with(&[&web, &local], names, &config(binds, "one")).start();
        assert_eq!(weir.addr(), address);
        weir.wait_for_line("the path", |line| (line == format!("listening on unix:{}", path.display())).then_some(()));
        assert_eq!(weir.get("/tcp").text(), "one");
        assert_eq!(RawClient::connect(&*path).get("/unix").text(), "one");
        assert_eq!(
            (&logged(&weir, "/tcp")["client"], &logged(&weir, "/unix")["client"]),
            (&"127.0.0.1".into(), &"unix:".into())
        );
        weir.stop(DEADLINE);
        assert!(path.exists(), "the file is systemd's");
    }
}

#[test]
fn a_restart_loses_no_connection() {
    let (_folder, path) = folder();
    let ((web, address), local) = (tcp(), UnixListener::bind(&path).unwrap());
    let start = |body: &str| Activated::with(&[&web, &local], "web:local", &config("fd:web, fd:local", body)).start();
    let (stops, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut weir = start("one");
    std::thread::scope(|scope| {
        let path = &*path;
        let clients: [fn(&Path, SocketAddr) -> RawClient; 2] =
            [|_, address| RawClient::connect(address), |path, _| RawClient::connect(path)];
        for connect in clients.into_iter().cycle().take(4) {
            let (stops, served) = (&stops, &served);
            scope.spawn(move || {
                while !stops.load(Ordering::Relaxed) {
                    assert_eq!(connect(path, address).get("/").status(), 200);
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..3 {
            let seen = served.load(Ordering::Relaxed);
            wait::until(DEADLINE, "requests", || served.load(Ordering::Relaxed) > seen + 20);
            // Stopped first, then started: what `systemctl restart` does.
            assert_eq!(weir.stop(DEADLINE).code(), Some(0));
            weir = start("two");
        }
        let seen = served.load(Ordering::Relaxed);
        wait::until(DEADLINE, "requests", || served.load(Ordering::Relaxed) > seen + 20);
        stops.store(true, Ordering::Relaxed);
    });
    assert_eq!(weir.get("/").text(), "two");
}

#[test]
fn all_workers_accept_from_one_socket() {
    let (web, address) = tcp();
    let upstream = testkit::Upstream::start(testkit::responder::ok("hello"));
    let text = format!(
        "listen: fd:web\nworkers: 4\nupstreams: {{u: {{targets: [{}]}}}}\nroutes: [{{match: {{path: /*}}, upstream: u}}]\n",
        upstream.url()
    );
    let _weir = Activated::with(&[&web], "web", &text).start();
    let clients: Vec<_> = std::iter::repeat_with(|| {
        let mut client = RawClient::connect(address);
        assert_eq!(client.get("/").status(), 200);
        client
    })
    .take(8)
    .collect();
    assert_eq!(upstream.accepted(), 4, "a worker keeps its connections to the target for itself");
    drop(clients);
}

#[test]
fn what_cannot_be_listened_on_is_named() {
    let (web, _) = tcp();
    let file = std::fs::File::open("/dev/null").unwrap();
    let connection = TcpStream::connect(web.local_addr().unwrap()).unwrap();
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (other, _) = tcp();
    let all: [&dyn AsFd; 5] = [&web, &file, &connection, &datagrams, &other];
    for (bind, why) in [
        (
            "fd:none",
            "was not started with this socket; it has: 3 (`fd:web`), 4 (`fd:file`), 5 (`fd:accepted`), 6 (`fd:udp`), 7 (`fd:web`)",
        ),
        ("fd:8", "was not started with this socket"),
        ("fd:file", "descriptor 4 (`fd:file`) is no socket"),
        ("fd:5", "descriptor 5 (`fd:accepted`) is a socket that does not listen"),
        ("fd:udp", "descriptor 6 (`fd:udp`) is a socket that does not listen"),
        ("fd:web", "several sockets with different addresses have this name"),
    ] {
        let failed = Activated::with(&all, "web:file:accepted:udp:web", &config(bind, "one")).fail();
        let said = format!("weir: cannot listen on {bind} (`listen`): ");
        assert!(failed.stderr.contains(&said) && failed.stderr.contains(why), "{}", failed.stderr);
    }
    // Variables that were meant for the process that started this one.
    let failed = Activated::of(&[&web], "export LISTEN_PID=1; ", "web", &config("fd:web", "one")).fail();
    assert!(failed.stderr.contains("was started without sockets"), "{}", failed.stderr);
    let failed = Activated::of(&[&web], "export LISTEN_PID=$$ LISTEN_FDS=x; ", "web", &config("fd:web", "one"));
    let failed = failed.gateway.run();
    assert_eq!(failed.code, Some(71), "{}", failed.stderr);
    assert!(failed.stderr.contains("LISTEN_FDS: `x` is not a number"), "{}", failed.stderr);
    // More than there are.
    let failed = Activated::of(&[&web], "export LISTEN_PID=$$ LISTEN_FDS=9; ", "", &config("fd:11", "one")).fail();
    assert!(failed.stderr.contains("descriptor 11 (`fd:11`) is not open"), "{}", failed.stderr);
}

#[test]
fn a_socket_that_no_listener_uses_is_said() {
    let ((web, _), (other, _)) = (tcp(), tcp());
    let weir = Activated::with(&[&web, &other], "web:other", &config("fd:web", "one")).start();
    weir.wait_for_line("the warning", |line| {
        (line.contains("no listener uses") && line.contains("fd:other")).then_some(())
    });
}

#[test]
fn a_reload_uses_further_sockets_and_those_that_it_gave_up() {
    let ((web, _), (other, address)) = (tcp(), tcp());
    let weir = Activated::with(&[&web, &other], "web:other", &config("fd:web", "one")).start();
    for (binds, body) in [("fd:web, fd:other", "two"), ("fd:web", "three"), ("fd:web, fd:other", "four")] {
        let mark = weir.mark();
        weir.rewrite_config(&config(binds, body));
        let reloaded = |line: &str| line.contains("configuration reloaded").then_some(());
        weir.wait_for_line_after(mark, "the reload", DEADLINE, reloaded);
        assert_eq!(weir.get("/").text(), body);
        if binds.contains("other") {
            assert_eq!(RawClient::connect(address).get("/").text(), body);
        }
    }
    // One that nobody accepts from for a while: its clients wait, and are served.
    let mark = weir.mark();
    weir.rewrite_config(&config("fd:web, fd:none", "five"));
    let refused = |line: &str| line.contains("was not started with this socket").then_some(());
    weir.wait_for_line_after(mark, "the refused reload", DEADLINE, refused);
    assert_eq!(RawClient::connect(address).get("/").text(), "four");
}

#[test]
fn a_successor_that_was_started_without_them_takes_them_over() {
    let (folder, path) = folder();
    let ((web, address), local) = (tcp(), UnixListener::bind(&path).unwrap());
    let text =
        format!("takeover: {}\n{}", folder.path().join("takeover.sock").display(), config("fd:web, fd:4", "one"));
    let mut running = Activated::with(&[&web, &local], "web", &text).start();
    for _ in 0..2 {
        let next = Weir::builder(program()).config(&text).start();
        assert_eq!(next.addr(), address);
        assert_eq!(running.wait_for_exit(DEADLINE).code(), Some(0), "{}", next.tail());
        assert_eq!(RawClient::connect(&*path).get("/").text(), "one");
        assert_eq!(next.get("/").text(), "one");
        running = next;
    }
    // The last one has them for reloads too.
    for binds in ["fd:web", "fd:web, fd:4"] {
        let mark = running.mark();
        running.rewrite_config(&text.replace("fd:web, fd:4", binds));
        let reloaded = |line: &str| line.contains("configuration reloaded").then_some(());
        running.wait_for_line_after(mark, "the reload", DEADLINE, reloaded);
    }
    assert_eq!(RawClient::connect(&*path).get("/").text(), "one");
    running.stop(DEADLINE);
    assert!(path.exists(), "the file is systemd's");
}

#[test]
fn the_service_manager_learns_of_start_reload_and_stop() {
    let (folder, _) = folder();
    let path = folder.path().join("notify.sock");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(DEADLINE)).unwrap();
    let received = || {
        let mut buffer = [0; 256];
        let count = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    };
    let weir = Weir::builder(program())
        .config(config("127.0.0.1:0", "one"))
        .env("NOTIFY_SOCKET", path.to_str().unwrap())
        .start();
    assert!(received().starts_with("READY=1\n"));
    weir.signal(Signal::HUP);
    let said = received();
    assert!(said.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{said}");
    assert_eq!(received(), "READY=1\nSTATUS=serving\n");
    weir.rewrite_config("listen: 5\n");
    assert!(received().starts_with("RELOADING=1\n"));
    assert!(received().contains("the last reload was refused"));
    weir.signal(Signal::TERM);
    assert!(received().starts_with("STOPPING=1\n"));
    assert_eq!(weir.wait_for_exit(DEADLINE).code(), Some(0));
}
