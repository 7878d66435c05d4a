//! `tls`: clients reach gateways over TLS.

use serde::{Deserialize, Deserializer, de};

use super::Clients;
use crate::load::workload::{self, Protocol, Text, TlsVersion};

/// The name that clients send (SNI) and that the certificate is valid for.
pub const SERVER_NAME: &str = "gauge.test";
/// The certificate in the directory of a gateway.
pub const CERTIFICATE: &str = "gauge.pem";
/// Its key, where HAProxy looks for it.
pub const KEY: &str = "gauge.pem.key";

/// `tls`: clients reach gateways over TLS 1.3 or 1.2; gateways reach upstreams without it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// HTTP version of the clients.
    pub http: HttpVersion,
    /// Version of TLS under load.
    pub version: TlsVersion,
    /// When clients do handshakes.
    pub connections: Connections,
    /// Requests at once on a connection over HTTP/2.
    pub streams: u32,
}

impl Default for Tls {
    fn default() -> Self {
        Tls {
            http: HttpVersion::Http11,
            version: TlsVersion::Tls13,
            connections: Connections::Kept,
            streams: super::Http2::default().streams,
        }
    }
}

/// HTTP versions of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpVersion {
    /// `1.1`
    Http11,
    /// `2`
    Http2,
}

impl<'de> Deserialize<'de> for HttpVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // YAML reads it as a number.
        match Text::deserialize(deserializer)?.0.as_str() {
            "1.1" => Ok(HttpVersion::Http11),
            "2" => Ok(HttpVersion::Http2),
            other => Err(de::Error::custom(format!("unknown version of HTTP `{other}`; expected 1.1 or 2"))),
        }
    }
}

/// When clients do handshakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// In the warm-up: connections are kept.
    Kept,
    /// A full handshake for each request.
    New,
    /// A handshake for each request that resumes a session.
    Resumed,
}

impl Tls {
    /// How clients reach gateways.
    pub(super) fn clients(&self) -> Clients {
        Clients {
            protocol: match self.http {
                HttpVersion::Http11 => Protocol::Http1,
                HttpVersion::Http2 => Protocol::Http2 { streams: self.streams },
            },
            tls: Some(client(self.version, self.connections == Connections::Resumed)),
            new_connections: self.connections != Connections::Kept,
            ..Clients::default()
        }
    }

    /// What is wrong with it, in words.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let is_wrong = self.http == HttpVersion::Http2 && self.connections != Connections::Kept;
        is_wrong.then_some("with `http: 2` connections are kept; `connections: new` and `resumed` need `http: 1.1`")
    }
}

/// TLS of a client. A campaign adds the certificate that it trusts.
pub(super) fn client(version: TlsVersion, resume: bool) -> workload::Tls {
    workload::Tls {
        server_name: Some(SERVER_NAME.to_owned()),
        version: Some(version),
        resume,
        ..workload::Tls::default()
    }
}
