//! The table of keys in force.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::digest::{Digester, from_hex};
use super::entry::{Entry, FileError};
use super::record::Record;
use crate::{Identity, Refusal};

/// All keys of one authenticator. Immutable: a changed file makes a new one.
#[derive(Debug, Default)]
pub struct Store {
    keys: HashMap<[u8; 32], Record, RandomState>,
    digester: Digester,
}

/// A key that was found, and may be used.
#[derive(Debug, Clone)]
pub struct ValidKey<'a> {
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
            digester: Digester::new(pepper),
        };
        let mut ids = HashSet::with_capacity(entries.len());
        for (line, entry) in entries {
            let wrong = |problem: String| StoreError::File(FileError { line, problem });
            let digest = from_hex(entry.sha256.as_bytes());
            let (id, weak) = (entry.id.clone(), entry.weak);
            let record = Record::of(entry).map_err(wrong)?;
            let digest = digest.ok_or_else(|| wrong("`sha256` must have 64 hexadecimal digits".to_owned()))?;
            if weak && !store.digester.has_pepper() {
                return Err(StoreError::PepperMissing(line));
            }
            if !ids.insert(id.clone()) {
                return Err(wrong(format!("the id `{id}` occurs twice")));
            }
            if store.keys.insert(digest, record).is_some() {
                return Err(wrong(format!("the key of `{id}` has another entry: one key is one entry")));
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

    /// All keys, in no order.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.keys.values()
    }

    /// The entry of a presented key, whether or not it may be used.
    ///
    /// # Errors
    /// [`Refusal::Malformed`] for bytes that no key has, [`Refusal::Invalid`] for an unknown key.
    pub fn record(&self, presented: &[u8]) -> Result<&Record, Refusal> {
        let digest = self.digester.digest(presented)?;
        self.keys.get(&digest).ok_or(Refusal::Invalid("unknown key"))
    }

    /// The identity of a presented key. `route` is the name of the route, `now` seconds since 1970.
    ///
    /// The table is looked up by the key's digest, so the time that it takes says nothing about keys in it.
    ///
    /// # Errors
    /// [`Refusal::Malformed`] for bytes that no key has, [`Refusal::Invalid`] for an unknown key, [`Refusal::Revoked`] for a disabled
    /// one, [`Refusal::Expired`] outside its time, [`Refusal::Forbidden`] on a route that it does not open.
    pub fn find(&self, presented: &[u8], route: &str, now: i64) -> Result<ValidKey<'_>, Refusal> {
        let record = self.record(presented)?;
        Ok(ValidKey { id: record.id(), identity: record.admit(route, now)? })
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::hmac;

    use super::super::{Key, sha256};
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
