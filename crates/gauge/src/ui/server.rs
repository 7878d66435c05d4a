//! HTTP/1.1 with bounds on connections and on how long a client may take.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

/// Open connections; further ones wait in the kernel's queue.
const CONNECTIONS: usize = 64;
/// Bytes of a request's head.
const HEAD: usize = 16 * 1024;
/// Time for a request's head to arrive, counted from when the connection last had nothing to do.
const HEAD_OR_IDLE: Duration = Duration::from_secs(30);
/// Time for requests in flight after the end.
const FAREWELL: Duration = Duration::from_secs(1);
/// Pause after a failed accept: without a free descriptor the next one fails at once too.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop` completes.
pub(super) async fn serve(listener: TcpListener, router: Router, stop: impl Future<Output = ()>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    let (close, closing) = watch::channel(());
    let accepting = async {
        loop {
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
            let stream = accept(&listener).await;
            let (router, closing) = (router.clone(), closing.clone());
            tokio::spawn(async move {
                connection(stream, router, closing).await;
                drop(slot);
            });
        }
    };
    tokio::select! {
        () = accepting => {}
        () = stop => {}
    }
    drop((listener, closing));
    close.send_replace(());
    // Every connection holds a receiver.
    let _ = tokio::time::timeout(FAREWELL, close.closed()).await;
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn connection(stream: TcpStream, router: Router, mut closing: watch::Receiver<()>) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_OR_IDLE)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    tokio::select! {
        // How a client's connection ends is its own affair.
        _ = connection.as_mut() => return,
        _ = closing.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
