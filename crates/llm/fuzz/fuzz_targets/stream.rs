//! Event streams: bytes leave unchanged, and what events say does not depend on how they arrive.

#![no_main]

#[path = "../../tests/support/checks.rs"]
#[allow(dead_code)]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::stream(bytes));
