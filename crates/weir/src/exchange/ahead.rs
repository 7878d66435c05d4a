//! A whole request body, read before the upstream is contacted.
//!
//! The bytes stay where they are, in the client's buffer: the exchange's own decoder ([`Pump`](super::pump::Pump)) has not begun. It
//! forwards, repeats or drops the body afterwards as if nobody had looked. The decoder here only finds the end, and never moves a position.

use std::future::poll_fn;
use std::ops::Range;
use std::time::Duration;

use h1::{BodyDecoder, BodyEvent, BodyKind};

use super::stall::Stall;
use super::{Exchange, proxy};
use crate::client::downstream::Waited;
use crate::error::{Error, Reason};
use crate::runtime::clock;
use crate::runtime::deadline::nanos;

/// Bytes of chunk framing that come on top of twice the limit: small chunks cost more than they carry.
const FRAMING: u64 = 64 * 1024;

/// A body that was read.
pub(super) enum Ahead {
    /// It lies in the client's buffer as it is, counted from the first byte that is not consumed.
    InPlace(Range<usize>),
    /// Its data without chunk framing.
    Copied(Vec<u8>),
}

impl Ahead {
    pub(super) fn bytes<'b>(&'b self, x: &'b Exchange<'_>) -> &'b [u8] {
        match self {
            Ahead::InPlace(range) => &x.down.buffer.filled()[range.clone()],
            Ahead::Copied(data) => data,
        }
    }
}

/// Reads the body to its end. `total` is how long the whole exchange may take.
///
/// # Errors
/// 400 when its framing is broken, 408 when it does not come before the deadline, 413 when it has more than `limit` bytes, 499 when the client
/// disconnects.
pub(super) async fn read(x: &mut Exchange<'_>, limit: u64, total: Option<Duration>) -> Result<Ahead, Error> {
    let kind = x.scratch.request.body;
    let mut search = Search { kind, decoder: BodyDecoder::new(kind), at: 0, data: Vec::new(), limit };
    // A body that is here already needs neither a wait nor a 100 (Continue).
    if let Some(found) = search.step(x.down.buffer.filled())? {
        return Ok(found);
    }
    if x.expects_continue() {
        proxy::send_continue(x).await?;
    }
    let idle = x.snapshot.config().server.body_idle_timeout;
    let total_due = total.map_or(u64::MAX, |total| x.log.started_ns.saturating_add(nanos(total)));
    x.stalls.change(Stall::ClientSends);
    loop {
        let idle_due = idle.map_or(u64::MAX, |idle| clock::loop_ns().saturating_add(nanos(idle)));
        x.down.deadline.set_at(idle_due.min(total_due));
        match poll_fn(|cx| x.down.poll_fill(cx, &x.worker.buffers)).await {
            Waited::Bytes => {}
            Waited::Closed => return Err(Reason::ClientDisconnected.into()),
            Waited::Late if idle_due > total_due => {
                return Err(Error::new(Reason::BodyTimeout, "it did not come before the total timeout"));
            }
            Waited::Late => return Err(Reason::BodyTimeout.into()),
        }
        if let Some(found) = search.step(x.down.buffer.filled())? {
            x.stalls.change(Stall::None);
            return Ok(found);
        }
    }
}

/// How far the end was looked for.
struct Search {
    kind: BodyKind,
    decoder: BodyDecoder,
    /// Bytes that were looked at.
    at: usize,
    data: Vec<u8>,
    limit: u64,
}

impl Search {
    /// Looks on; `input` begins with the first byte of the body every time.
    fn step(&mut self, input: &[u8]) -> Result<Option<Ahead>, Error> {
        match self.kind {
            BodyKind::None => return Ok(Some(Ahead::InPlace(0..0))),
            BodyKind::Length(length) if length > self.limit => return Err(Reason::BodyTooLarge.into()),
            BodyKind::Length(length) => {
                let end = usize::try_from(length).unwrap_or(usize::MAX);
                return Ok((input.len() >= end).then_some(Ahead::InPlace(0..end)));
            }
            _ => {}
        }
        loop {
            let rest = &input[self.at..];
            let decoded = self.decoder.decode(rest);
            let (consumed, event) = decoded.map_err(|error| Error::new(Reason::BadRequest, error.text()))?;
            self.at += consumed;
            let needs_more = event == BodyEvent::NeedMore;
            match event {
                BodyEvent::Data(range) => self.data.extend_from_slice(&rest[range]),
                BodyEvent::End => return Ok(Some(Ahead::Copied(std::mem::take(&mut self.data)))),
                BodyEvent::NeedMore => {}
            }
            if self.data.len() as u64 > self.limit
                || self.at as u64 > self.limit.saturating_mul(2).saturating_add(FRAMING)
            {
                return Err(Reason::BodyTooLarge.into());
            }
            if needs_more {
                return Ok(None);
            }
        }
    }
}
