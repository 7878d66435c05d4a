//! Policies of `gauge convert`: what a configuration for production does beyond passing requests on. [`Policies`] has them as the user gave them;
//! [`profiles`](super::profiles) has what each gateway's configuration says for them, beside what it says for profiles.

use std::net::SocketAddr;

use super::jwks::{self, PublicKey};
use super::model::Model;
use crate::profile::{CONSUMER, Jwt, KeyAuth, RateLimit};

/// How long a browser may cache a permission of CORS, in seconds.
pub(super) const MAX_AGE: u32 = 600;
/// Methods that may be sent again after the upstream has seen them (RFC 9110, section 9.2.2).
pub(super) const IDEMPOTENT: [&str; 6] = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"];
/// Statuses after which such a request is sent again.
pub(super) const RETRIED: [u16; 3] = [502, 503, 504];
/// Response fields of CORS: what an upstream says about origins is not what the gateway was told.
pub(super) const CORS_FIELDS: [&str; 7] = [
    "Access-Control-Allow-Origin",
    "Access-Control-Allow-Credentials",
    "Access-Control-Allow-Methods",
    "Access-Control-Allow-Headers",
    "Access-Control-Allow-Private-Network",
    "Access-Control-Expose-Headers",
    "Access-Control-Max-Age",
];
/// What programs written in Go do without being told.
pub(super) const GO_SENDS_AGAIN: &str = "a request without a body is sent once more, whatever --retries says, if a connection that was kept open ends before a response and the method is GET, HEAD, OPTIONS or TRACE or the request has Idempotency-Key or X-Idempotency-Key, also POST and PATCH: Go's HTTP client does this, and no setting turns it off";
/// Shortest key, in characters: shorter ones can be guessed, and Weir takes none.
const KEY_LENGTH: usize = 20;

/// Choices of the user; the default adds nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// Origins whose pages may use the API, as browsers send them; `*` is any.
    pub cors: Vec<String>,
    /// API keys, each with its consumer.
    pub keys: Option<Vec<(String, String)>>,
    /// JSON Web Tokens that are accepted.
    pub tokens: Option<Tokens>,
    /// Requests of one client; more are refused with 429.
    pub limit: Option<Rate>,
    /// How often a request is sent again; `None` leaves each gateway its default.
    pub retries: Option<u32>,
    /// Where Prometheus finds `/metrics`.
    pub metrics: Option<SocketAddr>,
}

/// A rate such as `100/s`: at most so many at once, and so many in each second or minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests.
    pub requests: u32,
    /// The time in which they come back, in seconds: 1 or 60.
    pub seconds: u32,
}

/// JSON Web Tokens (RFC 7519) that are accepted: signed by a key of the set, of this issuer, for this audience, and not expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// `iss`.
    pub issuer: String,
    /// `aud`.
    pub audience: String,
    /// The JSON Web Key Set (RFC 7517), on one line.
    pub key_set: String,
    /// Its keys for gateways that read PEM.
    pub keys: Vec<PublicKey>,
    /// Keys of the set that are for something else, or of kinds that not every gateway takes; they are left out.
    pub others: usize,
}

/// API keys as a gateway's writer needs them: of a profile, or of `--api-keys`.
pub(super) struct Keys {
    /// The field that carries the key.
    pub header: String,
    /// Each key with its consumer.
    pub credentials: Vec<(String, String)>,
}

impl From<&KeyAuth> for Keys {
    fn from(auth: &KeyAuth) -> Self {
        Keys { header: auth.header.clone(), credentials: auth.credentials().collect() }
    }
}

/// What a limit counts by.
pub(super) enum By<'a> {
    /// The value of a field.
    Header(&'a str),
    /// The consumer where the gateway has checked credentials, else the address.
    Consumer,
    /// The address.
    Address,
}

/// A limit as a gateway's writer needs it: of a profile, or of `--limit`.
pub(super) struct Limit<'a> {
    pub by: By<'a>,
    pub rate: Rate,
    /// Requests at once.
    pub burst: u32,
}

impl<'a> From<&'a RateLimit> for Limit<'a> {
    fn from(limit: &'a RateLimit) -> Self {
        let rate = Rate { requests: limit.rate, seconds: 1 };
        Limit { by: By::Header(&limit.header), rate, burst: limit.burst }
    }
}

/// What `--cors` says about every path.
pub(super) struct Cors<'a> {
    /// Origins; `*` is not among them.
    pub origins: &'a [String],
    /// Pages of every origin may use the API.
    pub any: bool,
    /// Request fields of the description, separated by commas.
    pub headers: String,
}

