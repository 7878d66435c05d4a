//! The generator over gRPC, against a server on the `h2` crate that speaks the protocol by hand.

#[path = "grpc/demo.rs"]
mod demo;
#[path = "grpc/k6.rs"]
mod k6;
#[path = "grpc/params.rs"]
mod params;
#[path = "grpc/real.rs"]
mod real;
#[path = "grpc/reflection.rs"]
mod reflection;
#[path = "grpc/server.rs"]
mod server;
#[path = "grpc/streams.rs"]
mod streams;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};

use bytes::Bytes;
use serde_json::Value;

const PROTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../services/producer/proto/event_service.proto");
const METHOD: &str = "com.example.grpc.EventService/ProcessEvent";

/// What the server does with the n-th call.
#[derive(Debug, Clone, Copy)]
enum Canned {
    /// A message, then this status in trailers.
    Message(&'static [u8], &'static str),
    /// This status in the head.
    HeadOnly(&'static str),
    /// An HTTP status of an intermediary.
    Http(u16),
    /// A message, and no status at all.
    Silent,
    /// OK in the head, then a message, and this in trailers.
    HeadThenMessage(Option<&'static str>),
    /// A message and OK with this HTTP status and content type.
    Foreign(u16, &'static str),
}

/// `success: true`, and `message: "no"` without `success`.
const STORED: &[u8] = &[0, 0, 0, 0, 2, 0x08, 0x01];
const REFUSED: &[u8] = &[0, 0, 0, 0, 4, 0x12, 0x02, b'n', b'o'];

/// The heads and bodies that reached it.
type Seen = Arc<Mutex<Vec<(http::request::Parts, Vec<u8>)>>>;

fn server(responses: &'static [Canned]) -> (SocketAddr, Seen) {
    let (tell, told) = mpsc::channel();
    let seen = Seen::default();
    let of_server = Arc::clone(&seen);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            tell.send(listener.local_addr().expect("an address")).expect("the test waits");
            // One connection, whose calls are counted.
            let (socket, _) = listener.accept().await.expect("a connection");
            let mut connection = h2::server::handshake(socket).await.expect("HTTP/2");
            let mut responses = responses.iter().cycle();
            while let Some(Ok((request, respond))) = connection.accept().await {
                let response = *responses.next().expect("endless");
                tokio::spawn(call(request, respond, response, Arc::clone(&of_server)));
            }
        });
    });
    (told.recv().expect("a server"), seen)
}

async fn call(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
    response: Canned,
    seen: Seen,
) {
    let (head, mut body) = request.into_parts();
    let mut bytes = Vec::new();
    while let Some(Ok(data)) = body.data().await {
        bytes.extend_from_slice(&data);
        let _ = body.flow_control().release_capacity(data.len());
    }
    seen.lock().expect("no panic").push((head, bytes));
    let head = http::Response::builder().header("content-type", "application/grpc");
    let fields = |status: &str| {
        http::HeaderMap::from_iter([("grpc-status".parse().expect("a name"), status.parse().expect("a value"))])
    };
    let _ = match response {
        Canned::HeadOnly(status) => {
            respond.send_response(head.header("grpc-status", status).body(()).expect("a head"), true).map(|_| ())
        }
        Canned::Http(status) => {
            respond.send_response(http::Response::builder().status(status).body(()).expect("a head"), true).map(|_| ())
        }
        Canned::Message(message, status) => {
            respond.send_response(head.body(()).expect("a head"), false).and_then(|mut stream| {
                stream.send_data(Bytes::from_static(message), false)?;
                stream.send_trailers(fields(status))
            })
        }
        Canned::HeadThenMessage(field) => respond
            .send_response(head.header("grpc-status", "0").body(()).expect("a head"), false)
            .and_then(|mut stream| {
                stream.send_data(Bytes::from_static(STORED), field.is_none())?;
                field.map_or(Ok(()), |name| {
                    let field = (http::HeaderName::from_static(name), http::HeaderValue::from_static("0"));
                    stream.send_trailers(http::HeaderMap::from_iter([field]))
                })
            }),
        Canned::Foreign(status, kind) => {
            let head = http::Response::builder().status(status).header("content-type", kind).body(()).expect("a head");
            respond.send_response(head, false).and_then(|mut stream| {
                stream.send_data(Bytes::from_static(STORED), false)?;
                stream.send_trailers(fields("0"))
            })
        }
        Canned::Silent => respond
            .send_response(head.body(()).expect("a head"), false)
            .and_then(|mut stream| stream.send_data(Bytes::from_static(STORED), true)),
    };
}

