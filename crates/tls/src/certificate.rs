//! A certificate chain with its private key, read from files in PEM form.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::SignatureAlgorithm;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::provider::provider;

/// A certificate that a listener can present, or the gateway as a client.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// Chain and key as rustls uses them.
    pub(crate) key: Arc<CertifiedKey>,
    /// What the first certificate of the chain says.
    pub facts: Arc<Facts>,
}

/// What a certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// DNS names of the subject alternative name, in lower case; a wildcard as `*.example.com`.
    pub dns_names: Vec<String>,
    /// IP addresses of the subject alternative name.
    pub ip_addresses: Vec<IpAddr>,
    /// URIs of the subject alternative name; a SPIFFE identity is one.
    pub uris: Vec<String>,
    /// Distinguished name of the subject, in the form of RFC 4514.
    pub subject: String,
    /// Distinguished name of the issuer.
    pub issuer: String,
    /// Validity, both ends included.
    pub not_before: SystemTime,
    /// End of validity.
    pub not_after: SystemTime,
    /// SHA-256 of the DER encoding.
    pub sha256: [u8; 32],
    /// Whether its key is ECDSA or EdDSA: preferred, because a signature costs a tenth of RSA's.
    pub has_elliptic_key: bool,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file holds no certificate.
    #[error("{} holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The file holds no revocation list.
    #[error("{} holds no revocation list in PEM form (-----BEGIN X509 CRL-----)", path.display())]
    NoRevocationList {
        /// The file.
        path: PathBuf,
    },
    /// The file holds no private key.
    #[error("{} holds no private key in PEM form; encrypted keys are not supported: remove the passphrase with `openssl pkey`", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// A file is not valid PEM.
    #[error("{} is not valid PEM: {reason}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// Where it fails.
        reason: String,
    },
    /// A certificate is not valid X.509.
    #[error("{} is not a valid X.509 certificate: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where it fails.
        reason: String,
    },
    /// Key and certificate do not belong together.
    #[error("the key in {} does not belong to the certificate in {}", key.display(), cert.display())]
    Mismatch {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// The key is of a kind that TLS does not use.
    #[error("the key in {} cannot sign in TLS: {reason}", path.display())]
    UnusableKey {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl Certificate {
    /// Reads a chain and its key, and checks that they belong together.
    ///
    /// # Errors
    /// What is wrong with which file. Dates are not checked here: an expired certificate is loaded, see [`Facts::problem`].
    pub fn load(cert: &Path, key: &Path) -> Result<Self, CertificateError> {
        Self::from_pem((&read(cert)?, cert), (&read(key)?, key))
    }

    /// The same from the contents of the two files; the paths are for messages.
    ///
    /// # Errors
    /// As [`Certificate::load`].
    pub fn from_pem(
        (cert_pem, cert): (&[u8], &Path),
        (key_pem, key): (&[u8], &Path),
    ) -> Result<Self, CertificateError> {
        let chain = certificates_from_pem(cert_pem, cert)?;
        let private = PrivateKeyDer::from_pem_slice(key_pem).map_err(|error| match error {
            rustls::pki_types::pem::Error::NoItemsFound => CertificateError::NoKey { path: key.to_owned() },
            error => CertificateError::Pem { path: key.to_owned(), reason: error.to_string() },
        })?;
        Self::of_parts(chain, private, cert, key)
    }

    /// A chain and a key that are in memory; the paths are for messages.
    pub(crate) fn of_parts(
        chain: Vec<CertificateDer<'static>>,
        private: PrivateKeyDer<'static>,
        cert: &Path,
        key: &Path,
    ) -> Result<Self, CertificateError> {
        let facts =
            Facts::of_der(&chain[0]).map_err(|reason| CertificateError::Malformed { path: cert.to_owned(), reason })?;
        let certified = CertifiedKey::from_der(chain, private, &provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                CertificateError::Mismatch { cert: cert.to_owned(), key: key.to_owned() }
            }
            error => CertificateError::UnusableKey { path: key.to_owned(), reason: error.to_string() },
        })?;
        let has_elliptic_key =
            matches!(certified.key.algorithm(), SignatureAlgorithm::ECDSA | SignatureAlgorithm::ED25519);
        Ok(Certificate { key: Arc::new(certified), facts: Arc::new(Facts { has_elliptic_key, ..facts }) })
    }
}

impl Facts {
    /// What the DER encoding of a certificate says.
    ///
    /// # Errors
    /// Where it is not X.509.
    pub fn of_der(der: &[u8]) -> Result<Self, String> {
        let (rest, parsed) = X509Certificate::from_der(der).map_err(|error| error.to_string())?;
        if !rest.is_empty() {
            return Err("bytes behind the certificate".to_owned());
        }
        let mut facts = Facts {
            dns_names: Vec::new(),
            ip_addresses: Vec::new(),
            uris: Vec::new(),
            subject: parsed.subject().to_string(),
            issuer: parsed.issuer().to_string(),
            not_before: system_time(parsed.validity().not_before.timestamp()),
            not_after: system_time(parsed.validity().not_after.timestamp()),
            sha256: Sha256::digest(der).into(),
            has_elliptic_key: false,
        };
        let names = parsed.subject_alternative_name().map_err(|error| error.to_string())?;
        for name in names.iter().flat_map(|extension| &extension.value.general_names) {
            match name {
                GeneralName::DNSName(name) => facts.dns_names.push(name.to_ascii_lowercase()),
                GeneralName::URI(uri) => facts.uris.push((*uri).to_owned()),
                GeneralName::IPAddress(bytes) => {
                    let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
                    facts.ip_addresses.extend(v4.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from)).ok());
                }
                _ => {}
            }
        }
        Ok(facts)
    }

    /// What a user should know about its dates or names, if anything.
    pub fn problem(&self, now: SystemTime) -> Option<&'static str> {
        if now > self.not_after {
            Some("the certificate has expired")
        } else if now < self.not_before {
            Some("the certificate is not valid yet")
        } else if self.dns_names.is_empty() && self.ip_addresses.is_empty() {
            Some("the certificate has no subject alternative name; clients ignore the common name")
        } else {
            None
        }
    }

    /// Time until it expires; zero when it has.
    pub fn expires_in(&self, now: SystemTime) -> Duration {
        self.not_after.duration_since(now).unwrap_or(Duration::ZERO)
    }
}

fn system_time(seconds: i64) -> SystemTime {
    match u64::try_from(seconds) {
        Ok(seconds) => UNIX_EPOCH + Duration::from_secs(seconds),
        Err(_) => UNIX_EPOCH,
    }
}

/// Reads every certificate of a file: a chain, or a set of authorities.
///
/// # Errors
/// When it cannot be read or holds none.
pub fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    certificates_from_pem(&read(path)?, path)
}

/// The same from the contents of the file; the path is for messages.
///
/// # Errors
/// As [`read_certificates`].
pub fn certificates_from_pem(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(CertificateError::NoCertificate { path: path.to_owned() }),
        Ok(found) => Ok(found),
        Err(error) => Err(CertificateError::Pem { path: path.to_owned(), reason: error.to_string() }),
    }
}

/// The revocation lists in the contents of a file; the path is for messages.
///
/// # Errors
/// When it holds none, or no valid PEM.
pub fn revocations_from_pem(
    pem: &[u8],
    path: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, CertificateError> {
    let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(CertificateError::NoRevocationList { path: path.to_owned() }),
        Ok(found) => Ok(found),
        Err(error) => Err(CertificateError::Pem { path: path.to_owned(), reason: error.to_string() }),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    std::fs::read(path).map_err(|source| CertificateError::Read { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests;
