//! The id of a request: a trusted peer's, or a new one.

use h1::Known;

use super::Exchange;
use crate::server::worker::Worker;

impl Exchange<'_> {
    /// Sees to it that the request has an id: a trusted peer's, or one made here. A request that nobody asks about goes without.
    pub fn ensure_request_id(&mut self) {
        if !self.scratch.request_id.is_empty() {
            return;
        }
        let config = self.snapshot.config();
        let buf = self.down.buffer.whole();
        let fields = &self.scratch.request.fields;
        let given = if !self.down.client.peer_is_trusted {
            None
        } else if config.request_id.eq_ignore_ascii_case(Known::XRequestId.name()) {
            fields.first(Known::XRequestId, buf)
        } else {
            fields.get(config.request_id.as_bytes(), buf)
        };
        match given.filter(|id| is_request_id(id)) {
            Some(id) => self.scratch.request_id.extend_from_slice(id),
            None => new_request_id(self.worker, &mut self.scratch.request_id),
        }
    }
}

/// An id from a trusted peer is kept if it can stand in a field, a log line and a problem document as it is.
fn is_request_id(id: &[u8]) -> bool {
    !id.is_empty() && id.len() <= 128 && id.iter().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'))
}

/// Appends a new id: 128 random bits.
pub(super) fn new_request_id(worker: &Worker, out: &mut Vec<u8>) {
    let id = (u128::from(worker.random()) << 64) | u128::from(worker.random());
    write_hex(out, id);
}

fn write_hex(out: &mut Vec<u8>, number: u128) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 32];
    for (pair, byte) in text.chunks_exact_mut(2).zip(number.to_be_bytes()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    out.extend_from_slice(&text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_come_in_order() {
        let mut out = Vec::new();
        write_hex(&mut out, 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210);
        assert_eq!(out, b"0123456789abcdeffedcba9876543210");
    }
}