/// The exit code of a command, what it said, and its report.
fn gauge(arguments: &[&str]) -> (Option<i32>, String, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("report.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauge"));
    let output = command.args(arguments).arg("-q").arg("--json").arg(&json).output().expect("gauge");
    let report = std::fs::read_to_string(&json).ok().and_then(|text| serde_json::from_str(&text).ok());
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned(), report.unwrap_or_default())
}

/// Loads a method of which the server's reflection says what it takes.
fn load_url(url: &str, method: &str, more: &[&str]) -> (Option<i32>, String, Value) {
    gauge(&[&["load", url, "--grpc", method][..], more].concat())
}

fn load(address: SocketAddr, more: &[&str]) -> (Option<i32>, String, Value) {
    load_url(&format!("http://{address}"), METHOD, &[&["--proto", PROTO][..], more].concat())
}

#[test]
fn calls_share_a_connection_and_codes_are_errors() {
    const CANNED: &[Canned] = &[
        Canned::Message(STORED, "0"),
        Canned::Message(REFUSED, "0"),
        Canned::HeadOnly("3"),
        Canned::Message(STORED, "14"),
        Canned::Http(503),
        Canned::Silent,
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let events = folder.path().join("events");
    let one = r#"{"eventHeader":{"eventName":"CarCreated"},"eventBody":{"entities":[{"entityType":"Car","entityId":"1","updatedAttributes":{"doors":5}}]}}"#;
    std::fs::write(&events, format!("{one}\n{}\n", one.replace("Car", "Loan"))).expect("a file");
    let body = format!("@{}", events.display());
    let (address, seen) = server(CANNED);
    let (code, said, report) = load(address, &["-n", "60", "-c", "8", "--timeout", "20s", "--body", &body]);
    assert_eq!(code, Some(0), "{said}");
    let total = &report["total"];
    assert_eq!(report["generator"]["protocol"], "gRPC");
    let statuses: BTreeMap<String, u64> = serde_json::from_value(total["statuses"].clone()).expect("statuses");
    let expected = ["0", "14", "2", "200", "3", "503"].map(|status| (status.to_owned(), 10));
    assert_eq!(statuses, BTreeMap::from(expected), "{said}");
    assert_eq!((&total["errors"]["status"], &total["errors"]["total"]), (&50.into(), &50.into()));
    assert_eq!(total["connections_opened"], 1, "streams share it");
    let seen = seen.lock().expect("no panic");
    assert_eq!(seen.len(), 60);
    for (head, body) in seen.iter() {
        assert_eq!((head.method.as_str(), head.uri.path()), ("POST", format!("/{METHOD}").as_str()));
        let field = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
        assert_eq!(
            [field("content-type"), field("te"), field("grpc-timeout")],
            [Some("application/grpc"), Some("trailers"), Some("20000m")]
        );
        let (length, message) = (u32::from_be_bytes(body[1..5].try_into().expect("four")), &body[5..]);
        assert!(body[0] == 0 && length as usize == message.len(), "{body:?}");
        // The number is the text of it, as the field is a map of strings.
        assert!(
            message.windows(8).any(|part| part == b"\x0a\x05doors\x12") && message.ends_with(b"\x015"),
            "{message:?}"
        );
    }
    let loans = seen.iter().filter(|(_, body)| body.windows(4).any(|part| part == b"Loan")).count();
    assert!((20..=40).contains(&loans), "lines in turn: {loans}");
}

#[test]
fn only_a_response_of_grpc_with_ok_at_its_end_is_a_success() {
    const CANNED: &[Canned] = &[
        Canned::Message(STORED, "0"),
        Canned::Http(204),
        Canned::Http(302),
        Canned::HeadThenMessage(None),
        Canned::HeadThenMessage(Some("x-trailer")),
        Canned::Foreign(200, "text/html"),
        Canned::Foreign(500, "application/grpc"),
        Canned::Message(STORED, "+0"),
        Canned::Message(STORED, "00"),
    ];
    let (code, said, report) = load(server(CANNED).0, &["-n", "9", "-c", "1", "--timeout", "20s"]);
    assert_eq!(code, Some(0), "{said}");
    let total = &report["total"];
    assert_eq!(total["statuses"], serde_json::json!({"200": 1, "204": 1, "302": 1, "500": 1, "2": 5}), "{said}");
    assert_eq!((&total["errors"]["status"], &total["errors"]["total"]), (&8.into(), &8.into()));
}

#[test]
fn fields_of_an_operation_replace_those_of_grpc_and_never_come_twice() {
    const CANNED: &[Canned] = &[Canned::Message(STORED, "0")];
    let own = ["-H", "Content-Type: application/json", "-H", "GRPC-Timeout: 1S", "-H", "X-Case: once"];
    let (address, seen) = server(CANNED);
    let (_, said, report) = load(address, &[&["-n", "1", "--timeout", "20s"][..], &own].concat());
    assert_eq!(report["total"]["errors"]["total"], 0, "{said}");
    let seen = seen.lock().expect("no panic");
    let (head, _) = seen.iter().find(|(head, _)| head.headers.contains_key("x-case")).expect("it came");
    let values = |name: &str| {
        head.headers.get_all(name).iter().map(|value| value.to_str().expect("text").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (values("content-type"), values("te"), values("grpc-timeout")),
        (vec!["application/grpc".to_owned()], vec!["trailers".to_owned()], vec!["20000m".to_owned()])
    );
}

#[test]
fn what_http2_forbids_is_refused_before_the_load() {
    let nowhere = testkit::ports::Port::free();
    for (field, named) in [
        ("Keep-Alive: timeout=5", "`Keep-Alive`"),
        ("Proxy-Connection: close", "`Proxy-Connection`"),
        ("Upgrade: h2c", "`Upgrade`"),
    ] {
        let (code, said, _) = load(nowhere.address(), &["-n", "1", "-H", field]);
        assert!(code == Some(64) && said.contains(named), "{field}: {code:?} {said}");
    }
    let url = format!("http://{}", nowhere.address());
    let (code, said, _) = gauge(&["load", &url, "--h2", "-n", "1", "-H", "TE: gzip"]);
    assert!(code == Some(64) && said.contains("may only be `trailers`"), "{code:?} {said}");
}

#[test]
fn what_cannot_be_sent_is_refused_before_the_load() {
    let nowhere = testkit::ports::Port::free();
    let refused = |more: &[&str], named: &str| {
        let (code, said, _) = load(nowhere.address(), more);
        assert!(code == Some(64) && said.contains(named), "{code:?} {said}");
    };
    refused(&["-n", "1", "--body", r#"{"noSuchField":1}"#], "noSuchField");
    refused(&["-n", "1", "--body", "no JSON"], "no message of com.example.grpc.EventRequest");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauge"));
    command.args([
        "load",
        "http://127.0.0.1:1",
        "--grpc",
        "com.example.grpc.EventService/None",
        "--proto",
        PROTO,
        "-n",
        "1",
    ]);
    let said = String::from_utf8_lossy(&command.output().expect("gauge").stderr).into_owned();
    assert!(
        said.contains("it has com.example.grpc.EventService/ProcessEvent, com.example.grpc.EventService/HealthCheck"),
        "{said}"
    );
}
