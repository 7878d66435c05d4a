//! Request fields that upstreams believe because a proxy in front of them is supposed to write them.
//!
//! A client that sends one of them itself can pretend to be another client or user, choose the URL that an application acts on, or
//! have its own variant of a page stored in a cache whose key does not hold the field. So they pass from `trusted_proxies` only.
//! [`NAMES`] is the one list; `docs/safety.md` shows it, and a test compares the two.

use h1::Known;

/// Names in the spelling of their documentation; `*` at the end stands for any further characters.
///
/// Sources: `ForwardedHeaders` of ASP.NET Core, `TrustProxies` of Symfony and Laravel, `ActionDispatch::RemoteIp` and `Rack::Request`,
/// `ForwardedHeaderFilter` of Spring, `trust proxy` of Express, what Envoy sanitises at the edge, nginx-ingress, `HAProxy`, Traefik,
/// oauth2-proxy, Authelia, Kong, and the fields that content delivery networks and cloud load balancers document.
pub const NAMES: &[&str] = &[
    // Address, scheme, host, port and path as a proxy saw them.
    "Forwarded",
    "Forwarded-*",
    "X-Forwarded",
    "X-Forwarded-*",
    "X-Original-*",
    "X-Real-*",
    "X-Client-IP",
    "X-Cluster-Client-IP",
    "X-Originating-IP",
    "X-ProxyUser-IP",
    "X-Remote-*",
    "Client-IP",
    "True-Client-IP",
    "Proxy-Client-IP",
    "WL-Proxy-*",
    "X-Host",
    "X-Host-Override",
    "X-HTTP-Host-Override",
    "Disguised-Host",
    "X-Scheme",
    "X-URL-Scheme",
    "Front-End-Https",
    "X-Script-Name",
    // Content delivery networks and platforms.
    "CF-*",
    "DO-Connecting-IP",
    "Fastly-*",
    "Fly-Client-IP",
    "Fly-Forwarded-*",
    "X-Appengine-*",
    "X-ARR-*",
    "X-Azure-*",
    "X-Envoy-*",
    "X-NF-Client-Connection-IP",
    "X-Vercel-*",
    // The URL and the method that an application acts on, and switches of frameworks and servers.
    "X-HTTP-Method",
    "X-HTTP-Method-Override",
    "X-Method-Override",
    "X-Override-URL",
    "X-Replaced-Path",
    "X-Rewrite-URL",
    "X-Unencoded-URL",
    "X-WAWS-Unencoded-URL",
    "X-Middleware-*",
    "X-Accel-*",
    "X-Sendfile-Type",
    "Proxy",
    // Users and client certificates, as an authenticating proxy reports them.
    "Remote-*",
    "OIDC-*",
    "Tailscale-*",
    "X-Amzn-Mtls-*",
    "X-Amzn-Oidc-*",
    "X-Anonymous-Consumer",
    "X-Auth-Request-*",
    "X-Authenticated-*",
    "X-Authentik-*",
    "X-Consumer-*",
    "X-Credential-*",
    "X-Goog-Authenticated-*",
    "X-Goog-IAP-*",
    "X-JWT-Assertion",
    "X-MS-Client-Principal*",
    "X-MS-Token-*",
    "X-Pomerium-*",
    "X-Userinfo",
    "X-Vouch-*",
    "X-Webauth-*",
    "Client-Cert",
    "Client-Cert-Chain",
    "SSL-Client-*",
    "X-Client-Cert*",
    "X-Client-DN",
    "X-Client-Verify",
    "X-SSL-*",
    "X-TLS-*",
];

/// Most names of one bucket.
const DEEPEST: usize = 12;
/// First bytes that are compared as one word.
const WORD: usize = 8;
/// Set in every byte of a word, so that letters have no case.
const CASE: u64 = 0x2020_2020_2020_2020;

/// What [`find`] looks at of an entry.
#[derive(Clone, Copy)]
struct Start {
    /// The first letters and digits, with [`CASE`].
    word: u64,
    /// Which bytes of it count: neither what stands between words, which is spelled in many ways, nor what lies behind a short name.
    mask: u64,
    /// Position in [`NAMES`]; 255 behind the last one of a bucket.
    at: u8,
}

/// Entries by [`bucket`]: an ordinary field costs one look-up, and a comparison of one word for each entry there, which are few.
static BUCKETS: [[Start; DEEPEST + 1]; 64] = {
    let mut table = [[Start { word: 0, mask: 0, at: u8::MAX }; DEEPEST + 1]; 64];
    let mut at = 0;
    while at < NAMES.len() {
        let slot = bucket(NAMES[at].as_bytes());
        let mut free = 0;
        while table[slot][free].at != u8::MAX {
            free += 1;
        }
        assert!(free < DEEPEST, "a bucket needs an end");
        table[slot][free] = start(NAMES[at].as_bytes(), at as u8);
        at += 1;
    }
    table
};

