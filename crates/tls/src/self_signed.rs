//! A certificate for development, made at start and kept in memory.

use std::path::Path;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::certificate::Certificate;

/// A self-signed certificate for these names and addresses, with an ECDSA P-256 key. No client trusts it by itself.
///
/// # Errors
/// A name that is not one, or a failure of the random generator.
pub fn self_signed(names: &[String]) -> Result<Certificate, String> {
    let (made, key) = make(names)?;
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let origin = Path::new("the certificate made at start");
    Certificate::of_parts(vec![made.der().clone()], private, origin, origin).map_err(|error| error.to_string())
}

/// The same as certificate and key in PEM, for other programs.
///
/// # Errors
/// As [`self_signed`].
pub fn self_signed_pem(names: &[String]) -> Result<(String, String), String> {
    let (made, key) = make(names)?;
    Ok((made.pem(), key.serialize_pem()))
}

fn make(names: &[String]) -> Result<(rcgen::Certificate, KeyPair), String> {
    let key = KeyPair::generate().map_err(|error| error.to_string())?;
    let params = CertificateParams::new(names.to_vec()).map_err(|error| error.to_string())?;
    let made = params.self_signed(&key).map_err(|error| error.to_string())?;
    Ok((made, key))
}
