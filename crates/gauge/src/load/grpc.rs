//! Calls of gRPC: a method of a `.proto` file or of the server's reflection, messages from JSON, and what a response says.
//!
//! The wire format is that of "gRPC over HTTP2" (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md).

mod describe;
mod frames;
pub(crate) mod reflection;

use std::path::Path;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use prost_reflect::prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MessageDescriptor, SerializeOptions};
use serde_json::Value;

use super::workload::{Body, Grpc, Operation};
use crate::foreign::{self, shown};
pub(crate) use frames::Frames;

/// `OK` whose message says `success: false`, as it is counted among statuses: no HTTP status and no other code of gRPC.
const REFUSED: u16 = 0;
/// `OK` as it is counted.
pub(crate) const OK: u16 = 200;
/// The code of a response that has none.
const UNKNOWN: u16 = 2;
/// Compressed or not, and the length of the message.
const PREFIX: usize = 5;
/// Most messages that a call sends: they are in memory when it begins.
const MOST_MESSAGES: u32 = 1_000_000;

/// The names of the codes (github.com/grpc/grpc, doc/statuscodes.md).
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// A method, and how it is called.
#[derive(Debug)]
pub(crate) struct Method {
    path: String,
    input: MessageDescriptor,
    output: MessageDescriptor,
    pub(crate) takes_stream: bool,
    pub(crate) returns_stream: bool,
    /// Messages that a call sends.
    pub(crate) messages: u32,
    /// Fewer messages of the server are an error.
    pub(crate) responses: u32,
}

impl Method {
    /// Finds a method among descriptors. `place` is where they are from, in words.
    pub(crate) fn find(pool: &DescriptorPool, call: &Grpc, place: &str) -> Result<Self, String> {
        let name = &call.method;
        let methods = || pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
        let Some(method) = methods().find(|method| path_of(method) == *name) else {
            let service = service_of(name);
            // Of a server with many services only those of the service are of interest.
            let mut names: Vec<String> = methods().map(|method| path_of(&method)).collect();
            if names.iter().any(|name| service_of(name) == service) {
                names.retain(|name| service_of(name) == service);
            }
            return Err(format!("there is no method `{}` in {place}; it has {}", shown(name), foreign::list(&names)));
        };
        let (takes_stream, returns_stream) = (method.is_client_streaming(), method.is_server_streaming());
        match (call.messages, call.responses) {
            (Some(_), _) if !takes_stream => {
                return Err(format!("`messages` is for methods that take a stream, and `{name}` takes one message"));
            }
            (Some(messages), _) if messages == 0 || messages > MOST_MESSAGES => {
                return Err(format!("`messages` is {messages}; a call sends between 1 and {MOST_MESSAGES}"));
            }
            (_, Some(_)) if !returns_stream => {
                return Err(format!(
                    "`responses` is for methods that return a stream, and `{name}` returns one message"
                ));
            }
            _ => {}
        }
        let messages = call.messages.unwrap_or(1);
        Ok(Method {
            path: format!("/{}", path_of(&method)),
            input: method.input(),
            output: method.output(),
            takes_stream,
            returns_stream,
            messages,
            // Each message of a call in both directions waits for one of the server.
            responses: call.responses.unwrap_or(0).max(if takes_stream && returns_stream { messages } else { 0 }),
        })
    }

    /// Whether a call has more than one message in a direction.
    pub(crate) fn is_stream(&self) -> bool {
        self.takes_stream || self.returns_stream
    }

    /// The operation as an HTTP request without its body.
    pub(crate) fn request(&self, operation: &Operation, timeout: Duration) -> Operation {
        let own = [
            ("content-type", "application/grpc".to_owned()),
            ("te", "trailers".to_owned()),
            ("grpc-timeout", format!("{}m", timeout.as_millis().clamp(1, 99_999_999))),
        ];
        let mut headers = operation.headers.clone();
        headers.retain(|name, _| !own.iter().any(|(own, _)| name.eq_ignore_ascii_case(own)));
        headers.extend(own.map(|(name, value)| (name.to_owned(), value)));
        let (method, path) = ("POST".to_owned(), self.path.clone());
        Operation { method, path, headers, body: None, ..operation.clone() }
    }

