//! A gRPC server that ends each call as a test says, over the stack of the `h2` crate.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use h2::server::SendResponse;
use prost::bytes::Bytes;
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue, Response};

/// A call that came.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) fields: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) at: Instant,
}

impl Call {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(|value| value.to_str().unwrap())
    }
}

/// How a call ends.
#[derive(Debug, Clone)]
pub(crate) enum Says {
    /// With the one message that came.
    Echo,
    /// With a head and nothing behind it.
    Head(u8, Vec<(&'static str, String)>),
    /// The same, before the request was read.
    AtOnce(u8),
    /// With the message that came, and this status in trailers.
    Trailers(u8),
    /// With the message, and no trailers.
    Nothing,
    /// With a status of HTTP and none of gRPC.
    Http(u16),
    /// Not at all.
    Silence,
}

impl Says {
    pub(crate) fn head(status: u8) -> Says {
        Says::Head(status, Vec::new())
    }
}

pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Call>>>,
    body_bytes: Arc<AtomicUsize>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Target {
    /// `script` gets the call and how many came before it.
    pub(crate) fn start(script: impl Fn(&Call, usize) -> Says + Send + Sync + 'static) -> Target {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, script) = (Arc::<Mutex<Vec<Call>>>::default(), Arc::new(script));
        let body_bytes = Arc::<AtomicUsize>::default();
        let (calls, bytes) = (seen.clone(), body_bytes.clone());
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                socket.set_nodelay(true).unwrap();
                let (calls, bytes, script) = (calls.clone(), bytes.clone(), script.clone());
                tokio::spawn(async move {
                    let Ok(mut connection) = h2::server::handshake(socket).await else { return };
                    while let Some(Ok((request, respond))) = connection.accept().await {
                        tokio::spawn(serve(request, respond, calls.clone(), bytes.clone(), script.clone()));
                    }
                });
            }
        });
        Target { address, seen, body_bytes, runtime: Some(runtime) }
    }

    /// Ends every call with a head.
    pub(crate) fn with_status(status: u8) -> Target {
        Target::start(move |_, _| Says::head(status))
    }

    pub(crate) fn seen(&self) -> Vec<Call> {
        self.seen.lock().unwrap().clone()
    }

    /// Bytes of all bodies so far, also of calls that have not ended.
    pub(crate) fn body_bytes(&self) -> usize {
        self.body_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn calls(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.runtime.take().into_iter().for_each(tokio::runtime::Runtime::shutdown_background);
    }
}

async fn serve(
    request: tonic::codegen::http::Request<h2::RecvStream>,
    mut respond: SendResponse<Bytes>,
    calls: Arc<Mutex<Vec<Call>>>,
    bytes: Arc<AtomicUsize>,
    script: Arc<impl Fn(&Call, usize) -> Says>,
) {
    let (head, mut stream) = request.into_parts();
    let mut call = Call { fields: head.headers, body: Vec::new(), at: Instant::now() };
    if let says @ Says::AtOnce(_) = script(&call, 0) {
        calls.lock().unwrap().push(call);
        return end(&mut respond, says, Bytes::new());
    }
    while let Some(piece) = stream.data().await {
        let Ok(piece) = piece else { break };
        let _ = stream.flow_control().release_capacity(piece.len());
        call.body.extend_from_slice(&piece);
        bytes.fetch_add(piece.len(), Ordering::Relaxed);
    }
    call.at = Instant::now();
    let body = Bytes::from(call.body.clone());
    let says = {
        let mut calls = calls.lock().unwrap();
        let says = script(&call, calls.len());
        calls.push(call);
        says
    };
    if matches!(says, Says::Silence) {
        std::future::poll_fn(|cx| respond.poll_reset(cx)).await.ok();
        return;
    }
    end(&mut respond, says, body);
}

fn end(respond: &mut SendResponse<Bytes>, says: Says, body: Bytes) {
    let head = Response::builder().header("content-type", "application/grpc");
    let message = |status: u8| HeaderValue::from_str(&format!("said {status}")).unwrap();
    let trailers = |status: u8| {
        let fields = [("grpc-status", u16::from(status).into()), ("grpc-message", message(status))];
        fields.into_iter().map(|(name, value)| (HeaderName::from_static(name), value)).collect::<HeaderMap>()
    };
    // What the gateway gave up meanwhile is no failure of the test.
    let _ = match says {
        Says::Head(status, fields) => {
            let head = head.header("grpc-status", u16::from(status)).header("grpc-message", message(status));
            let head = fields.into_iter().fold(head, |head, (name, value)| head.header(name, value));
            respond.send_response(head.body(()).unwrap(), true).map(drop)
        }
        Says::AtOnce(status) => end_with_head(respond, head, status, message(status)),
        Says::Silence => Ok(()),
        Says::Http(status) => respond.send_response(head.status(status).body(()).unwrap(), true).map(drop),
        Says::Nothing => {
            respond.send_response(head.body(()).unwrap(), false).and_then(|mut stream| stream.send_data(body, true))
        }
        Says::Echo | Says::Trailers(_) => {
            let status = if let Says::Trailers(status) = says { status } else { 0 };
            respond.send_response(head.body(()).unwrap(), false).and_then(|mut stream| {
                stream.send_data(body, false)?;
                stream.send_trailers(trailers(status))
            })
        }
    };
}

fn end_with_head(
    respond: &mut SendResponse<Bytes>,
    head: tonic::codegen::http::response::Builder,
    status: u8,
    message: HeaderValue,
) -> Result<(), h2::Error> {
    let head = head.header("grpc-status", u16::from(status)).header("grpc-message", message);
    respond.send_response(head.body(()).unwrap(), true).map(drop)
}
