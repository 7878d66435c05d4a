//! What an upstream has seen.

use std::sync::{Arc, Mutex, PoisonError};

use crate::http::Head;

/// Requests kept; a load test must not fill the memory.
const KEPT_REQUESTS: usize = 10_000;

/// Errors kept.
const KEPT_ERRORS: usize = 1000;

/// A request as the upstream received it.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Which connection, counted from 0 since the start.
    pub connection: usize,
    /// Its head.
    pub head: Head,
    /// The body without framing, up to the limit.
    pub body: Vec<u8>,
    /// Length of the body so far; of the whole body once `complete`.
    pub body_length: u64,
    /// Fields after the last chunk.
    pub trailers: Vec<(String, String)>,
    /// The bytes of the request as they came over the connection, head included, up to the limit.
    pub raw: Vec<u8>,
    /// The body was read to its end.
    pub complete: bool,
}

/// A request that may still be arriving.
pub(super) type Slot = Arc<Mutex<Recorded>>;

#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) count: usize,
    pub(super) errors: Vec<String>,
    requests: Vec<Slot>,
}

impl Record {
    /// Takes note of a head; what follows of the request is written into the slot.
    pub(super) fn begin(&mut self, connection: usize, head: Head, raw: Vec<u8>) -> Slot {
        let (body, trailers) = (Vec::new(), Vec::new());
        let recorded = Recorded { connection, head, body, body_length: 0, trailers, raw, complete: false };
        let slot = Arc::new(Mutex::new(recorded));
        self.count += 1;
        if self.requests.len() < KEPT_REQUESTS {
            self.requests.push(Arc::clone(&slot));
        }
        slot
    }

    pub(super) fn error(&mut self, error: String) {
        if self.errors.len() < KEPT_ERRORS {
            self.errors.push(error);
        }
    }

    pub(super) fn requests(&self) -> Vec<Recorded> {
        self.requests.iter().map(|slot| slot.lock().unwrap_or_else(PoisonError::into_inner).clone()).collect()
    }
}
