//! Encoders that take a body piece by piece.

use std::fmt;
use std::io::Write;

use brotli::CompressorWriter;
use brotli::enc::BrotliEncoderParams;
use flate2::write::GzEncoder;
use zstd_safe::zstd_sys::ZSTD_EndDirective as Directive;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

use crate::Coding;

/// Largest windows, as powers of two: they decide what an encoder holds.
const ZSTD_WINDOW: u32 = 17;
const BROTLI_WINDOW: u32 = 18;
/// Tables of Zstandard above level 3, which are made for larger windows.
const ZSTD_TABLES: u32 = 17;
/// Room that Zstandard gets to write to, at least.
const ROOM: usize = 4096;

/// An encoder cannot go on: it got no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed;

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the encoder failed")
    }
}

impl std::error::Error for Failed {}

/// One body on its way into a coding. What was [pushed](Self::push) may be held back until [`flush`](Self::flush) or [`finish`](Self::finish).
pub struct Encoder {
    codec: Codec,
    coding: Coding,
    /// Bytes were pushed since the last flush.
    holds: bool,
}

enum Codec {
    Zstd(CCtx<'static>),
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    Gzip(Box<GzEncoder<Vec<u8>>>),
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").field("coding", &self.coding).field("holds", &self.holds).finish_non_exhaustive()
    }
}

impl Encoder {
    /// An encoder for one body. `level` is one of [`Coding::levels`]; `length` is the length of the body, where it is known: it must be
    /// exact.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(coding: Coding, level: u8, length: Option<u64>) -> Result<Self, Failed> {
        let codec = match coding {
            Coding::Zstd => {
                let mut context = CCtx::try_create().ok_or(Failed)?;
                let mut parameters = vec![
                    CParameter::CompressionLevel(i32::from(level)),
                    CParameter::WindowLog(window(ZSTD_WINDOW, length)),
                ];
                if level > 3 && length.is_none_or(|length| length > 1 << ZSTD_TABLES) {
                    parameters.extend([CParameter::HashLog(ZSTD_TABLES), CParameter::ChainLog(ZSTD_TABLES)]);
                }
                for parameter in parameters {
                    context.set_parameter(parameter).map_err(|_| Failed)?;
                }
                context.set_pledged_src_size(length).map_err(|_| Failed)?;
                Codec::Zstd(context)
            }
            Coding::Brotli => {
                let parameters = BrotliEncoderParams {
                    quality: i32::from(level),
                    lgwin: window(BROTLI_WINDOW, length).cast_signed(),
                    size_hint: length.map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX).min(1 << 20)),
                    ..BrotliEncoderParams::default()
                };
                Codec::Brotli(Box::new(CompressorWriter::with_params(Vec::new(), ROOM, &parameters)))
            }
            Coding::Gzip => {
                let level = flate2::Compression::new(u32::from(level));
                Codec::Gzip(Box::new(GzEncoder::new(Vec::new(), level)))
            }
        };
        Ok(Encoder { codec, coding, holds: false })
    }

    /// The coding.
    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// Bytes that it holds outside of Rust's allocator.
    pub fn foreign_memory(&self) -> usize {
        match &self.codec {
            Codec::Zstd(context) => context.sizeof(),
            Codec::Brotli(_) | Codec::Gzip(_) => 0,
        }
    }

    /// Whether it was given bytes that a decoder could not read yet from what it put out.
    pub fn holds_back(&self) -> bool {
        self.holds
    }

    /// Takes a piece of the body; what is ready is appended to `out`.
    ///
    /// # Errors
    /// When the rest of the body cannot be coded.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Failed> {
        self.holds |= !piece.is_empty();
        match &mut self.codec {
            Codec::Zstd(context) => drive(context, piece, out, Directive::ZSTD_e_continue),
            Codec::Brotli(writer) => {
                writer.write_all(piece).map_err(|_| Failed)?;
                out.append(writer.get_mut());
                Ok(())
            }
            Codec::Gzip(writer) => {
                writer.write_all(piece).map_err(|_| Failed)?;
                out.append(writer.get_mut());
                Ok(())
            }
        }
    }

    /// Puts out everything that was pushed, so that a decoder can read it. Costs some bytes each time.
    ///
    /// # Errors
    /// When the rest of the body cannot be coded.
    pub fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Failed> {
        if !std::mem::take(&mut self.holds) {
            return Ok(());
        }
        match &mut self.codec {
            Codec::Zstd(context) => drive(context, &[], out, Directive::ZSTD_e_flush),
            Codec::Brotli(writer) => {
                writer.flush().map_err(|_| Failed)?;
                out.append(writer.get_mut());
                Ok(())
            }
            Codec::Gzip(writer) => {
                writer.flush().map_err(|_| Failed)?;
                out.append(writer.get_mut());
                Ok(())
            }
        }
    }

    /// Ends the body.
    ///
    /// # Errors
    /// When it cannot be ended.
    pub fn finish(self, out: &mut Vec<u8>) -> Result<(), Failed> {
        match self.codec {
            Codec::Zstd(mut context) => drive(&mut context, &[], out, Directive::ZSTD_e_end),
            Codec::Brotli(writer) => {
                out.append(&mut writer.into_inner());
                Ok(())
            }
            Codec::Gzip(writer) => {
                out.append(&mut writer.finish().map_err(|_| Failed)?);
                Ok(())
            }
        }
    }
}

/// The window that a body of this length needs, at most `most`; as a power of two.
fn window(most: u32, length: Option<u64>) -> u32 {
    length.map_or(most, |length| length.max(1).ilog2() + 1).clamp(10, most)
}

fn drive(context: &mut CCtx<'_>, piece: &[u8], out: &mut Vec<u8>, directive: Directive) -> Result<(), Failed> {
    let mut input = InBuffer::around(piece);
    loop {
        out.reserve(ROOM);
        let written = out.len();
        let left = {
            let mut output = OutBuffer::around_pos(out, written);
            context.compress_stream2(&mut output, &mut input, directive).map_err(|_| Failed)?
        };
        let is_done = match directive {
            Directive::ZSTD_e_continue => input.pos() == piece.len(),
            _ => left == 0,
        };
        if is_done {
            return Ok(());
        }
    }
}
