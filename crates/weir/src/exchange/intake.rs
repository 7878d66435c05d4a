//! A reply's body on its way into the cache: read, decode, hand on.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h1::{BodyDecoder, BodyEvent, BodyKind};
use tokio::io::AsyncRead;

use super::pump::{EVENTS, PumpError};
use crate::io::buffer::{Buffer, Buffers, LARGE};
use crate::io::stream::poll_read;
use crate::policy::cache::fill::Fill;
use crate::runtime::clock;

/// Reads one body to its end.
#[derive(Debug)]
pub struct Intake {
    decoder: BodyDecoder,
    ended: bool,
    /// Nothing is read until those who read what was read take more.
    pub waits_for_room: bool,
    /// Body bytes so far.
    pub bytes: u64,
}

impl Intake {
    /// For a body that comes framed like this.
    pub fn new(kind: BodyKind) -> Self {
        Intake { decoder: BodyDecoder::new(kind), ended: kind == BodyKind::None, waits_for_room: false, bytes: 0 }
    }

    /// Reads what can be read now. Ready when the whole body was handed on. `progress` is set whenever bytes came.
    ///
    /// # Errors
    /// How the source failed.
    pub fn poll<S: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &Buffers,
        (source, buffer): (&mut S, &mut Buffer),
        fill: &Fill,
        progress: &mut bool,
    ) -> Poll<Result<(), PumpError>> {
        let mut events = 0;
        loop {
            events += self.take(buffer, fill)?;
            if self.ended {
                return Poll::Ready(Ok(()));
            }
            if events > EVENTS {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.waits_for_room = fill.poll_room(cx, clock::loop_ns()).is_pending();
            if self.waits_for_room {
                return Poll::Pending;
            }
            buffer.rewind(0);
            let is_large = match self.decoder.remaining() {
                Some(remaining) => remaining > buffer.size() as u64,
                None => self.bytes > buffer.size() as u64,
            };
            if !buffer.has_space() || (is_large && buffer.size() < LARGE) {
                buffers.grow(buffer);
            }
            let read = poll_read(cx, source, buffer);
            if read.is_pending() {
                buffers.release(buffer);
            }
            match ready!(read) {
                Ok(0) => {
                    self.decoder.close().map_err(|_| PumpError::Truncated)?;
                    self.ended = true;
                }
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(PumpError::Read(error))),
            }
            *progress = true;
        }
    }

    /// Hands on what `buffer` holds, in one piece, however small the chunks are in which it came. Returns how many events it was.
    fn take(&mut self, buffer: &mut Buffer, fill: &Fill) -> Result<u32, PumpError> {
        let mut events = 0;
        let mut first: Option<Bytes> = None;
        let mut more = Vec::new();
        while !self.ended {
            let (consumed, event) = self.decoder.decode(buffer.filled()).map_err(PumpError::Parse)?;
            events += 1;
            match event {
                BodyEvent::NeedMore => {
                    buffer.consume(consumed);
                    break;
                }
                BodyEvent::End => self.ended = true,
                BodyEvent::Data(range) => {
                    self.bytes += range.len() as u64;
                    let data = &buffer.filled()[range];
                    match &first {
                        None => first = Some(Bytes::copy_from_slice(data)),
                        Some(first) => {
                            if more.is_empty() {
                                more.extend_from_slice(first);
                            }
                            more.extend_from_slice(data);
                        }
                    }
                    // A plain body knows its end without another look.
                    self.ended = self.decoder.is_done();
                }
            }
            buffer.consume(consumed);
        }
        match first {
            // Of the exact length: that is what is counted.
            _ if !more.is_empty() => fill.push(more.into_boxed_slice().into()),
            Some(first) => fill.push(first),
            None => {}
        }
        Ok(events)
    }
}