impl Model {
    /// What `--cors` says.
    pub(super) fn cors(&self) -> Option<Cors<'_>> {
        let origins = &self.settings.policies.cors;
        let plain = |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        let fields = self.routes.iter().flat_map(|route| &route.request_headers).map(String::as_str);
        // A page cannot set `Cookie`.
        let mut headers: Vec<&str> = fields.filter(plain).filter(|name| *name != "cookie").collect();
        headers.sort_unstable();
        headers.dedup();
        let any = origins.iter().any(|origin| origin == "*");
        let origins: &[String] = if any { &[] } else { origins };
        (any || !origins.is_empty()).then(|| Cors { origins, any, headers: headers.join(", ") })
    }

    /// The keys of `--api-keys`, with the field that the description has them in.
    pub(super) fn keys(&self) -> Option<Keys> {
        let credentials = self.settings.policies.keys.clone()?;
        Some(Keys { header: self.key_header.clone(), credentials })
    }

    /// The limit of `--limit`: by consumer, if the gateway checks credentials, which `checks` says.
    pub(super) fn limit(&self, checks: bool) -> Option<Limit<'_>> {
        let rate = self.settings.policies.limit?;
        let by = if checks { By::Consumer } else { By::Address };
        Some(Limit { by, rate, burst: rate.requests })
    }

    /// Whether there are credentials to check.
    pub(super) fn checks(&self) -> bool {
        self.settings.policies.keys.is_some() || self.settings.policies.tokens.is_some()
    }
}

impl Policies {
    /// What a gateway's adapter does not write of these, a sentence each.
    pub(super) fn not_written(&self, gateway: &dyn super::Gateway) -> Vec<String> {
        use crate::profile::Profile;
        const NOT_YET: Option<&str> = Some("its adapter does not write it");
        let name = gateway.name();
        let none = !["weir", "nginx", "haproxy", "envoy", "traefik", "caddy", "kong"].contains(&name);
        let profile = |profile: Profile| {
            if none { gateway.profile(&profile).err().or(NOT_YET) } else { gateway.profile(&profile).err() }
        };
        let here = if none { NOT_YET } else { None };
        let metrics = if name == "nginx" {
            Some(
                "nginx has no metrics for Prometheus; its stub_status is another format, which an exporter has to read",
            )
        } else {
            here
        };
        let all = [
            (!self.cors.is_empty(), "--cors", here),
            (self.keys.is_some(), "--api-keys", profile(Profile::KeyAuth(KeyAuth::default()))),
            (self.tokens.is_some(), "--jwks", profile(Profile::Jwt(Jwt::default()))),
            (self.limit.is_some(), "--limit", profile(Profile::RateLimit(RateLimit::default()))),
            (self.retries.is_some(), "--retries", here),
            (self.metrics.is_some(), "--metrics", metrics),
        ];
        all.iter()
            .filter(|(wanted, ..)| *wanted)
            .filter_map(|(_, option, why)| Some(format!("{option}: {}", (*why)?)))
            .collect()
    }

    /// What a gateway's configuration does for these, a sentence each, for its README.md.
    #[must_use]
    pub fn written(&self, gateway: &dyn super::Gateway) -> Vec<String> {
        let missing = self.not_written(gateway);
        let is = |option: &str| !missing.iter().any(|note| note.starts_with(&format!("{option}:")));
        let mut said = Vec::new();
        if !self.cors.is_empty() && is("--cors") {
            said.push(format!(
                "pages of {} may use the API without cookies; the gateway responds to CORS preflights, which need no credentials",
                if self.cors.iter().any(|origin| origin == "*") { "every origin".to_owned() } else { self.cors.join(", ") }
            ));
        }
        let upstream = format!("the upstream gets `{CONSUMER}` in place of the credentials");
        if let Some(keys) = self.keys.as_ref().filter(|_| is("--api-keys")) {
            let form = if gateway.name() == "weir" {
                "as SHA-256"
            } else {
                "in plain text: only the owner can read these files, who has to be the gateway's user"
            };
            said.push(format!(
                "operations that need an API key get 401 without one of those given ({}); {upstream}. The keys are here {form}",
                keys.len()
            ));
        }
        if let Some(tokens) = self.tokens.as_ref().filter(|_| is("--jwks")) {
            said.push(format!(
                "operations that need a bearer token get 401 without one of the issuer {} for the audience {}; {upstream}. The keys of the issuer are in these files: write them anew when the issuer has others",
                tokens.issuer, tokens.audience
            ));
        }
        if let Some(rate) = self.limit.filter(|_| is("--limit")) {
            let by = if is("--api-keys") && self.keys.is_some() {
                "consumer, or address where no credentials are checked,"
            } else {
                "address"
            };
            said.push(format!(
                "each client {by} may send {} requests {}; more get 429",
                rate.requests,
                if rate.seconds == 1 { "a second" } else { "a minute" }
            ));
        }
        match self.retries.filter(|_| is("--retries")) {
            Some(0) => said.push("the gateway is told to send no request again".to_owned()),
            Some(retries) => said.push(format!(
                "a request is sent again up to {retries} times after a failed connection, 502, 503 or 504, if its method is idempotent (GET, HEAD, OPTIONS, PUT, DELETE, TRACE)"
            )),
            None => {}
        }
        if let Some(address) = self.metrics.filter(|_| is("--metrics")) {
            said.push(format!("metrics for Prometheus: http://{address}/metrics"));
        }
        said
    }
}

