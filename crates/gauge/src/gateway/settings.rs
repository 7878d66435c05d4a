//! What configurations do beyond what a description says.

use std::net::SocketAddr;

use super::policies::Policies;
use crate::load::workload::Protocol;
use crate::profile::Profile;
use crate::profile::secure::{CERTIFICATE, KEY};

/// Choices of the user; the default adds nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// How `%2F` in a path is treated.
    pub encoded_slash: EncodedSlash,
    /// DNS server for gateways that cannot resolve names at run time without being told one.
    pub resolver: Option<SocketAddr>,
    /// A line on standard output for each request.
    pub access_log: bool,
    /// The path by which targets are checked while it runs.
    pub health: Option<String>,
    /// The listener uses TLS.
    pub tls: Option<Tls>,
    /// CORS, credentials, limits, retries and metrics.
    pub policies: Policies,
    /// What the gateway does beyond passing requests on.
    pub profile: Profile,
}

/// Files of a listener that uses TLS, in PEM; absolute, or in the directory of the gateway, in which it is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Certificate with its chain.
    pub cert: String,
    /// Its key.
    pub key: String,
}

impl Settings {
    /// What a profile needs. Where its clients use TLS, the certificate is to be in the directory of the gateway.
    #[must_use]
    pub fn of_profile(profile: Profile) -> Self {
        let files = || Tls { cert: CERTIFICATE.to_owned(), key: KEY.to_owned() };
        Settings { tls: profile.clients().tls.map(|_| files()), profile, ..Settings::default() }
    }

    /// Whether upstreams are reached over HTTP/2 without TLS, as gRPC needs it.
    pub(super) fn http2_upstreams(&self) -> bool {
        self.profile.upstreams() != Protocol::Http1
    }

    /// What a gateway's adapter does not write of these, a sentence each.
    pub(super) fn not_written(&self, gateway: &str) -> Vec<String> {
        let all = ["weir", "nginx", "haproxy", "envoy", "traefik", "caddy", "kong"];
        let wanted = [
            (self.access_log, "--access-log", all.contains(&gateway)),
            (self.tls.is_some(), "--tls-cert", all.contains(&gateway)),
            (self.health.is_some(), "--health", all.contains(&gateway) && !["nginx", "kong"].contains(&gateway)),
        ];
        let missing = wanted.into_iter().filter(|(wanted, _, written)| *wanted && !written);
        missing
            .map(|(_, option, _)| match (gateway, option) {
                ("nginx", _) => "--health: checks while it runs are a part of NGINX Plus; a target that fails a request is left out for 10 s".to_owned(),
                _ => format!("{option}: its adapter does not write it"),
            })
            .collect()
    }
}

/// How `%2F` in a path is treated, which some servers take for a slash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum EncodedSlash {
    /// It is a character of a parameter, where the gateway can tell it from a slash
    #[default]
    Pass,
    /// Such a request is refused, where the gateway can do that
    Reject,
}
