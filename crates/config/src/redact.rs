//! What must not be shown of a request: values of query parameters that carry credentials.

/// Names of such parameters, in lower case.
const NAMES: [&str; 14] = [
    "access_token",
    "api-key",
    "api_key",
    "apikey",
    "client_secret",
    "code",
    "id_token",
    "key",
    "password",
    "secret",
    "sig",
    "signature",
    "token",
    "x-amz-signature",
];
/// Stands for a value; its length is not kept.
const BLANK: &[u8] = b"[redacted]";

/// Whether a pair of a query, `name=value`, or its name alone, says that it carries a credential.
pub fn is_secret(pair: &[u8]) -> bool {
    let name = pair.split(|&byte| byte == b'=').next().unwrap_or_default();
    NAMES.iter().any(|secret| name.eq_ignore_ascii_case(secret.as_bytes()))
}

/// Whether a query has anything that must not be shown.
pub fn has_secrets(query: &[u8]) -> bool {
    query.split(|&byte| byte == b'&').any(is_secret)
}

/// Appends a query without what must not be shown.
pub fn query(out: &mut Vec<u8>, query: &[u8]) {
    for (position, pair) in query.split(|&byte| byte == b'&').enumerate() {
        if position > 0 {
            out.push(b'&');
        }
        match pair.iter().position(|&byte| byte == b'=') {
            Some(at) if is_secret(pair) => {
                out.extend_from_slice(&pair[..=at]);
                out.extend_from_slice(BLANK);
            }
            _ => out.extend_from_slice(pair),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut out = Vec::new();
        query(&mut out, text.as_bytes());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_of_credentials_are_not_shown() {
        assert_eq!(shown("a=1&Token=abc&b&KEY=x=y&token"), "a=1&Token=[redacted]&b&KEY=[redacted]&token");
        assert_eq!(shown("X-Amz-Signature=00&monkey=1"), "X-Amz-Signature=[redacted]&monkey=1");
        for clean in ["", "&", "=", "a=b&&c=", "tokens=1"] {
            assert_eq!(shown(clean), clean);
            assert!(!has_secrets(clean.as_bytes()));
        }
        assert!(has_secrets(b"a&code=1"));
    }
}
