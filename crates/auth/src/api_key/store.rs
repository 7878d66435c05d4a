//! The table of keys in force.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use aws_lc_rs::{digest, hmac};
use foldhash::fast::RandomState;

use super::entry::{Entry, FileError, seconds};
use super::key::Key;
use crate::{Identity, Refusal};

/// Shorter keys can be guessed, however they are hashed.
const WEAK_BELOW: usize = 20;
/// No key in use is longer; more is not hashed.
const LONGEST: usize = 512;

/// All keys of one authenticator. Immutable: a changed file makes a new one.
#[derive(Debug, Default)]
pub struct Store {
    keys: HashMap<[u8; 32], Listed, RandomState>,
    pepper: Option<hmac::Key>,
    weak: usize,
}

#[derive(Debug)]
struct Listed {
    id: Box<str>,
    identity: Arc<Identity>,
    routes: Box<[Box<str>]>,
    not_before: i64,
    expires: i64,
    disabled: bool,
}

/// A key that was found, and may be used.
#[derive(Debug, Clone)]
pub struct Found<'a> {
    /// The public name of the key.
    pub id: &'a str,
    /// Whose it is.
    pub identity: &'a Arc<Identity>,
}

/// Why a table cannot be made of entries.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// An entry has `weak: true`, and the authenticator no `pepper`.
    #[error("line {0}: `weak: true` needs a `pepper` in the authenticator")]
    PepperMissing(usize),
}

impl Store {
    /// Makes the table of a key file's text.
    ///
    /// # Errors
    /// [`StoreError`]: a line that is not an entry, digests of wrong length, ids or digests that occur twice, moments that cannot be read.
    pub fn read(text: &str, pepper: Option<&[u8]>) -> Result<Self, StoreError> {
        let entries = Entry::read_file(text)?;
        let mut store = Self {
            keys: HashMap::with_capacity_and_hasher(entries.len(), RandomState::default()),
            pepper: pepper.map(|secret| hmac::Key::new(hmac::HMAC_SHA256, secret)),
            weak: 0,
        };
        let mut ids = HashSet::with_capacity(entries.len());
        for (line, entry) in entries {
            let wrong = |problem: String| StoreError::File(FileError { line, problem });
            if entry.id.is_empty() || entry.consumer.is_empty() {
                return Err(wrong("`id` and `consumer` must not be empty".to_owned()));
            }
            let digest = hexadecimal(&entry.sha256)
                .ok_or_else(|| wrong("`sha256` must have 64 hexadecimal digits".to_owned()))?;
            if entry.weak {
                if store.pepper.is_none() {
                    return Err(StoreError::PepperMissing(line));
                }
                store.weak += 1;
            }
            let moment =
                |text: &Option<String>, otherwise| text.as_deref().map_or(Ok(otherwise), seconds).map_err(wrong);
            let listed = Listed {
                not_before: moment(&entry.not_before, i64::MIN)?,
                expires: moment(&entry.expires, i64::MAX)?,
                identity: Arc::new(Identity {
                    consumer: Some(entry.consumer.into()),
                    key_id: Some(entry.id.as_str().into()),
                    tier: entry.tier.map(Into::into),
                    scopes: entry.scopes.into_iter().map(Into::into).collect(),
                    meta: entry.meta.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
                    ..Identity::default()
                }),
                routes: entry.routes.into_iter().map(Into::into).collect(),
                disabled: entry.disabled,
                id: entry.id.clone().into(),
            };
            if !ids.insert(entry.id.clone()) {
                return Err(wrong(format!("the id `{}` occurs twice", entry.id)));
            }
            if store.keys.insert(digest, listed).is_some() {
                return Err(wrong(format!("the key of `{}` has another entry: one key is one entry", entry.id)));
            }
        }
        Ok(store)
    }

    /// Keys in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether it has no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The identity of a presented key. `route` is the name of the route, `now` seconds since 1970.
    ///
    /// The table is looked up by the key's digest, so the time that it takes says nothing about keys in it.
    ///
    /// # Errors
    /// [`Refusal::Malformed`] for bytes that no key has, [`Refusal::Invalid`] for an unknown key, [`Refusal::Revoked`] for a disabled
    /// one, [`Refusal::Expired`] outside its time, [`Refusal::Forbidden`] on a route that it does not open.
    pub fn find(&self, presented: &[u8], route: &str, now: i64) -> Result<Found<'_>, Refusal> {
        if presented.is_empty() || presented.len() > LONGEST || !presented.iter().all(u8::is_ascii_graphic) {
            return Err(Refusal::Malformed("api key"));
        }
        let listed = self.listed(presented).ok_or(Refusal::Invalid("unknown key"))?;
        if listed.disabled {
            return Err(Refusal::Revoked);
        }
        if now < listed.not_before {
            return Err(Refusal::Invalid("not yet valid"));
        }
        if now >= listed.expires {
            return Err(Refusal::Expired);
        }
        if !listed.routes.is_empty() && !listed.routes.iter().any(|one| &**one == route) {
            return Err(Refusal::Forbidden("route"));
        }
        Ok(Found { id: &listed.id, identity: &listed.identity })
    }

    fn listed(&self, presented: &[u8]) -> Option<&Listed> {
        if Key::has_prefix(presented) {
            // A typing error costs no digest.
            Key::parse(std::str::from_utf8(presented).ok()?).ok()?;
            return self.keys.get(&sha256(presented));
        }
        if presented.len() >= WEAK_BELOW {
            return self.keys.get(&sha256(presented));
        }
        let pepper = self.pepper.as_ref().filter(|_| self.weak > 0)?;
        self.keys.get(hmac::sign(pepper, presented).as_ref())
    }
}

