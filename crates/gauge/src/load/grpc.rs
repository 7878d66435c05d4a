//! Unary calls of gRPC: a method of a `.proto` file, messages from JSON, and what a response says.
//!
//! The wire format is that of "gRPC over HTTP2" (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md).

use std::path::Path;
use std::time::Duration;

use http::HeaderMap;
use prost_reflect::prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MessageDescriptor};
use serde_json::Value;

use super::workload::{Body, Grpc, Operation};

/// `OK` whose message says `success: false`, as it is counted among statuses: no HTTP status and no other code of gRPC.
const REFUSED: u16 = 0;
/// The code of a response that has none.
const UNKNOWN: u16 = 2;
/// Compressed or not, and the length of the message.
const PREFIX: usize = 5;

/// A unary method.
#[derive(Debug)]
pub(crate) struct Method {
    path: String,
    input: MessageDescriptor,
    output: MessageDescriptor,
}

impl Method {
    /// Reads a method from its `.proto` file; what that imports is found from its folder.
    pub(crate) fn read(call: &Grpc) -> Result<Self, String> {
        let folder = call.proto.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let set =
            protox::compile([&call.proto], [folder]).map_err(|error| format!("{}: {error}", call.proto.display()))?;
        let pool = DescriptorPool::from_file_descriptor_set(set).map_err(|error| error.to_string())?;
        let known = || {
            let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
            let names: Vec<String> = methods.map(|method| path_of(&method)).collect();
            format!("there is no method `{}` in {}; it has {}", call.method, call.proto.display(), names.join(", "))
        };
        let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
        let method = methods.into_iter().find(|method| path_of(method) == call.method).ok_or_else(known)?;
        if method.is_client_streaming() || method.is_server_streaming() {
            return Err(format!("`{}` is a stream; only unary calls are sent", call.method));
        }
        Ok(Method { path: format!("/{}", path_of(&method)), input: method.input(), output: method.output() })
    }

    /// The operation as an HTTP request without its body.
    pub(crate) fn request(&self, operation: &Operation, timeout: Duration) -> Operation {
        let mut headers = operation.headers.clone();
        let own = [("content-type", "application/grpc".to_owned()), ("te", "trailers".to_owned())];
        headers.extend(own.map(|(name, value)| (name.to_owned(), value)));
        headers.insert("grpc-timeout".to_owned(), format!("{}m", timeout.as_millis().clamp(1, 99_999_999)));
        let (method, path) = ("POST".to_owned(), self.path.clone());
        Operation { method, path, headers, body: None, ..operation.clone() }
    }

    /// The messages of an operation, each with its prefix.
    pub(crate) fn messages(&self, operation: &Operation) -> Result<Vec<Vec<u8>>, String> {
        if !operation.params.is_empty() {
            return Err("a message of gRPC takes no params; write `lines`, a message each".to_owned());
        }
        match &operation.body {
            None => Ok(vec![self.encode("{}")?]),
            Some(Body::Text(text)) => Ok(vec![self.encode(text)?]),
            Some(Body::Lines(file)) => {
                let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
                text.lines().map(|line| self.encode(line)).collect()
            }
            Some(Body::File(file)) => {
                let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
                Ok(vec![self.encode(&text)?])
            }
            Some(Body::Base64(_)) => Err("a message of gRPC is written as JSON".to_owned()),
        }
    }

    /// A message from its JSON form (protobuf.dev, "ProtoJSON"). Where the message has a string and the JSON something else, it is the text of that.
    fn encode(&self, json: &str) -> Result<Vec<u8>, String> {
        let wrong = |why: String| format!("no message of {}: {why}", self.input.full_name());
        let mut value: Value = serde_json::from_str(json).map_err(|error| wrong(error.to_string()))?;
        texts(&mut value, &self.input);
        let message =
            DynamicMessage::deserialize(self.input.clone(), value).map_err(|error| wrong(error.to_string()))?;
        let length = u32::try_from(message.encoded_len()).map_err(|_| wrong("it is too long".to_owned()))?;
        let mut frame = vec![0];
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend(message.encode_to_vec());
        Ok(frame)
    }

    /// The status that a response counts as: 200, the HTTP status that an intermediary sent, a code of gRPC (1 to 16), or [`REFUSED`]. `None`: not a
    /// valid response of gRPC.
    pub(crate) fn status(
        &self,
        status: u16,
        head: &HeaderMap,
        trailers: Option<&HeaderMap>,
        body: &[u8],
    ) -> Option<u16> {
        // A response without a message has its status in the head.
        let field = |fields: &HeaderMap| Some(fields.get("grpc-status")?.to_str().ok()?.parse::<u16>().ok());
        let code = trailers.and_then(field).or_else(|| field(head));
        match code {
            None if status != 200 => Some(status),
            None => Some(UNKNOWN),
            Some(Some(0)) => {
                let message = DynamicMessage::decode(self.output.clone(), body.get(PREFIX..)?).ok()?;
                let success = message.get_field_by_name("success");
                let refused = success.is_some_and(|success| success.as_bool() == Some(false));
                Some(if refused { REFUSED } else { 200 })
            }
            Some(Some(code @ 1..=16)) => Some(code),
            Some(_) => Some(UNKNOWN),
        }
    }
}

fn path_of(method: &prost_reflect::MethodDescriptor) -> String {
    format!("{}/{}", method.parent_service().full_name(), method.name())
}

/// Makes texts of what is none where a message has strings.
fn texts(value: &mut Value, message: &MessageDescriptor) {
    let Value::Object(members) = value else { return };
    for (name, value) in members.iter_mut() {
        let Some(field) = message.get_field_by_json_name(name).or_else(|| message.get_field_by_name(name)) else {
            continue;
        };
        match (field.kind(), value) {
            (Kind::Message(entry), Value::Object(map)) if field.is_map() => {
                let kind = entry.map_entry_value_field().kind();
                map.values_mut().for_each(|value| one(value, &kind));
            }
            (kind, Value::Array(list)) if field.is_list() => list.iter_mut().for_each(|value| one(value, &kind)),
            (kind, value) => one(value, &kind),
        }
    }
}

fn one(value: &mut Value, kind: &Kind) {
    match (kind, &value) {
        (Kind::Message(message), _) => texts(value, message),
        (Kind::String, Value::String(_) | Value::Null) => {}
        (Kind::String, other) => *value = Value::String(other.to_string()),
        _ => {}
    }
}
