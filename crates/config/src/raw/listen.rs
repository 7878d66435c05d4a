//! Listeners, and TLS on them.

use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::server::Tcp;
use super::shape::{OrNone, Spanned};
use super::units::Time;
use super::word::{WordOr, word_or};
use super::{BindText, FileMode, TlsVersion};

/// A public listener: where it takes connections, or a mapping that says more.
#[derive(Debug, Clone, PartialEq)]
pub struct Listen {
    /// Where it takes connections; port 0 takes a free port.
    pub bind: Spanned<BindText>,
    /// Permissions of a Unix socket.
    pub mode: Option<Spanned<FileMode>>,
    /// How HTTP/2 begins on connections in clear text.
    pub http2: ClearTextHttp2,
    /// TLS; without it the listener speaks clear text.
    pub tls: Option<Spanned<ListenerTls>>,
    /// Where its requests are sent instead of being served.
    pub redirect: Option<Spanned<RedirectTo>>,
    /// PROXY header that its connections begin with.
    pub proxy_protocol: Spanned<ReceivedProxyProtocol>,
    /// Options of its TCP connections.
    pub tcp: Tcp,
    /// Name that routes refer to with `match.listener`.
    pub name: Option<Spanned<String>>,
}

/// PROXY header that connections begin with; from `trusted_proxies` only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReceivedProxyProtocol {
    /// None.
    #[default]
    None,
    /// Version 1, a line of text.
    V1,
    /// Version 2, binary.
    V2,
    /// Version 1 or 2.
    Any,
}

/// How HTTP/2 begins on connections in clear text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClearTextHttp2 {
    /// Not at all: HTTP/1.1 only.
    #[default]
    None,
    /// A connection that begins with the preface of HTTP/2 speaks it; any other speaks HTTP/1.1.
    PriorKnowledge,
}

impl From<BindText> for Listen {
    fn from(bind: BindText) -> Self {
        Listen {
            bind: bind.into(),
            mode: None,
            http2: ClearTextHttp2::None,
            tls: None,
            redirect: None,
            proxy_protocol: Spanned::default(),
            tcp: Tcp::default(),
            name: None,
        }
    }
}

/// A listener as a mapping.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping with `bind`")]
struct ListenMapping {
    /// IP address and port, where port 0 takes a free port; `unix:` and the path of a Unix socket; or `fd:` and the name of a socket that systemd passes.
    bind: Spanned<BindText>,
    /// Permissions of a Unix socket's file, as for `chmod`: who may write to it may connect. Default: `0660`, its user and group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<Spanned<FileMode>>,
    /// How HTTP/2 begins on connections in clear text.
    #[serde(default)]
    http2: ClearTextHttp2,
    /// TLS: certificates, and what clients have to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tls: Option<Spanned<ListenerTls>>,
    /// `https`: every request gets a 308 to the same URL at the listener with `tls` that has its host; other hosts get 421.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    redirect: Option<Spanned<RedirectTo>>,
    /// PROXY header that every connection begins with, from a load balancer of `trusted_proxies` only: it says who the client is.
    #[serde(default)]
    proxy_protocol: Spanned<ReceivedProxyProtocol>,
    /// Options of its TCP connections.
    #[serde(default)]
    tcp: Tcp,
    /// Name that routes refer to with `match.listener`, to serve what comes by this listener only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<Spanned<String>>,
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if *self == Listen::from(self.bind.value.clone()) {
            return self.bind.serialize(serializer);
        }
        let Listen { bind, mode, http2, tls, redirect, proxy_protocol, tcp, name } = self.clone();
        ListenMapping { bind, mode, http2, tls, redirect, proxy_protocol, tcp, name }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(match word_or::<_, BindText, ListenMapping>(d, "an address or a mapping with `bind`")? {
            WordOr::Word(bind) => bind.into(),
            WordOr::More(ListenMapping { bind, mode, http2, tls, redirect, proxy_protocol, tcp, name }) => {
                Listen { bind, mode, http2, tls, redirect, proxy_protocol, tcp, name }
            }
        })
    }
}

impl JsonSchema for Listen {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Listen".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let address = generator.subschema_for::<BindText>();
        let mapping = generator.subschema_for::<ListenMapping>();
        json_schema!({"description": "A public listener.", "anyOf": [address, mapping]})
    }
}

/// Where a listener sends requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RedirectTo {
    /// To the same URL over TLS.
    Https,
}

/// TLS on a listener.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping with `certificates`")]
pub struct ListenerTls {
    /// Certificates with the hosts that they are used for.
    pub certificates: Spanned<Vec<Spanned<ListenerCertificate>>>,
    /// Whether clients show certificates, and whose.
    #[serde(default)]
    pub client_auth: OrNone<Spanned<ClientAuth>>,
    /// Oldest version of TLS that is spoken.
    #[serde(default)]
    pub min_version: TlsVersion,
    /// Tickets, with which clients that come again skip the costly part of the handshake.
    #[serde(default = "tickets")]
    pub tickets: OrNone<Tickets>,
}

/// One certificate of a listener.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping with `cert` and `key`")]
pub struct ListenerCertificate {
    /// File of the certificate and those that lead to its authority, in PEM form.
    pub cert: String,
    /// File of the private key, in PEM form.
    pub key: String,
    /// Hosts that it is used for; absent: all DNS names of the certificate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Spanned<String>>,
    /// Whether clients get it that name no host, or a host that has no certificate. Without a default they are refused.
    #[serde(default)]
    pub default: bool,
    /// In place of the listener's `client_auth`, for these hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_auth: Option<OrNone<Spanned<ClientAuth>>>,
    /// In place of the listener's `min_version`, for these hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_version: Option<TlsVersion>,
}

/// Certificates of clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping with `ca`, or `none`")]
pub struct ClientAuth {
    /// File of the authorities that issue them, in PEM form.
    pub ca: Spanned<String>,
    /// File of revocation lists, in PEM form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crl: Option<Spanned<String>>,
    /// Whether a client without a certificate is refused.
    #[serde(default)]
    pub mode: ClientAuthMode,
}

/// What happens to clients without a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuthMode {
    /// The handshake fails.
    #[default]
    Required,
    /// They are served.
    Optional,
}

/// Session tickets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping, or `none`")]
pub struct Tickets {
    /// Age at which the key of tickets is replaced; tickets of the key before are still accepted.
    pub rotate: Spanned<Time>,
    /// Tickets that a client is sent after a full handshake of TLS 1.3.
    pub count: Spanned<usize>,
}

impl Default for Tickets {
    fn default() -> Self {
        Tickets { rotate: Time(Duration::from_secs(6 * 60 * 60)).into(), count: 1.into() }
    }
}

fn tickets() -> OrNone<Tickets> {
    OrNone::Some(Tickets::default())
}
