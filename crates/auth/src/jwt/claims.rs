//! Claims that a token must have (RFC 7519, section 4.1).

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{Identity, Refusal};

/// What the configuration expects of every token of an issuer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expected {
    /// `iss`, compared exactly.
    pub issuer: Box<str>,
    /// One of these must be in `aud`; `None` (`audience: any`) accepts every token of the issuer, also one made for another service.
    pub audience: Option<Vec<Box<str>>>,
    /// Accepted `typ` of the header, without regard to case and to `application/` in front. A token without `typ` counts as `JWT`.
    pub types: Vec<Box<str>>,
    /// Clocks may differ by this many seconds.
    pub skew: u64,
    /// The claim that names the consumer, as a path.
    pub consumer: Option<Box<str>>,
    /// The claim that names the tier, as a path.
    pub tier: Option<Box<str>>,
}

impl Expected {
    /// Whether the header's `typ` is accepted: an ID token must not pass for an access token (RFC 8725, section 3.11).
    pub(super) fn accepts_type(&self, given: Option<&str>) -> bool {
        let plain = |name: &str| {
            let name = name.to_ascii_lowercase();
            name.strip_prefix("application/").map(str::to_owned).unwrap_or(name)
        };
        let given = given.map_or_else(|| "jwt".to_owned(), plain);
        self.types.iter().any(|one| plain(one) == given)
    }

    /// Checks the claims of a token whose signature holds. Returns the identity and the second since 1970 at which it expires.
    pub(super) fn check(&self, claims: Map<String, Value>, now: u64) -> Result<(Identity, u64), Refusal> {
        if claims.get("iss").and_then(Value::as_str) != Some(&*self.issuer) {
            return Err(Refusal::Invalid("issuer"));
        }
        let expires = seconds(claims.get("exp")).ok_or(Refusal::Invalid("exp"))?.ok_or(Refusal::Invalid("exp"))?;
        let now_f64 = now as f64;
        let skew = self.skew as f64;
        // RFC 7519, section 4.1.4: "on or after" is too late.
        if now_f64 >= expires + skew {
            return Err(Refusal::Expired);
        }
        for (name, refusal) in
            [("nbf", Refusal::Invalid("not yet valid")), ("iat", Refusal::Invalid("issued in the future"))]
        {
            if let Some(begins) = seconds(claims.get(name)).ok_or(Refusal::Invalid("a time is not a number"))?
                && now_f64 + skew < begins
            {
                return Err(refusal);
            }
        }
        if let Some(audiences) = &self.audience
            && !audience_matches(claims.get("aud"), audiences)
        {
            return Err(Refusal::Invalid("audience"));
        }
        let mut identity = Identity { scopes: scopes(&claims), claims, ..Identity::default() };
        let named = |path: &Option<Box<str>>, who: &Identity| {
            path.as_deref().and_then(|path| who.claim_text(path)).filter(|text| !text.is_empty()).map(Arc::from)
        };
        identity.consumer = named(&self.consumer, &identity);
        identity.tier = named(&self.tier, &identity);
        // Limits and rules by consumer must not treat all tokens without the claim as one consumer.
        if self.consumer.is_some() && identity.consumer.is_none() {
            return Err(Refusal::Invalid("the consumer's claim is missing"));
        }
        Ok((identity, (expires + skew).min(u64::MAX as f64) as u64))
    }
}

/// A NumericDate: any finite number that is not negative. `Some(None)`: absent; `None`: not such a number.
fn seconds(claim: Option<&Value>) -> Option<Option<f64>> {
    match claim {
        None => Some(None),
        Some(Value::Number(number)) => number.as_f64().filter(|value| value.is_finite() && *value >= 0.0).map(Some),
        Some(_) => None,
    }
}

/// `aud` is one text or a list of them; a list with anything else matches nothing.
fn audience_matches(claim: Option<&Value>, wanted: &[Box<str>]) -> bool {
    let is_wanted = |name: &str| wanted.iter().any(|one| &**one == name);
    match claim {
        Some(Value::String(name)) => is_wanted(name),
        Some(Value::Array(names)) => {
            names.iter().all(Value::is_string) && names.iter().filter_map(Value::as_str).any(is_wanted)
        }
        _ => false,
    }
}

/// `scope` (RFC 8693, section 4.2: words with blanks between), else `scp` (a list, or words).
fn scopes(claims: &Map<String, Value>) -> Vec<Box<str>> {
    let words = |text: &str| text.split(' ').filter(|word| !word.is_empty()).map(Into::into).collect();
    match claims.get("scope").or_else(|| claims.get("scp")) {
        Some(Value::String(text)) => words(text),
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).map(Into::into).collect(),
        _ => Vec::new(),
    }
}
