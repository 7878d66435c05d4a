//! How clients reach gateways.

use std::net::SocketAddr;
use std::time::Duration;

use crate::load::workload::{Operation, Protocol, Share, Tls, WebSocket, Workload};

/// How clients reach gateways.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clients {
    /// HTTP version.
    pub protocol: Protocol,
    /// TLS, if they use it.
    pub tls: Option<Tls>,
    /// Each request of the load has a connection of its own.
    pub new_connections: bool,
    /// Messages over WebSocket, which is what they send.
    pub websocket: Option<WebSocket>,
}

impl Clients {
    /// `http://host:port` or `https://host:port`.
    pub(crate) fn base(&self, address: SocketAddr) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{address}")
    }

    /// One request.
    pub(crate) fn single(&self, operation: Operation, timeout: Duration) -> Workload {
        Workload {
            tls: self.tls.clone(),
            websocket: self.websocket.clone(),
            share: Share::default(),
            ..Workload::single(operation, self.protocol, timeout)
        }
    }
}
