//! Translation: any request, response and stream is translated or refused, and what comes of a stream does not depend on how it arrives.

#![no_main]

#[path = "../../tests/support/checks.rs"]
#[allow(dead_code)]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::translate(bytes));
