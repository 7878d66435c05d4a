//! Comments on a stream that has no content yet (`heartbeat` of a route), so that nothing between gateway and client takes the connection for dead.
//!
//! The first one commits the client to a status of 200, but to no attempt: the call is made by an exchange of its own (`shared.rs`), and this one
//! waits for its response. What goes wrong after the first comment is told by an error event.

use std::cell::Cell;
use std::time::Duration;

use h1::{BodyKind, encode};
use llm::Api;
use llm::error::ApiError;
use serde_json::Value;

use super::super::Exchange;
use super::super::cached::tell;
use super::problem::Stop;
use super::{Call, budget, cached};
use crate::error::{Error, Reason};
use crate::http::edits::write_edits;
use crate::policy::ai::Held;
use crate::policy::cache::calls::{CallLead, Refusal};
use crate::runtime::clock;
use crate::runtime::deadline::nanos;

const COMMENT: &[u8] = b": weir-heartbeat\n\n";

/// The heartbeat of one client's stream.
pub(super) struct Heartbeat {
    every: Option<Duration>,
    due: u64,
    /// How the body goes, once the head was sent, until a response follows: its own end is the end then.
    framing: Cell<Option<BodyKind>>,
}

impl Heartbeat {
    /// For a call that begins now.
    pub(super) fn new(call: &Call<'_>) -> Self {
        Heartbeat { every: call.heartbeat, due: next(call.heartbeat), framing: Cell::new(None) }
    }

    /// When the next comment is due, in nanoseconds since process start.
    pub(super) fn due(&self) -> u64 {
        self.due
    }

    /// A response begins: how its body goes, if comments have begun it.
    pub(super) fn hand_over(&self) -> Option<BodyKind> {
        self.framing.take()
    }

    /// Sends a comment, the first one with the head of the response.
    ///
    /// # Errors
    /// The client does not take it.
    pub(super) async fn beat(&mut self, x: &mut Exchange<'_>, call: &Call<'_>) -> Result<(), Error> {
        let framing = match self.framing.get() {
            Some(framing) => framing,
            None => {
                let framing = x.client_framing(call, BodyKind::Chunked);
                x.frame_by_close(framing);
                let out = &mut x.down.out.bytes;
                encode::status_line(out, 200, encode::reason(200).as_bytes());
                encode::field(out, b"Content-Type", b"text/event-stream; charset=utf-8");
                encode::field(out, b"Cache-Control", b"no-cache");
                clock::date_line(out);
                tell(out, x.cache.told, call.snapshot, call.route);
                write_edits(out, &call.snapshot.config().routes[call.route.0].headers.response);
                x.end_head(200, framing);
                framing
            }
        };
        self.framing.set(Some(framing));
        x.put(framing, COMMENT);
        x.send_put(&[]).await?;
        self.due = next(self.every);
        Ok(())
    }

    /// Ends a stream of comments whose call has failed, by an error event; passes on every other end.
    ///
    /// # Errors
    /// Those that the client is told otherwise, or not at all.
    pub(super) async fn finish(
        &self,
        x: &mut Exchange<'_>,
        call: &Call<'_>,
        result: Result<(), Stop>,
    ) -> Result<(), Stop> {
        let (Some(framing), Err(stop)) = (self.framing.get(), &result) else { return result };
        let (error, own) = match stop {
            Stop::Error(Error { reason: Reason::ClientDisconnected, .. }) | Stop::Sent => return result,
            Stop::Error(error) => {
                let reason = error.reason;
                let own =
                    ApiError { status: reason.status(), code: reason.label(), message: reason.title(), param: None };
                (*error, own)
            }
            Stop::Problem(problem) => (problem.error(), problem.own()),
        };
        let event = x.error_event(call.api, &own, 0);
        x.worker.metrics.not_served(error.reason);
        end(x, framing, error, &event).await
    }

    /// Ends a stream of comments with the provider's own error; false if there was no comment yet.
    ///
    /// # Errors
    /// The client does not take it.
    pub(super) async fn refuse(&self, x: &mut Exchange<'_>, call: &Call<'_>, refusal: &Refusal) -> Result<bool, Stop> {
        let Some(framing) = self.framing.get() else { return Ok(false) };
        let body = serde_json::from_slice::<Value>(&refusal.body).unwrap_or_default();
        let mut event = Vec::new();
        // Clients know an error by its member.
        if body["error"].is_object() && call.api != Api::Responses {
            if call.api == Api::Messages {
                event.extend_from_slice(b"event: error\n");
            }
            event.extend_from_slice(b"data: ");
            // On one line: in JSON, line ends are nothing but space.
            event.extend(refusal.body.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
            event.extend_from_slice(b"\n\n");
        } else {
            let message =
                ["/error/message", "/message", "/detail"].into_iter().find_map(|at| body.pointer(at)?.as_str());
            let message = message.unwrap_or("The provider refused the request");
            let own = ApiError { status: refusal.status, code: "upstream_error", message, param: None };
            event = x.error_event(call.api, &own, 0);
        }
        // The exchange that made the call has counted it.
        let error = x.log.error.unwrap_or_else(|| Reason::AiRequest.into());
        end(x, framing, error, &event).await?;
        Ok(true)
    }
}

async fn end(x: &mut Exchange<'_>, framing: BodyKind, error: Error, event: &[u8]) -> Result<(), Stop> {
    x.log.error = Some(error);
    x.put(framing, event);
    Ok(x.end_body(framing).await?)
}

fn next(every: Option<Duration>) -> u64 {
    every.map_or(u64::MAX, |every| clock::loop_ns().saturating_add(nanos(every)))
}

/// Serves a call on a route with heartbeats and without a cache.
///
/// # Errors
/// Why there is no response.
pub(super) async fn run(x: &mut Exchange<'_>, call: &Call<'_>, held: &mut Held) -> Result<(), Stop> {
    let mut heartbeat = Heartbeat::new(call);
    let result = alone(x, call, held, &mut heartbeat).await;
    heartbeat.finish(x, call, result).await
}

/// Makes a call that nobody else can join.
///
/// # Errors
/// Why there is no response.
pub(super) async fn alone(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    held: &mut Held,
    heartbeat: &mut Heartbeat,
) -> Result<(), Stop> {
    let reservation = budget::reserve(x, call).await?;
    let (lead, reader) = CallLead::alone(&call.model.name);
    cached::serve(x, call, None, (lead, reader), reservation, held, heartbeat).await
}
