//! Methods that the server describes.

use super::server::{self, Reflection};
use super::{gauge, load_url};

fn refused(reflection: Reflection, method: &str, code: i32, named: &[&str]) {
    let (address, _) = server::start(reflection);
    let more = ["-n", "1", "--timeout", "2s", "--body", "{}"];
    let (found, said, _) = load_url(&format!("http://{address}"), method, &more);
    assert_eq!(found, Some(code), "{reflection:?} {said}");
    for name in named {
        assert!(said.contains(name), "{reflection:?}: {name} in {said}");
    }
}

#[test]
fn both_versions_describe_a_method_with_what_it_imports() {
    for reflection in [Reflection::V1, Reflection::Alpha] {
        let (address, seen) = server::start(reflection);
        let more = ["-n", "20", "-c", "4", "-H", "authorization: Bearer abc", "--body", r#"{"count":7,"text":12}"#];
        let (code, said, report) = load_url(&format!("http://{address}"), "lab.Lab/One", &more);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(report["total"]["statuses"], serde_json::json!({"200": 20}), "{said}");
        assert_eq!(report["generator"]["protocol"], "gRPC");
        let words = seen.words.lock().expect("no panic").clone();
        assert!(words.len() == 20 && words.iter().all(|word| (word.count, word.text.as_str()) == (7, "12")));
        let credentials = seen.credentials.lock().expect("no panic").clone();
        assert!(!credentials.is_empty() && credentials.iter().all(|value| value == "Bearer abc"), "{credentials:?}");
        // A method that takes what every client knows, which the server does not send.
        let (code, said, _) = load_url(&format!("http://{address}"), "lab.Lab/Nothing", &["-n", "1"]);
        assert!(code == Some(0) && said.is_empty(), "{code:?} {said}");
    }
}

#[test]
fn what_the_server_does_not_describe_is_said_before_the_load() {
    let none = &["neither version of reflection (v1, v1alpha)", "--proto FILE"];
    refused(Reflection::None, "lab.Lab/One", 69, none);
    refused(Reflection::Http(404), "lab.Lab/One", 69, none);
    refused(Reflection::Http(503), "lab.Lab/One", 69, &["HTTP status 503"]);
    refused(Reflection::Code("16"), "lab.Lab/One", 69, &["gRPC status 16: not for you"]);
    refused(Reflection::Silent, "lab.Lab/One", 69, &["no complete response within 2 s"]);
    refused(Reflection::Garbage, "lab.Lab/One", 69, &["invalid file descriptor"]);
    let import = &["does not resolve: `lab.proto` imports `types.proto`", "not found"];
    refused(Reflection::WithoutImport, "lab.Lab/One", 69, import);
    refused(Reflection::AnotherFile, "lab.Lab/One", 69, &["does not resolve", "it sent another file"]);
    let services = &["no service `lab.None`; it has grpc.health.v1.Health, lab.Lab"];
    refused(Reflection::V1, "lab.None/One", 64, services);
    refused(Reflection::Code("5"), "lab.None/One", 64, &["no service `lab.None`"]);
    let methods = &["no method `lab.Lab/Two` in lab.Lab at http://127.0.0.1:", "it has lab.Lab/One, lab.Lab/Down"];
    refused(Reflection::V1, "lab.Lab/Two", 64, methods);
    refused(Reflection::V1, "lab.Lab", 64, &["names no method; write package.Service/Method"]);
    let nowhere = testkit::ports::Port::free();
    let (code, said, _) = load_url(&format!("http://{}", nowhere.address()), "lab.Lab/One", &["-n", "1"]);
    assert!(code == Some(69) && said.contains("refused"), "{code:?} {said}");
}

#[test]
fn with_a_file_no_reflection_is_needed() {
    let (address, _) = server::start(Reflection::None);
    let folder = tempfile::tempdir().expect("a folder");
    let file = server::proto(folder.path());
    let more = ["-n", "4", "--proto", &file.to_string_lossy(), "--body", r#"{"count":3}"#];
    let (code, said, report) = load_url(&format!("http://{address}"), "lab.Lab/Down", &more);
    assert!(code == Some(0) && report["total"]["grpc"]["streams"]["received"] == 12, "{code:?} {said}");
}

#[test]
fn a_server_that_speaks_something_else_is_an_error_and_no_hang() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            let _ = std::io::Write::write_all(&mut socket, b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let (code, said, _) = load_url(&format!("http://{address}"), "lab.Lab/One", &["-n", "1", "--timeout", "5s"]);
    assert!(code == Some(69) && said.contains("reflection at http://127.0.0.1:"), "{code:?} {said}");
}

#[test]
fn a_workload_file_needs_no_proto() {
    let (address, seen) = server::start(Reflection::V1);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("workload.yaml");
    let yaml = format!(
        "base: http://{address}\nprotocol: {{http2: {{streams: 4}}}}\noperations:\n  \
         - {{id: one, grpc: {{method: lab.Lab/One}}, body: {{text: '{{\"count\":1}}'}}}}\n  \
         - {{id: down, grpc: {{method: lab.Lab/Down}}, body: {{text: '{{\"count\":2}}'}}}}\n\
         order: sequence\nload: {{closed: {{users: 2, iterations: 20}}}}\n"
    );
    std::fs::write(&file, yaml).expect("a file");
    let (code, said, report) = gauge(&["load", "--workload", &file.to_string_lossy()]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(report["total"]["statuses"], serde_json::json!({"200": 20}), "{said}");
    assert_eq!(seen.words.lock().expect("no panic").len(), 20);
}
