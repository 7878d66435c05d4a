//! Names and passwords: `Authorization: Basic` (RFC 7617) and `htpasswd` files.
//!
//! A password hash takes milliseconds by design: callers verify on threads of their own, and store successes in [`VerifiedPasswords`].

use std::collections::HashMap;

use argon2::Argon2;
use argon2::password_hash::PasswordVerifier;
use argon2::password_hash::phc::PasswordHash;
use aws_lc_rs::{hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::Refusal;
use crate::api_key::sha256;
use crate::recent::Recent;
use crate::secret::is_same;

/// Longer credentials are refused unread; bcrypt reads 72 bytes of a password.
const LONGEST: usize = 1024;
/// Seconds that a verified password is stored.
const CACHED: u64 = 300;

/// Hashes that cost more would let a few requests occupy the machine.
const DEAREST_BCRYPT: u32 = 16;
const DEAREST_ARGON2_KIB: u32 = 256 * 1024;

/// A name and a password as a client sent them.
#[derive(Clone)]
pub struct Credentials {
    /// The user's name.
    pub user: String,
    password: String,
}

impl Credentials {
    /// Reads what follows `Basic ` in the field.
    ///
    /// # Errors
    /// [`Refusal::Malformed`]: not base64, not UTF-8, without a colon, or with control characters (RFC 7617, section 2).
    pub fn parse(encoded: &[u8]) -> Result<Self, Refusal> {
        let malformed = Refusal::Malformed("basic credentials");
        if encoded.len() > LONGEST {
            return Err(malformed);
        }
        let text =
            STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok()).ok_or(malformed.clone())?;
        let (user, password) = text.split_once(':').ok_or(malformed.clone())?;
        if user.is_empty() || text.chars().any(char::is_control) {
            return Err(malformed);
        }
        Ok(Self { user: user.to_owned(), password: password.to_owned() })
    }
}

impl PartialEq for Credentials {
    fn eq(&self, other: &Self) -> bool {
        // One comparison of both parts: where the name differs is as little told as where the password does.
        let whole = |one: &Self| [one.user.as_bytes(), b":", one.password.as_bytes()].concat();
        is_same(&whole(self), &whole(other))
    }
}

impl Eq for Credentials {}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{}:…", self.user)
    }
}

/// The users of a file.
#[derive(Debug)]
pub struct Htpasswd {
    users: HashMap<Box<str>, Box<str>>,
    /// Verified against when the user is unknown, so that both take the same time: the hash of the first user.
    stand_in: Option<Box<str>>,
    /// SHA-256 of the file's text.
    fingerprint: [u8; 32],
}

/// Why a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct HtpasswdError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong.
    pub problem: &'static str,
}

impl Htpasswd {
    /// Reads a file of lines `name:hash`. Accepted are bcrypt (`$2y$`, `$2b$`, `$2a$`) and Argon2id (`$argon2id$`).
    ///
    /// # Errors
    /// The first line that has another form: MD5, SHA-1, crypt and clear text can be searched in no time.
    pub fn read(text: &str) -> Result<Self, HtpasswdError> {
        let mut users = HashMap::new();
        let mut stand_in = None;
        for (at, line) in text.lines().enumerate() {
            let wrong = |problem| HtpasswdError { line: at + 1, problem };
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (user, hash) = line.split_once(':').ok_or(wrong("expected `name:hash`"))?;
            if user.is_empty() {
                return Err(wrong("the name is empty"));
            }
            let is_bcrypt = ["$2y$", "$2b$", "$2a$"].iter().any(|prefix| hash.starts_with(prefix));
            if is_bcrypt {
                // A hash that cannot be read would refuse every password without a word.
                let parts: bcrypt::HashParts = hash_for_bcrypt(hash).parse().map_err(|_| wrong("not a bcrypt hash"))?;
                if parts.get_cost() > DEAREST_BCRYPT {
                    return Err(wrong("a bcrypt cost above 16 takes seconds per request"));
                }
            } else if hash.starts_with("$argon2id$") {
                let parsed = PasswordHash::new(hash).map_err(|_| wrong("not an Argon2id hash"))?;
                let parameters = argon2::Params::try_from(&parsed).map_err(|_| wrong("not an Argon2id hash"))?;
                if parsed.salt.is_none() || parsed.hash.is_none() {
                    return Err(wrong("not an Argon2id hash"));
                }
                if parameters.m_cost() > DEAREST_ARGON2_KIB || parameters.t_cost() > 16 {
                    return Err(wrong("Argon2id above 256 MiB or 16 passes takes seconds per request"));
                }
            } else {
                return Err(wrong("only bcrypt and Argon2id are accepted; make the line with `htpasswd -B`"));
            }
            if users.insert(user.into(), hash.into()).is_some() {
                return Err(wrong("the name occurs twice"));
            }
            stand_in.get_or_insert_with(|| hash.into());
        }
        Ok(Self { users, stand_in, fingerprint: sha256(text.as_bytes()) })
    }

