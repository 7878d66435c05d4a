//! Parts of HTTP that depend on nothing but their input: responses of the gateway itself, edits of fields, forms, the handshake of WebSocket.

pub mod edits;
pub mod form;
pub mod reply;
pub mod websocket;
