//! Keys that verify signatures.

use std::fmt;

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{ParsedPublicKey, RsaPublicKeyComponents};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::algorithm::{Algorithm, KeyType};

/// A public key of a set, parsed once for every algorithm that it may be used with.
pub struct VerifyKey {
    kid: Option<Box<str>>,
    usable: Vec<(Algorithm, ParsedPublicKey)>,
}

/// Keys of `HS256`, `HS384` and `HS512`, made of one shared secret.
pub struct SecretKeys([(Algorithm, hmac::Key); 3]);

/// Why a key of a set is left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyProblem {
    /// A member that must be there is missing, or is not what it must be.
    #[error("`{0}` is missing or malformed")]
    Member(&'static str),
    /// `kty` or `crv` that no accepted algorithm uses.
    #[error("no accepted algorithm uses this type of key")]
    Type,
    /// `use`, `key_ops` or `alg` say that it is for something else.
    #[error("the key is not for signatures of the algorithms in `algorithms`")]
    Purpose,
    /// An RSA modulus under 2,048 or above 8,192 bits.
    #[error("an RSA key must have 2048 to 8192 bits; this one has {0}")]
    Size(usize),
    /// The private part is there: who can read the set can sign.
    #[error("the key has its private part in it; whoever publishes it must replace it")]
    Private,
    /// A secret in a set that others can read.
    #[error("a secret (`kty: oct`) must not be in a key set")]
    Secret,
    /// A secret that can be guessed from signatures.
    #[error("a secret must have {needed} bytes at least for {algorithm}; this one has {has}")]
    ShortSecret {
        /// Bytes of the digest (RFC 7518, section 3.2).
        needed: usize,
        /// Name of the algorithm.
        algorithm: &'static str,
        /// Bytes of the secret.
        has: usize,
    },
    /// The library refuses it, such as a point that is not on the curve.
    #[error("the key is not valid")]
    Invalid,
}

impl VerifyKey {
    /// Reads one member of `keys` of a JSON Web Key Set (RFC 7517), for the algorithms that the configuration allows.
    ///
    /// # Errors
    /// [`KeyProblem`]; other keys of the set may still be used.
    pub fn from_jwk(jwk: &Map<String, Value>, allowed: &[Algorithm]) -> Result<Self, KeyProblem> {
        let text = |name: &'static str| match jwk.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(KeyProblem::Member(name)),
        };
        let bytes = |name: &'static str| {
            text(name)?.and_then(|value| URL_SAFE_NO_PAD.decode(value).ok()).ok_or(KeyProblem::Member(name))
        };
        if ["d", "p", "q", "dp", "dq", "qi"].iter().any(|name| jwk.contains_key(*name)) {
            return Err(KeyProblem::Private);
        }
        let key_type = match (text("kty")?.ok_or(KeyProblem::Member("kty"))?, text("crv")?) {
            ("RSA", _) => KeyType::Rsa,
            ("EC", Some("P-256")) => KeyType::P256,
            ("EC", Some("P-384")) => KeyType::P384,
            ("OKP", Some("Ed25519")) => KeyType::Ed25519,
            ("oct", _) => return Err(KeyProblem::Secret),
            _ => return Err(KeyProblem::Type),
        };
        if text("use")?.is_some_and(|purpose| purpose != "sig") {
            return Err(KeyProblem::Purpose);
        }
        match jwk.get("key_ops") {
            None => {}
            Some(Value::Array(all)) if all.iter().any(|one| one == "verify") => {}
            Some(_) => return Err(KeyProblem::Purpose),
        }
        let only = text("alg")?;
        let fits = |algorithm: &Algorithm| {
            algorithm.key_type() == key_type && only.is_none_or(|name| Algorithm::named(name) == Some(*algorithm))
        };
        let algorithms: Vec<Algorithm> = allowed.iter().copied().filter(fits).collect();
        if algorithms.is_empty() {
            return Err(KeyProblem::Purpose);
        }
        let usable = match key_type {
            KeyType::Rsa => {
                let (modulus, exponent) = (bytes("n")?, bytes("e")?);
                let (modulus, exponent) = (without_zeros(&modulus), without_zeros(&exponent));
                let bits = modulus.len() * 8 - modulus.first().map_or(0, |first| first.leading_zeros() as usize);
                if !(2048..=8192).contains(&bits) {
                    return Err(KeyProblem::Size(bits));
                }
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                algorithms
                    .into_iter()
                    .filter_map(|algorithm| {
                        algorithm.rsa().map(|parameters| (algorithm, key.to_parsed_public_key(parameters)))
                    })
                    .map(|(algorithm, key)| key.map(|key| (algorithm, key)).map_err(|_| KeyProblem::Invalid))
                    .collect::<Result<_, _>>()?
            }
            KeyType::P256 | KeyType::P384 => {
                let size = if key_type == KeyType::P256 { 32 } else { 48 };
                let (x, y) = (bytes("x")?, bytes("y")?);
                // RFC 7518, section 6.2.1.2: octets of the curve's full size, zeros in front included.
                if x.len() != size || y.len() != size {
                    return Err(KeyProblem::Member(if x.len() == size { "y" } else { "x" }));
                }
                parsed(&algorithms, &[&[4], x.as_slice(), y.as_slice()].concat())?
            }
            KeyType::Ed25519 => {
                let x = bytes("x")?;
                if x.len() != 32 {
                    return Err(KeyProblem::Member("x"));
                }
                parsed(&algorithms, &x)?
            }
            KeyType::Secret => return Err(KeyProblem::Secret),
        };
        Ok(Self { kid: text("kid")?.map(Into::into), usable })
    }

    /// The key's id.
    #[must_use]
    pub fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    /// Algorithms whose signatures it verifies.
    pub fn algorithms(&self) -> impl Iterator<Item = Algorithm> {
        self.usable.iter().map(|(algorithm, _)| *algorithm)
    }

    /// Whether it verifies signatures of an algorithm.
    #[must_use]
    pub fn fits(&self, algorithm: Algorithm) -> bool {
        self.usable.iter().any(|(one, _)| *one == algorithm)
    }

    /// Whether a signature is this key's, over these bytes.
    #[must_use]
    pub fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        self.usable.iter().any(|(one, key)| *one == algorithm && key.verify_sig(message, signature).is_ok())
    }
}

