//! Authentication.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use auth::allow::Allow;
use auth::api_key::Store;
use auth::basic::Htpasswd;
use auth::certificate;
use auth::jwks::KeySet;
use auth::jwt::{SecretKeys, Verifier};
use http::Uri;
use ipnet::IpNet;

use super::Authorizer;

/// Index of an authenticator in [`Config::auth`](super::Config::auth).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AuthId(pub usize);

/// One way to authenticate.
#[derive(Debug, Clone, PartialEq)]
pub struct Authenticator {
    /// Name in the file.
    pub name: Arc<str>,
    /// How.
    pub method: AuthMethod,
    /// Whether the upstream sees the credential.
    pub forwards: bool,
    /// Request fields that are written for the upstream. They are removed from what clients send, on every route.
    pub headers: Vec<(Arc<str>, IdentitySource)>,
}

/// Where the value of a field comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentitySource {
    /// The consumer's name.
    Consumer,
    /// The consumer's tier.
    Tier,
    /// A name of the key's `meta`.
    Meta(Arc<str>),
    /// A claim, by its path.
    Claim(Arc<str>),
}

/// How an authenticator works.
#[derive(Debug, Clone, PartialEq)]
pub enum AuthMethod {
    /// Keys of a store.
    ApiKey(ApiKeys),
    /// Tokens of an issuer.
    Jwt(Box<Jwt>),
    /// Names and passwords of a file.
    Basic(Basic),
    /// Certificates that clients show in the TLS handshake.
    Mtls(Mtls),
    /// A service is called.
    Authorizer(Box<Authorizer>),
}

/// Keys of a store.
#[derive(Clone)]
pub struct ApiKeys {
    /// Where requests carry keys; the first that is there counts.
    pub places: Vec<CredentialPlace>,
    /// Where they are listed.
    pub store: KeyStore,
    /// Key of weak keys' HMAC: never print it.
    pub pepper: Option<Arc<str>>,
}

/// Where keys are listed.
#[derive(Clone)]
pub enum KeyStore {
    /// A file, and what it held when the configuration was read.
    File(PathBuf, Arc<Store>),
    /// An environment variable, and what it held when the configuration was read.
    Variable(Arc<str>, Arc<Store>),
    /// The Redis of the configuration.
    Redis(RedisKeys),
}

/// Keys in the Redis of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedisKeys {
    /// How long a key that was looked up before may be used while Redis does not respond.
    pub stale: Duration,
}

/// Where a request carries a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialPlace {
    /// A field of this name, in lower case.
    Header(Arc<str>),
    /// `Authorization: Bearer`.
    Bearer,
}

/// Tokens of an issuer.
#[derive(Clone)]
pub struct Jwt {
    /// Algorithms and claims that are expected.
    pub verifier: Verifier,
    /// Keys.
    pub keys: TokenKeys,
}

/// Keys that verify tokens.
#[derive(Clone)]
pub enum TokenKeys {
    /// A key set in a file, and what it held when the configuration was read.
    File(PathBuf, Arc<KeySet>),
    /// A key set that the issuer publishes.
    Issuer(IssuerKeys),
    /// A shared secret, and its digest for comparison: never print it.
    Secret(Arc<SecretKeys>, [u8; 32]),
}

/// Where an issuer publishes its keys.
#[derive(Clone)]
pub struct IssuerKeys {
    /// URL of the set; `None`: the one that the issuer's description names.
    pub url: Option<Arc<str>>,
    /// File of the authorities that the issuer's certificate is verified by; `None`: the system's.
    pub roots: Option<PathBuf>,
    /// TLS towards it.
    pub tls: Arc<tls::client::Options>,
}

impl IssuerKeys {
    /// Keys decide who may do what, so nobody on the way may change them: `https`, or `http` to this machine.
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub fn check_url(url: &str) -> Result<(), String> {
        let uri: Uri = url.parse().map_err(|_| format!("`{url}` is not a URL"))?;
        let host = uri.host().ok_or_else(|| format!("`{url}` has no host"))?;
        let bare = host.trim_matches(['[', ']']);
        let is_local = bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        match uri.scheme_str() {
            Some("https") => Ok(()),
            Some("http") if is_local => Ok(()),
            _ => Err(format!("`{url}`: expected `https://`, or `http://` to this machine")),
        }
    }
}

/// Names and passwords of a file.
#[derive(Clone)]
pub struct Basic {
    /// The file.
    pub file: PathBuf,
    /// Realm of the challenge.
    pub realm: Arc<str>,
    /// What the file held when the configuration was read.
    pub users: Arc<Htpasswd>,
}

