//! API keys, key files and entries of hashes.

#![no_main]

#[path = "../../tests/support/checks.rs"]
#[allow(dead_code)]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::api_key(bytes));
