//! From the HTTP/1.1 request that the exchange writes to frames, as the bytes come.

use ::http2::{Connection, RequestLine, SendError};
use h1::{BodyKind, HeadScanner, Known, Limits, Method, RequestHead};

use crate::http::websocket;
use crate::streams::body::{BodySender, Progress};

/// Heads that the gateway writes: what a client may send, and what policies add.
const LIMITS: Limits = Limits { start_line: 1 << 20, head: 4 << 20, fields: Limits::MAX_FIELDS };

/// What a call of [`Reader::step`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The head went out, on this stream.
    Head(u32),
    /// What became of the body, or of a head that cannot go out yet.
    Body(Progress),
    /// The request is for a WebSocket, and the target does not offer extended CONNECT (RFC 8441).
    NoTunnel,
    /// The stream is over, or the request is none.
    Broken,
}

/// Reads one request.
#[derive(Debug)]
pub(super) struct Reader {
    scanner: HeadScanner,
    head: RequestHead,
    /// Once the head was read.
    body: Option<BodySender>,
    /// Of a request for a WebSocket: `Sec-WebSocket-Accept` of the 101 that the exchange gets if the target agrees.
    accept: Option<String>,
    pub(super) has_ended: bool,
}

impl Default for Reader {
    fn default() -> Self {
        let (scanner, head) = (HeadScanner::new(), RequestHead::default());
        Reader { scanner, head, body: None, accept: None, has_ended: false }
    }
}

impl Reader {
    /// Begins with another request.
    pub(super) fn clear(&mut self) {
        self.scanner.reset();
        self.body = None;
        self.accept = None;
        self.has_ended = false;
    }

    /// Of a request for a WebSocket that went out: `Sec-WebSocket-Accept` that shows that its key was read.
    pub(super) fn accept(&self) -> Option<&str> {
        self.accept.as_deref()
    }

    /// Ends the direction to the target: that of a tunnel, behind all bytes of it, or that of a refused one.
    pub(super) fn end_tunnel(&mut self, codec: &mut Connection, stream: u32) {
        self.has_ended = codec.send_data(stream, &[], true).is_ok();
    }

    /// The method, once the head was read.
    pub(super) fn method(&self) -> Method {
        self.head.method
    }

    /// Whether the request says that trailers are taken.
    pub(super) fn accepts_trailers(&self) -> bool {
        self.head.fields.contains(Known::Te)
    }

    /// Sends at most one frame of what `bytes` begin with. Returns how many of them are done with.
    pub(super) fn step(
        &mut self,
        codec: &mut Connection,
        stream: u32,
        scheme: &'static [u8],
        bytes: &[u8],
    ) -> (usize, Step) {
        if self.has_ended {
            return (bytes.len(), Step::Body(Progress::Ended));
        }
        let result = match &mut self.body {
            Some(body) => body.step(codec, stream, bytes).map(|(count, progress)| (count, Step::Body(progress))),
            None => self.head(codec, scheme, bytes),
        };
        let (count, step) = result.unwrap_or((0, Step::Broken));
        self.has_ended |= step == Step::Body(Progress::Ended);
        (count, step)
    }

    fn head(&mut self, codec: &mut Connection, scheme: &[u8], bytes: &[u8]) -> Result<(usize, Step), SendError> {
        let broken = |_| SendError::Order;
        let Some(end) = self.scanner.scan(bytes, &LIMITS).map_err(broken)? else {
            return Ok((0, Step::Body(Progress::NeedMore)));
        };
        if codec.available_streams() == 0 {
            self.scanner.reset();
            return Ok((0, Step::Body(Progress::Blocked)));
        }
        self.head.parse(bytes, self.scanner.skipped(), end, &LIMITS).map_err(broken)?;
        self.scanner.reset();
        let head = &self.head;
        // The exchange writes `Upgrade` for nothing else, and it has checked the key.
        let is_tunnel = head.upgrade && head.fields.first(Known::Upgrade, bytes) == Some(websocket::NAME);
        if is_tunnel && !codec.has_peer_settings() {
            return Ok((0, Step::Body(Progress::Blocked)));
        }
        if is_tunnel && !codec.peer_offers_extended_connect() {
            return Ok((0, Step::NoTunnel));
        }
        let target = head.path.start as usize..head.query.unwrap_or(head.path).end as usize;
        let line = RequestLine {
            method: if is_tunnel { b"CONNECT" } else { head.method_name.of_buf(bytes) },
            scheme,
            authority: head.authority.map_or(&b""[..], |authority| authority.of_buf(bytes)),
            path: bytes.get(target).ok_or(SendError::Order)?,
            protocol: is_tunnel.then_some(websocket::NAME),
        };
        // The codec leaves Host out, and of TE what is not "trailers", the one value that HTTP/2 knows (RFC 9113 section 8.2.2).
        let passes = head
            .fields
            .iter()
            .filter(|field| !field.is_hop_by_hop() || field.known == Known::Te || field.announces_trailers());
        // RFC 8441 section 5: HTTP/2 has no use for the key.
        let passes = passes.filter(|field| !is_tunnel || field.known != Known::SecWebSocketKey);
        let fields = passes.map(|field| (field.known, field.name.of_buf(bytes), field.value.of_buf(bytes)));
        if is_tunnel {
            let stream = codec.send_request(line, fields, false)?;
            let key = head.fields.first(Known::SecWebSocketKey, bytes).unwrap_or_default();
            self.accept = Some(websocket::accept(key));
            self.body = Some(BodySender::new(BodyKind::UntilClose));
            return Ok((end, Step::Head(stream)));
        }
        let stream = codec.send_request(line, fields, head.body == BodyKind::None)?;
        self.has_ended = head.body == BodyKind::None;
        self.body = Some(BodySender::new(head.body));
        Ok((end, Step::Head(stream)))
    }
}
