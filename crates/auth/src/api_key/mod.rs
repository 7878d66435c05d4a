//! API keys: their form, their entries in a file or a remote store, and the tables that find them.
//!
//! A key is random (160 bits), so a fast hash protects it: who reads the file of SHA-256 values cannot find one key. Keys that people
//! chose are refused, or kept under HMAC with a secret that is not in the file.

mod cache;
mod digest;
mod entry;
mod fields;
mod key;
mod record;
mod store;

pub use cache::{Cached, KeyCache, Lifetimes};
pub use digest::{Digester, from_hex, hex, sha256};
pub use entry::{Entry, FileError, time_text};
pub use fields::MOST_FIELDS;
pub use key::{Key, KeyError};
pub use record::Record;
pub use store::{Store, StoreError, ValidKey};
