//! TLS on listeners: who is served, under which certificate, and what happens when handshakes, files or processes change under load.

mod authorities;
mod client;
mod hosts;
mod life;
mod mtls;
mod revoked;
mod rough;

use std::path::Path;

use testkit::{Certificates, Weir};

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_weir")
}

/// One certificate of a listener, in YAML.
fn certificate(certificates: &Certificates, more: &str) -> String {
    entry(&certificates.certificate(), &certificates.key(), more)
}

fn entry(cert: &Path, key: &Path, more: &str) -> String {
    format!("{{cert: {}, key: {}{more}}}", cert.display(), key.display())
}

/// A listener with these certificates.
fn listener(certificates: &[String], more: &str) -> String {
    format!("{{bind: 127.0.0.1:0, tls: {{certificates: [{}]{more}}}}}", certificates.join(", "))
}

const ROUTES: &str = "routes:\n  - {match: {path: /*}, respond: {body: hello}}\n";

fn gateway(listeners: &[String], rest: &str) -> Weir {
    let text = format!("listen: [{}]\nadmin: 127.0.0.1:0\nworkers: 2\n{rest}", listeners.join(", "));
    Weir::builder(program()).config(text).start()
}

/// The values of a metric by its labels.
fn metric(weir: &Weir, name: &str, labels: &str) -> u64 {
    let text = weir.admin_get("/metrics").text().to_owned();
    let is_it = |line: &&str| line.starts_with(name) && line.contains(labels);
    text.lines().filter(is_it).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
}
