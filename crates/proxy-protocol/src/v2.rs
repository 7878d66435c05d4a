//! Version 2: a signature of 12 bytes, version and command, family and transport, a length, addresses, and values with type and length (TLV).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::{Addresses, Header, MAX_BYTES, Malformed, Origin, UNIQUE_ID_BYTES, Version, crc32c};

/// What every header begins with: no line of any protocol that a person could type.
pub(crate) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family and transport, length.
pub(crate) const FIXED: usize = 16;

/// Types of values.
pub(crate) mod kind {
    pub(crate) const ALPN: u8 = 0x01;
    pub(crate) const AUTHORITY: u8 = 0x02;
    pub(crate) const CRC32C: u8 = 0x03;
    pub(crate) const UNIQUE_ID: u8 = 0x05;
}

pub(crate) fn read(bytes: &[u8]) -> Result<Option<(Header<'_>, usize)>, Malformed> {
    // What is wrong with the byte behind the signature is known without the rest.
    let command = bytes.get(SIGNATURE.len()).copied();
    if command.is_some_and(|byte| byte >> 4 != 2) {
        return Err(Malformed::Invalid("the version is not 2"));
    }
    if command.is_some_and(|byte| byte & 0xf > 1) {
        return Err(Malformed::Invalid("the command is neither LOCAL nor PROXY"));
    }
    let Some(fixed) = bytes.first_chunk::<FIXED>() else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    let end = FIXED + length;
    if end > MAX_BYTES {
        return Err(Malformed::TooLong);
    }
    let Some(body) = bytes.get(FIXED..end) else { return Ok(None) };
    if fixed[12] & 0xf == 0 {
        // Whatever the rest says is to be discarded.
        return Ok(Some((Header::new(Version::V2, Origin::Proxy), end)));
    }
    let (family, transport) = (fixed[13] >> 4, fixed[13] & 0xf);
    if family > 3 || transport > 2 {
        return Err(Malformed::Invalid("the address family or the transport is not defined"));
    }
    let size = match family {
        1 => 12,
        2 => 36,
        3 => 216,
        _ => 0,
    };
    let Some((addresses, values)) = body.split_at_checked(size) else {
        return Err(Malformed::Invalid("the header is shorter than its addresses"));
    };
    let origin = match (family, transport) {
        (1, 1) => Origin::Client(four(addresses)?),
        (2, 1) => Origin::Client(six(addresses)?),
        (1 | 2, 2) => return Err(Malformed::Invalid("the transport is not a stream")),
        _ => Origin::Unknown,
    };
    let mut header = Header::new(Version::V2, origin);
    // Behind addresses of a family that is not told, it is not known where the values begin.
    if size > 0 || transport == 0 {
        read_values(&mut header, values, &bytes[..end - values.len()])?;
    }
    Ok(Some((header, end)))
}

/// Reads the values; `before` is what lies before them.
fn read_values<'a>(header: &mut Header<'a>, values: &'a [u8], before: &[u8]) -> Result<(), Malformed> {
    let mut rest = values;
    let mut seen = [false; 256];
    while let Some((&kind, behind)) = rest.split_first() {
        let Some((length, behind)) = behind.split_first_chunk::<2>() else {
            return Err(Malformed::Invalid("a value has no length"));
        };
        let Some((value, behind)) = behind.split_at_checked(usize::from(u16::from_be_bytes(*length))) else {
            return Err(Malformed::Invalid("a value is longer than the header"));
        };
        let is_known = matches!(kind, kind::ALPN | kind::AUTHORITY | kind::CRC32C | kind::UNIQUE_ID);
        if is_known && std::mem::replace(&mut seen[usize::from(kind)], true) {
            return Err(Malformed::Invalid("a value is there twice"));
        }
        match kind {
            kind::ALPN => header.alpn = Some(value),
            kind::AUTHORITY => header.authority = Some(value),
            kind::UNIQUE_ID if value.len() > UNIQUE_ID_BYTES => {
                return Err(Malformed::Invalid("the unique id is longer than 128 bytes"));
            }
            kind::UNIQUE_ID => header.unique_id = Some(value),
            kind::CRC32C => {
                let Ok(claimed) = <[u8; 4]>::try_from(value) else {
                    return Err(Malformed::Invalid("the checksum does not have four bytes"));
                };
                // Computed with zeros in its own place.
                let start = values.len() - behind.len() - 4;
                let pieces = [before, &values[..start], &[0; 4], behind];
                if crc32c::of(&pieces) != u32::from_be_bytes(claimed) {
                    return Err(Malformed::Checksum);
                }
            }
            _ => {}
        }
        rest = behind;
    }
    Ok(())
}

fn four(bytes: &[u8]) -> Result<Addresses, Malformed> {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *bytes else { return Err(SHORT) };
    Ok(Addresses {
        source: SocketAddr::new(Ipv4Addr::new(a, b, c, d).into(), u16::from_be_bytes([i, j])),
        destination: SocketAddr::new(Ipv4Addr::new(e, f, g, h).into(), u16::from_be_bytes([k, l])),
    })
}

fn six(bytes: &[u8]) -> Result<Addresses, Malformed> {
    let Some((source, rest)) = bytes.split_first_chunk::<16>() else { return Err(SHORT) };
    let Some((destination, ports)) = rest.split_first_chunk::<16>() else { return Err(SHORT) };
    let [i, j, k, l] = *ports else { return Err(SHORT) };
    Ok(Addresses {
        source: SocketAddr::new(Ipv6Addr::from(*source).into(), u16::from_be_bytes([i, j])),
        destination: SocketAddr::new(Ipv6Addr::from(*destination).into(), u16::from_be_bytes([k, l])),
    })
}

const SHORT: Malformed = Malformed::Invalid("the header is shorter than its addresses");
