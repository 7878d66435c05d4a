//! Lists in field values: elements, tokens, quoted strings (RFC 9110 section 5.6).

/// Without spaces and tabs around it (OWS).
pub fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// Whether the byte may be in a token.
pub fn is_tchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}

/// Whether it is a token, and not empty.
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().copied().all(is_tchar)
}

/// Elements of a comma-separated list without quoted strings; empty ones are left out.
pub fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim).filter(|element| !element.is_empty())
}

/// Length of the quoted string at the start of `bytes`, quotes included; `None` if there is none or it does not end.
pub fn quoted_length(bytes: &[u8]) -> Option<usize> {
    if bytes.first() != Some(&b'"') {
        return None;
    }
    let mut at = 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// A number of seconds (RFC 9111 section 1.2.2). What cannot be represented is 2^31, which is what the section requests.
/// `None` for anything but digits.
pub fn delta_seconds(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number =
        digits.iter().fold(0u64, |number, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    Some(number.min(u64::from(INFINITE_SECONDS)) as u32)
}

/// Stands for every longer time (RFC 9111 section 1.2.2).
pub const INFINITE_SECONDS: u32 = 1 << 31;
