//! One direction of a body: read, decode, frame anew, write.

#[cfg(test)]
mod tests;

use std::io;
use std::task::{Context, Poll, ready};

use h1::{BodyDecoder, BodyEvent, BodyKind, ParseError, encode};
use tokio::io::{AsyncRead, AsyncWrite};

use super::coded::{BYTES_AT_ONCE, Coder, CodingFailed};
use super::mirror::Copy;
use super::trailers::TrailerRules;
use crate::io::buffer::{Buffer, Buffers, LARGE, SMALL};
use crate::io::stream::{COPIED, Outgoing, poll_read};

/// Events of a body, such as chunks, that are decoded before others get their turn: tens of microseconds.
pub(super) const EVENTS: u32 = 2048;

/// Why a body could not be copied.
#[derive(Debug)]
pub enum PumpError {
    /// The source's bytes break a rule.
    Parse(ParseError),
    /// The source closed before the end.
    Truncated,
    /// The source failed.
    Read(io::Error),
    /// The sink failed.
    Write(io::Error),
    /// More than the limit.
    TooLarge,
    /// It could not be coded.
    Coding,
}

impl From<CodingFailed> for PumpError {
    fn from(_: CodingFailed) -> Self {
        PumpError::Coding
    }
}

/// Copies one body from a source to a sink, a buffer at a time: what was read is written before more is read, so memory stays flat
/// and each piece passes at once.
///
/// A request body has one pump from its first byte to its last, whatever happens to the exchange: attempts send from it
/// ([`restart`](Self::restart)), and what no attempt sends is dropped by it ([`skip`](Self::skip)). So there is one decoder, and one
/// position in the client's bytes.
#[derive(Debug)]
pub struct Pump {
    /// How the source frames the body.
    source: BodyKind,
    decoder: BodyDecoder,
    /// Whether the sink gets chunks.
    chunks: bool,
    /// Bytes at the front of the buffer that are being written as they are.
    forwarded: usize,
    /// The end of the body, with its last chunk, is decoded and put out.
    ended: bool,
    /// Body bytes so far, without framing.
    pub bytes: u64,
    /// Most body bytes.
    limit: u64,
    /// Whether the buffer was exchanged for a large one, or need not be.
    is_sized: bool,
    /// Whether bytes were read beyond what the buffer held at first: the body cannot be sent a second time.
    has_read: bool,
    /// What is read stays in the buffer for another attempt, as long as it fits into [`SMALL`] bytes.
    holds: bool,
    /// By which trailers pass; without, they are dropped.
    trailers: Option<TrailerRules>,
    /// What the sink gets is coded by it.
    coder: Option<Box<Coder>>,
    /// What passes is copied there too.
    copy: Option<Box<Copy>>,
    /// Events that were decoded since others had their turn.
    events: u32,
}

impl Pump {
    /// A pump for a body that comes framed as `source` and goes out framed as `sink`.
    #[inline]
    pub fn new(source: BodyKind, sink: BodyKind, limit: Option<u64>) -> Self {
        Pump {
            source,
            decoder: BodyDecoder::new(source),
            chunks: sink == BodyKind::Chunked,
            forwarded: 0,
            ended: source == BodyKind::None,
            bytes: 0,
            limit: limit.unwrap_or(u64::MAX),
            is_sized: source == BodyKind::None,
            has_read: false,
            holds: false,
            trailers: None,
            coder: None,
            copy: None,
            events: 0,
        }
    }

    /// From now on trailers pass by these rules, where both sides are framed in chunks. To be said before the first byte is decoded.
    pub(super) fn forward_trailers(&mut self, rules: TrailerRules) {
        if self.chunks && self.source == BodyKind::Chunked {
            self.decoder.keep_trailers();
            self.trailers = Some(rules);
        }
    }

    /// From now on what is read is kept for another attempt while it fits into a small buffer, also if it comes in pieces.
    pub(super) fn hold(&mut self) {
        self.holds = true;
    }

    /// The trailers of a body that has ended, where they pass.
    pub(super) fn trailers(&self) -> &[u8] {
        self.decoder.trailers()
    }

    /// The sink gets a coded body. To be said before the first byte is decoded.
    pub(super) fn code(&mut self, coder: Option<Box<Coder>>) {
        self.coder = coder;
    }

    /// From now on what passes is copied there too. To be said before the first byte is decoded.
    pub(super) fn copy_to(&mut self, copy: Box<Copy>) {
        self.copy = Some(copy);
    }

    /// Whether what passes is copied.
    #[inline]
    pub(super) fn has_copy(&self) -> bool {
        self.copy.is_some()
    }

    /// The copy of what has passed.
    pub(super) fn take_copy(&mut self) -> Option<Box<Copy>> {
        self.copy.take()
    }

