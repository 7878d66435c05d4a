//! JSON text from untrusted bytes (RFC 8259), appended to a buffer.

use std::io::Write;
use std::net::IpAddr;

use h1::encode;

use crate::config::ClientAddress;

/// `true` for the ASCII bytes that cannot be in a string as they are. DEL is legal, but a terminal may act on it.
const ESCAPED: [bool; 128] = {
    let mut table = [false; 128];
    let mut i = 0;
    while i < 0x20 {
        table[i] = true;
        i += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table[0x7f] = true;
    table
};

/// Appends `bytes` as a string with its quotes, cut after `most` bytes (and then ended by an ellipsis). What is not
/// UTF-8 becomes U+FFFD; control characters are escaped, C1 included, so that a log can be looked at in a terminal. The
/// result has at most `6 * most + 5` bytes.
pub(super) fn string(out: &mut Vec<u8>, bytes: &[u8], most: usize) {
    out.push(b'"');
    if bytes.len() <= most {
        escape(out, bytes);
    } else {
        escape(out, &bytes[..boundary(bytes, most)]);
        out.extend_from_slice("…".as_bytes());
    }
    out.push(b'"');
}

/// The last place at or before `at` that is not inside of a character, if it is near enough to be one.
fn boundary(bytes: &[u8], at: usize) -> usize {
    (at.saturating_sub(3)..=at).rev().find(|&i| bytes[i] & 0xc0 != 0x80).unwrap_or(at)
}

fn escape(out: &mut Vec<u8>, bytes: &[u8]) {
    if is_plain(bytes) {
        out.extend_from_slice(bytes);
        return;
    }
    let mut from = 0;
    for (i, &byte) in bytes.iter().enumerate() {
        if byte >= 0x80 {
            out.extend_from_slice(&bytes[from..i]);
            return escape_unicode(out, &bytes[i..]);
        }
        if ESCAPED[usize::from(byte)] {
            out.extend_from_slice(&bytes[from..i]);
            escape_ascii(out, byte);
            from = i + 1;
        }
    }
    out.extend_from_slice(&bytes[from..]);
}

/// Whether nothing has to be escaped. By whole words, the last of which may overlap the one before.
fn is_plain(bytes: &[u8]) -> bool {
    const LOW: u64 = u64::MAX / 0xff;
    const HIGH: u64 = LOW << 7;
    // The highest bit of each byte that is less than 0x20; bytes behind such a byte may be marked in vain.
    let below_space = |word: u64| word.wrapping_sub(LOW * 0x20) & !word;
    let is = |word: u64, byte: u8| {
        let zero_where_it_is = word ^ (LOW * u64::from(byte));
        zero_where_it_is.wrapping_sub(LOW) & !zero_where_it_is
    };
    let is_plain_word = |chunk: &[u8; 8]| {
        let word = u64::from_le_bytes(*chunk);
        (word | below_space(word) | is(word, b'"') | is(word, b'\\') | is(word, 0x7f)) & HIGH == 0
    };
    match bytes.last_chunk() {
        Some(last) => bytes.as_chunks().0.iter().all(is_plain_word) && is_plain_word(last),
        None => bytes.iter().all(|&byte| byte < 0x80 && !ESCAPED[usize::from(byte)]),
    }
}

/// From the first byte on that is not ASCII.
fn escape_unicode(out: &mut Vec<u8>, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_ascii() && ESCAPED[c as usize] {
                escape_ascii(out, c as u8);
            } else if ('\u{80}'..'\u{a0}').contains(&c) {
                code_unit(out, c as u8);
            } else {
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

fn escape_ascii(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        _ => code_unit(out, byte),
    }
}

/// `\u00XX`.
fn code_unit(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"\\u00");
    out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
}

/// Appends the address of a client.
pub(super) fn address(out: &mut Vec<u8>, address: ClientAddress) {
    match address {
        ClientAddress::Ip(IpAddr::V4(address)) => {
            let [first, rest @ ..] = address.octets();
            encode::decimal(out, first.into());
            for octet in rest {
                out.push(b'.');
                encode::decimal(out, octet.into());
            }
        }
        _ => write!(out, "{address}").expect("a Vec takes what is written"),
    }
}

/// Appends nanoseconds as milliseconds with three decimals, rounded down to microseconds.
pub(super) fn milliseconds(out: &mut Vec<u8>, ns: u64) {
    let us = ns / 1000;
    encode::decimal(out, us / 1000);
    let rest = (us % 1000) as u16;
    out.extend_from_slice(&[b'.', b'0' + (rest / 100) as u8, b'0' + (rest / 10 % 10) as u8, b'0' + (rest % 10) as u8]);
}
