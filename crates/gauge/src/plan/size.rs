//! Sizes as they are written in files: `8GiB`, `8.6MB`, `512`.

use serde::{Deserialize, Deserializer, de};

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse(&super::file::text(deserializer)?).map(Size).map_err(de::Error::custom)
    }
}

/// For an optional field.
pub(crate) fn option<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Size::deserialize(deserializer).map(|size| Some(size.0))
}

/// Reads `8GiB`, `8.6MB` or a plain number of bytes.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
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
