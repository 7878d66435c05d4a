//! Authenticators as all workers share them, and the files that they follow.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use auth::api_key::Store;
use auth::basic::Htpasswd;
use auth::jwks::KeySet;

use super::issuer::{self, Issuer};
use super::passwords::Passwords;
use super::remote_keys::RemoteKeys;
use crate::config::ForgedNames;
use crate::config::{AuthMethod, Authenticator, Config, KeyStore, TokenKeys};
use crate::observe::metrics::Exposition;
use crate::redis::Redis;
use crate::runtime::fingerprint::Fingerprint;
use crate::upstream::Resolver;

/// The authenticators of a configuration; by [`AuthId`](crate::config::AuthId).
pub struct Authenticators {
    list: Vec<Arc<Shared>>,
    /// Names that clients must not send.
    pub forged: ForgedNames,
    passwords: OnceLock<Passwords>,
    is_following: AtomicBool,
}

pub(super) struct Shared {
    pub(super) spec: Authenticator,
    pub(super) material: ArcSwap<Material>,
    /// Where keys come from an issuer.
    pub(super) issuer: Option<Arc<Issuer>>,
    /// What the file looked like when it was read last.
    seen: Mutex<Option<Fingerprint>>,
}

/// What credentials are compared with.
pub(super) struct Material {
    /// Another number for every change of it in this process.
    pub(super) generation: u64,
    pub(super) of: MaterialOf,
}

pub(super) enum MaterialOf {
    Keys(Arc<Store>),
    /// Keys are looked up in Redis.
    RemoteKeys(Arc<RemoteKeys>),
    Tokens(Arc<KeySet>),
    /// The secret is part of the configuration.
    Secret,
    /// The issuer's keys were not fetched yet.
    Pending,
    Users(Arc<Htpasswd>),
    /// Another service compares, or the handshake did.
    Elsewhere,
}

impl Material {
    pub(super) fn new(of: MaterialOf) -> Self {
        static GENERATION: AtomicU64 = AtomicU64::new(1);
        Material { generation: GENERATION.fetch_add(1, Ordering::Relaxed), of }
    }
}

