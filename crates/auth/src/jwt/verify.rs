//! A token from its bytes to an identity.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::{Algorithm, Expected, LONGEST, SecretKeys, VerifyKey};
use crate::{Identity, Refusal};

/// The keys of one issuer.
#[derive(Debug, Clone, Copy)]
pub enum Keys<'a> {
    /// Public keys of a key set.
    Public(&'a [VerifyKey]),
    /// A shared secret.
    Secret(&'a SecretKeys),
}

/// Checks tokens of one issuer.
#[derive(Debug, Clone, PartialEq)]
pub struct Verifier {
    /// Algorithms that are accepted, whatever the key set has.
    pub algorithms: Vec<Algorithm>,
    /// What tokens must claim.
    pub expected: Expected,
}

/// Why a token is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejected {
    /// It is refused.
    Refused(Refusal),
    /// No key has the token's `kid`: the issuer may have rotated its keys. Fetch the set again if that may be done, else refuse.
    UnknownKey(Box<str>),
}

impl From<Refusal> for Rejected {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Verifier {
    /// Verifies a token at a time in seconds since 1970. Returns the identity, and the second at which the token expires (the accepted
    /// difference of clocks included).
    ///
    /// # Errors
    /// [`Rejected`]
    pub fn verify(&self, token: &[u8], keys: Keys<'_>, now: u64) -> Result<(Arc<Identity>, u64), Rejected> {
        let invalid = |why| Rejected::Refused(Refusal::Invalid(why));
        if token.len() > LONGEST {
            return Err(invalid("longer than 8 KiB"));
        }
        let Parts { header, payload, signature, signed } = Parts::of(token).ok_or(invalid("form"))?;
        let header = strict_json::object(&header).ok_or(invalid("header"))?;
        let text = |name: &str| match header.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(invalid("header")),
        };
        // RFC 7515, section 4.1.11: extensions that are not understood must be refused; none is understood. `b64` and `zip` change the
        // meaning of the payload.
        if ["crit", "b64", "zip", "enc"].iter().any(|name| header.contains_key(*name)) {
            return Err(invalid("an extension in the header"));
        }
        let algorithm = text("alg")?.and_then(Algorithm::named).ok_or(invalid("algorithm"))?;
        if !self.algorithms.contains(&algorithm) {
            return Err(invalid("algorithm"));
        }
        if !self.expected.accepts_type(text("typ")?) {
            return Err(invalid("typ"));
        }
        let holds = match keys {
            Keys::Secret(secret) => secret.verifies(algorithm, signed, &signature),
            Keys::Public(set) => key_for(set, text("kid")?, algorithm)?.verifies(algorithm, signed, &signature),
        };
        if !holds {
            return Err(invalid("signature"));
        }
        let claims = strict_json::object(&payload).ok_or(invalid("payload"))?;
        let (identity, expires) = self.expected.check(claims, now)?;
        Ok((Arc::new(identity), expires))
    }
}

/// The key that a token names, or the only one that fits when it names none. `kid` is compared exactly.
fn key_for<'a>(set: &'a [VerifyKey], kid: Option<&str>, algorithm: Algorithm) -> Result<&'a VerifyKey, Rejected> {
    let mut fitting = set.iter().filter(|key| key.fits(algorithm) && kid.is_none_or(|kid| key.kid() == Some(kid)));
    match (fitting.next(), fitting.next(), kid) {
        (Some(key), None, _) => Ok(key),
        (Some(_), Some(_), _) => Err(Rejected::Refused(Refusal::Invalid("several keys fit"))),
        (None, _, Some(kid)) if !set.iter().any(|key| key.kid() == Some(kid)) => Err(Rejected::UnknownKey(kid.into())),
        (None, ..) => Err(Rejected::Refused(Refusal::Invalid("no key fits the algorithm"))),
    }
}

/// What a token says of itself. Nobody verified it: for people who look at it, never to decide by.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Unverified {
    /// Its header; `None` if that is not a JSON object, or has a name twice.
    pub header: Option<Map<String, Value>>,
    /// Its claims, likewise.
    pub claims: Option<Map<String, Value>>,
}

impl Unverified {
    /// Reads a token in compact form; `None` for anything else.
    #[must_use]
    pub fn read(token: &[u8]) -> Option<Self> {
        if token.len() > LONGEST {
            return None;
        }
        let parts = Parts::of(token)?;
        Some(Self { header: strict_json::object(&parts.header), claims: strict_json::object(&parts.payload) })
    }
}

/// The compact form (RFC 7515, section 7.1), decoded.
struct Parts<'a> {
    header: Vec<u8>,
    payload: Vec<u8>,
    signature: Vec<u8>,
    /// What the signature is over: the first two parts as they came.
    signed: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Exactly three parts in base64url without padding, with no bits left over: a token has one spelling, so that a cache of tokens and
    /// a list of revoked ones cannot be passed by another one.
    fn of(token: &'a [u8]) -> Option<Self> {
        let mut parts = token.split(|byte| *byte == b'.');
        let (header, payload, signature) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || signature.is_empty() {
            return None;
        }
        Some(Self {
            header: URL_SAFE_NO_PAD.decode(header).ok()?,
            payload: URL_SAFE_NO_PAD.decode(payload).ok()?,
            signature: URL_SAFE_NO_PAD.decode(signature).ok()?,
            signed: &token[..header.len() + 1 + payload.len()],
        })
    }
}

#[cfg(test)]
mod tests;
