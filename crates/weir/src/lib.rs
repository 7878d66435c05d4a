//! Weir: an API gateway for inference traffic and ordinary APIs.

pub mod config;
pub mod error;
pub mod observe;
pub mod route;
pub mod upstream;
