//! The one model that every format is read into.

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value as Json};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// An API: what a gateway is configured from and a load generator aims at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Api {
    /// Title of the API; empty when the description gives none.
    pub title: String,
    /// Version of the API itself, as written; empty when the description gives none.
    pub version: String,
    /// Servers of the whole API, in order of preference; operations may name their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<Server>,
    /// Security schemes by the name that [`Operation::security`] uses.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub security_schemes: BTreeMap<String, SecurityScheme>,
    /// All operations, in the order of the description.
    pub operations: Vec<Operation>,
}

impl Api {
    /// The operation called `id`.
    #[must_use]
    pub fn operation(&self, id: &str) -> Option<&Operation> {
        self.operations.iter().find(|o| o.id == id)
    }

    /// The servers of `operation`: its own, or those of the API.
    #[must_use]
    pub fn servers_of<'a>(&'a self, operation: &'a Operation) -> &'a [Server] {
        if operation.servers.is_empty() { &self.servers } else { &operation.servers }
    }

    /// Names of the request headers that a gateway must let through for `operation`, lower case, sorted: its header
    /// parameters, `content-type` where there is a body, `cookie` where there are cookies, and what its security needs.
    #[must_use]
    pub fn request_headers(&self, operation: &Operation) -> Vec<String> {
        let mut names: Vec<String> = operation.header_params.keys().map(|name| name.to_ascii_lowercase()).collect();
        if operation.body.is_some() {
            names.push("content-type".to_owned());
        }
        if !operation.cookie_params.is_empty() {
            names.push("cookie".to_owned());
        }
        let schemes =
            operation.security.0.iter().flat_map(BTreeMap::keys).filter_map(|name| self.security_schemes.get(name));
        names.extend(schemes.filter_map(SecurityScheme::request_header).map(|name| name.to_ascii_lowercase()));
        names.sort();
        names.dedup();
        names
    }
}

/// A base URL, with its variables replaced by their defaults and without a slash at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// `http://host:port/prefix`, or only `/prefix` when the description's server is relative, or empty for the root.
    pub url: String,
    /// The description's own words for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

impl Server {
    /// A server without description; slashes at the end of `url` are dropped.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self { url: url.trim_end_matches('/').to_owned(), description: None }
    }

    /// `http://host:port` of an absolute URL.
    #[must_use]
    pub fn origin(&self) -> Option<&str> {
        split_origin(&self.url).0
    }

    /// The path prefix, without a slash at the end: empty, or `/v1`.
    #[must_use]
    pub fn prefix(&self) -> &str {
        split_origin(&self.url).1
    }
}

/// `https://host/v1` is `https://host` and `/v1`.
fn split_origin(url: &str) -> (Option<&str>, &str) {
    match url.find("://") {
        None => (None, url),
        Some(scheme) => match url[scheme + 3..].find('/') {
            None => (Some(url), ""),
            Some(slash) => (Some(&url[..scheme + 3 + slash]), &url[scheme + 3 + slash..]),
        },
    }
}

/// One method on one path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// Unique in the API: the description's own identifier, or made from method and path (`get_active_auctionID`).
    pub id: String,
    /// The method.
    pub method: Method,
    /// URL of the first server of this operation (see [`Server::url`]); a request goes to
    /// `base_path` + `endpoint_path`.
    pub base_path: String,
    /// Path template below `base_path`, such as `/active/{auctionID}`: starts with a slash, every `{name}` is in `path_params`.
    pub endpoint_path: String,
    /// Servers of this operation alone; empty when those of the API apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<Server>,
    /// Parameters in the path: exactly the names of the template.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub path_params: BTreeMap<String, Parameter>,
    /// Parameters in the query string.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub query_params: BTreeMap<String, Parameter>,
    /// Request headers, by the name as written.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub header_params: BTreeMap<String, Parameter>,
    /// Cookies.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cookie_params: BTreeMap<String, Parameter>,
    /// The request body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    /// Who may call this.
    #[serde(default)]
    pub security: Security,
}

impl Operation {
    /// `http://host:port` of [`Operation::base_path`], when it is absolute.
    #[must_use]
    pub fn origin(&self) -> Option<&str> {
        split_origin(&self.base_path).0
    }

    /// The whole path template that a client requests on its origin: prefix of the server, then `endpoint_path`.
    #[must_use]
    pub fn full_path(&self) -> String {
        format!("{}{}", split_origin(&self.base_path).1, self.endpoint_path)
    }
}

/// Request methods (RFC 9110, section 9, and RFC 5789). `CONNECT` is not an operation on a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs)]
pub enum Method {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
    Trace,
}

