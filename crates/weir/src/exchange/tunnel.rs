//! Upgraded connections: bytes both ways until both sides are done.

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use h1::BodyKind;
use tokio::io::AsyncWrite;

use super::pump::{Pump, PumpError};
use super::upstream_exchange::UpstreamSide;
use crate::client::downstream::Downstream;
use crate::io::buffer::Buffers;

/// Bytes that went through a tunnel.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tunnelled {
    /// From the client.
    pub up: u64,
    /// To the client.
    pub down: u64,
}

/// Carries bytes both ways. A side that ends its stream has the end passed on; the tunnel is over when both have ended, one fails,
/// or nothing moved for `idle`. A target that takes nothing more may still have something to say. The first `keep` bytes of the client's buffer are left alone.
pub async fn run(
    down: &mut Downstream,
    up: &mut UpstreamSide,
    keep: usize,
    buffers: &Buffers,
    idle: Option<Duration>,
) -> Tunnelled {
    let mut upward = Pump::new(BodyKind::UntilClose, BodyKind::UntilClose, None);
    let mut downward = Pump::new(BodyKind::UntilClose, BodyKind::UntilClose, None);
    let mut client_ended = false;
    let mut up_ended = false;
    let mut down_ended = false;
    down.deadline.set(idle);
    std::future::poll_fn(|cx| {
        let mut progress = false;
        let sent = (down.stream.sent_later(), up.stream.sent_later());
        if !client_ended && !up_ended {
            let source = (&mut down.stream, &mut down.buffer, keep);
            match upward.poll(cx, buffers, source, (&mut up.stream, &mut up.out), &mut progress) {
                Poll::Ready(Ok(())) => client_ended = true,
                // What it sent before lies in its direction: that ends by itself, or fails too.
                Poll::Ready(Err(PumpError::Write(_))) => up_ended = true,
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => {}
            }
        }
        if client_ended && !up_ended {
            up_ended = Pin::new(&mut up.stream).poll_shutdown(cx).is_ready();
        }
        if !down_ended {
            let source = (&mut up.stream, &mut up.buffer, 0);
            match downward.poll(cx, buffers, source, (&mut down.stream, &mut down.out), &mut progress) {
                Poll::Ready(Ok(())) => {
                    down_ended = true;
                    let _ = Pin::new(&mut down.stream).poll_shutdown(cx);
                }
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => {}
            }
        }
        if progress || (down.stream.sent_later(), up.stream.sent_later()) != sent {
            down.deadline.set(idle);
        }
        if up_ended && down_ended {
            return Poll::Ready(());
        }
        match down.poll_stalled(cx, downward.piece(&up.buffer)) {
            Some(true) => return Poll::Ready(()),
            Some(false) => down.deadline.set(idle),
            None => {}
        }
        Poll::Pending
    })
    .await;
    Tunnelled { up: upward.bytes, down: downward.bytes }
}
