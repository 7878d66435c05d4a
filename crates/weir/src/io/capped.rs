//! A stream that gives at most so many bytes. For requests that the gateway makes for itself: the client under them takes in whatever comes before the
//! response (interim responses without end, blanks) without letting its caller look at the clock, so bytes bound what time cannot.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of a response beside its content: heads, interim ones among them.
pub const HEADS: usize = 64 * 1024;

/// The stream and how much more may be read of it.
#[derive(Debug)]
pub struct Capped<S> {
    stream: S,
    left: Arc<AtomicUsize>,
}

/// How much more may be read of a [`Capped`] stream that serves one response after the other.
#[derive(Debug)]
pub struct Allowance(Arc<AtomicUsize>);

impl Allowance {
    /// From here on at most `most` bytes.
    pub fn refill(&self, most: usize) {
        self.0.store(most, Relaxed);
    }
}

impl<S> Capped<S> {
    /// Of `stream`, at most `most` bytes; beyond them a read fails with [`io::ErrorKind::InvalidData`].
    pub fn new(stream: S, most: usize) -> Self {
        Capped { stream, left: Arc::new(AtomicUsize::new(most)) }
    }

    /// Of `stream`, [`HEADS`] bytes and then as many as the allowance has.
    pub fn refilled(stream: S) -> (Self, Allowance) {
        let left = Arc::new(AtomicUsize::new(HEADS));
        (Capped { stream, left: left.clone() }, Allowance(left))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Capped<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let left = self.left.load(Relaxed);
        if left == 0 {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "the response is too large")));
        }
        let size = buf.remaining().min(left);
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(size));
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut part))?;
        let count = part.filled().len();
        buf.advance(count);
        self.left.store(left - count, Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Capped<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn bytes_come_up_to_the_bound_and_then_an_error() {
        for size in 1..20 {
            let (mut near, far) = tokio::io::duplex(64);
            near.write_all(b"0123456789abcdef").await.unwrap();
            let (mut capped, mut read) = (Capped::new(far, 10), Vec::new());
            let mut bytes = vec![0; size];
            let error = loop {
                match capped.read(&mut bytes).await {
                    Ok(count) => read.extend_from_slice(&bytes[..count]),
                    Err(error) => break error,
                }
            };
            assert_eq!((read.as_slice(), error.kind()), (&b"0123456789"[..], io::ErrorKind::InvalidData));
        }
    }

    #[tokio::test]
    async fn what_ends_before_the_bound_ends() {
        let (mut near, far) = tokio::io::duplex(64);
        near.write_all(b"0123").await.unwrap();
        drop(near);
        let mut read = Vec::new();
        Capped::new(far, 10).read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"0123");
    }
}
