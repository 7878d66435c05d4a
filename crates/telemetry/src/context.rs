//! W3C Trace Context, level 1 (<https://www.w3.org/TR/trace-context/>): `traceparent` and what may be kept of `tracestate`.

/// Longest `tracestate` that is passed on: section 3.3.1.5 requests at least 512 characters.
pub const STATE_BYTES: usize = 512;

/// A trace: 128 random bits, never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(pub u128);

/// A span: 64 random bits, never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(pub u64);

/// What a `traceparent` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// The trace that the request belongs to.
    pub trace: TraceId,
    /// The sender's span.
    pub span: SpanId,
    /// Whether the sender records it.
    pub is_sampled: bool,
}

/// Reads a `traceparent`; `None` for one that is malformed, which means a new trace (section 3.2.2.3). Versions above 00 are read as far as
/// version 00 goes (section 3.2.4).
pub fn parse(value: &[u8]) -> Option<Parent> {
    let (version, rest) = hex(value, 2)?;
    let (trace, rest) = hex(rest.strip_prefix(b"-")?, 32)?;
    let (span, rest) = hex(rest.strip_prefix(b"-")?, 16)?;
    let (flags, rest) = hex(rest.strip_prefix(b"-")?, 2)?;
    let is_whole = rest.is_empty() || (version > 0 && rest.starts_with(b"-"));
    if version == 0xff || !is_whole || trace == 0 || span == 0 {
        return None;
    }
    // A span has 16 digits.
    let span = u64::try_from(span).ok()?;
    Some(Parent { trace: TraceId(trace), span: SpanId(span), is_sampled: flags & 1 == 1 })
}

/// A number of so many lower-case digits, and what follows it.
fn hex(value: &[u8], digits: usize) -> Option<(u128, &[u8])> {
    let (number, rest) = value.split_at_checked(digits)?;
    let digit = |number: u128, byte: &u8| match byte {
        b'0'..=b'9' => Some(number << 4 | u128::from(byte - b'0')),
        b'a'..=b'f' => Some(number << 4 | u128::from(byte - b'a' + 10)),
        _ => None,
    };
    Some((number.iter().try_fold(0, digit)?, rest))
}

/// Appends the value of a `traceparent`.
pub fn write_traceparent(out: &mut Vec<u8>, context: &Parent) {
    out.extend_from_slice(b"00-");
    write_hex(out, context.trace.0, 32);
    out.push(b'-');
    write_hex(out, u128::from(context.span.0), 16);
    out.extend_from_slice(if context.is_sampled { b"-01" } else { b"-00" });
}

/// Appends the lowest `digits` digits of a number.
pub fn write_hex(out: &mut Vec<u8>, number: u128, digits: u32) {
    out.extend((0..digits).rev().map(|place| b"0123456789abcdef"[(number >> (place * 4)) as usize & 15]));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_parent_is_read_and_written_alike() {
        let parent = parse(GOOD.as_bytes()).unwrap();
        assert_eq!(parent.trace.0, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!(parent.span.0, 0xb7ad_6b71_6920_3331);
        assert!(parent.is_sampled);
        let mut out = Vec::new();
        write_traceparent(&mut out, &parent);
        assert_eq!(out, GOOD.as_bytes());
    }

    #[test]
    fn malformed_parents_mean_a_new_trace() {
        for wrong in [
            "",
            "00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
            "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01more",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
        ] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn later_versions_are_read_as_far_as_this_one_goes() {
        let later = GOOD.replacen("00-", "cc-", 1) + "-what-comes";
        assert!(parse(later.as_bytes()).is_some());
        // Only the lowest flag is known.
        assert!(!parse(GOOD.replace("-01", "-02").as_bytes()).unwrap().is_sampled);
        assert!(parse(GOOD.replace("-01", "-03").as_bytes()).unwrap().is_sampled);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(trace in 1u128.., span in 1u64.., is_sampled: bool) {
            let context = Parent { trace: TraceId(trace), span: SpanId(span), is_sampled };
            let mut out = Vec::new();
            write_traceparent(&mut out, &context);
            prop_assert_eq!(parse(&out), Some(context));
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }
    }
}
