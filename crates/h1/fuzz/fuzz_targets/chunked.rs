//! Chunked bodies of requests, and what follows them.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| h1_fuzz::checks::chunked(bytes));
