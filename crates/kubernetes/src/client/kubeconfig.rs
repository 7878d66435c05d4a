//! Files of kubectl that say how a cluster is reached: the context that is current in them.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::access::Material;
use super::{Access, ApiError};

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct File {
    #[serde(default)]
    current_context: String,
    #[serde(default)]
    contexts: Vec<NamedContext>,
    #[serde(default)]
    clusters: Vec<NamedCluster>,
    #[serde(default)]
    users: Vec<NamedUser>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Deserialize)]
struct Context {
    cluster: String,
    #[serde(default)]
    user: String,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
    tls_server_name: Option<String>,
    #[serde(default)]
    insecure_skip_tls_verify: bool,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    user: User,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
struct User {
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<PathBuf>,
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<String>,
    username: Option<String>,
    exec: Option<serde::de::IgnoredAny>,
    auth_provider: Option<serde::de::IgnoredAny>,
}

/// The access of the current context of a file.
pub(super) fn access(path: &Path) -> Result<Access, ApiError> {
    let wrong = |what: &str| ApiError::Request(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error.to_string()))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    parse(&text, folder).map_err(|what| wrong(&what))
}

/// Files that it names are relative to its folder. An error shows nothing of the text: there may be a token in it.
fn parse(text: &str, folder: &Path) -> Result<Access, String> {
    let file: File = serde_saphyr::from_str(text).map_err(|_| "it is not a kubeconfig".to_owned())?;
    let current = &file.current_context;
    let context = file.contexts.iter().find(|one| one.name == *current);
    let context =
        &context.ok_or_else(|| format!("there is no context `{current}`, which is `current-context`"))?.context;
    let cluster = file.clusters.into_iter().find(|one| one.name == context.cluster);
    let cluster = cluster.ok_or_else(|| format!("there is no cluster `{}`", context.cluster))?.cluster;
    if cluster.insecure_skip_tls_verify {
        return Err("`insecure-skip-tls-verify` is not supported; write `certificate-authority`".to_owned());
    }
    let user = match file.users.into_iter().find(|one| one.name == context.user) {
        Some(named) => named.user,
        None if context.user.is_empty() => User::default(),
        None => return Err(format!("there is no user `{}`", context.user)),
    };
    if user.exec.is_some() || user.auth_provider.is_some() || user.username.is_some() {
        return Err(format!(
            "the user `{}` has neither a token nor a certificate: `exec`, `auth-provider` and passwords are not supported",
            context.user
        ));
    }
    let token = match (user.token, user.token_file) {
        // As client-go does it: the file counts, and is read again.
        (_, Some(path)) => Some(Material::File(folder.join(path))),
        (Some(token), None) => Some(Material::Text(token)),
        (None, None) => None,
    };
    let certificate = material("client-certificate", user.client_certificate_data, user.client_certificate, folder)?;
    let key = material("client-key", user.client_key_data, user.client_key, folder)?;
    if certificate.is_some() != key.is_some() {
        return Err(format!(
            "the user `{}` has a certificate without a key, or a key without a certificate",
            context.user
        ));
    }
    Ok(Access {
        server_name: cluster.tls_server_name,
        ca: material(
            "certificate-authority",
            cluster.certificate_authority_data,
            cluster.certificate_authority,
            folder,
        )?,
        token,
        certificate: certificate.zip(key),
        ..Access::of_server(&cluster.server).map_err(|error| error.to_string())?
    })
}

/// Data in base64 before a file, as kubectl has it.
fn material(
    name: &str,
    data: Option<String>,
    file: Option<PathBuf>,
    folder: &Path,
) -> Result<Option<Material>, String> {
    let Some(data) = data else { return Ok(file.map(|path| Material::File(folder.join(path)))) };
    let bytes = STANDARD.decode(data.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    bytes.map(|text| Some(Material::Text(text))).ok_or_else(|| format!("`{name}-data` is not base64 of PEM text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(cluster: &str, user: &str) -> Result<Access, String> {
        let text = format!(
            "apiVersion: v1\nkind: Config\npreferences: {{}}\nclusters: [{{name: other, cluster: {{server: https://other}}}}, {{name: c, cluster: {{{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}, {{name: x, user: {{exec: {{command: aws, env: null}}}}}}]\ncontexts: [{{name: now, context: {{cluster: c, user: u, namespace: shop}}}}]\ncurrent-context: now\n"
        );
        parse(&text, Path::new("/etc/kube"))
    }

    #[test]
    fn the_current_context_says_where_the_server_is_and_who_we_are() {
        let found =
            file("server: 'https://api.test:6443/k8s/c-1/', certificate-authority: ca.crt", "tokenFile: /run/token")
                .unwrap();
        assert_eq!((&*found.host, found.port, found.is_tls, &*found.base), ("api.test", 6443, true, "/k8s/c-1"));
        assert_eq!(found.ca, Some(Material::File("/etc/kube/ca.crt".into())));
        assert_eq!(found.token, Some(Material::File("/run/token".into())));
        let found = file(
            "server: 'https://10.0.0.1', certificate-authority-data: Q0E=, tls-server-name: api.test",
            "token: t0ken, client-certificate-data: Q0VSVA==, client-key: key.pem",
        );
        let found = found.unwrap();
        assert_eq!((found.port, found.server_name.as_deref()), (443, Some("api.test")));
        assert_eq!(found.ca, Some(Material::Text("CA".into())));
        assert_eq!(found.token, Some(Material::Text("t0ken".into())));
        assert_eq!(
            found.certificate,
            Some((Material::Text("CERT".into()), Material::File("/etc/kube/key.pem".into())))
        );
        assert!(!format!("{found:?}").contains("t0ken"));
    }

    #[test]
    fn what_is_not_supported_is_said_without_what_is_secret() {
        for (cluster, user, words) in [
            ("server: 'https://a', insecure-skip-tls-verify: true", "token: hidden", "insecure-skip-tls-verify"),
            ("server: 'https://a'", "exec: {command: aws}", "`exec`"),
            ("server: 'https://a'", "username: a, password: hidden", "passwords"),
            ("server: 'a:1'", "token: hidden", "`a:1` is not the URL"),
            ("server: 'https://u:hidden@a'", "token: hidden", "`a` is not the URL"),
            ("server: 'https://a', certificate-authority-data: '%'", "token: hidden", "certificate-authority-data"),
            ("server: 'https://a'", "client-key-data: aGlkZGVu", "a key without a certificate"),
            ("server: [hidden]", "token: hidden", "it is not a kubeconfig"),
        ] {
            let error = file(cluster, user).expect_err(cluster);
            assert!(error.contains(words) && !error.contains("hidden"), "{cluster}: {error}");
        }
        assert!(parse("current-context: a\n", Path::new("")).is_err_and(|error| error.contains("no context `a`")));
    }
}
