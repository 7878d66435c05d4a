//! One stream (RFC 9113 section 5.1).

use crate::flow::{Receive, Send};
use crate::priority::Priority;

/// What is known of a stream from its head to its release.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    pub(crate) id: u32,
    pub(crate) receive: Receive,
    pub(crate) send: Send,
    /// Bytes of body that the head promised and that did not come yet.
    pub(crate) remaining: Option<u64>,
    pub(crate) priority: Priority,
    /// The peer sent its final head.
    pub(crate) head_received: bool,
    /// This side sent its final head.
    pub(crate) head_sent: bool,
    /// END_STREAM, or reset.
    pub(crate) receive_ended: bool,
    pub(crate) send_ended: bool,
    pub(crate) is_reset: bool,
    /// No body may come: the response to HEAD.
    pub(crate) is_head_request: bool,
    /// The sender found the window empty.
    pub(crate) is_blocked: bool,
    pub(crate) interim: u8,
}

/// Streams by id; few at a time.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    list: Vec<Stream>,
    /// Where a stream was last, by its id.
    hints: Vec<u16>,
}

const HINTS: usize = 128;

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    #[inline]
    pub(crate) fn find(&mut self, id: u32) -> Option<&mut Stream> {
        let hint = self.hints.get(id as usize / 2 % HINTS).map_or(0, |&hint| usize::from(hint));
        let index = match self.list.get(hint) {
            Some(stream) if stream.id == id => hint,
            _ => self.list.iter().position(|stream| stream.id == id)?,
        };
        self.list.get_mut(index)
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Stream> {
        self.list.iter().find(|stream| stream.id == id)
    }

    pub(crate) fn insert(&mut self, stream: Stream) -> &mut Stream {
        if self.hints.is_empty() {
            self.hints = vec![0; HINTS];
        }
        self.hints[stream.id as usize / 2 % HINTS] = self.list.len().min(usize::from(u16::MAX)) as u16;
        self.list.push(stream);
        let newest = self.list.len() - 1;
        &mut self.list[newest]
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<Stream> {
        let index = self.list.iter().position(|stream| stream.id == id)?;
        let stream = self.list.swap_remove(index);
        if let (Some(moved), false) = (self.list.get(index), self.hints.is_empty()) {
            self.hints[moved.id as usize / 2 % HINTS] = index.min(usize::from(u16::MAX)) as u16;
        }
        Some(stream)
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Stream> {
        self.list.iter_mut()
    }
}
