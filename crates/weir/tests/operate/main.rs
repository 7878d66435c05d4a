//! What operators do, all of it at once and under load: reload, take over, drain, with every listener and option in use. No request may fail.

mod everything;
mod examples;
mod load;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use testkit::{Certificates, Process, Weir};
use tls::ClientConfig;
use tls::certificate::read_certificates;
use tls::client::{self, Roots};

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
}

/// A client that trusts the certificates.
fn trusting(certificates: &Certificates) -> Arc<ClientConfig> {
    let roots = read_certificates(&certificates.authority()).unwrap();
    client::config(&client::Options { roots: Roots::These(roots), ..client::Options::default() }).unwrap()
}

/// Sends SIGHUP and waits until a configuration is in force.
fn reload(gateway: &Process, marker: &str) {
    let mark = gateway.mark();
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
