//! Which fields hold credentials.

use std::sync::Arc;

use super::{AuthMethod, Config, CredentialPlace};

/// Words in names of fields that a route sets, by which their values are taken for secrets.
const WORDS: [&str; 7] = ["auth", "credential", "key", "password", "secret", "signature", "token"];

impl Config {
    /// Names of the fields by which clients, authorizers, providers and routes of this configuration carry credentials, and those of `redact`, in any
    /// case. They may not be kept where others could learn of them.
    pub fn credential_fields(&self) -> Vec<Arc<str>> {
        let mut names: Vec<Arc<str>> = Vec::new();
        for authenticator in &self.auth {
            match &authenticator.method {
                AuthMethod::ApiKey(keys) => names.extend(keys.places.iter().filter_map(|place| match place {
                    CredentialPlace::Header(name) => Some(name.clone()),
                    CredentialPlace::Bearer => None,
                })),
                // What the service hands on is often a token.
                AuthMethod::Authorizer(authorizer) => names.extend(authorizer.copy.iter().cloned()),
                AuthMethod::Jwt(_) | AuthMethod::Basic(_) | AuthMethod::Mtls(_) => {}
            }
        }
        names.extend(self.providers.iter().flat_map(|provider| &provider.headers).map(|(name, _)| name.clone()));
        for edits in self.routes.iter().flat_map(|route| [&route.headers.request, &route.headers.response]) {
            let written = edits.set.iter().chain(&edits.add).map(|(name, _)| name);
            let written = written.chain(edits.templates.iter().map(|template| &template.name));
            names.extend(written.filter(|name| is_secret(name)).cloned());
        }
        names.extend(self.redaction.own().map(Arc::from));
        names.sort_unstable();
        names.dedup();
        names
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word))
}
