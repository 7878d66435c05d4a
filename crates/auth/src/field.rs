//! The value of the field `Authorization` (RFC 9110, section 11.4): a scheme, and what is behind it.

/// The credentials of a scheme; `None` for another scheme, or a scheme alone.
///
/// The name of the scheme ignores case. One or more spaces follow it, which are no part of the credentials.
#[must_use]
pub fn credentials<'v>(value: &'v [u8], scheme: &str) -> Option<&'v [u8]> {
    let (name, rest) = value.split_at_checked(scheme.len())?;
    let is_it = name.eq_ignore_ascii_case(scheme.as_bytes()) && rest.first() == Some(&b' ');
    is_it.then(|| rest.trim_ascii_start())
}

/// Whether a bearer token has the form of a JSON Web Token: three parts with dots between.
#[must_use]
pub fn is_jwt(token: &[u8]) -> bool {
    token.iter().filter(|byte| **byte == b'.').count() == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_ignores_case_and_needs_a_space() {
        assert_eq!(credentials(b"Bearer abc", "bearer"), Some(&b"abc"[..]));
        assert_eq!(credentials(b"bEARER   a b", "bearer"), Some(&b"a b"[..]));
        assert_eq!(credentials(b"Bearer ", "bearer"), Some(&b""[..]));
        for other in [&b""[..], b"Bearer", b"Bearer\tabc", b"Bearerabc", b"Basic abc", b" Bearer abc"] {
            assert_eq!(credentials(other, "bearer"), None, "{other:?}");
        }
        assert!(is_jwt(b"a.b.c") && is_jwt(b"..") && !is_jwt(b"a.b") && !is_jwt(b"a.b.c.d"));
    }
}
