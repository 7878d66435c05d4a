//! The Huffman code of HPACK (RFC 7541 section 5.2, appendix B).
//!
//! The code is canonical: within a length, codes follow the order of the symbols. So the lengths say everything.

use super::HpackError;

/// Length of each byte's code in bits, and of the end-of-string symbol's.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

const EOS: u16 = 256;
const LONGEST: usize = 30;
/// Bits of the first look-up: nearly all text has codes of at most this length.
const FAST: u32 = 10;

/// Symbols by length and value, as the codes are assigned.
const ORDER: [u16; 257] = {
    let mut order = [0; 257];
    let mut count = 0;
    let mut length = 1;
    while length <= LONGEST {
        let mut symbol = 0;
        while symbol < 257 {
            if LENGTHS[symbol] as usize == length {
                order[count] = symbol as u16;
                count += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    order
};

static CODES: [u32; 257] = {
    let mut codes = [0; 257];
    let (mut code, mut previous, mut i) = (0_u32, LENGTHS[ORDER[0] as usize], 0);
    while i < 257 {
        let symbol = ORDER[i] as usize;
        code <<= LENGTHS[symbol] - previous;
        previous = LENGTHS[symbol];
        codes[symbol] = code;
        code += 1;
        i += 1;
    }
    codes
};

/// Symbol and length of the code that the first [`FAST`] bits begin with; length 0 where it is longer.
static FIRST: [(u8, u8); 1 << FAST] = {
    let mut table = [(0, 0); 1 << FAST];
    let mut symbol = 0;
    while symbol < 256 {
        let length = LENGTHS[symbol] as u32;
        if length <= FAST {
            let start = (CODES[symbol] << (FAST - length)) as usize;
            let mut i = 0;
            while i < 1 << (FAST - length) {
                table[start + i] = (symbol as u8, length as u8);
                i += 1;
            }
        }
        symbol += 1;
    }
    table
};

/// For each length: one past its last code, aligned to the left of 32 bits (0 where the length has none), its first code and the place of that in [`ORDER`].
static BY_LENGTH: [(u64, u32, u16); LONGEST + 1] = {
    let mut table = [(0, 0, 0); LONGEST + 1];
    let mut i = 0;
    while i < 257 {
        let symbol = ORDER[i] as usize;
        let length = LENGTHS[symbol] as usize;
        let (_, first, place) = if table[length].0 == 0 { (0, CODES[symbol], i as u16) } else { table[length] };
        table[length] = ((CODES[symbol] as u64 + 1) << (32 - length), first, place);
        i += 1;
    }
    table
};

/// Appends the text that `input` codes.
///
/// # Errors
/// The end-of-string symbol, or padding that is longer than 7 bits or not its beginning.
pub fn decode(input: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    out.reserve(input.len() * 8 / 5 + 1);
    let mut bytes = input;
    // `count` valid bits at the top; zeros below.
    let (mut bits, mut count) = (0_u64, 0_u32);
    loop {
        if count <= 32 {
            if let Some((word, rest)) = bytes.split_first_chunk::<4>() {
                bits |= u64::from(u32::from_be_bytes(*word)) << (32 - count);
                count += 32;
                bytes = rest;
            } else {
                for &byte in bytes {
                    bits |= u64::from(byte) << (56 - count);
                    count += 8;
                }
                bytes = &[];
            }
        }
        let (symbol, length) = FIRST[(bits >> (64 - FAST)) as usize];
        let length = u32::from(length);
        if length != 0 && length <= count {
            out.push(symbol);
            bits <<= length;
            count -= length;
            continue;
        }
        if length == 0 && count > FAST {
            let (symbol, length) = long(bits)?;
            if length <= count {
                if symbol == EOS {
                    return Err(HpackError::Huffman);
                }
                out.push(symbol as u8);
                bits <<= length;
                count -= length;
                continue;
            }
        }
        // What is left is no whole symbol: padding.
        let is_padding = count < 8 && (count == 0 || bits >> (64 - count) == (1 << count) - 1);
        return if is_padding { Ok(()) } else { Err(HpackError::Huffman) };
    }
}

/// A code longer than [`FAST`] bits.
fn long(bits: u64) -> Result<(u16, u32), HpackError> {
    let top = bits >> 32;
    for (length, &(end, first, place)) in BY_LENGTH.iter().enumerate().skip(FAST as usize + 1) {
        if top < end {
            let index = (top >> (32 - length)) as usize - first as usize + usize::from(place);
            let symbol = ORDER.get(index).ok_or(HpackError::Huffman)?;
            return Ok((*symbol, length as u32));
        }
    }
    Err(HpackError::Huffman)
}

/// Bytes that `text` takes when coded.
pub fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// Appends the code of `text`.
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut count) = (0_u64, 0_u32);
    for &byte in text {
        let length = u32::from(LENGTHS[usize::from(byte)]);
        bits = bits << length | u64::from(CODES[usize::from(byte)]);
        count += length;
        if count >= 32 {
            count -= 32;
            out.extend_from_slice(&((bits >> count) as u32).to_be_bytes());
        }
    }
    if count > 0 {
        let padded = bits << (32 - count) | (u64::from(u32::MAX) >> count);
        out.extend_from_slice(&(padded as u32).to_be_bytes()[..count.div_ceil(8) as usize]);
    }
}
