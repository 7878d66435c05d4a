//! Classes of bytes, and searches for them a block at a time.

mod authority;
mod blocks;
#[cfg(test)]
mod tests;

/// A table that says of each byte whether it matches a pattern.
macro_rules! class {
    ($($pattern:tt)*) => {{
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            table[byte] = matches!(byte as u8, $($pattern)*);
            byte += 1;
        }
        table
    }};
}

pub use authority::{is_authority, is_authority_at};

/// `tchar` (RFC 9110 section 5.6.2).
static TOKEN: [bool; 256] = class!(
    b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_'
        | b'`' | b'|' | b'~'
);

/// Whether it is a `tchar` (RFC 9110 section 5.6.2).
#[inline]
pub fn is_token_byte(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}

/// Whether all bytes are `tchar`, and there is one.
#[inline]
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| is_token_byte(byte))
}

/// Whether it may be in a field value or a reason phrase: HTAB, SP, visible ASCII, or a byte beyond ASCII (RFC 9110 section 5.5).
#[inline]
pub fn is_text_byte(byte: u8) -> bool {
    matches!(byte, b'\t' | 0x20..=0x7e | 0x80..)
}

/// Whether it may be in a request target: visible ASCII without `#`, which is not part of one (RFC 9112 section 3.2).
#[inline]
pub fn is_target_byte(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e) && byte != b'#'
}

/// Without spaces and tabs around it (OWS).
#[inline]
pub fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// Index of the first byte from `at` on that is not [text](is_text_byte); the length where there is none.
#[inline]
pub fn find_control(bytes: &[u8], at: usize) -> usize {
    find(bytes, at, blocks::controls, |byte| !is_text_byte(byte))
}

/// Index of the first byte from `at` on that is `?` or does not belong in a request target; the length where there is none.
#[inline]
pub fn find_target_stop(bytes: &[u8], at: usize) -> usize {
    find(bytes, at, blocks::target_stops, |byte| byte == b'?' || !is_target_byte(byte))
}

#[inline(always)]
fn find(bytes: &[u8], mut at: usize, stops: impl Fn(&[u8; 16]) -> u32, is_stop: impl Fn(u8) -> bool) -> usize {
    let mut rest = bytes.get(at..).unwrap_or_default();
    while let Some((block, behind)) = rest.split_first_chunk() {
        let mask = stops(block);
        if mask != 0 {
            return at + mask.trailing_zeros() as usize;
        }
        at += block.len();
        rest = behind;
    }
    match bytes.last_chunk() {
        // What is left is the end of the last block.
        Some(block) => {
            let mask = stops(block) >> (block.len() - rest.len());
            at + (mask | 1 << rest.len()).trailing_zeros() as usize
        }
        None => at + rest.iter().position(|&byte| is_stop(byte)).unwrap_or(rest.len()),
    }
}

/// End of the field name that begins at `at`: as many token bytes as there are before the first other one.
#[inline]
pub fn name_end(bytes: &[u8], at: usize) -> usize {
    // Nearly all names are made of letters, digits and hyphens.
    let end = plain_end(bytes, at);
    match bytes.get(end) {
        Some(&byte) if byte != b':' && is_token_byte(byte) => token_end(bytes, end + 1),
        _ => end,
    }
}

/// Whether `bytes[start..end]` holds letters, digits and hyphens only, as nearly all names do.
#[inline]
pub fn is_plain_name_at(bytes: &[u8], start: usize, end: usize) -> bool {
    plain_end(bytes, start) >= end
}

#[inline(always)]
fn plain_end(bytes: &[u8], at: usize) -> usize {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    find(bytes, at, blocks::not_plain, |byte| !is_plain(byte))
}

#[cold]
fn token_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().position(|&byte| !is_token_byte(byte)).unwrap_or(rest.len())
}

/// Whether a block is `word` where `mask` says that bytes count, letters in any case; `word` is in lower case, and zero where none counts.
#[inline]
pub(crate) fn same_word(block: &[u8; 16], mask: &[u8; 16], word: &[u8; 16]) -> bool {
    blocks::same_word(block, mask, word)
}

/// Appends a text with the letters of ASCII in lower case.
#[inline]
pub fn push_lower(out: &mut Vec<u8>, text: &[u8]) {
    let start = out.len();
    out.extend_from_slice(text);
    let copy = &mut out[start..];
    for word in copy.as_chunks_mut().0 {
        *word = lower(*word);
    }
    // What is left is the end of the last word; to do it twice changes nothing.
    match copy.last_chunk_mut() {
        Some(word) => *word = lower(*word),
        None => copy.make_ascii_lowercase(),
    }
}

/// Eight bytes with the letters of ASCII in lower case.
#[inline]
fn lower(bytes: [u8; 8]) -> [u8; 8] {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let each = |byte: u8| u64::from_le_bytes([byte; 8]);
    let word = u64::from_le_bytes(bytes);
    // In the highest bit of each byte, without a carry into the next: whether it is at least `A`, and whether it is beyond `Z`.
    let seven = word & !HIGH;
    let (from_a, beyond_z) = (seven + each(0x80 - b'A'), seven + each(0x7f - b'Z'));
    let capitals = from_a & !beyond_z & !word & HIGH;
    (word | capitals >> 2).to_le_bytes()
}

/// Where among 64 bytes the line feeds are, and where the carriage returns.
#[inline]
pub fn line_ends(block: &[u8; 64]) -> (u64, u64) {
    blocks::line_ends(block)
}
