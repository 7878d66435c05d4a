//! Key sets of an issuer (RFC 7517, section 5), and when to fetch them.

mod refresh;
mod set;

pub use refresh::{Refresh, Timing, Unknown};
pub use set::{KeySet, LARGEST, SetError};