    /// Users in the file.
    #[must_use]
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Whether it has no user.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Whether the password is the user's. Takes milliseconds, also for a user who is not in the file.
    #[must_use]
    pub fn verify(&self, credentials: &Credentials) -> bool {
        let listed = self.users.get(credentials.user.as_str());
        let Some(hash) = listed.or(self.stand_in.as_ref()) else {
            return false;
        };
        let holds = if hash.starts_with("$argon2id$") {
            PasswordHash::new(hash)
                .is_ok_and(|parsed| Argon2::default().verify_password(credentials.password.as_bytes(), &parsed).is_ok())
        } else {
            bcrypt::verify(&credentials.password, hash_for_bcrypt(hash).as_ref()).unwrap_or(false)
        };
        holds && listed.is_some()
    }
}

/// `htpasswd` writes `$2y$`, which names the same algorithm as `$2b$`.
fn hash_for_bcrypt(hash: &str) -> std::borrow::Cow<'_, str> {
    match hash.strip_prefix("$2y$") {
        Some(rest) => format!("$2b${rest}").into(),
        None => hash.into(),
    }
}

/// Verified passwords under an HMAC whose key lives in this process only.
pub struct VerifiedPasswords {
    key: hmac::Key,
    until: Recent<[u8; 32], u64>,
}

impl std::fmt::Debug for VerifiedPasswords {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "Remembered({})", self.until.len())
    }
}

