//! Real clients: curl, nghttp, h2load, h2spec (skipped where they are not installed) and the `h2` crate.

use std::process::Command;

use testkit::{Upstream, Weir};

use crate::gateway;

/// Runs a program against the gateway; `None`, and a line that says so, where it is not installed.
fn run(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => {
            Some(format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: {program} is not installed");
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

fn serving(body: usize) -> (Upstream, Weir) {
    let upstream = Upstream::start(move |conn, request| match request.head.method() {
        "GET" => conn.respond(200, &[("X-From", "upstream")], vec![b'x'; body]),
        _ => conn.respond(200, &[], &request.body),
    });
    let weir = gateway(&upstream);
    (upstream, weir)
}

#[test]
fn curl_downloads_and_uploads() {
    let (_upstream, weir) = serving(200_000);
    let url = weir.url();
    let common = [
        "-sS",
        "-m",
        "20",
        "--http2-prior-knowledge",
        "-o",
        "/dev/null",
        "-w",
        "%{http_version} %{http_code} %{size_download}",
    ];
    let Some(got) = run("curl", &[&common[..], &[&url]].concat()) else { return };
    assert_eq!(got, "2 200 200000");
    let file = weir.dir().join("upload");
    std::fs::write(&file, vec![b'y'; 300_000]).unwrap();
    let data = format!("@{}", file.display());
    let got = run("curl", &[&common[..], &["--data-binary", &data, &url]].concat()).unwrap();
    assert_eq!(got, "2 200 300000");
    let got = run("curl", &["-sS", "-m", "20", "--http2-prior-knowledge", "-I", &url]).unwrap();
    assert!(got.contains("x-from: upstream") || got.starts_with("HTTP/2 200"), "{got}");
}

#[test]
fn nghttp_and_h2load_get_every_response() {
    let (_upstream, weir) = serving(1000);
    let url = weir.url();
    if let Some(got) = run("nghttp", &["-ns", &url]) {
        assert!(got.contains("200"), "{got}");
    }
    if let Some(got) = run("h2load", &["-n", "2000", "-c", "4", "-m", "50", &url]) {
        assert!(got.contains("2000 succeeded, 0 failed, 0 errored"), "{got}");
    }
}

#[test]
fn h2spec_passes_through_the_listener() {
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir"))
        .config("listen: [{bind: 127.0.0.1:0, http2: prior_knowledge}]\nroutes: [{match: {path: /*}, respond: {body: hello}}]\n")
        .start();
    let port = weir.addr().port().to_string();
    if let Some(got) = run("h2spec", &["-h", "127.0.0.1", "-p", &port, "--strict"]) {
        assert!(got.contains(" 0 failed"), "{got}");
    }
}

#[tokio::test]
async fn the_h2_crate_multiplexes_over_one_connection() {
    let upstream = Upstream::start(|conn, request| conn.respond(200, &[], &request.body));
    let weir = gateway(&upstream);
    let socket = tokio::net::TcpStream::connect(weir.addr()).await.unwrap();
    let (send, connection) = h2::client::handshake(socket).await.unwrap();
    let driving = tokio::spawn(connection);
    let mut calls = Vec::new();
    for n in 0..50_usize {
        let mut send = send.clone().ready().await.unwrap();
        calls.push(tokio::spawn(async move {
            let request = http::Request::post("http://a.example/echo").body(()).unwrap();
            let (response, mut body) = send.send_request(request, false).unwrap();
            let data = bytes::Bytes::from(vec![n as u8; n * 997]);
            body.reserve_capacity(data.len());
            body.send_data(data, true).unwrap();
            let response = response.await.unwrap();
            assert_eq!(response.status(), 200);
            let mut body = response.into_body();
            let mut length = 0;
            while let Some(data) = body.data().await {
                let data = data.unwrap();
                assert!(data.iter().all(|&byte| byte == n as u8));
                length += data.len();
                body.flow_control().release_capacity(data.len()).unwrap();
            }
            assert_eq!(length, n * 997);
        }));
    }
    drop(send);
    for call in calls {
        call.await.unwrap();
    }
    driving.await.unwrap().unwrap();
    assert_eq!(upstream.errors(), Vec::<String>::new());
}
