//! A server on the `h2` crate that speaks gRPC by hand, with reflection and with faults: real servers do not violate the protocol when a test needs it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use prost::Message;

/// What methods take and return. It is a file of its own, so that the description of the service imports something.
const TYPES: &str = r#"
syntax = "proto3";
package lab;
message Word { int32 count = 1; string text = 2; int64 large = 3; }
"#;
const SERVICE: &str = r#"
syntax = "proto3";
package lab;
import "types.proto";
import "google/protobuf/empty.proto";
service Lab {
  rpc One(Word) returns (Word);
  rpc Down(Word) returns (stream Word);
  rpc Up(stream Word) returns (Word);
  rpc Both(stream Word) returns (stream Word);
  rpc Nothing(google.protobuf.Empty) returns (google.protobuf.Empty);
}
"#;

/// Bytes of text that a single response may have.
const LONGEST_TEXT: usize = 64 << 20;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Word {
    #[prost(int32, tag = "1")]
    pub(crate) count: i32,
    #[prost(string, tag = "2")]
    pub(crate) text: String,
    #[prost(int64, tag = "3")]
    pub(crate) large: i64,
}

/// How the server describes itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reflection {
    /// UNIMPLEMENTED.
    None,
    /// An HTTP status, as of a gateway that does not route it.
    Http(u16),
    V1,
    /// The older version alone.
    Alpha,
    /// The file of the service; its import is not known.
    WithoutImport,
    /// No response.
    Silent,
    /// Bytes that are no descriptor.
    Garbage,
    /// Another file than the requested one, again and again.
    AnotherFile,
    /// A stream that ends at once with a code.
    Code(&'static str),
}

/// What the server has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) messages: AtomicU64,
    pub(crate) words: std::sync::Mutex<Vec<Word>>,
    /// Values of the field `authorization` of calls of reflection.
    pub(crate) credentials: std::sync::Mutex<Vec<String>>,
    /// Calls that the client has reset.
    pub(crate) cancelled: AtomicU64,
}

pub(crate) fn start(reflection: Reflection) -> (SocketAddr, Arc<Seen>) {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [("types.proto", TYPES), ("lab.proto", SERVICE)] {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    let set = protox::compile(["lab.proto"], [folder.path()]).expect("it compiles");
    let files: Vec<(String, Vec<u8>)> =
        set.file.iter().map(|file| (file.name().to_owned(), file.encode_to_vec())).collect();
    let (tell, told) = mpsc::channel();
    let seen = Arc::new(Seen::default());
    let of_server = Arc::clone(&seen);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            tell.send(listener.local_addr().expect("an address")).expect("the test waits");
            let files = Arc::new(files);
            while let Ok((socket, _)) = listener.accept().await {
                let (files, seen) = (Arc::clone(&files), Arc::clone(&of_server));
                tokio::spawn(async move {
                    let Ok(mut connection) = h2::server::handshake(socket).await else { return };
                    while let Some(Ok((request, respond))) = connection.accept().await {
                        let (files, seen) = (Arc::clone(&files), Arc::clone(&seen));
                        tokio::spawn(async move {
                            if call(request, respond, reflection, &files, &seen).await.is_err() {
                                seen.cancelled.fetch_add(1, Ordering::Relaxed);
                            }
                        });
                    }
                });
            }
        });
    });
    (told.recv().expect("a server"), seen)
}

/// The description as a file, for loads without reflection.
pub(crate) fn proto(folder: &std::path::Path) -> std::path::PathBuf {
    std::fs::write(folder.join("types.proto"), TYPES).expect("a file");
    let file = folder.join("lab.proto");
    std::fs::write(&file, SERVICE).expect("a file");
    file
}

struct Incoming {
    stream: RecvStream,
    buffer: Vec<u8>,
}

impl Incoming {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, h2::Error> {
        loop {
            if let Some(prefix) = self.buffer.first_chunk::<5>() {
                let end = 5 + u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
                if self.buffer.len() >= end {
                    let message = self.buffer[5..end].to_vec();
                    self.buffer.drain(..end);
                    return Ok(Some(message));
                }
            }
            match self.stream.data().await {
                Some(data) => {
                    let data = data?;
                    let _ = self.stream.flow_control().release_capacity(data.len());
                    self.buffer.extend_from_slice(&data);
                }
                None => return Ok(None),
            }
        }
    }