impl Method {
    /// All methods.
    pub const ALL: [Method; 8] = [
        Method::Get,
        Method::Head,
        Method::Post,
        Method::Put,
        Method::Patch,
        Method::Delete,
        Method::Options,
        Method::Trace,
    ];

    /// The method as it is in a request.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
            Method::Trace => "TRACE",
        }
    }

    /// The method as keys of OpenAPI and RAML have it.
    #[must_use]
    pub fn lower(self) -> &'static str {
        match self {
            Method::Get => "get",
            Method::Head => "head",
            Method::Post => "post",
            Method::Put => "put",
            Method::Patch => "patch",
            Method::Delete => "delete",
            Method::Options => "options",
            Method::Trace => "trace",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Method {
    type Err = String;
    /// Upper or lower case, as descriptions write either.
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Method::ALL.into_iter().find(|m| m.as_str().eq_ignore_ascii_case(text));
        found.ok_or_else(|| {
            format!(
                "'{}' is not a method that is read (GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE)",
                crate::tree::parse::short(text)
            )
        })
    }
}

impl<'de> Deserialize<'de> for Method {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The type of a parameter or body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Type {
    String,
    Integer,
    Number,
    Boolean,
    Array,
    Object,
    /// Raw bytes: an uploaded file.
    File,
    /// The description does not say.
    #[default]
    Any,
}

impl Type {
    /// The name as JSON Schema has it; `None` for [`Type::File`] and [`Type::Any`].
    #[must_use]
    pub fn json_schema(self) -> Option<&'static str> {
        match self {
            Type::String => Some("string"),
            Type::Integer => Some("integer"),
            Type::Number => Some("number"),
            Type::Boolean => Some("boolean"),
            Type::Array => Some("array"),
            Type::Object => Some("object"),
            Type::File | Type::Any => None,
        }
    }
}

/// How a list is written where only text fits: path, query, header, form field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListFormat {
    /// `a=1&a=2`.
    #[default]
    Multi,
    /// `1,2`.
    Csv,
    /// `1 2`.
    Ssv,
    /// `1|2`.
    Pipes,
}

/// A parameter, or a field of a body.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Type,
    /// Format as written, such as `int64`, `date-time`, `uuid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Whether a request without it is wrong. Path parameters always are required.
    #[serde(default)]
    pub required: bool,
    /// An example that the description gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<Json>,
    /// What the server takes when it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Json>,
    /// The values allowed; empty when there is no such list.
    #[serde(default, rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Json>,
    /// Least value, inclusive. A bound that excludes itself is moved by one for integers and kept as it is for other numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Number>,
    /// Largest value, inclusive, as for `min`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Number>,
    /// Least length in characters, or number of items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_length: Option<u64>,
    /// Largest length in characters, or number of items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u64>,
    /// Regular expression, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Type of the items of an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Type>,
    /// How an array is written; `None` for what is no array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<ListFormat>,
    /// Whether the value of a path parameter may hold slashes (`x-multi-segment: true`, as GitHub's description has it).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub multi_segment: bool,
}

impl Parameter {
    /// A parameter of a type with nothing else said.
    #[must_use]
    pub fn of(kind: Type) -> Self {
        Self { kind, ..Self::default() }
    }
}

/// A request body.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Body {
    /// The media type to send. Of several, JSON is preferred, then a form, then the first.
    pub media_type: String,
    /// The other media types that the description allows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_media_types: Vec<String>,
    /// Whether a request without body is wrong.
    #[serde(default)]
    pub required: bool,
    /// Type of the whole.
    #[serde(rename = "type")]
    pub kind: Type,
    /// The fields of an object.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, Parameter>,
    /// An instance to send: JSON for JSON and forms, text for other media types; `None` where none can be made, such as an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<Json>,
    /// `true` when the example was made from the schema and not given by the description.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub generated: bool,
}

/// Who may call an operation: alternatives, of which any one is enough; each names schemes that are needed together, with
/// the scopes needed of each. No alternatives is `NONE`: everyone. An alternative that is empty allows anonymous calls too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security(pub Vec<Requirement>);

/// Names of schemes that are needed together, with scopes.
pub type Requirement = BTreeMap<String, Vec<String>>;

impl Security {
    /// Everyone may call.
    pub const NONE: Security = Security(Vec::new());

    /// One scheme without scopes.
    #[must_use]
    pub fn scheme(name: &str) -> Self {
        Security(vec![Requirement::from([(name.to_owned(), Vec::new())])])
    }

