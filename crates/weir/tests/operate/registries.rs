//! Targets from registries: EndpointSlices of Kubernetes and services of Consul, under load, beside reloads and take-overs, and with every fault.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::{Gate, Signal, Upstream, Weir, WeirBuilder, responder, wait};

use super::load::{Load, Request};
use super::registry_servers::{Consul, End, Fault, Kubernetes};
use super::{DEADLINE, File, program, reload};

const TOKEN: &str = "t0ken-that-nobody-sees";

/// A gateway with one upstream, and the folder of its files.
struct Rig {
    folder: tempfile::TempDir,
    file: File,
}

impl Rig {
    fn new(targets: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = File::new(folder.path(), &config(folder.path(), targets));
        fs::write(folder.path().join("token"), format!("{TOKEN}\n")).unwrap();
        Rig { folder, file }
    }

    fn of_kubernetes(cluster: &Kubernetes) -> Self {
        let rig = Rig::new("{kubernetes: shop/orders:http}");
        fs::write(rig.kubeconfig(), cluster.kubeconfig(&rig.token())).unwrap();
        rig
    }

    fn of_consul(agent: &Consul) -> Self {
        Rig::new(&format!("{{consul: orders, address: '{}', token: '${{CONSUL_TOKEN}}'}}", agent.server.url()))
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    fn token(&self) -> PathBuf {
        self.folder.path().join("token")
    }

    fn builder(&self) -> WeirBuilder {
        let builder = Weir::builder(program()).env("KUBECONFIG", self.kubeconfig().display().to_string());
        builder.env("CONSUL_TOKEN", TOKEN)
    }

    fn start(&self) -> Weir {
        self.builder().config_file(&self.file.0).start()
    }

    /// Starts another process, which takes over from `running`.
    fn take_over(&self, running: Weir) -> Weir {
        let next = self.start();
        assert_eq!((next.addr(), next.admin_addr()), (running.addr(), running.admin_addr()), "the same sockets");
        assert_eq!(running.wait_for_exit(DEADLINE).code(), Some(0), "the old process drains and ends");
        next
    }
}

fn config(folder: &Path, targets: &str) -> String {
    // A retry would hide a failure.
    format!(
        "listen: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nworkers: 2\ntakeover: {}\nupstreams:\n  u: {{targets: {targets}, retry: none}}\nroutes: [{{match: {{path: /*}}, upstream: u}}]\n",
        folder.join("takeover.sock").display()
    )
}

fn upstream(gateway: &Weir) -> Value {
    serde_json::from_str::<Value>(gateway.admin_get("/upstreams").text()).unwrap()[0].take()
}

fn source(gateway: &Weir) -> Value {
    upstream(gateway)["sources"][0].take()
}

fn addresses(gateway: &Weir) -> Vec<String> {
    let upstream = upstream(gateway);
    let targets = upstream["targets"].as_array().unwrap().iter();
    targets.map(|target| target["address"].as_str().unwrap().to_owned()).collect()
}

/// Identity of the state that a target has.
fn id(gateway: &Weir, server: &Upstream) -> Value {
    let upstream = upstream(gateway);
    let is_it = |target: &&Value| target["address"] == server.socket_addr().to_string();
    upstream["targets"].as_array().unwrap().iter().find(is_it).unwrap()["id"].clone()
}

fn wait_for_targets(gateway: &Weir, servers: &[&Upstream]) {
    let mut expected: Vec<_> = servers.iter().map(|server| server.socket_addr()).collect();
    // A registry has no order of its own.
    expected.sort_unstable();
    let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
    wait::until(DEADLINE, &format!("targets {expected:?}"), || addresses(gateway) == expected);
}

fn wait_for_error(gateway: &Weir, words: &str) {
    let has_it = || source(gateway)["error"].as_str().is_some_and(|error| error.contains(words));
    wait::until(DEADLINE, &format!("an error with {words:?}"), has_it);
}

fn wait_for_no_error(gateway: &Weir) {
    wait::until(DEADLINE, "no error", || source(gateway)["error"].is_null());
}

fn expect_unavailable(gateway: &Weir) {
    let response = gateway.get("/");
    assert_eq!(response.status(), 503);
    assert!(response.text().contains("\"unavailable\""), "{}", response.text());
}

fn metric(gateway: &Weir, start: &str) -> f64 {
    let text = gateway.admin_get("/metrics").text().to_owned();
    let line = text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Nothing that anybody can read has the token.
fn expect_no_token(gateway: &Weir) {
    for page in ["/upstreams", "/metrics", "/config", "/routes"] {
        assert!(!gateway.admin_get(page).text().contains(TOKEN), "{page}");
    }
    assert!(!gateway.stderr().contains(TOKEN) && !gateway.stdout().contains(TOKEN), "{}", gateway.tail());
}

fn servers() -> [Upstream; 3] {
    ["a", "b", "c"].map(|body| Upstream::start(responder::ok(body)))
}

#[test]
fn endpoints_of_kubernetes_are_followed_under_load_through_reloads_a_take_over_and_a_drain() {
    let cluster = Kubernetes::start();
    let servers = servers();
    let [a, b, c] = servers.each_ref();
    cluster.set(&[a, b]);
    let rig = Rig::of_kubernetes(&cluster);
    let mut running = rig.start();
    // Before the first request, as with names.
    wait_for_targets(&running, &[a, b]);
    let load = Load::start(&[running.addr().into()], &[Request::get("/")], |s| s == 200);
    load.wait_for(50);
    let of_b = id(&running, b);
    assert_eq!(upstream(&running)["targets"][0]["source"], "kubernetes:shop/orders:http");

    // Pods come and go, one slice after the other, and more of them than a page of a list has.
    wait::until(DEADLINE, "a watch", || !cluster.requests(true).is_empty());
    for some in [&[b, c][..], &[c, b, a], &[b]] {
        cluster.set(some);
        wait_for_targets(&running, some);
        load.wait_for(20);
    }
    assert_eq!(id(&running, b), of_b);
    // One that terminates gets nothing more, though it still serves.
    let port = a.socket_addr().port();
    cluster.put("orders-a", port, &[("127.0.0.1", true), ("127.0.0.2", false)]);
    wait_for_targets(&running, &[a, b]);
    cluster.put("orders-a", port, &[("127.0.0.1", false), ("127.0.0.2", false)]);
    wait_for_targets(&running, &[b]);
    cluster.delete("orders-a");
    load.wait_for(20);

    // A reload for another reason keeps what is known, also while the server is away.
    let followed = config(rig.folder.path(), "{kubernetes: shop/orders:http}");
    cluster.server.stop();
    rig.file.write(&followed.replace("path: /*", "path: /**"));
    reload(&running, "");
    wait_for_error(&running, "the connection to the API server failed");
    wait_for_targets(&running, &[b]);
    assert_eq!(id(&running, b), of_b);
    load.wait_for(20);
    cluster.set(&[a, b, c]);
    cluster.server.restart();
    wait_for_targets(&running, &[a, b, c]);
    wait_for_no_error(&running);

    running = rig.take_over(running);
    wait_for_targets(&running, &[a, b, c]);
    load.wait_for(20);
    // To a list and back.
    rig.file.write(&config(rig.folder.path(), &format!("[{}]", a.url())));
    reload(&running, "upstream u changed");
    wait_for_targets(&running, &[a]);
    assert_eq!(upstream(&running)["sources"], Value::Array(Vec::new()));
    rig.file.write(&followed);
    reload(&running, "upstream u changed");
    wait_for_targets(&running, &[a, b, c]);
    load.expect_the_end();
    running.signal(Signal::TERM);
    assert_eq!(running.wait_for_exit(DEADLINE).code(), Some(0));
    assert_eq!(load.stop(), Vec::<String>::new());
}

#[test]
fn every_fault_of_an_api_server_keeps_the_targets() {
    let cluster = Kubernetes::start();
    let servers = servers();
    let mut names = [&servers[0], &servers[1]];
    cluster.set(&names[..1]);
    let rig = Rig::of_kubernetes(&cluster);
    let gateway = rig.start();
    wait_for_targets(&gateway, &names[..1]);
    let failures = || source(&gateway)["failures"].as_u64().unwrap();
    let has_error = |words: &str| source(&gateway)["error"].as_str().is_some_and(|error| error.contains(words));
    let faults = [
        (None, "the connection to the API server failed"),
        (Some(Fault::Status(500)), "responded with 500: as the test wants it"),
        (Some(Fault::Status(403)), "responded with 403"),
        (Some(Fault::Garbage), "cannot be read"),
        (Some(Fault::CutOff), ""),
        (Some(Fault::Huge), "length limit exceeded"),
    ];
    for (fault, words) in faults {
        let (mark, before) = (gateway.mark(), failures());
        match fault {
            None => cluster.server.stop(),
            fault => cluster.fail_lists(fault),
        }
        wait::until(DEADLINE, &format!("an error with {words:?}"), || {
            // After an error of a watch there is a list.
            cluster.end_watches(End::Error(500));
            has_error(words)
        });
        wait::until(DEADLINE, "it is tried again", || failures() >= before + 2);
        let is_told = |line: &str| line.contains("registry not read").then_some(());
        gateway.wait_for_line_after(mark, "the failure", DEADLINE, is_told);
        assert_eq!(metric(&gateway, "upstream_source_failing{"), 1.0);
        assert_eq!(addresses(&gateway), [names[0].socket_addr().to_string()]);
        assert_eq!(gateway.get("/").status(), 200);
        // It works again, and there is something new.
        names.reverse();
        cluster.set(&names[..1]);
        cluster.fail_lists(None);
        cluster.server.restart();
        wait_for_targets(&gateway, &names[..1]);
        wait_for_no_error(&gateway);
        assert_eq!(metric(&gateway, "upstream_source_failing{"), 0.0);
        // The end of the failures, after which pauses are short.
        cluster.bookmark();
    }
    // Of watches, while lists work: what they say is in force, and the failure shows.
    for (fault, words) in [
        (Fault::Status(403), "responded with 403"),
        (Fault::Status(500), "responded with 500"),
        (Fault::Garbage, "cannot be read"),
    ] {
        cluster.fail_watches(Some(fault));
        wait::until(DEADLINE, &format!("an error with {words:?}"), || {
            cluster.end_watches(End::CutOff);
            has_error(words)
        });
        cluster.set(&names);
        wait_for_targets(&gateway, &names);
        cluster.fail_watches(None);
        cluster.set(&names[..1]);
        wait_for_targets(&gateway, &names[..1]);
        wait_for_no_error(&gateway);
        cluster.bookmark();
    }
    expect_no_token(&gateway);
}

#[test]
fn a_watch_goes_on_where_it_ended_and_lists_anew_when_it_cannot() {
    let cluster = Kubernetes::start();
    let servers = servers();
    let [a, b, c] = servers.each_ref();
    cluster.set(&[a]);
    let rig = Rig::of_kubernetes(&cluster);
    let gateway = rig.start();
    wait_for_targets(&gateway, &[a]);
    let watches = || cluster.requests(true);
    let lists = || cluster.requests(false).len();
    let version = |target: &str| -> u64 {
        let rest = target.split_once("resourceVersion=").unwrap().1;
        rest.split('&').next().unwrap().parse().unwrap()
    };
    let failures = || source(&gateway)["failures"].as_u64().unwrap();
    wait::until(DEADLINE, "a watch", || !watches().is_empty());
    // Ended in order, and cut off: from the version of the last bookmark, without a list, and without a failure.
    let before_all = lists();
    for (end, next) in [(End::InOrder, &[a, b][..]), (End::CutOff, &[a]), (End::InOrder, &[a, c])] {
        let before = watches();
        cluster.bookmark();
        wait::until(DEADLINE, "another watch", || {
            cluster.end_watches(end.clone());
            watches().len() > before.len()
        });
        assert!(version(watches().last().unwrap()) > version(before.last().unwrap()), "{:?}", watches());
        cluster.set(next);
        wait_for_targets(&gateway, next);
    }
    assert_eq!((lists(), failures(), source(&gateway)["error"].take()), (before_all, 0, Value::Null));

    // A version that is too old: a list, which is no failure either.
    let gate = Gate::new();
    cluster.fail_watches(Some(Fault::Slow(gate.clone())));
    let before = watches().len();
    wait::until(DEADLINE, "a watch that waits", || {
        cluster.end_watches(End::CutOff);
        watches().len() > before
    });
    cluster.set(&[b, c]);
    cluster.compact();
    cluster.fail_watches(None);
    gate.open();
    wait_for_targets(&gateway, &[b, c]);
    assert!(lists() > before_all);
    let before = lists();
    wait::until(DEADLINE, "a list after 410", || {
        cluster.end_watches(End::Error(410));
        lists() > before
    });
    assert_eq!(failures(), 0);

    // What is no event is a failure, and the next list ends it.
    wait::until(DEADLINE, "a failure", || {
        cluster.end_watches(End::Garbage);
        failures() > 0
    });
    cluster.set(&[c]);
    wait_for_targets(&gateway, &[c]);
    wait_for_no_error(&gateway);
    assert_eq!(gateway.get("/").text(), "c");
}

#[test]
fn a_start_does_not_need_the_registry_and_an_empty_list_is_meant() {
    let cluster = Kubernetes::start();
    let server = Upstream::start(responder::ok("x"));
    cluster.set(&[&server]);
    cluster.server.stop();
    let rig = Rig::of_kubernetes(&cluster);
    let gateway = rig.start();
    expect_unavailable(&gateway);
    wait_for_error(&gateway, "the connection to the API server failed");
    // A server that responds, though slowly.
    let gate = Gate::new();
    cluster.fail_lists(Some(Fault::Slow(gate.clone())));
    cluster.server.restart();
    wait::until(DEADLINE, "a list that waits", || !cluster.requests(false).is_empty());
    let other = rig
        .builder()
        .config(config(rig.folder.path(), "{kubernetes: shop/orders:http}").replace("takeover.sock", "other.sock"));
    let other = other.start();
    expect_unavailable(&other);
    gate.open();
    for gateway in [&gateway, &other] {
        wait_for_targets(gateway, &[&server]);
        wait_for_no_error(gateway);
        assert_eq!(gateway.get("/").text(), "x");
    }
    cluster.set(&[]);
    wait_for_targets(&gateway, &[]);
    expect_unavailable(&gateway);
    assert_eq!(source(&gateway)["error"], Value::Null);
    cluster.set(&[&server]);
    wait_for_targets(&gateway, &[&server]);
    assert_eq!(gateway.get("/").text(), "x");
}

#[test]
fn access_is_read_again_and_never_shown() {
    let cluster = Kubernetes::start();
    let server = Upstream::start(responder::ok("x"));
    cluster.set(&[&server]);
    let rig = Rig::of_kubernetes(&cluster);
    fs::remove_file(rig.kubeconfig()).unwrap();
    let gateway = rig.start();
    wait_for_error(&gateway, "kubeconfig: No such file");
    fs::write(rig.kubeconfig(), format!("users: {TOKEN}")).unwrap();
    wait_for_error(&gateway, "it is not a kubeconfig");
    fs::write(rig.kubeconfig(), cluster.kubeconfig(&rig.token())).unwrap();
    wait_for_targets(&gateway, &[&server]);
    let last = || cluster.server.requests().last().and_then(|one| one.head.field("authorization").map(str::to_owned));
    assert_eq!(last(), Some(format!("Bearer {TOKEN}")));
    fs::write(rig.token(), "another").unwrap();
    wait::until(DEADLINE, "another token", || {
        cluster.end_watches(End::InOrder);
        last().as_deref() == Some("Bearer another")
    });
    expect_no_token(&gateway);
    // A port that no endpoint has is said with those that there are.
    rig.file.write(&config(rig.folder.path(), "{kubernetes: shop/orders:web}"));
    reload(&gateway, "upstream u changed");
    wait_for_error(&gateway, &format!("has the port web; their ports are http ({})", server.socket_addr().port()));
    wait_for_targets(&gateway, &[&server]);
    // Neither a file nor a pod.
    let nowhere = Weir::builder(program())
        .config(config(rig.folder.path(), "{kubernetes: shop/orders:http}").replace("takeover.sock", "other.sock"));
    wait_for_error(&nowhere.start(), "KUBECONFIG names no file");
}

#[test]
fn instances_of_consul_are_followed_under_load_through_reloads_and_a_take_over() {
    let agent = Consul::start();
    let servers = servers();
    let [a, b, c] = servers.each_ref();
    agent.set(&[(a, 2), (b, 1)]);
    let rig = Rig::of_consul(&agent);
    let mut running = rig.start();
    wait_for_targets(&running, &[a, b]);
    let weights = |gateway: &Weir| -> u64 {
        let upstream = upstream(gateway);
        upstream["targets"].as_array().unwrap().iter().map(|target| target["weight"].as_u64().unwrap()).sum()
    };
    assert_eq!(weights(&running), 3);
    let sent = agent.server.requests()[0].head.field("x-consul-token").map(str::to_owned);
    assert_eq!(sent.as_deref(), Some(TOKEN));
    let load = Load::start(&[running.addr().into()], &[Request::get("/")], |s| s == 200);
    load.wait_for(50);
    let of_a = id(&running, a);
    for some in [&[a, b, c][..], &[a], &[a, c]] {
        agent.set(&some.iter().map(|server| (*server, 1)).collect::<Vec<_>>());
        wait_for_targets(&running, some);
        load.wait_for(20);
    }
    assert_eq!(id(&running, a), of_a);
    // The agent is away: a reload keeps what is known.
    agent.server.stop();
    let text = fs::read_to_string(&rig.file.0).unwrap();
    rig.file.write(&text.replace("path: /*", "path: /**"));
    reload(&running, "");
    wait_for_error(&running, "cannot connect to 127.0.0.1");
    wait_for_targets(&running, &[a, c]);
    load.wait_for(20);
    agent.set(&[(b, 1)]);
    agent.server.restart();
    wait_for_targets(&running, &[b]);
    wait_for_no_error(&running);
    running = rig.take_over(running);
    wait_for_targets(&running, &[b]);
    load.wait_for(20);
    load.expect_the_end();
    running.signal(Signal::TERM);
    assert_eq!(running.wait_for_exit(DEADLINE).code(), Some(0));
    assert_eq!(load.stop(), Vec::<String>::new());
}

#[test]
fn every_fault_of_an_agent_keeps_the_targets() {
    let agent = Consul::start();
    let servers = servers();
    let mut names = [&servers[0], &servers[1]];
    agent.set(&[(names[0], 1)]);
    let rig = Rig::of_consul(&agent);
    let gateway = rig.start();
    wait_for_targets(&gateway, &[names[0]]);
    let failures = || source(&gateway)["failures"].as_u64().unwrap();
    let faults = [
        (None, "cannot connect to 127.0.0.1"),
        (Some(Fault::Status(500)), "status 500"),
        (Some(Fault::Status(403)), "status 403: the token may not read the service"),
        (Some(Fault::Garbage), "not a list of instances"),
        (Some(Fault::CutOff), ""),
        (Some(Fault::Huge), "length limit exceeded"),
    ];
    for (fault, words) in faults {
        let (mark, before) = (gateway.mark(), failures());
        match fault {
            None => agent.server.stop(),
            fault => agent.fail(fault),
        }
        wait_for_error(&gateway, words);
        wait::until(DEADLINE, "it is tried again", || failures() >= before + 2);
        let is_told = |line: &str| line.contains("registry not read").then_some(());
        gateway.wait_for_line_after(mark, "the failure", DEADLINE, is_told);
        assert_eq!(metric(&gateway, "upstream_source_failing{"), 1.0);
        assert_eq!(addresses(&gateway), [names[0].socket_addr().to_string()]);
        assert_eq!(gateway.get("/").status(), 200);
        names.reverse();
        agent.set(&[(names[0], 1)]);
        agent.fail(None);
        agent.server.restart();
        wait_for_targets(&gateway, &[names[0]]);
        wait_for_no_error(&gateway);
    }
    // An empty list is meant, for a service that nobody knows too.
    agent.set(&[]);
    wait_for_targets(&gateway, &[]);
    expect_unavailable(&gateway);
    assert_eq!(source(&gateway)["error"], Value::Null);
    expect_no_token(&gateway);
}

#[test]
fn an_index_is_waited_with_unless_it_went_backwards_or_is_none() {
    let agent = Consul::start();
    let servers = servers();
    let [a, b, c] = servers.each_ref();
    agent.set(&[(a, 1)]);
    let gate = Gate::new();
    agent.fail(Some(Fault::Slow(gate.clone())));
    let rig = Rig::of_consul(&agent);
    // A slow agent does not stop the start.
    let gateway = rig.start();
    expect_unavailable(&gateway);
    gate.open();
    wait_for_targets(&gateway, &[a]);
    agent.fail(None);
    let targets =
        || -> Vec<String> { agent.server.requests().iter().map(|one| one.head.target().to_owned()).collect() };
    let is_waiting =
        |target: &String| target.contains("&index=102&wait=300s") || target.contains("&index=103&wait=300s");
    wait::until(DEADLINE, "a request that waits", || targets().last().is_some_and(is_waiting));
    // Another history, whose index is lower: the next request does not wait.
    agent.restore(7, &[(b, 1)]);
    wait_for_targets(&gateway, &[b]);
    wait::until(DEADLINE, "a request that waits again", || {
        targets().last().is_some_and(|one| one.contains("&index=7&"))
    });
    let all = targets();
    let after = all.iter().position(|one| one.contains("&index=7&")).unwrap();
    assert!(!all[after - 1].contains("index="), "{all:?}");
    // Without an index, and with one of 0 or none at all, changes are found by looking again.
    for (index, next) in [("0", &[c][..]), ("never", &[a, c])] {
        agent.show_index(Some(index));
        agent.set(&next.iter().map(|server| (*server, 1)).collect::<Vec<_>>());
        wait_for_targets(&gateway, next);
        wait::until(DEADLINE, "a request that does not wait", || {
            targets().last().is_some_and(|one| !one.contains("index="))
        });
        agent.server.forget();
    }
    agent.show_index(None);
    agent.set(&[(b, 1)]);
    wait_for_targets(&gateway, &[b]);
    wait::until(DEADLINE, "a request that waits", || targets().last().is_some_and(|one| one.contains("index=")));
    assert_eq!(source(&gateway)["failures"], 0);
}

#[test]
fn a_check_names_the_registries_and_shows_no_token() {
    let folder = tempfile::tempdir().unwrap();
    let text = config(folder.path(), "{kubernetes: shop/orders:http}").replace(
        "routes: [",
        "  v: {targets: {consul: orders, address: 'http://127.0.0.1:1', tag: v2, token: '${CONSUL_TOKEN}'}}\nroutes: [{match: {path: /v}, upstream: v}, ",
    );
    let file = File::new(folder.path(), &text);
    let path = file.0.display().to_string();
    let run = |args: &[&str]| Weir::builder(program()).env("CONSUL_TOKEN", TOKEN).args(args.iter().copied()).command();
    let checked = run(&["check", &path]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    for line in [
        "upstream u: targets of the Service shop/orders of Kubernetes, port http",
        "upstream v: targets of the service orders of Consul at http://127.0.0.1:1",
    ] {
        assert!(checked.stdout.contains(line), "{}", checked.stdout);
    }
    let printed = run(&["check", "--print", &path]).stdout;
    assert!(printed.contains("shop/orders:http") && !printed.contains(TOKEN), "{printed}");
    assert!(run(&["check", "--print", "--show-secrets", &path]).stdout.contains(TOKEN));
    for (request, name) in [("/x", "kubernetes:shop/orders:http"), ("/v", "consul:orders")] {
        let routes = run(&["routes", &path, request]).stdout;
        assert!(routes.contains(&format!("its targets are named by {name}")) && !routes.contains(TOKEN), "{routes}");
    }
}

/// A Deployment that is restarted changes its slices many times a second: each new set of targets costs, and is made for many changes together.
#[test]
fn a_burst_of_changes_is_taken_in_together() {
    let cluster = Kubernetes::start();
    let servers: Vec<Upstream> = (0..2).map(|_| Upstream::start(responder::ok("up"))).collect();
    cluster.set(&[&servers[0]]);
    let rig = Rig::of_kubernetes(&cluster);
    let gateway = rig.start();
    wait_for_targets(&gateway, &[&servers[0]]);
    let reads = || metric(&gateway, "upstream_source_reads_total{");
    let before = reads();
    let changes = 600;
    for number in 0..changes {
        cluster.set(&[&servers[number % 2]]);
    }
    cluster.set(&[&servers[0], &servers[1]]);
    wait_for_targets(&gateway, &[&servers[0], &servers[1]]);
    assert!(reads() - before < f64::from(changes as u32) / 2.0, "{} for {changes} changes", reads() - before);
    assert_eq!(gateway.get("/").status(), 200);
}
