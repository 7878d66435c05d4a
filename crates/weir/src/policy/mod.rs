//! What a route adds to plain forwarding: one policy a file or folder, each testable alone.

pub mod accept;
pub mod ai;
pub mod auth;
pub mod cache;
pub mod compress;
pub mod cors;
pub mod limit;
pub use crate::config::spoofable;
