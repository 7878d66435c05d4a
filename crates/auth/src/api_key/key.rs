//! The form of a key: `wk_<id>_<secret>_<checksum>`.

use std::fmt;

use aws_lc_rs::rand;

use crate::secret::is_same;

/// Letters of Crockford's base 32 in lower case: no `i`, `l`, `o`, `u`, so that a key can be read out.
const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const ID: usize = 12;
const SECRET: usize = 32;
const CHECKSUM: usize = 7;

/// A key in clear. It is shown once, when it is made; the file keeps its SHA-256.
#[derive(Clone)]
pub struct Key(String);

/// Why a text is not a key of this gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It does not have the form `wk_<id>_<secret>_<checksum>`.
    #[error("not a key of the form wk_<id>_<secret>_<checksum>")]
    Form,
    /// It has the form, but its checksum is of another key: a letter is wrong or missing.
    #[error("the key's checksum does not match: a letter is wrong")]
    Checksum,
}

impl Key {
    /// A new key of 160 random bits, with an id of 60.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn generate() -> Result<Self, aws_lc_rs::error::Unspecified> {
        let mut random = [0; ID + SECRET];
        rand::fill(&mut random)?;
        let letters: String = random.iter().map(|byte| char::from(LETTERS[usize::from(byte & 31)])).collect();
        let body = format!("wk_{}_{}", &letters[..ID], &letters[ID..]);
        Ok(Self(format!("{body}_{}", checksum(&body))))
    }

    /// Reads a key and compares its checksum: most typing errors end here, without a look at the store.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let body = text.len().checked_sub(CHECKSUM + 1).and_then(|end| text.get(..end)).ok_or(KeyError::Form)?;
        let mut parts = body.strip_prefix("wk_").ok_or(KeyError::Form)?.split('_');
        let (Some(id), Some(secret), None) = (parts.next(), parts.next(), parts.next()) else {
            return Err(KeyError::Form);
        };
        let rest = text[body.len()..].strip_prefix('_').ok_or(KeyError::Form)?;
        let of_form = |part: &str, length| part.len() == length && part.bytes().all(|byte| LETTERS.contains(&byte));
        if !of_form(id, ID) || !of_form(secret, SECRET) || !of_form(rest, CHECKSUM) {
            return Err(KeyError::Form);
        }
        if checksum(body) == rest { Ok(Self(text.to_owned())) } else { Err(KeyError::Checksum) }
    }

    /// Whether a text claims to be a key of this gateway.
    #[must_use]
    pub fn has_prefix(text: &[u8]) -> bool {
        text.starts_with(b"wk_")
    }

    /// The public part that logs and lists show.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0[3..3 + ID]
    }

    /// The whole key, for its owner.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        is_same(self.0.as_bytes(), other.0.as_bytes())
    }
}

impl Eq for Key {}

/// The key is a secret: `{:?}` shows its id.
impl fmt::Debug for Key {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "wk_{}_…", self.id())
    }
}

/// CRC-32 (IEEE) in seven letters of five bits.
fn checksum(body: &str) -> String {
    let crc = crc32fast::hash(body.as_bytes());
    (0..CHECKSUM).rev().map(|place| char::from(LETTERS[(crc >> (5 * place)) as usize & 31])).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_generated_key_is_read_again_and_hides_its_secret() {
        let key = Key::generate().expect("random bytes");
        assert_eq!(Key::parse(key.reveal()), Ok(key.clone()));
        assert_ne!(key, Key::generate().expect("random bytes"));
        assert_eq!(format!("{key:?}"), format!("wk_{}_…", key.id()));
        assert_eq!(key.reveal().len(), 3 + 12 + 1 + 32 + 1 + 7);
    }

    proptest! {
        #[test]
        fn one_wrong_letter_is_found_by_the_checksum(at in 3usize..56, letter in 0usize..32) {
            let key = Key::generate().expect("random bytes");
            let mut bytes = key.reveal().as_bytes().to_vec();
            prop_assume!(bytes[at] != b'_' && bytes[at] != LETTERS[letter]);
            bytes[at] = LETTERS[letter];
            prop_assert_eq!(Key::parse(std::str::from_utf8(&bytes).expect("ASCII")), Err(KeyError::Checksum));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,80}") {
            let _ = Key::parse(&text);
            let _ = Key::parse(&format!("wk_{text}"));
        }
    }
}
