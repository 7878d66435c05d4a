//! TLS towards an authority: from what a workload says to what a connection needs, and why a handshake failed in words that say what to do.

use std::io;
use std::sync::Arc;

use tls::certificate::{CertificateError, read_certificates};
use tls::client::{self, Options, Roots};
use tls::{Alpn, Certificate, ClientConfig, Failure, Negotiated, ServerName, Version};

use super::{PrepareError, Url};
use crate::load::workload::{Protocol, Tls, TlsVersion};

/// Sessions of a user and a server: rustls keeps eight tickets of TLS 1.3, each of which is used once, and servers send one to four per handshake.
const SESSIONS: usize = 8;

/// What all connections of a workload share.
pub(super) struct Policy {
    config: Arc<ClientConfig>,
    server_name: Option<String>,
    resumes: bool,
    insecure: bool,
    alpn: Alpn,
}

impl Policy {
    pub(super) fn new(tls: &Tls, protocol: Protocol) -> Result<Self, PrepareError> {
        let roots = match &tls.ca {
            None => Roots::System,
            Some(file) => Roots::These(read_certificates(file).map_err(of_file)?),
        };
        let certificate = match (&tls.cert, &tls.key) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some(Certificate::load(cert, key).map_err(of_file)?),
            _ => return Err(PrepareError::Tls("a client certificate needs both `cert` and `key`".to_owned())),
        };
        if tls.insecure && tls.ca.is_some() {
            let problem = "`ca` has no effect with `insecure`; leave out one of the two".to_owned();
            return Err(PrepareError::Tls(problem));
        }
        let alpn = match protocol {
            Protocol::Http1 => Alpn::Http11,
            Protocol::Http2 { .. } => Alpn::Http2,
        };
        let options = Options {
            roots,
            certificate,
            max_version: match tls.version {
                Some(TlsVersion::Tls12) => Version::Tls12,
                Some(TlsVersion::Tls13) | None => Version::Tls13,
            },
            alpn: vec![alpn],
            verify: !tls.insecure,
            sessions: 0,
            ..Options::default()
        };
        let config = client::config(&options).map_err(|error| {
            let hint =
                matches!(error, client::ClientError::NoRoots(_)).then_some(" with --ca FILE (`tls: {ca: FILE}`)");
            PrepareError::Tls(format!("{error}{}", hint.unwrap_or_default()))
        })?;
        let server_name = tls.server_name.clone();
        Ok(Policy { config, server_name, resumes: tls.resume, insecure: tls.insecure, alpn })
    }

    pub(super) fn secure(&self, url: &Url) -> Result<Secure, PrepareError> {
        let host = self.server_name.as_deref().unwrap_or_else(|| url.host());
        let name = client::server_name(host).map_err(PrepareError::Tls)?;
        Ok(Secure {
            config: Arc::clone(&self.config),
            name,
            resumes: self.resumes,
            insecure: self.insecure,
            alpn: self.alpn,
            origin: url.origin(),
        })
    }
}

fn of_file(error: CertificateError) -> PrepareError {
    match error {
        CertificateError::Read { path, source } => PrepareError::File { file: path, error: source },
        error => PrepareError::Tls(error.to_string()),
    }
}

/// TLS towards one authority.
#[derive(Debug, Clone)]
pub(crate) struct Secure {
    config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
    resumes: bool,
    /// Certificates are not verified.
    pub(crate) insecure: bool,
    alpn: Alpn,
    /// For messages.
    origin: String,
}

impl Secure {
    /// The configuration of a user's connections. `own` holds that of one who resumes sessions: users who shared a store would take each other's
    /// tickets, and find none at times.
    pub(crate) fn config(&self, own: &mut Option<Arc<ClientConfig>>) -> Arc<ClientConfig> {
        if self.resumes {
            let made = || client::with_own_sessions(&self.config, SESSIONS);
            Arc::clone(own.get_or_insert_with(made))
        } else {
            Arc::clone(&self.config)
        }
    }

    /// What is wrong with the protocol that a handshake agreed on, if anything. A server without ALPN speaks HTTP/1.1.
    pub(crate) fn mismatch(&self, negotiated: &Negotiated) -> Option<String> {
        let is_wrong = self.alpn == Alpn::Http2 && negotiated.alpn != Some(Alpn::Http2);
        is_wrong.then(|| format!("{}: the server did not select HTTP/2 (ALPN h2); load it over HTTP/1.1", self.origin))
    }

    /// The connection ended without `close_notify` where only that can tell a whole response from a part.
    pub(crate) fn truncated(&self) -> String {
        format!("{}: the connection ended without close_notify; the response may be truncated", self.origin)
    }

    /// The end of the stream in the handshake.
    pub(crate) fn closed(&self) -> String {
        self.reason(&io::ErrorKind::UnexpectedEof.into())
    }

