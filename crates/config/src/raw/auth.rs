//! Authentication: who sends a request, and what they may do.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::authorizer::{ExtAuthz, ForwardAuth};
use super::key_store::KeyStore;
use super::mtls::Mtls;
use super::shape::{Map, OneOrMany, OrNone, Spanned};
use super::text::{FieldName, FieldValue, Network, is_token, text_type};
use super::units::Time;
use super::word::{WordOr, word_or};
use crate::{CredentialPlace, IdentitySource};

/// One way to authenticate: exactly one of `api_key`, `jwt`, `basic`, `mtls`, `forward` and `ext_authz`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "an authenticator: a mapping with `api_key`, `jwt`, `basic`, `mtls`, `forward` or `ext_authz`"
)]
pub struct Authenticator {
    /// Keys that `weir keys create` makes, or imported ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Spanned<ApiKey>>,
    /// JSON Web Tokens of an issuer (RFC 7519).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt: Option<Spanned<Jwt>>,
    /// Names and passwords (RFC 7617).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basic: Option<Spanned<Basic>>,
    /// Certificates that clients show in the TLS handshake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtls: Option<Spanned<Mtls>>,
    /// A service that decides about each request, as with Traefik's ForwardAuth and nginx' `auth_request`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward: Option<Spanned<ForwardAuth>>,
    /// A service with Envoy's `ext_authz` interface, over gRPC or HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ext_authz: Option<Spanned<ExtAuthz>>,
}

impl Authenticator {
    /// Names of the request fields that it writes for upstreams.
    pub(crate) fn written_fields(&self) -> Vec<&str> {
        fn names<T>(map: &Map<T>) -> impl Iterator<Item = &str> {
            map.iter().map(|(name, _)| name.as_str())
        }
        let keys = self.api_key.iter().flat_map(|one| names(&one.headers));
        let tokens = self.jwt.iter().flat_map(|one| names(&one.headers));
        let passwords = self.basic.iter().flat_map(|one| names(&one.headers));
        let certificates = self.mtls.iter().flat_map(|one| names(&one.headers).chain(one.forward.field()));
        let forward = self.forward.iter().flat_map(|one| one.copy.iter().map(|name| name.0.as_str()));
        let ext_authz = self.ext_authz.iter().flat_map(|one| one.copy.iter().map(|name| name.0.as_str()));
        keys.chain(tokens).chain(passwords).chain(certificates).chain(forward).chain(ext_authz).collect()
    }
}

/// API keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping with `store`")]
pub struct ApiKey {
    /// Where a request carries its key: `header:NAME` or `bearer`.
    #[serde(rename = "in", default = "key_places")]
    pub places: OneOrMany<Spanned<CredentialPlaceText>>,
    /// Where keys are listed.
    pub store: Spanned<KeyStore>,
    /// Request fields that are written from `consumer`, `tier` and `meta.NAME`; a client's own are removed on every route.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub headers: Map<IdentityPart>,
    /// Key of the HMAC of imported keys under 20 characters (`weak: true`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pepper: Option<Spanned<FieldValue>>,
    /// Whether the upstream sees the key.
    #[serde(default)]
    pub forward: ForwardCredential,
}

fn key_places() -> OneOrMany<Spanned<CredentialPlaceText>> {
    let header = CredentialPlace::Header("x-api-key".into());
    OneOrMany([header, CredentialPlace::Bearer].map(|place| CredentialPlaceText(place).into()).into())
}

/// JSON Web Tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping with `issuer` and `jwks` or `secret`")]
pub struct Jwt {
    /// `iss` of the tokens, compared exactly.
    pub issuer: Spanned<String>,
    /// One of these has to be in `aud`; `any` accepts tokens for every audience.
    pub audience: OneOrMany<Spanned<String>>,
    /// Public keys of the issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks: Option<Spanned<Jwks>>,
    /// Secret that the issuer shares, for HS256, HS384 and HS512.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Spanned<FieldValue>>,
    /// Algorithms that are accepted; RS256 and ES256 if nothing is said, HS256 with `secret`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub algorithms: Vec<Spanned<String>>,
    /// Accepted difference of clocks.
    #[serde(default = "skew")]
    pub skew: Time,
    /// Accepted `typ` of the header.
    #[serde(default = "token_types")]
    pub typ: Vec<String>,
    /// Request fields that are written from claims, each by its path; a client's own are removed on every route.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub headers: Map<String>,
    /// Claim that names the consumer.
    #[serde(default = "subject")]
    pub consumer: OrNone<String>,
    /// Claim that names the tier.
    #[serde(default)]
    pub tier: OrNone<String>,
    /// Whether the upstream sees the token.
    #[serde(default)]
    pub forward: ForwardCredential,
}

fn skew() -> Time {
    Time(Duration::from_secs(30))
}

fn token_types() -> Vec<String> {
    ["JWT", "at+jwt"].map(Into::into).into()
}

fn subject() -> OrNone<String> {
    OrNone::Some("sub".to_owned())
}

