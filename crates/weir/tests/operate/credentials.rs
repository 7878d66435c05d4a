//! What clients of protected routes have: a key that the command line made, and a token of an issuer whose public key is in a file.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use testkit::Weir;

use super::program;

/// Makes a key and writes `keys.yaml`; the key.
pub(crate) fn api_key(directory: &Path) -> String {
    let file = directory.join("keys.yaml").display().to_string();
    std::fs::write(&file, "").unwrap();
    let made = Weir::builder(program()).args(["keys", "create", "alice", "--file", &file]).command();
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    made.stdout.trim().to_owned()
}

/// Makes a pair of keys and writes the public one to `jwks.json`; a token for an hour.
pub(crate) fn token(directory: &Path) -> String {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
    let key = json!({"kty": "EC", "crv": "P-256", "kid": "one", "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y)});
    std::fs::write(directory.join("jwks.json"), json!({"keys": [key]}).to_string()).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let head = part(json!({"alg": "ES256", "kid": "one"}));
    let claims = part(json!({"iss": "me", "aud": "api", "sub": "u1", "exp": now + 3600}));
    let signed = format!("{head}.{claims}");
    let signature = pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}
