//! Comparison of secrets: the one place where a secret is compared with what somebody sent.
//!
//! Keys of clients are not compared at all: stores find their digests ([`Digester`](crate::api_key::Digester)). Passwords and signatures are
//! compared by the libraries that hash them, in constant time too. Everything else comes here.

use aws_lc_rs::constant_time::verify_slices_are_equal;

use crate::api_key::sha256;

/// Whether two texts are the same, in a time that depends on their lengths only and not on where they differ.
///
/// Their digests are compared, so that not even a difference in length ends the comparison early.
#[must_use]
pub fn is_same(one: &[u8], other: &[u8]) -> bool {
    #[cfg(test)]
    COMPARISONS.with(|count| count.set(count.get() + 1));
    verify_slices_are_equal(&sha256(one), &sha256(other)).is_ok()
}

#[cfg(test)]
thread_local! {
    static COMPARISONS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_key::Key;
    use crate::basic::Credentials;

    /// How often secrets were compared in constant time meanwhile.
    fn comparisons(of: impl FnOnce()) -> u32 {
        let before = COMPARISONS.with(std::cell::Cell::get);
        of();
        COMPARISONS.with(std::cell::Cell::get) - before
    }

    #[test]
    fn texts_are_the_same_or_not() {
        assert!(is_same(b"", b"") && is_same(b"a secret", b"a secret"));
        for other in [&b""[..], b"a secre", b"a secret ", b"b secret", b"a secres"] {
            assert!(!is_same(b"a secret", other));
        }
    }

    /// `==` on a type that holds a secret is this comparison, wherever the two differ: a derived one would stop at the first difference.
    #[test]
    fn types_that_hold_secrets_are_compared_here() {
        let key = Key::generate().expect("random bytes");
        let others: Vec<Key> = (0..10).map(|_| Key::generate().expect("random bytes")).collect();
        assert_eq!(comparisons(|| assert!(others.iter().all(|other| *other != key))), 10);
        assert_eq!(comparisons(|| assert_eq!(key, key.clone())), 1);
        let read = |text: &[u8]| Credentials::parse(text).expect("credentials");
        // ali:sesame, ali:sesamf, bli:sesame
        let (one, last, first) = (read(b"YWxpOnNlc2FtZQ=="), read(b"YWxpOnNlc2FtZg=="), read(b"YmxpOnNlc2FtZQ=="));
        assert_eq!(comparisons(|| assert_eq!(one, one.clone())), 1);
        assert_eq!(comparisons(|| assert!(one != last && one != first)), 2);
    }
}
