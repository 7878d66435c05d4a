//! What must not be shown of a request: values of query parameters that carry credentials, and user information in URLs.

use std::ops::Range;

/// Names of such parameters, in lower case. `docs/telemetry.md` lists them.
const NAMES: [&str; 57] = [
    // OAuth 2.0 and OpenID Connect: RFC 6749, 7521, 7636, 8628, 8693, Session Management.
    "access_token",
    "actor_token",
    "assertion",
    "client_assertion",
    "client_secret",
    "code",
    "code_verifier",
    "device_code",
    "id_token",
    "id_token_hint",
    "logout_token",
    "refresh_token",
    "subject_token",
    "user_code",
    // OAuth 1.0: RFC 5849.
    "oauth_signature",
    "oauth_token",
    "oauth_verifier",
    // SAML 2.0 bindings, CAS.
    "samlart",
    "samlresponse",
    "ticket",
    // URLs that are signed for AWS, CloudFront, Google Cloud, Azure and Alibaba Cloud.
    "awsaccesskeyid",
    "googleaccessid",
    "ossaccesskeyid",
    "security-token",
    "sig",
    "signature",
    "x-amz-credential",
    "x-amz-security-token",
    "x-amz-signature",
    "x-goog-credential",
    "x-goog-signature",
    "x-oss-credential",
    "x-oss-security-token",
    "x-oss-signature",
    // Keys and tokens of APIs.
    "api-key",
    "api_key",
    "apikey",
    "auth",
    "auth_token",
    "authorization",
    "authtoken",
    "bearer_token",
    "job_token",
    "jwt",
    "key",
    "private_token",
    "secret",
    "session_token",
    "sessionid",
    "subscription-key",
    "token",
    "x-api-key",
    // What people know.
    "otp",
    "passphrase",
    "passwd",
    "password",
    "pwd",
];
/// For each length the names of it, a bit for each: of most parameters the length alone says that they are none of these.
const OF_LENGTH: [u64; 32] = {
    assert!(NAMES.len() <= 64);
    let mut all = [0; 32];
    let mut at = 0;
    while at < NAMES.len() {
        all[NAMES[at].len()] |= 1 << at;
        at += 1;
    }
    all
};
/// Stands for a value; its length is not kept.
const BLANK: &[u8] = b"[redacted]";

/// Names whose values are not shown: those above, and those that a configuration adds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Redaction {
    /// In lower case.
    own: Vec<Box<str>>,
}

/// The names above alone.
pub static BUILT_IN: Redaction = Redaction { own: Vec::new() };

impl Redaction {
    /// How many names a configuration may add: each is compared with every parameter.
    pub const MOST: usize = 64;
    /// The longest of them.
    pub const LONGEST: usize = 64;

