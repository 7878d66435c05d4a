//! Weir as a controller of the Kubernetes Gateway API.
//!
//! ```text
//!   API server --list, watch--> reflector --> Cluster --translate--> Translation { document, files, endpoints, statuses }
//!                                                                        |             |                   |
//!                                                          a configuration of Weir     targets      written by the leader
//! ```
//!
//! [`translate()`] is pure: objects in, values out; it is tested without a server. [`client`] speaks the API of Kubernetes with what the gateway has
//! already (hyper, rustls): lists, watches, status patches and one lease.

pub mod client;
pub mod cluster;
pub mod controller;

pub mod objects;
pub mod translate;

pub use cluster::Cluster;
pub use translate::{Settings, Translation, translate};
