//! Envoy's `envoy.service.auth.v3.Authorization` as a server has it: Tonic, over its own HTTP/2 stack. The messages are written down here a
//! second time, from Envoy's protocol files `external_auth.proto`, `attribute_context.proto`, `address.proto`, `base.proto` and
//! `http_status.proto`, so that a number that the gateway has wrong does not go unnoticed.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use prost::Message;
use testkit::{DEADLINE, wait};
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CheckRequest {
    #[prost(message, optional, tag = "1")]
    attributes: Option<AttributeContext>,
}

#[derive(Clone, PartialEq, Message)]
struct AttributeContext {
    #[prost(message, optional, tag = "1")]
    source: Option<Peer>,
    #[prost(message, optional, tag = "4")]
    request: Option<RequestAttributes>,
}

#[derive(Clone, PartialEq, Message)]
struct Peer {
    #[prost(message, optional, tag = "1")]
    address: Option<Address>,
}

#[derive(Clone, PartialEq, Message)]
struct Address {
    #[prost(message, optional, tag = "1")]
    socket_address: Option<SocketAddressMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct SocketAddressMessage {
    #[prost(string, tag = "2")]
    address: String,
    #[prost(oneof = "PortSpecifier", tags = "3, 4")]
    port: Option<PortSpecifier>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum PortSpecifier {
    #[prost(uint32, tag = "3")]
    PortValue(u32),
    #[prost(string, tag = "4")]
    NamedPort(String),
}

#[derive(Clone, PartialEq, Message)]
struct RequestAttributes {
    #[prost(message, optional, tag = "2")]
    http: Option<HttpRequest>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HttpRequest {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) method: String,
    #[prost(map = "string, string", tag = "3")]
    pub(crate) headers: HashMap<String, String>,
    #[prost(string, tag = "4")]
    pub(crate) path: String,
    #[prost(string, tag = "5")]
    pub(crate) host: String,
    #[prost(string, tag = "6")]
    pub(crate) scheme: String,
    #[prost(int64, tag = "9")]
    pub(crate) size: i64,
    #[prost(string, tag = "10")]
    pub(crate) protocol: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CheckResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<RpcStatus>,
    #[prost(message, optional, tag = "2")]
    pub(crate) denied_response: Option<DeniedHttpResponse>,
    #[prost(message, optional, tag = "3")]
    pub(crate) ok_response: Option<OkHttpResponse>,
    /// A `google.protobuf.Struct`.
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) dynamic_metadata: Vec<u8>,
    #[prost(message, optional, tag = "5")]
    pub(crate) error_response: Option<DeniedHttpResponse>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeniedHttpResponse {
    #[prost(message, optional, tag = "1")]
    status: Option<HttpStatus>,
    #[prost(message, repeated, tag = "2")]
    headers: Vec<HeaderValueOption>,
    #[prost(string, tag = "3")]
    body: String,
}

#[derive(Clone, PartialEq, Message)]
struct HttpStatus {
    #[prost(int32, tag = "1")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OkHttpResponse {
    #[prost(message, repeated, tag = "2")]
    pub(crate) headers: Vec<HeaderValueOption>,
    #[prost(string, repeated, tag = "5")]
    pub(crate) headers_to_remove: Vec<String>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) response_headers_to_add: Vec<HeaderValueOption>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) query_parameters_to_set: Vec<QueryParameter>,
    #[prost(string, repeated, tag = "8")]
    pub(crate) query_parameters_to_remove: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct QueryParameter {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HeaderValueOption {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<HeaderValue>,
    #[prost(message, optional, tag = "2")]
    pub(crate) append: Option<BoolValue>,
    #[prost(int32, tag = "3")]
    pub(crate) append_action: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HeaderValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// `google.protobuf.BoolValue`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct BoolValue {
    #[prost(bool, tag = "1")]
    pub(crate) value: bool,
}

pub(crate) fn field(name: &str, value: &str) -> HeaderValueOption {
    let header = Some(HeaderValue { key: name.to_owned(), value: value.to_owned() });
    HeaderValueOption { header, ..HeaderValueOption::default() }
}

/// The service's own failure; `code` is that of the message.
pub(crate) fn failed(code: i32, status: i32) -> CheckResponse {
    let error = DeniedHttpResponse {
        status: Some(HttpStatus { code: status }),
        body: "broken".to_owned(),
        ..DeniedHttpResponse::default()
    };
    CheckResponse {
        status: Some(RpcStatus { code, message: String::new() }),
        error_response: Some(error),
        ..CheckResponse::default()
    }
}

pub(crate) fn ok(headers: Vec<HeaderValueOption>) -> CheckResponse {
    CheckResponse {
        status: Some(RpcStatus::default()),
        ok_response: Some(OkHttpResponse { headers, ..OkHttpResponse::default() }),
        ..CheckResponse::default()
    }
}

pub(crate) fn denied(code: i32, headers: Vec<HeaderValueOption>, body: &str) -> CheckResponse {
    let status = Some(HttpStatus { code });
    CheckResponse {
        status: Some(RpcStatus { code: 7, message: "no".to_owned() }),
        denied_response: Some(DeniedHttpResponse { status, headers, body: body.to_owned() }),
        ..CheckResponse::default()
    }
}

/// A request that the server was called about.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) http: HttpRequest,
    /// Of the client.
    pub(crate) address: String,
    /// `grpc-timeout` of the call.
    pub(crate) timeout: Option<String>,
}

type Judge = dyn Fn(&HttpRequest) -> Result<CheckResponse, Status> + Send + Sync;

struct State {
    /// None: the call is never responded to.
    judge: Mutex<Option<Arc<Judge>>>,
    seen: Mutex<Vec<Seen>>,
    calls: AtomicUsize,
    cancelled: AtomicUsize,
}

/// Counts a call that ends before its response.
struct Guard(Arc<State>, bool);

impl Drop for Guard {
    fn drop(&mut self) {
        if self.1 {
            self.0.cancelled.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[derive(Clone)]
struct Server(Arc<State>);

impl NamedService for Server {
    const NAME: &'static str = "envoy.service.auth.v3.Authorization";
}

impl Service<Request<CheckRequest>> for Server {
    type Response = Response<CheckResponse>;
    type Error = Status;
    type Future = BoxFuture<Response<CheckResponse>, Status>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<CheckRequest>) -> Self::Future {
        let state = self.0.clone();
        Box::pin(async move {
            let timeout = request.metadata().get("grpc-timeout").map(|value| value.to_str().unwrap().to_owned());
            let attributes = request.into_inner().attributes.unwrap_or_default();
            let address = attributes.source.and_then(|peer| peer.address?.socket_address).unwrap_or_default();
            assert!(matches!(address.port, Some(PortSpecifier::PortValue(_))), "a message of Envoy's needs a port");
            let http = attributes.request.and_then(|request| request.http).unwrap_or_default();
            state.seen.lock().unwrap().push(Seen { http: http.clone(), address: address.address, timeout });
            state.calls.fetch_add(1, Ordering::SeqCst);
            let judge = state.judge.lock().unwrap().clone();
            let mut guard = Guard(state, true);
            // A service that never responds.
            let Some(judge) = judge else { return std::future::pending().await };
            guard.1 = false;
            judge(&http).map(Response::new)
        })
    }
}

impl Service<http::Request<Body>> for Server {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(ProstCodec::<CheckResponse, CheckRequest>::default());
            Ok(match request.uri().path() {
                "/envoy.service.auth.v3.Authorization/Check" => grpc.unary(server, request).await,
                _ => Status::new(Code::Unimplemented, "no such method").into_http(),
            })
        })
    }
}

