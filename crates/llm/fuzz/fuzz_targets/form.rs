//! Forms: what is accepted stays accepted, and says what is wanted, after its splice.

#![no_main]

#[path = "../../tests/support/checks.rs"]
#[allow(dead_code)]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::form(bytes));
