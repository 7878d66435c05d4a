//! Parts of HTTP that depend on nothing but their input: responses of the gateway itself, edits of fields, the handshake of WebSocket.

pub mod edits;
pub mod response;
pub mod websocket;
