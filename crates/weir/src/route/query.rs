//! Parameters of a query, for routes that match them.

use std::borrow::Cow;

use message::form::decoded;

/// The values of a parameter, in order; name and value are compared decoded, so that no other spelling leads to another route.
pub fn values<'q>(query: Option<&'q [u8]>, name: &'q str) -> impl Iterator<Item = Cow<'q, [u8]>> {
    query.into_iter().flat_map(|query| query.split(|&byte| byte == b'&')).filter_map(move |pair| {
        let equals = memchr::memchr(b'=', pair).unwrap_or(pair.len());
        let value = pair.get(equals + 1..).unwrap_or_default();
        decoded(&pair[..equals]).eq(name.bytes()).then(|| {
            let is_plain = memchr::memchr2(b'%', b'+', value).is_none();
            if is_plain { Cow::Borrowed(value) } else { Cow::Owned(decoded(value).collect()) }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::values;

    #[test]
    fn spellings_of_one_name_and_value_are_one() {
        let read = |query: &str, name: &str| -> Vec<String> {
            values(Some(query.as_bytes()), name).map(|value| String::from_utf8_lossy(&value).into_owned()).collect()
        };
        assert_eq!(read("v=1&w=2&v=3", "v"), ["1", "3"]);
        assert_eq!(read("%76=%31", "v"), ["1"]);
        assert_eq!(read("a+b=c+d", "a b"), ["c d"]);
        assert_eq!(read("v&v=&vv=1", "v"), ["", ""]);
        assert_eq!(read("v=a=b", "v"), ["a=b"]);
        assert_eq!(read("", "v"), [""; 0]);
        assert_eq!(values(None, "v").count(), 0);
    }
}
