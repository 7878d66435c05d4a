//! API keys: their form, their file, and the table that finds them.
//!
//! A key is random (160 bits), so a fast hash protects it: who reads the file of SHA-256 values cannot find one key. Keys that people
//! chose are refused, or kept under HMAC with a secret that is not in the file.

mod entry;
mod key;
mod store;

pub use entry::{Entry, FileError, time_text};
pub use key::{Key, KeyError};
pub use store::{Found, Store, StoreError, sha256};
