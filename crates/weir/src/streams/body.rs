//! Bodies and trailers between the HTTP/1.1 of the exchange and frames.

use ::http2::{Connection, SendError};
use h1::{BodyDecoder, BodyEvent, BodyKind, trailer_fields};
use message::Fields;

/// What a call of [`BodySender::step`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Something went out, or framing was read; there may be more.
    Sent,
    /// The peer's windows allow nothing now.
    Blocked,
    /// The exchange has to write more.
    NeedMore,
    /// The body is complete, its trailers included.
    Ended,
}

/// Sends the body that the exchange writes in the framing of HTTP/1.1.
#[derive(Debug)]
pub struct BodySender {
    decoder: BodyDecoder,
    /// Body bytes at the front of what the exchange wrote.
    pending: usize,
}

impl BodySender {
    /// Begins with a body of this kind.
    pub fn new(kind: BodyKind) -> Self {
        let mut decoder = BodyDecoder::new(kind);
        decoder.keep_trailers();
        BodySender { decoder, pending: 0 }
    }

    /// Sends at most one frame of what `bytes` begin with. Returns how many of them are done with.
    ///
    /// # Errors
    /// When the stream is over, or the bytes are no body.
    pub fn step(&mut self, codec: &mut Connection, stream: u32, bytes: &[u8]) -> Result<(usize, Progress), SendError> {
        if self.pending == 0 {
            let (consumed, event) = self.decoder.decode(bytes).map_err(|_| SendError::Order)?;
            return Ok(match event {
                BodyEvent::NeedMore => (consumed, Progress::NeedMore),
                BodyEvent::Data(range) => {
                    self.pending = range.len();
                    (range.start, Progress::Sent)
                }
                BodyEvent::End => {
                    match self.decoder.trailers() {
                        [] => {
                            codec.send_data(stream, &[], true)?;
                        }
                        lines => codec.send_trailers(stream, trailer_fields(lines))?,
                    }
                    (consumed, Progress::Ended)
                }
            });
        }
        let end = self.end_behind(bytes.get(self.pending..).unwrap_or_default());
        let data = bytes.get(..self.pending).unwrap_or_default();
        let count = codec.send_data(stream, data, end.is_some())?;
        if count == 0 {
            return Ok((0, Progress::Blocked));
        }
        self.pending -= count;
        Ok(match end {
            Some(consumed) if self.pending == 0 => (count + consumed, Progress::Ended),
            _ => (count, Progress::Sent),
        })
    }

    /// How many bytes behind the pending data end the body, where that is known already: then the end goes with the last data.
    fn end_behind(&self, behind: &[u8]) -> Option<usize> {
        if self.decoder.is_done() {
            return Some(0);
        }
        let mut ahead = self.decoder.clone();
        match ahead.decode(behind) {
            Ok((consumed, BodyEvent::End)) if ahead.trailers().is_empty() => Some(consumed),
            _ => None,
        }
    }
}

/// Appends the lines of a trailer section that the codec has validated.
pub fn write_trailers(out: &mut Vec<u8>, trailers: &Fields, text: &[u8]) {
    for field in trailers.iter().filter(|field| !field.is_hop_by_hop()) {
        out.extend_from_slice(field.line().of_buf(text));
    }
}
