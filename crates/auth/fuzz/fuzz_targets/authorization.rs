//! What the `Authorization` field holds.

#![no_main]

#[path = "../../tests/support/checks.rs"]
#[allow(dead_code)]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::authorization(bytes));