impl Rate {
    /// `100/s` or `1000/min`.
    ///
    /// # Errors
    /// In words, what it should be.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "want requests per second or minute, 1/s to 100000/s, such as 100/s or 1000/min".to_owned();
        let (requests, unit) = text.split_once('/').ok_or_else(wrong)?;
        let seconds = match unit {
            "s" => 1,
            "min" => 60,
            _ => return Err(wrong()),
        };
        let digits = !requests.is_empty() && requests.bytes().all(|byte| byte.is_ascii_digit());
        let requests = requests.parse().ok().filter(|n| digits && (1..=100_000).contains(n)).ok_or_else(wrong)?;
        Ok(Rate { requests, seconds })
    }
}

/// An origin as browsers send it (RFC 6454, section 6.1), or `*`.
///
/// # Errors
/// In words, what is wrong with it.
pub fn origin(text: &str) -> Result<String, String> {
    if text == "*" {
        return Ok(text.to_owned());
    }
    if text == "null" {
        return Err("`null` is what sandboxed pages of every site send: allow * or named origins".to_owned());
    }
    let wrong = "want an origin as browsers send it, such as https://app.example.com or http://localhost:3000: lower case, without a path";
    let (scheme, host) = text.split_once("://").ok_or(wrong)?;
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let (name, port) = match host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
        Some((name, port)) => (name, Some(port)),
        None => (host, None),
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        (1..=63).contains(&label.len()) && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    let named = match address {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok_and(|parsed| parsed.to_string() == address),
        None => name.len() <= 253 && name.split('.').all(label),
    };
    if !scheme.starts_with(|c: char| c.is_ascii_lowercase())
        || !scheme.bytes().all(|byte| word(byte) || byte == b'+')
        || !named
    {
        return Err(wrong.to_owned());
    }
    match (scheme, port) {
        ("https", Some("443")) | ("http", Some("80")) => Err("browsers leave out the default port".to_owned()),
        (_, Some(port)) if port.starts_with('0') || port.parse::<u16>().is_err() => Err(wrong.to_owned()),
        _ => Ok(text.to_owned()),
    }
}

/// The keys of a file with a line `KEY CONSUMER` for each; lines that begin with `#` are comments.
///
/// # Errors
/// In words, with the number of the line. A key is never part of it.
pub fn keys(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut keys: Vec<(String, String)> = Vec::new();
    let mut seen = std::collections::HashMap::new();
    for (n, line) in text.lines().enumerate().map(|(i, line)| (i + 1, line.trim())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let [key, consumer] = words.as_slice() else { return Err(format!("line {n}: want KEY CONSUMER")) };
        // What means nothing in any gateway's configuration.
        let plain =
            |text: &str, more: &[u8]| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte));
        if key.len() < KEY_LENGTH || key.len() > 256 || !plain(key, b"-._/+=") || !plain(&key[..1], b"") {
            return Err(format!(
                "line {n}: a key has {KEY_LENGTH} to 256 letters, digits and -._/+=, and begins with a letter or digit; `openssl rand -hex 24` makes one"
            ));
        }
        if consumer.len() > 64 || !plain(consumer, b"-._") || !consumer.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(format!("line {n}: a consumer has up to 64 letters, digits and -._, and begins with a letter"));
        }
        // nginx compares keys of a map without regard to case.
        if let Some(other) = seen.insert(key.to_ascii_lowercase(), n) {
            return Err(format!("line {n}: the key of line {other} is the same, but perhaps for the case"));
        }
        keys.push(((*key).to_owned(), (*consumer).to_owned()));
    }
    if keys.is_empty() { Err("it has no key".to_owned()) } else { Ok(keys) }
}

impl Tokens {
    /// Tokens that a key of a JSON Web Key Set signs.
    ///
    /// # Errors
    /// In words, what is wrong with the set.
    pub fn new(key_set: &str, issuer: &str, audience: &str) -> Result<Self, String> {
        let (key_set, keys, others) = jwks::read(key_set)?;
        Ok(Tokens { issuer: issuer.to_owned(), audience: audience.to_owned(), key_set, keys, others })
    }
}

/// An issuer or audience: a URL or a word, of characters that mean nothing in any gateway's configuration.
///
/// # Errors
/// In words.
pub fn claim(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/@+".contains(&byte);
    match !text.is_empty() && text.bytes().all(plain) {
        true => Ok(text.to_owned()),
        false => {
            Err("want a URL or a word of letters, digits and -._~:/@+, such as https://id.example.com/".to_owned())
        }
    }
}
