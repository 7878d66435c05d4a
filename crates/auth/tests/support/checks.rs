//! What must hold for every input: shared by fuzz targets and by the test that runs their corpus.

use auth::api_key::{Digester, Entry, Key, Record, Store, hex, sha256};
use auth::basic::{Credentials, Htpasswd};
use auth::jwt::{Algorithm, Expected, Keys, SecretKeys, Verifier};
use auth::{Refusal, field};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const NOW: u64 = 1_800_000_000;

fn verifier() -> Verifier {
    Verifier {
        algorithms: vec![Algorithm::Hs256],
        expected: Expected {
            issuer: "me".into(),
            audience: Some(vec!["api".into()]),
            types: vec!["JWT".into(), "at+jwt".into()],
            skew: 30,
            consumer: Some("sub".into()),
            tier: Some("plan".into()),
        },
    }
}

/// A token of any bytes; and any header and claims with a signature that holds, which is how they are read at all.
pub fn jwt(bytes: &[u8]) {
    let secret = SecretKeys::new(SECRET, &[Algorithm::Hs256]).expect("a secret that is long enough");
    let verifier = verifier();
    assert!(verifier.verify(bytes, Keys::Secret(&secret), NOW).is_err(), "nobody signed these bytes");

    // Header and claims are between zero bytes: what comes first, and what comes next.
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let (header, claims) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), text.as_bytes());
    let token = format!("{text}.{}", URL_SAFE_NO_PAD.encode(tag));
    if let Ok((identity, expires)) = verifier.verify(token.as_bytes(), Keys::Secret(&secret), NOW) {
        assert!(expires > NOW, "an expired token passed");
        let text = |name: &str| identity.claims.get(name).and_then(|value| value.as_str());
        assert_eq!(text("iss"), Some("me"));
        assert_eq!(identity.consumer.as_deref(), text("sub"), "the consumer is the claim that the configuration names");
        for path in ["sub", "plan", "a.b", ""] {
            let told = identity.claim_text(path).unwrap_or_default();
            assert!(!told.chars().any(char::is_control), "{told:?} would end a field");
        }
        // Another spelling of the same token does not pass.
        let other = format!("{token}=");
        assert!(verifier.verify(other.as_bytes(), Keys::Secret(&secret), NOW).is_err());
    }
}

/// A key, a file of keys, and the fields of a hash.
pub fn api_key(bytes: &[u8]) {
    let digester = Digester::new(Some(b"pepper"));
    let digest = digester.digest(bytes);
    match &digest {
        Ok(digest) => assert!(bytes.is_ascii() && (bytes.len() < 20 || *digest == sha256(bytes))),
        Err(refusal) => assert!(matches!(refusal, Refusal::Malformed(_) | Refusal::Invalid(_)), "{refusal:?}"),
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(key) = Key::parse(text) {
        assert_eq!(key.reveal(), text);
        assert!(digest.is_ok() && text.contains(key.id()) && !format!("{key:?}").contains(text));
    }
    if let Ok(store) = Store::read(text, Some(b"pepper")) {
        // What is read is written and read as the same.
        let entries = Entry::read_file(text).expect("a file that a store was made of");
        assert_eq!(entries.len(), store.len());
        let again: String = entries.iter().map(|(_, entry)| entry.line()).collect();
        let reread: Vec<Entry> = Entry::read_file(&again).expect("lines").into_iter().map(|(_, entry)| entry).collect();
        assert!(reread.iter().eq(entries.iter().map(|(_, entry)| entry)));
        for entry in reread {
            let Ok(fields) = entry.to_fields() else { continue };
            let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            let hash = Entry::from_fields(&entry.sha256, fields);
            // A hash has no empty texts, and `meta` no empty names.
            if let Ok(hash) = hash {
                assert_eq!((&hash.id, &hash.consumer, hash.disabled), (&entry.id, &entry.consumer, entry.disabled));
            }
        }
    }
    // Lines of name and value, as a hash has them.
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let pairs = std::iter::from_fn(|| Some((lines.next()?, lines.next()?)));
    if let Ok(entry) = Entry::from_fields(&hex(&sha256(b"")), pairs) {
        let _ = Record::of(entry);
    }
}

/// A file of users. Nothing is hashed: a cost that a file may have takes seconds.
pub fn htpasswd(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Htpasswd::read(text) {
        Ok(users) => assert!(users.len() <= text.lines().count()),
        Err(error) => assert!((1..=text.lines().count()).contains(&error.line)),
    }
}

/// The value of the field, for each scheme.
pub fn authorization(bytes: &[u8]) {
    for scheme in ["bearer", "basic"] {
        let Some(credentials) = field::credentials(bytes, scheme) else { continue };
        assert!(bytes.ends_with(credentials) && credentials.first() != Some(&b' '));
        let _ = field::is_jwt(credentials);
        match Credentials::parse(credentials) {
            Ok(read) => {
                assert!(!read.user.is_empty() && !read.user.contains(':') && !read.user.chars().any(char::is_control));
                let decoded = STANDARD.decode(credentials).expect("base64 that was read");
                assert!(decoded.starts_with(read.user.as_bytes()));
                // No password of a client stands where a log may show it.
                assert_eq!(format!("{read:?}"), format!("{}:…", read.user));
            }
            Err(refusal) => assert_eq!(refusal.status(), 400),
        }
    }
}