impl VerifiedPasswords {
    /// An empty table of at most `capacity` passwords.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn new(capacity: usize) -> Result<Self, aws_lc_rs::error::Unspecified> {
        let mut secret = [0; 32];
        rand::fill(&mut secret)?;
        Ok(Self { key: hmac::Key::new(hmac::HMAC_SHA256, &secret), until: Recent::new(capacity) })
    }

    /// Whether these credentials were verified within five minutes against the same file.
    pub fn holds(&mut self, file: &Htpasswd, credentials: &Credentials, now: u64) -> bool {
        let digest = self.digest(file, credentials);
        self.until.get(&digest).is_some_and(|until| now < until)
    }

    /// Stores credentials that were verified.
    pub fn insert(&mut self, file: &Htpasswd, credentials: &Credentials, now: u64) {
        let digest = self.digest(file, credentials);
        self.until.insert(digest, now + CACHED);
    }

    /// Forgets everything; call it when the file changes.
    pub fn clear(&mut self) {
        self.until.clear();
    }

    fn digest(&self, file: &Htpasswd, credentials: &Credentials) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&file.fingerprint);
        context.update(&(credentials.user.len() as u64).to_le_bytes());
        context.update(credentials.user.as_bytes());
        context.update(credentials.password.as_bytes());
        let mut out = [0; 32];
        out.copy_from_slice(context.sign().as_ref());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(user: &str, password: &str) -> Credentials {
        Credentials::parse(STANDARD.encode(format!("{user}:{password}")).as_bytes()).expect("credentials")
    }

    fn file() -> Htpasswd {
        let hash = bcrypt::hash("sesame", 4).expect("a hash").replace("$2b$", "$2y$");
        // RFC 9106 parameters at their least; made with the reference implementation's format.
        let argon = {
            use argon2::password_hash::PasswordHasher;
            Argon2::default().hash_password(b"open").expect("a hash").to_string()
        };
        Htpasswd::read(&format!("# users\nali:{hash}\nbea:{argon}\n")).expect("a file")
    }

    #[test]
    fn passwords_of_both_kinds_are_verified() {
        let file = file();
        assert_eq!(file.len(), 2);
        assert!(file.verify(&credentials("ali", "sesame")));
        assert!(file.verify(&credentials("bea", "open")));
        for (user, password) in [("ali", "open"), ("bea", "sesame"), ("cem", "sesame"), ("ali", ""), ("Ali", "sesame")]
        {
            assert!(!file.verify(&credentials(user, password)), "{user}:{password}");
        }
        assert!(!Htpasswd::read("").expect("empty").verify(&credentials("ali", "sesame")));
    }

    #[test]
    fn weak_hashes_and_doubled_names_are_refused_with_their_line() {
        let good = bcrypt::hash("x", 4).expect("a hash");
        for (text, line, part) in [
            ("a:$apr1$abc$def".to_owned(), 1, "htpasswd -B"),
            ("# c\na:{SHA}2jmj7l5rSw0yVb/vlWAYkK/YBwk=".to_owned(), 2, "htpasswd -B"),
            ("a:clear".to_owned(), 1, "htpasswd -B"),
            ("a:$2y$05$short".to_owned(), 1, "not a bcrypt hash"),
            ("a:$argon2id$v=19$m=x".to_owned(), 1, "not an Argon2id hash"),
            ("nothing".to_owned(), 1, "expected"),
            (good.replace("$04$", "$17$").replace("$2b$", "a:$2b$"), 1, "cost above 16"),
            (
                "a:$argon2id$v=19$m=4194304,t=1,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".to_owned(),
                1,
                "above 256 MiB",
            ),
            (format!("a:{good}\na:{good}"), 2, "twice"),
        ] {
            let error = Htpasswd::read(&text).expect_err(&text);
            assert_eq!(error.line, line);
            assert!(error.problem.contains(part), "{error}");
        }
    }

    #[test]
    fn malformed_credentials_are_refused() {
        for wrong in [
            "",
            "!!!",
            &STANDARD.encode("nocolon"),
            &STANDARD.encode(":x"),
            &STANDARD.encode("a:\r\n"),
            &STANDARD.encode(b"\xff:x"),
        ] {
            assert_eq!(Credentials::parse(wrong.as_bytes()), Err(Refusal::Malformed("basic credentials")), "{wrong}");
        }
        assert!(Credentials::parse(&vec![b'Y'; 2000]).is_err());
        assert_eq!(credentials("a", "b:c").password, "b:c");
        assert_eq!(format!("{:?}", credentials("a", "b")), "a:…");
    }

    #[test]
    fn a_success_is_cached_for_five_minutes_and_for_its_file_only() {
        let (one, other) = (file(), file());
        let mut verified = VerifiedPasswords::new(10).expect("random bytes");
        let good = credentials("ali", "sesame");
        assert!(!verified.holds(&one, &good, 0));
        verified.insert(&one, &good, 0);
        assert!(verified.holds(&one, &good, 299));
        assert!(!verified.holds(&one, &good, 300));
        assert!(!verified.holds(&other, &good, 0));
        assert!(!verified.holds(&one, &credentials("ali", "sesam"), 0));
        // The boundary between name and password is part of what is stored.
        assert!(!verified.holds(&one, &credentials("alis", "esame"), 0));
        verified.clear();
        assert!(!verified.holds(&one, &good, 0));
    }
}