const fn start(name: &[u8], at: u8) -> Start {
    let (mut word, mut mask) = ([0; WORD], [0; WORD]);
    let mut index = 0;
    while index < WORD && index < name.len() {
        if name[index].is_ascii_alphanumeric() {
            word[index] = name[index] | CASE as u8;
            mask[index] = u8::MAX;
        }
        index += 1;
    }
    Start { word: u64::from_le_bytes(word), mask: u64::from_le_bytes(mask), at }
}

/// By the first letter; names that begin with `X-` by the letter behind it.
const fn bucket(name: &[u8]) -> usize {
    match name {
        [b'X' | b'x', separator, letter, ..] if !separator.is_ascii_alphanumeric() => 32 + (*letter & 31) as usize,
        [letter, ..] => (*letter & 31) as usize,
        [] => 0,
    }
}

/// The entry of [`NAMES`] that `name` falls under, in any spelling that servers take for it: upper and lower case are the same, nor which character
/// that is neither letter nor digit stands between the words (CGI turns all of them into `_`).
#[inline]
pub fn find(name: &[u8]) -> Option<&'static str> {
    let bucket = &BUCKETS[bucket(name)];
    if bucket[0].at == u8::MAX {
        return None;
    }
    let word = match name.first_chunk() {
        Some(start) => u64::from_le_bytes(*start),
        None => name.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    } | CASE;
    let candidates = bucket.iter().take_while(|start| start.at != u8::MAX);
    let mut alike = candidates.filter(|start| (word ^ start.word) & start.mask == 0);
    alike.find(|start| is_in(name, NAMES[usize::from(start.at)])).map(|start| NAMES[usize::from(start.at)])
}

/// Whether a name falls under this entry.
fn is_in(name: &[u8], entry: &str) -> bool {
    match entry.strip_suffix('*') {
        Some(start) => name.get(..start.len()).is_some_and(|head| Known::is_alias(head, start.as_bytes())),
        None => Known::is_alias(name, entry.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A spelling of a name of the list, with something in place of `*`.
    fn spelling() -> impl Strategy<Value = String> {
        let parts = (0..NAMES.len(), "[a-z][a-z0-9-]{0,40}", any::<u64>(), any::<u64>());
        parts.prop_map(|(at, more, capitals, separators)| {
            let name = NAMES[at].replace('*', &more);
            let spell = |(index, byte): (usize, char)| match byte {
                '-' => char::from(b"-_.~!#"[((separators >> (index * 3 % 60)) as usize & 7) % 6]),
                letter if capitals >> (index % 64) & 1 == 1 => letter.to_ascii_uppercase(),
                letter => letter.to_ascii_lowercase(),
            };
            name.chars().enumerate().map(spell).collect()
        })
    }

    proptest! {
        #[test]
        fn every_spelling_is_found(name in spelling()) {
            prop_assert!(find(name.as_bytes()).is_some(), "{name}");
        }

        #[test]
        fn any_bytes_are_looked_up_as_in_the_whole_list(name in "[xXcCfF][-_.a-zA-Z]{0,12}") {
            let is_listed = NAMES.iter().any(|entry| match entry.strip_suffix('*') {
                Some(start) => name.len() >= start.len() && Known::is_alias(&name.as_bytes()[..start.len()], start.as_bytes()),
                None => Known::is_alias(name.as_bytes(), entry.as_bytes()),
            });
            prop_assert_eq!(find(name.as_bytes()).is_some(), is_listed, "{}", name);
        }
    }

    #[test]
    fn ordinary_fields_are_not_in_the_list() {
        for name in [
            "",
            "x",
            "X-",
            "Accept",
            "Accept-Language",
            "X-Api-Key",
            "X-Requested-With",
            "X-Request-Id",
            "X-Correlation-Id",
            "X-CSRF-Token",
            "X-Auth-Token",
            "X-Tenant",
            "traceparent",
            "X-B3-TraceId",
            "Sec-Fetch-Site",
            "User-Agent",
            "From",
            "Priority",
            "Proxying",
            "XForwardedFor",
            "X-Forwardedfor",
            "CFx",
            "Client-IPs",
            "X-Amz-Date",
            "X-Amzn-Trace-Id",
            "X-Goog-Api-Key",
            "X-Ms-Version",
        ] {
            assert_eq!(find(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn the_page_shows_the_list() {
        let page = include_str!("../../../docs/safety.md");
        let (_, rest) = page.split_once("## Fields of untrusted peers").expect("the page has the section");
        let section = rest.split("\n## ").next().unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
        let shown: Vec<&str> = rows.flat_map(|row| row.split('`').skip(1).step_by(2)).collect();
        assert_eq!(shown, NAMES);
    }
}
