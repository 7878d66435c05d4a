//! Cost of credentials: tokens that are verified for the first time and again, beside the bare check of their signature, and keys of a
//! large file. `cargo bench -p auth --bench credentials`
//!
//! Bars: `again` at most 1 us; `verified` at most 1.15 times `signature_alone`; `load_100_000_keys` at most 1 s.

use std::hint::black_box;

use auth::api_key::{Store, sha256};
use auth::jwks::KeySet;
use auth::jwt::{Algorithm, Expected, Keys, TokenCache, Verifier};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use divan::Bencher;
use serde_json::{Value, json};

fn main() {
    divan::main();
}

const NOW: u64 = 1_800_000_000;
const ALGORITHMS: [&str; 3] = ["RS256", "ES256", "EdDSA"];

/// A token with what verifies it.
struct Signed {
    token: String,
    message: Vec<u8>,
    signature: Vec<u8>,
    key: ParsedPublicKey,
    keys: KeySet,
    verifier: Verifier,
}

/// Key as a JSON Web Key, public key, and signature of a message.
fn sign(algorithm: &str, message: &[u8]) -> (Value, ParsedPublicKey, Vec<u8>) {
    let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    match algorithm {
        "RS256" => {
            let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
            let mut signature = vec![0; pair.public_modulus_len()];
            pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).unwrap();
            let der = pair.public_key().as_ref();
            // `RSAPublicKey` of 2,048 bits: two headers and a zero, the modulus, a header, the exponent 65537.
            assert_eq!((der.len(), &der[der.len() - 3..]), (270, &[1, 0, 1][..]));
            let jwk = json!({"kty": "RSA", "n": text(&der[9..265]), "e": text(&[1, 0, 1])});
            (jwk, ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, der).unwrap(), signature)
        }
        "ES256" => {
            let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
            let point = pair.public_key().as_ref();
            let jwk = json!({"kty": "EC", "crv": "P-256", "x": text(&point[1..33]), "y": text(&point[33..])});
            let signature = pair.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec();
            (jwk, ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).unwrap(), signature)
        }
        _ => {
            let pair = Ed25519KeyPair::generate().unwrap();
            let point = pair.public_key().as_ref();
            let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": text(point)});
            (jwk, ParsedPublicKey::new(&ED25519, point).unwrap(), pair.sign(message).as_ref().to_vec())
        }
    }
}

fn signed(algorithm: &str) -> Signed {
    let header = json!({"alg": algorithm, "typ": "at+jwt", "kid": "k1"});
    let claims = json!({
        "iss": "https://id.example.com/", "aud": "orders", "sub": "7c0a3bd1-6f3e-4b86-8a5f-0d1c2b3a4f5e", "exp": NOW + 600, "iat": NOW,
        "scope": "orders:read orders:write", "tenant": "north", "realm_access": {"roles": ["reader", "writer"]}
    });
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(&header), part(&claims));
    let (mut jwk, key, signature) = sign(algorithm, message.as_bytes());
    jwk["kid"] = "k1".into();
    let algorithms = vec![Algorithm::named(algorithm).unwrap()];
    let keys = KeySet::parse(json!({"keys": [jwk]}).to_string().as_bytes(), &algorithms).unwrap();
    let expected = Expected {
        issuer: "https://id.example.com/".into(),
        audience: Some(vec!["orders".into()]),
        types: vec!["at+jwt".into()],
        skew: 30,
        consumer: Some("sub".into()),
        tier: None,
    };
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(&signature));
    Signed { token, message: message.into_bytes(), signature, key, keys, verifier: Verifier { algorithms, expected } }
}

/// What no verification can do without.
#[divan::bench(args = ALGORITHMS)]
fn signature_alone(bencher: Bencher<'_, '_>, algorithm: &str) {
    let one = signed(algorithm);
    bencher.bench_local(|| one.key.verify_sig(black_box(&one.message), black_box(&one.signature)).unwrap());
}

/// A token that is seen for the first time.
#[divan::bench(args = ALGORITHMS)]
fn verified(bencher: Bencher<'_, '_>, algorithm: &str) {
    let one = signed(algorithm);
    let keys = Keys::Public(&one.keys.keys);
    bencher.bench_local(|| one.verifier.verify(black_box(one.token.as_bytes()), keys, NOW).unwrap());
}

/// A token that was verified before.
#[divan::bench]
fn again(bencher: Bencher<'_, '_>) {
    let one = signed("RS256");
    let (identity, expires) = one.verifier.verify(one.token.as_bytes(), Keys::Public(&one.keys.keys), NOW).unwrap();
    let mut cache = TokenCache::default();
    cache.insert(one.token.as_bytes(), 1, identity, expires, NOW);
    bencher.bench_local(|| cache.get(black_box(one.token.as_bytes()), 1, NOW).unwrap());
}

/// A key file as `weir keys create` writes it.
fn file(count: u32) -> String {
    let line = |number: u32| {
        let digest: String = sha256(key(number).as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        format!(
            "- {{\"id\": \"k{number}\", \"sha256\": \"{digest}\", \"consumer\": \"c{}\", \"tier\": \"gold\"}}\n",
            number / 2
        )
    };
    (0..count).map(line).collect()
}

fn key(number: u32) -> String {
    format!("a-key-of-the-bench-with-the-number-{number}")
}

#[divan::bench(sample_count = 10)]
fn load_100_000_keys(bencher: Bencher<'_, '_>) {
    let file = file(100_000);
    bencher.bench_local(|| Store::read(black_box(&file), None).unwrap().len());
}

/// One of 100,000 keys.
#[divan::bench]
fn key_of_100_000(bencher: Bencher<'_, '_>) {
    let store = Store::read(&file(100_000), None).unwrap();
    let key = key(77_777);
    bencher.bench_local(|| store.find(black_box(key.as_bytes()), "route", NOW as i64).unwrap().identity.clone());
}
