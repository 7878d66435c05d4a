//! Authorities: `host [":" port]`.

use super::blocks;

/// `host [":" port]` without userinfo (RFC 9110 sections 4.2.4 and 7.2). The host must be there, and be a name as the DNS has them or an
/// IPv6 address in brackets: of what else RFC 3986 section 3.2.2 allows (escapes, `!$&'()*+,;=`, IPvFuture) no server is reached by.
pub fn is_authority(bytes: &[u8]) -> bool {
    is_authority_at(bytes, 0, bytes.len())
}

/// The same of `bytes[start..end]`; quicker where more bytes lie around them.
#[inline]
pub fn is_authority_at(bytes: &[u8], start: usize, end: usize) -> bool {
    match bytes.get(start..end) {
        Some([b'[', ..] | []) | None => is_address_authority(bytes.get(start..end).unwrap_or_default()),
        Some(_) => name_end(bytes, start, end).is_some_and(|at| at > start && is_port(&bytes[at..end])),
    }
}

#[cold]
fn is_address_authority(bytes: &[u8]) -> bool {
    match bytes {
        [b'[', rest @ ..] => {
            let Some(close) = memchr::memchr(b']', rest) else { return false };
            let is_address =
                std::str::from_utf8(&rest[..close]).is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok());
            is_address && is_port(&rest[close + 1..])
        }
        _ => false,
    }
}

/// End of the host's name at the front of `bytes[at..end]`: labels with one dot between them, and perhaps one at the end. Empty labels are
/// refused: `..` means something to file systems, which servers that keep a folder a host have been led astray by.
#[inline]
fn name_end(bytes: &[u8], mut at: usize, end: usize) -> Option<usize> {
    let mut after_dot = 1;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let (dots, stops) = match (rest.first_chunk(), bytes.last_chunk()) {
            (Some(block), _) => blocks::host_bytes(block),
            // What is left is the end of the last block.
            (None, Some(block)) => {
                let (dots, stops) = blocks::host_bytes(block);
                let before = block.len() - rest.len();
                (dots >> before, stops >> before)
            }
            (None, None) => {
                let mut block = [0; 16];
                block[..rest.len()].copy_from_slice(rest);
                blocks::host_bytes(&block)
            }
        };
        let length = (stops | 1 << (end - at).min(16)).trailing_zeros();
        let dots = dots & ((1 << length) - 1);
        if dots & (dots << 1 | after_dot) != 0 {
            return None;
        }
        at += length as usize;
        if length < 16 {
            return Some(at);
        }
        after_dot = dots >> 15;
    }
}

/// Nothing, or a colon with a number of 16 bits, which may be left out (RFC 3986 section 3.2.3).
fn is_port(bytes: &[u8]) -> bool {
    match bytes {
        [] => true,
        [b':', digits @ ..] if digits.len() <= 5 => {
            let (mut number, mut is_number) = (0, true);
            for digit in digits {
                let value = digit.wrapping_sub(b'0');
                is_number &= value <= 9;
                number = number * 10 + u32::from(value);
            }
            is_number && number <= 65_535
        }
        _ => false,
    }
}
