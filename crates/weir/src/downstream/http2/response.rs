//! From the HTTP/1.1 response that the exchange writes to frames, as the bytes come.

use ::http2::{Connection, SendError};
use h1::{BodyDecoder, BodyEvent, BodyKind, Fields, HeadScanner, Known, Limits, Method, ResponseHead, trailer_fields};

/// Heads that the gateway writes: what an upstream may send, and what policies add.
const LIMITS: Limits = Limits { start_line: 16 * 1024, head: 512 * 1024, fields: Limits::MAX_FIELDS };

/// What a call of [`Reader::step`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Something went out; there may be more.
    Sent,
    /// An interim head went out.
    Interim,
    /// The final head went out.
    Head,
    /// The client's window is empty.
    Blocked,
    /// The exchange has to write more.
    NeedMore,
    /// The response is complete.
    Ended,
    /// The stream is over, or the response is none.
    Broken,
}

/// Reads one response.
#[derive(Debug)]
pub(super) struct Reader {
    scanner: HeadScanner,
    head: ResponseHead,
    /// Once the final head was read.
    body: Option<BodyDecoder>,
    /// Body bytes at the front of what the exchange wrote.
    pending: usize,
    pub(super) has_ended: bool,
}

impl Default for Reader {
    fn default() -> Self {
        Reader {
            scanner: HeadScanner::for_response(),
            head: ResponseHead::default(),
            body: None,
            pending: 0,
            has_ended: false,
        }
    }
}

impl Reader {
    /// Begins with the response of another stream.
    pub(super) fn clear(&mut self) {
        self.scanner.reset();
        self.body = None;
        self.pending = 0;
        self.has_ended = false;
    }

    /// Sends at most one frame of what `bytes` begin with. Returns how many of them are done with.
    pub(super) fn step(&mut self, codec: &mut Connection, stream: u32, method: Method, bytes: &[u8]) -> (usize, Step) {
        if self.has_ended {
            return (bytes.len(), Step::Ended);
        }
        match self.try_step(codec, stream, method, bytes) {
            Ok((count, step)) => {
                self.has_ended = step == Step::Ended;
                (count, step)
            }
            Err(_) => (0, Step::Broken),
        }
    }

    fn try_step(
        &mut self,
        codec: &mut Connection,
        stream: u32,
        method: Method,
        bytes: &[u8],
    ) -> Result<(usize, Step), SendError> {
        let Some(decoder) = &mut self.body else { return self.head(codec, stream, method, bytes) };
        if self.pending == 0 {
            let (consumed, event) = decoder.decode(bytes).map_err(|_| SendError::Order)?;
            return Ok(match event {
                BodyEvent::NeedMore => (consumed, Step::NeedMore),
                BodyEvent::Data(range) => {
                    self.pending = range.len();
                    (range.start, Step::Sent)
                }
                BodyEvent::End => {
                    match decoder.trailers() {
                        [] => {
                            codec.send_data(stream, &[], true)?;
                        }
                        lines => codec.send_trailers(stream, trailer_fields(lines))?,
                    }
                    (consumed, Step::Ended)
                }
            });
        }
        // The end goes with the last data where it is known already.
        let behind = bytes.get(self.pending..).unwrap_or_default();
        let end = match decoder.is_done() {
            true => Some(0),
            false => {
                let mut ahead = decoder.clone();
                match ahead.decode(behind) {
                    Ok((consumed, BodyEvent::End)) if ahead.trailers().is_empty() => Some(consumed),
                    _ => None,
                }
            }
        };
        let data = bytes.get(..self.pending).unwrap_or_default();
        let count = codec.send_data(stream, data, end.is_some())?;
        if count == 0 {
            return Ok((0, Step::Blocked));
        }
        self.pending -= count;
        Ok(match end {
            Some(consumed) if self.pending == 0 => (count + consumed, Step::Ended),
            _ => (count, Step::Sent),
        })
    }

    fn head(
        &mut self,
        codec: &mut Connection,
        stream: u32,
        method: Method,
        bytes: &[u8],
    ) -> Result<(usize, Step), SendError> {
        let broken = |_| SendError::Order;
        let Some(end) = self.scanner.scan(bytes, &LIMITS).map_err(broken)? else { return Ok((0, Step::NeedMore)) };
        self.head.parse(bytes, self.scanner.skipped(), end, method, &LIMITS).map_err(broken)?;
        self.scanner.reset();
        let head = &self.head;
        if head.is_interim() {
            codec.send_interim(stream, head.status, fields(&head.fields, bytes))?;
            return Ok((end, Step::Interim));
        }
        // Towards HTTP/1.1 the gateway delimits every body; a switch of protocols was not asked for.
        if head.body == BodyKind::UntilClose || head.status < 200 {
            return Err(SendError::Order);
        }
        let is_complete = head.body == BodyKind::None;
        // The head of a gRPC call that has ended is its trailers too: a length would be one of them.
        let is_status = is_complete && head.fields.contains(Known::GrpcStatus);
        let passes = fields(&head.fields, bytes).filter(|field| !(is_status && field.0 == Known::ContentLength));
        codec.send_response(stream, head.status, passes, is_complete)?;
        let mut decoder = BodyDecoder::new(head.body);
        decoder.keep_trailers();
        self.body = Some(decoder);
        Ok((end, if is_complete { Step::Ended } else { Step::Head }))
    }
}

/// The fields of a head but those of the connection; framing is for HTTP/1.1 alone, except a length.
fn fields<'a>(fields: &'a Fields, bytes: &'a [u8]) -> impl Iterator<Item = (Known, &'a [u8], &'a [u8])> {
    let passes = fields.iter().filter(|field| !field.is_hop_by_hop());
    passes.map(|field| (field.known, field.name.of_buf(bytes), field.value.of_buf(bytes)))
}
