//! A service that reads prompts and responses and may refuse them (`guard` of a route).
//!
//! It gets a POST with what it is to read, and responds with a verdict:
//!
//! ```text
//! {"when": "before", "api": "chat", "route": "ai", "model": "gpt-4o", "stream": false, "key": "k7Qm", "team": null, "body": {"model": ...}}
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
use serde::Deserialize;

use super::super::Exchange;
use super::super::stall::Stall;
use super::super::subrequest::{self, Reply, Subrequest};
use super::Call;
use super::problem::{Problem, Stop};
use crate::config::{Guard, RouteAi};
use crate::error::{Error, Reason};
use crate::policy::ai::metrics::{Moment, Verdict};

/// Bytes of a verdict.
const VERDICT: usize = 64 * 1024;
/// Bytes of what a guard says to people, and to programs.
const MESSAGE: usize = 1024;
const CODE: usize = 64;

/// What a guard reads.
pub(super) enum Text<'b> {
    /// JSON.
    Json(&'b [u8]),
    /// Events.
    Events(&'b [u8]),
}

/// What it responds.
#[derive(Deserialize)]
struct Said {
    allow: bool,
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    message: Option<String>,
}

/// The guard of a route that reads this.
pub(super) fn of(action: &RouteAi, moment: Moment) -> Option<&Guard> {
    action.guard.as_ref().filter(|guard| match moment {
        Moment::Before => guard.before,
        Moment::After => guard.after,
    })
}

/// Lets the guard read something, and returns when it may pass.
///
/// # Errors
/// It may not, there is no verdict, or the client has disconnected.
pub(super) async fn ask(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    guard: &Guard,
    moment: Moment,
    text: Text<'_>,
) -> Result<(), Stop> {
    let body = question(x, call, moment, &text);
    let mut head = Vec::with_capacity(256);
    encode::begin_request_line(&mut head, b"POST");
    head.extend_from_slice(guard.path.as_bytes());
    encode::end_request_line(&mut head, guard.action.host.as_deref().unwrap_or("localhost").as_bytes());
    encode::field(&mut head, b"Content-Type", b"application/json");
    encode::content_length(&mut head, body.len() as u64);
    encode::end_head(&mut head);
    let config = call.snapshot.config();
    let request = Subrequest {
        service: &config.upstreams[guard.action.upstream.0].name,
        choices: &call.snapshot.routes[call.route.0].guard,
        action: &guard.action,
        head,
        body,
        lines: Vec::new(),
        client: x.down.client.clone(),
        origin: x.down.origin.clone(),
        body_bytes: VERDICT,
    };
    x.stalls.change(Stall::Gateway);
    let mut sent = pin!(subrequest::send(x.worker, x.snapshot.clone(), request));
    let (down, buffers) = (&mut *x.down, &x.worker.buffers);
    let result = poll_fn(|cx| match sent.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        // The client has disconnected: the verdict is not needed.
        Poll::Pending if down.poll_gone(cx, buffers).is_ready() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    });
    let Some(result) = result.await else { return Err(Reason::ClientGone.into()) };
    x.stalls.change(Stall::None);
    let counters = &call.snapshot.generation.ai.counters;
    match result.ok().and_then(|reply| verdict(&reply)) {
        Some(said) if said.allow => {
            counters.guarded(moment, Verdict::Allowed);
            Ok(())
        }
        Some(said) => {
            counters.guarded(moment, Verdict::Refused);
            Err(refused(said).into())
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

/// What the guard is sent.
fn question(x: &Exchange<'_>, call: &Call<'_>, moment: Moment, text: &Text<'_>) -> Vec<u8> {
    let who = x.identity.as_deref();
    let team = who.and_then(|who| who.meta.get("team").map(|team| &**team));
    let mut out = serde_json::json!({
        "when": moment.name(),
        "api": call.api.name(),
        "route": &*call.snapshot.config().routes[call.route.0].name,
        "model": &*call.model.name,
        "stream": call.streams,
        "key": who.and_then(|who| who.key_id.as_deref()),
        "consumer": who.and_then(|who| who.consumer.as_deref()),
        "team": team,
    })
    .to_string()
    .into_bytes();
    out.pop();
    out.extend_from_slice(b",\"body\":");
    match text {
        // It was read as JSON before.
        Text::Json(json) => out.extend_from_slice(json),
        Text::Events(events) => {
            out.extend_from_slice(serde_json::Value::from(String::from_utf8_lossy(events)).to_string().as_bytes());
        }
    }
    out.push(b'}');
    out
}

fn verdict(reply: &Reply) -> Option<Said> {
    if reply.head.status != 200 || !reply.is_whole {
        return None;
    }
    serde_json::from_slice(&reply.body).ok()
}

fn refused(said: Said) -> Problem {
    let code = said.code.filter(|code| {
        !code.is_empty()
            && code.len() <= CODE
            && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
    });
    let mut message = said.message.unwrap_or_else(|| "The guard of the route refused it".to_owned());
    message.truncate(message.floor_char_boundary(MESSAGE));
    let code = code.map_or(Cow::Borrowed("content_filter"), Cow::Owned);
    Problem { code, ..Problem::request("content_filter", message, None) }
}
