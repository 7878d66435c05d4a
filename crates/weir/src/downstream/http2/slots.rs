//! The streams of one connection whose exchange has not ended.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use ::http2::{Connection, ErrorCode};

use super::response::{Reader, Requested, Step};
use crate::error::Reason;
use crate::streams::body::Progress;
use crate::streams::pipe::Pipe;
use crate::streams::ready::Ready;

/// Free slots that an idle connection keeps.
const KEPT: usize = 2;

/// One stream, or the memory of one that was.
pub(super) struct Slot<F> {
    /// 0: free.
    pub(super) stream: u32,
    pub(super) pipe: Pipe,
    /// The exchange; the box is used again.
    future: Pin<Box<Option<F>>>,
    waker: Waker,
    reader: Reader,
}

impl<F: Future<Output = ()>> Slot<F> {
    /// Whether the exchange has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.future.is_none()
    }

    /// Polls the exchange, if it has not ended.
    pub(super) fn poll(&mut self) {
        if let Some(future) = self.future.as_mut().as_pin_mut()
            && future.poll(&mut Context::from_waker(&self.waker)).is_ready()
        {
            self.future.set(None);
        }
    }

    /// Sends what the exchange wrote, at most one frame of data. Whether something went out.
    pub(super) fn send(&mut self, codec: &mut Connection) -> bool {
        let Slot { pipe, reader, stream, .. } = self;
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
                Step::Body(Progress::NeedMore) | Step::Body(Progress::Blocked) => return has_sent,
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
            Some(Reason::ClientGone | Reason::BodyTimeout) => ErrorCode::CANCEL,
            // RFC 8441 section 5: the counterpart of a reset of TCP.
            None if self.reader.is_tunnel() => ErrorCode::CANCEL,
            _ => ErrorCode::INTERNAL_ERROR,
        })
    }
}

/// All slots of a connection.
pub(super) struct Slots<F> {
    list: Vec<Slot<F>>,
    ready: Arc<Ready>,
    active: usize,
}

impl<F: Future<Output = ()>> Slots<F> {
    pub(super) fn new(ready: Arc<Ready>) -> Self {
        Slots { list: Vec::new(), ready, active: 0 }
    }

    /// Streams whose exchange has not ended.
    pub(super) fn active(&self) -> usize {
        self.active
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Slot<F>)> {
        self.list.iter_mut().enumerate().filter(|(_, slot)| slot.stream != 0)
    }

    /// The first slot in use from `index` on, which is moved to it.
    pub(super) fn next_from(&mut self, index: &mut usize) -> Option<&mut Slot<F>> {
        *index += self.list.get(*index..)?.iter().position(|slot| slot.stream != 0)?;
        self.list.get_mut(*index)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Slot<F>> {
        self.list.get_mut(index).filter(|slot| slot.stream != 0)
    }

    pub(super) fn find(&mut self, stream: u32) -> Option<(usize, &mut Slot<F>)> {
        self.iter_mut().find(|(_, slot)| slot.stream == stream)
    }

    /// A slot for a new stream; its exchange is what `make` makes of its pipe.
    pub(super) fn open(&mut self, stream: u32, request: Requested, make: impl FnOnce(&Pipe) -> F) {
        let index = self.list.iter().position(|slot| slot.stream == 0).unwrap_or(self.list.len());
        if index == self.list.len() {
            self.list.push(Slot {
                stream: 0,
                pipe: Pipe::default(),
                future: Box::pin(None),
                waker: self.ready.waker(index),
                reader: Reader::new(request),
            });
        }
        let slot = &mut self.list[index];
        slot.pipe.clear();
        slot.reader.begin(request);
        slot.stream = stream;
        let future = make(&slot.pipe);
        slot.future.set(Some(future));
        self.active += 1;
        self.ready.insert(index);
    }

    /// The stream at `index` is over, and so is its exchange.
    pub(super) fn close(&mut self, index: usize) {
        self.list[index].stream = 0;
        self.active -= 1;
        if self.active == 0 {
            self.list.truncate(KEPT);
        }
    }
}
