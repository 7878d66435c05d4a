//! Read buffers and the per-worker store that lends them out.
//!
//! A connection holds a buffer only while it has bytes in it that are needed: one that waits for a peer holds none, or a tiny one with the head of the
//! request, which is what keeps ten thousand idle connections and open streams small. Buffers are zeroed once, when they are made, and reused as they are.

use std::cell::RefCell;

/// Size of a buffer for the head of a request that waits for its response, where that fits.
pub const TINY: usize = 768;
/// Size of an ordinary buffer: larger than most messages, so that one read takes a message whole and the runtime knows,
/// from the space left, that there is nothing more to read.
pub const SMALL: usize = 16 * 1024;
/// Size of a buffer for large bodies: fewer system calls a byte. Above the largest head that the default limits allow.
pub const LARGE: usize = 128 * 1024;

/// Free buffers of each size that a worker keeps.
const KEPT_TINY: usize = 1024;
const KEPT_SMALL: usize = 256;
const KEPT_LARGE: usize = 32;

/// Initialised bytes with a filled region.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Buffer {
    fn with_size(size: usize) -> Self {
        Buffer { bytes: vec![0; size].into_boxed_slice(), start: 0, end: 0 }
    }

    /// A buffer that holds just these bytes, consumed, as a head in use is.
    pub fn of(bytes: &[u8]) -> Self {
        Buffer { bytes: bytes.into(), start: bytes.len(), end: bytes.len() }
    }

    /// What was read and not consumed.
    #[inline]
    pub fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Everything up to the end of the filled region, consumed bytes included: spans of a head index into this.
    #[inline]
    pub fn whole(&self) -> &[u8] {
        &self.bytes[..self.end]
    }

    /// Where a read may put bytes.
    #[inline]
    pub fn space(&mut self) -> &mut [u8] {
        &mut self.bytes[self.end..]
    }

    /// Whether there is room to read into.
    pub fn has_space(&self) -> bool {
        self.end < self.bytes.len()
    }

    /// How much there is room for.
    pub fn room(&self) -> usize {
        self.bytes.len() - self.end
    }

    /// Takes `count` bytes of the space into the filled region.
    #[inline]
    pub fn fill(&mut self, count: usize) {
        self.end += count;
        debug_assert!(self.end <= self.bytes.len());
    }

    /// Takes `count` bytes off the front of the filled region.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
    }

    /// Index of the first byte that is not consumed.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Whether nothing is left to consume.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether it holds memory at all.
    pub fn is_held(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Bytes that it can hold.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// When all is consumed down to `keep`, frees the space behind `keep`. `keep` is the end of a head whose spans are
    /// still in use.
    #[inline]
    pub fn rewind(&mut self, keep: usize) {
        if self.start == self.end && self.start > keep {
            self.start = keep;
            self.end = keep;
        }
    }

    /// Goes back (or forth) to `start`: what lies there counts as not consumed again.
    pub fn seek(&mut self, start: usize) {
        debug_assert!(start <= self.end);
        self.start = start;
    }

    /// Moves what is left to the front; spans into the buffer die.
    pub fn compact(&mut self) {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
    }

    /// What it holds, in another buffer that has room for it; positions stay.
    fn moved_to(&self, mut other: Buffer) -> Buffer {
        other.bytes[..self.end].copy_from_slice(self.whole());
        other.start = self.start;
        other.end = self.end;
        other
    }
}

/// Free buffers of one worker.
#[derive(Debug, Default)]
pub struct Buffers {
    tiny: RefCell<Vec<Buffer>>,
    small: RefCell<Vec<Buffer>>,
    large: RefCell<Vec<Buffer>>,
}

impl Buffers {
    /// An empty store; it fills as buffers come back.
    pub fn new() -> Self {
        Buffers {
            tiny: RefCell::default(),
            small: RefCell::new(Vec::with_capacity(KEPT_SMALL)),
            large: RefCell::new(Vec::with_capacity(KEPT_LARGE)),
        }
    }

    /// Lends an empty buffer of [`TINY`] bytes.
    pub fn tiny(&self) -> Buffer {
        self.tiny.borrow_mut().pop().unwrap_or_else(|| Buffer::with_size(TINY))
    }

    /// Exchanges a buffer that has nothing to consume for a tiny one with the same positions, if what it holds fits there: for a head that is in use
    /// while its exchange waits. There stays room, by which a connection is seen to end.
    pub fn shrink(&self, buffer: &mut Buffer) {
        if buffer.size() > TINY && buffer.is_empty() && buffer.end < TINY {
            let tiny = buffer.moved_to(self.tiny());
            self.put_back(std::mem::replace(buffer, tiny));
        }
    }

    /// Takes the memory of a buffer back that holds nothing: its connection waits.
    #[inline]
    pub fn release(&self, buffer: &mut Buffer) {
        if buffer.end == 0 {
            self.put_back(std::mem::take(buffer));
        }
    }

    /// Lends an empty buffer of [`SMALL`] bytes.
    #[inline]
    pub fn small(&self) -> Buffer {
        self.small.borrow_mut().pop().unwrap_or_else(|| Buffer::with_size(SMALL))
    }

    /// Lends an empty buffer of [`LARGE`] bytes.
    pub fn large(&self) -> Buffer {
        self.large.borrow_mut().pop().unwrap_or_else(|| Buffer::with_size(LARGE))
    }

    /// Makes `buffer` hold memory.
    #[inline]
    pub fn ensure(&self, buffer: &mut Buffer) {
        if !buffer.is_held() {
            *buffer = self.small();
        }
    }

    /// Exchanges `buffer` for one that is larger; positions stay, so spans stay valid.
    pub fn grow(&self, buffer: &mut Buffer) {
        let larger = match buffer.size() {
            size if size < SMALL => self.small(),
            size if size < LARGE => self.large(),
            size => Buffer::with_size(size * 2),
        };
        let grown = buffer.moved_to(larger);
        self.put_back(std::mem::replace(buffer, grown));
    }

    /// Takes a buffer back; one that holds no memory is fine.
    #[inline]
    pub fn put_back(&self, mut buffer: Buffer) {
        buffer.start = 0;
        buffer.end = 0;
        let (list, kept) = match buffer.size() {
            TINY => (&self.tiny, KEPT_TINY),
            SMALL => (&self.small, KEPT_SMALL),
            LARGE => (&self.large, KEPT_LARGE),
            _ => return,
        };
        let mut list = list.borrow_mut();
        if list.len() < kept {
            list.push(buffer);
        }
    }
}
