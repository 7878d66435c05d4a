//! JSON Web Tokens: header, claims and form, and what a verified token is read as.

#![no_main]

#[path = "../../tests/support/checks.rs"]
#[allow(dead_code)]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::jwt(bytes));