    async fn word(&mut self, seen: &Seen) -> Result<Option<Word>, h2::Error> {
        let Some(message) = self.next().await? else { return Ok(None) };
        let word = Word::decode(message.as_slice()).expect("the client sends words");
        seen.messages.fetch_add(1, Ordering::Relaxed);
        let mut words = seen.words.lock().expect("no panic");
        if words.len() < 1000 {
            words.push(word.clone());
        }
        Ok(Some(word))
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&[0][..], &(message.len() as u32).to_be_bytes(), message].concat()
}

/// As the windows of the client allow.
async fn send(stream: &mut SendStream<Bytes>, bytes: Vec<u8>) -> Result<(), h2::Error> {
    let mut bytes = Bytes::from(bytes);
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        match std::future::poll_fn(|context| stream.poll_capacity(context)).await {
            Some(room) => stream.send_data(bytes.split_to(room?.min(bytes.len())), false)?,
            None => return Err(h2::Reason::CANCEL.into()),
        }
    }
    Ok(())
}

fn fields(list: &[(&str, &str)]) -> http::HeaderMap {
    let field = |(name, value): &(&str, &str)| (name.parse().expect("a name"), value.parse().expect("a value"));
    list.iter().map(field).collect()
}

fn head() -> http::Response<()> {
    http::Response::builder().header("content-type", "application/grpc").body(()).expect("a head")
}

/// A response without a message.
fn refuse(mut respond: SendResponse<Bytes>, code: &str, text: &str) -> Result<(), h2::Error> {
    let mut head = head();
    head.headers_mut().extend(fields(&[("grpc-status", code), ("grpc-message", text)]));
    respond.send_response(head, true).map(drop)
}

async fn call(
    request: http::Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    reflection: Reflection,
    files: &[(String, Vec<u8>)],
    seen: &Seen,
) -> Result<(), h2::Error> {
    let (parts, stream) = request.into_parts();
    let mut incoming = Incoming { stream, buffer: Vec::new() };
    let method = parts.uri.path().rsplit('/').next().unwrap_or_default().to_owned();
    if method == "ServerReflectionInfo" {
        if let Some(value) = parts.headers.get("authorization") {
            seen.credentials.lock().expect("no panic").push(value.to_str().expect("text").to_owned());
        }
        return describe(parts.uri.path(), incoming, respond, reflection, files).await;
    }
    if parts.headers.contains_key("x-refused") {
        // Before anything was read, and without making room for more.
        let mut head = head();
        head.headers_mut().extend(fields(&[("grpc-status", "16"), ("grpc-message", "not for you")]));
        let mut out = respond.send_response(head, true)?;
        return std::future::poll_fn(|context| out.poll_reset(context)).await.and(Err(h2::Reason::CANCEL.into()));
    }
    // What is wrong is in the text of the first message.
    let Some(first) = incoming.word(seen).await? else { return refuse(respond, "3", "no message") };
    match first.text.as_str() {
        "unavailable" => return refuse(respond, "14", "try again"),
        "http 503" => {
            let head = http::Response::builder().status(503).body(()).expect("a head");
            let mut stream = respond.send_response(head, false)?;
            return stream.send_data(Bytes::from_static(b"<html>no</html>"), true);
        }
        "hang" => {
            // Until the client gives up.
            return std::future::poll_fn(|context| respond.poll_reset(context))
                .await
                .and(Err(h2::Reason::CANCEL.into()));
        }
        _ => {}
    }
    let mut out = respond.send_response(head(), false)?;
    let mut status = "0";
    match method.as_str() {
        "One" => {
            // A number that is far from a length is a value like any other.
            let length = usize::try_from(first.large).ok().filter(|bytes| *bytes <= LONGEST_TEXT);
            let text = "x".repeat(length.unwrap_or(0)) + &first.text;
            send(&mut out, framed(&Word { text, ..first.clone() }.encode_to_vec())).await?;
        }
        "Down" => {
            for number in 0..first.count {
                let text = "x".repeat(usize::try_from(first.large).unwrap_or(0));
                send(&mut out, framed(&Word { count: number, text, large: 0 }.encode_to_vec())).await?;
            }
        }
        "Up" if first.text == "early" => send(&mut out, framed(&first.encode_to_vec())).await?,
        "Up" => {
            let mut count = 1;
            while incoming.word(seen).await?.is_some() {
                count += 1;
            }
            send(&mut out, framed(&Word { count, ..Word::default() }.encode_to_vec())).await?;
        }
        "Both" => {
            let mut next = Some(first.clone());
            while let Some(word) = next {
                // Nothing may have come before this one has its response.
                if !incoming.buffer.is_empty() {
                    status = "9";
                    break;
                }
                send(&mut out, framed(&word.encode_to_vec())).await?;
                if word.text == "early" && word.count == 3 {
                    break;
                }
                next = incoming.word(seen).await?;
            }
        }
        "Nothing" => send(&mut out, framed(&[])).await?,
        _ => status = "12",
    }
    match first.text.as_str() {
        "no status" => return out.send_data(Bytes::new(), true),
        "data loss" => status = "15",
        "cut" => out.send_data(Bytes::from_static(&[0, 0, 0, 0, 9, 8]), false)?,
        "compressed" => out.send_data(Bytes::from_static(&[1, 0, 0, 0, 1, 0]), false)?,
        "garbage" => out.send_data(Bytes::from_static(&[0, 0, 0, 0, 1, 0xFF]), false)?,
        "reset" => {
            out.send_reset(h2::Reason::INTERNAL_ERROR);
            return Ok(());
        }
        _ => {}
    }
    out.send_trailers(fields(&[("grpc-status", status), ("grpc-message", "as%20it%20was%20told")]))
}

