//! A real server: grpc-go with its service for interoperability tests and its reflection (`interop/`). `GAUGE_GRPC_SERVER` is its program.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::load_url;

struct Server {
    program: Child,
    url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn server() -> Server {
    let program = std::env::var("GAUGE_GRPC_SERVER").expect("the suite gauge-grpc sets GAUGE_GRPC_SERVER");
    let mut program = Command::new(program).stdout(Stdio::piped()).spawn().expect("the server starts");
    let mut line = String::new();
    BufReader::new(program.stdout.take().expect("its output")).read_line(&mut line).expect("its address");
    let address = line.trim().strip_prefix("listening on ").expect("its address");
    Server { url: format!("http://{address}"), program }
}

fn load(server: &Server, method: &str, more: &[&str]) -> Value {
    let method = format!("grpc.testing.TestService/{method}");
    let (code, said, report) = load_url(&server.url, &method, more);
    assert_eq!(code, Some(0), "{said}");
    report["total"].clone()
}

#[test]
#[ignore = "needs the server of the suite gauge-grpc"]
fn every_kind_of_method_is_called_by_what_the_server_says() {
    let server = server();
    let total = load(&server, "EmptyCall", &["-n", "200", "-c", "8"]);
    assert_eq!((&total["statuses"], &total["errors"]["total"]), (&json!({"200": 200}), &json!(0)));
    let unary = r#"{"responseSize":31415,"payload":{"body":"AAAA"}}"#;
    let total = load(&server, "UnaryCall", &["-n", "200", "-c", "8", "--body", unary]);
    assert_eq!((&total["statuses"], &total["errors"]["total"]), (&json!({"200": 200}), &json!(0)));
    assert!(total["bytes"]["received"].as_u64() > Some(200 * 31_415));
    // Sizes of the case `server_streaming`.
    let sizes = r#"{"responseParameters":[{"size":31415},{"size":9},{"size":2653},{"size":58979}]}"#;
    let total = load(&server, "StreamingOutputCall", &["-n", "50", "-c", "8", "--responses", "4", "--body", sizes]);
    assert_eq!((&total["statuses"], &total["errors"]["total"]), (&json!({"200": 50}), &json!(0)));
    assert_eq!(total["grpc"]["streams"]["received"], 200);
    let payload = r#"{"payload":{"body":"AAAAAAAA"}}"#;
    let total = load(&server, "StreamingInputCall", &["-n", "50", "-c", "8", "--messages", "100", "--body", payload]);
    assert_eq!((&total["statuses"], &total["grpc"]["streams"]["sent"]), (&json!({"200": 50}), &json!(5000)));
    let one = r#"{"responseParameters":[{"size":100}],"payload":{"body":"AAAA"}}"#;
    let total = load(&server, "FullDuplexCall", &["-n", "50", "-c", "8", "--messages", "10", "--body", one]);
    assert_eq!((&total["statuses"], &total["errors"]["total"]), (&json!({"200": 50}), &json!(0)));
    assert_eq!(total["grpc"]["streams"]["round_trip"]["count"], 500);
}

#[test]
#[ignore = "needs the server of the suite gauge-grpc"]
fn its_statuses_and_deadlines_are_errors() {
    let server = server();
    let status = r#"{"responseStatus":{"code":9,"message":"not now"}}"#;
    for method in ["UnaryCall", "FullDuplexCall"] {
        let total = load(&server, method, &["-n", "5", "-c", "1", "--body", status]);
        assert_eq!((&total["statuses"], &total["errors"]["status"]), (&json!({"9": 5}), &json!(5)), "{method}");
        let first = total["grpc"]["first_error"].as_str().unwrap_or_default();
        assert!(first.contains("FAILED_PRECONDITION: not now"), "{first}");
    }
    let total = load(&server, "UnimplementedCall", &["-n", "2", "-c", "1"]);
    assert_eq!(total["statuses"], json!({"12": 2}));
    // Either of the two may notice first that the deadline is over.
    let slow = r#"{"responseParameters":[{"size":1},{"size":1,"intervalUs":900000}]}"#;
    let (code, said, report) = load_url(
        &server.url,
        "grpc.testing.TestService/StreamingOutputCall",
        &["-n", "2", "-c", "1", "--timeout", "200ms", "--body", slow],
    );
    let errors = &report["total"]["errors"];
    // The server may also reset the stream.
    let counts = [&errors["timeout"], &errors["reset"], &report["total"]["statuses"]["4"]];
    let late: u64 = counts.iter().filter_map(|count| count.as_u64()).sum();
    assert_eq!((late, &errors["total"]), (2, &json!(2)), "{code:?} {said}");
    // The echo that a message waits for never comes where the server was not told to send one.
    let silent = &["-n", "1", "-c", "1", "--messages", "2", "--timeout", "300ms", "--body", "{}"];
    let (_, _, report) = load_url(&server.url, "grpc.testing.TestService/FullDuplexCall", silent);
    assert_eq!(report["total"]["errors"]["total"], 1);
}

#[test]
#[ignore = "needs the server of the suite gauge-grpc"]
fn a_server_that_is_killed_is_an_error_of_each_call() {
    let mut server = server();
    let url = server.url.clone();
    let slow = r#"{"responseParameters":[{"size":1},{"size":1,"intervalUs":5000000}]}"#;
    let load = std::thread::spawn(move || {
        load_url(&url, "grpc.testing.TestService/StreamingOutputCall", &["-n", "4", "-c", "4", "--body", slow])
    });
    // Reflection, and then the calls: after the first bytes of the latter nothing is left to connect.
    let pid = server.program.id();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while established(pid) < 1 && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
    server.program.kill().expect("it is killed");
    let (code, said, report) = load.join().expect("no panic");
    // Killed before reflection was complete, there is no load.
    if code != Some(69) {
        assert_eq!(report["total"]["errors"]["total"], 4, "{code:?} {said}");
    }
}

/// Sockets of a process beside the one that listens.
fn established(pid: u32) -> usize {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
    let links = entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count().saturating_sub(1)
}
