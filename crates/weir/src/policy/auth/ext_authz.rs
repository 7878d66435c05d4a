//! Envoy's `ext_authz` over gRPC: what `envoy.service.auth.v3.Authorization/Check` is called with, and what its response means. The messages
//! have the fields that are used here, under the numbers of Envoy's published protocol files.

use std::collections::HashMap;

use h1::{Known, encode};
use message::validate;
use prost::Message;

use super::authorizer::{Denied, Passed, Subject, Verdict, uri_of};
use super::changes::{Action, Changes, ResponseField};
use crate::config::Authorizer;

#[derive(Clone, PartialEq, Message)]
struct CheckRequest {
    #[prost(message, optional, tag = "1")]
    attributes: Option<AttributeContext>,
}

#[derive(Clone, PartialEq, Message)]
struct AttributeContext {
    #[prost(message, optional, tag = "1")]
    source: Option<Peer>,
    #[prost(message, optional, tag = "4")]
    request: Option<Request>,
}

#[derive(Clone, PartialEq, Message)]
struct Peer {
    #[prost(message, optional, tag = "1")]
    address: Option<Address>,
}

#[derive(Clone, PartialEq, Message)]
struct Address {
    #[prost(message, optional, tag = "1")]
    socket_address: Option<SocketAddress>,
}

#[derive(Clone, PartialEq, Message)]
struct SocketAddress {
    #[prost(string, tag = "2")]
    address: String,
    /// One of a `oneof`, which is written even if it is 0: behind proxies the client's port is not known.
    #[prost(uint32, optional, tag = "3")]
    port_value: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, optional, tag = "2")]
    http: Option<HttpRequest>,
}

#[derive(Clone, PartialEq, Message)]
struct HttpRequest {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    method: String,
    #[prost(map = "string, string", tag = "3")]
    headers: HashMap<String, String>,
    #[prost(string, tag = "4")]
    path: String,
    #[prost(string, tag = "5")]
    host: String,
    #[prost(string, tag = "6")]
    scheme: String,
    #[prost(int64, tag = "9")]
    size: i64,
    #[prost(string, tag = "10")]
    protocol: String,
}

