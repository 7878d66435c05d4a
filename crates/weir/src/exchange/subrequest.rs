//! A request that the gateway makes by itself, on its way to a client: an exchange of its own with an upstream, by the ordinary way with its
//! pool, deadlines, retries, health and TLS. Its client has no socket and keeps the response.

use std::rc::Rc;
use std::sync::Arc;

use h1::{BodyDecoder, BodyEvent, HeadScanner, Known, Limits, Method, ResponseHead, trailer_fields};

use super::Exchange;
use super::proxy::{self, Leg};
use crate::client::downstream::Downstream;
use crate::client::identity::Client;
use crate::client::origin::Origin;
use crate::config::{HeaderEdits, Proxy};
use crate::error::{Error, Reason};
use crate::io::buffer::Buffer;
use crate::io::life::Life;
use crate::io::stream::{Collected, Outgoing, Stream};
use crate::policy::auth::RouteEdits;
use crate::worker::Worker;
use crate::worker::snapshot::{Choice, Snapshot};

/// The parts of such a request come from one that was accepted, and it has some more.
const LIMITS: Limits = Limits { start_line: 1 << 20, head: 4 << 20, fields: Limits::MAX_FIELDS };

/// What is sent.
pub(super) struct Subrequest<'a> {
    /// Name of the service.
    pub(super) service: &'a Arc<str>,
    /// Where to.
    pub(super) choices: &'a [Choice],
    pub(super) action: &'a Proxy,
    /// Request head.
    pub(super) head: Vec<u8>,
    /// Request body, as the head announces it.
    pub(super) body: Vec<u8>,
    /// Lines of the head that only the gateway may write.
    pub(super) lines: Vec<u8>,
    /// Whom it is sent for.
    pub(super) client: Client,
    pub(super) origin: Arc<Origin>,
    /// Bytes of the response body that are kept.
    pub(super) body_bytes: usize,
    /// It changes nothing, so that it may be sent again although it has a body.
    pub(super) is_repeatable: bool,
    /// Requests to the service that one worker may have in flight.
    pub(super) most: usize,
}

/// What comes back.
pub(super) struct SubResponse {
    pub(super) head: ResponseHead,
    /// What the head was parsed from.
    pub(super) bytes: Vec<u8>,
    /// The body, as far as it was kept.
    pub(super) body: Vec<u8>,
    /// The trailers.
    trailers: Vec<u8>,
    /// Whether the whole body is there.
    pub(super) is_whole: bool,
}

impl SubResponse {
    /// The status of a gRPC call: of the trailers, or of a response that is a head only.
    pub(super) fn grpc_status(&self) -> Option<&[u8]> {
        let of_head = self.head.fields.first(Known::GrpcStatus, &self.bytes);
        let mut of_trailers = trailer_fields(&self.trailers).filter(|(known, ..)| *known == Known::GrpcStatus);
        of_trailers.next().map(|(_, _, value)| value).or(of_head)
    }
}

/// Sends a request and collects the response.
///
/// # Errors
/// Why there is no response.
pub(super) async fn send(
    worker: &Worker,
    snapshot: Rc<Snapshot>,
    request: Subrequest<'_>,
) -> Result<SubResponse, Error> {
    let too_many = || Error::new(Reason::Resources, "too many requests wait for the service");
    let _place = worker.subrequests.acquire(request.service, request.most).ok_or_else(too_many)?;
    let Subrequest { choices, action, mut head, body, lines, client, origin, body_bytes, is_repeatable, .. } = request;
    let head_length = head.len();
    head.extend_from_slice(&body);
    let has_body = !body.is_empty();
    drop(body);
    let mut scratch = worker.lend_scratch();
    let buffer = Buffer::of(&head);
    if scratch.request.parse(buffer.whole(), 0, head_length, &LIMITS).is_err() {
        return Err(Error::new(Reason::BadRequest, "the request to the service cannot be written"));
    }
    let method = scratch.request.method;
    // Such a request changes nothing: as a GET, it may be sent again when an idle connection turns out to be closed. A gRPC call keeps its method,
    // which marks it as one.
    if method != Method::Head && (!has_body || is_repeatable) {
        scratch.request.method = Method::Get;
    }
    let collected = Collected { bytes: Vec::new(), most: Limits::default().head + body_bytes, is_full: false };
    let mut down = Downstream {
        stream: Stream::Collect(Box::new(collected)),
        buffer,
        out: Outgoing::default(),
        deadline: worker.deadlines.add(),
        client,
        origin,
        life: Life::ENDLESS,
    };
    let result = {
        let mut x = Exchange::begin(worker, &mut down, &mut scratch);
        x.snapshot = snapshot.clone();
        // Its parts come from a request that was filtered; here it is seen that they are not put together to something forged.
        x.strip_forged_headers();
        x.scratch.identity_lines.extend_from_slice(&lines);
        let path = x.scratch.request.path.of_buf(&head).to_vec();
        x.scratch.path.clear();
        x.scratch.path.extend_from_slice(&path);
        let (edits, auth_edits) = (HeaderEdits::default(), RouteEdits::default());
        let leg = Leg { route: None, choices, edits: &edits, auth_edits: &auth_edits };
        proxy::run_leg(&mut x, &snapshot, &leg, action).await
    };
    worker.take_scratch(scratch);
    let Stream::Collect(collected) = down.stream else { return Err(Reason::Panic.into()) };
    // One whose body is too large to keep was read as far as its head.
    if let (Err(error), false) = (result, collected.is_full) {
        return Err(error);
    }
    let bad = || Error::new(Reason::BadResponse, "the head is too large");
    let limits = Limits::default();
    let mut head = ResponseHead::default();
    let method = if method == Method::Head { method } else { Method::Get };
    let mut start = 0;
    let end = loop {
        let rest = &collected.bytes[start..];
        let length = HeadScanner::for_response().scan(rest, &limits).ok().flatten().ok_or_else(bad)?;
        head.parse(&collected.bytes, start, start + length, method, &limits).map_err(|_| bad())?;
        // Interim responses come before the one that counts (RFC 9110, section 15.2).
        if head.status >= 200 || head.status == 101 {
            break start + length;
        }
        start += length;
    };
    let mut decoder = BodyDecoder::new(head.body);
    decoder.keep_trailers();
    let mut kept = Vec::new();
    let mut rest = &collected.bytes[end..];
    loop {
        match decoder.decode(rest) {
            Ok((taken, BodyEvent::Data(data))) => {
                kept.extend_from_slice(&rest[data]);
                rest = &rest[taken..];
            }
            Ok((taken, BodyEvent::NeedMore)) if taken > 0 => rest = &rest[taken..],
            Ok(_) => break,
            Err(_) => return Err(Error::new(Reason::BadResponse, "the body cannot be read")),
        }
    }
    let is_whole = !collected.is_full && kept.len() <= body_bytes;
    Ok(SubResponse { head, body: kept, trailers: decoder.trailers().to_vec(), bytes: collected.bytes, is_whole })
}