    /// The messages of an operation, each with its prefix.
    pub(crate) fn messages(&self, operation: &Operation) -> Result<Vec<Vec<u8>>, String> {
        texts_of(operation)?.iter().map(|text| self.encode(text)).collect()
    }

    /// The same in their normalized JSON form.
    pub(crate) fn normalized_messages(&self, operation: &Operation) -> Result<Vec<String>, String> {
        texts_of(operation)?.iter().map(|text| self.normalized(text)).collect()
    }

    /// A message from its JSON form (protobuf.dev, "ProtoJSON"). Where the message has a string and the JSON something else, it is the text of that.
    pub(crate) fn encode(&self, json: &str) -> Result<Vec<u8>, String> {
        let message = self.message(json)?;
        if u32::try_from(message.encoded_len()).is_err() {
            return Err(self.no_message("it is too long"));
        }
        Ok(framed(&message.encode_to_vec()))
    }

    /// The same message in the JSON form that every reader of ProtoJSON takes: strings are strings, integers of 64 bits too.
    pub(crate) fn normalized(&self, json: &str) -> Result<String, String> {
        let value = self.message(json)?.serialize_with_options(serde_json::value::Serializer, &SerializeOptions::new());
        value.map(|value| value.to_string()).map_err(|error| self.no_message(&error.to_string()))
    }

    fn message(&self, json: &str) -> Result<DynamicMessage, String> {
        let wrong = |why: String| self.no_message(&why);
        let mut value: Value = serde_json::from_str(json).map_err(|error| wrong(error.to_string()))?;
        texts(&mut value, &self.input);
        DynamicMessage::deserialize(self.input.clone(), value).map_err(|error| wrong(error.to_string()))
    }

    fn no_message(&self, why: &str) -> String {
        format!("no message of {}: {why}", self.input.full_name())
    }

    /// The last message of a body in its JSON form, with the fields that have their default.
    pub(crate) fn json(&self, body: &[u8]) -> Option<Value> {
        let mut last = None;
        let mut frames = Frames::default();
        frames.data(body, |message| last = Some(message.to_vec())).ok()?;
        let message = DynamicMessage::decode(self.output.clone(), last?.as_slice()).ok()?;
        let options = SerializeOptions::new().skip_default_fields(false);
        message.serialize_with_options(serde_json::value::Serializer, &options).ok()
    }

    /// Whether bytes are a message that the method returns.
    pub(crate) fn returns(&self, message: &[u8]) -> bool {
        DynamicMessage::decode(self.output.clone(), message).is_ok()
    }

    /// The status that the response to a call without a stream of the server counts as: 200, the HTTP status that an intermediary sent, a code of gRPC (1
    /// to 16), or [`REFUSED`]. `None`: not a valid response of gRPC. `end` are the trailers, or the head where that ended the stream.
    pub(crate) fn status(&self, status: u16, head: &HeaderMap, end: Option<&HeaderMap>, body: &[u8]) -> Option<u16> {
        let status = Self::stream_status(status, head, end);
        if status != OK {
            return Some(status);
        }
        let (prefix, message) = body.split_first_chunk::<PREFIX>()?;
        if prefix[0] != 0 || message.len() != length(prefix) {
            return None;
        }
        let message = DynamicMessage::decode(self.output.clone(), message).ok()?;
        let success = message.get_field_by_name("success");
        let refused = success.is_some_and(|success| success.as_bool() == Some(false));
        Some(if refused { REFUSED } else { OK })
    }

    /// The same without regard to messages.
    pub(crate) fn stream_status(status: u16, head: &HeaderMap, end: Option<&HeaderMap>) -> u16 {
        match code_of(end) {
            Some(code @ 1..=16) => code,
            // An intermediary's, whatever the fields say.
            None | Some(0) if status != 200 => status,
            Some(0) if is_grpc(head) => OK,
            _ => UNKNOWN,
        }
    }

