//! Positions in a head's buffer.

use std::ops::Range;

/// A run of bytes in the buffer that a head was parsed from. Spans survive a move of the buffer, slices would not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// A span of `start..end`; both below 4 GiB, which the limits on heads guarantee.
    pub fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end && end <= u32::MAX as usize);
        Span { start: start as u32, end: end as u32 }
    }

    /// The span of `part`, which must be a slice of `whole`.
    pub(crate) fn of(part: &[u8], whole: &[u8]) -> Self {
        let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
        Span::new(start, start + part.len())
    }

    /// The bytes; `buf` is the buffer that the head was parsed from.
    #[inline]
    pub fn of_buf<'a>(&self, buf: &'a [u8]) -> &'a [u8] {
        &buf[self.start as usize..self.end as usize]
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// As a range of indices.
    pub fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}
