//! The request: its body is read whole, and written again for each attempt.

use std::sync::Arc;
use std::task::Poll;

use h1::{BodyKind, Known, encode};
use llm::Api;
use llm::api::{Family, GeminiMethod, StoredOperation};

use super::super::forward::copy_lines;
use super::super::proxy::send_continue;
use super::super::pump::{Pump, PumpError};
use super::super::stall::Stall;
use super::super::{Exchange, changed};
use super::attempt::AttemptPlan;
use super::problem::Stop;
use super::{Call, Shape};
use crate::error::{Error, Reason};
use crate::http::edits::{is_edited, write_edits};
use crate::io::stream::Outgoing;
use crate::observe::redact;
use crate::policy::ai::Held;
use crate::worker::snapshot::Snapshot;

/// Each body lies here once as it came, and at most once more: translated, or where the last change is near its end.
const COPIES: u64 = 2;

/// Fields of clients that no provider sees: who they are to the gateway, where they come from, and what the gateway writes.
pub(super) const PRIVATE: [&str; 15] = [
    "x-api-key",
    "api-key",
    "apikey",
    "x-auth-token",
    "x-access-token",
    "x-amz-security-token",
    "ocp-apim-subscription-key",
    "x-goog-api-key",
    "openai-organization",
    "openai-project",
    "x-goog-user-project",
    "x-real-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "x-stainless-retry-count",
];

/// Reads the whole body, within the route's limit and what the process may hold.
///
/// # Errors
/// When it does not come, or is too large.
pub(super) async fn read(x: &mut Exchange<'_>, held: &mut Held) -> Result<Vec<u8>, Stop> {
    let keep = x.scratch.request.end;
    let kind = x.scratch.request.body;
    let limit = x.body_limit();
    if x.expects_continue() {
        if let BodyKind::Length(length) = kind {
            take_room(held, length)?;
        }
        send_continue(x).await?;
    }
    let mut body = Vec::new();
    if let BodyKind::Length(length) = kind {
        take_room(held, length)?;
        // A length is a promise: memory is taken as it comes true.
        body.reserve(usize::try_from(length).unwrap_or(usize::MAX).min(1 << 20));
    }
    // From here on the body goes into memory: without framing, in one piece.
    x.body = Pump::new(kind, BodyKind::UntilClose, limit);
    let mut out = Outgoing::default();
    let idle = x.snapshot.config().server.body_idle_timeout;
    x.stalls.change(Stall::ClientSends);
    x.down.deadline.set(idle);
    let mut room = Ok(());
    std::future::poll_fn(|cx| {
        let mut progress = false;
        let source = (&mut x.down.stream, &mut x.down.buffer, keep);
        let poll = x.body.poll(cx, &x.worker.buffers, source, (&mut body, &mut out), &mut progress);
        if progress {
            x.down.deadline.set(idle);
            if let Err(stop) = take_room(held, body.len() as u64) {
                room = Err(stop);
                return Poll::Ready(Ok(()));
            }
        }
        match poll {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(match error {
                PumpError::Parse(error) => Error::new(Reason::BadRequest, error.text()),
                PumpError::TooLarge => Reason::BodyTooLarge.into(),
                PumpError::Truncated | PumpError::Read(_) | PumpError::Write(_) | PumpError::Coding => {
                    Reason::ClientDisconnected.into()
                }
            })),
            Poll::Pending if x.down.deadline.poll_passed(cx) => Poll::Ready(Err(Reason::BodyTimeout.into())),
            Poll::Pending => Poll::Pending,
        }
    })
    .await?;
    room?;
    x.stalls.change(Stall::Gateway);
    Ok(body)
}

/// Takes room for a body of so many bytes; less than before takes none.
///
/// # Errors
/// The process holds too much.
pub(super) fn take_room(held: &mut Held, bytes: u64) -> Result<(), Stop> {
    take(held, bytes.saturating_mul(COPIES))
}

/// Takes room for so many bytes in all.
///
/// # Errors
/// There is none.
pub(super) fn take(held: &mut Held, bytes: u64) -> Result<(), Stop> {
    if held.grow_to(bytes) { Ok(()) } else { Err(Reason::AiHeld.into()) }
}

