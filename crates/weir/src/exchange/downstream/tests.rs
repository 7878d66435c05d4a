use std::cell::Cell;
use std::pin::{Pin, pin};
use std::task::Waker;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::*;
use crate::server::deadline::Deadlines;

/// A client whose kernel announces no space, but has some.
#[derive(Default)]
struct Slow {
    room: Cell<usize>,
}

impl AsyncRead for Slow {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Slow {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl ClientIo for Slow {
    fn abort(&self) {}

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        match bytes.len().min(self.room.take()) {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }
}

#[test]
fn a_client_that_took_a_byte_before_the_deadline_has_another() {
    let deadlines = Deadlines::new();
    let deadline = deadlines.add();
    // What is idle can be made to fire without a clock.
    deadline.set_idle(true);
    let client = Client::of_peer("127.0.0.1".parse().unwrap(), &[]);
    let mut down =
        Downstream { stream: Slow::default(), buffer: Buffer::default(), out: Outgoing::default(), deadline, client };
    let body = vec![b'b'; COPIED + 1];
    let mut cx = Context::from_waker(Waker::noop());
    for takes in [true, true, false] {
        down.stream.room.set(usize::from(takes));
        let before = down.out.written();
        down.deadline.set(Some(Duration::from_secs(600)));
        assert_eq!(down.poll_stalled(&cx, &body), None, "the deadline has not passed");
        deadlines.fire_idle();
        assert_eq!(down.poll_stalled(&cx, &body), Some(!takes));
        assert_eq!(down.out.written(), before + usize::from(takes));
    }
    down.out.clear();
    let mut send = pin!(down.send(&body, Some(Duration::from_secs(600))));
    assert!(send.as_mut().poll(&mut cx).is_pending());
    deadlines.fire_idle();
    let Poll::Ready(Err(error)) = send.as_mut().poll(&mut cx) else { panic!("the client took nothing") };
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}
