//! What a connection to an upstream needs: whom to trust, what to show, what to speak.

use std::fmt;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};

use crate::certificate::Certificate;
use crate::provider::{Alpn, Version, ids, provider};

/// Whom to trust.
#[derive(Debug, Clone, Default)]
pub enum Roots {
    /// The authorities that the system trusts, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    #[default]
    System,
    /// These authorities only.
    These(Vec<CertificateDer<'static>>),
}

/// A policy towards upstreams.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whom to trust.
    pub roots: Roots,
    /// Certificate to show when asked.
    pub certificate: Option<Certificate>,
    /// Oldest version spoken.
    pub min_version: Version,
    /// Newest version spoken.
    pub max_version: Version,
    /// Application protocols in order of preference; empty: none is negotiated.
    pub alpn: Vec<Alpn>,
    /// Whether the peer's certificate is verified. Without it anyone on the path can be the upstream.
    pub verify: bool,
    /// Sessions stored for resumption; 0: every handshake is a full one.
    pub sessions: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            roots: Roots::default(),
            certificate: None,
            min_version: Version::Tls12,
            max_version: Version::Tls13,
            alpn: vec![Alpn::Http11],
            verify: true,
            sessions: 256,
        }
    }
}

impl Options {
    /// What tells policies apart: the same for options that lead to the same connections. Connections and sessions of one policy must not
    /// serve another.
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        match &self.roots {
            Roots::System => hash.update([0]),
            Roots::These(authorities) => {
                hash.update([1]);
                for authority in authorities {
                    hash.update((authority.len() as u64).to_be_bytes());
                    hash.update(authority);
                }
            }
        }
        // A certificate stands for its key too; the rest of its chain may change by itself.
        for der in self.certificate.iter().flat_map(|certificate| &certificate.key.cert) {
            hash.update((der.len() as u64).to_be_bytes());
            hash.update(der);
        }
        let is_13 = |version| u8::from(version == Version::Tls13);
        hash.update([is_13(self.min_version), is_13(self.max_version), u8::from(self.verify)]);
        for alpn in &self.alpn {
            hash.update(alpn.id());
            hash.update([0]);
        }
        hash.finalize().into()
    }
}

/// Why a policy towards upstreams cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The system trusts no authority that could be read.
    #[error(
        "no certificate authority of the system could be read ({0}); install ca-certificates, or name a file of authorities"
    )]
    NoRoots(String),
    /// An authority cannot be used.
    #[error("certificate authorities: {0}")]
    Roots(String),
    /// Anything else that rustls refuses.
    #[error("{0}")]
    Rustls(#[from] rustls::Error),
}

/// A configuration for connections with this policy. Sessions are resumed among connections that share it: make one for each worker and
/// upstream, so that workers do not meet at a lock.
///
/// # Errors
/// What cannot be used.
pub fn config(options: &Options) -> Result<Arc<ClientConfig>, ClientError> {
    let versions = options.min_version.up_to(options.max_version);
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(versions)?;
    let builder = if options.verify {
        let verifier = WebPkiServerVerifier::builder_with_provider(roots(&options.roots)?, provider())
            .build()
            .map_err(|error| ClientError::Roots(error.to_string()))?;
        builder.with_webpki_verifier(verifier)
    } else {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified(provider())))
    };
    let mut config = match &options.certificate {
        None => builder.with_no_client_auth(),
        Some(certificate) => {
            let shown = rustls::sign::SingleCertAndKey::from(certificate.key.clone());
            builder.with_client_cert_resolver(Arc::new(shown))
        }
    };
    config.alpn_protocols = ids(&options.alpn);
    config.resumption = resumption(options.sessions);
    Ok(Arc::new(config))
}

/// The same configuration with a store of sessions of its own.
pub fn with_own_sessions(config: &ClientConfig, sessions: usize) -> Arc<ClientConfig> {
    let mut own = config.clone();
    own.resumption = resumption(sessions);
    Arc::new(own)
}

fn resumption(sessions: usize) -> Resumption {
    if sessions == 0 { Resumption::disabled() } else { Resumption::in_memory_sessions(sessions) }
}

/// The name that a certificate must be valid for: a DNS name, or an IP address, with or without brackets.
///
/// # Errors
/// Text that is neither.
pub fn server_name(name: &str) -> Result<ServerName<'static>, String> {
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    ServerName::try_from(bare.trim_end_matches('.').to_owned())
        .map_err(|_| format!("`{name}` is neither a DNS name nor an IP address"))
}

fn roots(roots: &Roots) -> Result<Arc<RootCertStore>, ClientError> {
    match roots {
        Roots::These(authorities) => {
            let mut store = RootCertStore::empty();
            for authority in authorities {
                store.add(authority.clone()).map_err(|error| ClientError::Roots(error.to_string()))?;
            }
            Ok(Arc::new(store))
        }
        Roots::System => {
            // A hundred and more certificates: parsed once.
            static SYSTEM: OnceLock<Arc<RootCertStore>> = OnceLock::new();
            get_or_load(&SYSTEM, system_roots).map_err(ClientError::NoRoots)
        }
    }
}

/// What was loaded once. A failure is not kept: the next call loads again.
fn get_or_load<T: Clone, E>(loaded: &OnceLock<T>, load: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    match loaded.get() {
        Some(value) => Ok(value.clone()),
        None => load().map(|value| loaded.get_or_init(|| value).clone()),
    }
}

fn system_roots() -> Result<Arc<RootCertStore>, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    let (usable, _) = store.add_parsable_certificates(found.certs);
    if usable > 0 {
        return Ok(Arc::new(store));
    }
    Err(found.errors.first().map_or_else(|| "none is installed".to_owned(), ToString::to_string))
}

/// Takes any certificate; the handshake's signature must still be made with its key.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl fmt::Display for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Roots::System => f.write_str("system"),
            Roots::These(authorities) => write!(f, "{} authorities", authorities.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_to_load_is_not_kept_and_a_success_is() {
        let loaded = OnceLock::new();
        assert_eq!(get_or_load(&loaded, || Err("no descriptor left")), Err("no descriptor left"));
        assert_eq!(get_or_load(&loaded, || Ok::<_, &str>(1)), Ok(1));
        assert_eq!(get_or_load(&loaded, || Err("not called")), Ok(1));
    }
}