    /// Why a handshake failed, or which rule of TLS was broken later, and what to do.
    pub(crate) fn reason(&self, error: &io::Error) -> String {
        self.words(Failure::of_io(error), &error.to_string())
    }

    /// The same where only the text of the error is known.
    pub(crate) fn reason_of_text(&self, error: &str) -> String {
        let is_alert = error.starts_with("received fatal alert");
        self.words(if is_alert { Failure::Alert } else { Failure::Protocol }, error)
    }

    fn words(&self, failure: Failure, error: &str) -> String {
        let todo = match failure {
            Failure::Untrusted if error.contains("CaUsedAsEndEntity") => {
                "it is an authority's (CA:TRUE); make one with basicConstraints=CA:FALSE, or accept any with --insecure"
            }
            Failure::Untrusted => {
                "name its authority with --ca FILE (`tls: {ca: FILE}`), or accept any with --insecure"
            }
            Failure::Name => "name the server with --server-name NAME (`tls: {server_name: NAME}`)",
            Failure::Expired => "renew it, or accept any with --insecure",
            Failure::NotTls => "write http://, or another port",
            Failure::Alert if error.contains("NoApplicationProtocol") => match self.alpn {
                Alpn::Http2 => "the server does not speak HTTP/2; load it over HTTP/1.1",
                Alpn::Http11 => "the server does not speak HTTP/1.1; try --h2 (`protocol: {http2: {streams: 16}}`)",
            },
            Failure::Alert if self.config.client_auth_cert_resolver.has_certs() => {
                "is the client certificate the right one?"
            }
            Failure::Alert => {
                "where it requires a client certificate, give one with --cert and --key (`tls: {cert: FILE, key: FILE}`)"
            }
            Failure::NothingInCommon => "try another --tls (`tls: {version: 1.2}`)",
            Failure::Revoked
            | Failure::NoCertificate
            | Failure::UnknownName
            | Failure::Protocol
            | Failure::Closed
            | Failure::Io => "",
        };
        let detail = if failure == Failure::Closed { String::new() } else { format!(" ({error})") };
        let todo = if todo.is_empty() { String::new() } else { format!("; {todo}") };
        format!("{}: {}{detail}{todo}", self.origin, failure.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secure(protocol: Protocol) -> Secure {
        let tls = Tls { insecure: true, ..Tls::default() };
        let policy = Policy::new(&tls, protocol).expect("a policy");
        policy.secure(&Url::parse("https://127.0.0.1:8443/x").expect("a URL")).expect("a name")
    }

    #[test]
    fn reasons_name_the_server_and_what_to_do() {
        let (http1, http2) = (secure(Protocol::Http1), secure(Protocol::Http2 { streams: 1 }));
        for (reason, expected) in [
            (http1.closed(), "https://127.0.0.1:8443: the peer closed the connection in the handshake"),
            (http1.reason(&io::ErrorKind::ConnectionReset.into()), "failed in the handshake (connection reset)"),
            (http1.reason_of_text("received fatal alert: CertificateRequired"), "--cert and --key"),
            (http1.reason_of_text("received fatal alert: NoApplicationProtocol"), "try --h2"),
            (http2.reason_of_text("received fatal alert: NoApplicationProtocol"), "does not speak HTTP/2"),
            (http1.reason_of_text("cannot decrypt peer's message"), "violated the protocol (cannot decrypt"),
            (http1.words(Failure::NothingInCommon, "no suite"), "--tls"),
        ] {
            assert!(reason.contains(expected), "`{expected}` in: {reason}");
        }
    }

    #[test]
    fn only_http2_needs_alpn() {
        let (http1, http2) = (secure(Protocol::Http1), secure(Protocol::Http2 { streams: 1 }));
        let with = |alpn| Negotiated { version: "TLSv1.3", cipher: "x", alpn, is_resumed: false };
        for (secure, alpn, is_wrong) in [
            (&http1, None, false),
            (&http1, Some(Alpn::Http11), false),
            (&http2, None, true),
            (&http2, Some(Alpn::Http2), false),
        ] {
            assert_eq!(secure.mismatch(&with(alpn)).is_some(), is_wrong, "{alpn:?}");
        }
    }

    #[test]
    fn users_who_resume_have_a_configuration_of_their_own() {
        let mut secure = secure(Protocol::Http1);
        let (mut one, mut other) = (None, None);
        assert!(Arc::ptr_eq(&secure.config(&mut one), &secure.config(&mut other)));
        assert!(one.is_none());
        secure.resumes = true;
        assert!(Arc::ptr_eq(&secure.config(&mut one), &secure.config(&mut one)));
        assert!(!Arc::ptr_eq(&secure.config(&mut one), &secure.config(&mut other)));
    }
}