    /// What codes the body, if anything does.
    pub(super) fn coder(&self) -> Option<&Coder> {
        self.coder.as_deref()
    }

    /// Body bytes that the sink gets, without framing.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.coder.as_ref().map_or(self.bytes, |coder| coder.bytes)
    }

    /// Whether the whole body was read and decoded; part of it may still wait to be written.
    pub fn has_read_all(&self) -> bool {
        self.ended
    }

    /// Whether it waits for its sink, whose bytes are put together in `out`; else for its source.
    pub fn waits_for_sink(&self, out: &Outgoing) -> bool {
        self.forwarded > 0 || !out.is_empty()
    }

    /// What lies at the front of `buffer` to be written as it is.
    pub fn piece<'b>(&self, buffer: &'b Buffer) -> &'b [u8] {
        &buffer.filled()[..self.forwarded]
    }

    /// Whether all that was taken so far still lies in the source's buffer.
    pub fn is_replayable(&self) -> bool {
        !self.has_read
    }

    /// Goes back to the first byte of a body that is forwarded with the framing it came with; that byte lies at `start` of `buffer`. False,
    /// and nothing changes, when a part of the body is no longer there.
    #[must_use]
    pub fn restart(&mut self, buffer: &mut Buffer, start: usize, limit: Option<u64>) -> bool {
        if self.has_read {
            return false;
        }
        buffer.seek(start);
        // Without a body there is nothing to go back over, and most requests have none.
        if self.source == BodyKind::None {
            return true;
        }
        let trailers = self.trailers.take();
        let copy = self.copy.take();
        *self = Pump::new(self.source, self.source, limit);
        self.copy = copy;
        if let Some(copy) = &mut self.copy {
            copy.restart();
        }
        if let Some(rules) = trailers {
            self.forward_trailers(rules);
        }
        true
    }

    /// Drops what `buffer` holds of the body, also what was meant for a sink and is not written: afterwards the buffer begins with the first byte
    /// behind the body (`Ok(true)`), or holds nothing more of it (`Ok(false)`).
    ///
    /// # Errors
    /// The rule that the body breaks: where it ends cannot be known.
    #[inline]
    pub fn skip(&mut self, buffer: &mut Buffer) -> Result<bool, ParseError> {
        buffer.consume(std::mem::take(&mut self.forwarded));
        while !self.ended {
            let (consumed, event) = self.decoder.decode(buffer.filled())?;
            buffer.consume(consumed);
            match event {
                BodyEvent::Data(range) => self.bytes += range.len() as u64,
                BodyEvent::NeedMore => break,
                BodyEvent::End => self.ended = true,
            }
        }
        Ok(self.ended)
    }

    /// Body bytes that were not decoded yet, where that is known.
    pub fn remaining(&self) -> Option<u64> {
        self.decoder.remaining()
    }

    /// Decodes what `buffer` holds and puts it in front of the sink: small pieces are appended to `out`, a large plain one is left in
    /// place and counted in `forwarded`.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn take(&mut self, buffer: &mut Buffer, out: &mut Outgoing) -> Result<(), PumpError> {
        if self.coder.is_some() {
            return self.take_coded(buffer, out);
        }
        while self.forwarded == 0 && !self.ended {
            let (consumed, event) = self.decoder.decode(buffer.filled()).map_err(PumpError::Parse)?;
            self.events += 1;
            match event {
                BodyEvent::NeedMore => {
                    buffer.consume(consumed);
                    return Ok(());
                }
                BodyEvent::End => {
                    buffer.consume(consumed);
                    self.end(out);
                }
                BodyEvent::Data(range) => {
                    self.bytes += range.len() as u64;
                    if self.bytes > self.limit {
                        // The decoder has passed them, so the buffer does.
                        buffer.consume(consumed);
                        return Err(PumpError::TooLarge);
                    }
                    if let Some(copy) = &mut self.copy {
                        copy.push(&buffer.filled()[range.clone()]);
                    }
                    if self.chunks {
                        encode::chunk(&mut out.bytes, &buffer.filled()[range]);
                        buffer.consume(consumed);
                    } else if range.len() <= COPIED || range.len() != consumed {
                        out.bytes.extend_from_slice(&buffer.filled()[range]);
                        buffer.consume(consumed);
                    } else {
                        self.forwarded = consumed;
                    }
                    // A plain body knows its end without another look.
                    if self.decoder.is_done() {
                        self.end(out);
                    }
                }
            }
        }
        Ok(())
    }

    /// The same for a body that is coded: as much as one event-loop iteration allows.
    #[cold]
    fn take_coded(&mut self, buffer: &mut Buffer, out: &mut Outgoing) -> Result<(), PumpError> {
        let Some(coder) = &mut self.coder else { return Ok(()) };
        let mut ends = false;
        while !self.ended && !ends && coder.left > 0 && self.events <= EVENTS && !buffer.is_empty() {
            let piece = &buffer.filled()[..buffer.filled().len().min(coder.left)];
            let (consumed, event) = self.decoder.decode(piece).map_err(PumpError::Parse)?;
            self.events += 1;
            if let BodyEvent::Data(range) = &event {
                self.bytes += range.len() as u64;
                coder.push(&piece[range.clone()])?;
            }
            ends = matches!(event, BodyEvent::End) || self.decoder.is_done();
            buffer.consume(consumed);
        }
        if ends {
            coder.finish()?;
        }
        coder.put_out(self.chunks, &mut out.bytes);
        if ends {
            self.end(out);
        }
        Ok(())
    }

    /// The source pauses: what was taken so far must not wait for more. False if there is nothing to put out.
    fn flush_coded(&mut self, out: &mut Outgoing) -> Result<bool, PumpError> {
        let Some(coder) = &mut self.coder else { return Ok(false) };
        coder.left = BYTES_AT_ONCE;
        if !coder.holds_back() {
            return Ok(false);
        }
        coder.flush()?;
        coder.put_out(self.chunks, &mut out.bytes);
        Ok(!out.is_empty())
    }

    /// The end of the source's connection is the end of the body.
    fn close(&mut self, out: &mut Outgoing) -> Result<(), PumpError> {
        self.decoder.close().map_err(|_| PumpError::Truncated)?;
        if let Some(coder) = &mut self.coder {
            coder.finish()?;
            coder.put_out(self.chunks, &mut out.bytes);
        }
        self.end(out);
        Ok(())
    }

    fn end(&mut self, out: &mut Outgoing) {
        self.ended = true;
        if self.chunks {
            match (&self.trailers, self.decoder.trailers()) {
                (Some(rules), lines @ [_, ..]) => {
                    encode::begin_trailers(&mut out.bytes);
                    rules.write(&mut out.bytes, lines);
                    encode::end_head(&mut out.bytes);
                }
                _ => encode::last_chunk(&mut out.bytes),
            }
        }
    }

    /// Copies what can be copied now. Ready when the whole body is written.
    ///
    /// `keep` is the end of a head in `buffer` whose spans are still in use. `progress` is called whenever bytes moved.
    ///
    /// # Errors
    /// Which side failed, and how.
    pub fn poll<S: AsyncRead + Unpin, D: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &Buffers,
        source: (&mut S, &mut Buffer, usize),
        sink: (&mut D, &mut Outgoing),
        progress: &mut bool,
    ) -> Poll<Result<(), PumpError>> {
        let (source, buffer, keep) = source;
        let (sink, out) = sink;
        loop {
            self.take(buffer, out)?;
            if self.forwarded > 0 || !out.is_empty() {
                let before = out.written();
                let poll = out.poll_write(cx, sink, &buffer.filled()[..self.forwarded]);
                // Any byte that the kernel takes is progress, however large the piece is.
                *progress |= poll.is_ready() || out.written() > before;
                ready!(poll).map_err(PumpError::Write)?;
                buffer.consume(self.forwarded);
                self.forwarded = 0;
                // The end may have come with the piece that was just written.
                continue;
            }
            if self.ended {
                return Poll::Ready(Ok(()));
            }
            // Others first, where a piece takes long: bodies that are coded, and bodies in tiny chunks.
            if self.events > EVENTS || self.coder.as_ref().is_some_and(|coder| coder.left == 0) {
                self.begin_iteration();
                *progress = true;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if !self.holds || buffer.whole().len() >= SMALL || !buffer.has_space() {
                buffer.rewind(keep);
                // Even a read that returns nothing yet comes after the rewind.
                self.has_read = true;
            }
            self.size(buffers, buffer);
            match poll_read(cx, source, buffer) {
                Poll::Pending if self.flush_coded(out)? => continue,
                Poll::Pending => {
                    self.events = 0;
                    buffers.release(buffer);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(0)) => self.close(out)?,
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(PumpError::Read(error))),
            }
            *progress = true;
        }
    }

    fn begin_iteration(&mut self) {
        self.events = 0;
        if let Some(coder) = &mut self.coder {
            coder.left = BYTES_AT_ONCE;
        }
    }

    /// Sees to it that there is room to read, more of it when the body is known or seen to be large.
    fn size(&mut self, buffers: &Buffers, buffer: &mut Buffer) {
        let is_lent = !buffer.is_held();
        if is_lent {
            *buffer = buffers.small();
        }
        let is_large = match self.decoder.remaining() {
            Some(remaining) => remaining > (buffer.size() as u64),
            None => self.bytes > (COPIED as u64) * 2,
        };
        if ((is_lent || !self.is_sized) && is_large && buffer.size() < LARGE) || !buffer.has_space() {
            buffers.grow(buffer);
        }
        self.is_sized |= is_large;
    }
}
