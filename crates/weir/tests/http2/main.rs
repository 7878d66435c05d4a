//! HTTP/2 on listeners: the real program, clients of raw frames, and real clients.

mod basics;
// Some constants are for tests to come.
#[allow(dead_code)]
mod client;
mod floods;
mod flow;
mod life;
mod over_tls;
mod real;
mod rules;
mod upstream;
mod websocket;
mod websocket_upstream;

use testkit::{Upstream, Weir};

/// A gateway that takes HTTP/2 in clear text; every path goes to `upstream`. `server` and `route` are more lines of the file.
fn gateway_with(upstream: &Upstream, server: &str, route: &str) -> Weir {
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let log = builder.dir().join("access.log");
    let yaml = format!(
        "listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]\nadmin: 127.0.0.1:0\nworkers: 1\naccess_log: {{path: {}}}\n{server}upstreams:\n  u:\n    targets: [{}]\n    eject: none\n    retry: {{extra_attempts: 0}}\nroutes:\n  - match: {{path: /*}}\n    upstream: u\n{route}",
        log.display(),
        upstream.url()
    );
    builder.config(yaml).start()
}

fn gateway(upstream: &Upstream) -> Weir {
    gateway_with(upstream, "", "")
}
