//! Bytes as each kind of field value that the cache reads.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| weir_fuzz::values(bytes));