    /// Whether nothing at all is required.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a call without credentials is refused.
    #[must_use]
    pub fn is_required(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|alternative| !alternative.is_empty())
    }

    /// `[{}]` requests nothing, as `NONE` does.
    pub(crate) fn normalised(mut self) -> Self {
        if self.0.iter().all(BTreeMap::is_empty) {
            self.0.clear();
        }
        self
    }
}

impl Serialize for Security {
    /// `NONE`, or the alternatives.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_empty() { serializer.serialize_str("NONE") } else { self.0.serialize(serializer) }
    }
}

impl<'de> Deserialize<'de> for Security {
    /// `NONE` in any case or null, one scheme's name, or the alternatives.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "security is NONE, the name of a scheme, or a list such as [{scheme: [scope]}]")]
        enum Form {
            Nothing(()),
            Name(String),
            One(Requirement),
            Alternatives(Vec<Requirement>),
        }
        Ok(match Form::deserialize(deserializer)? {
            Form::Nothing(()) => Security::NONE,
            Form::Name(name) if name.eq_ignore_ascii_case("none") || name.is_empty() => Security::NONE,
            Form::Name(name) => Security::scheme(&name),
            Form::One(one) => Security(vec![one]).normalised(),
            Form::Alternatives(all) => Security(all).normalised(),
        })
    }
}

/// How a client proves who it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "snake_case", deny_unknown_fields)]
pub enum SecurityScheme {
    /// A scheme of the `Authorization` header (RFC 9110, section 11).
    Http {
        /// Lower case: `bearer`, `basic`, `digest`, …
        scheme: String,
        /// A hint at the token's form, such as `JWT`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bearer_format: Option<String>,
    },
    /// A key in a header, in the query or in a cookie.
    ApiKey {
        /// Where it stands.
        #[serde(rename = "in")]
        location: KeyLocation,
        /// Name of the header, parameter or cookie.
        name: String,
    },
    /// OAuth 2 (RFC 6749); the token is sent as a bearer token.
    Oauth2 {
        /// The ways to get a token.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        flows: Vec<OauthFlow>,
    },
    /// OpenID Connect discovery; the token is sent as a bearer token.
    OpenIdConnect {
        /// URL of the discovery document.
        url: String,
    },
    /// A client certificate.
    MutualTls {},
}

impl SecurityScheme {
    /// Bearer token of no particular form.
    #[must_use]
    pub fn bearer() -> Self {
        SecurityScheme::Http { scheme: "bearer".to_owned(), bearer_format: None }
    }

    /// User name and password (RFC 7617).
    #[must_use]
    pub fn basic() -> Self {
        SecurityScheme::Http { scheme: "basic".to_owned(), bearer_format: None }
    }

    /// The request header that carries the credentials, which a gateway must let through; `None` when it is not a header.
    #[must_use]
    pub fn request_header(&self) -> Option<&str> {
        match self {
            SecurityScheme::Http { .. } | SecurityScheme::Oauth2 { .. } | SecurityScheme::OpenIdConnect { .. } => {
                Some("Authorization")
            }
            SecurityScheme::ApiKey { location: KeyLocation::Header, name } => Some(name),
            SecurityScheme::ApiKey { location: KeyLocation::Cookie, .. } => Some("Cookie"),
            SecurityScheme::ApiKey { location: KeyLocation::Query, .. } | SecurityScheme::MutualTls {} => None,
        }
    }
}

/// Where an API key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum KeyLocation {
    Header,
    Query,
    Cookie,
}

/// One way to get an OAuth 2 token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OauthFlow {
    /// Which grant.
    pub grant: Grant,
    /// Where the user consents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorization_url: Option<String>,
    /// Where the token is got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_url: Option<String>,
    /// Names of the scopes that exist, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}

/// Grants of OAuth 2 (RFC 6749, section 1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub enum Grant {
    AuthorizationCode,
    ClientCredentials,
    Implicit,
    Password,
}

impl Grant {
    /// All grants, with their names in OpenAPI 3, Swagger 2 and RAML 1.0.
    pub(crate) const NAMES: [(Grant, &'static str, &'static str, &'static str); 4] = [
        (Grant::AuthorizationCode, "authorizationCode", "accessCode", "authorization_code"),
        (Grant::ClientCredentials, "clientCredentials", "application", "client_credentials"),
        (Grant::Implicit, "implicit", "implicit", "implicit"),
        (Grant::Password, "password", "password", "password"),
    ];

    /// Names in OpenAPI 3, Swagger 2 and RAML 1.0.
    pub(crate) fn names(self) -> (&'static str, &'static str, &'static str) {
        let (_, openapi, swagger, raml) = Grant::NAMES[self as usize];
        (openapi, swagger, raml)
    }
}
