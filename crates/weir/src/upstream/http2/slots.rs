//! All streams of a connection. What one poll does is in proportion to the streams that something has happened to, not to those that are open.

use ::http2::Connection;

use super::request::Reader;
use super::slot::{New, Slot};
use crate::streams::indices::Indices;
use crate::streams::visits::visit;

/// Slots by index, which wakers know, and by stream.
#[derive(Default)]
pub(super) struct Slots {
    list: Vec<Option<Slot>>,
    /// Streams with their slots, in order: ids only grow.
    places: Vec<(u32, usize)>,
    free: Vec<usize>,
    /// Slots whose HEADERS are not sent yet.
    unopened: Indices,
    unopened_count: usize,
    /// Slots whose pipe has changed: by their exchange, or by the connection.
    touched: Indices,
    /// Slots whose request may go on.
    sendable: Indices,
    /// Bytes of responses that all hold.
    held: usize,
}

impl Slots {
    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.list.len()
    }

    /// How many have not sent HEADERS.
    pub(super) fn unopened(&self) -> usize {
        self.unopened_count
    }

    /// Bytes of responses that all hold.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// All that are in use.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.list.iter_mut().flatten().inspect(|_| visit())
    }

    /// The one at an index.
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Slot> {
        visit();
        self.list.get_mut(index)?.as_mut()
    }

    /// That of a stream, for an event that changes its pipe.
    pub(super) fn touch(&mut self, stream: u32) -> Option<&mut Slot> {
        let at = self.places.binary_search_by_key(&stream, |place| place.0).ok()?;
        let index = self.places[at].1;
        self.touched.insert(index);
        self.get_mut(index)
    }

    /// A slot for a new stream.
    pub(super) fn add(&mut self, new: New, reader: Reader) {
        let index = self.free.pop().unwrap_or(self.list.len());
        if index == self.list.len() {
            self.list.push(None);
        }
        new.link.set_index(index);
        self.list[index] = Some(Slot::new(new, reader));
        self.unopened.insert(index);
        self.unopened_count += 1;
        self.woken(index);
    }

    /// The exchange of a slot has done something.
    pub(super) fn woken(&mut self, index: usize) {
        let Some(slot) = self.get_mut(index) else { return };
        if slot.pipe.has_response() && !slot.is_blocked {
            self.sendable.insert(index);
        }
        self.touched.insert(index);
    }

    /// The next slot from `index` on whose pipe has changed since the last call that returned it.
    pub(super) fn take_touched(&mut self, index: &mut usize) -> Option<&mut Slot> {
        loop {
            *index = self.touched.take_from(*index)?;
            visit();
            if self.list.get(*index).is_some_and(Option::is_some) {
                break;
            }
        }
        let slot = self.list[*index].as_mut()?;
        let held = slot.pipe.held();
        self.held = self.held + held - std::mem::replace(&mut slot.held, held);
        Some(slot)
    }

    /// The next slot from `index` on whose request may go on.
    pub(super) fn next_sendable(&self, index: usize) -> Option<usize> {
        self.sendable.next_from(index)
    }

    /// Sends what the exchange of a slot wrote, at most one frame of data. Whether something went out, and whether that was its HEADERS.
    pub(super) fn send(&mut self, index: usize, codec: &mut Connection, scheme: &'static [u8]) -> (bool, bool) {
        let Some(slot) = self.get_mut(index) else {
            self.sendable.remove(index);
            return (false, false);
        };
        let was_open = slot.stream != 0;
        let has_sent = slot.send(codec, scheme);
        let stream = slot.stream;
        let is_waiting = slot.is_waiting || !slot.pipe.has_response();
        let has_opened = !was_open && stream != 0;
        if is_waiting {
            self.sendable.remove(index);
        }
        if has_opened {
            self.places.push((stream, index));
            self.unopened.remove(index);
            self.unopened_count -= 1;
        }
        self.touched.insert(index);
        (has_sent, has_opened)
    }

    /// A window has opened: that of a stream, or 0, that of the connection.
    pub(super) fn unblock(&mut self, stream: u32) {
        if stream == 0 {
            for index in 0..self.list.len() {
                self.unblock_at(index);
            }
        } else if let Ok(at) = self.places.binary_search_by_key(&stream, |place| place.0) {
            self.unblock_at(self.places[at].1);
        }
    }

    /// The target takes further streams.
    pub(super) fn unblock_unopened(&mut self) {
        let mut from = 0;
        while let Some(index) = self.unopened.next_from(from).filter(|_| self.unopened_count > 0) {
            self.unblock_at(index);
            from = index + 1;
        }
    }

    fn unblock_at(&mut self, index: usize) {
        let Some(slot) = self.list.get_mut(index).and_then(Option::as_mut).filter(|slot| slot.is_blocked) else {
            return;
        };
        visit();
        slot.is_blocked = false;
        self.sendable.insert(index);
    }

    /// The exchange at `index` has ended. Returns memory to use again.
    pub(super) fn close(&mut self, index: usize) -> Option<Reader> {
        let slot = self.list.get_mut(index)?.take()?;
        self.held -= slot.held;
        self.touched.remove(index);
        self.sendable.remove(index);
        if slot.stream == 0 {
            self.unopened.remove(index);
            self.unopened_count -= 1;
        } else if let Ok(at) = self.places.binary_search_by_key(&slot.stream, |place| place.0) {
            self.places.remove(at);
        }
        self.free.push(index);
        Some(slot.reader)
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll};

    use super::*;
    use crate::streams::client_stream::{ClientStream, pair};
    use crate::streams::ready::Ready;
    use crate::streams::visits;

    /// A slot whose exchange has written these bytes.
    fn add(slots: &mut Slots, written: &[u8]) -> ClientStream {
        let (stream, pipe, link) = pair(&Ready::new(256));
        assert!(matches!(
            stream.poll_write(&Context::from_waker(std::task::Waker::noop()), written),
            Poll::Ready(Ok(_))
        ));
        slots.add(New { pipe, link }, Reader::default());
        stream
    }

    /// Sends what can be sent; returns how many streams were opened.
    fn send_all(slots: &mut Slots, codec: &mut Connection) -> usize {
        let (mut from, mut opened) = (0, 0);
        while let Some(index) = slots.next_sendable(from) {
            opened += usize::from(slots.send(index, codec, b"http").1);
            from = index + 1;
        }
        from = 0;
        while slots.take_touched(&mut from).is_some() {
            from += 1;
        }
        opened
    }

    fn visits_beside(stalled: usize) -> usize {
        let (mut slots, mut codec) = (Slots::default(), Connection::client(::http2::Config::default(), 0));
        let _stalled: Vec<ClientStream> = (0..stalled).map(|_| add(&mut slots, b"GET / HT")).collect();
        assert_eq!(send_all(&mut slots, &mut codec), 0);
        let before = visits::count();
        let _stream = add(&mut slots, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(send_all(&mut slots, &mut codec), 1);
        assert!(slots.touch(1).is_some());
        assert!(slots.close(stalled).is_some());
        assert_eq!((slots.unopened(), slots.is_empty()), (stalled, stalled == 0));
        visits::count() - before
    }

    #[test]
    fn streams_that_do_nothing_cost_the_others_nothing() {
        let few = visits_beside(0);
        assert!(few > 0);
        assert_eq!(visits_beside(90), few);
    }

    #[test]
    fn a_stream_without_a_place_waits_for_one() {
        let (mut slots, mut codec) = (Slots::default(), Connection::client(::http2::Config::default(), 0));
        let most = codec.available_streams() as usize;
        let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let _streams: Vec<ClientStream> = (0..most + 2).map(|_| add(&mut slots, request)).collect();
        assert_eq!(send_all(&mut slots, &mut codec), most);
        slots.unblock_unopened();
        assert_eq!((send_all(&mut slots, &mut codec), slots.unopened()), (0, 2));
        codec.release(1);
        assert!(slots.close(0).is_some());
        assert_eq!(send_all(&mut slots, &mut codec), 0, "nobody has looked");
        slots.unblock_unopened();
        assert_eq!((send_all(&mut slots, &mut codec), slots.unopened()), (1, 1));
    }
}
