//! Client certificates: the sender that a certificate names (RFC 5280).
//!
//! That the certificate comes from a known authority and that the client has its key is the TLS handshake's affair. Here is read what it
//! says, with suspicion: an authority may sign what it did not look at.

mod distinguished_name;

use std::fmt::Write as _;
use std::sync::Arc;

use aws_lc_rs::digest;
use serde_json::{Map, Value};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate, X509Name};

use crate::{Identity, Refusal};

/// Bytes of a certificate that is read, in DER form.
pub const MAX_BYTES: usize = 16 * 1024;
/// Names of the subject alternative name that are read.
const MAX_NAMES: usize = 100;
/// Bytes of a name that can be a consumer's.
const MAX_NAME: usize = 1024;

/// A name of a certificate that can be the consumer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Name {
    /// The URI of the subject alternative name; a SPIFFE identity is one. A certificate with several is refused where this name counts.
    Uri,
    /// The first DNS name of the subject alternative name, in lower case.
    Dns,
    /// The first email address of the subject alternative name.
    Email,
    /// The common name of the subject. A certificate with several is refused where this name counts.
    CommonName,
    /// The whole subject, in the form of RFC 4514.
    Subject,
    /// SHA-256 of the certificate, in hexadecimal.
    Fingerprint,
}

impl Name {
    /// All of them.
    pub const ALL: [Name; 6] = [Name::Uri, Name::Dns, Name::Email, Name::CommonName, Name::Subject, Name::Fingerprint];

    /// What the configuration, claims and rules call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Name::Uri => "uri",
            Name::Dns => "dns",
            Name::Email => "email",
            Name::CommonName => "common_name",
            Name::Subject => "subject",
            Name::Fingerprint => "fingerprint",
        }
    }
}

/// What a certificate says about its owner.
#[derive(Debug, Clone)]
pub struct Owner {
    /// The consumer is the first of the names that count. Claims are all names, `issuer` and `serial`: a text, or a list where there are
    /// several.
    pub identity: Arc<Identity>,
    /// End of its validity, in seconds since 1970.
    pub not_after: i64,
}

/// Reads a verified certificate. The consumer is the first name of `names` that it has.
///
/// # Errors
/// [`Refusal::Invalid`] with the defect.
pub fn read(der: &[u8], names: &[Name]) -> Result<Owner, Refusal> {
    if der.len() > MAX_BYTES {
        return Err(Refusal::Invalid("the certificate has more than 16 KiB"));
    }
    let certificate = match X509Certificate::from_der(der) {
        Ok(([], certificate)) => certificate,
        _ => return Err(Refusal::Invalid("the certificate cannot be read")),
    };
    let claims = claims(&certificate, der, names)?;
    let consumer = names.iter().find_map(|name| text_of(&claims, *name, names)).ok_or(NAMELESS)?;
    if consumer.len() > MAX_NAME {
        return Err(Refusal::Invalid("the certificate has a name of more than 1,024 bytes"));
    }
    let identity = Identity { consumer: Some(consumer.into()), claims, ..Identity::default() };
    Ok(Owner { identity: Arc::new(identity), not_after: certificate.validity().not_after.timestamp() })
}

const NAMELESS: Refusal = Refusal::Invalid("the certificate has none of the names that count");

/// The name of this kind: the only one, or the first where their order means something. Authorities that look at URIs and addresses may sign any
/// common name: one that looks like another name that counts is none.
fn text_of(claims: &Map<String, Value>, name: Name, counting: &[Name]) -> Option<String> {
    let poses_as = |text: &str, kind: Name, sign: &str| counting.contains(&kind) && text.contains(sign);
    match (claims.get(name.name())?, name) {
        (Value::String(text), Name::CommonName)
            if poses_as(text, Name::Uri, "://") || poses_as(text, Name::Email, "@") =>
        {
            None
        }
        (Value::String(text), _) => Some(text.clone()),
        (Value::Array(all), Name::Dns | Name::Email) => all.first()?.as_str().map(str::to_owned),
        // Which of two workloads or persons it is for is not said.
        _ => None,
    }
}

