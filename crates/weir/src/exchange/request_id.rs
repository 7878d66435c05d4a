//! The id of a request: a trusted peer's, or a new one.

use h1::Known;

use super::Exchange;
use crate::worker::Worker;

impl Exchange<'_> {
    /// Sees to it that the request has an id: a trusted peer's, or one made here. Not made where nothing needs it.
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

/// An id from a trusted peer is used if it is valid in a field, a log line and a problem document as it is.
fn is_request_id(id: &[u8]) -> bool {
    !id.is_empty() && id.len() <= 128 && id.iter().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'))
}

/// Appends a new id: 128 random bits.
pub fn new_request_id(worker: &Worker, out: &mut Vec<u8>) {
    let mut id = [0; 32];
    for half in id.as_chunks_mut().0 {
        *half = hex(worker.random());
    }
    out.extend_from_slice(&id);
}

/// A number in hexadecimal. All digits at once: every response has such an id.
fn hex(number: u64) -> [u8; 16] {
    let mut text = [0; 16];
    for (digits, half) in text.as_chunks_mut().0.iter_mut().zip([(number >> 32) as u32, number as u32]) {
        *digits = hex_of_half(half).to_be_bytes();
    }
    text
}

/// The eight digits of a number, in the bytes of another, the first one in the highest.
fn hex_of_half(number: u32) -> u64 {
    // One digit into each byte.
    let spread = u64::from(number);
    let spread = (spread | spread << 16) & 0x0000_ffff_0000_ffff;
    let spread = (spread | spread << 8) & 0x00ff_00ff_00ff_00ff;
    let spread = (spread | spread << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // 1 where the digit is a letter, which lie 39 behind the figures.
    let letters = (spread + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    spread + 0x3030_3030_3030_3030 + letters * 39
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_come_in_order() {
        assert_eq!(&hex(0x0123_4567_89ab_cdef), b"0123456789abcdef");
        assert_eq!(&hex(0xfedc_ba98_7654_3210), b"fedcba9876543210");
        for number in [0, 1, u64::MAX, 0x9999_aaaa_0f0f_f0f0] {
            assert_eq!(hex(number).escape_ascii().to_string(), format!("{number:016x}"));
        }
    }
}
