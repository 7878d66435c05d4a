//! Heads of responses: what clients see of a provider's fields.

use h1::{BodyKind, Field, Known, ResponseHead, Version, encode};

use super::super::cached::tell;
use super::super::stall::Stall;
use super::super::{Exchange, SendState};
use super::Call;
use super::attempt::AttemptPlan;
use crate::config::Edits;
use crate::error::{Error, Reason};
use crate::http::edits::{is_edited, write_connection, write_edits};
use crate::policy::cache::calls::Refusal;
use crate::runtime::clock;

/// Fields of providers about their account, not about the response.
const PRIVATE: [&str; 8] = [
    "openai-organization",
    "openai-project",
    "openai-version",
    "anthropic-organization-id",
    "alt-svc",
    "report-to",
    "nel",
    "x-should-retry",
];

/// A response that is held whole.
#[derive(Debug)]
pub(super) struct Response {
    /// Status.
    pub status: u16,
    /// Field lines for the client.
    pub lines: Vec<u8>,
    /// Body.
    pub body: Vec<u8>,
}

/// The field lines of a provider's response that a client gets: without those of the connection, of the provider's account and limits,
/// and those that the route edits. The provider's request id becomes `X-Upstream-Request-Id`.
pub(super) fn client_lines(head: &ResponseHead, buf: &[u8], edits: &Edits, own_id: &str) -> Vec<u8> {
    let mut lines = Vec::with_capacity(256);
    let has_prefix =
        |name: &[u8], prefix: &[u8]| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    for field in head.fields.iter() {
        let (name, value) = (field.name.of_buf(buf), field.value.of_buf(buf));
        if is_request_id(field, name) {
            encode::field(&mut lines, b"X-Upstream-Request-Id", value);
            continue;
        }
        let is_dropped = field.is_hop_by_hop()
            || matches!(field.known, Known::ContentLength | Known::SetCookie | Known::Date)
            || name.eq_ignore_ascii_case(own_id.as_bytes())
            || has_prefix(name, b"x-ratelimit-")
            || has_prefix(name, b"anthropic-ratelimit-")
            || has_prefix(name, b"anthropic-priority-")
            || has_prefix(name, b"ratelimit")
            || has_prefix(name, b"x-weir-")
            || PRIVATE.iter().any(|private| name.eq_ignore_ascii_case(private.as_bytes()))
            || is_edited(edits, name);
        if !is_dropped {
            // As it was read: a value in which anything could end the field was refused.
            encode::begin_field(&mut lines, name);
            lines.extend_from_slice(value);
            encode::end_field(&mut lines);
        }
    }
    lines
}

fn is_request_id(field: &Field, name: &[u8]) -> bool {
    field.known == Known::XRequestId || name.eq_ignore_ascii_case(b"request-id")
}

/// Field lines of a response that all of its clients get.
pub(super) fn shared_lines(call: &Call<'_>, plan: &AttemptPlan<'_>, lines: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(lines.len() + 128);
    all.extend_from_slice(lines);
    write_lines(call, plan, &mut all);
    all
}

/// Appends what the gateway says of the response, and what the route makes of it.
fn write_lines(call: &Call<'_>, plan: &AttemptPlan<'_>, out: &mut Vec<u8>) {
    encode::begin_field(out, b"X-Weir-Model");
    for part in [&plan.provider.name, "/", &plan.candidate.model] {
        encode::text(out, part.as_bytes());
    }
    encode::end_field(out);
    if !plan.is_first {
        encode::field(out, b"X-Fallback", plan.provider.name.as_bytes());
    }
    if !plan.dropped.is_empty() {
        encode::field(out, b"X-Weir-Dropped", plan.dropped.join(", ").as_bytes());
    }
    write_edits(out, &call.snapshot.config().routes[call.route.0].headers.response);
}

