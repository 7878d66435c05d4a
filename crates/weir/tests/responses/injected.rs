//! Faults on purpose: only where the server allows them, marked and counted.

use testkit::{Upstream, Weir, responder};

use super::{metric, wrong};

fn config(upstream: &Upstream, server: &str, fault: &str) -> String {
    format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 1\n{server}upstreams: {{u: {{targets: [{}]}}}}\nroutes:\n  - {{name: r, match: {{path: /*}}, upstream: u, fault: {fault}}}\n",
        upstream.url()
    )
}

const ALLOWED: &str = "server: {faults: true}\n";

fn gateway(upstream: &Upstream, fault: &str) -> Weir {
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(config(upstream, ALLOWED, fault)).start()
}

fn count(weir: &Weir, kind: &str) -> usize {
    metric(weir, &format!("injected_faults_total{{route=\"r\",kind=\"{kind}\"}}"))
}

#[test]
fn a_status_takes_the_place_of_the_response() {
    let upstream = Upstream::start(responder::ok("real"));
    let weir = gateway(&upstream, "{status: 503}");
    let mut client = weir.connect();
    for _ in 0..3 {
        client.request("POST", "/x", &[("Host", "a")], "some body");
        let response = client.read_response();
        assert_eq!((response.status(), response.field("x-weir-fault")), (503, Some("status")));
        assert!(response.text().contains("injected_fault"));
    }
    assert_eq!((upstream.request_count(), count(&weir, "status"), count(&weir, "delay")), (0, 3, 0));
}

#[test]
fn a_delay_holds_the_request_back_and_then_serves_it() {
    let upstream = Upstream::start(responder::ok("real"));
    let weir = gateway(&upstream, "{delay: 50ms}");
    let mut client = weir.connect();
    for _ in 0..2 {
        let response = client.get("/x");
        assert_eq!((response.status(), response.text(), response.field("x-weir-fault")), (200, "real", Some("delay")));
    }
    assert_eq!((upstream.request_count(), count(&weir, "delay")), (2, 2));
    // Whoever does not wait is not served.
    let weir = gateway(&upstream, "{delay: 1h}");
    let mut client = weir.connect();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    testkit::wait::until(testkit::DEADLINE, "the delay", || count(&weir, "delay") == 1);
    drop(client);
    testkit::wait::until(testkit::DEADLINE, "the end of the request", || {
        metric(&weir, "request_errors_total{fault=\"client\",reason=\"client_disconnected\"}") == 1
    });
    assert_eq!(upstream.request_count(), 2);
}

#[test]
fn a_share_of_nothing_injects_nothing() {
    let upstream = Upstream::start(responder::ok("real"));
    let weir = gateway(&upstream, "{status: 503, share: 0%}");
    let response = weir.get("/x");
    assert_eq!((response.status(), response.field("x-weir-fault"), count(&weir, "status")), (200, None, 0));
}

#[test]
fn faults_need_the_permission_of_the_server() {
    let upstream = Upstream::start(responder::ok("real"));
    for (server, fault, message) in [
        ("", "{status: 503}", "server: {faults: true}"),
        (ALLOWED, "{}", "`delay`, `status` or both"),
        (ALLOWED, "{status: 200}", "from 400 to 599"),
        (ALLOWED, "{delay: 0s}", "0 is not a valid time"),
    ] {
        let said = wrong(&config(&upstream, server, fault));
        assert!(said.contains(message), "{fault}: {said}");
    }
}
