//! How the API server is reached and who we are to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::ApiError;

/// Where the kubelet puts the token of a pod.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// How the API server is reached and who we are to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Host or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Whether it speaks TLS.
    pub is_tls: bool,
    /// File with the authorities of its certificate.
    pub ca: Option<PathBuf>,
    /// File with the token; read for every request, as the kubelet renews it.
    pub token: Option<PathBuf>,
}

impl Access {
    /// That of a pod, by its environment and its service account.
    ///
    /// # Errors
    /// Outside of a pod.
    pub fn of_pod(environment: impl Fn(&str) -> Option<String>) -> Result<Self, ApiError> {
        let missing =
            "this is not a pod of a cluster (KUBERNETES_SERVICE_HOST is not set); name the API server with --server";
        let host = environment("KUBERNETES_SERVICE_HOST").ok_or_else(|| ApiError::Request(missing.to_owned()))?;
        let port = environment("KUBERNETES_SERVICE_PORT").and_then(|port| port.parse().ok()).unwrap_or(443);
        let account = Path::new(ACCOUNT);
        Ok(Access { host, port, is_tls: true, ca: Some(account.join("ca.crt")), token: Some(account.join("token")) })
    }

    /// That of a URL.
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub fn of_url(url: &str, ca: Option<PathBuf>, token: Option<PathBuf>) -> Result<Self, ApiError> {
        let wrong = || ApiError::Request(format!("`{url}` is not the URL of an API server; write https://HOST:PORT"));
        let (is_tls, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(wrong()),
        };
        let authority = rest.trim_end_matches('/');
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| wrong())?),
            _ => (authority, if is_tls { 443 } else { 80 }),
        };
        if host.is_empty() || host.contains('/') {
            return Err(wrong());
        }
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Access { host, port, is_tls, ca, token })
    }

    pub(super) fn token(&self) -> Result<Option<String>, ApiError> {
        let Some(path) = &self.token else { return Ok(None) };
        let text = std::fs::read_to_string(path)?;
        Ok(Some(text.trim().to_owned()))
    }

    pub(super) fn server_name(&self) -> Result<ServerName<'static>, ApiError> {
        let wrong = |_| ApiError::Request(format!("`{}` is not a host", self.host));
        ServerName::try_from(self.host.clone()).map_err(wrong)
    }

    pub(super) fn tls(&self) -> Result<Option<Arc<ClientConfig>>, ApiError> {
        if !self.is_tls {
            return Ok(None);
        }
        let mut roots = RootCertStore::empty();
        let Some(path) = &self.ca else {
            return Err(ApiError::Request("https:// needs the authorities of the API server: --ca FILE".to_owned()));
        };
        let pem = std::fs::read(path)?;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let wrong = |error: &dyn std::fmt::Display| ApiError::Request(format!("{}: {error}", path.display()));
            let certificate = certificate.map_err(|error| wrong(&error))?;
            roots.add(certificate).map_err(|error| wrong(&error))?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| ApiError::Request(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Some(Arc::new(config)))
    }
}

#[cfg(test)]
mod tests {
    use super::Access;

    #[test]
    fn urls_have_hosts_and_ports() {
        let parts = |url: &str| Access::of_url(url, None, None).map(|one| (one.host, one.port, one.is_tls)).ok();
        assert_eq!(parts("https://10.88.0.1:16443"), Some(("10.88.0.1".into(), 16443, true)));
        assert_eq!(parts("https://[fd00::1]:6443/"), Some(("fd00::1".into(), 6443, true)));
        assert_eq!(parts("http://localhost"), Some(("localhost".into(), 80, false)));
        assert_eq!((parts("10.0.0.1"), parts("https://"), parts("https://a:b")), (None, None, None));
    }
}
