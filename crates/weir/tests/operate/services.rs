//! Targets from SRV records, with the name server that `/etc/resolv.conf` names: on port 53, so everything runs in namespaces of its own.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;
use testkit::tls::TlsRelay;
use testkit::{Certificates, NameServer, Signal, Upstream, Weir, responder, wait};
use tls::names::Entry;
use tls::server::{Listener, Options, Tickets};
use tls::{Certificate, Names};

use super::load::{Load, Request};
use super::{DEADLINE, File, reload, rewrite, take_over};

/// Status of the script when this system gives no namespaces.
const NO_NAMESPACES: i32 = 77;

#[test]
fn services_are_followed_under_load_through_reloads_a_take_over_and_a_drain() {
    run("services::under_load");
}

#[test]
fn certificates_are_for_the_domain_and_never_for_the_host_of_a_record() {
    run("services::over_tls");
}

/// Runs one of the tests below in namespaces of its own.
fn run(test: &str) {
    let folder = tempfile::tempdir().unwrap();
    let servers = folder.path().join("resolv.conf");
    std::fs::write(&servers, "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n").unwrap();
    let script = "ip link set lo up && mount --bind \"$1\" /etc/resolv.conf || exit 77; shift; exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--map-root-user", "--net", "--mount", "/bin/sh", "-c", script, "sh"])
        .arg(&servers)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .output();
    let output = match output {
        Ok(output) if output.status.code() != Some(NO_NAMESPACES) && !is_refused(&output.stderr) => output,
        other => return eprintln!("not run: this system gives no namespaces: {other:?}"),
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn is_refused(stderr: &[u8]) -> bool {
    String::from_utf8_lossy(stderr).starts_with("unshare: ")
}

fn targets(gateway: &Weir) -> Vec<String> {
    let upstreams: Value = serde_json::from_str(gateway.admin_get("/upstreams").text()).unwrap();
    let targets = upstreams[0]["targets"].as_array().unwrap().iter();
    targets.map(|target| target["address"].as_str().unwrap().to_owned()).collect()
}

fn wait_for_targets(gateway: &Weir, servers: &[&Upstream]) {
    let mut expected: Vec<String> = servers.iter().map(|server| server.socket_addr().to_string()).collect();
    expected.sort_unstable();
    let found = || {
        let mut found = targets(gateway);
        found.sort_unstable();
        found
    };
    wait::until(DEADLINE, &format!("targets {expected:?}"), || found() == expected);
}

#[test]
#[ignore = "runs in namespaces that a test above makes"]
fn under_load() {
    const NAME: &str = "_api._tcp.weir.test";
    let dns = NameServer::start_at(SocketAddr::from(([127, 0, 0, 1], 53)));
    dns.set("node.weir.test", 1, &["127.0.0.1"]);
    let servers = ["a", "b", "c"].map(|body| Upstream::start(responder::ok(body)));
    let [a, b, c] = servers.each_ref();
    let record = |priority, server: &Upstream| (priority, 1, server.socket_addr().port(), "node.weir.test.");
    dns.set_service(NAME, 1, &[record(0, a), record(0, b)]);
    let folder = tempfile::tempdir().unwrap();
    let of = |targets: &str| {
        format!(
            "listen: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nworkers: 2\ntakeover: {}\nupstreams:\n  u: {{targets: [{targets}], eject: {{after: 1, for: 1m, max: 100%}}}}\nroutes: [{{match: {{path: /*}}, upstream: u}}]\n",
            folder.path().join("takeover.sock").display()
        )
    };
    let service = of(&format!("srv+http://{NAME}"));
    let file = File::new(folder.path(), &service);
    let mut running = file.start();
    // Before the first request, as with names.
    assert_eq!(targets(&running).len(), 2);
    let load = Load::start(&[running.addr().into()], &[Request::get("/")], |s| s == 200);
    load.wait_for(50);
    let host = a.requests()[0].head.field("host").map(str::to_owned);
    assert_eq!(host.as_deref(), Some("localhost"), "the client's, as everywhere");

    dns.set_service(NAME, 1, &[record(0, b), record(1, c)]);
    wait_for_targets(&running, &[b, c]);
    c.forget();
    load.wait_for(50);
    assert_eq!(c.request_count(), 0, "a later priority");
    b.stop();
    wait::until(DEADLINE, "the later priority serves", || c.request_count() > 20);
    b.restart();

    // The name server is away: nothing changes, also for a reload.
    dns.die(true);
    let error = |gateway: &Weir| {
        let upstreams: Value = serde_json::from_str(gateway.admin_get("/upstreams").text()).unwrap();
        upstreams[0]["sources"][0]["error"].is_string()
    };
    wait::until(DEADLINE, "the failure is told", || error(&running));
    file.write(&service.replace("path: /*", "path: /**"));
    reload(&running, "");
    wait_for_targets(&running, &[b, c]);
    load.wait_for(20);
    dns.die(false);
    dns.set_service(NAME, 1, &[record(0, a), record(0, c)]);
    wait_for_targets(&running, &[a, c]);

    running = take_over(&file, running);
    dns.set_service(NAME, 1, &[record(0, a), record(0, b)]);
    wait_for_targets(&running, &[a, b]);
    load.wait_for(20);
    rewrite(&file, &of(&a.url()), &running, "upstream u changed");
    wait_for_targets(&running, &[a]);
    load.wait_for(20);
    rewrite(&file, &service, &running, "upstream u changed");
    wait_for_targets(&running, &[a, b]);
    load.wait_for(20);
    load.expect_the_end();
    running.signal(Signal::TERM);
    assert_eq!(running.wait_for_exit(DEADLINE).code(), Some(0));
    assert_eq!(load.stop(), Vec::<String>::new());
}

#[test]
#[ignore = "runs in namespaces that a test above makes"]
fn over_tls() {
    let dns = NameServer::start_at(SocketAddr::from(([127, 0, 0, 1], 53)));
    dns.set("node.weir.test", 60, &["127.0.0.1"]);
    let upstream = Upstream::start(responder::ok("hello"));
    let start = |names: &str| {
        let certificates = Certificates::for_names(names);
        let certificate = Certificate::load(&certificates.certificate(), &certificates.key()).unwrap();
        let entry = Entry { certificate, names: Vec::new(), is_default: true, policy: 0 };
        let options = Options::new(Arc::new(Names::new(vec![entry]).unwrap()));
        let listener = Listener::new(&options, &Tickets::default()).unwrap();
        (TlsRelay::terminate(listener, upstream.socket_addr()), certificates)
    };
    let (of_domain, of_domain_files) = start("DNS:weir.test");
    let (of_host, of_host_files) = start("DNS:node.weir.test");
    for (name, relay) in [("_a._tcp.weir.test", &of_domain), ("_b._tcp.weir.test", &of_host)] {
        dns.set_service(name, 60, &[(0, 0, relay.address().port(), "node.weir.test.")]);
    }
    let upstream_of = |name: &str, service: &str, tls: String| {
        format!("  {name}: {{targets: ['srv+https://{service}'], tls: {{{tls}}}, health: {{path: /health}}}}\n")
    };
    let roots = |files: &Certificates| format!("roots: {}", files.authority().display());
    let text = format!(
        "listen: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nupstreams:\n{}{}{}routes:\n  - {{match: {{path: /domain}}, upstream: domain}}\n  - {{match: {{path: /host}}, upstream: host}}\n  - {{match: {{path: /named}}, upstream: named}}\n",
        upstream_of("domain", "_a._tcp.weir.test", roots(&of_domain_files)),
        upstream_of("host", "_b._tcp.weir.test", roots(&of_host_files)),
        upstream_of("named", "_b._tcp.weir.test", roots(&of_host_files) + ", server_name: node.weir.test"),
    );
    let gateway = Weir::builder(super::program()).config(text).start();
    wait::until(DEADLINE, "a domain's certificate", || gateway.get("/domain").status() == 200);
    wait::until(DEADLINE, "a certificate for a name that was configured", || gateway.get("/named").status() == 200);
    assert!([502, 503].contains(&gateway.get("/host").status()), "the name of a record proves nothing");
    // Checks have the domain as their host.
    let of_check = |recorded: &testkit::Recorded| recorded.head.target() == "/health";
    wait::until(DEADLINE, "a check", || upstream.requests().iter().any(of_check));
    let host = upstream.requests().iter().find(|one| of_check(one)).unwrap().head.field("host").map(str::to_owned);
    assert_eq!(host.as_deref(), Some("weir.test"));
}
