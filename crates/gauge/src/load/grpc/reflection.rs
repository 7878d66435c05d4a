//! Descriptors from the server itself, by gRPC Server Reflection (github.com/grpc/grpc-proto, grpc/reflection/v1/reflection.proto): a stream of requests, each
//! with its response.

mod messages;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Version};
use prost::Message;
use prost_reflect::DescriptorPool;
use prost_reflect::prost_types::FileDescriptorProto;
use protox::file::{FileResolver, GoogleFileResolver};

use super::{Frames, UNKNOWN, code_of, framed, message_of};
use crate::foreign::{self, shown};
use crate::load::engine::http2;
use crate::load::prepare::Authority;
pub(crate) use messages::{Content, Error, Files, Query, ReflectionResponse, Service, Services, Wanted};

/// The versions of the service, the one that is preferred first.
const VERSIONS: [&str; 2] = ["grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"];
/// Longest time for all of it.
const MOST_TIME: Duration = Duration::from_secs(10);
/// Most bytes of descriptors, and most files: no API comes near.
const MOST_BYTES: usize = 64 << 20;
const MOST_FILES: usize = 10_000;

/// Codes of gRPC.
const NOT_FOUND: u16 = 5;
const UNIMPLEMENTED: u16 = 12;

/// Why there is no descriptor.
#[derive(Debug)]
pub(crate) enum Problem {
    /// The server has no such service.
    Unknown(String),
    /// The server has no reflection, or what it says makes no sense.
    Unavailable(String),
}

/// Why a request has no response.
enum Refusal {
    /// The stream, or the request, ended with a code of gRPC.
    Code(u16, String),
    Other(String),
}

impl Refusal {
    fn text(self) -> String {
        match self {
            Refusal::Code(code, text) if text.is_empty() => format!("gRPC status {code}"),
            Refusal::Code(code, text) => format!("gRPC status {code}: {}", shown(&text)),
            Refusal::Other(text) => shown(&text),
        }
    }
}

