//! A body on its way into a content coding, a bounded piece at a time.

use ::compress::{Coding, Encoder};

use crate::policy::compress::Held;

/// Bytes of a body that are coded before others get their turn: about a millisecond of the slowest coding.
pub(super) const BYTES_AT_ONCE: usize = 32 * 1024;

/// One body being coded.
#[derive(Debug)]
pub struct Coder {
    /// Gone once the body has ended.
    encoder: Option<Encoder>,
    coding: Coding,
    /// Coded bytes on their way out.
    coded: Vec<u8>,
    /// Bytes that may still be taken in this event-loop iteration.
    pub(super) left: usize,
    /// Bytes that came out.
    pub(super) bytes: u64,
    held: Held,
}

/// The encoder failed: it got no memory.
#[derive(Debug)]
pub struct CodingFailed;

impl Coder {
    /// Codes with this encoder.
    pub fn new((encoder, held): (Encoder, Held)) -> Self {
        let coding = encoder.coding();
        Coder { encoder: Some(encoder), coding, coded: Vec::new(), left: BYTES_AT_ONCE, bytes: 0, held }
    }

    /// The coding.
    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// Whether something was taken that a client cannot read yet.
    pub(super) fn holds_back(&self) -> bool {
        self.encoder.as_ref().is_some_and(Encoder::holds_back)
    }

    /// Takes a piece of the body.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<(), CodingFailed> {
        self.left = self.left.saturating_sub(piece.len());
        match &mut self.encoder {
            Some(encoder) => encoder.push(piece, &mut self.coded).map_err(|_| CodingFailed),
            None => Err(CodingFailed),
        }
    }

    /// Makes everything readable that was taken.
    pub(super) fn flush(&mut self) -> Result<(), CodingFailed> {
        match &mut self.encoder {
            Some(encoder) => encoder.flush(&mut self.coded).map_err(|_| CodingFailed),
            None => Ok(()),
        }
    }

    /// Ends the body; what the encoder held is free again.
    pub(super) fn finish(&mut self) -> Result<(), CodingFailed> {
        let Some(encoder) = self.encoder.take() else { return Ok(()) };
        encoder.finish(&mut self.coded).map_err(|_| CodingFailed)?;
        self.held.release();
        Ok(())
    }

    /// Appends what is coded, in chunks or plain.
    pub(super) fn put_out(&mut self, chunks: bool, out: &mut Vec<u8>) {
        if self.coded.is_empty() {
            return;
        }
        self.bytes += self.coded.len() as u64;
        if chunks {
            h1::encode::chunk(out, &self.coded);
        } else {
            out.extend_from_slice(&self.coded);
        }
        self.coded.clear();
    }
}