fn claims(certificate: &X509Certificate<'_>, der: &[u8], counting: &[Name]) -> Result<Map<String, Value>, Refusal> {
    let mut claims = Map::new();
    let (mut uris, mut dns, mut emails) = (Vec::new(), Vec::new(), Vec::new());
    // Two extensions of this kind are an error too.
    let names = certificate
        .subject_alternative_name()
        .map_err(|_| Refusal::Invalid("the subject alternative name of the certificate cannot be read"))?;
    let names = names.map_or(&[][..], |extension| &extension.value.general_names);
    if names.len() > MAX_NAMES {
        return Err(Refusal::Invalid("the certificate has more than 100 names"));
    }
    for name in names {
        match name {
            GeneralName::URI(text) => uris.push(plain(text)?.to_owned()),
            GeneralName::DNSName(text) => dns.push(dns_name(text)?),
            GeneralName::RFC822Name(text) => emails.push(plain(text)?.to_owned()),
            GeneralName::Invalid(..) => return Err(Refusal::Invalid("a name of the certificate is not valid")),
            _ => {}
        }
    }
    if uris.len() > 1 && counting.contains(&Name::Uri) {
        return Err(Refusal::Invalid("the certificate has several URIs"));
    }
    insert(&mut claims, Name::Uri.name(), uris);
    insert(&mut claims, Name::Dns.name(), dns);
    insert(&mut claims, Name::Email.name(), emails);
    let common_names = match common_names(certificate.subject()) {
        Err(refusal) if counting.contains(&Name::CommonName) => return Err(refusal),
        names => names.unwrap_or_default(),
    };
    if common_names.len() > 1 && counting.contains(&Name::CommonName) {
        return Err(Refusal::Invalid("the certificate has several common names"));
    }
    insert(&mut claims, Name::CommonName.name(), common_names);
    let subject = distinguished_name::text(certificate.subject());
    insert(&mut claims, Name::Subject.name(), Some(subject).filter(|text| !text.is_empty()).into_iter().collect());
    insert(&mut claims, Name::Fingerprint.name(), vec![hex(digest::digest(&digest::SHA256, der).as_ref())]);
    insert(&mut claims, "issuer", vec![distinguished_name::text(certificate.issuer())]);
    insert(&mut claims, "serial", vec![hex(certificate.raw_serial())]);
    Ok(claims)
}

fn common_names(subject: &X509Name<'_>) -> Result<Vec<String>, Refusal> {
    let read = |text: Result<&str, _>| match text {
        Ok(text) => plain(text).map(str::to_owned),
        Err(_) => Err(Refusal::Invalid("the common name of the certificate has an encoding that is not read")),
    };
    subject.iter_common_name().map(|name| read(name.as_str())).collect()
}

/// A DNS name, in lower case. One with other characters could be taken for a URI or an address.
fn dns_name(text: &str) -> Result<String, Refusal> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.*".contains(&byte);
    if text.is_empty() || !text.bytes().all(is_name) {
        return Err(Refusal::Invalid("a DNS name of the certificate has characters that such names do not have"));
    }
    Ok(text.to_ascii_lowercase())
}

/// A name that is the same for whoever reads it: a NUL or a line break in `admin\0.example.com` ends it for some.
fn plain(text: &str) -> Result<&str, Refusal> {
    if text.is_empty() || text.trim() != text || text.chars().any(char::is_control) {
        return Err(Refusal::Invalid(
            "a name of the certificate is empty, or has control characters or blanks around it",
        ));
    }
    Ok(text)
}

fn insert(claims: &mut Map<String, Value>, name: &str, mut values: Vec<String>) {
    let value = match values.len() {
        0 => return,
        1 => Value::String(values.swap_remove(0)),
        _ => values.into(),
    };
    claims.insert(name.to_owned(), value);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests;
