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
    /// An extended CONNECT that is not refused: nothing but DATA follows its heads (section 8.5, RFC 8441).
    pub(crate) is_connect: bool,
    /// The sender found the window empty.
    pub(crate) is_blocked: bool,
    pub(crate) interim: u8,
}

impl Stream {
    /// A stream of which nothing was seen, with its two windows.
    pub(crate) fn new(id: u32, receive: Receive, send: Send) -> Self {
        Stream {
            id,
            receive,
            send,
            remaining: None,
            priority: Priority::default(),
            head_received: false,
            head_sent: false,
            receive_ended: false,
            send_ended: false,
            is_reset: false,
            is_head_request: false,
            is_connect: false,
            is_blocked: false,
            interim: 0,
        }
    }
}

/// Streams by id.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    list: Vec<Stream>,
    /// Where a stream was last, by its id.
    hints: Vec<u16>,
    /// Ids with their places in the list, in order. Ids only grow, so a new one goes behind the others.
    places: Vec<(u32, usize)>,
    /// Streams that were compared with an id.
    #[cfg(test)]
    visits: std::cell::Cell<usize>,
}

const HINTS: usize = 128;

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    #[inline]
    fn index(&self, id: u32) -> Option<usize> {
        let hint = self.hints.get(id as usize / 2 % HINTS).map_or(0, |&hint| usize::from(hint));
        match self.list.get(hint) {
            Some(stream) if self.is_it(stream.id, id) => Some(hint),
            _ => self.place(id).ok().map(|at| self.places[at].1),
        }
    }

    /// Where the id is among all, or where it would be.
    fn place(&self, id: u32) -> Result<usize, usize> {
        self.places.binary_search_by(|&(known, _)| {
            self.is_it(known, id);
            known.cmp(&id)
        })
    }

    #[inline]
    fn is_it(&self, known: u32, id: u32) -> bool {
        #[cfg(test)]
        self.visits.set(self.visits.get() + 1);
        known == id
    }

    #[inline]
    pub(crate) fn find(&mut self, id: u32) -> Option<&mut Stream> {
        let index = self.index(id)?;
        self.list.get_mut(index)
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Stream> {
        self.list.get(self.index(id)?)
    }

    pub(crate) fn insert(&mut self, stream: Stream) -> &mut Stream {
        if self.hints.is_empty() {
            self.hints = vec![0; HINTS];
        }
        let newest = self.list.len();
        let at = if self.places.last().is_none_or(|&(last, _)| last < stream.id) {
            self.places.len()
        } else {
            self.place(stream.id).unwrap_or_else(|at| at)
        };
        self.places.insert(at, (stream.id, newest));
        self.hint(stream.id, newest);
        self.list.push(stream);
        &mut self.list[newest]
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<Stream> {
        let at = self.place(id).ok()?;
        let (_, index) = self.places.remove(at);
        let stream = self.list.swap_remove(index);
        if let Some(moved) = self.list.get(index).map(|moved| moved.id) {
            if let Ok(at) = self.place(moved) {
                self.places[at].1 = index;
            }
            self.hint(moved, index);
        }
        Some(stream)
    }

    fn hint(&mut self, id: u32, index: usize) {
        if let Some(hint) = self.hints.get_mut(id as usize / 2 % HINTS) {
            *hint = index.min(usize::from(u16::MAX)) as u16;
        }
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Stream> {
        self.list.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever else is open: a look-up compares few ids, also of a stream that there is not, and finds the right one.
    #[test]
    fn a_look_up_compares_few_of_many_streams() {
        const COUNT: u32 = 4096;
        let mut streams = Streams::default();
        for number in 0..COUNT {
            streams.insert(Stream::new(number * 2 + 1, Receive::new(0), Send::new(0)));
        }
        // Every third goes, in an order of its own.
        let is_gone = |id: u32| (id / 2).is_multiple_of(3);
        let mut gone: Vec<u32> = (0..COUNT).map(|number| number * 2 + 1).filter(|id| is_gone(*id)).collect();
        gone.reverse();
        let half = gone.len() / 2;
        gone.rotate_left(half);
        for id in gone {
            streams.visits.set(0);
            assert_eq!(streams.remove(id).map(|stream| stream.id), Some(id));
            assert!(streams.visits.get() <= 2 * 14, "{}", streams.visits.get());
        }
        for id in 0..COUNT * 2 + 10 {
            streams.visits.set(0);
            let expected = (id % 2 == 1 && id < COUNT * 2 && !is_gone(id)).then_some(id);
            assert_eq!(streams.get(id).map(|stream| stream.id), expected);
            assert_eq!(streams.find(id).map(|stream| stream.id), expected);
            assert!(streams.visits.get() <= 2 * 14, "{id}: {}", streams.visits.get());
        }
    }
}
