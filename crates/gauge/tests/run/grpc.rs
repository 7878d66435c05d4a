//! Services over REST and over gRPC in one evaluation: the same operations, each in its own protocol.

use std::net::SocketAddr;

use bytes::Bytes;
use serde_json::Value;

use super::campaign::Campaign;

const PROTO: &str = "syntax = \"proto3\";
package shop;
service Items { rpc Add(Item) returns (Added); }
message Item { string name = 1; }
message Added { bool success = 1; string message = 2; }
";

/// gauge's demonstration service, and [`serves`] as one over gRPC. `VARIABLES` is filled in.
const SERVICES: &str = "name: protocols
api: api.yaml
systems:
  - name: rest
    command: ['{gauge}', demo, --listen, '{address}:{http}']
    ports: {http: 'http://127.0.0.1:8090'}
    ready: 'http://{address}:{http}/healthz'
  - name: calls
    command: ['PROGRAM', --exact, 'run::grpc::serves', --ignored]
    env: {GRPC_LISTEN: '{address}:{port}', VARIABLES}
    ports: {port: 'http://127.0.0.1:8090'}
    ready: 'grpc://{address}:{port}'
    grpc: {proto: items.proto, methods: {addItem: shop.Items/Add}, streams: 2}
before_each:
  - {send: addItem}
price: {vcpu_hour: 0.04, gib_hour: 0.005}
control: false
repeats: 1
warmup: 0s
workloads:
  - {name: write, threads: 1, operations: [{id: addItem}], load: {closed: {users: 4, iterations: 40}}}
";

fn campaign(variables: &str) -> Campaign {
    let program = std::env::current_exe().expect("this program").to_string_lossy().into_owned();
    let campaign = Campaign::new(&SERVICES.replace("PROGRAM", &program).replace("VARIABLES", variables));
    campaign.file("items.proto", PROTO);
    campaign
}

fn trial(campaign: &Campaign, system: &str) -> Value {
    campaign.trials().into_iter().find(|trial| trial["system"] == system).unwrap_or_default()
}

/// The service over gRPC, in a process of its own: calls beyond `REFUSE_AFTER` are refused in their message, or with the status `CODE`.
#[test]
#[ignore = "a service that the evaluations of other tests start"]
fn serves() {
    let Ok(listen) = std::env::var("GRPC_LISTEN") else { return };
    let address: SocketAddr = listen.parse().expect("an address");
    let after = std::env::var("REFUSE_AFTER").map_or(u64::MAX, |text| text.parse().expect("a number"));
    let code = std::env::var("CODE").ok();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let calls = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::bind(address).await.expect("the port");
        while let Ok((socket, _)) = listener.accept().await {
            let (calls, code) = (calls.clone(), code.clone());
            tokio::spawn(async move {
                let Ok(mut connection) = h2::server::handshake(socket).await else { return };
                while let Some(Ok((request, respond))) = connection.accept().await {
                    let health = request.uri().path() == "/grpc.health.v1.Health/Check";
                    let good = health || calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < after;
                    tokio::spawn(call(request, respond, good, code.clone()));
                }
            });
        }
    });
}

async fn call(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
    good: bool,
    code: Option<String>,
) {
    let (head, mut body) = request.into_parts();
    // A stream that does not end by itself.
    if head.uri.path().starts_with("/grpc.reflection.") {
        let head = http::Response::builder().header("grpc-status", "12").body(()).expect("a head");
        let _ = respond.send_response(head, true);
        return;
    }
    let mut message = Vec::new();
    while let Some(Ok(data)) = body.data().await {
        message.extend_from_slice(&data);
        let _ = body.flow_control().release_capacity(data.len());
    }
    let health = head.uri.path() == "/grpc.health.v1.Health/Check";
    let known = health || (head.uri.path() == "/shop.Items/Add" && message.ends_with(b"\x0a\x08a violin"));
    let field = |name: &'static str, text: &str| {
        (http::HeaderName::from_static(name), http::HeaderValue::from_str(text).expect("a value"))
    };
    let response = http::Response::builder().header("content-type", "application/grpc");
    if !health && let Ok(status) = std::env::var("HTTP_STATUS") {
        let status: u16 = status.parse().expect("a status");
        let _ = respond.send_response(http::Response::builder().status(status).body(()).expect("a head"), true);
        return;
    }
    let refusal = if known { code.filter(|_| !good) } else { Some("12".to_owned()) };
    if let Some(code) = refusal {
        let head = response.header("grpc-status", code).header("grpc-message", "the shop is closed").body(());
        let _ = respond.send_response(head.expect("a head"), true);
        return;
    }
    // `success: true`, or `message: "no"` without it.
    let message: &[u8] = if good { &[0, 0, 0, 0, 2, 8, 1] } else { &[0, 0, 0, 0, 4, 0x12, 2, b'n', b'o'] };
    let Ok(mut stream) = respond.send_response(response.body(()).expect("a head"), false) else { return };
    let _ = stream.send_data(Bytes::copy_from_slice(message), false);
    let _ = stream.send_trailers(http::HeaderMap::from_iter([field("grpc-status", "0")]));
}

