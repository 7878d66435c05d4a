//! A gRPC server and a client of another project: Tonic, over its own HTTP/2 stack.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::{BoxFuture, Service, StdError, http, tokio_stream};
use tonic::metadata::MetadataValue;
use tonic::server::NamedService;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_health::server::HealthReporter;
use tonic_prost::ProstCodec;

/// The one message.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Text {
    #[prost(string, tag = "1")]
    pub(crate) text: String,
}

pub(crate) fn text(text: impl Into<String>) -> Text {
    Text { text: text.into() }
}

/// What the server has seen.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) calls: AtomicUsize,
    /// Calls whose client cancelled them.
    pub(crate) cancelled: AtomicUsize,
}

/// Counts a call as cancelled unless it is told that it was not.
struct Guard(Arc<Seen>, bool);

impl Drop for Guard {
    fn drop(&mut self) {
        if self.1 {
            self.0.cancelled.fetch_add(1, Ordering::SeqCst);
        }
    }
}

type Messages = ReceiverStream<Result<Text, Status>>;

#[derive(Clone)]
pub(crate) struct Echo(Arc<Seen>);

impl NamedService for Echo {
    const NAME: &'static str = "test.Echo";
}

/// A function as a service.
struct Call<F>(F);

impl<F, Q, R, T> Service<Request<Q>> for Call<F>
where
    F: FnMut(Request<Q>) -> R,
    R: Future<Output = Result<Response<T>, Status>> + Send + 'static,
{
    type Response = Response<T>;
    type Error = Status;
    type Future = BoxFuture<Response<T>, Status>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        Box::pin((self.0)(request))
    }
}

async fn unary(seen: Arc<Seen>, request: Request<Text>) -> Result<Response<Text>, Status> {
    let timeout = request.metadata().get("grpc-timeout").map(|value| value.to_str().unwrap().to_owned());
    let said = request.get_ref().text.clone();
    match said.as_str() {
        "fail" => {
            let mut status = Status::new(Code::FailedPrecondition, "no: 100 % \u{1f6ab}\n");
            status.metadata_mut().insert("x-why", MetadataValue::from_static("because"));
            status.metadata_mut().insert_bin("x-why-bin", MetadataValue::from_bytes(&[0, 255]));
            return Err(status);
        }
        "sleep" => {
            let mut guard = Guard(seen, true);
            tokio::time::sleep(Duration::from_secs(30)).await;
            guard.1 = false;
        }
        "timeout" => return Ok(Response::new(text(timeout.unwrap_or_default()))),
        _ => {}
    }
    let mut response = Response::new(text(said));
    if let Some(value) = request.metadata().get("x-custom") {
        response.metadata_mut().insert("x-custom", value.clone());
    }
    Ok(response)
}

async fn collect(request: Request<Streaming<Text>>) -> Result<Response<Text>, Status> {
    let mut stream = request.into_inner();
    let mut all = String::new();
    while let Some(message) = stream.message().await? {
        all.push_str(&message.text);
    }
    Ok(Response::new(text(all)))
}

/// As many messages as the text says, each of that many bytes; "forever" goes on until nobody takes them.
async fn spread(seen: Arc<Seen>, request: Request<Text>) -> Result<Response<Messages>, Status> {
    let said = request.into_inner().text;
    let (send, receive) = mpsc::channel(4);
    tokio::spawn(async move {
        let mut guard = Guard(seen, false);
        match said.split_once('x').and_then(|(count, size)| Some((count.parse::<usize>().ok()?, size.parse().ok()?))) {
            Some((count, size)) => {
                for number in 0..count {
                    let body = format!("{number}").repeat(size).chars().take(size).collect::<String>();
                    if send.send(Ok(text(body))).await.is_err() {
                        return;
                    }
                }
                if said.ends_with("00") {
                    return;
                }
                let _ = send.send(Err(Status::new(Code::DataLoss, "at the end"))).await;
            }
            None => {
                while send.send(Ok(text("on"))).await.is_ok() {
                    guard.1 = true;
                }
            }
        }
    });
    Ok(Response::new(ReceiverStream::new(receive)))
}

/// Each message at once.
async fn chat(request: Request<Streaming<Text>>) -> Result<Response<Messages>, Status> {
    let mut stream = request.into_inner();
    let (send, receive) = mpsc::channel(4);
    tokio::spawn(async move {
        while let Ok(Some(message)) = stream.message().await {
            if message.text == "enough" || send.send(Ok(message)).await.is_err() {
                return;
            }
        }
    });
    Ok(Response::new(ReceiverStream::new(receive)))
}