#[derive(Clone, PartialEq, Message)]
struct Query {
    #[prost(string, optional, tag = "3")]
    file: Option<String>,
    #[prost(string, optional, tag = "4")]
    symbol: Option<String>,
    #[prost(string, optional, tag = "7")]
    services: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Parts {
    #[prost(message, optional, tag = "4")]
    files: Option<Files>,
    #[prost(message, optional, tag = "6")]
    services: Option<Services>,
    #[prost(message, optional, tag = "7")]
    error: Option<Refused>,
}

#[derive(Clone, PartialEq, Message)]
struct Files {
    #[prost(bytes = "vec", repeated, tag = "1")]
    files: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Services {
    #[prost(message, repeated, tag = "1")]
    services: Vec<Service>,
}

#[derive(Clone, PartialEq, Message)]
struct Service {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Refused {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

async fn describe(
    path: &str,
    mut incoming: Incoming,
    mut respond: SendResponse<Bytes>,
    reflection: Reflection,
    files: &[(String, Vec<u8>)],
) -> Result<(), h2::Error> {
    let alpha = path.contains("v1alpha");
    match reflection {
        Reflection::None => return refuse(respond, "12", "unknown service"),
        Reflection::Alpha if !alpha => return refuse(respond, "12", "unknown service"),
        Reflection::Code(code) => return refuse(respond, code, "not for you"),
        Reflection::Http(status) => {
            let head = http::Response::builder().status(status).body(()).expect("a head");
            return respond.send_response(head, true).map(drop);
        }
        Reflection::Silent => {
            return std::future::poll_fn(|context| respond.poll_reset(context)).await.map(drop);
        }
        _ => {}
    }
    let mut out = respond.send_response(head(), false)?;
    while let Some(message) = incoming.next().await? {
        let query = Query::decode(message.as_slice()).expect("a request of reflection");
        let file = |name: &str| files.iter().find(|(known, _)| known == name).map(|(_, file)| file.clone());
        let found = match (&query.file, &query.symbol) {
            (_, Some(symbol)) if symbol == "lab.Lab" => file("lab.proto"),
            (Some(_), _) if reflection == Reflection::AnotherFile => file("lab.proto"),
            // As servers that leave out what every client has.
            (Some(name), _) if name == "types.proto" && reflection != Reflection::WithoutImport => file(name),
            _ => None,
        };
        let mut response = Parts::default();
        match found {
            _ if query.services.is_some() => {
                let services = ["grpc.health.v1.Health", "lab.Lab"].map(|name| Service { name: name.to_owned() });
                response.services = Some(Services { services: services.to_vec() });
            }
            Some(_) if reflection == Reflection::Garbage => response.files = Some(Files { files: vec![vec![0xFF; 8]] }),
            Some(file) => response.files = Some(Files { files: vec![file] }),
            None => response.error = Some(Refused { code: 5, message: "not found".to_owned() }),
        }
        send(&mut out, framed(&response.encode_to_vec())).await?;
    }
    out.send_trailers(fields(&[("grpc-status", "0")]))
}
