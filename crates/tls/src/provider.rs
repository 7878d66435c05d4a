//! The one cryptographic provider, with what is offered in it and in which order.

use std::sync::{Arc, OnceLock};

use rustls::SupportedProtocolVersion;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};

/// aws-lc-rs with its default AEAD suites. The order of key exchange groups is fixed here rather than by a crate feature: the hybrid
/// group first, because traffic recorded today must not be readable tomorrow (draft-ietf-tls-ecdhe-mlkem).
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER
        .get_or_init(|| {
            let kx_groups = vec![kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1];
            Arc::new(CryptoProvider { kx_groups, ..default_provider() })
        })
        .clone()
}

/// A version of TLS, as the oldest or the newest one that is spoken. There is nothing older than 1.2 (RFC 8996). The default is that of an oldest version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub enum Version {
    /// TLS 1.2 (RFC 5246).
    #[default]
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

impl Version {
    /// The versions from this one on, newest first.
    pub fn and_newer(self) -> &'static [&'static SupportedProtocolVersion] {
        self.up_to(Version::Tls13)
    }

    /// The versions from this one to `newest`, newest first; none when that is older.
    pub(crate) fn up_to(self, newest: Version) -> &'static [&'static SupportedProtocolVersion] {
        const ALL: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13, &rustls::version::TLS12];
        match (self, newest) {
            (Version::Tls12, Version::Tls13) => ALL,
            (Version::Tls13, Version::Tls13) => &ALL[..1],
            (Version::Tls12, Version::Tls12) => &ALL[1..],
            (Version::Tls13, Version::Tls12) => &[],
        }
    }
}

/// An application protocol that is negotiated (RFC 7301).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Alpn {
    /// `h2`
    Http2,
    /// `http/1.1`
    Http11,
}

impl Alpn {
    /// Its identification sequence.
    pub fn id(self) -> &'static [u8] {
        match self {
            Alpn::Http2 => b"h2",
            Alpn::Http11 => b"http/1.1",
        }
    }

    /// The protocol with this identification sequence.
    pub fn of_id(id: &[u8]) -> Option<Self> {
        [Alpn::Http2, Alpn::Http11].into_iter().find(|alpn| alpn.id() == id)
    }
}

/// Identification sequences in order of preference, as rustls wants them.
pub(crate) fn ids(alpn: &[Alpn]) -> Vec<Vec<u8>> {
    alpn.iter().map(|alpn| alpn.id().to_vec()).collect()
}
