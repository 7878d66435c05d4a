//! gRPC through the real program, between a client and a server of another project.

mod calls;
mod ends;
mod errors;
mod retries;
mod service;
mod spans;
mod target;

use std::net::SocketAddr;

use service::Server;
use testkit::Weir;

/// A gateway that takes HTTP/2 in clear text; every path goes to the server. `upstream` and `route` are more lines of the file.
fn gateway_with(server: SocketAddr, upstream: &str, route: &str) -> Weir {
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let log = builder.dir().join("access.log");
    let yaml = format!(
        "listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]\nadmin: 127.0.0.1:0\nworkers: 1\naccess_log: {{path: {}}}\nupstreams:\n  u:\n    targets: [http://{server}]\n    protocol: http2\n{upstream}routes:\n  - match: {{path: /*}}\n    upstream: u\n{route}",
        log.display(),
    );
    builder.config(yaml).start()
}

fn gateway(server: &Server) -> Weir {
    gateway_with(server.address, "", "")
}
