//! Why a handshake failed: a short reason for metrics, a sentence for the log.

use std::io;

use rustls::{AlertDescription, CertificateError};

/// A handshake that failed, or a connection that broke a rule of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The peer's certificate is not for the name that was asked for.
    Name,
    /// The peer's certificate is not issued by an authority that is trusted, or the chain is incomplete.
    Untrusted,
    /// The peer's certificate has expired or is not valid yet.
    Expired,
    /// The peer's certificate is revoked.
    Revoked,
    /// The peer sent no certificate where one is required.
    NoCertificate,
    /// The peer sent an alert.
    Alert,
    /// No certificate is configured for the name that the client asked for.
    UnknownName,
    /// No version, cipher suite, group or application protocol in common.
    NothingInCommon,
    /// Bytes that are not TLS: plain HTTP most often.
    NotTls,
    /// Any other violation of the protocol.
    Protocol,
    /// The peer closed the connection in the middle of the handshake.
    Closed,
    /// The connection failed.
    Io,
}

impl Failure {
    /// Every kind, for a metric's labels.
    pub const ALL: [Failure; 12] = [
        Failure::Name,
        Failure::Untrusted,
        Failure::Expired,
        Failure::Revoked,
        Failure::NoCertificate,
        Failure::Alert,
        Failure::UnknownName,
        Failure::NothingInCommon,
        Failure::NotTls,
        Failure::Protocol,
        Failure::Closed,
        Failure::Io,
    ];

    /// The reason as metrics and logs have it.
    pub fn reason(self) -> &'static str {
        match self {
            Failure::Name => "tls_name",
            Failure::Untrusted => "tls_untrusted",
            Failure::Expired => "tls_expired",
            Failure::Revoked => "tls_revoked",
            Failure::NoCertificate => "tls_no_certificate",
            Failure::Alert => "tls_alert",
            Failure::UnknownName => "tls_unknown_name",
            Failure::NothingInCommon => "tls_nothing_in_common",
            Failure::NotTls => "tls_not_tls",
            Failure::Protocol => "tls_protocol",
            Failure::Closed => "tls_closed",
            Failure::Io => "tls_io",
        }
    }

    /// The reason as a sentence.
    pub fn text(self) -> &'static str {
        match self {
            Failure::Name => "the certificate is not for this name",
            Failure::Untrusted => "the certificate is not issued by a trusted authority",
            Failure::Expired => "the certificate has expired or is not valid yet",
            Failure::Revoked => "the certificate is revoked",
            Failure::NoCertificate => "the peer sent no certificate",
            Failure::Alert => "the peer refused the handshake with an alert",
            Failure::UnknownName => "no certificate is configured for the name that the client sent",
            Failure::NothingInCommon => "no version, cipher suite, group or protocol in common",
            Failure::NotTls => "the peer does not speak TLS",
            Failure::Protocol => "the peer violated the protocol",
            Failure::Closed => "the peer closed the connection in the handshake",
            Failure::Io => "the connection failed in the handshake",
        }
    }

    /// The kind of a rustls error.
    pub fn of(error: &rustls::Error) -> Self {
        use rustls::Error as E;
        match error {
            E::InvalidCertificate(reason) => match reason {
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. } => Failure::Expired,
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => Failure::Name,
                CertificateError::Revoked => Failure::Revoked,
                _ => Failure::Untrusted,
            },
            E::NoCertificatesPresented => Failure::NoCertificate,
            E::AlertReceived(alert) => match alert {
                AlertDescription::UnrecognisedName => Failure::Name,
                _ => Failure::Alert,
            },
            E::PeerIncompatible(_) | E::NoApplicationProtocol => Failure::NothingInCommon,
            E::InvalidMessage(_) => Failure::NotTls,
            _ => Failure::Protocol,
        }
    }

    /// The kind of an error that a handshake or stream of this crate gave.
    pub fn of_io(error: &io::Error) -> Self {
        let inner = error.get_ref();
        if inner.is_some_and(|inner| inner.is::<UnknownName>()) {
            return Failure::UnknownName;
        }
        if inner.is_some_and(|inner| inner.is::<NotTls>()) {
            return Failure::NotTls;
        }
        match inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(error) => Failure::of(error),
            None => match error.kind() {
                io::ErrorKind::UnexpectedEof => Failure::Closed,
                io::ErrorKind::InvalidData => Failure::Protocol,
                _ => Failure::Io,
            },
        }
    }
}

/// A client asked for a name that no certificate is configured for.
#[derive(Debug, thiserror::Error)]
#[error("no certificate is configured for the name that the client sent, and there is no default")]
pub(crate) struct UnknownName;

impl From<UnknownName> for io::Error {
    fn from(error: UnknownName) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

/// A client does not speak TLS.
#[derive(Debug, thiserror::Error)]
#[error("the client does not speak TLS")]
pub(crate) struct NotTls;

impl From<NotTls> for io::Error {
    fn from(error: NotTls) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

/// A rustls error as an I/O error that [`Failure::of_io`] can read again.
pub(crate) fn io_error(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
