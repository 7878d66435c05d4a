//! Wall-clock times as text (RFC 3339), with the part down to the second kept between calls.

use std::time::{SystemTime, UNIX_EPOCH};

use time::UtcDateTime;

/// Milliseconds since the Unix epoch; 0 for a clock that is set before it.
pub fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// Renders times as `2026-01-31T23:59:59.123Z`; only a new second costs a calendar.
#[derive(Debug, Clone)]
pub struct Rfc3339 {
    second: u64,
    text: [u8; 24],
}

impl Default for Rfc3339 {
    fn default() -> Self {
        Rfc3339 { second: 0, text: *b"1970-01-01T00:00:00.000Z" }
    }
}

impl Rfc3339 {
    /// The text of a time in milliseconds since the Unix epoch; years after 9999 stay at the last moment of that year.
    pub fn render(&mut self, unix_ms: u64) -> &str {
        /// 9999-12-31T23:59:59.999Z.
        const LAST: u64 = 253_402_300_799_999;
        let unix_ms = unix_ms.min(LAST);
        let second = unix_ms / 1000;
        if second != self.second {
            self.second = second;
            let date = UtcDateTime::from_unix_timestamp(second as i64).unwrap_or(UtcDateTime::UNIX_EPOCH).date();
            digits(&mut self.text[0..4], date.year().unsigned_abs().into());
            digits(&mut self.text[5..7], u8::from(date.month()).into());
            digits(&mut self.text[8..10], date.day().into());
            digits(&mut self.text[11..13], second / 3600 % 24);
            digits(&mut self.text[14..16], second / 60 % 60);
            digits(&mut self.text[17..19], second % 60);
        }
        digits(&mut self.text[20..23], unix_ms % 1000);
        std::str::from_utf8(&self.text).expect("digits and punctuation")
    }
}

/// Writes `n` in decimal, filling the whole slice.
fn digits(out: &mut [u8], mut n: u64) {
    for byte in out.iter_mut().rev() {
        *byte = b'0' + (n % 10) as u8;
        n /= 10;
    }
}

#[cfg(test)]
mod tests;
