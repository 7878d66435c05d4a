//! Response heads, to GET and to HEAD.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| h1_fuzz::checks::response_head(bytes));
