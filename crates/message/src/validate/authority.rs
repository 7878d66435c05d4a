//! Authorities: `host [":" port]`.

use super::class;

/// `host [":" port]` without userinfo (RFC 9110 sections 4.2.4 and 7.2). The host must be there, and be a name as the DNS has them or an
/// IPv6 address in brackets: of what else RFC 3986 section 3.2.2 allows (escapes, `!$&'()*+,;=`, IPvFuture) no server is reached by.
pub fn is_authority(bytes: &[u8]) -> bool {
    match bytes {
        [b'[', rest @ ..] => {
            let Some(close) = memchr::memchr(b']', rest) else { return false };
            let is_address =
                std::str::from_utf8(&rest[..close]).is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok());
            is_address && is_port(&rest[close + 1..])
        }
        _ => name_length(bytes).is_some_and(|length| is_port(&bytes[length..])),
    }
}

/// Bytes of a host's name, dots between its labels included.
static NAME: [bool; 256] = class!(b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' | b'~' | b'.');

/// Length of the host's name that `bytes` begin with: labels with one dot between them, and perhaps one at the end. Empty labels are
/// refused: `..` means something to file systems, which servers that keep a folder a host have been led astray by.
fn name_length(bytes: &[u8]) -> Option<usize> {
    let mut after_dot = true;
    let mut length = 0;
    for &byte in bytes {
        if !NAME[usize::from(byte)] {
            break;
        }
        if byte == b'.' && after_dot {
            return None;
        }
        after_dot = byte == b'.';
        length += 1;
    }
    (length > 0).then_some(length)
}

/// Nothing, or a colon with a number of 16 bits, which may be left out (RFC 3986 section 3.2.3).
fn is_port(bytes: &[u8]) -> bool {
    match bytes {
        [] => true,
        [b':', digits @ ..] => {
            let mut number = 0;
            for digit in digits {
                let value = u32::from(digit.wrapping_sub(b'0'));
                number = number * 10 + value;
                if value > 9 || number > 65_535 {
                    return false;
                }
            }
            digits.len() <= 5
        }
        _ => false,
    }
}
