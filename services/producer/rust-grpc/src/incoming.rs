//! Connections for Tonic, which close when the preface of HTTP/2 does not come.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use producer_core::{connection::TimedStream, settings::Settings};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::{
    codegen::tokio_stream::Stream,
    transport::server::{Connected, TcpConnectInfo, TcpIncoming},
};

/// What a listener accepts.
pub(crate) struct TimedIncoming {
    pub(crate) incoming: TcpIncoming,
    pub(crate) settings: Settings,
}

impl Stream for TimedIncoming {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let accepted = ready!(Pin::new(&mut self.incoming).poll_next(cx));
        let settings = &self.settings;
        Poll::Ready(accepted.map(|stream| stream.map(|stream| Connection(TimedStream::http2(stream, settings)))))
    }
}

/// A [`TimedStream`] that Tonic takes.
pub(crate) struct Connection(TimedStream);

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.0.tcp().connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}
