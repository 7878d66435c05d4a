//! The checks that tests and fuzz targets share, included from the tests: the independent parser, the small gateway, and what must hold
//! between them and the codec.

#[path = "../../tests/codec/support/mod.rs"]
pub mod support;

pub use support::checks;
