//! Who sends requests, by protocol. HTTP/1.1 connections are in [`crate::exchange::connection`].

pub mod http2;
