//! Bytes as Swagger 2: alone, and after a first line that makes the reader take them as such.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    apidoc_fuzz::exercise(bytes);
    apidoc_fuzz::exercise(&[b"swagger: '2.0'\n", bytes].concat());
});