/// The descriptors of a service and of all that its file imports. `metadata` is sent with the calls.
pub(crate) fn read(
    authority: &Authority,
    service: &str,
    metadata: &HeaderMap,
    timeout: Duration,
) -> Result<DescriptorPool, Problem> {
    let failed = |error: std::io::Error| Problem::Unavailable(error.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().map_err(failed)?;
    let limit = timeout.min(MOST_TIME);
    runtime.block_on(async {
        let work = async {
            let (sender, driver) = http2::connect(authority).await.map_err(failed)?;
            let sender = sender.ready().await.map_err(|error| Problem::Unavailable(error.to_string()))?;
            let work = files(&sender, authority, service, metadata);
            tokio::pin!(work);
            tokio::select! {
                files = &mut work => files,
                // Its streams hear of the end themselves.
                _ = driver => work.await,
            }
        };
        let late = |_| Problem::Unavailable(format!("no complete response within {} s", limit.as_secs_f64()));
        let files = tokio::time::timeout(limit, work).await.map_err(late)??;
        let mut pool = DescriptorPool::new();
        let unusable = |error: prost_reflect::DescriptorError| {
            Problem::Unavailable(format!(
                "the descriptors that the server sent do not resolve: {}",
                shown(&error.to_string())
            ))
        };
        pool.add_file_descriptor_protos(files).map_err(unusable)?;
        Ok(pool)
    })
}

async fn files(
    sender: &SendRequest<Bytes>,
    authority: &Authority,
    service: &str,
    metadata: &HeaderMap,
) -> Result<Vec<FileDescriptorProto>, Problem> {
    for version in VERSIONS {
        let open = || Stream::open(sender.clone(), authority, version, metadata);
        let mut stream = open().await.map_err(|refusal| Problem::Unavailable(refusal.text()))?;
        match stream.files(Wanted::Symbol(service.to_owned())).await {
            Ok(first) => return stream.imports(first).await.map_err(Problem::Unavailable),
            Err(Refusal::Code(UNIMPLEMENTED, _)) => {}
            Err(Refusal::Code(NOT_FOUND, _)) => {
                // The stream may have ended with that.
                let known = match open().await {
                    Ok(mut stream) => stream.services().await.unwrap_or_default(),
                    Err(_) => Vec::new(),
                };
                let known =
                    if known.is_empty() { String::new() } else { format!("; it has {}", foreign::list(&known)) };
                return Err(Problem::Unknown(format!("the server has no service `{}`{known}", shown(service))));
            }
            Err(refusal) => return Err(Problem::Unavailable(refusal.text())),
        }
    }
    Err(Problem::Unavailable(
        "the server has neither version of reflection (v1, v1alpha); name the file that describes the method with --proto FILE (`grpc: {proto: FILE}`)"
            .to_owned(),
    ))
}

/// A call of `ServerReflectionInfo`.
struct Stream {
    send: SendStream<Bytes>,
    head: Option<ResponseFuture>,
    receive: Option<RecvStream>,
    fields: HeaderMap,
    /// Whether the head ended the stream.
    is_complete: bool,
    frames: Frames,
    /// Those that came and were not read yet.
    messages: VecDeque<Vec<u8>>,
}

impl Stream {
    async fn open(
        sender: SendRequest<Bytes>,
        authority: &Authority,
        version: &str,
        metadata: &HeaderMap,
    ) -> Result<Self, Refusal> {
        let scheme = if authority.secure.is_some() { "https" } else { "http" };
        let mut request = Request::builder()
            .method("POST")
            .version(Version::HTTP_2)
            .uri(format!("{scheme}://{}/{version}/ServerReflectionInfo", authority.name))
            .body(())
            .map_err(|error| Refusal::Other(error.to_string()))?;
        request.headers_mut().extend(metadata.clone());
        for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")] {
            request.headers_mut().insert(name, http::HeaderValue::from_static(value));
        }
        let mut sender = sender.ready().await.map_err(broken)?;
        let (head, send) = sender.send_request(request, false).map_err(broken)?;
        let (frames, messages) = (Frames::default(), VecDeque::new());
        Ok(Stream {
            send,
            head: Some(head),
            receive: None,
            fields: HeaderMap::new(),
            is_complete: false,
            frames,
            messages,
        })
    }

    async fn request(&mut self, wanted: Wanted) -> Result<Content, Refusal> {
        let query = Query { wanted: Some(wanted) }.encode_to_vec();
        // One that is refused already says why in its head.
        let _ = http2::send(&mut self.send, framed(&query).into(), false).await;
        let message = self.message().await?;
        let response = ReflectionResponse::decode(message.as_slice())
            .map_err(|error| Refusal::Other(format!("an invalid message of reflection: {error}")))?;
        match response.content {
            Some(Content::Error(error)) => {
                Err(Refusal::Code(u16::try_from(error.code).unwrap_or(u16::MAX), error.message))
            }
            Some(content) => Ok(content),
            None => Err(Refusal::Other("a message of reflection without content".to_owned())),
        }
    }

    async fn message(&mut self) -> Result<Vec<u8>, Refusal> {
        if let Some(head) = self.head.take() {
            let (head, receive) = head.await.map_err(broken)?.into_parts();
            self.is_complete = receive.is_end_stream();
            if head.status != 200 {
                let status = format!("HTTP status {}", head.status.as_u16());
                // Something that knows no gRPC has no such path.
                return Err(match head.status.as_u16() {
                    404 | 405 | 415 | 501 => Refusal::Code(UNIMPLEMENTED, status),
                    _ => Refusal::Other(status),
                });
            }
            (self.fields, self.receive) = (head.headers, Some(receive));
        }
        let Some(receive) = &mut self.receive else { return Err(Refusal::Other("the stream ended".to_owned())) };
        loop {
            if let Some(message) = self.messages.pop_front() {
                return Ok(message);
            }
            match receive.data().await {
                Some(data) => {
                    let data = data.map_err(broken)?;
                    let _ = receive.flow_control().release_capacity(data.len());
                    let keep = |message: &[u8]| self.messages.push_back(message.to_vec());
                    self.frames.data(&data, keep).map_err(Refusal::Other)?;
                }
                None => {
                    let trailers = receive.trailers().await.map_err(broken)?;
                    let end = if self.is_complete { Some(&self.fields) } else { trailers.as_ref() };
                    return Err(Refusal::Code(code_of(end).unwrap_or(UNKNOWN), message_of(end)));
                }
            }
        }
    }

    async fn files(&mut self, wanted: Wanted) -> Result<Vec<FileDescriptorProto>, Refusal> {
        let Content::Files(list) = self.request(wanted).await? else {
            return Err(Refusal::Other("a message of reflection that was not requested".to_owned()));
        };
        let decoded = list.files.iter().map(|file| FileDescriptorProto::decode(file.as_slice()));
        decoded
            .collect::<Result<_, _>>()
            .map_err(|error| Refusal::Other(format!("the server sent an invalid file descriptor: {error}")))
    }

    async fn services(&mut self) -> Result<Vec<String>, Refusal> {
        match self.request(Wanted::Services("*".to_owned())).await? {
            Content::Services(list) => Ok(list.services.into_iter().map(|service| service.name).collect()),
            _ => Ok(Vec::new()),
        }
    }

    /// These files and all that they import. Some servers send imports with a file, others only what was requested.
    async fn imports(&mut self, first: Vec<FileDescriptorProto>) -> Result<Vec<FileDescriptorProto>, String> {
        let mut known: BTreeMap<String, FileDescriptorProto> = BTreeMap::new();
        let mut more = first;
        let mut bytes = 0;
        loop {
            for file in more.drain(..) {
                bytes += file.encoded_len();
                known.insert(file.name().to_owned(), file);
            }
            if bytes > MOST_BYTES || known.len() > MOST_FILES {
                return Err(format!(
                    "the server's descriptors have more than {MOST_BYTES} bytes or {MOST_FILES} files"
                ));
            }
            let missing = known.values().find_map(|file| {
                let import = file.dependency.iter().find(|import| !known.contains_key(*import))?;
                Some((file.name().to_owned(), import.clone()))
            });
            let Some((importer, import)) = missing else { return Ok(known.into_values().collect()) };
            more = match self.files(Wanted::File(import.clone())).await {
                Ok(files) if files.iter().any(|file| file.name() == import) => files,
                // protobuf's own files are the same everywhere, and not every server has them.
                refused => match GoogleFileResolver::new().open_file(&import) {
                    Ok(file) => vec![file.file_descriptor_proto().clone()],
                    Err(_) => {
                        let why = refused.err().map_or("it sent another file".to_owned(), Refusal::text);
                        return Err(format!(
                            "the descriptor does not resolve: `{}` imports `{}`, and the server has it not ({why})",
                            shown(&importer),
                            shown(&import)
                        ));
                    }
                },
            };
        }
    }
}

fn broken(error: h2::Error) -> Refusal {
    Refusal::Other(error.to_string())
}
