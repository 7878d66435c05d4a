//! What operators do, all of it at once and under load: reload, take over, restart, drain, with every listener and option in use. No request may
//! fail.

mod credentials;
mod discovery;
mod everything;
mod examples;
mod http2;
mod load;
mod registries;
mod registry_servers;
mod services;

use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use testkit::{Certificates, Process, Weir};
use tls::certificate::read_certificates;
use tls::client::{self, Roots};
use tls::{Alpn, ClientConfig};

const DEADLINE: Duration = Duration::from_secs(60);

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_weir")
}

/// A configuration file that several processes follow, one after the other.
struct File(PathBuf);

impl File {
    fn new(directory: &Path, text: &str) -> Self {
        let file = File(directory.join("weir.yaml"));
        file.write(text);
        file
    }

    fn write(&self, text: &str) {
        let new = self.0.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &self.0).unwrap();
    }

    fn start(&self) -> Weir {
        Weir::builder(program()).config_file(&self.0).start()
    }

    /// Starts it as systemd does, with a socket that is called `web`.
    fn start_with(&self, web: &TcpListener) -> Weir {
        // Out of the way of the number that it gets; for the child to have.
        let copy = fcntl_dupfd_cloexec(web, 100).unwrap();
        fcntl_setfd(&copy, FdFlags::empty()).unwrap();
        let number = copy.as_raw_fd();
        let config = self.0.display();
        let script =
            format!("exec 3<&{number} {number}<&-; export LISTEN_PID=$$; exec {} --config {config}", program());
        let gateway = Weir::builder("/bin/bash").env("LISTEN_FDS", "1").env("LISTEN_FDNAMES", "web");
        gateway.args(["-c", &script]).start()
    }
}

/// A client that trusts the certificates and speaks this protocol.
fn trusting(certificates: &Certificates, alpn: Alpn) -> Arc<ClientConfig> {
    let roots = Roots::These(read_certificates(&certificates.authority()).unwrap());
    client::config(&client::Options { roots, alpn: vec![alpn], ..client::Options::default() }).unwrap()
}

/// Sends SIGHUP and waits until a configuration is in force.
fn reload(gateway: &Process, marker: &str) {
    reload_since(gateway.mark(), gateway, marker);
}

/// Writes the configuration and waits until it is in force, whether by SIGHUP or because the process looked at the file just then.
fn rewrite(file: &File, text: &str, gateway: &Process, marker: &str) {
    let mark = gateway.mark();
    file.write(text);
    reload_since(mark, gateway, marker);
}

fn reload_since(mark: testkit::Mark, gateway: &Process, marker: &str) {
    gateway.signal(testkit::Signal::HUP);
    let is_reloaded = |line: &str| (line.contains("configuration reloaded") && line.contains(marker)).then_some(());
    gateway.wait_for_line_after(mark, "the reload", DEADLINE, is_reloaded);
}

/// Starts another process, which takes over from `running`; returns it when the old one has ended.
fn take_over(file: &File, running: Weir) -> Weir {
    let next = file.start();
    assert_eq!((next.addr(), next.admin_addr()), (running.addr(), running.admin_addr()), "the same sockets");
    assert_eq!(running.wait_for_exit(DEADLINE).code(), Some(0), "the old process drains and ends");
    next
}