#[derive(Clone, PartialEq, Message)]
struct CheckResponse {
    #[prost(message, optional, tag = "1")]
    status: Option<Status>,
    #[prost(message, optional, tag = "2")]
    denied_response: Option<DeniedHttpResponse>,
    #[prost(message, optional, tag = "3")]
    ok_response: Option<OkHttpResponse>,
    /// The service failed; the gateway itself responds. `dynamic_metadata` (4) is not read.
    #[prost(message, optional, tag = "5")]
    error_response: Option<DeniedHttpResponse>,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
struct DeniedHttpResponse {
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
struct OkHttpResponse {
    #[prost(message, repeated, tag = "2")]
    headers: Vec<HeaderValueOption>,
    #[prost(string, repeated, tag = "5")]
    headers_to_remove: Vec<String>,
    #[prost(message, repeated, tag = "6")]
    response_headers_to_add: Vec<HeaderValueOption>,
    #[prost(message, repeated, tag = "7")]
    query_parameters_to_set: Vec<QueryParameter>,
    #[prost(string, repeated, tag = "8")]
    query_parameters_to_remove: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct HeaderValueOption {
    #[prost(message, optional, tag = "1")]
    header: Option<HeaderValue>,
    #[prost(message, optional, tag = "2")]
    append: Option<BoolValue>,
    #[prost(int32, tag = "3")]
    append_action: i32,
}

#[derive(Clone, PartialEq, Message)]
struct HeaderValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
    #[prost(bytes = "vec", tag = "3")]
    raw_value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct BoolValue {
    #[prost(bool, tag = "1")]
    value: bool,
}

#[derive(Clone, PartialEq, Message)]
struct QueryParameter {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

const ADD_IF_ABSENT: i32 = 1;
const OVERWRITE_IF_EXISTS_OR_ADD: i32 = 2;
const OVERWRITE_IF_EXISTS: i32 = 3;

/// Bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// The body of a call about a request.
pub(super) fn call(authorizer: &Authorizer, subject: &Subject<'_>) -> Vec<u8> {
    let Subject { head, buf, .. } = *subject;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut headers = HashMap::new();
    for field in head.fields.iter() {
        let name = text(field.name.of_buf(buf)).to_ascii_lowercase();
        if authorizer.send.iter().any(|sent| **sent == *name) {
            let value = text(field.value.of_buf(buf));
            // RFC 9110, section 5.3; cookies have a separator of their own (RFC 9113, section 8.2.3).
            let between = if name == "cookie" { "; " } else { "," };
            headers.entry(name).and_modify(|all: &mut String| *all = format!("{all}{between}{value}")).or_insert(value);
        }
    }
    let http = HttpRequest {
        id: text(subject.request_id),
        method: text(head.method_name.of_buf(buf)),
        headers,
        path: text(&uri_of(subject)),
        host: head.authority.map_or_else(String::new, |authority| text(authority.of_buf(buf))),
        scheme: subject.scheme.to_owned(),
        size: match head.body {
            h1::BodyKind::None => 0,
            h1::BodyKind::Length(length) => i64::try_from(length).unwrap_or(-1),
            h1::BodyKind::Chunked | h1::BodyKind::UntilClose => -1,
        },
        protocol: subject.protocol.to_owned(),
    };
    let socket_address = SocketAddress { address: subject.client.to_string(), port_value: Some(0) };
    let request = CheckRequest {
        attributes: Some(AttributeContext {
            source: Some(Peer { address: Some(Address { socket_address: Some(socket_address) }) }),
            request: Some(Request { http: Some(http) }),
        }),
    };
    let length = u32::try_from(request.encoded_len()).unwrap_or(u32::MAX);
    let mut body = Vec::with_capacity(PREFIX + length as usize);
    body.push(0);
    body.extend_from_slice(&length.to_be_bytes());
    body.extend_from_slice(&request.encode_to_vec());
    body
}

/// A response of the service, as HTTP carries it.
pub struct Called<'a> {
    /// Its HTTP status.
    pub status: u16,
    /// `grpc-status`, of its head or its trailers.
    pub grpc_status: Option<&'a [u8]>,
    /// Its body; none if it was too large.
    pub body: Option<&'a [u8]>,
}

impl Called<'_> {
    /// What it means.
    pub fn verdict(&self, authorizer: &Authorizer) -> Verdict {
        match (self.status, self.grpc_status) {
            (200, Some(b"0")) => {}
            (200, Some(_)) => return Verdict::None("the authorizer failed the call"),
            _ => return Verdict::None("the authorizer's response is not gRPC"),
        }
        // It may say no, so it lets nothing pass, whatever `on_failure` says.
        let Some(body) = self.body else { return Verdict::Unsupported("the authorizer's response is too large") };
        let response = message(body).and_then(|message| CheckResponse::decode(message).ok());
        let Some(CheckResponse { status, denied_response, ok_response, error_response }) = response else {
            return Verdict::None("the authorizer's message cannot be read");
        };
        // Of a `oneof`: without this, a status of 0 beside it would let the request pass.
        if error_response.is_some() && denied_response.is_none() {
            return Verdict::None("the authorizer says that it failed");
        }
        match (status.map(|status| status.code), denied_response, ok_response) {
            (Some(0), None, ok) => passed(authorizer, &ok.unwrap_or_default()),
            (None, None, Some(ok)) => passed(authorizer, &ok),
            (None, None, None) => Verdict::None("the authorizer's message says neither yes nor no"),
            // What says both means no.
            (_, denied, _) => denial(denied.unwrap_or_default()),
        }
    }
}

/// The one message of a body.
fn message(body: &[u8]) -> Option<&[u8]> {
    let (prefix, message) = body.split_at_checked(PREFIX)?;
    let length = u32::from_be_bytes(prefix[1..].try_into().ok()?);
    (prefix[0] == 0 && usize::try_from(length) == Ok(message.len())).then_some(message)
}

fn passed(authorizer: &Authorizer, ok: &OkHttpResponse) -> Verdict {
    let Some(fields) = fields(&ok.headers) else { return Verdict::None(BAD_FIELD) };
    let Some(response) = ok.response_headers_to_add.iter().map(response_field).collect() else {
        // All that the service wants is done, or the request does not pass.
        return Verdict::Unsupported("the authorizer wants to write a response field that HTTP does not allow");
    };
    let set = |parameter: &QueryParameter| (parameter.key.clone(), parameter.value.clone());
    let changes = Changes {
        removes: ok.headers_to_remove.clone(),
        sets_query: ok.query_parameters_to_set.iter().map(set).collect(),
        removes_query: ok.query_parameters_to_remove.clone(),
        response,
    };
    let values = |name: &str| values(&fields, name).collect();
    Verdict::Allowed(Passed::new(authorizer, changes, &values))
}

/// A field of the response. Here the default is to append, other than in requests.
fn response_field(option: &HeaderValueOption) -> Option<ResponseField> {
    let header = option.header.as_ref()?;
    let action = match (&option.append, option.append_action) {
        (Some(BoolValue { value: true }), _) => Action::Append,
        (Some(BoolValue { value: false }), _) | (None, OVERWRITE_IF_EXISTS_OR_ADD) => Action::Set,
        (None, ADD_IF_ABSENT) => Action::AddIfAbsent,
        (None, OVERWRITE_IF_EXISTS) => Action::OverwriteIfPresent,
        (None, _) => Action::Append,
    };
    ResponseField::new(&header.key, &value_of(header), action)
}

fn value_of(header: &HeaderValue) -> Vec<u8> {
    if header.value.is_empty() { header.raw_value.clone() } else { header.value.clone().into_bytes() }
}

const BAD_FIELD: &str = "the authorizer's message has a field that HTTP does not allow";

fn denial(denied: DeniedHttpResponse) -> Verdict {
    // A no stays one if it cannot be sent as it is: clients may have a part in the text of its fields.
    let Some(fields) = fields(&denied.headers) else { return bare_denial(denied.status) };
    let mut lines = Vec::new();
    for (name, value) in &fields {
        let known = Known::of(name.as_bytes());
        let is_own = matches!(known, Known::ContentLength | Known::ContentType | Known::Date);
        if !known.is_hop_by_hop() && !is_own {
            encode::field(&mut lines, name.as_bytes(), value);
        }
    }
    let content_type = values(&fields, "content-type").next().and_then(|value| std::str::from_utf8(value).ok());
    let status = status_of(denied.status, 300);
    Verdict::Denied(Denied {
        status,
        content_type: content_type.unwrap_or("text/plain; charset=utf-8").to_owned(),
        lines,
        body: if status == 304 { Vec::new() } else { denied.body.into_bytes() },
    })
}

/// A denial of which only the status is sent; a redirect without its field would lead nowhere.
fn bare_denial(status: Option<HttpStatus>) -> Verdict {
    Verdict::Denied(Denied {
        status: status_of(status, 400),
        content_type: "text/plain; charset=utf-8".to_owned(),
        lines: Vec::new(),
        body: Vec::new(),
    })
}

/// The status of a denial, from `least` on: one that looks like a response to the request is none.
fn status_of(status: Option<HttpStatus>, least: u16) -> u16 {
    let code = status.and_then(|status| u16::try_from(status.code).ok());
    code.filter(|code| (least..600).contains(code)).unwrap_or(403)
}

fn values<'f>(fields: &'f [(String, Vec<u8>)], name: &str) -> impl Iterator<Item = &'f [u8]> {
    fields.iter().filter(move |(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_slice())
}

/// The fields that remain when each has been appended to those before it, or put in their place. None if one cannot be part of a head.
fn fields(options: &[HeaderValueOption]) -> Option<Vec<(String, Vec<u8>)>> {
    let mut fields: Vec<(String, Vec<u8>)> = Vec::new();
    for option in options {
        let Some(header) = &option.header else { continue };
        let value = value_of(header);
        let is_token = validate::is_token(header.key.as_bytes());
        if !is_token || !value.iter().all(|byte| validate::is_text_byte(*byte)) {
            return None;
        }
        let is_there = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(&header.key));
        let appends = option.append.as_ref().is_some_and(|append| append.value);
        let (counts, replaces) = match option.append_action {
            ADD_IF_ABSENT => (!is_there, false),
            OVERWRITE_IF_EXISTS_OR_ADD => (true, true),
            OVERWRITE_IF_EXISTS => (is_there, true),
            // In this service the default is not to append.
            _ => (true, !appends),
        };
        if replaces {
            fields.retain(|(name, _)| !name.eq_ignore_ascii_case(&header.key));
        }
        if counts {
            fields.push((header.key.clone(), value));
        }
    }
    Some(fields)
}
