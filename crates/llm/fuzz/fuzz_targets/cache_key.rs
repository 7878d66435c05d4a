//! Keys of the response cache: any bytes end in a key or in none, and what means the same has the same key.

#![no_main]

#[path = "../../tests/support/checks.rs"]
#[allow(dead_code)]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::cache_key(bytes));
