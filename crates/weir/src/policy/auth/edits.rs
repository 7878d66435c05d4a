//! What an upstream sees of the sender: credentials go, parts of the identity come.

use std::sync::Arc;

use auth::Identity;
use h1::{Field, Known, encode};

use crate::config::{AuthMethod, Authenticator, CredentialPlace, IdentitySource, RouteAuth};

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
