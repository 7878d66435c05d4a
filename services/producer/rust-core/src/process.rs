//! The life of the process: logs, listening, the signal to stop.

use std::{net::SocketAddr, process::ExitCode};

use tokio::{net::TcpListener, signal::unix};
use tracing_subscriber::EnvFilter;

use crate::{settings::Settings, store::Store};

/// The exit code for a setting that cannot be used (`EX_USAGE`).
pub const BAD_SETTING: u8 = 64;

/// Why a service did not start, or did not stop as requested.
#[derive(Debug, thiserror::Error)]
pub enum Fatal {
    /// A setting.
    #[error("{0}")]
    Setting(String),
    /// An address that cannot be had.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, std::io::Error),
    /// The server ended by itself.
    #[error("the server failed: {0}")]
    Serve(String),
}

/// Turns the end of a service into its exit code.
pub fn exit(result: Result<(), Fatal>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(fatal) => {
            eprintln!("error: {fatal}");
            ExitCode::from(if matches!(fatal, Fatal::Setting(_)) { BAD_SETTING } else { 1 })
        }
    }
}

/// One JSON object a line on standard output.
///
/// # Errors
/// A log filter that cannot be read.
pub fn start_log(settings: &Settings) -> Result<(), Fatal> {
    let filter = EnvFilter::try_new(&settings.log)
        .map_err(|e| Fatal::Setting(format!("RUST_LOG or LOG_LEVEL={:?} cannot be used: {e}", settings.log)))?;
    tracing_subscriber::fmt().json().flatten_event(true).with_target(false).with_env_filter(filter).init();
    Ok(())
}

/// Binds `port` of the configured host; the log says which one was taken.
///
/// # Errors
/// An address that is in use or not this machine's.
pub async fn listen(settings: &Settings, port: u16, what: &str) -> Result<TcpListener, Fatal> {
    let address = SocketAddr::new(settings.host, port);
    let listener = TcpListener::bind(address).await.map_err(|e| Fatal::Listen(address, e))?;
    let address = listener.local_addr().map_err(|e| Fatal::Listen(address, e))?;
    tracing::info!(%address, what, "listening");
    Ok(listener)
}

/// Ends at the first SIGTERM or SIGINT.
pub async fn stop_signal() {
    let wait = |kind| async move {
        match unix::signal(kind) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            // Without a handler the signal ends the process at once, which is the best that is left.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = wait(unix::SignalKind::terminate()) => {}
        () = wait(unix::SignalKind::interrupt()) => {}
    }
    tracing::info!("stopping");
}

/// Runs `serve` until it is told to stop and what is in flight has its response, or the time for that is over; then closes the
/// connections to the database.
///
/// # Errors
/// A server that ends by itself.
pub async fn until_stopped<S, F>(settings: &Settings, store: &Store, serve: S) -> Result<(), Fatal>
where
    S: FnOnce(BoxFuture) -> F,
    F: Future<Output = Result<(), Fatal>>,
{
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let wait = |mut stopped: tokio::sync::watch::Receiver<bool>| async move {
        // An error means that the sender has been dropped, which also says stop.
        stopped.wait_for(|stop| *stop).await.map(drop).unwrap_or_default();
    };
    let serving = serve(Box::pin(wait(stopped)));
    tokio::pin!(serving);
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = stop_signal() => {
            stop.send_replace(true);
            tokio::time::timeout(settings.shutdown_timeout, serving).await.unwrap_or_else(|_| {
                tracing::warn!("requests in flight did not end before the deadline");
                Ok(())
            })
        }
    };
    // A statement that does not end has its own timeout; nothing waits longer than this for it.
    if tokio::time::timeout(settings.shutdown_timeout, store.close()).await.is_err() {
        tracing::warn!("connections to the database did not close before the deadline");
    }
    tracing::info!("stopped");
    ended
}

/// The future that tells a server to stop.
pub type BoxFuture = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
