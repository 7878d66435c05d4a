//! What an entry means: whose the key is, and where and when it may be used.

use std::sync::Arc;

use super::entry::{Entry, seconds};
use crate::{Identity, Refusal};

/// A key in force.
#[derive(Debug)]
pub struct Record {
    id: Box<str>,
    identity: Arc<Identity>,
    routes: Box<[Box<str>]>,
    not_before: i64,
    expires: i64,
    disabled: bool,
}

impl Record {
    /// What an entry means.
    ///
    /// # Errors
    /// An `id` or `consumer` that is empty, or a moment that cannot be read. The text says what is wrong, without any part of a key.
    pub fn of(entry: Entry) -> Result<Self, String> {
        if entry.id.is_empty() || entry.consumer.is_empty() {
            return Err("`id` and `consumer` must not be empty".to_owned());
        }
        let moment = |text: &Option<String>, otherwise| text.as_deref().map_or(Ok(otherwise), seconds);
        Ok(Self {
            not_before: moment(&entry.not_before, i64::MIN)?,
            expires: moment(&entry.expires, i64::MAX)?,
            identity: Arc::new(Identity {
                consumer: Some(entry.consumer.into()),
                key_id: Some(entry.id.as_str().into()),
                tier: entry.tier.map(Into::into),
                scopes: entry.scopes.into_iter().map(Into::into).collect(),
                models: (!entry.models.is_empty()).then(|| entry.models.into_iter().map(Into::into).collect()),
                priority: entry.priority.unwrap_or_default(),
                may_explain: entry.explain,
                meta: entry.meta.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
                ..Identity::default()
            }),
            routes: entry.routes.into_iter().map(Into::into).collect(),
            disabled: entry.disabled,
            id: entry.id.into(),
        })
    }

    /// The public name of the key.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whose key it is, if it may be used. `route` is the name of the route, `now` seconds since 1970.
    ///
    /// # Errors
    /// [`Refusal::Revoked`] for a disabled key, [`Refusal::Invalid`] before its time, [`Refusal::Expired`] after it,
    /// [`Refusal::Forbidden`] on a route that it does not open.
    pub fn admit(&self, route: &str, now: i64) -> Result<&Arc<Identity>, Refusal> {
        self.check(now)?;
        if !self.routes.is_empty() && !self.routes.iter().any(|one| &**one == route) {
            return Err(Refusal::Forbidden("route"));
        }
        Ok(&self.identity)
    }

    /// Whether it may be used at all, in seconds since 1970.
    ///
    /// # Errors
    /// As [`Self::admit`], but for routes.
    pub fn check(&self, now: i64) -> Result<(), Refusal> {
        if self.disabled {
            return Err(Refusal::Revoked);
        }
        if now < self.not_before {
            return Err(Refusal::Invalid("not yet valid"));
        }
        if now >= self.expires {
            return Err(Refusal::Expired);
        }
        Ok(())
    }

    /// Whose key it is, whether or not it may be used.
    #[must_use]
    pub fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// Names of the routes that it opens; empty: all that accept its authenticator.
    #[must_use]
    pub fn routes(&self) -> &[Box<str>] {
        &self.routes
    }

    /// When it ends, in seconds since 1970; `None`: never.
    #[must_use]
    pub fn expires(&self) -> Option<i64> {
        (self.expires != i64::MAX).then_some(self.expires)
    }
}
