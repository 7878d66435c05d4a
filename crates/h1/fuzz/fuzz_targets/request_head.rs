//! Request heads: the codec and the grammar agree, limits hold, however the bytes arrive.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| h1_fuzz::checks::request_head(bytes));
