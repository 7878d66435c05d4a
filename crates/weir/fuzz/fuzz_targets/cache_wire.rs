//! Bytes as a value that somebody left in Redis.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| weir_fuzz::wire(bytes));
