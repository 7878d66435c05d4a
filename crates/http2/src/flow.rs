//! Flow control (RFC 9113 section 5.2).

/// Largest window (section 6.9.1).
const LARGEST: i64 = (1 << 31) - 1;

/// Receive window. Invariant: `available + held + unsent == size`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Receive {
    size: i64,
    /// What the peer may still send.
    available: i64,
    /// Received, not consumed.
    held: i64,
    /// Consumed, not yet given back to the peer.
    unsent: i64,
}

impl Receive {
    pub(crate) fn new(size: u32) -> Self {
        Receive { size: i64::from(size), available: i64::from(size), held: 0, unsent: 0 }
    }

    /// Bytes came; false if the peer had no credit for them.
    #[must_use]
    pub(crate) fn receive(&mut self, bytes: usize) -> bool {
        let bytes = bytes as i64;
        if bytes > self.available {
            return false;
        }
        self.available -= bytes;
        self.held += bytes;
        true
    }

    /// Bytes were taken; returns how many of those that were held.
    pub(crate) fn consume(&mut self, bytes: usize) -> usize {
        let bytes = (bytes as i64).min(self.held);
        self.held -= bytes;
        self.unsent += bytes;
        bytes as usize
    }

    /// The increment to send now, if it is worth a frame: half of what the peer could have beside what is held, for less it can wait. Half of all
    /// would never come where more than half is held.
    pub(crate) fn take_update(&mut self) -> Option<u32> {
        if self.unsent == 0 || self.unsent < (self.size - self.held) / 2 {
            return None;
        }
        self.available += self.unsent;
        Some(std::mem::take(&mut self.unsent) as u32)
    }

    pub(crate) fn held(&self) -> usize {
        self.held as usize
    }

    #[cfg(test)]
    pub(crate) fn is_balanced(&self) -> bool {
        self.available >= 0 && self.available + self.held + self.unsent == self.size
    }
}

/// Send window; below zero after a smaller SETTINGS_INITIAL_WINDOW_SIZE.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Send(i64);

impl Send {
    pub(crate) fn new(size: u32) -> Self {
        Send(i64::from(size))
    }

    pub(crate) fn available(&self) -> usize {
        self.0.max(0) as usize
    }

    pub(crate) fn take(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.available());
        self.0 -= bytes as i64;
    }

    /// False if the window would grow beyond its limit.
    #[must_use]
    pub(crate) fn grow(&mut self, by: i64) -> bool {
        self.0 += by;
        self.0 <= LARGEST
    }
}

#[cfg(test)]
mod tests;
