//! A service that reads prompts and responses and may refuse them (`guard` of a route).
//!
//! It gets a POST with what it is to read, and responds with a verdict:
//!
//! ```text
//! {"when": "before", "api": "chat", "route": "ai", "model": "gpt-4o", "stream": false, "key": "k7Qm", "body": {"model": ...}}
//! 200 {"allow": false, "code": "content_filter", "message": "No card numbers, please"}
//! ```
//!
//! The body of a request and of a whole response is the JSON itself; that of a stream is a string of its events. Any other response counts as a
//! failure of the guard.

use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use h1::encode;
use serde_json::Value;
use strict_json::Refused;

use super::super::Exchange;
use super::super::stall::Stall;
use super::super::subrequest::{self, SubResponse, Subrequest};
use super::Call;
use super::problem::{Problem, Stop};
use super::request;
use crate::config::{Guard, RouteAi};
use crate::error::{Error, Reason};
use crate::policy::ai::metrics::{Moment, Verdict};

/// Questions to a guard that one worker has in flight; their memory is bounded by `ai.held`.
const QUESTIONS: usize = 4096;
/// Bytes of a verdict.
const VERDICT: usize = 64 * 1024;
/// Bytes of what a guard says to people, and to programs.
const MESSAGE: usize = 1024;
const CODE: usize = 64;

/// What a guard reads.
#[derive(Clone, Copy)]
pub(super) enum Text<'b> {
    /// JSON.
    Json(&'b [u8]),
    /// Events.
    Events(&'b [u8]),
}

/// The guard of a route that reads this.
pub(super) fn of(action: &RouteAi, moment: Moment) -> Option<&Guard> {
    action.guard.as_ref().filter(|guard| match moment {
        Moment::Before => guard.before,
        Moment::After => guard.after,
    })
}

/// Lets the guard read something (`question`), and returns when it may pass.
///
/// # Errors
/// It may not, there is no verdict, the time of the call is over, or the client has disconnected.
pub(super) async fn call_guard(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    guard: &Guard,
    moment: Moment,
    question: Vec<u8>,
) -> Result<(), Stop> {
    // Twice: it goes out in one piece with its head.
    let mut room = call.snapshot.generation.ai.hold();
    request::take(&mut room, 2 * question.len() as u64)?;
    let mut head = Vec::with_capacity(256 + question.len());
    encode::begin_request_line(&mut head, b"POST");
    head.extend_from_slice(guard.path.as_bytes());
    encode::end_request_line(&mut head, guard.action.host.as_deref().unwrap_or("localhost").as_bytes());
    encode::field(&mut head, b"Content-Type", b"application/json");
    encode::content_length(&mut head, question.len() as u64);
    encode::end_head(&mut head);
    let config = call.snapshot.config();
    let request = Subrequest {
        service: &config.upstreams[guard.action.upstream.0].name,
        choices: &call.snapshot.routes[call.route.0].guard,
        action: &guard.action,
        head,
        body: question,
        lines: Vec::new(),
        client: x.down.client.clone(),
        origin: x.down.origin.clone(),
        body_bytes: VERDICT,
        // It changes nothing, so that it may be sent again.
        is_repeatable: true,
        most: QUESTIONS,
    };
    x.stalls.change(Stall::Gateway);
    x.down.deadline.set_at(call.total_due);
    let mut sent = pin!(subrequest::send(x.worker, x.snapshot.clone(), request));
    let (down, buffers) = (&mut *x.down, &x.worker.buffers);
    let result = poll_fn(|cx| match sent.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(Ok(result)),
        // The client has disconnected: the verdict is not needed.
        Poll::Pending if down.poll_disconnect(cx, buffers).is_ready() => Poll::Ready(Err(Reason::ClientDisconnected)),
        Poll::Pending if down.deadline.poll_passed(cx) => Poll::Ready(Err(Reason::TotalTimeout)),
        Poll::Pending => Poll::Pending,
    });
    let result = result.await?;
    x.stalls.change(Stall::None);
    let counters = &call.snapshot.generation.ai.counters;
    match result.ok().and_then(|response| verdict(&response)) {
        Some((true, ..)) => {
            counters.guarded(moment, Verdict::Allowed);
            Ok(())
        }
        Some((false, code, message)) => {
            counters.guarded(moment, Verdict::Refused);
            Err(refused(code, message).into())
        }
        None if guard.fails_open => {
            counters.guarded(moment, Verdict::FailedOpen);
            Ok(())
        }
        None => {
            counters.guarded(moment, Verdict::Failed);
            Err(Error::new(Reason::AiGuard, "").into())
        }
    }
}

/// What the guard is sent about a text.
pub(super) fn question(x: &mut Exchange<'_>, call: &Call<'_>, moment: Moment, text: Text<'_>) -> Vec<u8> {
    x.ensure_request_id();
    let who = x.identity.as_deref();
    let head = serde_json::json!({
        "when": moment.name(),
        "api": call.api.name(),
        "route": &*call.snapshot.config().routes[call.route.0].name,
        "model": &*call.model.name,
        "stream": call.streams,
        "key": who.and_then(|who| who.key_id.as_deref()),
        "consumer": who.and_then(|who| who.consumer.as_deref()),
        "team": who.and_then(|who| who.meta.get("team").map(|team| &**team)),
        "request_id": String::from_utf8_lossy(&x.scratch.request_id),
    });
    let (Text::Json(bytes) | Text::Events(bytes)) = text;
    // Bytes that are not UTF-8 are read as clients read them.
    let body = String::from_utf8_lossy(bytes);
    let mut out = Vec::with_capacity(512 + body.len() + body.len() / 8);
    out.extend_from_slice(head.to_string().as_bytes());
    out.pop();
    out.extend_from_slice(b",\"body\":");
    match text {
        Text::Json(_) => out.extend_from_slice(body.as_bytes()),
        Text::Events(_) => {
            // A text can always be written into memory.
            let _ = serde_json::to_writer(&mut out, &*body);
        }
    }
    out.push(b'}');
    out
}

/// Refuses a prompt that the guard and a provider could read differently.
///
/// # Errors
/// The prompt is one.
pub(super) fn check(body: &[u8]) -> Result<(), Problem> {
    strict_json::check(body).map_err(|why| {
        let why = match why {
            Refused::Duplicate => "a member occurs twice in an object",
            Refused::Depth => "it is nested too deep",
            Refused::Syntax => "it has a text or a number that not every parser reads",
        };
        Problem::request("invalid_request", format!("The request body cannot be read: {why}"), None)
    })
}

/// What it responds: an object whose member `allow` is a truth. The other two are for the client, where they are texts.
fn verdict(response: &SubResponse) -> Option<(bool, Option<String>, Option<String>)> {
    if response.head.status != 200 || !response.is_whole {
        return None;
    }
    let mut said = strict_json::object(&response.body)?;
    let mut text = |name| match said.remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let (code, message) = (text("code"), text("message"));
    Some((said.get("allow")?.as_bool()?, code, message))
}

fn refused(code: Option<String>, message: Option<String>) -> Problem {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let code = code.filter(|code| !code.is_empty() && code.len() <= CODE && code.bytes().all(is_plain));
    let mut message = message.unwrap_or_else(|| "The guard of the route refused it".to_owned());
    message.truncate(message.floor_char_boundary(MESSAGE));
    let code = code.map_or(Cow::Borrowed("content_filter"), Cow::Owned);
    Problem { code, ..Problem::request("content_filter", message, None) }
}
