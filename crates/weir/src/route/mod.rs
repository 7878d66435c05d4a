//! From a request to the route that takes it.

pub mod host;
pub mod path;
