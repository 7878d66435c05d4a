//! Texts of requests: percent encoding, and lists of pairs.

/// Undoes percent encoding; `plus` also makes spaces of `+`. `None` when an escape is broken or the bytes are not UTF-8.
pub(crate) fn decode(bytes: &[u8], plus: bool) -> Option<String> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter();
    while let Some(&byte) = rest.next() {
        out.push(match byte {
            b'%' => (hex(*rest.next()?)? << 4) | hex(*rest.next()?)?,
            b'+' if plus => b' ',
            byte => byte,
        });
    }
    String::from_utf8(out).ok()
}

fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|value| value as u8)
}

/// The pairs of a query or a form, as they came; a pair without `=` has an empty value.
pub(crate) fn pairs(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
        match pair.iter().position(|&byte| byte == b'=') {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            None => (pair, &b""[..]),
        }
    })
}

/// Splits at a separator that may also be percent-encoded, in any case: `|` and `%7C`.
pub(crate) fn split_encoded<'t>(text: &'t [u8], plain: u8, encoded: &[u8; 3]) -> Vec<&'t [u8]> {
    let (mut parts, mut start, mut at) = (Vec::new(), 0, 0);
    while at < text.len() {
        let width = match &text[at..] {
            [byte, ..] if *byte == plain => 1,
            rest if rest.len() >= 3 && rest[..3].eq_ignore_ascii_case(encoded) => 3,
            _ => {
                at += 1;
                continue;
            }
        };
        parts.push(&text[start..at]);
        at += width;
        start = at;
    }
    parts.push(&text[start..]);
    parts
}
