//! Durations and rates as people write them: `10s`, `1m30s`, `500/s`, `2k/min`.

use std::time::Duration;

/// Reads a duration: numbers with `ns`, `us`, `ms`, `s`, `m` or `h`, one after the other (`1m30s`); a bare number is seconds.
///
/// # Errors
/// What is wrong, with an example.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration; write 10s, 500ms, 1m30s or 2h");
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).map_err(|_| wrong());
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?);
        let (unit, after) = after.split_at(after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len()));
        let seconds = match unit {
            "ns" => 1e-9,
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = after;
    }
    if text.is_empty() { Err(wrong()) } else { Ok(total) }
}

/// Reads a rate in requests per second: `500`, `500/s`, `2k/s`, `120/min`, `3600/h`.
///
/// # Errors
/// What is wrong, with an example.
pub fn rate(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is not a rate; write 500/s, 2k/s or 120/min");
    let (number, per) = text.trim().split_once('/').unwrap_or((text.trim(), "s"));
    let seconds = match per.trim() {
        "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let number = number.trim();
    let (number, scale) = match number.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1e3),
        None => (number, 1.0),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let rate = number * scale / seconds;
    // Ten million a second is beyond any single machine, and keeps the arithmetic of schedules exact.
    if rate.is_finite() && (0.0..=1e7).contains(&rate) { Ok(rate) } else { Err(wrong()) }
}

/// Reads a size: `8GiB`, `8.6MB`, `128B` or a plain number of bytes.
///
/// # Errors
/// What is wrong, with an example.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size; write 8GiB, 8.6MB or a number of bytes");
    let text_ = text.trim();
    let unit = text_.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text_.len());
    let (number, unit) = text_.split_at(unit);
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let factor: f64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "kb" | "k" => 1e3,
        "mb" | "m" => 1e6,
        "gb" | "g" => 1e9,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    let bytes = (number * factor).round();
    // Beyond 2^53 a size is no longer exact, and no machine has it.
    if (0.0..9e15).contains(&bytes) { Ok(bytes as u64) } else { Err(wrong()) }
}

/// Serde for a [`Duration`] written as text or as a number of seconds.
pub mod serde_duration {
    use std::fmt;
    use std::time::Duration;

    use serde::{Deserializer, Serializer, de};

    struct Visitor;

    impl de::Visitor<'_> for Visitor {
        type Value = Duration;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a duration such as 10s or 500ms, or a number of seconds")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
            super::duration(text).map_err(E::custom)
        }

        fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Duration, E> {
            super::duration(&seconds.to_string()).map_err(E::custom)
        }

        fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Duration, E> {
            Ok(Duration::from_secs(seconds))
        }

        fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Duration, E> {
            super::duration(&seconds.to_string()).map_err(E::custom)
        }
    }

    /// Reads it.
    ///
    /// # Errors
    /// Text that is not a duration.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        deserializer.deserialize_any(Visitor)
    }

    /// Writes it as seconds with their unit.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{}s", duration.as_secs_f64()))
    }

    /// The same for a duration that may be absent.
    pub mod option {
        use std::time::Duration;

        use serde::{Deserialize, Deserializer, Serializer};

        #[derive(Deserialize)]
        struct Wrapped(#[serde(with = "super")] Duration);

        /// Reads it.
        ///
        /// # Errors
        /// Text that is not a duration.
        pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
            Ok(Option::<Wrapped>::deserialize(deserializer)?.map(|wrapped| wrapped.0))
        }

        /// Writes it.
        ///
        /// # Errors
        /// Those of the serializer.
        pub fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
            match duration {
                Some(duration) => super::serialize(duration, serializer),
                None => serializer.serialize_none(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_rates_are_read_as_people_write_them() {
        for (text, expected) in [
            ("10s", 10.0),
            ("500ms", 0.5),
            ("1m30s", 90.0),
            ("2h", 7200.0),
            ("1.5", 1.5),
            (" 3 ", 3.0),
            ("250us", 0.00025),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_secs_f64(expected)), "{text}");
        }
        for text in ["", "s", "10 apples", "-3s", "1e400", "nan", "1e300h", "10x"] {
            assert!(duration(text).is_err(), "{text}");
        }
        for (text, expected) in [("500", 500.0), ("500/s", 500.0), ("2k/s", 2000.0), ("120/min", 2.0), ("3600/h", 1.0)]
        {
            assert_eq!(rate(text), Ok(expected), "{text}");
        }
        for text in ["", "-1", "fast", "1/day", "inf", "1e9/s"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
