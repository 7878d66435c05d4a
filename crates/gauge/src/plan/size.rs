//! Sizes as they are written in files: `8GiB`, `8.6MB`, `512`.

use serde::{Deserialize, Deserializer, de};

pub(crate) use crate::load::units::size as parse;

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
