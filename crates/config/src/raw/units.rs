//! Durations, sizes, rates and shares as they are written.
//!
//! A number without its unit is refused: `timeout: 5` says nothing to whoever reads it next.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::raw::text::text_type;

/// Longest time: a year. Above it, adding to the clock could overflow, and nobody means it.
const MAX_MILLIS: u64 = 365 * 24 * 3_600_000;

const TIME_UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

const SIZE_UNITS: [(&str, u64); 9] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

const RATE_UNITS: [(&str, u32); 3] = [("s", 1), ("min", 60), ("h", 3_600)];

/// A time above zero, such as `5ms`, `2s`, `5m`, `1h` or `1d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(pub Duration);

text_type!(Time, "Time", r"^[0-9]+(ms|s|m|h|d)$", "a time such as `500ms`, `2s`, `5m`, `1h` or `1d`");

impl FromStr for Time {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match parse_time(text)? {
            Duration::ZERO => Err("0 is not a valid time here; `none` switches it off".to_owned()),
            time => Ok(Time(time)),
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&time_text(self.0))
    }
}

/// A time that may be zero, such as `600s` or `0s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Age(pub Duration);

text_type!(Age, "Age", r"^[0-9]+(ms|s|m|h|d)$", "a time such as `0s`, `30s`, `5m`, `1h` or `1d`");

impl FromStr for Age {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        parse_time(text).map(Age)
    }
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&time_text(self.0))
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let wrong = || format!("expected a time such as `500ms`, `2s`, `5m`, `1h` or `1d`, found `{text}`");
    if let ("", Ok(bare)) = (unit, text.parse::<u64>()) {
        return Err(format!("`{bare}` has no unit; write `{bare}s` or `{bare}ms`"));
    }
    let (_, millis) = TIME_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let number: u64 = number.parse().map_err(|_| wrong())?;
    match number.checked_mul(*millis) {
        Some(total) if total <= MAX_MILLIS => Ok(Duration::from_millis(total)),
        _ => Err(format!("`{text}` is longer than a year; `none` switches it off")),
    }
}

fn time_text(time: Duration) -> String {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    // Milliseconds divide everything, so there always is one.
    let best = TIME_UNITS.iter().rev().find(|(_, unit)| millis != 0 && millis.is_multiple_of(*unit));
    let (name, unit) = best.copied().unwrap_or(("s", 1));
    format!("{}{name}", millis / unit)
}

/// A number of bytes, such as `64KiB` (powers of two) or `1MB` (powers of ten).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

text_type!(Size, "Size", r"^[0-9]+(B|KiB|MiB|GiB|TiB|KB|MB|GB|TB)$", "a size such as `64KiB`, `1MiB` or `1MB`");

impl FromStr for Size {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = split(text);
        if let ("", Ok(bare)) = (unit, text.parse::<u64>()) {
            return Err(format!("`{bare}` has no unit; write `{bare}B`, `{bare}KiB` or `{bare}MiB`"));
        }
        let wrong = || format!("expected a size such as `64KiB`, `1MiB` or `1MB`, found `{text}`");
        let (_, bytes) = SIZE_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let size = number.checked_mul(*bytes).filter(|&size| i64::try_from(size).is_ok());
        size.map(Size).ok_or_else(|| format!("`{text}` is too large; `none` allows any size"))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |&(_, unit): &&(&str, u64)| self.0 != 0 && self.0.is_multiple_of(*unit);
        let (name, unit) = SIZE_UNITS.iter().filter(fits).max_by_key(|u| u.1).unwrap_or(&("B", 1));
        write!(f, "{}{name}", self.0 / unit)
    }
}

/// So many in a time, such as `20/s`, `300/min` or `0.5/s`; kept as it is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// How many, above 0.
    pub count: f64,
    /// In so many seconds: 1, 60 or 3600.
    pub seconds: u32,
}

text_type!(Rate, "Rate", r"^[0-9]+(\.[0-9]+)?/(s|min|h)$", "a rate such as `20/s`, `300/min` or `1000/h`");

impl Rate {
    /// Per second.
    pub fn per_second(self) -> f64 {
        self.count / f64::from(self.seconds)
    }
}

impl FromStr for Rate {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected a rate such as `20/s`, `300/min` or `1000/h`, found `{text}`");
        let (count, unit) = text.split_once('/').ok_or_else(wrong)?;
        let (_, seconds) = RATE_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let count = decimal(count).ok_or_else(wrong)?;
        match count {
            _ if count == 0.0 => Err("a rate of 0 would refuse everything".to_owned()),
            _ if count > 1e12 => Err(format!("`{text}` is too large")),
            _ => Ok(Rate { count, seconds: *seconds }),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = RATE_UNITS.iter().find(|unit| unit.1 == self.seconds);
        write!(f, "{}/{}", self.count, unit.map_or("s", |unit| unit.0))
    }
}

/// A share of a whole, `0%` to `100%`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// In hundredths.
    pub percent: f64,
}

text_type!(Share, "Share", r"^[0-9]+(\.[0-9]+)?%$", "a share such as `20%`");

impl Share {
    /// 0.0 to 1.0.
    pub fn fraction(self) -> f64 {
        self.percent / 100.0
    }
}

impl FromStr for Share {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix('%').and_then(decimal);
        match number {
            Some(percent) if percent <= 100.0 => Ok(Share { percent }),
            Some(_) => Err(format!("`{text}` is more than 100%")),
            None => Err(format!("expected a share such as `20%`, found `{text}`")),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.percent)
    }
}

/// Digits and what follows them.
fn split(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(end)
}

/// Digits, and a fraction if there is one: no sign, no exponent.
fn decimal(text: &str) -> Option<f64> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let valid = match text.split_once('.') {
        None => digits(text),
        Some((whole, fraction)) => digits(whole) && digits(fraction),
    };
    // Longer than any number that means something here.
    (valid && text.len() <= 32).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests;
