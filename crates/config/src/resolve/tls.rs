//! TLS: files are read and checked here, so that a configuration is put in force with them or not at all.

use std::path::Path;
use std::sync::Arc;

use tls::certificate::certificates_from_pem;
use tls::client::{self, Roots};
use tls::{Alpn, Certificate, CertificateError};

use super::Resolver;
use crate::TlsPolicy;
use crate::problem::Origin;
use crate::raw;
use crate::raw::shape::Spanned;

impl Resolver<'_> {
    /// The policy of an upstream that has targets over TLS.
    pub(super) fn upstream_tls(&mut self, upstream: &raw::Upstream) -> Option<Arc<TlsPolicy>> {
        let over_tls = upstream.targets.listed().iter().find(|target| target.url.tls).map(|target| target.origin);
        let scheme = upstream.targets.source().and_then(|source| source.scheme.as_ref());
        let over_tls = over_tls
            .or_else(|| scheme.filter(|scheme| scheme.value == raw::TargetScheme::Https).map(|scheme| scheme.origin));
        let file = upstream.targets.file().map(|file| file.origin);
        let Some(target) = over_tls.or(file) else {
            if let Some(tls) = &upstream.tls {
                self.problem(tls.origin, "`tls` has no effect: no target of this upstream is `https://`");
            }
            return None;
        };
        let default = Spanned::from(raw::UpstreamTls::default());
        let raw = upstream.tls.as_ref().unwrap_or(&default);
        if !raw.verify.value && !raw.insecure {
            let message = "without `verify` anyone on the way to the target can read and change what is sent; \
                           write `insecure: true` beside it if that is meant";
            self.problem(raw.verify.origin, message);
        }
        if let Some(name) = &raw.server_name {
            self.check(name.origin, client::server_name(name).map(drop));
        }
        let options = client::Options {
            roots: match raw.roots.as_str() {
                "system" => Roots::System,
                path => Roots::These(self.authorities(path, raw.roots.origin)),
            },
            certificate: raw.client_cert.as_ref().and_then(|files| self.certificate(files)),
            min_version: version(raw.min_version),
            verify: raw.verify.value,
            alpn: match upstream.protocol {
                raw::UpstreamProtocol::Http1 => vec![Alpn::Http11],
                raw::UpstreamProtocol::Http2 => vec![Alpn::Http2],
                raw::UpstreamProtocol::Auto => vec![Alpn::Http2, Alpn::Http11],
            },
            ..client::Options::default()
        };
        if let Err(error) = client::config(&options) {
            if file.is_some() && upstream.tls.is_none() {
                return None; // a target of the file that needs it says so
            }
            let origin = if raw.origin == Origin::Nowhere { target } else { raw.origin };
            self.problem(origin, error.to_string());
        }
        let server_name = raw.server_name.as_ref().map(|name| name.as_str().into());
        Some(Arc::new(TlsPolicy { server_name, digest: options.digest(), options }))
    }

    pub(super) fn authorities(&mut self, path: &str, origin: Origin) -> Vec<tls::CertificateDer<'static>> {
        let path = Path::new(path);
        let read = self.read(path).and_then(|pem| certificates_from_pem(&pem, path));
        read.unwrap_or_else(|error| {
            self.problem(origin, error.to_string());
            Vec::new()
        })
    }

    /// A certificate that belongs to its key.
    pub(super) fn certificate(&mut self, files: &Spanned<raw::CertificateFiles>) -> Option<Certificate> {
        let (cert, key) = (Path::new(&files.cert), Path::new(&files.key));
        let pems = self.read(cert).and_then(|cert_pem| Ok((cert_pem, self.read(key)?)));
        match pems.and_then(|(cert_pem, key_pem)| Certificate::from_pem((&cert_pem, cert), (&key_pem, key))) {
            Ok(certificate) => Some(certificate),
            Err(error) => {
                self.problem(files.origin, error.to_string());
                None
            }
        }
    }

    pub(super) fn read(&mut self, path: &Path) -> Result<Vec<u8>, CertificateError> {
        if !self.tls_files.iter().any(|known| known == path) {
            self.tls_files.push(path.to_owned());
        }
        (self.read_file)(path).map_err(|source| CertificateError::Read { path: path.to_owned(), source })
    }
}

pub(super) fn version(version: raw::TlsVersion) -> tls::Version {
    match version {
        raw::TlsVersion::Tls12 => tls::Version::Tls12,
        raw::TlsVersion::Tls13 => tls::Version::Tls13,
    }
}
