//! The methods of the demonstration that have streams, and its reflection.

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{Request, Response};
use prost::Message;
use protox::file::{File, FileResolver};

use super::super::Served;
use super::{GrpcResponse, fields, frame, integer, item, number};
use crate::load::engine::http2::send;
use crate::load::grpc::Frames;
use crate::load::grpc::reflection::{self, Content, Error, Files, Query, Service, Services, Wanted};

/// The description, and its name.
const PROTO: (&str, &str) = ("grpc.proto", include_str!("../../../../../examples/evaluations/grpc.proto"));
const SERVICE: &str = "gauge.demo.Items";
/// Most items of a list.
const MOST_ITEMS: u64 = 100_000;

/// INTERNAL, and NOT_FOUND.
const INTERNAL: &str = "13";
const NOT_FOUND: i32 = 5;

pub(super) fn is_stream(path: &str) -> bool {
    matches!(path, "/gauge.demo.Items/List" | "/gauge.demo.Items/AddAll" | "/gauge.demo.Items/Talk")
        || is_reflection(path)
}

fn is_reflection(path: &str) -> bool {
    path.starts_with("/grpc.reflection.v1") && path.ends_with(".ServerReflection/ServerReflectionInfo")
}

/// A call whose messages get their responses as they come.
pub(super) async fn respond(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    served: &Served,
) -> Result<(), h2::Error> {
    let (head, mut incoming) = request.into_parts();
    let path = head.uri.path();
    let mut response = Response::new(());
    *response.headers_mut() = fields([("content-type", "application/grpc")].into_iter());
    let mut out = respond.send_response(response, false)?;
    let (mut frames, mut received, mut bytes) = (Frames::default(), 0, 0);
    let mut ending = GrpcResponse { status: "0".to_owned(), ..GrpcResponse::default() };
    while let Some(data) = incoming.data().await {
        let data = data?;
        let _ = incoming.flow_control().release_capacity(data.len());
        received += data.len() as u64;
        let mut responses: Vec<u8> = Vec::new();
        let mut wanted = 0;
        let taken = frames.data(&data, |message| match path {
            "/gauge.demo.Items/Talk" => responses.extend(frame(message)),
            "/gauge.demo.Items/AddAll" => bytes += message.len() as u64,
            "/gauge.demo.Items/List" => wanted = number(message).min(MOST_ITEMS),
            _ => responses.extend(frame(&described(message))),
        });
        if let Err(problem) = taken {
            ending = GrpcResponse { detail: Some(problem), ..GrpcResponse::status(INTERNAL) };
            break;
        }
        send(&mut out, responses.into(), false).await?;
        for id in 1..=wanted {
            send(&mut out, frame(&item(id)).into(), false).await?;
        }
    }
    // Reflection is no part of a load.
    if !is_reflection(path) {
        served.count(received);
    }
    if path == "/gauge.demo.Items/AddAll" && ending.status == "0" {
        send(&mut out, frame(&integer(1, bytes)).into(), false).await?;
    }
    out.send_trailers(ending.ending())
}

/// The response to a request of reflection.
fn described(message: &[u8]) -> Vec<u8> {
    let query = Query::decode(message).unwrap_or_default();
    let content = match query.wanted {
        Some(Wanted::Services(_)) => {
            Content::Services(Services { services: vec![Service { name: SERVICE.to_owned() }] })
        }
        Some(Wanted::File(name)) if name == PROTO.0 => Content::Files(Files { files: vec![descriptor()] }),
        Some(Wanted::Symbol(name)) if name.starts_with("gauge.demo.") => {
            Content::Files(Files { files: vec![descriptor()] })
        }
        _ => Content::Error(Error { code: NOT_FOUND, message: "there is no such file or name".to_owned() }),
    };
    reflection::ReflectionResponse { content: Some(content) }.encode_to_vec()
}

/// The compiled description.
fn descriptor() -> Vec<u8> {
    struct Embedded;

    impl FileResolver for Embedded {
        fn open_file(&self, name: &str) -> Result<File, protox::Error> {
            if name == PROTO.0 { File::from_source(PROTO.0, PROTO.1) } else { Err(protox::Error::file_not_found(name)) }
        }
    }

    let mut compiler = protox::Compiler::with_file_resolver(Embedded);
    // A test compiles it; without it there is an empty description.
    match compiler.open_file(PROTO.0) {
        Ok(compiler) => compiler.file_descriptor_set().file.first().map(Message::encode_to_vec).unwrap_or_default(),
        Err(_) => Vec::new(),
    }
}
