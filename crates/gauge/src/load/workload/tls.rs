//! TLS of a workload, as it is written in files.

use std::path::PathBuf;
use std::str::FromStr;

use super::{Deserialize, Deserializer, Serialize, Serializer, Text, de};

/// TLS of `https` URLs. Without any of it, the server's certificate must be issued by an authority that the system trusts, for the URL's host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// A file of authorities in PEM form that are trusted in place of the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Any certificate is accepted. Reports say so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// A client certificate with its chain in PEM form, presented when the server requests one; with `key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// The private key of `cert`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// The name that is sent (SNI) and that the certificate must be valid for, in place of the URL's host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// The newest version that is offered (default 1.3).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<TlsVersion>,
    /// Sessions are resumed, each user its own; without it every handshake is a full one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resume: bool,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersion {
    /// `1.2`
    Tls12,
    /// `1.3`
    Tls13,
}

impl FromStr for TlsVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "1.2" => Ok(TlsVersion::Tls12),
            "1.3" => Ok(TlsVersion::Tls13),
            _ => Err(format!("unknown version of TLS `{text}`; expected 1.2 or 1.3")),
        }
    }
}

impl<'de> Deserialize<'de> for TlsVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // YAML reads it as a number.
        Text::deserialize(deserializer)?.0.parse().map_err(de::Error::custom)
    }
}

impl Serialize for TlsVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            TlsVersion::Tls12 => "1.2",
            TlsVersion::Tls13 => "1.3",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_are_read_and_written() {
        let text =
            "{ca: ca.pem, insecure: true, cert: c.pem, key: c.key, server_name: a.test, version: 1.2, resume: true}";
        let read: Tls = serde_saphyr::from_str(text).expect("all keys");
        assert_eq!((read.version, read.ca.as_deref()), (Some(TlsVersion::Tls12), Some("ca.pem".as_ref())));
        let json = serde_json::to_string(&read).expect("JSON");
        assert_eq!(serde_json::from_str::<Tls>(&json).expect("the same"), read);
        assert_eq!(serde_json::to_string(&Tls::default()).expect("JSON"), "{}");
        for wrong in ["{version: 1.1}", "{verify: false}"] {
            assert!(serde_saphyr::from_str::<Tls>(wrong).is_err(), "{wrong}");
        }
    }
}