    /// With names of a configuration, in any case.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        Redaction { own: names.into_iter().map(|name| name.to_ascii_lowercase().into()).collect() }
    }

    /// Names that the configuration adds, in lower case.
    pub fn own(&self) -> impl Iterator<Item = &str> {
        self.own.iter().map(|name| &**name)
    }

    /// Whether the configuration adds this name.
    pub fn adds(&self, name: &str) -> bool {
        self.own().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Whether a pair of a query, `name=value`, or its name alone, says that it carries a credential.
    pub fn is_secret(&self, pair: &[u8]) -> bool {
        let name = pair.split(|&byte| byte == b'=').next().unwrap_or_default();
        if name.iter().any(|byte| matches!(byte, b'%' | b'+')) {
            return NAMES.into_iter().chain(self.own()).any(|secret| decoded(name).eq(secret.bytes()));
        }
        let mut left = OF_LENGTH.get(name.len()).copied().unwrap_or(0);
        while left != 0 {
            if name.eq_ignore_ascii_case(NAMES[left.trailing_zeros() as usize].as_bytes()) {
                return true;
            }
            left &= left - 1;
        }
        self.own().any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
    }

    /// Where the value of a pair begins that must not be shown. In `Referer` a query may end with a fragment, which has pairs too.
    fn secret_value(&self, pair: &[u8]) -> Option<usize> {
        // Each name is looked at once, however many fragments there are: a client may send a whole head of them.
        let (mut name, mut in_value) = (0, false);
        for (at, byte) in pair.iter().enumerate() {
            match byte {
                b'#' => (name, in_value) = (at + 1, false),
                b'=' if !in_value => {
                    if self.is_secret(&pair[name..at]) {
                        return Some(at + 1);
                    }
                    in_value = true;
                }
                _ => {}
            }
        }
        None
    }

    /// Whether a query has anything that must not be shown.
    pub fn has_secrets(&self, query: &[u8]) -> bool {
        query.split(|&byte| byte == b'&').any(|pair| self.secret_value(pair).is_some())
    }

    /// Appends a query without what must not be shown.
    pub fn query(&self, out: &mut Vec<u8>, query: &[u8]) {
        for (position, pair) in query.split(|&byte| byte == b'&').enumerate() {
            if position > 0 {
                out.push(b'&');
            }
            match self.secret_value(pair) {
                Some(value) => {
                    out.extend_from_slice(&pair[..value]);
                    out.extend_from_slice(BLANK);
                }
                None => out.extend_from_slice(pair),
            }
        }
    }

    /// Whether a URL has anything that must not be shown.
    pub fn url_has_secrets(&self, url: &[u8]) -> bool {
        user_information(url).is_some() || self.has_secrets(after_path(url).1)
    }

    /// Appends a URL without what must not be shown.
    pub fn url(&self, out: &mut Vec<u8>, url: &[u8]) {
        let (before, pairs) = after_path(url);
        match user_information(before) {
            Some(user) => {
                out.extend_from_slice(&before[..user.start]);
                out.extend_from_slice(BLANK);
                out.extend_from_slice(&before[user.end..]);
            }
            None => out.extend_from_slice(before),
        }
        self.query(out, pairs);
    }
}

/// A name as servers read it, in lower case. What is no escape stands for itself.
fn decoded(name: &[u8]) -> impl Iterator<Item = u8> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let mut at = 0;
    std::iter::from_fn(move || {
        let byte = *name.get(at)?;
        at += 1;
        let byte = match byte {
            b'+' => b' ',
            b'%' => match (digit(name.get(at)), digit(name.get(at + 1))) {
                (Some(high), Some(low)) => {
                    at += 2;
                    (high << 4 | low) as u8
                }
                _ => byte,
            },
            _ => byte,
        };
        Some(byte.to_ascii_lowercase())
    })
}

/// Where the user information of a URL is: before the last `@` of its authority.
fn user_information(url: &[u8]) -> Option<Range<usize>> {
    let scheme =
        url.iter().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')).count();
    let start = match &url[scheme..] {
        [b':', b'/', b'/', ..] => scheme + 3,
        [b'/', b'/', ..] if scheme == 0 => 2,
        _ => return None,
    };
    let authority = url[start..].split(|byte| matches!(byte, b'/' | b'?' | b'#')).next()?;
    Some(start..start + authority.iter().rposition(|&byte| byte == b'@')?)
}

