//! Options of `gauge load` for `https` URLs and for load of connections.

use std::path::PathBuf;

use clap::Args;
use gauge::load::workload::{Tls, TlsVersion, Workload};

#[derive(Args)]
pub(super) struct TlsOptions {
    /// https: trust the authorities of this PEM file instead of the system's
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// https: accept any certificate; the report says so
    #[arg(long)]
    insecure: bool,
    /// https: client certificate with its chain, PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// https: private key of --cert, PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// https: name to send (SNI) and to verify, instead of the URL's host
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,
    /// https: newest version of TLS to offer, 1.2 or 1.3 [default: 1.3]
    #[arg(long, value_name = "VERSION")]
    tls: Option<TlsVersion>,
    /// https: resume sessions, each user its own, instead of full handshakes
    #[arg(long)]
    resume: bool,
    /// A new connection for each request (HTTP/1.1), with https a handshake too
    #[arg(long, conflicts_with_all = ["h2", "grpc"])]
    new_connections: bool,
}

impl TlsOptions {
    pub(super) fn add_to(&self, workload: &mut Workload) {
        let tls = Tls {
            ca: self.ca.clone(),
            insecure: self.insecure,
            cert: self.cert.clone(),
            key: self.key.clone(),
            server_name: self.server_name.clone(),
            version: self.tls,
            resume: self.resume,
        };
        workload.tls = (tls != Tls::default()).then_some(tls);
        workload.new_connections = self.new_connections;
    }
}