    /// Why a call has such a status, in words.
    pub(crate) fn why(&self, status: u16, head: &HeaderMap, end: Option<&HeaderMap>) -> String {
        let method = self.path.trim_start_matches('/');
        let said = shown(&message_of(end));
        let said = if said.is_empty() { said } else { format!(": {said}") };
        match CODES.get(usize::from(status)) {
            Some(_) if status == REFUSED => format!("{method}: OK, and the message says success: false"),
            Some(_) if code_of(end).is_none() && is_grpc(head) => {
                format!("{method}: the response ended without a status")
            }
            Some(_) if code_of(end).is_none_or(|code| code == 0) => {
                let kind = head.get(CONTENT_TYPE).map(|kind| String::from_utf8_lossy(kind.as_bytes()));
                let kind = kind.map_or("no content-type".to_owned(), |kind| format!("content-type {}", shown(&kind)));
                format!("{method}: {kind} instead of application/grpc")
            }
            Some(name) => format!("{method}: {name}{said}"),
            None => format!("{method}: HTTP status {status}"),
        }
    }
}

/// The bodies of an operation, each of which is a message in JSON.
fn texts_of(operation: &Operation) -> Result<Vec<String>, String> {
    let read = |file: &Path| std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()));
    match &operation.body {
        None => Ok(vec!["{}".to_owned()]),
        Some(Body::Text(text)) => Ok(vec![text.clone()]),
        Some(Body::Lines(file)) => {
            let lines: Vec<String> = read(file)?.lines().map(str::to_owned).collect();
            if lines.is_empty() { Err(format!("{} has no line", file.display())) } else { Ok(lines) }
        }
        Some(Body::File(file)) => Ok(vec![read(file)?]),
        Some(Body::Base64(_)) => Err("a message of gRPC is written as JSON".to_owned()),
    }
}

/// Descriptors from a `.proto` file; what that imports is found from its folder.
pub(crate) fn compile(proto: &Path) -> Result<DescriptorPool, String> {
    let folder = proto.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let set = protox::compile([proto], [folder]).map_err(|error| format!("{}: {error}", proto.display()))?;
    DescriptorPool::from_file_descriptor_set(set).map_err(|error| error.to_string())
}

/// The service of `package.Service/Method`.
pub(crate) fn service_of(method: &str) -> &str {
    method.rsplit_once('/').map_or(method, |(service, _)| service)
}

/// A message with its prefix: not compressed, and its length.
fn framed(message: &[u8]) -> Vec<u8> {
    let mut framed = Vec::with_capacity(PREFIX + message.len());
    framed.push(0);
    framed.extend_from_slice(&(message.len() as u32).to_be_bytes());
    framed.extend_from_slice(message);
    framed
}

/// The length of the message behind a prefix.
fn length(prefix: &[u8; PREFIX]) -> usize {
    u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize
}

/// Whether a response is one of gRPC: other content types are those of web pages, or of gRPC-Web.
fn is_grpc(head: &HeaderMap) -> bool {
    let kind = head.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    kind.strip_prefix(b"application/grpc").is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
}

/// The code in the last fields of a response: `None` without one, [`UNKNOWN`] where it is not one decimal number without leading zeros.
fn code_of(end: Option<&HeaderMap>) -> Option<u16> {
    let mut fields = end?.get_all("grpc-status").iter();
    let first = fields.next()?;
    let digits = first.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.filter(|text| *text == "0" || !text.starts_with('0')).and_then(|text| text.parse().ok());
    Some(number.filter(|_| fields.all(|other| other == first)).unwrap_or(UNKNOWN))
}

/// The message of the status, as it was sent (percent-encoded).
fn message_of(end: Option<&HeaderMap>) -> String {
    end.and_then(|fields| Some(fields.get("grpc-message")?.to_str().ok()?.to_owned())).unwrap_or_default()
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

#[cfg(test)]
mod tests;
