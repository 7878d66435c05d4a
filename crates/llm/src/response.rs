//! What a response or an event of one says, read without a tree: content, end reasons, usage, errors.

mod end_reason;
mod node;
mod reader;
mod usage;

pub use end_reason::EndReason;
pub use reader::{Facts, ResponseReader, UpstreamError};
pub use usage::Usage;

use crate::Api;

/// Reads a whole body.
pub fn read(api: Api, body: &[u8]) -> Facts {
    let mut reader = ResponseReader::new(api);
    reader.read(body);
    reader.finish()
}

#[cfg(test)]
mod tests;
