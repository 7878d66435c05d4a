//! How the API server is reached and who we are to it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::ApiError;
use super::kubeconfig;

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
    /// Path before those of the API, without a slash at its end; usually empty.
    pub base: String,
    /// Name that its certificate is valid for, if not the host.
    pub server_name: Option<String>,
    /// Authorities of its certificate.
    pub ca: Option<Material>,
    /// The token; a file is read for every request, as the kubelet renews it.
    pub token: Option<Material>,
    /// Our certificate and its key.
    pub certificate: Option<(Material, Material)>,
}

/// What proves something: in a file, or as a text.
#[derive(Clone, PartialEq, Eq)]
pub enum Material {
    /// A file.
    File(PathBuf),
    /// The text itself.
    Text(String),
}

impl Material {
    fn read(&self) -> Result<String, ApiError> {
        match self {
            Material::Text(text) => Ok(text.clone()),
            Material::File(path) => std::fs::read_to_string(path)
                .map_err(|error| ApiError::Request(format!("cannot read {}: {error}", path.display()))),
        }
    }
}

impl fmt::Debug for Material {
    /// Leaves a text out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Material::File(path) => f.debug_tuple("File").field(path).finish(),
            Material::Text(_) => f.write_str("Text(..)"),
        }
    }
}

impl fmt::Display for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Material::File(path) => path.display().fmt(f),
            Material::Text(_) => f.write_str("the kubeconfig"),
        }
    }
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
        let account = |name: &str| Some(Material::File(Path::new(ACCOUNT).join(name)));
        Ok(Access {
            host,
            port,
            is_tls: true,
            base: String::new(),
            server_name: None,
            ca: account("ca.crt"),
            token: account("token"),
            certificate: None,
        })
    }

    /// That of the file that `KUBECONFIG` names; without the variable that of a pod. The file is read now.
    ///
    /// # Errors
    /// A file that cannot be read, or neither a file nor a pod.
    pub fn of_environment(environment: impl Fn(&str) -> Option<String>) -> Result<Self, ApiError> {
        match environment("KUBECONFIG").filter(|path| !path.is_empty()) {
            Some(path) => kubeconfig::access(Path::new(&path)),
            None if environment("KUBERNETES_SERVICE_HOST").is_none() => Err(ApiError::Request(
                "the API server is not known: this is not a pod of a cluster (KUBERNETES_SERVICE_HOST is not set), and KUBECONFIG names no file"
                    .to_owned(),
            )),
            None => Access::of_pod(environment),
        }
    }

    /// That of a URL.
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub fn of_url(url: &str, ca: Option<PathBuf>, token: Option<PathBuf>) -> Result<Self, ApiError> {
        let access = Access::of_server(url)?;
        if !access.base.is_empty() {
            return Err(wrong_url(url));
        }
        Ok(Access { ca: ca.map(Material::File), token: token.map(Material::File), ..access })
    }

    /// That of a URL, which may have a path, without anything that proves who is who.
    pub(super) fn of_server(url: &str) -> Result<Self, ApiError> {
        let wrong = || wrong_url(url);
        let (is_tls, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(wrong()),
        };
        let (authority, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| wrong())?),
            _ => (authority, if is_tls { 443 } else { 80 }),
        };
        if host.is_empty() || host.contains('@') || base.contains(['?', '#']) {
            return Err(wrong());
        }
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let base = base.trim_end_matches('/').to_owned();
        Ok(Access { host, port, is_tls, base, server_name: None, ca: None, token: None, certificate: None })
    }

    /// Host and port as a field has them.
    pub(super) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    pub(super) fn token(&self) -> Result<Option<String>, ApiError> {
        let Some(token) = &self.token else { return Ok(None) };
        Ok(Some(token.read()?.trim().to_owned()))
    }

    pub(super) fn server_name(&self) -> Result<ServerName<'static>, ApiError> {
        let name = self.server_name.as_ref().unwrap_or(&self.host);
        let wrong = |_| ApiError::Request(format!("`{name}` is not a host"));
        ServerName::try_from(name.clone()).map_err(wrong)
    }

    pub(super) fn tls(&self) -> Result<Option<Arc<ClientConfig>>, ApiError> {
        if !self.is_tls {
            return Ok(None);
        }
        let mut roots = RootCertStore::empty();
        let Some(ca) = &self.ca else {
            let missing = "https:// needs the authorities of the API server: --ca FILE, or `certificate-authority` of the kubeconfig";
            return Err(ApiError::Request(missing.to_owned()));
        };
        for certificate in certificates(ca)? {
            roots.add(certificate).map_err(|error| ApiError::Request(format!("{ca}: {error}")))?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let wrong = |error: rustls::Error| ApiError::Request(error.to_string());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .with_root_certificates(roots);
        let config = match &self.certificate {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates(certificate)?;
                let unreadable = |error| ApiError::Request(format!("{key}: {error}"));
                let key = PrivateKeyDer::from_pem_slice(key.read()?.as_bytes()).map_err(unreadable)?;
                config.with_client_auth_cert(chain, key).map_err(wrong)?
            }
        };
        Ok(Some(Arc::new(config)))
    }
}

fn wrong_url(url: &str) -> ApiError {
    // There may be a password before an `@`.
    let shown = url.rsplit_once('@').map_or(url, |(_, host)| host);
    // Or a token in a query.
    let shown = shown.split(['?', '#']).next().unwrap_or_default();
    ApiError::Request(format!("`{shown}` is not the URL of an API server; write https://HOST:PORT"))
}

fn certificates(pem: &Material) -> Result<Vec<CertificateDer<'static>>, ApiError> {
    let text = pem.read()?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    certificates.map_err(|error| ApiError::Request(format!("{pem}: {error}")))
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
        assert_eq!((parts("https://a/b"), parts("https://u:p@a")), (None, None));
        assert_eq!(
            Access::of_server("https://[fd00::1]:6443").map(|access| access.authority()).ok(),
            Some("[fd00::1]:6443".into())
        );
    }

    #[test]
    fn without_a_file_and_outside_of_a_pod_there_is_no_access() {
        let error = Access::of_environment(|_| None).unwrap_err().to_string();
        assert!(error.contains("KUBECONFIG") && error.contains("KUBERNETES_SERVICE_HOST"), "{error}");
        let pod = |name: &str| (name == "KUBERNETES_SERVICE_HOST").then(|| "10.96.0.1".to_owned());
        let access = Access::of_environment(pod).unwrap();
        assert_eq!((&*access.host, access.port, access.is_tls), ("10.96.0.1", 443, true));
    }
}
