//! Attacks of RFC 8725, section 2, and published bypasses, each by name; and the tokens that must pass.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::jwks::{KeySet, SetError};
use crate::jwt::KeyProblem;

const NOW: u64 = 1_800_000_000;

fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

enum Signer {
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Secret(Vec<u8>),
}

impl Signer {
    fn rsa() -> Self {
        Self::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).expect("a key")))
    }

    fn p256() -> Self {
        Self::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key"))
    }

    fn p384() -> Self {
        Self::P384(EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).expect("a key"))
    }

    fn ed25519() -> Self {
        Self::Ed25519(Ed25519KeyPair::generate().expect("a key"))
    }

    fn sign(&self, alg: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(pair) => {
                let padding: &dyn RsaEncoding = if alg.starts_with("PS") { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(padding, &random, message, &mut signature).expect("a signature");
                signature
            }
            Self::P256(pair) | Self::P384(pair) => pair.sign(&random, message).expect("a signature").as_ref().to_vec(),
            Self::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
            Self::Secret(secret) => {
                aws_lc_rs::hmac::sign(&aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret), message)
                    .as_ref()
                    .to_vec()
            }
        }
    }

    fn jwk(&self, kid: &str) -> Value {
        match self {
            Self::Rsa(pair) => {
                let (modulus, exponent) = rsa_parts(pair.public_key().as_ref());
                json!({"kty": "RSA", "kid": kid, "use": "sig", "n": b64(modulus), "e": b64(exponent)})
            }
            Self::P256(pair) | Self::P384(pair) => {
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                let curve = if x.len() == 32 { "P-256" } else { "P-384" };
                json!({"kty": "EC", "crv": curve, "kid": kid, "x": b64(x), "y": b64(y)})
            }
            Self::Ed25519(pair) => json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": b64(pair.public_key())}),
            Self::Secret(secret) => json!({"kty": "oct", "kid": kid, "k": b64(secret)}),
        }
    }
}

/// Modulus and exponent of a DER `RSAPublicKey`.
fn rsa_parts(der: &[u8]) -> (Vec<u8>, Vec<u8>) {
    fn element(der: &[u8]) -> (&[u8], &[u8]) {
        let (length, header) = match der[1] {
            short @ 0..=0x7f => (usize::from(short), 2),
            long => {
                let bytes = usize::from(long & 0x7f);
                (der[2..2 + bytes].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), 2 + bytes)
            }
        };
        der[header..].split_at(length)
    }
    let (sequence, _) = element(der);
    let (modulus, rest) = element(sequence);
    let (exponent, _) = element(rest);
    let trim = |number: &[u8]| number.iter().copied().skip_while(|byte| *byte == 0).collect();
    (trim(modulus), trim(exponent))
}

fn token_of(header: &str, payload: &str, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let signed = format!("{}.{}", b64(header), b64(payload));
    let signature = sign(signed.as_bytes());
    format!("{signed}.{}", b64(signature))
}

fn token(signer: &Signer, header: &Value, claims: &Value) -> String {
    let alg = header["alg"].as_str().unwrap_or_default().to_owned();
    token_of(&header.to_string(), &claims.to_string(), |message| signer.sign(&alg, message))
}

fn claims() -> Value {
    json!({"iss": "https://id.example.com/", "aud": "orders", "sub": "u1", "exp": NOW + 60, "scope": "orders:read orders:write"})
}

fn with(name: &str, value: Value) -> Value {
    let mut all = claims();
    all[name] = value;
    all
}

fn without(name: &str) -> Value {
    let mut all = claims();
    all.as_object_mut().expect("an object").remove(name);
    all
}

fn verifier(algorithms: &[Algorithm]) -> Verifier {
    Verifier {
        algorithms: algorithms.to_vec(),
        expected: Expected {
            issuer: "https://id.example.com/".into(),
            audience: Some(vec!["orders".into(), "billing".into()]),
            types: vec!["JWT".into(), "at+jwt".into()],
            skew: 30,
            consumer: Some("sub".into()),
            tier: None,
        },
    }
}

const PUBLIC: [Algorithm; 5] =
    [Algorithm::Rs256, Algorithm::Ps256, Algorithm::Es256, Algorithm::Es384, Algorithm::EdDsa];

fn set(keys: &[Value]) -> Vec<VerifyKey> {
    KeySet::parse(json!({"keys": keys}).to_string().as_bytes(), &PUBLIC).expect("a key set").keys
}