/// A URL up to its query or fragment, and the rest.
fn after_path(url: &[u8]) -> (&[u8], &[u8]) {
    let mark = url.iter().position(|byte| matches!(byte, b'?' | b'#'));
    url.split_at(mark.map_or(url.len(), |mark| mark + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut out = Vec::new();
        BUILT_IN.query(&mut out, text.as_bytes());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_of_credentials_are_not_shown() {
        assert_eq!(shown("a=1&Token=abc&b&KEY=x=y&token"), "a=1&Token=[redacted]&b&KEY=[redacted]&token");
        assert_eq!(shown("X-Amz-Signature=00&monkey=1"), "X-Amz-Signature=[redacted]&monkey=1");
        for clean in ["", "&", "=", "a=b&&c=", "tokens=1"] {
            assert_eq!(shown(clean), clean);
            assert!(!BUILT_IN.has_secrets(clean.as_bytes()));
        }
        assert!(BUILT_IN.has_secrets(b"a&code=1"));
    }

    /// Servers decode names before they compare them.
    #[test]
    fn names_may_be_escaped() {
        assert_eq!(
            shown("access%5Ftoken=a&%74OKEN=b&%41pi%2dkey=c"),
            "access%5Ftoken=[redacted]&%74OKEN=[redacted]&%41pi%2dkey=[redacted]"
        );
        for clean in
            ["to%ken=1", "token%=1", "token%7=1", "token+=1", "%2574oken=1", "%=1", "a%3Dtoken=1", "x=token%3D1"]
        {
            assert_eq!(shown(clean), clean);
        }
        assert_eq!(shown("q=1#access_token=a&code=b"), "q=1#access_token=[redacted]&code=[redacted]");
        assert_eq!(shown("key=a#b=c"), "key=[redacted]");
        assert_eq!(shown("a#b#token=c#key=d"), "a#b#token=[redacted]");
        assert_eq!(shown("a=token=b#c"), "a=token=b#c");
    }

    /// With a look at all that follows each `#` this would run for hours.
    #[test]
    fn a_megabyte_of_fragments_is_read_once() {
        let many = "#".repeat(1 << 20);
        for (end, shown_end) in [("=", "="), ("token=1", "token=[redacted]"), ("=#token=1", "=#token=[redacted]")] {
            assert!(shown(&format!("{many}{end}")).ends_with(shown_end), "{end}");
        }
        let pairs = "a=b#".repeat(1 << 18);
        assert_eq!(shown(&pairs), pairs);
        let escapes = "%".repeat(1 << 20);
        assert_eq!(shown(&format!("{escapes}={many}")).len(), (1 << 21) + 1);
    }

    #[test]
    fn a_configuration_adds_names() {
        let own = Redaction::new(["Coupon", "user[pin]"]);
        let mut out = Vec::new();
        own.query(
            &mut out,
            b"coupon=1&COUPON=2&co%75pon=3&user[pin]=4&user%5Bpin%5D=5&pin=6&coupons=7&token=8#coupon=9",
        );
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "coupon=[redacted]&COUPON=[redacted]&co%75pon=[redacted]&user[pin]=[redacted]&user%5Bpin%5D=[redacted]&pin=6&coupons=7&token=[redacted]"
        );
        assert!(own.adds("COUPON") && !own.adds("token") && !BUILT_IN.has_secrets(b"coupon=1"));
        assert!(own.url_has_secrets(b"https://a.example/?a=1&coupon=2") && !own.url_has_secrets(b"/coupon=2"));
    }

    #[test]
    fn the_list_is_in_lower_case_and_without_doubles() {
        let mut names = NAMES.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NAMES.len());
        assert!(
            NAMES.iter().all(|name| BUILT_IN.is_secret(name.to_uppercase().as_bytes()) && *name == name.to_lowercase())
        );
        let page = include_str!("../../../docs/telemetry.md");
        let row = |name: &&str| page.contains(&format!("`{name}`"));
        assert_eq!(NAMES.iter().filter(|name| !row(name)).collect::<Vec<_>>(), [&""; 0], "docs/telemetry.md lists all");
    }

    #[test]
    fn urls_are_shown_without_users() {
        for (text, expected) in [
            (
                "https://u:p@w@a.example/x?token=1&b=2#id_token=3",
                "https://[redacted]@a.example/x?token=[redacted]&b=2#id_token=[redacted]",
            ),
            ("http://key@a.example", "http://[redacted]@a.example"),
            ("//u:p@a.example/", "//[redacted]@a.example/"),
            ("https://a.example/#access_token=1&b=2", "https://a.example/#access_token=[redacted]&b=2"),
        ] {
            assert!(BUILT_IN.url_has_secrets(text.as_bytes()), "{text}");
            let mut out = Vec::new();
            BUILT_IN.url(&mut out, text.as_bytes());
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
        for clean in ["https://a.example/@user?x=a@b", "/u:p@a", "u:p@a", "", "://", "http://", "-", "https://a?u@b"] {
            assert!(!BUILT_IN.url_has_secrets(clean.as_bytes()), "{clean}");
        }
    }
}
