//! What a route does beside its response: pages for errors, copies of requests, faults on purpose.

mod injected;
mod mirror;
mod pages;
mod replaced;

use testkit::{RawClient, Weir};

/// A line of the metrics, as a number.
fn metric(weir: &Weir, line: &str) -> usize {
    let metrics = weir.admin_get("/metrics").text().to_owned();
    metrics.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok()).unwrap_or(0)
}

fn reload(weir: &Weir) {
    let mut admin = RawClient::connect(weir.admin_addr());
    admin.request("POST", "/reload", &[("Host", &weir.admin_addr().to_string())], "");
    assert_eq!(admin.read_response().status(), 200);
}

/// Runs a configuration that is wrong; returns its error output.
fn wrong(yaml: &str) -> String {
    let finished = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).run();
    assert_ne!(finished.code, Some(0), "{yaml}");
    finished.stderr
}
