//! Streams that break off: what passes is unchanged, and a response that is repeated is the same.

#![no_main]

#[path = "../../tests/support/checks.rs"]
#[allow(dead_code)]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::splice(bytes));
