//! Fields that clients must not send: what authentication writes for upstreams.

use std::sync::Arc;

use message::Known;

use crate::{AuthMethod, Authenticator, Template};

/// Field with a client's certificate (RFC 9440).
pub const CLIENT_CERT: &str = "Client-Cert";
/// Envoy's field with what is known of a client's certificate.
pub const XFCC: &str = "X-Forwarded-Client-Cert";
/// Fields that tell upstreams of a client's certificate; all of them are removed from requests where certificates authenticate.
const CERTIFICATE_FIELDS: [&str; 3] = [CLIENT_CERT, "Client-Cert-Chain", XFCC];

/// Names of the fields that any authenticator of the configuration writes. A client's own are removed on every route, from trusted
/// peers too, in every spelling that a server might take for them: an upstream believes these fields because the gateway wrote them.
#[derive(Debug, Clone, Default)]
pub struct ForgedNames(Box<[Arc<str>]>);

impl ForgedNames {
    /// The names of a configuration.
    pub fn new(authenticators: &[Authenticator]) -> Self {
        let mut names: Vec<Arc<str>> =
            authenticators.iter().flat_map(|one| one.headers.iter().map(|(name, _)| name.clone())).collect();
        for one in authenticators {
            match &one.method {
                AuthMethod::Authorizer(authorizer) => names.extend(authorizer.copy.iter().cloned()),
                AuthMethod::Mtls(_) => names.extend(CERTIFICATE_FIELDS.map(Arc::from)),
                AuthMethod::ApiKey(_) | AuthMethod::Jwt(_) | AuthMethod::Basic(_) => {}
            }
        }
        names.sort();
        names.dedup();
        ForgedNames(names.into())
    }

    /// These and the names of fields that a route makes of variables.
    #[must_use]
    pub fn with(self, written: &[Template]) -> Self {
        let names: Vec<Arc<str>> =
            self.0.into_iter().chain(written.iter().map(|template| template.name.clone())).collect();
        ForgedNames(names.into())
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a client's field of this name is removed.
    #[inline]
    pub fn contains(&self, name: &[u8]) -> bool {
        // Beside `-`, `_` and `.` in place of each other, their absence: CGI and its kin drop what they cannot spell.
        self.0.iter().any(|forged| Known::is_alias(name, forged.as_bytes()) || is_same_folded(name, &**forged))
    }
}

/// Equality of letters and digits, without regard to case and to anything between them.
pub fn is_same_folded(one: impl AsRef<[u8]>, other: impl AsRef<[u8]>) -> bool {
    fn folded(name: &[u8]) -> impl Iterator<Item = u8> {
        name.iter().filter(|byte| byte.is_ascii_alphanumeric()).map(u8::to_ascii_lowercase)
    }
    folded(one.as_ref()).eq(folded(other.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forged_names_are_found_in_every_spelling() {
        let forged = ForgedNames(["X-Auth-User".into()].into());
        for name in [
            "X-Auth-User",
            "x-auth-user",
            "X_Auth_User",
            "X.Auth.User",
            "X-AUTH_USER",
            "XAuthUser",
            "X--Auth-User",
            "X-Auth-User-",
            "x~auth!user",
        ] {
            assert!(forged.contains(name.as_bytes()), "{name}");
        }
        for name in ["X-Auth-Users", "Auth-User", "X-Auth", "X-Auth-Usér"] {
            assert!(!forged.contains(name.as_bytes()), "{name}");
        }
        assert!(!ForgedNames::default().contains(b"X-Auth-User"));
    }
}
