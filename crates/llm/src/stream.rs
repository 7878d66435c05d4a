//! Event streams (`text/event-stream`): cut into events, read, and judged.
//!
//! [`EventSplitter`] cuts bytes into events of up to 64 KiB and passes larger ones in pieces; [`EventReader`] reads what an event says;
//! [`StreamState`] says what that means for the response: nothing yet, content, complete, or failed. Bytes are never changed.

mod reader;
mod splitter;
mod state;

pub use reader::EventReader;
pub use splitter::{EventSplitter, MAX_WHOLE_EVENT, Piece};
pub use state::{BodyEnd, Failure, Handling, Outcome, StreamState};

#[cfg(test)]
mod tests;
