//! How calls end before their time.

use testkit::{DEADLINE, Signal, wait};
use tokio::time::timeout;
use tonic::{Code, Request};
use tonic_health::ServingStatus;

use crate::service::{Client, Server, text};
use crate::{gateway, gateway_with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_cancels_cancels_the_targets_call_and_nothing_else() {
    let server = Server::start();
    let weir = gateway(&server);
    let client = Client::connect(weir.addr()).await;
    let (send, mut chat) = client.chat().await.unwrap();
    let mut stream = client.spread("forever").await.unwrap().into_inner();
    assert_eq!(stream.message().await.unwrap(), Some(text("on")));
    let other = client.clone();
    let sleeping = tokio::spawn(async move { other.unary(Request::new(text("sleep"))).await });
    wait::until(DEADLINE, "the calls", || server.calls() == 3);
    sleeping.abort();
    drop(stream);
    wait::until(DEADLINE, "both calls to be cancelled", || server.cancelled() == 2);
    send.send(text("still here")).await.unwrap();
    assert_eq!(chat.message().await.unwrap(), Some(text("still here")), "the other call of the connection goes on");
    // A client that disconnects cancels all of its calls.
    let gone = Client::connect(weir.addr()).await;
    let stream = gone.spread("forever").await.unwrap();
    drop((stream, gone));
    wait::until(DEADLINE, "the call to be cancelled", || server.cancelled() == 3);
    send.send(text("and here")).await.unwrap();
    assert_eq!(chat.message().await.unwrap(), Some(text("and here")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_holds_back_its_target_and_no_other_call() {
    let server = Server::start();
    let weir = gateway(&server);
    let slow = Client::connect(weir.addr()).await;
    // 40 MB, of which the client takes one message.
    let mut stream = slow.spread("2000x20000").await.unwrap().into_inner();
    assert_eq!(stream.message().await.unwrap().unwrap().text.len(), 20_000);
    let other = Client::connect(weir.addr()).await;
    for _ in 0..20 {
        assert_eq!(
            timeout(DEADLINE, other.unary(Request::new(text("fast")))).await.unwrap().unwrap().get_ref().text,
            "fast"
        );
    }
    let held = weir.usage().resident_bytes;
    assert!(held < 100 << 20, "{held} bytes are held");
    let mut bytes = 20_000;
    while let Some(message) = stream.message().await.unwrap() {
        bytes += message.text.len();
    }
    assert_eq!(bytes, 40_000_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draining_gateway_finishes_its_calls() {
    let server = Server::start();
    let weir = gateway(&server);
    let client = Client::connect(weir.addr()).await;
    let (send, mut chat) = client.chat().await.unwrap();
    send.send(text("one")).await.unwrap();
    assert_eq!(chat.message().await.unwrap(), Some(text("one")));
    weir.signal(Signal::TERM);
    wait::until(DEADLINE, "the listener to close", || std::net::TcpStream::connect(weir.addr()).is_err());
    send.send(text("two")).await.unwrap();
    assert_eq!(chat.message().await.unwrap(), Some(text("two")));
    drop(send);
    assert_eq!(chat.message().await.unwrap(), None);
    assert!(weir.wait_for_exit(DEADLINE).success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_says_that_it_does_not_serve_gets_no_calls() {
    let server = Server::start();
    server.health.set_service_status("test.Echo", ServingStatus::Serving).await;
    let health = "    health: {grpc: test.Echo, interval: 20ms, healthy_after: 1, unhealthy_after: 1}\n";
    let weir = gateway_with(server.address, health, "");
    let client = Client::connect(weir.addr()).await;
    let becomes = async |code| {
        let wait = async {
            while client.unary(Request::new(text("x"))).await.map_or_else(|status| status.code(), |_| Code::Ok) != code
            {
            }
        };
        timeout(DEADLINE, wait).await.unwrap_or_else(|_| panic!("never {code:?}"));
    };
    becomes(Code::Ok).await;
    server.health.set_service_status("test.Echo", ServingStatus::NotServing).await;
    becomes(Code::Unavailable).await;
    let before = server.calls();
    assert_eq!(client.unary(Request::new(text("x"))).await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(server.calls(), before);
    server.health.set_service_status("test.Echo", ServingStatus::Serving).await;
    becomes(Code::Ok).await;
}
