//! WebSocket in a workload, as it is written in files.

use super::{Deserialize, Deserializer, Serialize, Text, de};
use crate::load::units;

/// Messages over WebSocket (RFC 6455). A user (open loop: a connection) sends a message and waits until the server has sent it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebSocket {
    /// Bytes of a message, without the header of its frame (default 128).
    #[serde(deserialize_with = "message_size")]
    pub size: u64,
    /// Kind of the messages.
    pub kind: MessageKind,
    /// Messages over a connection before it is closed and the next message opens another one; without it connections are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
}

impl Default for WebSocket {
    fn default() -> Self {
        WebSocket { size: 128, kind: MessageKind::Binary, messages: None }
    }
}

/// Kinds of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// Any bytes.
    #[default]
    Binary,
    /// Valid UTF-8.
    Text,
}

/// `128B`, `64KiB`, or a number of bytes.
pub(crate) fn message_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    units::size(&Text::deserialize(deserializer)?.0).map_err(de::Error::custom)
}
