//! What must be true of every schedule, read from the bytes of both sides by the grammar.

use crate::oracle::{self, Message, Reading};
use crate::rig::Seen;
use crate::schedule::{FaultPoint, Messages, Schedule};

/// What came of a schedule.
pub(crate) struct Verdict {
    /// Whole responses.
    pub(crate) responses: usize,
    /// The first request got an error of the gateway.
    pub(crate) refused_first: bool,
}

/// Errors that the gateway may respond to a sound request with: its upstream failed, or a side took too long.
const ERRORS: [&[u8]; 4] = [b"408", b"502", b"503", b"504"];

/// # Errors
/// The invariant that is broken.
pub(crate) fn judge(schedule: &Schedule, messages: &Messages, seen: &Seen) -> Result<Verdict, String> {
    if seen.hangs {
        return Err("the connection hangs".into());
    }
    judge_upstreams(messages, seen)?;
    judge_client(schedule, seen)
}

/// Each request that arrives is one that the client sent, once, whole, and in order; what is not whole is the beginning of one.
fn judge_upstreams(messages: &Messages, seen: &Seen) -> Result<(), String> {
    let mut arrived = Vec::new();
    for connection in &seen.connections {
        let mut rest = &connection.received[..];
        while !rest.is_empty() {
            match oracle::request(rest) {
                Reading::Message(late) if is_late(messages, rest) => rest = &rest[late.length..],
                Reading::Incomplete if is_late(messages, rest) => break,
                Reading::Message(request) => {
                    let sent = messages
                        .sent
                        .iter()
                        .position(|(target, body)| target.as_bytes() == request.start[1] && *body == request.body);
                    let framings = request.values("content-length").len() + request.values("transfer-encoding").len();
                    let Some(number) = sent.filter(|_| framings <= 1) else {
                        return Err(format!("an upstream was sent what the client did not send: {request:?}"));
                    };
                    arrived.push(number);
                    rest = &rest[request.length..];
                }
                Reading::Incomplete => {
                    let line = &rest[..rest.iter().position(|&byte| byte == b'\r').unwrap_or(rest.len())];
                    let is_one = ["POST", "PUT", "GET"].iter().zip(&messages.sent).any(|(method, (target, _))| {
                        let whole = format!("{method} {target} HTTP/1.1");
                        if line.len() < rest.len() {
                            whole.as_bytes() == line
                        } else {
                            whole.as_bytes().starts_with(line)
                        }
                    });
                    if !is_one {
                        return Err(format!("an upstream was sent the beginning of nothing: {}", rest.escape_ascii()));
                    }
                    break;
                }
                Reading::Invalid(rule) => return Err(format!("an upstream was sent what breaks {rule}")),
            }
        }
    }
    let is_in_order = arrived.windows(2).all(|pair| pair[0] < pair[1]);
    if is_in_order { Ok(()) } else { Err(format!("requests were repeated or changed places: {arrived:?}")) }
}

/// Whether it is a request of an earlier schedule in this system: its client disconnected, and the gateway reached the upstream after that.
fn is_late(messages: &Messages, received: &[u8]) -> bool {
    let line = String::from_utf8_lossy(&received[..received.len().min(64)]).into_owned();
    messages.sent.iter().any(|(own, _)| {
        let (path, number) = own.split_at(own.len() - 5);
        let behind_path = line.split_once(' ').and_then(|(_, target)| target.strip_prefix(path));
        behind_path.and_then(|rest| rest.get(..5)).is_some_and(|other| other < number)
    })
}

/// Each request has one response, whole and its own, or an error, or the connection is over.
fn judge_client(schedule: &Schedule, seen: &Seen) -> Result<Verdict, String> {
    let mut rest = &seen.responses[..];
    let mut responses = Vec::new();
    while responses.len() < 3 {
        match oracle::response(rest, b"POST", false) {
            Reading::Message(response) => {
                rest = &rest[response.length..];
                let is_last = response.values("connection") == [b"close"];
                responses.push(response);
                if is_last {
                    break;
                }
            }
            Reading::Incomplete => break,
            Reading::Invalid(rule) => return Err(format!("the client was sent what breaks {rule}")),
        }
    }
    match oracle::response(rest, b"POST", false) {
        Reading::Incomplete => {}
        _ => return Err(format!("behind the last response came {}", rest.escape_ascii())),
    }
    for (number, response) in responses.iter().enumerate() {
        judge_response(schedule, seen, number, response)?;
    }
    let refused_first = responses.first().is_some_and(is_error);
    Ok(Verdict { responses: responses.len(), refused_first })
}

fn is_error(response: &Message) -> bool {
    response.values("content-type") == [b"application/problem+json"]
}

fn judge_response(schedule: &Schedule, seen: &Seen, number: usize, response: &Message) -> Result<(), String> {
    let status = &response.start[1][..];
    if is_error(response) {
        let is_due = match (schedule.place, number) {
            (FaultPoint::TooLarge, 0) if status == b"413" => true,
            (FaultPoint::BadPath, 0) if status == b"400" => true,
            _ => ERRORS.contains(&status),
        };
        let what = String::from_utf8_lossy(&response.body);
        return if is_due { Ok(()) } else { Err(format!("request {number} is sound and was refused: {what}")) };
    }
    let expected: Option<Vec<u8>> =
        match (number, schedule.place) {
            (0, FaultPoint::Here) => Some(b"here".to_vec()),
            (0, _) => seen.connections.iter().filter(|connection| !connection.first_response.is_empty()).find_map(
                |connection| match oracle::response(&connection.first_response, b"POST", connection.closed) {
                    Reading::Message(whole) => Some(whole.body),
                    _ => None,
                },
            ),
            (1, _) => Some(b"two".to_vec()),
            _ => Some(b"three".to_vec()),
        };
    match expected {
        Some(body) if status == b"200" && body == response.body => Ok(()),
        Some(_) => Err(format!("response {number} is not its own: {response:?}")),
        None => Err(format!("response {number} passes for complete: {response:?}")),
    }
}
