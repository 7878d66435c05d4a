//! From the HTTP/1.1 response that the exchange writes to frames, as the bytes come.

use ::http2::{Connection, SendError};
use h1::{BodyKind, Fields, HeadScanner, Known, Limits, Method, ResponseHead};

use crate::streams::body::{BodySender, Progress};

/// Heads that the gateway writes: what an upstream may send, and what policies add.
const LIMITS: Limits = Limits { start_line: 16 * 1024, head: 512 * 1024, fields: Limits::MAX_FIELDS };

/// What a call of [`Reader::step`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// An interim head went out.
    Interim,
    /// The final head went out.
    Head,
    /// What became of the body, or of a head that cannot go out yet.
    Body(Progress),
    /// The stream is over, or the response is none.
    Broken,
}

/// What a response depends on of its request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Requested {
    /// Over HTTP/1.1.
    pub(super) method: Method,
    /// An extended CONNECT (RFC 8441).
    pub(super) is_tunnel: bool,
}

/// Reads one response.
#[derive(Debug)]
pub(super) struct Reader {
    scanner: HeadScanner,
    head: ResponseHead,
    request: Requested,
    /// Once the final head was read.
    body: Option<BodySender>,
    pub(super) has_ended: bool,
}

impl Reader {
    /// For the response to this request.
    pub(super) fn new(request: Requested) -> Self {
        let (scanner, head) = (HeadScanner::for_response(), ResponseHead::default());
        Reader { scanner, head, request, body: None, has_ended: false }
    }

    /// Begins with the response of another stream.
    pub(super) fn begin(&mut self, request: Requested) {
        self.scanner.reset();
        self.request = request;
        self.body = None;
        self.has_ended = false;
    }

    /// Whether the request is for a tunnel.
    pub(super) fn is_tunnel(&self) -> bool {
        self.request.is_tunnel
    }

    /// Sends the end of a tunnel, whose bytes have all gone out.
    pub(super) fn end_tunnel(&mut self, codec: &mut Connection, stream: u32) {
        self.has_ended = codec.send_data(stream, &[], true).is_ok();
    }

    /// Sends at most one frame of what `bytes` begin with. Returns how many of them are done with.
    pub(super) fn step(&mut self, codec: &mut Connection, stream: u32, bytes: &[u8]) -> (usize, Step) {
        if self.has_ended {
            return (bytes.len(), Step::Body(Progress::Ended));
        }
        match self.try_step(codec, stream, bytes) {
            Ok((count, step)) => {
                self.has_ended = step == Step::Body(Progress::Ended);
                (count, step)
            }
            Err(_) => (0, Step::Broken),
        }
    }

    fn try_step(&mut self, codec: &mut Connection, stream: u32, bytes: &[u8]) -> Result<(usize, Step), SendError> {
        let Some(body) = &mut self.body else { return self.head(codec, stream, bytes) };
        body.step(codec, stream, bytes).map(|(count, progress)| (count, Step::Body(progress)))
    }

    fn head(&mut self, codec: &mut Connection, stream: u32, bytes: &[u8]) -> Result<(usize, Step), SendError> {
        let Requested { method, is_tunnel } = self.request;
        let broken = |_| SendError::Order;
        let Some(end) = self.scanner.scan(bytes, &LIMITS).map_err(broken)? else {
            return Ok((0, Step::Body(Progress::NeedMore)));
        };
        self.head.parse(bytes, self.scanner.skipped(), end, method, &LIMITS).map_err(broken)?;
        self.scanner.reset();
        let head = &self.head;
        if head.is_interim() {
            codec.send_interim(stream, head.status, fields(&head.fields, bytes))?;
            return Ok((end, Step::Interim));
        }
        if is_tunnel && head.status == 101 {
            // RFC 8441 section 5: the exchange has checked `Sec-WebSocket-Accept`.
            let passes = fields(&head.fields, bytes).filter(|field| field.0 != Known::SecWebSocketAccept);
            codec.send_response(stream, 200, passes, false)?;
            self.body = Some(BodySender::new(BodyKind::UntilClose));
            return Ok((end, Step::Head));
        }
        // Any other success would open the tunnel at the client.
        if is_tunnel && (200..300).contains(&head.status) {
            return Err(SendError::Order);
        }
        // Towards HTTP/1.1 the gateway delimits every body; a switch of protocols was not requested.
        if head.body == BodyKind::UntilClose || head.status < 200 {
            return Err(SendError::Order);
        }
        let is_complete = head.body == BodyKind::None;
        // The head of a gRPC call that has ended is its trailers too: a length would be one of them.
        let is_status = is_complete && head.fields.contains(Known::GrpcStatus);
        let passes = fields(&head.fields, bytes).filter(|field| !(is_status && field.0 == Known::ContentLength));
        codec.send_response(stream, head.status, passes, is_complete)?;
        self.body = Some(BodySender::new(head.body));
        Ok((end, if is_complete { Step::Body(Progress::Ended) } else { Step::Head }))
    }
}

/// The fields of a head but those of the connection; framing is for HTTP/1.1 alone, except a length.
fn fields<'a>(fields: &'a Fields, bytes: &'a [u8]) -> impl Iterator<Item = (Known, &'a [u8], &'a [u8])> {
    let passes = fields.iter().filter(|field| !field.is_hop_by_hop() || field.announces_trailers());
    passes.map(|field| (field.known, field.name.of_buf(bytes), field.value.of_buf(bytes)))
}
