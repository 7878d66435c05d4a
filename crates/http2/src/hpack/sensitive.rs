//! Names of fields that hold credentials (RFC 7541 section 7.1.3).

use std::sync::{Arc, LazyLock};

use message::{Known, credentials};

/// Which fields never enter a table, neither here nor at another hop: who can send fields of the same connection could guess a value by the
/// length of what is compressed with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SensitiveNames {
    /// A bit for each [`Known`].
    known: u128,
    /// A bit for each length up to 63 that some other name has: most names need no comparison.
    lengths: u64,
    /// Other names, in lower case.
    names: Vec<Box<str>>,
}

impl SensitiveNames {
    /// Those of HTTP and of common use, and `more`, in any case.
    pub fn new<'n>(more: impl IntoIterator<Item = &'n str>) -> Self {
        let of_http = [Known::Authorization, Known::Cookie, Known::SetCookie, Known::ProxyAuthorization];
        let known = of_http.into_iter().fold(0, |known, one| known | bit(one));
        let mut all = SensitiveNames { known, lengths: 0, names: Vec::new() };
        credentials::FIELDS.into_iter().chain(more).for_each(|name| all.add(name));
        all
    }

    fn add(&mut self, name: &str) {
        let known = Known::of(name.as_bytes());
        if known != Known::Other {
            self.known |= bit(known);
        } else if !self.contains(known, name.as_bytes()) {
            self.lengths |= length_bit(name.len());
            self.names.push(name.to_ascii_lowercase().into());
        }
    }

    /// Whether this field is one of them.
    #[inline]
    pub fn contains(&self, known: Known, name: &[u8]) -> bool {
        if known != Known::Other {
            return self.known & bit(known) != 0;
        }
        self.lengths & length_bit(name.len()) != 0
            && self.names.iter().any(|one| one.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Those of [`SensitiveNames::new`] without more.
    pub fn common() -> Arc<SensitiveNames> {
        static COMMON: LazyLock<Arc<SensitiveNames>> = LazyLock::new(|| Arc::new(SensitiveNames::new([])));
        COMMON.clone()
    }
}

fn bit(known: Known) -> u128 {
    1 << known as u8
}

fn length_bit(length: usize) -> u64 {
    1 << length.min(63)
}
