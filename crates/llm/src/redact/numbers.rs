//! Numbers with check digits, written in one piece or in groups. From each place where one may begin, the longest that is right is taken; how far
//! is looked is bounded, so the time is linear.

use std::ops::Range;

/// Digits of a payment card.
const CARD: std::ops::RangeInclusive<usize> = 13..=19;

/// Where numbers of payment cards are.
pub(super) fn cards(text: &str) -> Vec<Range<usize>> {
    find(text, |bytes| {
        let first = bytes.first()?;
        // What begins with 2 to 6 is a card of a payment network; others are of airlines or fuel, or no cards at all.
        if !(b'2'..=b'6').contains(first) {
            return None;
        }
        let digits = grouped(bytes, *CARD.end(), |byte| byte.is_ascii_digit());
        let whole = digits.iter().enumerate().rev().filter(|(index, _)| CARD.contains(&(index + 1)));
        whole
            .filter(|(_, (_, end))| ends(bytes, *end))
            .find(|(index, _)| luhn(&digits[..=*index]))
            .map(|(_, (_, end))| *end)
    })
}

/// Where international bank account numbers are.
pub(super) fn ibans(text: &str) -> Vec<Range<usize>> {
    find(text, |bytes| {
        let country = [bytes.first()?.to_ascii_uppercase(), bytes.get(1)?.to_ascii_uppercase()];
        let (_, length) = LENGTHS.iter().find(|(name, _)| name.as_bytes() == country)?;
        let characters = grouped(bytes, *length, |byte| byte.is_ascii_alphanumeric());
        let (_, end) = *characters.get(length - 1)?;
        (ends(bytes, end) && mod_97(&characters) == 1).then_some(end)
    })
}

/// Ranges that begin where a letter or digit follows none, and end where `end_of` says, of the bytes from there on.
fn find(text: &str, end_of: impl Fn(&[u8]) -> Option<usize>) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    let mut is_inside = false;
    while let Some(&byte) = bytes.get(at) {
        let is_word = byte.is_ascii_alphanumeric() || byte >= 0x80;
        if is_word
            && !is_inside
            && let Some(length) = end_of(&bytes[at..])
        {
            found.push(at..at + length);
            at += length;
            is_inside = true;
            continue;
        }
        is_inside = is_word;
        at += 1;
    }
    found
}

/// Up to `most` characters of a number whose groups are parted by one blank or hyphen: each with the place behind it.
fn grouped(bytes: &[u8], most: usize, belongs: impl Fn(u8) -> bool) -> Vec<(u8, usize)> {
    let mut characters = Vec::with_capacity(most);
    let mut at = 0;
    while characters.len() < most {
        match (bytes.get(at), bytes.get(at + 1)) {
            (Some(&byte), _) if belongs(byte) => characters.push((byte, at + 1)),
            (Some(b' ' | b'-'), Some(&next)) if belongs(next) && !characters.is_empty() => {}
            _ => break,
        }
        at += 1;
    }
    characters
}

/// Whether a number may end before this byte.
fn ends(bytes: &[u8], end: usize) -> bool {
    bytes.get(end).is_none_or(|byte| !byte.is_ascii_alphanumeric())
}

/// ISO/IEC 7812-1, annex B: the sum of the digits, every second one from the right doubled, ends with 0.
fn luhn(digits: &[(u8, usize)]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, (digit, _))| {
            let digit = u32::from(digit - b'0') << (place % 2);
            if digit > 9 { digit - 9 } else { digit }
        })
        .sum();
    sum.is_multiple_of(10)
}

/// ISO 7064, MOD 97-10, of an account number whose first four characters count as its last.
fn mod_97(characters: &[(u8, usize)]) -> u32 {
    let (head, rest) = characters.split_at(4);
    rest.iter().chain(head).fold(0, |sum, (byte, _)| match byte {
        b'0'..=b'9' => (sum * 10 + u32::from(byte - b'0')) % 97,
        letter => (sum * 100 + u32::from(letter.to_ascii_uppercase() - b'A') + 10) % 97,
    })
}

/// Lengths of account numbers by country (IBAN registry, release 97).
const LENGTHS: [(&str, usize); 77] = [
    ("AD", 24),
    ("AE", 23),
    ("AL", 28),
    ("AT", 20),
    ("AZ", 28),
    ("BA", 20),
    ("BE", 16),
    ("BG", 22),
    ("BH", 22),
    ("BR", 29),
    ("BY", 28),
    ("CH", 21),
    ("CR", 22),
    ("CY", 28),
    ("CZ", 24),
    ("DE", 22),
    ("DK", 18),
    ("DO", 28),
    ("EE", 20),
    ("EG", 29),
    ("ES", 24),
    ("FI", 18),
    ("FO", 18),
    ("FR", 27),
    ("GB", 22),
    ("GE", 22),
    ("GI", 23),
    ("GL", 18),
    ("GR", 27),
    ("GT", 28),
    ("HR", 21),
    ("HU", 28),
    ("IE", 22),
    ("IL", 23),
    ("IQ", 23),
    ("IS", 26),
    ("IT", 27),
    ("JO", 30),
    ("KW", 30),
    ("KZ", 20),
    ("LB", 28),
    ("LC", 32),
    ("LI", 21),
    ("LT", 20),
    ("LU", 20),
    ("LV", 21),
    ("LY", 25),
    ("MC", 27),
    ("MD", 24),
    ("ME", 22),
    ("MK", 19),
    ("MR", 27),
    ("MT", 31),
    ("MU", 30),
    ("NL", 18),
    ("NO", 15),
    ("PK", 24),
    ("PL", 28),
    ("PS", 29),
    ("PT", 25),
    ("QA", 29),
    ("RO", 24),
    ("RS", 22),
    ("SA", 24),
    ("SC", 31),
    ("SE", 24),
    ("SI", 19),
    ("SK", 24),
    ("SM", 27),
    ("SV", 28),
    ("TL", 23),
    ("TN", 24),
    ("TR", 26),
    ("UA", 29),
    ("VA", 22),
    ("VG", 24),
    ("XK", 20),
];
