//! What listeners and connections can do beside serving requests: PROXY headers in and out, how long connections are used, which target a client keeps.

mod activation;
mod peers;
mod received;
mod routes;
mod sent;
mod sticky;
mod unix;
mod unix_life;
mod used;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use proxy_protocol::{Addresses, Header, Origin, Version, write};
use serde_json::Value;
use testkit::{Upstream, Weir};

const DEADLINE: Duration = Duration::from_secs(20);

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_weir")
}

/// A gateway with one listener, `{bind: 127.0.0.1:0<more>}`, before `upstream`.
fn gateway(upstream: &Upstream, more: &str, top: &str, route: &str) -> Weir {
    Weir::builder(program()).config(config(upstream, more, top, route)).start()
}

fn config(upstream: &Upstream, more: &str, top: &str, route: &str) -> String {
    format!(
        "listen: [{{bind: 127.0.0.1:0{more}}}]\nadmin: 127.0.0.1:0\nworkers: 2\naccess_log: {{path: stdout}}\n{top}\
         upstreams: {{u: {{targets: [{}]}}}}\nroutes:\n  - {{match: {{path: /*}}, upstream: u{route}}}\n",
        upstream.url()
    )
}

/// A header that names this client.
fn header(version: Version, source: &str) -> Vec<u8> {
    let source: SocketAddr = source.parse().unwrap();
    let destination = if source.is_ipv4() { "192.0.2.80:443" } else { "[2001:db8::80]:443" }.parse().unwrap();
    written(version, Origin::Client(Addresses { source, destination }))
}

fn written(version: Version, origin: Origin) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes, &Header { version, origin, authority: None, alpn: None, unique_id: None });
    bytes
}

/// The line of the access log about this path.
fn logged(weir: &Weir, path: &str) -> Value {
    let find = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        (line["path"] == path).then_some(line)
    };
    weir.wait_for_line(&format!("a log line of {path}"), find)
}

/// The values of a metric by its labels.
fn metric(weir: &Weir, name: &str, labels: &str) -> u64 {
    let text = weir.admin_get("/metrics").text().to_owned();
    let is_it = |line: &&str| line.starts_with(name) && line.contains(labels);
    text.lines().filter(is_it).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
}

/// Runs curl, which must succeed; its standard output.
fn curl(arguments: &[&str]) -> String {
    let output = std::process::Command::new("curl").args(["-sS", "-m", "20"]).args(arguments).output();
    let output = output.expect("curl, which `make test` installs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The last value of a field among the requests that the upstream has seen.
fn seen(upstream: &Upstream, field: &str) -> Option<String> {
    upstream.requests().last()?.head.field(field).map(str::to_owned)
}

fn tls_option(cert: &Path, key: &Path) -> String {
    format!(", tls: {{certificates: [{{cert: {}, key: {}, default: true}}]}}", cert.display(), key.display())
}
