//! What HTTP/2 connections of clients ([`crate::downstream::http2`]) and to targets ([`crate::upstream::http2`]) are both made of.

pub mod body;
pub mod client_stream;
pub mod indices;
pub mod pipe;
pub mod ready;
pub mod registry;
pub mod visits;