/// Certificates that clients show in the TLS handshake, which verified them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mtls {
    /// Names that can be the consumer's; the first that a certificate has counts.
    pub names: Vec<certificate::Name>,
    /// Files of the authorities whose certificates count, as `client_auth` of listeners names them.
    pub authorities: Vec<Arc<str>>,
    /// How the upstream learns of the certificate.
    pub forwarded_as: Option<CertificateField>,
}

/// A request field that tells an upstream of the client's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateField {
    /// `Client-Cert` (RFC 9440).
    ClientCert,
    /// `X-Forwarded-Client-Cert`, in Envoy's form.
    Xfcc,
}

/// What files hold is not part of the configuration: they are followed by themselves.
impl PartialEq for ApiKeys {
    fn eq(&self, other: &Self) -> bool {
        (&self.places, &self.store, &self.pepper) == (&other.places, &other.store, &other.pepper)
    }
}

impl PartialEq for KeyStore {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (KeyStore::File(one, _), KeyStore::File(another, _)) => one == another,
            (KeyStore::Variable(one, _), KeyStore::Variable(another, _)) => one == another,
            (KeyStore::Redis(one), KeyStore::Redis(another)) => one == another,
            _ => false,
        }
    }
}

impl PartialEq for Jwt {
    fn eq(&self, other: &Self) -> bool {
        let keys = match (&self.keys, &other.keys) {
            (TokenKeys::File(one, _), TokenKeys::File(another, _)) => one == another,
            (TokenKeys::Issuer(one), TokenKeys::Issuer(another)) => {
                (&one.url, &one.roots, one.tls.digest()) == (&another.url, &another.roots, another.tls.digest())
            }
            (TokenKeys::Secret(_, one), TokenKeys::Secret(_, another)) => one == another,
            _ => false,
        };
        keys && self.verifier == other.verifier
    }
}

impl PartialEq for Basic {
    fn eq(&self, other: &Self) -> bool {
        (&self.file, &self.realm) == (&other.file, &other.realm)
    }
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKeys").field("places", &self.places).field("store", &self.store).finish_non_exhaustive()
    }
}

impl fmt::Debug for KeyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyStore::File(path, _) => f.debug_tuple("File").field(path).finish_non_exhaustive(),
            KeyStore::Variable(name, _) => f.debug_tuple("Variable").field(name).finish_non_exhaustive(),
            KeyStore::Redis(redis) => redis.fmt(f),
        }
    }
}

impl fmt::Debug for Jwt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jwt").field("verifier", &self.verifier).finish_non_exhaustive()
    }
}

impl fmt::Debug for Basic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Basic").field("file", &self.file).field("realm", &self.realm).finish_non_exhaustive()
    }
}

/// What a route demands of who sends a request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RouteAuth {
    /// Any of these; each needs all of its authenticators. Empty: nobody is called who they are.
    pub alternatives: Vec<Vec<AuthId>>,
    /// Bearer tokens are API keys or JSON Web Tokens, by their form.
    pub separates_bearers: bool,
}

impl RouteAuth {
    /// Whether everyone may send requests.
    pub fn is_open(&self) -> bool {
        self.alternatives.is_empty()
    }
}

/// Rules on addresses and identities, with the networks as they were written, for comparison.
#[derive(Debug, Clone, Default)]
pub struct RouteAllow {
    /// The rules.
    pub rules: Allow,
    /// `ips` as written.
    pub ips: Option<Vec<IpNet>>,
    /// `not_ips` as written.
    pub not_ips: Vec<IpNet>,
}

impl RouteAllow {
    /// Whether addresses are restricted.
    pub fn has_addresses(&self) -> bool {
        self.ips.is_some() || !self.not_ips.is_empty()
    }
}

impl PartialEq for RouteAllow {
    fn eq(&self, other: &Self) -> bool {
        self.ips == other.ips
            && self.not_ips == other.not_ips
            && self.rules.scopes == other.rules.scopes
            && self.rules.claims == other.rules.claims
            && self.rules.consumers == other.rules.consumers
            && self.rules.tiers == other.rules.tiers
    }
}

#[cfg(test)]
mod tests {
    use super::IssuerKeys;

    #[test]
    fn keys_come_over_tls_or_from_this_machine() {
        for good in ["https://id.example.com/keys", "http://127.0.0.1:80/k", "http://[::1]/k", "http://localhost:9/k"] {
            assert_eq!(IssuerKeys::check_url(good), Ok(()));
        }
        for bad in [
            "http://id.example.com/keys",
            "http://127.0.0.1.example.com/",
            "ftp://127.0.0.1/",
            "keys.json",
            "",
            "http:///k",
            "http://10.0.0.1/",
        ] {
            assert!(IssuerKeys::check_url(bad).is_err(), "{bad}");
        }
    }
}
