//! Bytes as the fields of a request and, after an empty line, of the response to it: all rules on both.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| weir_fuzz::heads(bytes));
