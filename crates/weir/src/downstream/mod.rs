//! Connections of clients, by protocol: each reads requests, hands them to the pipeline, and ends the connection or waits for the next one.

pub mod http1;
pub mod http2;
