//! The streams of one connection whose exchange has not ended.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

use ::http2::{Connection, ErrorCode};

use super::response::{Reader, Requested, Step};
use crate::error::Reason;
use crate::streams::body::Progress;
use crate::streams::indices::Indices;
use crate::streams::pipe::Pipe;
use crate::streams::ready::Ready;
use crate::streams::visits::visit;

/// Free slots that a worker keeps.
const KEPT: usize = 256;
/// Wakers that an idle connection keeps.
const KEPT_WAKERS: usize = 2;

/// One stream, or the memory of one that was.
pub(super) struct Slot<F> {
    /// 0: free.
    pub(super) stream: u32,
    pub(super) pipe: Pipe,
    /// The exchange; the box is used again.
    future: Pin<Box<Option<F>>>,
    waker: Waker,
    reader: Reader,
    /// A window is empty: nothing goes out until the codec says that it is not.
    is_blocked: bool,
    /// Nothing more goes out until the exchange has written more, or a window has opened.
    is_waiting: bool,
    /// Bytes of the request body that it holds, as they were last counted.
    held: usize,
}

impl<F: Future<Output = ()>> Slot<F> {
    /// Whether the exchange has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.future.is_none()
    }

    /// Whether the end of a tunnel has still to go out, which waits for nothing but room in the output.
    pub(super) fn owes_end(&self) -> bool {
        self.reader.is_tunnel() && !self.reader.has_ended && self.pipe.has_response() && !self.pipe.is_reset()
    }

    /// Polls the exchange, if it has not ended.
    fn poll(&mut self) {
        if let Some(future) = self.future.as_mut().as_pin_mut()
            && future.poll(&mut Context::from_waker(&self.waker)).is_ready()
        {
            self.future.set(None);
        }
    }

    /// Sends what the exchange wrote, at most one frame of data. Whether something went out.
    fn send(&mut self, codec: &mut Connection) -> bool {
        let Slot { pipe, reader, stream, is_blocked, is_waiting, .. } = self;
        *is_waiting = false;
        let mut has_sent = false;
        loop {
            let (is_data, step) = pipe.take_response(|bytes| {
                let (count, step) = reader.step(codec, *stream, bytes);
                (count, (count > 0, step))
            });
            match step {
                Step::Interim => has_sent = true,
                Step::Head => {
                    has_sent = true;
                    pipe.head_sent();
                }
                Step::Body(Progress::Sent) if is_data => return true,
                Step::Body(Progress::Sent) => {}
                Step::Body(Progress::Ended) => {
                    // A refused tunnel is shut down behind its response.
                    if reader.is_tunnel() {
                        pipe.take_shutdown();
                    }
                    return true;
                }
                Step::Body(Progress::NeedMore) if reader.is_tunnel() && pipe.take_shutdown() => {
                    reader.end_tunnel(codec, *stream);
                    return true;
                }
                Step::Body(progress @ (Progress::NeedMore | Progress::Blocked)) => {
                    *is_blocked = progress == Progress::Blocked;
                    *is_waiting = true;
                    return has_sent;
                }
                Step::Broken => {
                    pipe.reset();
                    codec.reset(*stream, ErrorCode::INTERNAL_ERROR);
                    return false;
                }
            }
        }
    }

    /// How the stream ends whose exchange has ended: a response that is not complete must not pass for a complete one.
    pub(super) fn code(&self) -> Option<ErrorCode> {
        if self.reader.has_ended {
            return None;
        }
        Some(match self.pipe.failure() {
            Some(Reason::ClientDisconnected | Reason::BodyTimeout) => ErrorCode::CANCEL,
            // RFC 8441 section 5: the counterpart of a reset of TCP.
            None if self.reader.is_tunnel() => ErrorCode::CANCEL,
            _ => ErrorCode::INTERNAL_ERROR,
        })
    }
}

/// Free slots of a worker, whichever connection they were of: an idle connection holds none.
pub(super) struct Spares<F>(RefCell<Vec<Slot<F>>>);

impl<F> Default for Spares<F> {
    fn default() -> Self {
        Spares(RefCell::default())
    }
}

impl<F: Future<Output = ()>> Spares<F> {
    /// A slot that is like new.
    fn take(&self, stream: u32, request: Requested, waker: Waker) -> Slot<F> {
        let Some(mut slot) = self.0.borrow_mut().pop() else {
            let (pipe, future, reader) = (Pipe::default(), Box::pin(None), Reader::new(request));
            return Slot { stream, pipe, future, waker, reader, is_blocked: false, is_waiting: false, held: 0 };
        };
        slot.reader.begin(request);
        (slot.stream, slot.waker, slot.is_blocked, slot.is_waiting) = (stream, waker, false, false);
        slot
    }

    fn put_back(&self, mut slot: Slot<F>) {
        let mut list = self.0.borrow_mut();
        if list.len() < KEPT {
            slot.stream = 0;
            slot.held = 0;
            slot.pipe.clear();
            // The connection may be over before the slot is used again.
            slot.waker = Waker::noop().clone();
            list.push(slot);
        }
    }
}

