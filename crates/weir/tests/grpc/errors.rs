//! What a client learns when the gateway does not serve its call: a status, never a page.

use testkit::Weir;
use testkit::ports::Port;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request};

use crate::service::{Client, Server, text};
use crate::{gateway, gateway_with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_cannot_be_reached_is_unavailable() {
    let free = Port::free();
    let weir = gateway_with(free.address(), "    eject: none\n", "");
    let client = Client::connect(weir.addr()).await;
    let status = client.unary(Request::new(text("x"))).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "The upstream cannot be reached"));
    assert!(status.metadata().get("x-request-id").is_some(), "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_refuse_with_a_status() {
    let server = Server::start();
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let keys = builder.dir().join("keys.yaml");
    std::fs::write(&keys, format!("- {{\"id\":\"a\",\"sha256\":\"{}\",\"consumer\":\"one\"}}\n", "0".repeat(64)))
        .unwrap();
    let yaml = format!(
        "listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]\nworkers: 1\nauth: {{keys: {{api_key: {{store: {{file: {}}}}}}}}}\nlimits: {{few: {{key: client_ip, algorithm: fixed_window, quota: 2, window: 1h}}}}\nupstreams: {{u: {{targets: [http://{}], protocol: http2}}}}\nroutes:\n  - {{match: {{path: /test.Echo/Unary}}, upstream: u, limits: [few]}}\n  - {{match: {{path: /test.Echo/Collect}}, upstream: u, auth: [keys]}}\n  - {{match: {{path: /test.Echo/Chat}}, upstream: u, allow: {{not_ips: [127.0.0.0/8]}}}}\n",
        keys.display(),
        server.address
    );
    let weir = builder.config(yaml).start();
    let client = Client::connect(weir.addr()).await;
    for _ in 0..2 {
        client.unary(Request::new(text("x"))).await.unwrap();
    }
    let status = client.unary(Request::new(text("x"))).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert_eq!(client.collect(vec![]).await.unwrap_err().code(), Code::Unauthenticated);
    assert_eq!(client.call("Chat", Request::new(text("x"))).await.unwrap_err().code(), Code::PermissionDenied);
    let status = client.call("Other", Request::new(text("x"))).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented, "no route: {status:?}");
    assert_eq!(server.calls(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clients_deadline_ends_the_call_on_both_sides() {
    let server = Server::start();
    // The server does not learn of the deadline of the first call, so that it is the gateway which keeps it.
    let route = "    headers: {request: {remove: [grpc-timeout]}}\n  - {match: {path: /test.Echo/Unary, headers: {x-plain: \"1\"}}, upstream: u}\n";
    let weir = gateway_with(server.address, "    eject: {after: 1}\n", route);
    let client = Client::connect(weir.addr()).await;
    let mut request = Request::new(text("sleep"));
    request.metadata_mut().insert("grpc-timeout", MetadataValue::from_static("200m"));
    let status = client.unary(request).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::DeadlineExceeded, "The exchange took too long"));
    testkit::wait::until(testkit::DEADLINE, "the server to see the call cancelled", || server.cancelled() == 1);
    // A client's short deadline is not the target's fault; one failure would take the target out.
    let mut request = Request::new(text("timeout"));
    request.metadata_mut().insert("grpc-timeout", MetadataValue::from_static("20S"));
    request.metadata_mut().insert("x-plain", MetadataValue::from_static("1"));
    let left = client.unary(request).await.unwrap().into_inner().text;
    let micros: u64 = left.strip_suffix('u').unwrap_or_else(|| panic!("{left}")).parse().unwrap();
    assert!((1..=20_000_000).contains(&micros), "what is left is sent: {left}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_that_breaks_off_ends_with_a_status() {
    let server = Server::start();
    let weir = gateway(&server);
    let client = Client::connect(weir.addr()).await;
    let mut stream = client.spread("forever").await.unwrap().into_inner();
    assert_eq!(stream.message().await.unwrap(), Some(text("on")));
    let (send, mut chat) = client.chat().await.unwrap();
    send.send(text("hello")).await.unwrap();
    assert_eq!(chat.message().await.unwrap(), Some(text("hello")));
    // The server's connections break.
    server.stop();
    let status = loop {
        match stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the stream passes for complete"),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert_eq!(chat.message().await.unwrap_err().code(), Code::Unavailable);
    let status = client.unary(Request::new(text("x"))).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
}
