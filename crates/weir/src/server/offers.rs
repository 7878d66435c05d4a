//! The old side of take-overs: gives this process' sockets to each new one that requests them, until one serves.
//!
//! A process that drains goes on with it. Its listeners are closed then, but it has the admin address until it ends.

use std::future::Future;
use std::io;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::oneshot;

use super::takeover::{self, Sockets};

/// Sockets on their way to another process, until it is ready.
type GivingAway = Pin<Box<dyn Future<Output = io::Result<UnixStream>>>>;

/// What there is to give, and who is being given it.
pub struct Offers {
    /// Where a new process requests the sockets.
    listener: Option<UnixListener>,
    /// The sockets to give away, besides those of the listeners.
    others: Option<Sockets>,
    giving: Option<GivingAway>,
}

impl Offers {
    /// To whoever connects to `listener`.
    pub fn new(listener: Option<UnixListener>, others: Option<Sockets>) -> Self {
        Offers { listener, others, giving: None }
    }

    /// Whether another process has the sockets, and may serve.
    pub fn is_giving(&self) -> bool {
        self.giving.is_some()
    }

    /// Gives nothing more to anybody.
    pub fn end(&mut self) {
        *self = Offers::new(None, None);
    }

    /// Ready once another process serves. `groups` makes duplicates of the sockets of listeners. May be dropped and called again at any time.
    pub async fn taken(&mut self, groups: impl Fn(&Sockets) -> io::Result<Sockets>) {
        loop {
            let given = match &mut self.giving {
                Some(giving) => giving.await,
                None => {
                    let stream = accept(self.listener.as_ref()).await;
                    self.giving = self.others.as_ref().map(|others| give_away(stream, groups(others)));
                    continue;
                }
            };
            self.giving = None;
            match given.and_then(|stream| takeover::confirm(&stream)) {
                Ok(()) => {
                    tracing::info!("another process takes over");
                    return;
                }
                Err(error) => tracing::warn!(%error, "a take-over was begun and not finished"),
            }
        }
    }
}

/// Gives the sockets away on a thread of its own: it blocks, and must neither delay a signal nor the end of the process.
fn give_away(stream: tokio::net::UnixStream, sockets: io::Result<Sockets>) -> GivingAway {
    Box::pin(async move {
        let (stream, sockets) = (stream.into_std()?, sockets?);
        let (done, given) = oneshot::channel();
        std::thread::spawn(move || {
            let _ = done.send(takeover::give(&stream, &sockets).map(|()| stream));
        });
        given.await.map_err(io::Error::other)?
    })
}

async fn accept(listener: Option<&UnixListener>) -> tokio::net::UnixStream {
    loop {
        match listener {
            None => std::future::pending().await,
            Some(listener) => match listener.accept().await {
                Ok((stream, _)) => return stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a take-over");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            },
        }
    }
}