/// All slots of a connection. What one poll does is in proportion to the streams that something has happened to, not to those that are open: a
/// client may have a hundred that it takes nothing of.
pub(super) struct Slots<F> {
    list: Vec<Option<Slot<F>>>,
    /// The waker of each place in the list.
    wakers: Vec<Waker>,
    spares: Rc<Spares<F>>,
    ready: Arc<Ready>,
    /// Streams with their slots, in order: a client's ids only grow.
    places: Vec<(u32, usize)>,
    free: Vec<usize>,
    /// Slots whose pipe has changed: by their exchange, or by the connection.
    touched: Indices,
    /// Slots whose response may go on.
    sendable: Indices,
    /// Bytes of request bodies that all hold.
    held: usize,
}

impl<F: Future<Output = ()>> Slots<F> {
    pub(super) fn new(ready: Arc<Ready>, spares: Rc<Spares<F>>) -> Self {
        Slots {
            list: Vec::new(),
            wakers: Vec::new(),
            spares,
            ready,
            places: Vec::new(),
            free: Vec::new(),
            touched: Indices::default(),
            sendable: Indices::default(),
            held: 0,
        }
    }

    /// Streams whose exchange has not ended.
    pub(super) fn active(&self) -> usize {
        self.places.len()
    }

    /// Bytes of request bodies that all hold.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// All that are in use.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Slot<F>)> {
        let all = self.list.iter_mut().enumerate();
        all.filter_map(|(index, slot)| Some((index, slot.as_mut()?))).inspect(|_| visit())
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Slot<F>> {
        visit();
        self.list.get_mut(index)?.as_mut()
    }

    pub(super) fn find(&mut self, stream: u32) -> Option<(usize, &mut Slot<F>)> {
        let at = self.places.binary_search_by_key(&stream, |place| place.0).ok()?;
        let index = self.places[at].1;
        Some((index, self.get_mut(index)?))
    }

    /// Polls an exchange. Returns its stream, and the bytes that it took of the request body.
    pub(super) fn poll(&mut self, index: usize) -> Option<(u32, usize)> {
        let slot = self.get_mut(index)?;
        slot.poll();
        let result = (slot.stream, slot.pipe.take_credit());
        if slot.pipe.has_response() && !slot.is_blocked {
            self.sendable.insert(index);
        }
        self.touched.insert(index);
        Some(result)
    }

    /// The connection has changed the pipe of a slot.
    pub(super) fn touch(&mut self, index: usize) {
        self.touched.insert(index);
    }

    /// The next slot from `index` on whose pipe has changed since the last call that returned it.
    pub(super) fn take_touched(&mut self, index: &mut usize) -> Option<&mut Slot<F>> {
        *index = self.touched.take_from(*index)?;
        let at = *index;
        visit();
        let slot = self.list.get_mut(at)?.as_mut()?;
        let held = slot.pipe.held();
        self.held = self.held + held - std::mem::replace(&mut slot.held, held);
        Some(slot)
    }

    /// The next slot from `index` on whose response may go on, which is moved to it.
    pub(super) fn next_sendable(&mut self, index: &mut usize) -> Option<&mut Slot<F>> {
        *index = self.sendable.next_from(*index)?;
        let at = *index;
        self.get_mut(at)
    }

    /// Sends what the exchange of a slot wrote, at most one frame of data. Whether something went out.
    pub(super) fn send(&mut self, index: usize, codec: &mut Connection) -> bool {
        let Some(slot) = self.get_mut(index) else { return false };
        let has_sent = slot.send(codec);
        if slot.is_waiting || !slot.pipe.has_response() {
            self.sendable.remove(index);
        }
        self.touched.insert(index);
        has_sent
    }

    /// A window has opened: that of a stream, or 0, that of the connection.
    pub(super) fn unblock(&mut self, stream: u32) {
        if stream != 0 {
            if let Some((index, slot)) = self.find(stream) {
                slot.is_blocked = false;
                self.sendable.insert(index);
            }
            return;
        }
        let Slots { list, sendable, .. } = self;
        for (index, slot) in list.iter_mut().enumerate() {
            let Some(slot) = slot.as_mut().filter(|slot| slot.is_blocked) else { continue };
            visit();
            slot.is_blocked = false;
            sendable.insert(index);
        }
    }

    /// A slot for a new stream; its exchange is what `make` makes of its pipe.
    pub(super) fn open(&mut self, stream: u32, request: Requested, make: impl FnOnce(&Pipe) -> F) {
        let index = self.free.pop().unwrap_or(self.list.len());
        if index == self.list.len() {
            self.list.push(None);
            if index == self.wakers.len() {
                self.wakers.push(self.ready.waker(index));
            }
        }
        let slot = self.list[index].insert(self.spares.take(stream, request, self.wakers[index].clone()));
        let future = make(&slot.pipe);
        slot.future.set(Some(future));
        let at = self.places.partition_point(|place| place.0 < stream);
        self.places.insert(at, (stream, index));
        self.ready.insert(index);
    }

    /// The stream at `index` is over, and so is its exchange.
    pub(super) fn close(&mut self, index: usize) {
        let Some(slot) = self.list.get_mut(index).and_then(Option::take) else { return };
        let stream = slot.stream;
        self.held -= slot.held;
        self.spares.put_back(slot);
        self.touched.remove(index);
        self.sendable.remove(index);
        if let Ok(at) = self.places.binary_search_by_key(&stream, |place| place.0) {
            self.places.remove(at);
        }
        self.free.push(index);
        if self.places.is_empty() {
            self.list.clear();
            self.list.shrink_to(KEPT_WAKERS);
            self.free.clear();
            self.wakers.truncate(KEPT_WAKERS);
        }
    }
}
