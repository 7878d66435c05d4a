//! Durations as the Gateway API writes them (GEP-2257): `1h30m`, `500ms`.

/// Milliseconds of a duration.
pub(super) fn millis(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = 0u64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let value: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let factor = match &rest[..unit] {
            "h" => 3_600_000,
            "m" => 60_000,
            "s" => 1000,
            "ms" => 1,
            _ => return None,
        };
        total = total.checked_add(value.checked_mul(factor)?)?;
        rest = &rest[unit..];
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::millis;

    #[test]
    fn parts_add_up() {
        for (text, expected) in
            [("1h30m", Some(5_400_000)), ("500ms", Some(500)), ("0s", Some(0)), ("1s500ms", Some(1500)), ("", None)]
        {
            assert_eq!(millis(text), expected, "{text}");
        }
        assert_eq!((millis("1"), millis("s"), millis("1d")), (None, None, None));
    }
}
