//! Why a request is refused.

use std::fmt::Write as _;

/// Why a request is refused. Clients learn the class, logs and metrics the [`name`](Refusal::name).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No credential of a kind that the route accepts.
    Missing,
    /// Two credentials of one kind, or bytes that no credential has.
    Malformed(&'static str),
    /// A credential that does not hold: unknown, of a wrong signature, for another audience.
    Invalid(&'static str),
    /// A credential that held once.
    Expired,
    /// A key that its owner disabled.
    Revoked,
    /// A valid identity without the scopes that the route requests; they are told to the client (RFC 6750, section 3).
    ScopeMissing(Box<str>),
    /// A valid identity that `allow` does not admit.
    Forbidden(&'static str),
    /// An address that `allow` does not admit.
    IpDenied,
    /// An external authorizer does not let the request pass; its response goes to the client.
    Denied,
    /// The store, issuer or authoriser cannot decide now.
    Unavailable(&'static str),
    /// Too many failures from this client: nothing was checked.
    TooManyFailures,
}

/// One scheme that a route accepts, as it is named to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Challenge {
    /// A token, or a key sent as one (RFC 6750).
    Bearer,
    /// A name and a password (RFC 7617).
    Basic,
    /// A key in a field or parameter of the operator's choice. The scheme is not registered, but a 401 must have a challenge
    /// (RFC 9110, section 15.5.2).
    ApiKey,
    /// A client certificate, which belongs to the TLS handshake. Not registered either.
    Certificate,
}

impl Refusal {
    /// The status of the response.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::Missing | Self::Invalid(_) | Self::Expired | Self::Revoked => 401,
            Self::ScopeMissing(_) | Self::Forbidden(_) | Self::IpDenied | Self::Denied => 403,
            Self::TooManyFailures => 429,
            Self::Unavailable(_) => 503,
        }
    }

    /// Whether a credential was shown that does not hold, as one that was guessed does not.
    #[must_use]
    pub fn is_failed_login(&self) -> bool {
        matches!(self, Self::Malformed(_) | Self::Invalid(_) | Self::Expired | Self::Revoked)
    }

    /// The label `outcome` of metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed(_) => "malformed",
            Self::Invalid(_) => "invalid",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::ScopeMissing(_) | Self::Forbidden(_) | Self::IpDenied => "forbidden",
            Self::Denied => "denied",
            Self::Unavailable(_) => "unavailable",
            Self::TooManyFailures => "too_many_failures",
        }
    }

    /// What logs say beside the name; never a part of the credential.
    #[must_use]
    pub fn detail(&self) -> Option<&'static str> {
        match self {
            Self::Malformed(why) | Self::Invalid(why) | Self::Forbidden(why) | Self::Unavailable(why) => Some(why),
            Self::ScopeMissing(_) => Some("scopes"),
            Self::Missing | Self::Expired | Self::Revoked | Self::IpDenied | Self::Denied | Self::TooManyFailures => {
                None
            }
        }
    }

    /// The value of one `WWW-Authenticate` field for one scheme; `None` where the status has none.
    ///
    /// Without a credential the challenge has no `error` (RFC 6750, section 3.1); expired, revoked and unknown look the same.
    #[must_use]
    pub fn challenge(&self, scheme: Challenge, realm: &str) -> Option<String> {
        let error = match self {
            Self::Missing => None,
            Self::Invalid(_) | Self::Expired | Self::Revoked => Some("invalid_token"),
            Self::Malformed(_) => Some("invalid_request"),
            Self::ScopeMissing(_) | Self::Forbidden(_) => Some("insufficient_scope"),
            Self::IpDenied | Self::Denied | Self::Unavailable(_) | Self::TooManyFailures => return None,
        };
        // Other schemes have a challenge with 401 only.
        if scheme != Challenge::Bearer && self.status() != 401 {
            return None;
        }
        let realm: String = realm.chars().filter(|one| !matches!(one, '"' | '\\') && !one.is_control()).collect();
        let mut value = match scheme {
            Challenge::Bearer => format!("Bearer realm=\"{realm}\""),
            Challenge::Basic => return Some(format!("Basic realm=\"{realm}\", charset=\"UTF-8\"")),
            Challenge::ApiKey => return Some(format!("ApiKey realm=\"{realm}\"")),
            Challenge::Certificate => return Some(format!("Certificate realm=\"{realm}\"")),
        };
        if let Some(error) = error {
            let _ = write!(value, ", error=\"{error}\"");
        }
        if let Self::ScopeMissing(scopes) = self {
            let _ = write!(value, ", scope=\"{scopes}\"");
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_cannot_tell_an_expired_credential_from_an_unknown_one() {
        let seen: Vec<_> = [Refusal::Invalid("signature"), Refusal::Expired, Refusal::Revoked]
            .iter()
            .map(|one| (one.status(), one.challenge(Challenge::Bearer, "weir")))
            .collect();
        assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
        assert_eq!(seen[0].1.as_deref(), Some("Bearer realm=\"weir\", error=\"invalid_token\""));
    }

    #[test]
    fn every_401_has_a_challenge_for_every_scheme() {
        for refusal in [Refusal::Missing, Refusal::Invalid("x"), Refusal::Expired, Refusal::Revoked] {
            for scheme in [Challenge::Bearer, Challenge::Basic, Challenge::ApiKey, Challenge::Certificate] {
                assert!(refusal.challenge(scheme, "weir").is_some(), "{refusal:?} {scheme:?}");
            }
        }
        assert_eq!(Refusal::Missing.challenge(Challenge::Bearer, "weir").as_deref(), Some("Bearer realm=\"weir\""));
    }

    #[test]
    fn a_missing_scope_is_named_and_a_denied_address_is_not_explained() {
        let scope = Refusal::ScopeMissing("orders:read".into());
        assert_eq!(
            scope.challenge(Challenge::Bearer, "weir").as_deref(),
            Some("Bearer realm=\"weir\", error=\"insufficient_scope\", scope=\"orders:read\"")
        );
        assert_eq!(scope.challenge(Challenge::Basic, "weir"), None);
        assert_eq!(Refusal::IpDenied.challenge(Challenge::Bearer, "weir"), None);
    }

    #[test]
    fn a_realm_cannot_end_its_quotes() {
        let value = Refusal::Missing.challenge(Challenge::Basic, "a\", x=\"\r\nb").expect("a challenge");
        assert_eq!(value, "Basic realm=\"a, x=b\", charset=\"UTF-8\"");
    }
}
