//! `websocket`: clients upgrade connections to WebSocket, and send messages that the upstream sends back.

use serde::Deserialize;

use super::{Clients, secure};
use crate::load::Messages;
use crate::load::workload::{self, MessageKind, TlsVersion, message_size};

/// `websocket`: messages over connections that are upgraded (RFC 6455), between clients and gateways and between gateways and upstreams.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebSocket {
    /// Bytes of a message.
    #[serde(deserialize_with = "message_size")]
    pub size: u64,
    /// Kind of the messages.
    pub kind: MessageKind,
    /// Messages over a connection before it is closed and another opened; without it connections are kept.
    pub messages: Option<u64>,
    /// Clients use TLS.
    pub tls: bool,
}

impl Default for WebSocket {
    fn default() -> Self {
        let workload::WebSocket { size, kind, messages } = workload::WebSocket::default();
        WebSocket { size, kind, messages, tls: false }
    }
}

impl WebSocket {
    /// How clients reach gateways.
    pub(super) fn clients(&self) -> Clients {
        Clients { tls: self.tls.then(|| secure::client(TlsVersion::Tls13, false)), ..self.baseline() }
    }

    /// What is wrong with it, in words.
    pub(super) fn problem(&self) -> Option<String> {
        let problem = Messages::new(&self.baseline().websocket?).err()?;
        Some(format!("`websocket`: {problem}"))
    }

    /// The same of upstreams, without a gateway.
    pub(super) fn baseline(&self) -> Clients {
        let WebSocket { size, kind, messages, .. } = *self;
        Clients { websocket: Some(workload::WebSocket { size, kind, messages }), ..Clients::default() }
    }
}
