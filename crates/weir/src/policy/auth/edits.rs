//! What an upstream sees of the sender: credentials go, parts of the identity come.

use std::sync::Arc;

use auth::Identity;
use h1::{Field, Known, encode};

use super::certificates;
use crate::config::{AuthMethod, Authenticator, CredentialPlace, IdentitySource, RouteAuth, Template};

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
                AuthMethod::Mtls(_) => names.extend(certificates::FIELDS.map(Arc::from)),
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

/// What a route's authenticators change of the request that goes to the upstream.
#[derive(Debug, Default)]
pub struct RouteEdits {
    removes_authorization: bool,
    removes: Box<[Arc<str>]>,
}

impl RouteEdits {
    /// Edits of a route.
    pub fn new(route: &RouteAuth, authenticators: &[Authenticator]) -> Self {
        let mut edits = RouteEdits::default();
        let mut names = Vec::new();
        for id in route.alternatives.iter().flatten() {
            let Some(authenticator) = authenticators.get(id.0).filter(|one| !one.forwards) else { continue };
            match &authenticator.method {
                AuthMethod::ApiKey(keys) => {
                    for place in &keys.places {
                        match place {
                            CredentialPlace::Bearer => edits.removes_authorization = true,
                            CredentialPlace::Header(name) => names.push(name.clone()),
                        }
                    }
                }
                AuthMethod::Jwt(_) | AuthMethod::Basic(_) => edits.removes_authorization = true,
                AuthMethod::Mtls(_) | AuthMethod::Authorizer(_) => {}
            }
        }
        edits.removes = names.into();
        edits
    }

    /// Whether nothing is removed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.removes_authorization && self.removes.is_empty()
    }

    /// Whether a field of this name may hold a credential that the upstream must not see.
    pub fn removes_named(&self, name: &[u8]) -> bool {
        self.removes.iter().any(|removed| Known::is_alias(name, removed.as_bytes()))
    }

    /// Whether a field holds a credential that the upstream must not see.
    #[inline]
    pub fn removes(&self, field: &Field, buf: &[u8]) -> bool {
        match field.known {
            Known::Authorization => self.removes_authorization,
            _ => self.removes.iter().any(|name| Known::is_alias(field.name.of_buf(buf), name.as_bytes())),
        }
    }
}

/// Appends the fields that an authenticator writes. What is not there, or cannot be the value of a field, is left out.
pub(super) fn write_identity(out: &mut Vec<u8>, headers: &[(Arc<str>, IdentitySource)], who: &Identity) {
    for (name, source) in headers {
        let claim;
        let value = match source {
            IdentitySource::Consumer => who.consumer.as_deref(),
            IdentitySource::Tier => who.tier.as_deref(),
            IdentitySource::Meta(name) => who.meta.get(&**name).map(|value| &**value),
            IdentitySource::Claim(path) => {
                claim = who.claim_text(path);
                claim.as_deref()
            }
        };
        if let Some(value) =
            value.map(str::trim).filter(|value| !value.is_empty() && !value.chars().any(char::is_control))
        {
            encode::field(out, name.as_bytes(), value.as_bytes());
        }
    }
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

    #[test]
    fn no_part_of_an_identity_ends_its_line() {
        let mut out = Vec::new();
        let who = Identity {
            consumer: Some("shop\r\nX-Admin: 1".into()),
            tier: Some(" gold ".into()),
            meta: [("empty".into(), "".into())].into(),
            ..Identity::default()
        };
        let headers = [
            ("X-Consumer".into(), IdentitySource::Consumer),
            ("X-Tier".into(), IdentitySource::Tier),
            ("X-Empty".into(), IdentitySource::Meta("empty".into())),
            ("X-Missing".into(), IdentitySource::Claim("sub".into())),
        ];
        write_identity(&mut out, &headers, &who);
        assert_eq!(String::from_utf8(out).expect("text"), "X-Tier: gold\r\n");
    }
}
