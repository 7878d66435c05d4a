//! HPACK: compression of field sections (RFC 7541).

mod decode;
mod encode;
pub mod huffman;
mod sensitive;
mod static_table;
mod table;

pub use decode::Decoder;
pub use encode::Encoder;
pub use sensitive::SensitiveNames;

pub(crate) use table::Kind;

/// A rule of RFC 7541 that a field block breaks: always a connection error COMPRESSION_ERROR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HpackError {
    /// An integer beyond 28 bits, or one that goes on for no reason (5.1).
    Integer,
    /// The block ends within a representation.
    Truncated,
    /// Invalid Huffman code or padding (5.2).
    Huffman,
    /// An index without an entry (2.3.3).
    Index,
    /// A size update above the limit, not at the start of the block, a third one, or none where one is due (4.2, 6.3).
    SizeUpdate,
}

/// Where the decoder puts fields.
pub trait Sink {
    /// The arena to which a field line is about to be appended.
    fn text(&mut self) -> &mut Vec<u8>;
    /// A line was appended at `start`: `name: value CRLF`. `kind` says what the name is, or what is wrong with it.
    fn line(&mut self, start: usize, name_len: usize, known: message::Known, kind: FieldKind);
}

/// What a decoded field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldKind(pub(crate) Kind);

#[cfg(test)]
mod tests;