#[test]
fn services_of_two_protocols_are_loaded_each_in_its_own() {
    let campaign = campaign("UNUSED: ''");
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    for (system, protocol, status, connections) in [("rest", "HTTP/1.1", "201", 4), ("calls", "gRPC", "200", 2)] {
        let report = trial(&campaign, system)["report"].clone();
        assert_eq!(report["generator"]["protocol"], protocol, "{}", finished.text());
        assert_eq!(report["total"]["statuses"][status], 40, "{report}");
        assert_eq!(
            (&report["total"]["errors"]["total"], &report["total"]["connections_opened"]),
            (&0.into(), &connections.into())
        );
    }
    let csv = std::fs::read_to_string(campaign.out.join("results.csv")).expect("the table");
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let column = lines[0].iter().position(|name| *name == "cost").expect("a column");
    for (line, system) in lines[1..].iter().zip(["rest", "calls"]) {
        let trial = trial(&campaign, system);
        let seconds = trial["report"]["total"]["duration_s"].as_f64().expect("a duration");
        let bytes = trial["observed"]["system"]["rss_peak_bytes"].as_f64().expect("memory");
        let million = 1e6 / 40.0 / 3600.0;
        let processors = super::super::cpu(&trial, "system").expect("CPU time") * 0.04 * million;
        let most = processors + bytes / f64::from(1 << 30) * seconds * 0.005 * million;
        let cost = line[column].parse::<f64>().unwrap_or_else(|_| panic!("no cost: {csv}"));
        assert!((processors * 0.999..=most * 1.001).contains(&cost), "{processors} {cost} {most}");
    }
    campaign.nothing_runs();
}

#[test]
fn refusals_of_calls_are_errors_of_the_load() {
    // A few are sent before the load: the check, and the steps before the trial.
    for (variables, status) in [("REFUSE_AFTER: '13'", "0"), ("REFUSE_AFTER: '13', CODE: '14'", "14")] {
        let campaign = campaign(variables);
        let finished = campaign.run(&[]);
        let total = trial(&campaign, "calls")["report"]["total"].clone();
        let count = |status: &str| total["statuses"][status].as_u64().unwrap_or_default();
        assert_eq!(count("200") + count(status), 40, "{total} {}", finished.text());
        assert!((27..=30).contains(&count(status)), "{total}");
        assert_eq!(total["errors"]["status"], count(status), "{total}");
        assert_eq!(trial(&campaign, "rest")["report"]["total"]["errors"]["total"], 0);
    }
}

#[test]
fn a_service_that_refuses_the_calls_is_not_loaded() {
    for (variables, found) in [
        ("REFUSE_AFTER: '0'", "responded with gRPC status 0"),
        ("REFUSE_AFTER: '0', CODE: '14'", "responded with gRPC status 14 (the shop is closed)"),
        ("HTTP_STATUS: '204'", "responded with 204"),
        ("HTTP_STATUS: '302'", "responded with 302"),
    ] {
        let campaign = campaign(variables);
        let finished = campaign.run(&[]);
        assert_eq!(finished.code, 99, "the other ran, and this one has not passed: {}", finished.text());
        let state = campaign.json("raw/campaign.json")["systems"][1].clone();
        assert_eq!(state["state"], "not_conforming");
        assert!(state["conformance"]["differences"].to_string().contains(found), "{state}");
        assert_eq!(campaign.trials().len(), 1);
    }
}

#[test]
fn a_service_that_does_not_describe_its_methods_is_not_loaded() {
    let campaign = campaign("UNUSED: ''");
    let good = std::fs::read_to_string(campaign.path("e.yaml")).expect("the evaluation");
    campaign.rewrite(&good.replace("proto: items.proto, ", ""));
    assert_eq!(campaign.gauge(&["run", "--check"]).code, 0, "the service is not there yet");
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 99, "the other ran, and this one has not passed: {}", finished.text());
    let state = campaign.json("raw/campaign.json")["systems"][1].clone();
    assert_eq!(state["state"], "not_conforming");
    assert!(state["conformance"]["differences"].to_string().contains("neither version of reflection"), "{state}");
    assert_eq!(campaign.trials().len(), 1);
}

#[test]
fn what_cannot_be_called_is_refused_with_its_line() {
    let campaign = campaign("UNUSED: ''");
    let good = std::fs::read_to_string(campaign.path("e.yaml")).expect("the evaluation");
    for (from, to, named) in [
        ("addItem: shop.Items/Add", "other: shop.Items/Add", "add methods: {addItem: package.Service/Method}"),
        ("shop.Items/Add", "shop.Items/None", "there is no method `shop.Items/None`"),
        ("proto: items.proto", "proto: missing.proto", "missing.proto"),
        ("vcpu_hour: 0.04", "vcpu_hour: -1", "`price` needs"),
        ("streams: 2", "streams: 0", "a connection needs at least one stream"),
        ("    ready: 'grpc://{address}:{port}'\n", "", "a service over gRPC needs `ready`"),
        ("[{id: addItem}]", "[{id: addItem, body: {json: {nam: x}}}]", "no message of shop.Item"),
        (
            "users: 4, iterations: 40}}",
            "users: 4, iterations: 40}}, generator: hey",
            "or a script that it makes for k6, not by hey",
        ),
    ] {
        campaign.rewrite(&good.replace(from, to));
        let finished = campaign.gauge(&["run", "--check"]);
        assert!(finished.code != 0 && finished.stderr.contains(named), "{}", finished.text());
        assert!(finished.stderr.contains("e.yaml:"), "its line: {}", finished.text());
    }
    campaign.rewrite(&good.replace("iterations: 40", "iterations: 41"));
    assert_eq!(campaign.gauge(&["run", "--check"]).code, 0);
}