fn refused(result: Result<(Arc<Identity>, u64), Rejected>) -> Refusal {
    match result {
        Err(Rejected::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

/// Everything but the claims is right: the outcome for an ES256 token with these claims at `NOW`.
fn with_claims(claims: &Value) -> Result<(Arc<Identity>, u64), Rejected> {
    let signer = Signer::p256();
    let keys = set(&[signer.jwk("k1")]);
    verifier(&PUBLIC).verify(
        token(&signer, &json!({"alg": "ES256", "kid": "k1"}), claims).as_bytes(),
        Keys::Public(&keys),
        NOW,
    )
}

#[test]
fn tokens_of_every_algorithm_pass() {
    for (signer, alg) in [
        (Signer::rsa(), "RS256"),
        (Signer::rsa(), "PS256"),
        (Signer::p256(), "ES256"),
        (Signer::p384(), "ES384"),
        (Signer::ed25519(), "EdDSA"),
    ] {
        let keys = set(&[signer.jwk("k1"), Signer::p256().jwk("k2")]);
        let token = token(&signer, &json!({"alg": alg, "kid": "k1", "typ": "at+jwt"}), &claims());
        let (who, expires) = verifier(&PUBLIC)
            .verify(token.as_bytes(), Keys::Public(&keys), NOW)
            .unwrap_or_else(|why| panic!("{alg}: {why:?}"));
        assert_eq!((who.consumer.as_deref(), expires), (Some("u1"), NOW + 90));
        assert_eq!(who.scopes, ["orders:read".into(), "orders:write".into()] as [Box<str>; 2]);
    }
    let secret = vec![7; 32];
    let keys = SecretKeys::new(&secret, &[Algorithm::Hs256]).expect("long enough");
    let token = token(&Signer::Secret(secret), &json!({"alg": "HS256"}), &claims());
    assert!(verifier(&[Algorithm::Hs256]).verify(token.as_bytes(), Keys::Secret(&keys), NOW).is_ok());
}

#[test]
fn a_token_without_signature_never_passes() {
    let keys = set(&[Signer::p256().jwk("k1")]);
    for alg in ["none", "None", "NONE", "nOnE", ""] {
        let header = json!({"alg": alg, "kid": "k1"}).to_string();
        let head = format!("{}.{}", b64(&header), b64(claims().to_string()));
        for text in [format!("{head}."), head.clone(), format!("{head}.AA")] {
            let refusal = refused(verifier(&PUBLIC).verify(text.as_bytes(), Keys::Public(&keys), NOW));
            assert!(matches!(refusal, Refusal::Invalid("algorithm" | "form")), "{text}: {refusal:?}");
        }
    }
}

/// RFC 8725, section 2.1: the public key of RS256 used as the secret of HS256.
#[test]
fn a_public_key_is_never_a_secret() {
    let signer = Signer::rsa();
    let Signer::Rsa(pair) = &signer else { unreachable!() };
    let jwk = signer.jwk("k1");
    let pem = pair.public_key().as_ref().to_vec();
    let keys = set(std::slice::from_ref(&jwk));
    for secret in [pem, jwk.to_string().into_bytes(), jwk["n"].as_str().expect("n").as_bytes().to_vec(), Vec::new()] {
        let forged = token(&Signer::Secret(secret), &json!({"alg": "HS256", "kid": "k1"}), &claims());
        // Even where the operator listed HS256 beside RS256 for a key set.
        for algorithms in [&PUBLIC[..], &[Algorithm::Rs256, Algorithm::Hs256]] {
            assert!(verifier(algorithms).verify(forged.as_bytes(), Keys::Public(&keys), NOW).is_err());
        }
    }
}

#[test]
fn the_algorithm_must_fit_the_key_that_is_named() {
    let (rsa, curve) = (Signer::rsa(), Signer::p256());
    let keys = set(&[rsa.jwk("r"), curve.jwk("e")]);
    for (signer, header) in [(&curve, json!({"alg": "ES256", "kid": "r"})), (&rsa, json!({"alg": "RS256", "kid": "e"}))]
    {
        let text = token(signer, &header, &claims());
        assert_eq!(
            refused(verifier(&PUBLIC).verify(text.as_bytes(), Keys::Public(&keys), NOW)),
            Refusal::Invalid("no key fits the algorithm")
        );
    }
    // A key that says `alg: RS256` verifies nothing else.
    let mut only = rsa.jwk("r");
    only["alg"] = json!("RS256");
    let keys = set(&[only]);
    assert!(
        verifier(&PUBLIC)
            .verify(token(&rsa, &json!({"alg": "RS256", "kid": "r"}), &claims()).as_bytes(), Keys::Public(&keys), NOW)
            .is_ok()
    );
    assert!(
        verifier(&PUBLIC)
            .verify(token(&rsa, &json!({"alg": "PS256", "kid": "r"}), &claims()).as_bytes(), Keys::Public(&keys), NOW)
            .is_err()
    );
}

#[test]
fn an_algorithm_that_is_not_allowed_is_refused_though_its_key_is_there() {
    let signer = Signer::p256();
    let keys = set(&[signer.jwk("k1")]);
    let text = token(&signer, &json!({"alg": "ES256", "kid": "k1"}), &claims());
    assert_eq!(
        refused(verifier(&[Algorithm::Rs256]).verify(text.as_bytes(), Keys::Public(&keys), NOW)),
        Refusal::Invalid("algorithm")
    );
}

/// RFC 8725, section 2.9 and 3.10: keys that the token itself contains or points to.
#[test]
fn keys_in_the_header_are_never_used() {
    let attacker = Signer::p256();
    let keys = set(&[Signer::p256().jwk("k1")]);
    for (name, value) in [
        ("jwk", attacker.jwk("k1")),
        ("jku", json!("http://127.0.0.1:1/keys")),
        ("x5u", json!("http://127.0.0.1:1/chain")),
        ("x5c", json!(["MIIB"])),
    ] {
        let mut header = json!({"alg": "ES256", "kid": "k1"});
        header[name] = value;
        let text = token(&attacker, &header, &claims());
        assert_eq!(
            refused(verifier(&PUBLIC).verify(text.as_bytes(), Keys::Public(&keys), NOW)),
            Refusal::Invalid("signature"),
            "{name}"
        );
    }
}

#[test]
fn extensions_that_change_the_meaning_are_refused() {
    let signer = Signer::p256();
    let keys = set(&[signer.jwk("k1")]);
    for (name, value) in [
        ("crit", json!(["exp"])),
        ("crit", json!([])),
        ("b64", json!(false)),
        ("zip", json!("DEF")),
        ("enc", json!("A128GCM")),
    ] {
        let mut header = json!({"alg": "ES256", "kid": "k1"});
        header[name] = value;
        let text = token(&signer, &header, &claims());
        assert_eq!(
            refused(verifier(&PUBLIC).verify(text.as_bytes(), Keys::Public(&keys), NOW)),
            Refusal::Invalid("an extension in the header")
        );
    }
}

/// `kid` is text to compare: CVE-2018-0114's kin read files and databases by it.
#[test]
fn a_key_id_is_compared_exactly() {
    let signer = Signer::p256();
    let keys = set(&[signer.jwk("k1"), Signer::p256().jwk("k2")]);
    for kid in ["K1", "k1 ", "", "../../dev/null", "k1' OR '1'='1", "k1\u{0}"] {
        let text = token(&signer, &json!({"alg": "ES256", "kid": kid}), &claims());
        assert_eq!(
            verifier(&PUBLIC).verify(text.as_bytes(), Keys::Public(&keys), NOW).unwrap_err(),
            Rejected::UnknownKey(kid.into())
        );
    }
    let text = token(&signer, &json!({"alg": "ES256", "kid": 1}), &claims());
    assert_eq!(
        refused(verifier(&PUBLIC).verify(text.as_bytes(), Keys::Public(&keys), NOW)),
        Refusal::Invalid("header")
    );
}

#[test]
fn without_a_key_id_exactly_one_key_must_fit() {
    let signer = Signer::p256();
    let text = token(&signer, &json!({"alg": "ES256"}), &claims());
    let one = set(&[signer.jwk("k1"), Signer::rsa().jwk("k2")]);
    assert!(verifier(&PUBLIC).verify(text.as_bytes(), Keys::Public(&one), NOW).is_ok());
    let two = set(&[signer.jwk("k1"), Signer::p256().jwk("k2")]);
    assert_eq!(
        refused(verifier(&PUBLIC).verify(text.as_bytes(), Keys::Public(&two), NOW)),
        Refusal::Invalid("several keys fit")
    );
    // Two keys of one id are as ambiguous as none.
    let doubled = set(&[signer.jwk("k1"), Signer::p256().jwk("k1")]);
    let named = token(&signer, &json!({"alg": "ES256", "kid": "k1"}), &claims());
    assert_eq!(
        refused(verifier(&PUBLIC).verify(named.as_bytes(), Keys::Public(&doubled), NOW)),
        Refusal::Invalid("several keys fit")
    );
}

/// Parsers disagree on which of two equal names counts.
#[test]
fn doubled_members_are_refused() {
    let signer = Signer::p256();
    let keys = set(&[signer.jwk("k1")]);
    let good = claims().to_string();
    let doubled = format!("{{\"aud\":\"orders\",{}", &good[1..]);
    let by_escape = format!("{{\"\\u0061ud\":\"orders\",{}", &good[1..]);
    for (header, payload) in [
        (r#"{"alg":"ES256","alg":"none"}"#, good.as_str()),
        (r#"{"alg":"ES256","kid":"k1","kid":"k1"}"#, good.as_str()),
        (r#"{"alg":"ES256"}"#, doubled.as_str()),
        (r#"{"alg":"ES256"}"#, by_escape.as_str()),
        (r#"{"alg":"ES256"}"#, r#"[]"#),
        (r#"{"alg":"ES256"}"#, "not json"),
    ] {
        let text = token_of(header, payload, |message| signer.sign("ES256", message));
        assert!(matches!(
            refused(verifier(&PUBLIC).verify(text.as_bytes(), Keys::Public(&keys), NOW)),
            Refusal::Invalid("header" | "payload")
        ));
    }
}

/// CVE-2022-21449 and kin: `r` or `s` of zero, and the wrong form of an ECDSA signature.
#[test]
fn degenerate_curve_signatures_are_refused() {
    let signer = Signer::p256();
    let keys = set(&[signer.jwk("k1")]);
    for signature in
        [vec![0; 64], vec![0xff; 64], vec![0; 63], vec![0; 65], vec![], [0x30, 0x06, 2, 1, 1, 2, 1, 1].to_vec()]
    {
        let text = token_of(r#"{"alg":"ES256","kid":"k1"}"#, &claims().to_string(), |_| signature.clone());
        assert!(verifier(&PUBLIC).verify(text.as_bytes(), Keys::Public(&keys), NOW).is_err(), "{signature:?}");
    }
}

#[test]
fn a_token_has_one_spelling() {
    let signer = Signer::p256();
    let keys = set(&[signer.jwk("k1")]);
    let good = token(&signer, &json!({"alg": "ES256", "kid": "k1"}), &claims());
    let check = |text: &str| verifier(&PUBLIC).verify(text.as_bytes(), Keys::Public(&keys), NOW);
    assert!(check(&good).is_ok());
    let last = good.chars().next_back().expect("a letter");
    // 64 bytes leave four unused bits in the last letter.
    let respelt = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
        .chars()
        .filter(|letter| *letter != last)
        .map(|letter| format!("{}{letter}", &good[..good.len() - 1]));
    for text in respelt.chain([
        format!("{good}="),
        format!("{good}\n"),
        format!(" {good}"),
        good.replace('-', "+"),
        format!("{good}."),
        format!(".{good}"),
    ]) {
        assert!(text == good || check(&text).is_err(), "{text}");
    }
}

#[test]
fn times_are_checked_with_the_configured_difference_of_clocks() {
    for (name, value, expected) in [
        ("exp", json!(NOW - 30), Err(Refusal::Expired)),
        ("exp", json!(NOW - 29), Ok(())),
        ("exp", json!(f64::MAX), Ok(())),
        ("exp", json!(-1), Err(Refusal::Invalid("exp"))),
        ("exp", json!("1900000000"), Err(Refusal::Invalid("exp"))),
        ("exp", json!(null), Err(Refusal::Invalid("exp"))),
        ("nbf", json!(NOW + 30), Ok(())),
        ("nbf", json!(NOW + 31), Err(Refusal::Invalid("not yet valid"))),
        ("nbf", json!("soon"), Err(Refusal::Invalid("a time is not a number"))),
        ("iat", json!(NOW + 31), Err(Refusal::Invalid("issued in the future"))),
        ("iat", json!(NOW as f64 + 0.5), Ok(())),
    ] {
        let result = with_claims(&with(name, value.clone()));
        assert_eq!(result.map(|_| ()).map_err(|why| refused(Err(why))), expected, "{name} {value}");
    }
    assert_eq!(refused(with_claims(&without("exp"))), Refusal::Invalid("exp"));
}

/// RFC 8725, section 3.8 and 3.9: a token of another issuer, or for another service.
#[test]
fn issuer_and_audience_are_exact() {
    for wrong in [
        json!("https://id.example.com"),
        json!("HTTPS://id.example.com/"),
        json!(["https://id.example.com/"]),
        json!(null),
    ] {
        assert_eq!(refused(with_claims(&with("iss", wrong))), Refusal::Invalid("issuer"));
    }
    assert_eq!(refused(with_claims(&without("iss"))), Refusal::Invalid("issuer"));
    for right in [json!("billing"), json!(["x", "orders"])] {
        assert!(with_claims(&with("aud", right)).is_ok());
    }
    for wrong in [
        json!("order"),
        json!("orders billing"),
        json!([]),
        json!(["x"]),
        json!([["orders"]]),
        json!(["orders", 1]),
        json!({"orders": 1}),
        json!(null),
    ] {
        assert_eq!(refused(with_claims(&with("aud", wrong))), Refusal::Invalid("audience"));
    }
    assert_eq!(refused(with_claims(&without("aud"))), Refusal::Invalid("audience"));
}

/// RFC 8725, section 2.8 and 3.11: an ID token or a logout token sent as an access token.
#[test]
fn the_type_of_token_is_checked() {
    let signer = Signer::p256();
    let keys = set(&[signer.jwk("k1")]);
    let check = |typ: Value, types: &[&str]| {
        let mut verifier = verifier(&PUBLIC);
        verifier.expected.types = types.iter().map(|one| (*one).into()).collect();
        let mut header = json!({"alg": "ES256", "kid": "k1"});
        if !typ.is_null() {
            header["typ"] = typ;
        }
        verifier.verify(token(&signer, &header, &claims()).as_bytes(), Keys::Public(&keys), NOW).is_ok()
    };
    assert!(check(json!("application/AT+JWT"), &["at+jwt"]));
    assert!(check(json!(null), &["JWT"]));
    assert!(!check(json!(null), &["at+jwt"]));
    assert!(!check(json!("logout+jwt"), &["JWT", "at+jwt"]));
    assert!(!check(json!("JWT"), &["at+jwt"]));
    assert!(!check(json!(1), &["JWT"]));
}

#[test]
fn a_consumer_must_be_named_if_the_configuration_says_by_what() {
    for claims in
        [without("sub"), with("sub", json!("")), with("sub", json!(["u1"])), with("sub", json!("u1\r\nX-Admin: 1"))]
    {
        assert_eq!(refused(with_claims(&claims)), Refusal::Invalid("the consumer's claim is missing"), "{claims}");
    }
}

#[test]
fn scopes_are_words_or_a_list() {
    let scopes = |name: &str, value: Value| {
        let mut claims = without("scope");
        claims[name] = value;
        with_claims(&claims).expect("accepted").0.scopes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(scopes("scope", json!("a  b")), ["a", "b"]);
    assert_eq!(scopes("scp", json!(["a", "b c"])), ["a", "b c"]);
    assert_eq!(scopes("scp", json!("a b")), ["a", "b"]);
    assert!(scopes("scp", json!({"a": 1})).is_empty());
}

#[test]
fn a_token_of_eight_megabytes_is_refused_unread() {
    let keys = set(&[Signer::p256().jwk("k1")]);
    let huge = vec![b'A'; 8 << 20];
    assert_eq!(
        refused(verifier(&PUBLIC).verify(&huge, Keys::Public(&keys), NOW)),
        Refusal::Invalid("longer than 8 KiB")
    );
}

#[test]
fn keys_that_must_not_be_used_are_left_out_with_a_reason() {
    let rsa = Signer::rsa();
    let mut small = rsa.jwk("small");
    small["n"] = json!(b64([0xff; 128]));
    let mut private = rsa.jwk("private");
    private["d"] = json!("AQAB");
    let mut for_encryption = rsa.jwk("enc");
    for_encryption["use"] = json!("enc");
    let mut for_signing = rsa.jwk("ops");
    for_signing["key_ops"] = json!(["sign"]);
    let mut off_curve = Signer::p256().jwk("off");
    off_curve["y"] = json!(b64([1; 32]));
    let mut short_point = Signer::p256().jwk("short");
    short_point["x"] = json!(b64([1; 31]));
    for (jwk, problem) in [
        (small, KeyProblem::Size(1024)),
        (private, KeyProblem::Private),
        (for_encryption, KeyProblem::Purpose),
        (for_signing, KeyProblem::Purpose),
        (off_curve, KeyProblem::Invalid),
        (short_point, KeyProblem::Member("x")),
        (Signer::Secret(vec![1; 32]).jwk("oct"), KeyProblem::Secret),
        (json!({"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"}), KeyProblem::Type),
        (json!({"kid": "nothing"}), KeyProblem::Member("kty")),
    ] {
        let all = json!({"keys": [jwk, Signer::p256().jwk("good")]}).to_string();
        let set = KeySet::parse(all.as_bytes(), &PUBLIC).expect("one key is left");
        assert_eq!(set.keys.len(), 1);
        assert_eq!(set.skipped[0].1, problem);
    }
}

#[test]
fn a_set_without_a_key_or_without_an_end_is_refused() {
    let parse = |text: &str| KeySet::parse(text.as_bytes(), &PUBLIC).expect_err(text);
    assert!(matches!(parse(r#"{"keys":[]}"#), SetError::Unusable(_)));
    assert_eq!(parse("[]"), SetError::Form);
    assert_eq!(parse(r#"{"keys":{}}"#), SetError::Form);
    assert_eq!(parse(r#"{"keys":[1]}"#), SetError::Form);
    assert_eq!(parse(r#"{"keys":[],"keys":[]}"#), SetError::Form);
    assert_eq!(parse(&json!({"keys": vec![json!({}); 101]}).to_string()), SetError::Many(101));
    assert_eq!(parse(&" ".repeat(512 * 1024 + 1)), SetError::Large);
}

#[test]
fn a_short_secret_is_refused_at_load() {
    assert!(SecretKeys::new(&[1; 31], &[Algorithm::Hs256]).is_err());
    assert!(SecretKeys::new(&[1; 32], &[Algorithm::Hs256]).is_ok());
    assert!(SecretKeys::new(&[1; 32], &[Algorithm::Hs256, Algorithm::Hs512]).is_err());
}

/// RFC 7515, appendix A.3: ES256 over the example of section 3.1.
#[test]
fn the_example_of_the_standard_verifies() {
    let keys = set(&[json!({"kty": "EC", "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"})]);
    let token = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.\
                 DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    let mut verifier = verifier(&PUBLIC);
    verifier.expected = Expected { issuer: "joe".into(), types: vec!["JWT".into()], ..Expected::default() };
    assert!(verifier.verify(token.as_bytes(), Keys::Public(&keys), 1_300_819_379).is_ok());
    assert_eq!(refused(verifier.verify(token.as_bytes(), Keys::Public(&keys), 1_300_819_380)), Refusal::Expired);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// No change of a letter makes another token that passes.
    #[test]
    fn a_changed_token_never_passes(at in any::<prop::sample::Index>(), letter in 0u8..=127) {
        thread_local! {
            static GOOD: (Vec<VerifyKey>, String) = {
                let signer = Signer::ed25519();
                (set(&[signer.jwk("k1")]), token(&signer, &json!({"alg": "EdDSA", "kid": "k1"}), &claims()))
            };
        }
        GOOD.with(|(keys, good)| {
            let mut bytes = good.clone().into_bytes();
            let at = at.index(bytes.len());
            prop_assume!(bytes[at] != letter);
            bytes[at] = letter;
            prop_assert!(verifier(&PUBLIC).verify(&bytes, Keys::Public(keys), NOW).is_err());
            Ok(())
        })?;
    }

    #[test]
    fn any_bytes_are_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), header in "[ -~]{0,60}", payload in "[ -~]{0,60}") {
        let keys = set(&[Signer::ed25519().jwk("k1")]);
        prop_assert!(verifier(&PUBLIC).verify(&bytes, Keys::Public(&keys), NOW).is_err());
        let framed = format!("{}.{}.AA", b64(header), b64(payload));
        prop_assert!(verifier(&PUBLIC).verify(framed.as_bytes(), Keys::Public(&keys), NOW).is_err());
        let _ = KeySet::parse(&bytes, &PUBLIC);
    }
}
