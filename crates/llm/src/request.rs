//! What a gateway reads of a request: one pass over the body, no tree and no copies.
//!
//! The bodies of all APIs are read with one table of top-level members ([`Member`]); a member of another API is read and means nothing.
//! Members that are not in the table are checked for their grammar only, so a new parameter works on the day it appears.

mod edit;
mod error;
mod member;
mod prefill;
mod prefix;
mod scan;
mod strings;

pub use edit::{Edit, Edits, Wanted};
pub use error::{Defect, RequestError};
pub use member::Member;
pub use prefill::{Prefill, prefilled};
pub use prefix::{BLOCK_BYTES, MAX_BLOCKS, PrefixHashes};
pub use scan::{RequestScan, scan};
pub use strings::StringsOf;

#[cfg(test)]
mod tests;
