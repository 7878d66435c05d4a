//! Frames (RFC 9113 section 4).

/// What a client sends first (section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes of a frame header.
pub(crate) const HEADER: usize = 9;
/// Largest payload accepted and sent.
pub(crate) const MAX_PAYLOAD: usize = 16_384;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
/// RFC 9218 section 7.1.
pub(crate) const PRIORITY_UPDATE: u8 = 16;

pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
pub(crate) const PADDED: u8 = 0x8;
pub(crate) const PRIORITY_FLAG: u8 = 0x20;

/// A frame header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) length: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl Header {
    #[inline]
    pub(crate) fn read(input: &[u8]) -> Option<Header> {
        let &[a, b, c, kind, flags, s0, s1, s2, s3] = input.first_chunk::<HEADER>()?;
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        Some(Header { length, kind, flags, stream: u32::from_be_bytes([s0, s1, s2, s3]) & 0x7fff_ffff })
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Bytes of a frame header.
#[inline]
pub(crate) fn header(length: usize, kind: u8, flags: u8, stream: u32) -> [u8; HEADER] {
    let [_, a, b, c] = (length as u32).to_be_bytes();
    let [s0, s1, s2, s3] = stream.to_be_bytes();
    [a, b, c, kind, flags, s0, s1, s2, s3]
}

/// The payload without padding (section 6.1), and where it starts; `None` if the padding is longer than the payload.
#[inline]
pub(crate) fn unpad(payload: &[u8], header: &Header) -> Option<(usize, usize)> {
    if !header.has(PADDED) {
        return Some((0, payload.len()));
    }
    let padding = usize::from(*payload.first()?);
    let end = payload.len().checked_sub(padding)?;
    (end >= 1).then_some((1, end))
}

/// The 32 bits that `bytes` begin with.
pub(crate) fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|word| u32::from_be_bytes(*word))
}
