//! One stream of a connection.

use std::sync::Arc;

use ::http2::{Connection, ErrorCode, ResetReason};

use super::request;
use crate::error::Reason;
use crate::runtime::clock;
use crate::streams::body::Progress;
use crate::streams::client_stream::Link;
use crate::streams::pipe::Pipe;

/// A stream that the task has not seen yet.
#[derive(Debug)]
pub(super) struct New {
    pub(super) pipe: Pipe,
    pub(super) link: Arc<Link>,
}

/// A stream that has a place at the connection.
pub(super) struct Slot {
    /// 0: HEADERS are not sent yet.
    pub(super) stream: u32,
    pub(super) pipe: Pipe,
    pub(super) link: Arc<Link>,
    pub(super) reader: request::Reader,
    pub(super) sent_ns: u64,
    pub(super) has_head: bool,
    pub(super) has_ended: bool,
    /// Nothing goes out until a window has opened, or there is a place for the stream.
    pub(super) is_blocked: bool,
    /// Nothing more goes out until the exchange has written more, or it is unblocked.
    pub(super) is_waiting: bool,
    /// Bytes of the response that it holds, as they were last counted.
    pub(super) held: usize,
}

impl Slot {
    /// A stream without HEADERS yet.
    pub(super) fn new(New { pipe, link }: New, reader: request::Reader) -> Self {
        Slot {
            stream: 0,
            pipe,
            link,
            reader,
            sent_ns: u64::MAX,
            has_head: false,
            has_ended: false,
            is_blocked: false,
            is_waiting: false,
            held: 0,
        }
    }

    /// Sends what the exchange wrote, at most one frame of data. Whether something went out.
    pub(super) fn send(&mut self, codec: &mut Connection, scheme: &'static [u8]) -> bool {
        let Slot { pipe, reader, stream, is_blocked, is_waiting, .. } = self;
        *is_waiting = false;
        let mut has_sent = false;
        loop {
            let (is_data, step) = pipe.take_response(|bytes| {
                let (count, step) = reader.step(codec, *stream, scheme, bytes);
                (count, (count > 0, step))
            });
            match step {
                request::Step::Head(opened) => {
                    has_sent = true;
                    *stream = opened;
                    self.sent_ns = clock::loop_ns();
                    pipe.head_sent();
                }
                request::Step::Body(Progress::Sent) if is_data => return true,
                request::Step::Body(Progress::Sent) => {}
                request::Step::Body(Progress::Ended) => return true,
                request::Step::Body(Progress::NeedMore) if pipe.take_shutdown() => {
                    reader.end_tunnel(codec, *stream);
                    return true;
                }
                request::Step::Body(progress @ (Progress::NeedMore | Progress::Blocked)) => {
                    *is_blocked = progress == Progress::Blocked;
                    *is_waiting = true;
                    return has_sent;
                }
                request::Step::NoTunnel => {
                    pipe.fail(Reason::NoTunnel);
                    self.lose();
                    return true;
                }
                request::Step::Broken => {
                    // The stream is over, or what the gateway wrote is no request.
                    codec.reset(*stream, ErrorCode::CANCEL);
                    self.lose();
                    return true;
                }
            }
        }
    }

    /// The stream is over before its time.
    pub(super) fn end(&mut self, reason: ResetReason, is_open: bool) {
        if is_open {
            self.link.set_reset();
        }
        match reason {
            ResetReason::NotProcessed => self.link.set_unprocessed(),
            ResetReason::Peer(_) => {}
            ResetReason::Malformed(_) | ResetReason::TooLarge | ResetReason::Frame(_) => {
                self.pipe.fail(Reason::BadResponse);
            }
        }
        self.lose();
    }

    /// Nothing more goes out. A response that is complete stays readable: a target may respond before it has the whole request, and then
    /// reset the rest of it (RFC 9113 section 8.1).
    pub(super) fn lose(&mut self) {
        if self.stream == 0 {
            self.link.set_unprocessed();
        }
        if self.has_ended {
            self.pipe.refuse_writes();
        } else {
            self.pipe.reset();
        }
    }
}
