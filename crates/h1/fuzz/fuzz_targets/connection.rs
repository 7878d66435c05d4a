//! Whole connections, a client's or an upstream's: what a gateway passes on is one message each, with one framing.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| h1_fuzz::checks::connection(bytes));