impl Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let seen = self.0.clone();
        seen.calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(ProstCodec::<Text, Text>::default());
            Ok(match request.uri().path() {
                "/test.Echo/Unary" => grpc.unary(Call(move |request| unary(seen.clone(), request)), request).await,
                "/test.Echo/Collect" => grpc.client_streaming(Call(collect), request).await,
                "/test.Echo/Spread" => {
                    grpc.server_streaming(Call(move |request| spread(seen.clone(), request)), request).await
                }
                "/test.Echo/Chat" => grpc.streaming(Call(chat), request).await,
                _ => Status::new(Code::Unimplemented, "no such method").into_http(),
            })
        })
    }
}

/// A server that runs until it is dropped, and with it every connection.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Seen>,
    pub(crate) health: HealthReporter,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Server {
    pub(crate) fn start() -> Server {
        Server::start_with(|server| server)
    }

    pub(crate) fn start_with(edit: impl FnOnce(tonic::transport::Server) -> tonic::transport::Server) -> Server {
        let (health, health_server) = tonic_health::server::health_reporter();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let router =
            edit(tonic::transport::Server::builder()).add_service(Echo(seen.clone())).add_service(health_server);
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            router.serve_with_incoming(incoming).await.unwrap();
        });
        Server { address, seen, health, runtime: Some(runtime) }
    }

    pub(crate) fn stop(self) {}

    pub(crate) fn calls(&self) -> usize {
        self.seen.calls.load(Ordering::SeqCst)
    }

    pub(crate) fn cancelled(&self) -> usize {
        self.seen.cancelled.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.runtime.take().into_iter().for_each(tokio::runtime::Runtime::shutdown_background);
    }
}

/// One HTTP/2 connection of a client.
#[derive(Clone)]
pub(crate) struct Channel(hyper::client::conn::http2::SendRequest<Body>);

impl Service<http::Request<Body>> for Channel {
    type Response = http::Response<hyper::body::Incoming>;
    type Error = StdError;
    type Future = BoxFuture<Self::Response, StdError>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StdError>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let response = self.0.send_request(request);
        Box::pin(async move { response.await.map_err(Into::into) })
    }
}

/// A client of the service.
#[derive(Clone)]
pub(crate) struct Client(tonic::client::Grpc<Channel>);

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).await.unwrap();
        socket.set_nodelay(true).unwrap();
        Client::over(socket, &format!("http://{address}")).await
    }

    pub(crate) async fn over(io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, origin: &str) -> Client {
        let (send, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(io)).await.unwrap();
        tokio::spawn(connection);
        Client(tonic::client::Grpc::with_origin(Channel(send), origin.parse().unwrap()))
    }

    fn path(name: &str) -> http::uri::PathAndQuery {
        format!("/test.Echo/{name}").parse().unwrap()
    }

    async fn ready(&self) -> tonic::client::Grpc<Channel> {
        let mut grpc = self.0.clone();
        grpc.ready().await.unwrap();
        grpc
    }

    pub(crate) async fn unary(&self, request: Request<Text>) -> Result<Response<Text>, Status> {
        self.call("Unary", request).await
    }

    pub(crate) async fn call(&self, method: &str, request: Request<Text>) -> Result<Response<Text>, Status> {
        let mut grpc = self.ready().await;
        grpc.unary(request, Client::path(method), ProstCodec::<Text, Text>::default()).await
    }

    pub(crate) async fn collect(&self, messages: Vec<Text>) -> Result<Response<Text>, Status> {
        let request = Request::new(tokio_stream::iter(messages));
        let codec = ProstCodec::<Text, Text>::default();
        self.ready().await.client_streaming(request, Client::path("Collect"), codec).await
    }

    /// What is put into the channel goes up as it comes.
    pub(crate) async fn collect_from(&self, messages: mpsc::Receiver<Text>) -> Result<Response<Text>, Status> {
        let request = Request::new(ReceiverStream::new(messages));
        let codec = ProstCodec::<Text, Text>::default();
        self.ready().await.client_streaming(request, Client::path("Collect"), codec).await
    }

    pub(crate) async fn spread(&self, what: &str) -> Result<Response<Streaming<Text>>, Status> {
        let codec = ProstCodec::<Text, Text>::default();
        self.ready().await.server_streaming(Request::new(text(what)), Client::path("Spread"), codec).await
    }

    /// What is put into the sender goes up as it comes.
    pub(crate) async fn chat(&self) -> Result<(mpsc::Sender<Text>, Streaming<Text>), Status> {
        let (send, receive) = mpsc::channel(4);
        let codec = ProstCodec::<Text, Text>::default();
        let request = Request::new(ReceiverStream::new(receive));
        let response = self.ready().await.streaming(request, Client::path("Chat"), codec).await?;
        Ok((send, response.into_inner()))
    }
}