/// The digest of a key, as the file keeps it.
#[must_use]
pub fn sha256(key: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest::digest(&digest::SHA256, key).as_ref());
    out
}

fn hexadecimal(text: &str) -> Option<[u8; 32]> {
    let text = text.as_bytes();
    let mut out = [0; 32];
    if text.len() != 64 {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        let digit = |letter: u8| char::from(letter).to_digit(16);
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn line(id: &str, key: &str, more: &str) -> String {
        format!("- {{\"id\":\"{id}\",\"sha256\":\"{}\",\"consumer\":\"shop\"{more}}}\n", hex(&sha256(key.as_bytes())))
    }

    #[test]
    fn a_key_opens_until_it_expires_is_disabled_or_leaves_the_file() {
        let keys: Vec<Key> = (0..4).map(|_| Key::generate().expect("random bytes")).collect();
        let text = line("plain", keys[0].reveal(), ",\"tier\":\"gold\",\"scopes\":[\"a\"]")
            + &line("short", keys[1].reveal(), ",\"not_before\":\"1970-01-02\",\"expires\":\"1970-01-03\"")
            + &line("off", keys[2].reveal(), ",\"disabled\":true");
        let store = Store::read(&text, None).expect("a store");
        let find = |at: usize, now| store.find(keys[at].reveal().as_bytes(), "r", now).map(|found| found.id.to_owned());
        assert_eq!(find(0, 0), Ok("plain".to_owned()));
        assert_eq!(find(1, 86_399), Err(Refusal::Invalid("not yet valid")));
        assert_eq!(find(1, 86_400), Ok("short".to_owned()));
        assert_eq!(find(1, 172_799), Ok("short".to_owned()));
        assert_eq!(find(1, 172_800), Err(Refusal::Expired));
        assert_eq!(find(2, 0), Err(Refusal::Revoked));
        assert_eq!(find(3, 0), Err(Refusal::Invalid("unknown key")));
        let who = store.find(keys[0].reveal().as_bytes(), "r", 0).expect("found").identity.clone();
        assert_eq!((who.consumer.as_deref(), who.tier.as_deref(), &*who.scopes[0]), (Some("shop"), Some("gold"), "a"));
    }

    #[test]
    fn a_key_of_some_routes_opens_no_other() {
        let key = Key::generate().expect("random bytes");
        let store = Store::read(&line("k", key.reveal(), ",\"routes\":[\"orders\"]"), None).expect("a store");
        assert!(store.find(key.reveal().as_bytes(), "orders", 0).is_ok());
        assert_eq!(store.find(key.reveal().as_bytes(), "admin", 0).unwrap_err(), Refusal::Forbidden("route"));
    }

    #[test]
    fn bytes_that_no_key_has_are_malformed() {
        let store = Store::default();
        for wrong in [&b""[..], b"a b", b"a\0b", b"\xff", &[b'a'; 513], b"a\r\nb"] {
            assert_eq!(store.find(wrong, "r", 0).unwrap_err(), Refusal::Malformed("api key"), "{wrong:?}");
        }
    }

    #[test]
    fn a_guessable_key_needs_a_pepper_and_is_found_by_it_alone() {
        let short = "hunter2";
        let peppered = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b"pepper"), short.as_bytes());
        let text =
            format!("- {{\"id\":\"w\",\"sha256\":\"{}\",\"consumer\":\"c\",\"weak\":true}}\n", hex(peppered.as_ref()));
        assert_eq!(Store::read(&text, None).unwrap_err(), StoreError::PepperMissing(1));
        let store = Store::read(&text, Some(b"pepper")).expect("a store");
        assert!(store.find(short.as_bytes(), "r", 0).is_ok());
        assert!(Store::read(&text, Some(b"other")).expect("a store").find(short.as_bytes(), "r", 0).is_err());
        // Its plain digest in the file opens nothing.
        let plain = Store::read(&line("p", short, ""), Some(b"pepper")).expect("a store");
        assert!(plain.find(short.as_bytes(), "r", 0).is_err());
    }

    #[test]
    fn imported_long_keys_are_found() {
        let long = "sk-0123456789abcdefghij";
        let store = Store::read(&line("i", long, ""), None).expect("a store");
        assert!(store.find(long.as_bytes(), "r", 0).is_ok());
    }

    #[test]
    fn what_is_doubled_or_broken_is_refused_with_its_line() {
        let one = line("a", "sk-0123456789abcdefghij", "");
        for (text, expected) in [
            (one.clone() + &line("a", "sk-other-0123456789abc", ""), "line 2: the id `a` occurs twice"),
            (
                one.clone() + &line("b", "sk-0123456789abcdefghij", ""),
                "line 2: the key of `b` has another entry: one key is one entry",
            ),
            (
                one.clone() + "- {\"id\":\"c\",\"sha256\":\"12\",\"consumer\":\"x\"}",
                "line 2: `sha256` must have 64 hexadecimal digits",
            ),
            (one + &line("", "sk-other-0123456789abc", ""), "line 2: `id` and `consumer` must not be empty"),
        ] {
            assert_eq!(Store::read(&text, None).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_hundred_thousand_keys_are_read_line_by_line() {
        let text: String =
            (0..100_000).map(|n| line(&format!("id{n}"), &format!("sk-0123456789abcdef-{n}"), "")).collect();
        let store = Store::read(&text, None).expect("a store");
        assert_eq!(store.len(), 100_000);
        assert_eq!(store.find(b"sk-0123456789abcdef-99999", "r", 0).expect("the last").id, "id99999");
    }
}
