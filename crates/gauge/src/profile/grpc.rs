//! `grpc`: clients call methods of gRPC through gateways.

use std::path::PathBuf;

use serde::Deserialize;

use super::{Clients, secure};
use crate::load::workload::{self, Operation, Protocol, TlsVersion};

/// `grpc`: unary calls over HTTP/2, between clients and gateways and between gateways and upstreams. An operation of the description is the method that its
/// path names: `/package.Service/Method`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Grpc {
    /// The file that describes the methods.
    pub proto: PathBuf,
    /// Calls at once on a connection.
    pub streams: u32,
    /// Clients use TLS.
    pub tls: bool,
}

impl Default for Grpc {
    fn default() -> Self {
        Grpc { proto: PathBuf::new(), streams: super::Http2::default().streams, tls: false }
    }
}

impl Grpc {
    /// How clients reach gateways.
    pub(super) fn clients(&self) -> Clients {
        Clients {
            protocol: self.protocol(),
            tls: self.tls.then(|| secure::client(TlsVersion::Tls13, false)),
            ..Clients::default()
        }
    }

    pub(super) fn protocol(&self) -> Protocol {
        Protocol::Http2 { streams: self.streams }
    }

    /// Makes an operation the call of the method that its path names.
    pub(super) fn call(&self, operation: &mut Operation) {
        let method = operation.path.trim_start_matches('/').to_owned();
        operation.grpc = Some(workload::Grpc { proto: Some(self.proto.clone()), ..workload::Grpc::of(method) });
        // That of a call is its own.
        operation.headers.retain(|name, _| !name.eq_ignore_ascii_case("content-type"));
    }

    /// What is wrong with it, in words.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let is_missing = self.proto.as_os_str().is_empty();
        is_missing.then_some("`proto` names the file that describes the methods: {grpc: {proto: items.proto}}")
    }
}
