//! Files of users, and passwords for them.

#![no_main]

#[path = "../../tests/support/checks.rs"]
#[allow(dead_code)]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::htpasswd(bytes));