/// The server, on an address that it keeps when it stops.
pub(crate) struct Authorizer {
    address: SocketAddr,
    state: Arc<State>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Authorizer {
    pub(crate) fn start(judge: impl Fn(&HttpRequest) -> Result<CheckResponse, Status> + Send + Sync + 'static) -> Self {
        let state = State {
            judge: Mutex::new(Some(Arc::new(judge))),
            seen: Mutex::default(),
            calls: AtomicUsize::new(0),
            cancelled: AtomicUsize::new(0),
        };
        let mut server = Authorizer { address: ([127, 0, 0, 1], 0).into(), state: Arc::new(state), runtime: None };
        server.restart();
        server
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on responds so.
    pub(crate) fn respond(
        &self,
        judge: impl Fn(&HttpRequest) -> Result<CheckResponse, Status> + Send + Sync + 'static,
    ) {
        *self.state.judge.lock().unwrap() = Some(Arc::new(judge));
    }

    /// From now on never responds.
    pub(crate) fn stall(&self) {
        *self.state.judge.lock().unwrap() = None;
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }

    pub(crate) fn calls(&self) -> usize {
        self.state.calls.load(Ordering::SeqCst)
    }

    pub(crate) fn cancelled(&self) -> usize {
        self.state.cancelled.load(Ordering::SeqCst)
    }

    /// Ends the server with all its connections.
    pub(crate) fn stop(&mut self) {
        self.runtime.take().into_iter().for_each(tokio::runtime::Runtime::shutdown_background);
    }

    pub(crate) fn restart(&mut self) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        // The listener before may still be closing.
        let listener = wait::some(DEADLINE, "the address is free", || TcpListener::bind(self.address).ok());
        listener.set_nonblocking(true).unwrap();
        self.address = listener.local_addr().unwrap();
        let router = tonic::transport::Server::builder().add_service(Server(self.state.clone()));
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            router.serve_with_incoming(incoming).await.unwrap();
        });
        self.runtime = Some(runtime);
    }
}

impl Drop for Authorizer {
    fn drop(&mut self) {
        self.stop();
    }
}
