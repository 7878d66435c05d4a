//! TLS for both sides of a gateway, over rustls with aws-lc-rs.
//!
//! * [`certificate`] reads a certificate chain with its key, checks that they belong together and says what they hold.
//! * [`names`] chooses the certificate for the name that a client asks for (SNI, RFC 6066 section 3).
//! * [`server`] makes what a listener needs: certificates, client authentication, tickets.
//! * [`client`] makes what a connection to an upstream needs: roots, names, a client certificate.
//! * [`handshake`] drives a handshake on a socket; [`stream`] is the byte stream behind it.
//! * [`client_stream`] is a client's connection for those who have no runtime.
//! * [`failure`] names why a handshake failed, for metrics and logs.
//!
//! Nothing here knows the gateway's configuration, its workers or its metrics.
#![forbid(unsafe_code)]

pub mod certificate;
pub mod client;
pub mod client_stream;
pub mod failure;
pub mod handshake;
pub mod names;
pub mod provider;
pub mod self_signed;
pub mod server;
pub mod stream;

pub use rustls::ClientConfig;
pub use rustls::pki_types::{CertificateDer, ServerName};

pub use certificate::{Certificate, CertificateError, Facts};
pub use client_stream::{ClientStream, Negotiated};
pub use failure::Failure;
pub use handshake::{accept, connect};
pub use names::Names;
pub use provider::{Alpn, Version};
pub use stream::{Session, TlsStream};
