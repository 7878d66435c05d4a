//! What tests and fuzz targets share: a caller of the codec, a gateway in a few lines, and a parser that shares no code with the codec.

// The fuzz targets reach these from outside; to the tests they are private.
#![allow(unreachable_pub)]

pub mod checks;
pub mod feed;
pub mod gateway;
pub mod oracle;