/// Appends the request line.
fn write_request_line(
    x: &Exchange<'_>,
    call: &Call<'_>,
    plan: &AttemptPlan<'_>,
    (base_path, host): (&str, &str),
    out: &mut Vec<u8>,
) {
    let method = match call.shape {
        Shape::Stored(stored) => stored.operation.method(),
        Shape::Json | Shape::Form(_) => "POST",
    };
    encode::begin_request_line(out, method.as_bytes());
    out.extend_from_slice(base_path.as_bytes());
    out.extend_from_slice(plan.provider.base.as_bytes());
    match (call.shape, plan.api) {
        (Shape::Stored(stored), _) => {
            for part in ["/responses/", stored.id, stored.operation.suffix()] {
                out.extend_from_slice(part.as_bytes());
            }
        }
        (_, Api::Gemini) => {
            let own = if call.streams { GeminiMethod::Stream } else { GeminiMethod::Generate };
            write_gemini_operation(out, &plan.candidate.model, call.method.unwrap_or(own));
        }
        (_, Api::Messages) if call.counts => out.extend_from_slice(b"/messages/count_tokens"),
        (_, api) => out.extend_from_slice(operation(api).as_bytes()),
    }
    let query = changed::query(x.changed.as_deref(), &x.scratch.request, x.down.buffer.whole());
    write_query(out, query.filter(|_| plan.api == call.api));
    if plan.api == Api::Gemini && call.method.is_none() && call.streams {
        // Without it the response is one array.
        out.extend_from_slice(b"?alt=sse");
    }
    encode::end_request_line(out, host.as_bytes());
}

/// Appends the head of the request to a provider; its body has so many bytes.
pub(super) fn write_head(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    plan: &AttemptPlan<'_>,
    place: (&str, &str),
    length: usize,
    out: &mut Vec<u8>,
) {
    x.ensure_request_id();
    x.write_variable_lines(&call.snapshot.config().routes[call.route.0].headers.request.templates);
    let snapshot: &Snapshot = call.snapshot;
    let config = snapshot.config();
    let buf = x.down.buffer.whole();
    let head = &x.scratch.request;
    let route = &config.routes[call.route.0];
    let edits = &route.headers.request;
    let provider = plan.provider;

    write_request_line(x, call, plan, place, out);

    let (auth, forged) = (&snapshot.routes[call.route.0].auth_edits, &snapshot.auth.shared().forged);
    let mut has_version = false;
    let own: &Arc<str> = &config.request_id;
    copy_lines(out, buf, head.fields.iter(), |field| {
        if field.is_hop_by_hop() {
            return false;
        }
        let name = field.name.of_buf(buf);
        let is_wanted = match field.known {
            Known::Host
            | Known::ContentLength
            | Known::ContentType
            | Known::ContentEncoding
            | Known::Expect
            | Known::Http2Settings
            | Known::Authorization
            | Known::ProxyAuthorization
            | Known::Cookie
            | Known::AcceptEncoding
            | Known::XRequestId
            | Known::XForwardedFor
            | Known::XForwardedProto
            | Known::XForwardedHost
            | Known::Forwarded
            | Known::Via
            | Known::Origin
            | Known::Range
            | Known::Referer => false,
            Known::Other => {
                let is_private = PRIVATE.iter().any(|private| Known::is_alias(name, private.as_bytes()))
                    || name.get(..7).is_some_and(|start| start.eq_ignore_ascii_case(b"x-weir-"))
                    || name.get(..12).is_some_and(|start| start.eq_ignore_ascii_case(b"x-forwarded-"))
                    || Known::is_alias(name, own.as_bytes());
                let is_anthropic = name.get(..10).is_some_and(|start| start.eq_ignore_ascii_case(b"anthropic-"));
                has_version |= name.eq_ignore_ascii_case(b"anthropic-version");
                !is_private && (!is_anthropic || plan.api.family() == Family::Anthropic)
            }
            _ => true,
        };
        // A response that is not modified, or not whole, is none of a model.
        let is_condition = name.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(b"if-"));
        is_wanted
            && !is_condition
            && !auth.removes(field, buf)
            && !forged.contains(name)
            && !is_edited(edits, name)
            && !provider.headers.iter().any(|(own, _)| Known::is_alias(name, own.as_bytes()))
    });
    match call.shape {
        Shape::Json => encode::field(out, b"Content-Type", b"application/json"),
        Shape::Form(form) => encode::field(out, b"Content-Type", &form.content_type()),
        Shape::Stored(_) => {}
    }
    if let Some(key) = plan.key {
        match plan.api.family() {
            Family::Anthropic => encode::field(out, b"x-api-key", key.secret.as_bytes()),
            // Never in the query, which is logged.
            Family::Gemini => encode::field(out, b"x-goog-api-key", key.secret.as_bytes()),
            Family::OpenAi => {
                out.extend_from_slice(b"Authorization: Bearer ");
                out.extend_from_slice(key.secret.as_bytes());
                encode::end_field(out);
            }
        }
    }
    let sets_version = provider.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("anthropic-version"));
    if plan.api.family() == Family::Anthropic && !has_version && !sets_version {
        encode::field(out, b"anthropic-version", b"2023-06-01");
    }
    encode::field(out, own.as_bytes(), &x.scratch.request_id);
    for (name, value) in &provider.headers {
        encode::field(out, name.as_bytes(), value.as_bytes());
    }
    out.extend_from_slice(&x.scratch.identity_lines);
    write_edits(out, edits);
    out.extend_from_slice(&x.scratch.variable_lines);
    let has_body = match call.shape {
        Shape::Stored(stored) => stored.operation == StoredOperation::Cancel,
        Shape::Json | Shape::Form(_) => true,
    };
    if has_body {
        encode::content_length(out, length as u64);
    }
    encode::end_head(out);
}