/// Public keys of an issuer, in a file or at a URL.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping with `file` or `url`")]
pub struct Jwks {
    /// File with a JSON Web Key Set (RFC 7517); read again when it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// URL of the set, `https://` or on this machine; `discover` takes the one that the issuer's description names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// File of the authorities that the issuer's certificate is verified by; the system's if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roots: Option<String>,
}

/// Names and passwords.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping with `file`")]
pub struct Basic {
    /// `htpasswd` file with bcrypt or Argon2id hashes; read again when it changes.
    pub file: Spanned<String>,
    /// Request fields that are written from `consumer`, the user's name; a client's own are removed on every route.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub headers: Map<IdentityPart>,
    /// Name that browsers show.
    #[serde(default = "realm")]
    pub realm: FieldValue,
    /// Whether the upstream sees name and password.
    #[serde(default)]
    pub forward: ForwardCredential,
}

fn realm() -> FieldValue {
    FieldValue("weir".to_owned())
}

/// Whether the upstream sees a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForwardCredential {
    /// It is removed.
    #[default]
    None,
    /// It stays as the client sent it.
    Token,
}

/// Where a request carries its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialPlaceText(pub CredentialPlace);

text_type!(
    CredentialPlaceText,
    "CredentialPlace",
    r"^(bearer|header:\S+)$",
    "where a key is: `header:NAME` or `bearer`"
);

impl FromStr for CredentialPlaceText {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let place = match (text, text.split_once(':')) {
            ("bearer", _) => CredentialPlace::Bearer,
            (_, Some(("header", name))) if is_token(name) => CredentialPlace::Header(name.to_ascii_lowercase().into()),
            (_, Some(("query", _))) => {
                return Err("keys in a query end up in logs and browser histories; Weir does not take them from there"
                    .to_owned());
            }
            _ => return Err(format!("expected `header:NAME` or `bearer`, found `{text}`")),
        };
        Ok(CredentialPlaceText(place))
    }
}

impl fmt::Display for CredentialPlaceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            CredentialPlace::Header(name) => write!(f, "header:{name}"),
            CredentialPlace::Bearer => f.write_str("bearer"),
        }
    }
}

/// A part of an identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityPart(pub IdentitySource);

text_type!(
    IdentityPart,
    "IdentityPart",
    r"^(consumer|tier|meta\.\S+)$",
    "a part of an identity: `consumer`, `tier` or `meta.NAME`"
);

impl FromStr for IdentityPart {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(IdentityPart(match (text, text.split_once('.')) {
            ("consumer", _) => IdentitySource::Consumer,
            ("tier", _) => IdentitySource::Tier,
            (_, Some(("meta", name))) if !name.is_empty() => IdentitySource::Meta(name.into()),
            _ => return Err(format!("expected `consumer`, `tier` or `meta.NAME`, found `{text}`")),
        }))
    }
}

impl fmt::Display for IdentityPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            IdentitySource::Consumer => f.write_str("consumer"),
            IdentitySource::Tier => f.write_str("tier"),
            IdentitySource::Meta(name) => write!(f, "meta.{name}"),
            IdentitySource::Claim(path) => f.write_str(path),
        }
    }
}

/// Authenticators of a route: any of the list; an inner list needs all of its members.
pub type RouteAuth = OrNone<OneOrMany<OneOrMany<Spanned<String>>>>;

/// Rules on who may send requests; every part that is given has to hold.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a mapping of `scopes`, `claims`, `consumers`, `tiers`, `ips` and `not_ips`"
)]
pub struct Allow {
    /// All of these scopes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<Spanned<FieldValue>>,
    /// For each claim, by its path, one of these values.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub claims: Map<OneOrMany<ClaimValue>>,
    /// One of these consumers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumers: Option<Spanned<OneOrMany<String>>>,
    /// One of these tiers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiers: Option<Spanned<OneOrMany<String>>>,
    /// One of these networks; checked before authentication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ips: Option<OneOrMany<Network>>,
    /// None of these networks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_ips: Vec<Network>,
}

/// A text, number or boolean that a claim is compared with.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimValue(pub serde_json::Value);

impl Serialize for ClaimValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

struct Scalar(serde_json::Value);

impl FromStr for Scalar {
    type Err = String;
    /// YAML's words for numbers and booleans are those; anything else is text.
    fn from_str(text: &str) -> Result<Self, String> {
        let value =
            serde_json::from_str(text).ok().filter(|value: &serde_json::Value| value.is_number() || value.is_boolean());
        Ok(Scalar(value.unwrap_or_else(|| text.into())))
    }
}

impl<'de> Deserialize<'de> for ClaimValue {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match word_or::<_, Scalar, serde::de::IgnoredAny>(d, "a text, a number or a boolean")? {
            WordOr::Word(Scalar(value)) => Ok(ClaimValue(value)),
            WordOr::More(_) => Err(serde::de::Error::custom("expected a text, a number or a boolean")),
        }
    }
}

impl JsonSchema for ClaimValue {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "ClaimValue".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["string", "number", "boolean"]})
    }
}

/// Names of fields are checked where they are resolved.
pub(crate) fn field_name(text: &str) -> Result<(), String> {
    text.parse::<FieldName>().map(drop)
}
