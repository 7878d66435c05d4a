//! Options of `gauge load` for `ws` and `wss` URLs.

use clap::Args;
use gauge::load::units;
use gauge::load::workload::{MessageKind, WebSocket};

#[derive(Args)]
pub(super) struct WebSocketOptions {
    /// ws, wss: bytes of a message, such as 128 or 64KiB [default: 128]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    message_size: Option<u64>,
    /// ws, wss: messages are text instead of binary
    #[arg(long)]
    text: bool,
    /// ws, wss: messages over a connection before it is closed and another opened [default: connections are kept]. With --grpc, of a method that takes a
    /// stream: messages of a call [default: 1]
    #[arg(long, value_name = "NUMBER")]
    messages: Option<u64>,
}

impl WebSocketOptions {
    pub(super) fn messages(&self) -> Option<u64> {
        self.messages
    }

    pub(super) fn plan(&self) -> WebSocket {
        let plain = WebSocket::default();
        WebSocket {
            size: self.message_size.unwrap_or(plain.size),
            kind: if self.text { MessageKind::Text } else { plain.kind },
            messages: self.messages,
        }
    }
}
