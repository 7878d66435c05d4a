//! Certificates that clients showed in the TLS handshakes of their connections.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;

use auth::certificate::{self, Owner};
use auth::{Identity, Refusal};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use h1::encode;
use serde_json::Value;
use tls::CertificateDer;

use crate::config::{CLIENT_CERT, CertificateField, Mtls, XFCC};

/// The verified certificate of a connection's client.
#[derive(Debug)]
pub struct ClientCertificate {
    der: CertificateDer<'static>,
    /// The authorities that verified it, as `client_auth` names their file.
    authorities: Arc<str>,
    /// What was read of it: once for a connection, as a rule.
    read: RefCell<Option<Rc<Read>>>,
}

#[derive(Debug)]
struct Read {
    by: Mtls,
    owner: Result<Owner, Refusal>,
    /// The line for the upstream.
    line: Vec<u8>,
}

impl ClientCertificate {
    /// A certificate that was verified by the authorities of this name.
    pub fn new(der: CertificateDer<'static>, authorities: Arc<str>) -> Self {
        ClientCertificate { der, authorities, read: RefCell::default() }
    }

    /// Whether an authenticator accepts certificates of these authorities.
    pub(super) fn is_for(&self, mtls: &Mtls) -> bool {
        mtls.authorities.contains(&self.authorities)
    }

    /// Whose it is. A connection may last longer than its certificate, and so may a session that is resumed.
    ///
    /// # Errors
    /// Why it names nobody.
    pub(super) fn owner(&self, mtls: &Mtls, now: u64) -> Result<Arc<Identity>, Refusal> {
        let read = self.read(mtls);
        let owner = read.owner.as_ref().map_err(Clone::clone)?;
        if owner.not_after < now as i64 { Err(Refusal::Expired) } else { Ok(owner.identity.clone()) }
    }

    /// Appends the line that tells the upstream of it.
    pub(super) fn write_line(&self, mtls: &Mtls, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.read(mtls).line);
    }

    fn read(&self, mtls: &Mtls) -> Rc<Read> {
        let known = self.read.borrow().as_ref().filter(|read| read.by == *mtls).cloned();
        known.unwrap_or_else(|| {
            let owner = certificate::read(&self.der, &mtls.names);
            let line = match (&owner, mtls.forwarded_as) {
                (Ok(_), Some(CertificateField::ClientCert)) => client_cert(&self.der),
                (Ok(owner), Some(CertificateField::Xfcc)) => xfcc(&self.der, &owner.identity),
                _ => Vec::new(),
            };
            let read = Rc::new(Read { by: mtls.clone(), owner, line });
            *self.read.borrow_mut() = Some(read.clone());
            read
        })
    }
}

/// RFC 9440, section 2.2: a byte sequence of RFC 8941.
fn client_cert(der: &[u8]) -> Vec<u8> {
    let mut line = Vec::new();
    encode::field(&mut line, CLIENT_CERT.as_bytes(), format!(":{}:", STANDARD.encode(der)).as_bytes());
    line
}

/// Envoy's form: pairs with `;` between them, values in quotes.
fn xfcc(der: &[u8], who: &Identity) -> Vec<u8> {
    let mut value = "Hash=".to_owned();
    for byte in digest(&SHA256, der).as_ref() {
        let _ = write!(value, "{byte:02x}");
    }
    for (name, claim) in [("Subject", "subject"), ("URI", "uri"), ("DNS", "dns")] {
        let texts = match who.claims.get(claim) {
            Some(Value::Array(texts)) => texts.iter().filter_map(Value::as_str).collect(),
            one => one.and_then(Value::as_str).into_iter().collect::<Vec<_>>(),
        };
        for text in texts {
            let _ = write!(value, ";{name}=\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        }
    }
    let mut line = Vec::new();
    encode::field(&mut line, XFCC.as_bytes(), value.as_bytes());
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A connection, or a session that is resumed, may outlast its certificate.
    #[test]
    fn an_expired_certificate_names_nobody_any_more() {
        let made = rcgen::generate_simple_self_signed(vec!["a.test".to_owned()]).unwrap();
        let end = tls::Facts::of_der(made.cert.der()).unwrap().not_after;
        let end = end.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let shown = ClientCertificate::new(made.cert.der().clone(), "ca.pem".into());
        let mtls = Mtls { names: vec![certificate::Name::Dns], authorities: vec!["ca.pem".into()], forwarded_as: None };
        assert!(shown.is_for(&mtls));
        assert_eq!(shown.owner(&mtls, end).unwrap().consumer.as_deref(), Some("a.test"));
        assert_eq!(shown.owner(&mtls, end + 1), Err(Refusal::Expired));
    }

    #[test]
    fn no_name_ends_its_quotes() {
        let claims = json!({"subject": "CN=a\\\"b;Hash=1", "dns": ["a.test", "b.test"], "uri": "spiffe://mesh.test/a"});
        let claims = claims.as_object().unwrap().clone();
        let line = String::from_utf8(xfcc(b"", &Identity { claims, ..Identity::default() })).unwrap();
        let (hash, rest) = line.split_once(';').unwrap();
        assert!(hash.starts_with("X-Forwarded-Client-Cert: Hash=e3b0c442"), "{hash}");
        let expected =
            "Subject=\"CN=a\\\\\\\"b;Hash=1\";URI=\"spiffe://mesh.test/a\";DNS=\"a.test\";DNS=\"b.test\"\r\n";
        assert_eq!(rest, expected);
    }
}