impl Exchange<'_> {
    /// How a body of this kind goes to the client, or to all that wait for the response: without framing, as each has its own.
    pub(super) fn client_framing(&self, call: &Call<'_>, kind: BodyKind) -> BodyKind {
        match (kind, self.scratch.request.version) {
            (BodyKind::Chunked | BodyKind::UntilClose, _) if call.lead.is_some() => BodyKind::UntilClose,
            (BodyKind::Chunked | BodyKind::UntilClose, Version::Http11) => BodyKind::Chunked,
            (BodyKind::Chunked | BodyKind::UntilClose, Version::Http10) => BodyKind::UntilClose,
            (kind, _) => kind,
        }
    }

    /// Puts the head of a response into `down.out`: from now on nothing takes its place.
    pub(super) fn begin_response(
        &mut self,
        call: &Call<'_>,
        plan: &AttemptPlan<'_>,
        status: u16,
        lines: &[u8],
        framing: BodyKind,
    ) {
        if let Some(lead) = call.lead {
            let length = match framing {
                BodyKind::Length(length) => Some(length),
                BodyKind::None => Some(0),
                BodyKind::Chunked | BodyKind::UntilClose => None,
            };
            lead.begin(status, &shared_lines(call, plan, lines), length);
            self.log.status = status;
            self.send_state = SendState::Begun;
            return;
        }
        self.frame_by_close(framing);
        let out = &mut self.down.out.bytes;
        encode::status_line(out, status, encode::reason(status).as_bytes());
        out.extend_from_slice(lines);
        clock::date_line(out);
        write_lines(call, plan, out);
        tell(out, self.cache.told, call.snapshot, call.route);
        self.end_head(status, framing);
    }

    /// Ends the head of a response in `down.out`: with the fields that each response has of its own, and the framing.
    pub(super) fn end_head(&mut self, status: u16, framing: BodyKind) {
        let version = self.scratch.request.version;
        self.explain(status);
        let timing = self.server_timing();
        let out = &mut self.down.out.bytes;
        out.extend_from_slice(&self.scratch.response_lines);
        out.extend_from_slice(&timing);
        match framing {
            BodyKind::Length(length) => encode::content_length(out, length),
            BodyKind::Chunked => encode::chunked(out),
            BodyKind::None => encode::content_length(out, 0),
            BodyKind::UntilClose => {}
        }
        write_connection(out, version, self.close);
        encode::end_head(out);
        self.log.status = status;
        self.start_response();
    }

    /// Appends a part of the body to what is sent next.
    pub(super) fn put(&mut self, framing: BodyKind, data: &[u8]) {
        let out = &mut self.down.out.bytes;
        match framing {
            // An empty chunk would be the end.
            _ if data.is_empty() => {}
            BodyKind::Chunked => encode::chunk(out, data),
            _ => out.extend_from_slice(data),
        }
    }

    /// Sends what was put together, and behind it `body` from where it lies.
    ///
    /// # Errors
    /// When the client does not take it.
    pub(super) async fn send_put(&mut self, body: &[u8]) -> Result<(), Error> {
        if self.down.out.is_empty() && body.is_empty() {
            return Ok(());
        }
        self.log.response_bytes += (self.down.out.bytes.len() + body.len()) as u64;
        let idle = self.snapshot.config().server.body_idle_timeout;
        self.stalls.change(Stall::ClientReceives);
        let sent = self.down.send(body, idle).await;
        self.stalls.change(Stall::None);
        sent.map_err(|_| Reason::ClientDisconnected.into())
    }

    /// Ends the body of a response to this client.
    ///
    /// # Errors
    /// When the client does not take it.
    pub(super) async fn end_body(&mut self, framing: BodyKind) -> Result<(), Error> {
        if framing == BodyKind::Chunked {
            encode::last_chunk(&mut self.down.out.bytes);
        }
        self.send_put(&[]).await?;
        self.send_state = SendState::Complete;
        Ok(())
    }

    /// Sends a whole response.
    ///
    /// # Errors
    /// When the client does not take it.
    pub(super) async fn send_response(
        &mut self,
        call: &Call<'_>,
        plan: &AttemptPlan<'_>,
        response: &Response,
    ) -> Result<(), Error> {
        if let Some(lead) = call.lead.filter(|_| !(200..300).contains(&response.status)) {
            lead.refuse(Refusal {
                status: response.status,
                lines: shared_lines(call, plan, &response.lines),
                body: response.body.clone(),
            });
            return Ok(());
        }
        let framing = match response.body.len() {
            0 => BodyKind::None,
            length => BodyKind::Length(length as u64),
        };
        self.begin_response(call, plan, response.status, &response.lines, framing);
        if let Some(lead) = call.lead {
            lead.push(&response.body, true);
            self.send_state = SendState::Complete;
            return Ok(());
        }
        self.send_put(&response.body).await?;
        self.send_state = SendState::Complete;
        Ok(())
    }
}
