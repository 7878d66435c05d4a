//! Certificates that clients show in the TLS handshake.

use std::fmt;
use std::str::FromStr;

use auth::certificate::Name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shape::{Map, OneOrMany, Spanned};
use super::text::text_type;
use crate::IdentitySource;

/// Client certificates. A listener has to demand them, by `tls.client_auth`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping with `identity`, `ca`, `headers` and `forward`")]
pub struct Mtls {
    /// Names that can be the consumer's, the first that a certificate has counts: `uri`, `dns` and `email` of the subject alternative name,
    /// `common_name`, `subject`, `fingerprint`.
    pub identity: OneOrMany<Spanned<CertificateNameText>>,
    /// Files of the authorities whose certificates count, as `client_auth.ca` of listeners names them; needed where those name several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<OneOrMany<Spanned<String>>>,
    /// Request fields that are written from parts of the certificate; a client's own are removed on every route.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub headers: Map<CertificatePart>,
    /// How the upstream learns of the certificate.
    pub forward: ForwardCertificate,
}

impl Default for Mtls {
    fn default() -> Self {
        let names = [Name::Uri, Name::Dns, Name::Subject].map(|name| CertificateNameText(name).into());
        Mtls {
            identity: OneOrMany(names.into()),
            ca: None,
            headers: Map::default(),
            forward: ForwardCertificate::default(),
        }
    }
}

/// How the upstream learns of a client's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForwardCertificate {
    /// It does not.
    #[default]
    None,
    /// By `Client-Cert`, the whole certificate (RFC 9440).
    Rfc9440,
    /// By `X-Forwarded-Client-Cert`: fingerprint and names, in Envoy's form.
    Xfcc,
}

impl ForwardCertificate {
    /// The field that it writes.
    pub(super) fn field(self) -> Option<&'static str> {
        match self {
            ForwardCertificate::None => None,
            ForwardCertificate::Rfc9440 => Some("Client-Cert"),
            ForwardCertificate::Xfcc => Some("X-Forwarded-Client-Cert"),
        }
    }
}

/// A name of a certificate that can be the consumer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CertificateNameText(pub Name);

text_type!(
    CertificateNameText,
    "CertificateName",
    r"^(uri|dns|email|common_name|subject|fingerprint)$",
    "a name of a certificate: `uri`, `dns`, `email`, `common_name`, `subject` or `fingerprint`"
);

impl FromStr for CertificateNameText {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Name::ALL.into_iter().find(|name| name.name() == text).map(CertificateNameText).ok_or_else(|| {
            let names = Name::ALL.map(|name| format!("`{}`", name.name()));
            format!("expected one of {}, found `{text}`", names.join(", "))
        })
    }
}

impl fmt::Display for CertificateNameText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

/// A part of a certificate as a field has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificatePart(pub IdentitySource);

text_type!(
    CertificatePart,
    "CertificatePart",
    r"^(consumer|uri|dns|email|common_name|subject|fingerprint|issuer|serial)$",
    "a part of a certificate: `consumer`, a name such as `uri`, `issuer` or `serial`"
);

impl FromStr for CertificatePart {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = Name::ALL.iter().any(|name| name.name() == text);
        match text {
            "consumer" => Ok(CertificatePart(IdentitySource::Consumer)),
            _ if is_name || matches!(text, "issuer" | "serial") => {
                Ok(CertificatePart(IdentitySource::Claim(text.into())))
            }
            _ => {
                let names = Name::ALL.map(|name| format!("`{}`", name.name()));
                Err(format!("expected `consumer`, `issuer`, `serial` or one of {}, found `{text}`", names.join(", ")))
            }
        }
    }
}

impl fmt::Display for CertificatePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            IdentitySource::Claim(name) => f.write_str(name),
            _ => f.write_str("consumer"),
        }
    }
}
