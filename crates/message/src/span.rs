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
    /// Largest position. Heads are far smaller; a buffer that holds one could be larger.
    pub const MAX: usize = u32::MAX as usize;

    /// A span of `start..end`, in order and no larger than [`Span::MAX`], which the parsers check once for the whole head.
    #[inline]
    pub fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end && end <= Span::MAX);
        Span { start: start as u32, end: end as u32 }
    }

    /// The bytes; `buf` is the buffer that the head was parsed from.
    ///
    /// # Panics
    /// If `buf` is another, shorter buffer.
    #[inline]
    pub fn of_buf<'a>(&self, buf: &'a [u8]) -> &'a [u8] {
        &buf[self.range()]
    }

    /// Number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As a range of indices.
    #[inline]
    pub fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}