impl Authenticators {
    /// Those of a configuration, with what its files held when it was read, and what the configuration before had fetched: keys of issuers,
    /// and API keys of Redis.
    pub fn new(config: &Config, redis: Option<&Arc<Redis>>, before: Option<&Authenticators>) -> Self {
        let shared = |spec: &Authenticator| {
            let known =
                before.and_then(|before| before.list.iter().find(|one| one.issuer.is_some() && one.spec == *spec));
            if let Some(known) = known {
                return known.clone();
            }
            let material = match &spec.method {
                AuthMethod::ApiKey(keys) => match (&keys.store, redis) {
                    (KeyStore::File(_, store) | KeyStore::Variable(_, store), _) => MaterialOf::Keys(store.clone()),
                    (KeyStore::Redis(remote), Some(redis)) => {
                        let before = before.and_then(|before| before.remote_keys().find(|keys| keys.is_of(&spec.name)));
                        let pepper = keys.pepper.as_ref();
                        MaterialOf::RemoteKeys(RemoteKeys::new(&spec.name, *remote, pepper, redis, before.as_ref()))
                    }
                    // A configuration without the Redis that it needs was refused.
                    (KeyStore::Redis(_), None) => MaterialOf::Elsewhere,
                },
                AuthMethod::Jwt(jwt) => match &jwt.keys {
                    TokenKeys::File(_, set) => MaterialOf::Tokens(set.clone()),
                    TokenKeys::Secret(..) => MaterialOf::Secret,
                    TokenKeys::Issuer(_) => MaterialOf::Pending,
                },
                AuthMethod::Basic(basic) => MaterialOf::Users(basic.users.clone()),
                AuthMethod::Mtls(_) | AuthMethod::Authorizer(_) => MaterialOf::Elsewhere,
            };
            // Whether the file changed since it was read is not known: the first look reads it again.
            let issuer = matches!(material, MaterialOf::Pending).then(Arc::default);
            let material = ArcSwap::from_pointee(Material::new(material));
            Arc::new(Shared { spec: spec.clone(), material, issuer, seen: Mutex::default() })
        };
        Authenticators {
            list: config.auth.iter().map(shared).collect(),
            forged: ForgedNames::new(&config.auth),
            passwords: OnceLock::new(),
            is_following: AtomicBool::new(false),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn get(&self, index: usize) -> Option<&Shared> {
        self.list.get(index).map(|one| &**one)
    }

    /// Fetches the keys of issuers from now on; to be called on the control thread's runtime.
    pub fn follow_issuers(&self, resolver: &Resolver) {
        for one in &self.list {
            issuer::follow(one, resolver);
        }
    }

    /// Writes what is known of issuers' keys.
    ///
    /// # Errors
    /// Only those of `out`.
    pub fn collect_issuers(&self, out: &mut Exposition<'_>) -> fmt::Result {
        let issuers = || self.list.iter().filter_map(|one| Some((&*one.spec.name, one.issuer.as_ref()?)));
        out.counter("jwks_refresh", "Fetches of an issuer's keys, by outcome", |s| {
            issuers().try_for_each(|(auth, issuer)| {
                let mut outcomes = issuer.outcomes().into_iter();
                outcomes.try_for_each(|(outcome, count)| s.add(&[("auth", auth), ("outcome", outcome)], count))
            })
        })?;
        out.gauge("jwks_age_seconds", "Seconds since the issuer's keys in use were fetched", |s| {
            let known = issuers().filter_map(|(auth, issuer)| Some((auth, issuer.age()?)));
            known.into_iter().try_for_each(|(auth, age)| s.add(&[("auth", auth)], age))
        })
    }

    /// API keys in Redis.
    pub(super) fn remote_keys(&self) -> impl Iterator<Item = Arc<RemoteKeys>> {
        self.list.iter().filter_map(|one| match &one.material.load().of {
            MaterialOf::RemoteKeys(keys) => Some(keys.clone()),
            _ => None,
        })
    }

    /// Whether some keys are in Redis.
    pub fn uses_redis(&self) -> bool {
        self.remote_keys().next().is_some()
    }

    /// Writes what is known of API keys in Redis.
    ///
    /// # Errors
    /// Only those of `out`.
    pub fn collect_remote_keys(&self, out: &mut Exposition<'_>) -> fmt::Result {
        let all: Vec<Arc<RemoteKeys>> = self.remote_keys().collect();
        if all.is_empty() {
            return Ok(());
        }
        out.counter("api_key_lookups", "Look-ups of API keys in Redis, by outcome", |s| {
            all.iter().try_for_each(|keys| {
                let mut outcomes = keys.outcomes();
                outcomes.try_for_each(|(outcome, count)| s.add(&[("auth", keys.name()), ("outcome", outcome)], count))
            })
        })?;
        out.gauge(
            "api_keys_cached",
            "API keys of Redis whose look-up is cached, and keys that are cached as unknown",
            |s| {
                all.iter().try_for_each(|keys| {
                    let mut held = ["known", "unknown"].into_iter().zip(keys.held());
                    held.try_for_each(|(kind, count)| s.add(&[("auth", keys.name()), ("kind", kind)], count as u64))
                })
            },
        )?;
        out.gauge("api_key_changes_followed", "1 while changes of API keys in Redis are told to this process", |s| {
            all.iter().try_for_each(|keys| s.add(&[("auth", keys.name())], u64::from(keys.is_current())))
        })
    }

    pub(super) fn passwords(&self) -> &Passwords {
        self.passwords.get_or_init(Passwords::start)
    }

    /// Reads the files again that changed since they were read. A file that cannot be used leaves in force what it held before. Blocks;
    /// a second call beside the first does nothing.
    pub fn follow_files(&self) {
        if self.is_following.swap(true, Ordering::Acquire) {
            return;
        }
        for one in &self.list {
            one.follow_file();
        }
        self.is_following.store(false, Ordering::Release);
    }
}

impl Shared {
    fn file(&self) -> Option<&Path> {
        match &self.spec.method {
            AuthMethod::ApiKey(keys) => match &keys.store {
                KeyStore::File(path, _) => Some(path),
                KeyStore::Variable(..) | KeyStore::Redis(_) => None,
            },
            AuthMethod::Basic(basic) => Some(&basic.file),
            AuthMethod::Jwt(jwt) => match &jwt.keys {
                TokenKeys::File(path, _) => Some(path),
                TokenKeys::Secret(..) | TokenKeys::Issuer(_) => None,
            },
            AuthMethod::Mtls(_) | AuthMethod::Authorizer(_) => None,
        }
    }

    fn follow_file(&self) {
        let Some(path) = self.file() else { return };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // Before it is read: a change in between is seen by the next look.
        let now = Fingerprint::of(path);
        if now == *seen {
            return;
        }
        let is_first = seen.is_none();
        *seen = now;
        let read = std::fs::read(path).map_err(|error| error.to_string());
        let text = read.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "not valid UTF-8".to_owned()));
        match text.and_then(|text| self.read(&text)) {
            Ok(material) => {
                self.material.store(Arc::new(material));
                // The first look is at what the configuration was read with, as a rule.
                if is_first {
                    return;
                }
                tracing::info!(auth = &*self.spec.name, file = %path.display(), "credentials were read again");
            }
            Err(error) => tracing::error!(
                auth = &*self.spec.name,
                file = %path.display(),
                "credentials were not read again, those before stay in force: {error}"
            ),
        }
    }

    fn read(&self, text: &str) -> Result<Material, String> {
        Ok(Material::new(match &self.spec.method {
            AuthMethod::ApiKey(keys) => {
                let pepper = keys.pepper.as_deref().map(str::as_bytes);
                MaterialOf::Keys(Arc::new(Store::read(text, pepper).map_err(|error| error.to_string())?))
            }
            AuthMethod::Jwt(jwt) => {
                let set =
                    KeySet::parse(text.as_bytes(), &jwt.verifier.algorithms).map_err(|error| error.to_string())?;
                MaterialOf::Tokens(Arc::new(set))
            }
            AuthMethod::Basic(_) => {
                MaterialOf::Users(Arc::new(Htpasswd::read(text).map_err(|error| error.to_string())?))
            }
            AuthMethod::Mtls(_) | AuthMethod::Authorizer(_) => MaterialOf::Elsewhere,
        }))
    }
}
