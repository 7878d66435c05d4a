//! Demo services inside of the gateway's process, so that `weir` without any configuration has something to forward
//! requests to.
//!
//! Two play the inference services of `services/` (their behaviour is written down in `services/inference.md`, and both
//! are checked by the same contract); the third has the paths `/slow` and `/limited`. Each listens on a port of the
//! loopback interface of its own, like any other upstream, and runs on the control thread.

mod chat;
mod inference;
mod load;
mod paced;
mod plain;
mod refusal;
mod settings;
mod tokens;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use admin_http::Bounds;
use tokio::net::TcpListener;

pub use settings::{BadSetting, Settings};

use crate::config::DemoService;

/// Idle connections are kept open for longer than gateways do, so that it is the gateway that closes.
const BOUNDS: Bounds = Bounds { connections: 8192, head_or_idle: Duration::from_secs(75) };

/// Starts a service on the current runtime, for as long as that lives, and says where it listens.
///
/// # Errors
/// When no port of the loopback interface can be had.
pub async fn start(service: DemoService, settings: Settings) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let router = match service {
        DemoService::InferencePython => inference::router(inference::Flavour::Python, settings),
        DemoService::InferenceNode => inference::router(inference::Flavour::Node, settings),
        DemoService::Plain => plain::router(),
    };
    tokio::spawn(admin_http::serve(listener, router, BOUNDS, std::future::pending()));
    Ok(address)
}

#[cfg(test)]
mod tests;
