//! Standard error that nobody reads, or whose reader has ended: the gateway serves, reloads, checks its targets and ends as ever.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use testkit::{DEADLINE, Upstream, responder, wait};

/// A gateway on a Unix socket: its messages, by which the others of these tests are found, are what is not there.
struct Gateway {
    dir: tempfile::TempDir,
    process: Child,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn config(dir: &Path, upstream: &Upstream, tag: &str) -> String {
    format!(
        "listen: [\"unix:{}\"]\nadmin: 127.0.0.1:0\nworkers: 2\nserver: {{drain: 2s}}\naccess_log: {{path: {}}}\n\
         upstreams: {{u: {{targets: [{}], health: {{interval: 50ms, timeout: 1s, healthy_after: 1, unhealthy_after: 1}}}}}}\n\
         routes:\n  - {{match: {{path: /tag}}, respond: {{body: {tag}}}}}\n  - {{match: {{path: /*}}, upstream: u}}\n",
        dir.join("http.sock").display(),
        dir.join("access.log").display(),
        upstream.url()
    )
}

impl Gateway {
    fn start(upstream: &Upstream, stderr: impl Into<Stdio>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("weir.yaml"), config(dir.path(), upstream, "one")).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_weir"))
            .arg("--config")
            .arg(dir.path().join("weir.yaml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .unwrap();
        Gateway { dir, process }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The response to a GET, head and body; an error while nobody listens.
    fn get(&self, path: &str) -> io::Result<String> {
        let mut stream = UnixStream::connect(self.path("http.sock"))?;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }

    fn wait_for(&self, path: &str, what: &str, end: &str) {
        wait::until(DEADLINE, what, || self.get(path).is_ok_and(|text| text.starts_with(end) || text.ends_with(end)));
    }

    fn signal(&self, signal: testkit::Signal) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Everything that writes messages, one after the other.
    fn lives(mut self, upstream: &Upstream) {
        self.wait_for("/tag", "the start", "one");
        fs::write(self.path("weir.yaml"), config(self.dir.path(), upstream, "two")).unwrap();
        self.signal(testkit::Signal::HUP);
        self.wait_for("/tag", "a reload", "two");
        fs::write(self.path("weir.yaml"), "listen: nonsense\n").unwrap();
        self.signal(testkit::Signal::HUP);
        fs::write(self.path("weir.yaml"), config(self.dir.path(), upstream, "three")).unwrap();
        self.signal(testkit::Signal::HUP);
        self.wait_for("/tag", "a reload after one that was refused", "three");
        upstream.set_responder(responder::status(500));
        self.wait_for("/x", "the target to be unhealthy", "HTTP/1.1 503");
        upstream.set_responder(responder::ok("well"));
        self.wait_for("/x", "the target to be healthy again", "well");
        self.signal(testkit::Signal::TERM);
        let mut status = None;
        wait::until(DEADLINE, "the end", || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        assert_eq!(status.unwrap().code(), Some(0));
        assert!(fs::read_to_string(self.path("access.log")).unwrap().contains("\"path\":\"/tag\""));
    }
}

#[test]
fn a_reader_that_has_ended_costs_messages_only() {
    let upstream = Upstream::start(responder::ok("well"));
    let (reader, writer) = io::pipe().unwrap();
    let gateway = Gateway::start(&upstream, writer);
    drop(reader);
    gateway.lives(&upstream);
}

#[test]
fn a_reader_that_reads_nothing_costs_messages_only() {
    let upstream = Upstream::start(responder::ok("well"));
    let (reader, mut writer) = io::pipe().unwrap();
    // Full to the last byte, before the gateway says its first word.
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    while writer.write(&[b'x'; 4096]).is_ok() {}
    while writer.write(b"x").is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    let gateway = Gateway::start(&upstream, writer);
    gateway.lives(&upstream);
    drop(reader);
}
