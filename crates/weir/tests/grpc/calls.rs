//! The four kinds of calls, their metadata and their statuses.

use std::sync::Arc;

use testkit::tls::TlsRelay;
use testkit::{Certificates, DEADLINE, Weir};
use tls::certificate::read_certificates;
use tls::client::{self, Roots, server_name};
use tls::names::Entry;
use tls::server::{Listener, Options, Tickets};
use tls::{Alpn, Certificate, Names};
use tokio::time::timeout;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request};

use crate::service::{Client, Server, text};
use crate::{gateway, gateway_with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unary_calls_carry_messages_and_metadata_of_all_sizes() {
    let server = Server::start();
    let weir = gateway(&server);
    let client = Client::connect(weir.addr()).await;
    for size in [0, 1, 10_000, 16_384, 70_000, 1_000_000] {
        let mut request = Request::new(text("x".repeat(size)));
        request.metadata_mut().insert("x-custom", MetadataValue::from_static("kept"));
        let response = client.unary(request).await.unwrap();
        assert_eq!(response.get_ref().text.len(), size);
        assert_eq!(response.metadata().get("x-custom").unwrap(), "kept");
    }
    assert_eq!(server.calls(), 6, "none was repeated");
    let metrics = weir.admin_get("/metrics").text().to_owned();
    let opened = metrics.lines().find(|line| line.starts_with("upstream_connections_opened_total")).unwrap_or_default();
    assert!(opened.ends_with(" 1"), "one connection serves all: {opened}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_and_its_metadata_come_through_in_trailers() {
    let server = Server::start();
    let weir = gateway(&server);
    let client = Client::connect(weir.addr()).await;
    let status = client.unary(Request::new(text("fail"))).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, "no: 100 % \u{1f6ab}\n"));
    assert_eq!(status.metadata().get("x-why").unwrap(), "because");
    assert_eq!(&*status.metadata().get_bin("x-why-bin").unwrap().to_bytes().unwrap(), [0, 255]);
    let length = status.metadata().get("content-length");
    assert_eq!(length, None, "a head that is the trailers too holds nothing of the gateway's framing");
    let status = client.call("Nothing", Request::new(text(""))).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unimplemented, "no such method"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_go_both_ways() {
    let server = Server::start();
    let weir = gateway(&server);
    let client = Client::connect(weir.addr()).await;
    let messages: Vec<_> = (0..500).map(|number| text(format!("{number},"))).collect();
    let whole: String = messages.iter().map(|message| message.text.as_str()).collect();
    assert_eq!(client.collect(messages).await.unwrap().into_inner().text, whole);

    let mut stream = client.spread("300x5000").await.unwrap().into_inner();
    let mut count = 0;
    while let Some(message) = stream.message().await.unwrap() {
        assert_eq!(message.text.len(), 5000);
        count += 1;
    }
    assert_eq!(count, 300);
    // Ends with a status behind messages.
    let mut stream = client.spread("3x7").await.unwrap().into_inner();
    let mut messages = 0;
    let status = loop {
        match stream.message().await {
            Ok(message) => messages += usize::from(message.is_some()),
            Err(status) => break status,
        }
    };
    assert_eq!((messages, status.code(), status.message()), (3, Code::DataLoss, "at the end"));
}

/// Full duplex: each side speaks while the other has not ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sides_speak_at_once() {
    let server = Server::start();
    let weir = gateway(&server);
    let client = Client::connect(weir.addr()).await;
    let chat = async {
        let (send, mut receive) = client.chat().await.unwrap();
        for number in 0..50 {
            let said = text(format!("{number}").repeat(1 + number * 100));
            send.send(said.clone()).await.unwrap();
            // Nothing is held back until more comes.
            assert_eq!(receive.message().await.unwrap(), Some(said));
        }
        drop(send);
        assert_eq!(receive.message().await.unwrap(), None);
        // The server ends while the client still could speak.
        let (send, mut receive) = client.chat().await.unwrap();
        send.send(text("enough")).await.unwrap();
        assert_eq!(receive.message().await.unwrap(), None);
        drop(send);
    };
    timeout(DEADLINE, chat).await.unwrap();
    assert_eq!(client.unary(Request::new(text("after"))).await.unwrap().get_ref().text, "after");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_many_clients_share_connections_within_the_targets_limit() {
    let server = Server::start_with(|server| server.max_concurrent_streams(7));
    let weir = gateway_with(server.address, "    http2: {max_connections: 3}\n", "");
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..200 {
        let client = Client::connect(weir.addr()).await;
        calls.spawn(async move {
            let said = format!("{number}");
            assert_eq!(client.unary(Request::new(text(said.as_str()))).await.unwrap().into_inner().text, said);
        });
    }
    timeout(DEADLINE, calls.join_all()).await.unwrap();
    assert_eq!(server.calls(), 200);
    let metrics = weir.admin_get("/metrics").text().to_owned();
    let opened = metrics.lines().find(|line| line.starts_with("upstream_connections_opened_total")).unwrap_or_default();
    let count: u32 = opened.rsplit(' ').next().unwrap_or_default().parse().unwrap();
    assert!((1..=3).contains(&count), "{opened}");
}

/// TLS on both sides, ALPN on both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_go_over_tls_on_both_sides() {
    let server = Server::start();
    let certificates = Certificates::localhost();
    let certificate = Certificate::load(&certificates.certificate(), &certificates.key()).unwrap();
    let entry = Entry { certificate, names: Vec::new(), is_default: true, policy: 0 };
    let mut options = Options::new(Arc::new(Names::new(vec![entry]).unwrap()));
    for (protocol, offered, works) in [
        ("http2", vec![Alpn::Http2, Alpn::Http11], true),
        ("auto", vec![Alpn::Http2, Alpn::Http11], true),
        ("http2", vec![Alpn::Http11], false),
        ("http2", vec![], false),
    ] {
        options.alpn = offered.clone();
        let relay = TlsRelay::terminate(Listener::new(&options, &Tickets::default()).unwrap(), server.address);
        let yaml = format!(
            "listen: [{{bind: 127.0.0.1:0, tls: {{certificates: [{{cert: {}, key: {}}}]}}}}]\nworkers: 1\nupstreams: {{u: {{targets: [{}], protocol: {protocol}, tls: {{roots: {}}}}}}}\nroutes: [{{match: {{path: /*}}, upstream: u}}]\n",
            certificates.certificate().display(),
            certificates.key().display(),
            relay.url(),
            certificates.authority().display()
        );
        let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
        let roots = Roots::These(read_certificates(&certificates.authority()).unwrap());
        let config = client::config(&client::Options { roots, alpn: vec![Alpn::Http2], ..Default::default() }).unwrap();
        let socket = tokio::net::TcpStream::connect(weir.addr()).await.unwrap();
        let stream = tls::connect(socket, config, server_name("localhost").unwrap()).await.unwrap();
        let client = Client::over(stream, "https://localhost").await;
        let result = client.unary(Request::new(text("over TLS"))).await;
        match (works, result) {
            (true, result) => {
                assert_eq!(result.unwrap().into_inner().text, "over TLS");
                let mut stream = client.spread("40x20000").await.unwrap().into_inner();
                let mut bytes = 0;
                while let Some(message) = stream.message().await.unwrap() {
                    bytes += message.text.len();
                }
                assert_eq!(bytes, 800_000);
                assert_eq!(relay.accepted(), 1, "{protocol}");
            }
            (false, result) => assert_eq!(result.unwrap_err().code(), Code::Unavailable, "{offered:?}"),
        }
    }
}
