//! JSON Web Tokens for the load (RFC 7519), signed with keys that are published here: they protect nothing but campaigns of gauge.

use aws_lc_rs::{hmac, rand, signature};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use serde::Deserialize;
use serde_json::{Value, json};

/// `jwt`: a request needs a token that is signed, not expired, of this issuer and for this audience; the upstream sees whose it is, and not the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Jwt {
    /// How tokens are signed.
    pub algorithm: Algorithm,
    /// Number of tokens, each of another subject.
    pub tokens: u32,
}

/// How tokens are signed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum Algorithm {
    /// HMAC with SHA-256 and a shared secret.
    HS256,
    /// RSA with SHA-256: gateways know the public key only.
    #[default]
    RS256,
}

impl Algorithm {
    /// As a token's header says it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::HS256 => "HS256",
            Algorithm::RS256 => "RS256",
        }
    }
}

/// `iss`.
pub const ISSUER: &str = "https://issuer.gauge.example/";
/// `aud`.
pub const AUDIENCE: &str = "gauge";
/// The secret of HS256.
pub const SECRET: &str = "a-published-secret-of-gauge-campaigns";
/// The public key of RS256.
pub const PUBLIC_PEM: &str = include_str!("keys/rsa-2048.public.pem");
const MODULUS: &str = include_str!("keys/rsa-2048.modulus");
const PRIVATE: &[u8] = include_bytes!("keys/rsa-2048.pk8");
/// The first of January 2100: the same tokens in every campaign.
const EXPIRES: u64 = 4_102_444_800;

impl Default for Jwt {
    fn default() -> Self {
        Jwt { algorithm: Algorithm::default(), tokens: 100 }
    }
}

impl Jwt {
    /// The subject of a token, from 1.
    #[must_use]
    pub fn subject(n: u32) -> String {
        format!("consumer-{n}")
    }

    /// The key as a JSON Web Key Set (RFC 7517): public for RS256, the secret itself for HS256.
    #[must_use]
    pub fn key_set(&self) -> String {
        let key = match self.algorithm {
            Algorithm::RS256 => {
                json!({"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "gauge", "n": MODULUS, "e": "AQAB"})
            }
            Algorithm::HS256 => {
                json!({"kty": "oct", "alg": "HS256", "kid": "gauge", "k": BASE64_URL_SAFE_NO_PAD.encode(SECRET)})
            }
        };
        json!({"keys": [key]}).to_string()
    }

    /// Tokens of all subjects.
    pub(super) fn all(&self) -> Vec<String> {
        (1..=self.tokens).map(|n| self.token(&claims(&Self::subject(n)))).collect()
    }

    /// A token with these claims.
    pub(super) fn token(&self, claims: &Value) -> String {
        let header = json!({"alg": self.algorithm.name(), "typ": "JWT", "kid": "gauge"});
        let text = unsigned(&header, claims);
        let signature = match self.algorithm {
            Algorithm::HS256 => {
                hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes()), text.as_bytes()).as_ref().to_vec()
            }
            Algorithm::RS256 => rsa(text.as_bytes()),
        };
        format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }
}

/// Claims that gateways accept.
pub(super) fn claims(subject: &str) -> Value {
    json!({"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "exp": EXPIRES})
}

/// Header and claims as they are signed.
pub(super) fn unsigned(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", part(header), part(claims))
}

/// A signature; empty if the key above were none, which a test excludes.
fn rsa(message: &[u8]) -> Vec<u8> {
    let Ok(pair) = signature::RsaKeyPair::from_pkcs8(PRIVATE) else { return Vec::new() };
    let mut out = vec![0; pair.public_modulus_len()];
    match pair.sign(&signature::RSA_PKCS1_SHA256, &rand::SystemRandom::new(), message, &mut out) {
        Ok(()) => out,
        Err(_) => Vec::new(),
    }
}
