//! Weir: an API gateway for inference traffic and ordinary APIs.

pub mod admin;
pub mod client;
pub mod demo;
pub mod downstream;
pub mod error;
pub mod exchange;
pub mod http;
pub mod io;
pub mod observe;
pub mod pipeline;
pub mod policy;
pub mod redis;
pub mod route;
pub mod runtime;
pub mod server;
pub mod streams;
pub mod upstream;
pub mod worker;

pub use ::config;
