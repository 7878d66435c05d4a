//! CRC-32C (Castagnoli; RFC 3720 appendix B.4), of headers of at most some hundred bytes: a table of 256 entries is fast enough.

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            // The polynomial 0x1EDC6F41, bits reversed.
            value = if value & 1 == 1 { (value >> 1) ^ 0x82f6_3b78 } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
}

/// The checksum of pieces that follow each other.
pub(crate) fn of(pieces: &[&[u8]]) -> u32 {
    let step = |crc: u32, byte: &u8| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)];
    !pieces.iter().flat_map(|piece| piece.iter()).fold(!0, step)
}

#[cfg(test)]
mod tests {
    #[test]
    fn vectors_of_rfc_3720() {
        assert_eq!(super::of(&[&[0; 32]]), 0x8a91_36aa);
        assert_eq!(super::of(&[&[0xff; 32]]), 0x62a8_ab43);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(super::of(&[&ascending]), 0x46dd_794e);
        assert_eq!(super::of(&[&ascending[..7], &ascending[7..]]), 0x46dd_794e);
        assert_eq!(super::of(&[b"123456789"]), 0xe306_9283);
    }
}
