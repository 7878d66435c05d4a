//! Messages of a stream of gRPC, which pieces of a body may cut anywhere.

use super::{PREFIX, length};

/// Longest message: more than servers send unless they are told to.
const MOST: usize = 64 << 20;

/// The part of a stream that is not a whole message yet.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    rest: Vec<u8>,
}

impl Frames {
    /// Takes the next bytes, and gives each message that they complete.
    pub(crate) fn data(&mut self, bytes: &[u8], mut message: impl FnMut(&[u8])) -> Result<(), String> {
        // Most pieces begin with a message: then only what is incomplete is copied.
        if self.rest.is_empty() {
            let used = scan(bytes, &mut message)?;
            self.rest.extend_from_slice(&bytes[used..]);
        } else {
            self.rest.extend_from_slice(bytes);
            let used = scan(&self.rest, &mut message)?;
            self.rest.drain(..used);
        }
        Ok(())
    }

    /// Whether no message is incomplete.
    pub(crate) fn is_whole(&self) -> bool {
        self.rest.is_empty()
    }
}

/// Gives each whole message; how many bytes they have with their prefixes.
fn scan(bytes: &[u8], message: &mut impl FnMut(&[u8])) -> Result<usize, String> {
    let mut at = 0;
    while let Some(prefix) = bytes[at..].first_chunk::<PREFIX>() {
        let length = length(prefix);
        if prefix[0] != 0 {
            return Err("a message is compressed, which nothing requested".to_owned());
        }
        if length > MOST {
            return Err(format!("a message has {length} bytes; {MOST} are read at most"));
        }
        let Some(found) = bytes.get(at + PREFIX..at + PREFIX + length) else { break };
        message(found);
        at += PREFIX + length;
    }
    Ok(at)
}
