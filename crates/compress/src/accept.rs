//! `Accept-Encoding` (RFC 9110 section 12.5.3).

use crate::Coding;

/// What a client takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The coding to use; none: the body as it is.
    pub coding: Option<Coding>,
    /// Whether the client also takes the body as it is.
    pub takes_identity: bool,
}

/// Highest quality, in thousandths.
const FULL: u16 = 1000;

/// Chooses for the values of `Accept-Encoding`: the coding of `offered` with the highest quality, the earlier one of equals. The body as it is
/// goes before codings only where the client gives it a higher quality by name. Without the field nothing is coded. A member that cannot be
/// read counts for nothing.
pub fn choose<'a>(values: impl Iterator<Item = &'a [u8]>, offered: &[Coding]) -> Choice {
    let mut named: [Option<u16>; 3] = [None; 3];
    let (mut identity, mut any) = (None, None);
    for member in values.flat_map(|value| value.split(|&byte| byte == b',')) {
        let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default();
        let mut quality = Some(FULL);
        for part in parts {
            if let Some((b"q" | b"Q", value)) = part.split_first_chunk::<2>().and_then(|(start, rest)| match start {
                [name, b'='] => Some((std::slice::from_ref(name), rest)),
                _ => None,
            }) {
                quality = read_quality(value);
            }
        }
        let Some(quality) = quality else { continue };
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match Coding::ALL.iter().find(|coding| is(coding.name())) {
            Some(coding) => named[coding.index()] = Some(quality),
            // RFC 9110 section 8.4.1.3: the same thing.
            None if is("x-gzip") => named[Coding::Gzip.index()] = Some(quality),
            None if is("identity") => identity = Some(quality),
            None if name == b"*" => any = Some(quality),
            None => {}
        }
    }
    let mut best: Option<(Coding, u16)> = None;
    for &coding in offered {
        let quality = named[coding.index()].or(any).unwrap_or(0);
        if quality > best.map_or(0, |(_, quality)| quality) {
            best = Some((coding, quality));
        }
    }
    let coding = best.filter(|(_, quality)| identity.is_none_or(|identity| identity <= *quality));
    Choice { coding: coding.map(|(coding, _)| coding), takes_identity: identity.or(any) != Some(0) }
}

/// A quality in thousandths: `0` or `1`, with up to three decimals (RFC 9110 section 12.4.2).
fn read_quality(text: &[u8]) -> Option<u16> {
    let (whole, decimals) = match text {
        [whole] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let mut thousandths = 0;
    for place in 0..3 {
        let digit = decimals.get(place).copied().unwrap_or(b'0');
        if !digit.is_ascii_digit() {
            return None;
        }
        thousandths = thousandths * 10 + u16::from(digit - b'0');
    }
    match whole {
        b'0' => Some(thousandths),
        b'1' if thousandths == 0 => Some(FULL),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Coding::{Brotli, Gzip, Zstd};

    fn chosen(value: &str) -> Option<Coding> {
        choose([value.as_bytes()].into_iter(), &Coding::ALL).coding
    }

    #[test]
    fn the_highest_quality_wins_and_the_earlier_one_of_equals() {
        for (value, coding) in [
            ("gzip", Some(Gzip)),
            ("gzip, deflate, br, zstd", Some(Zstd)),
            ("gzip, br", Some(Brotli)),
            ("GZIP;Q=1.0, br;q=0.9", Some(Gzip)),
            ("x-gzip", Some(Gzip)),
            ("br ; q=0.001", Some(Brotli)),
            ("*", Some(Zstd)),
            ("zstd;q=0, *", Some(Brotli)),
            ("zstd;q=0,br;q=0,*;q=0.5", Some(Gzip)),
            ("gzip;q=0.5, identity", None),
            ("gzip;q=0.5, identity;q=0.5", Some(Gzip)),
            ("gzip;q=0", None),
            ("deflate", None),
            ("identity", None),
            ("", None),
            (",, ,gzip", Some(Gzip)),
            ("gzip;q=2", None),
            ("gzip;q=0.1234", None),
            ("gzip;q=1.001", None),
            ("gzip;q=x, br;q=0.1", Some(Brotli)),
            ("gzip;level=9;q=0", None),
        ] {
            assert_eq!(chosen(value), coding, "{value}");
        }
    }

    #[test]
    fn values_of_several_lines_are_one_list_and_only_what_is_offered_counts() {
        let lines = [&b"zstd;q=0.3"[..], b"gzip;q=0.8"];
        assert_eq!(choose(lines.into_iter(), &Coding::ALL).coding, Some(Gzip));
        assert_eq!(choose([&b"zstd, br"[..]].into_iter(), &[Gzip]).coding, None);
        assert_eq!(choose([&b"br, gzip"[..]].into_iter(), &[Gzip, Brotli]).coding, Some(Gzip));
    }

    #[test]
    fn the_body_as_it_is_can_be_excluded() {
        let takes = |value: &'static str| choose([value.as_bytes()].into_iter(), &Coding::ALL).takes_identity;
        assert!(takes("gzip"));
        assert!(takes(""));
        assert!(!takes("gzip, identity;q=0"));
        assert!(!takes("gzip, *;q=0"));
        assert!(takes("gzip, *;q=0, identity;q=0.1"));
        assert!(choose(std::iter::empty(), &Coding::ALL).takes_identity);
    }
}