/// Path of an API below the provider's base.
fn operation(api: Api) -> &'static str {
    match api {
        Api::Chat => "/chat/completions",
        Api::Completions => "/completions",
        Api::Responses => "/responses",
        Api::Embeddings => "/embeddings",
        Api::Moderations => "/moderations",
        Api::Images => "/images/generations",
        Api::ImageEdits => "/images/edits",
        Api::ImageVariations => "/images/variations",
        Api::Speech => "/audio/speech",
        Api::Transcriptions => "/audio/transcriptions",
        Api::Translations => "/audio/translations",
        Api::Messages => "/messages",
        Api::Gemini => "",
    }
}

/// Appends the path of an operation of Gemini's API below the provider's base.
fn write_gemini_operation(out: &mut Vec<u8>, model: &str, method: GeminiMethod) {
    out.extend_from_slice(b"/models/");
    for byte in model.bytes() {
        // RFC 3986 section 3.3, without what would end the segment's name.
        if byte.is_ascii_alphanumeric() || b"-._~/@".contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    out.push(b':');
    out.extend_from_slice(method.name().as_bytes());
}

/// Whether the query requests events, as Gemini's API writes it.
pub(super) fn wants_events(x: &Exchange<'_>) -> bool {
    let query = changed::query(x.changed.as_deref(), &x.scratch.request, x.down.buffer.whole());
    query.unwrap_or_default().split(|byte| *byte == b'&').any(|part| part == b"alt=sse")
}

/// Appends a client's query without the parameters that carry keys, or name a model.
pub(super) fn write_query(out: &mut Vec<u8>, query: Option<&[u8]>) {
    let mut separator = b'?';
    for part in query.unwrap_or_default().split(|byte| *byte == b'&').filter(|part| !part.is_empty()) {
        let name = part.split(|byte| *byte == b'=').next().unwrap_or_default();
        // Lists, such as `include[]`.
        let name = name.strip_suffix(b"%5B%5D").or(name.strip_suffix(b"%5b%5d")).unwrap_or(name);
        let name = name.strip_suffix(b"[]").unwrap_or(name);
        // An escaped name could be any: those of these APIs have no other escapes. A server that reads `model` there would serve another one.
        if redact::BUILT_IN.is_secret(name) || name.eq_ignore_ascii_case(b"model") || name.contains(&b'%') {
            continue;
        }
        out.push(separator);
        out.extend_from_slice(part);
        separator = b'&';
    }
}