impl fmt::Debug for VerifyKey {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.usable.iter().map(|(one, _)| one.name()).collect();
        to.debug_struct("VerifyKey").field("kid", &self.kid).field("algorithms", &names).finish()
    }
}

fn parsed(algorithms: &[Algorithm], bytes: &[u8]) -> Result<Vec<(Algorithm, ParsedPublicKey)>, KeyProblem> {
    algorithms
        .iter()
        .filter_map(|algorithm| algorithm.curve().map(|curve| (*algorithm, curve)))
        .map(|(algorithm, curve)| Ok((algorithm, ParsedPublicKey::new(curve, bytes).map_err(|_| KeyProblem::Invalid)?)))
        .collect()
}

fn without_zeros(number: &[u8]) -> &[u8] {
    &number[number.iter().take_while(|byte| **byte == 0).count()..]
}

impl SecretKeys {
    /// Keys of a shared secret.
    ///
    /// # Errors
    /// [`KeyProblem::ShortSecret`] when an allowed algorithm's digest is longer than the secret (RFC 7518, section 3.2).
    pub fn new(secret: &[u8], allowed: &[Algorithm]) -> Result<Self, KeyProblem> {
        for (algorithm, needed) in [(Algorithm::Hs256, 32), (Algorithm::Hs384, 48), (Algorithm::Hs512, 64)] {
            if allowed.contains(&algorithm) && secret.len() < needed {
                return Err(KeyProblem::ShortSecret { needed, algorithm: algorithm.name(), has: secret.len() });
            }
        }
        Ok(Self([
            (Algorithm::Hs256, hmac::Key::new(hmac::HMAC_SHA256, secret)),
            (Algorithm::Hs384, hmac::Key::new(hmac::HMAC_SHA384, secret)),
            (Algorithm::Hs512, hmac::Key::new(hmac::HMAC_SHA512, secret)),
        ]))
    }

    /// Whether a signature was made with the secret; compared in constant time.
    #[must_use]
    pub fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        self.0.iter().any(|(one, key)| *one == algorithm && hmac::verify(key, message, signature).is_ok())
    }
}

impl fmt::Debug for SecretKeys {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("SecretKeys(…)")
    }
}
