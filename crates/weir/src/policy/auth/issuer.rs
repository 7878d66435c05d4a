//! The key set of an issuer: fetched by one task, waited for by requests whose tokens name a key that is new.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use auth::jwks::{KeySet, Refresh, Timing, Unknown};
use tokio::sync::{Notify, watch};

use super::fetch;
use super::shared::{Material, MaterialOf, Shared};
use crate::config::{AuthMethod, TokenKeys};
use crate::runtime::clock;
use crate::upstream::Resolver;

/// Requests of one issuer that wait for a key; further ones are refused.
const MOST_WAITING: usize = 1000;
/// A request waits so long for a key.
const WAIT: Duration = Duration::from_secs(1);

/// What is known of an issuer's key set.
pub(super) struct Issuer {
    state: Mutex<Refresh>,
    /// A request wants a fetch; it has begun it in `state`.
    wanted: Notify,
    /// Sent after each fetch.
    fetched: watch::Sender<()>,
    waiting: AtomicUsize,
    /// Fetches that returned a set, and those that did not.
    outcomes: [AtomicU64; 2],
    /// When a fetch failed last, and why.
    failure: Mutex<Option<(u64, String)>>,
    is_followed: AtomicBool,
}

impl Default for Issuer {
    fn default() -> Self {
        Issuer {
            state: Mutex::new(Refresh::new(Timing::default())),
            wanted: Notify::new(),
            fetched: watch::Sender::new(()),
            waiting: AtomicUsize::new(0),
            outcomes: Default::default(),
            failure: Mutex::default(),
            is_followed: AtomicBool::new(false),
        }
    }
}

/// Seconds of a clock that does not go back.
fn now() -> u64 {
    Instant::now().saturating_duration_since(clock::process_start()).as_secs()
}

/// From 0 to 1: gateways that start together do not fetch together.
fn spread() -> f64 {
    RandomState::new().hash_one(0u8) as f64 / u64::MAX as f64
}

impl Issuer {
    fn state(&self) -> MutexGuard<'_, Refresh> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the set that was fetched last may still be used.
    pub(super) fn is_usable(&self) -> bool {
        self.state().usable(now())
    }

    /// Fetches so far, by the label `outcome` of metrics.
    pub(super) fn outcomes(&self) -> [(&'static str, u64); 2] {
        let [ok, failed] = self.outcomes.each_ref().map(|count| count.load(Ordering::Relaxed));
        [("ok", ok), ("failed", failed)]
    }

    /// Seconds since the set in use was fetched.
    pub(super) fn age(&self) -> Option<u64> {
        self.state().age(now())
    }

    /// How many seconds ago a fetch failed last, and why.
    pub(super) fn last_failure(&self) -> Option<(u64, String)> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        failure.map(|(at, why)| (now().saturating_sub(at), why))
    }

    /// Waits for the set to be fetched because of a key that it does not have. `false`: it was not, and is not going to be.
    pub(super) async fn wait_for_key(&self, kid: &str) -> bool {
        let mut fetched = self.fetched.subscribe();
        {
            let mut state = self.state();
            match state.unknown_key(kid, now()) {
                Unknown::Refuse => return false,
                Unknown::Wait => {}
                Unknown::Fetch => {
                    state.begin();
                    self.wanted.notify_one();
                }
            }
        }
        let _place = Waiting::take(&self.waiting);
        if self.waiting.load(Ordering::Relaxed) > MOST_WAITING {
            return false;
        }
        tokio::time::timeout(WAIT, fetched.changed()).await.is_ok()
    }

    /// The set that was fetched does not have the key either.
    pub(super) fn still_unknown(&self, kid: &str) {
        self.state().still_unknown(kid, now());
    }
}

/// A place among those who wait; free again when the request ends, however it ends.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn take(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts the task that fetches an issuer's keys, unless it runs. It ends when nothing uses the authenticator any more.
pub(super) fn follow(shared: &Arc<Shared>, resolver: &Resolver) {
    if let Some(issuer) = &shared.issuer
        && !issuer.is_followed.swap(true, Ordering::Relaxed)
    {
        tokio::spawn(fetch_forever(Arc::downgrade(shared), issuer.clone(), resolver.clone()));
    }
}

async fn fetch_forever(shared: Weak<Shared>, issuer: Arc<Issuer>, resolver: Resolver) {
    /// How often it is looked whether anything still uses the keys.
    const LOOK: Duration = Duration::from_secs(60);
    loop {
        let due = issuer.state().due();
        let pause = due.map_or(LOOK, |due| Duration::from_secs(due.saturating_sub(now()))).min(LOOK);
        let is_wanted = tokio::select! {
            () = issuer.wanted.notified() => true,
            () = tokio::time::sleep(pause) => false,
        };
        let Some(shared) = shared.upgrade() else { return };
        let is_due = issuer.state().due().is_some_and(|due| due <= now());
        if is_wanted || (is_due && issuer.state().begin()) {
            fetch_once(&shared, &issuer, &resolver).await;
        }
    }
}

async fn fetch_once(shared: &Shared, issuer: &Issuer, resolver: &Resolver) {
    let AuthMethod::Jwt(jwt) = &shared.spec.method else { return };
    let TokenKeys::Issuer(keys) = &jwt.keys else { return };
    let fetched = fetch::key_set(keys, &jwt.verifier.expected.issuer, resolver).await;
    let set = fetched.and_then(|fetched| {
        let set = KeySet::parse(&fetched.text, &jwt.verifier.algorithms).map_err(|error| error.to_string())?;
        Ok((set, fetched.max_age))
    });
    let auth = &*shared.spec.name;
    match set {
        Ok((set, max_age)) => {
            for (key, problem) in &set.skipped {
                tracing::debug!(auth, key, %problem, "a key of the issuer is left out");
            }
            tracing::info!(auth, keys = set.keys.len(), "the issuer's keys were fetched");
            shared.material.store(Arc::new(Material::new(MaterialOf::Tokens(Arc::new(set)))));
            issuer.outcomes[0].fetch_add(1, Ordering::Relaxed);
            issuer.state().succeeded(now(), max_age, spread());
        }
        Err(error) => {
            let age = issuer.state().age(now());
            tracing::error!(
                auth,
                age_seconds = age,
                "the issuer's keys were not fetched, those before stay in force: {error}"
            );
            *issuer.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some((now(), error));
            issuer.outcomes[1].fetch_add(1, Ordering::Relaxed);
            issuer.state().failed(now(), spread());
        }
    }
    issuer.fetched.send_replace(());
}
