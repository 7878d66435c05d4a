//! Tests of the codec from outside: raw bytes in; messages, or the rule that was broken, out. One file a subject.
//!
//! Every input is fed whole, byte by byte, cut in two at every place and in random pieces, always with the same result; and it is read a
//! second time by a parser that shares no code with the codec.

mod support;

mod attacks;
mod chunked;
mod connection;
mod corpus;
mod encode;
mod fields;
mod framing;
mod host;
mod limits;
mod properties;
mod request_line;
mod response;
mod stream;

use h1::{Method, ParseError};
use support::checks;
use support::feed::{End, Message, Outcome, Role, outcome_of_all_cuts};

fn requests(raw: impl AsRef<[u8]>) -> Outcome {
    checks::requests(raw.as_ref());
    outcome_of_all_cuts(&Role::Requests, raw.as_ref())
}

/// The one request that `raw` is.
#[track_caller]
fn request(raw: impl AsRef<[u8]>) -> Message {
    one(requests(&raw), raw.as_ref())
}

/// `raw` must be refused for this, and no whole request be found in it.
#[track_caller]
fn refuse_request(raw: impl AsRef<[u8]>, error: ParseError) {
    refused(requests(&raw), raw.as_ref(), error);
}

fn responses_to(method: Method, raw: impl AsRef<[u8]>) -> Outcome {
    let selector = if method == Method::Head { 1 } else { 0 };
    checks::responses(&[&[selector], raw.as_ref()].concat());
    outcome_of_all_cuts(&Role::Responses(vec![method]), raw.as_ref())
}

/// The one response to a GET that `raw` is.
#[track_caller]
fn response(raw: impl AsRef<[u8]>) -> Message {
    response_to(Method::Get, raw)
}

/// The one response that `raw` is.
#[track_caller]
fn response_to(method: Method, raw: impl AsRef<[u8]>) -> Message {
    one(responses_to(method, &raw), raw.as_ref())
}

/// `raw` must be refused for this, and no whole response be found in it.
#[track_caller]
fn refuse_response(raw: impl AsRef<[u8]>, error: ParseError) {
    refused(responses_to(Method::Get, &raw), raw.as_ref(), error);
}

#[track_caller]
fn one(outcome: Outcome, raw: &[u8]) -> Message {
    assert_eq!(outcome.end, End::Clean, "{}", raw.escape_ascii());
    let [message] = &outcome.messages[..] else { panic!("not one message: {}", raw.escape_ascii()) };
    assert!(message.is_complete);
    message.clone()
}

#[track_caller]
fn refused(outcome: Outcome, raw: &[u8], error: ParseError) {
    assert_eq!(outcome.end, End::Refused(error), "{}", raw.escape_ascii());
    assert!(outcome.messages.iter().all(|message| !message.is_complete), "{}", raw.escape_ascii());
    assert!((400..=505).contains(&error.status()));
}

/// A request with this field, or these lines.
fn with_line(line: impl AsRef<[u8]>) -> Vec<u8> {
    [b"GET / HTTP/1.1\r\nHost: a\r\n", line.as_ref(), b"\r\n\r\n"].concat()
}

/// A response with this field, or these lines.
fn response_with_line(line: impl AsRef<[u8]>) -> Vec<u8> {
    [b"HTTP/1.1 200 OK\r\n", line.as_ref(), b"\r\n\r\n"].concat()
}
