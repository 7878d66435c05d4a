//! Authentication as one worker does it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use auth::basic::{Credentials, VerifiedPasswords};
use auth::jwt::{Keys, Rejected, TokenCache};
use auth::{Challenge, Identity, Refusal};

use super::authorizer::Verdicts;
use super::credentials::{Form, Head};
use super::edits::write_identity;
use super::shared::{Authenticators, Material, MaterialOf, Shared};
use crate::config::{AuthId, AuthMethod, Authorizer, Jwt, RouteAuth, TokenKeys};
use crate::observe::{AuthMetrics, Shard};
use crate::redis::Client;

/// Passwords that one worker stores.
const CACHED: usize = 10_000;

/// The authenticators of a configuration, for one worker.
pub struct WorkerAuth {
    shared: Arc<Authenticators>,
    list: Vec<One>,
    /// The way to API keys in Redis, where some are there.
    keys_client: Option<Rc<Client>>,
}

struct One {
    metrics: AuthMetrics,
    tokens: RefCell<TokenCache>,
    /// None where passwords are not requested, or the system has no random bytes: then each is hashed.
    passwords: RefCell<Option<VerifiedPasswords>>,
    verdicts: Verdicts,
}

impl WorkerAuth {
    /// A worker's view. `keys_client` leads to the Redis of its API keys.
    pub fn new(shared: Arc<Authenticators>, keys_client: Option<Rc<Client>>, shard: &Shard) -> Self {
        let one = |one: &Shared| One {
            metrics: shard.auth(&one.spec.name),
            tokens: RefCell::default(),
            passwords: RefCell::new(match one.spec.method {
                AuthMethod::Basic(_) => VerifiedPasswords::new(CACHED).ok(),
                _ => None,
            }),
            verdicts: Verdicts::default(),
        };
        let list = (0..).map_while(|index| shared.get(index)).map(one).collect();
        shared.remote_keys().for_each(|keys| keys.follow());
        WorkerAuth { shared, list, keys_client }
    }

    /// The way to API keys in Redis.
    pub fn keys_client(&self) -> Option<&Rc<Client>> {
        self.keys_client.as_ref()
    }

    /// What all workers share.
    pub fn shared(&self) -> &Authenticators {
        &self.shared
    }

    /// The first alternative whose credentials are all there. An authorizer always counts as there: which credentials it reads is not known here.
    ///
    /// # Errors
    /// Credentials that cannot be read.
    pub fn choose<'r>(&self, route: &'r RouteAuth, head: Head<'_>) -> Result<Option<&'r [AuthId]>, Refusal> {
        for all in &route.alternatives {
            let mut are_there = true;
            for id in all {
                are_there &= self.has_credential(*id, route, head)?;
            }
            if are_there {
                return Ok(Some(all));
            }
        }
        Ok(None)
    }

    /// An authorizer and its cached verdicts; `None` for authenticators that check here.
    pub fn authorizer(&self, id: AuthId) -> Option<(&Authorizer, &Verdicts)> {
        match (&self.shared.get(id.0)?.spec.method, self.list.get(id.0)?) {
            (AuthMethod::Authorizer(authorizer), own) => Some((authorizer, &own.verdicts)),
            _ => None,
        }
    }

    /// Counts what came of an authenticator.
    pub fn count_one(&self, id: AuthId, refusal: Option<&Refusal>) {
        if let Some(one) = self.list.get(id.0) {
            one.metrics.counted(refusal);
        }
    }

    /// Counts a request that passes because its authorizer gives no response.
    pub fn count_failed_open(&self, id: AuthId) {
        if let Some(one) = self.list.get(id.0) {
            one.metrics.failed_open();
        }
    }

    /// Counts whether a verdict was stored.
    pub fn count_cached(&self, id: AuthId, is_hit: bool) {
        if let Some(one) = self.list.get(id.0) {
            one.metrics.verified(is_hit);
        }
    }

    /// Counts how long an authorizer took.
    pub fn count_duration(&self, id: AuthId, ns: u64) {
        if let Some(one) = self.list.get(id.0) {
            one.metrics.authorizer_took(ns);
        }
    }

    /// Counts a refusal that no authenticator decided, for the first one of the route.
    pub fn count(&self, route: &RouteAuth, refusal: &Refusal) {
        if let Some(one) = route.alternatives.first().and_then(|all| all.first()).and_then(|id| self.list.get(id.0)) {
            one.metrics.counted(Some(refusal));
        }
    }

    fn has_credential(&self, id: AuthId, route: &RouteAuth, head: Head<'_>) -> Result<bool, Refusal> {
        let Some(shared) = self.shared.get(id.0) else { return Ok(false) };
        Ok(match &shared.spec.method {
            AuthMethod::ApiKey(keys) => head.api_key(&keys.places, form(route, Form::Key))?.is_some(),
            AuthMethod::Jwt(_) => head.bearer(form(route, Form::Jwt))?.is_some(),
            AuthMethod::Basic(_) => head.authorization("basic")?.is_some(),
            AuthMethod::Mtls(mtls) => head.certificate.is_some_and(|certificate| certificate.is_for(mtls)),
            AuthMethod::Authorizer(_) => true,
        })
    }

    /// Compares the credentials of one authenticator. `now` is seconds since 1970, `name` the route's.
    ///
    /// # Errors
    /// Why they do not hold.
    pub async fn authenticate(
        &self,
        id: AuthId,
        route: &RouteAuth,
        head: Head<'_>,
        name: &str,
        now: u64,
    ) -> Result<Arc<Identity>, Refusal> {
        let (Some(shared), Some(own)) = (self.shared.get(id.0), self.list.get(id.0)) else {
            return Err(Refusal::Missing);
        };
        let material = shared.material.load();
        match (&shared.spec.method, &material.of) {
            (AuthMethod::ApiKey(keys), MaterialOf::Keys(store)) => {
                let key = head.api_key(&keys.places, form(route, Form::Key))?.ok_or(Refusal::Missing)?;
                Ok(store.find(key, name, now as i64)?.identity.clone())
            }
            (AuthMethod::ApiKey(keys), MaterialOf::RemoteKeys(remote)) => {
                let key = head.api_key(&keys.places, form(route, Form::Key))?.ok_or(Refusal::Missing)?;
                let digest = remote.digest(key)?;
                let remote = remote.clone();
                drop(material);
                let client =
                    self.keys_client.as_ref().ok_or(Refusal::Unavailable("there is no way to the key store"))?;
                let is_hit = Cell::new(false);
                let found = remote.find(client, digest, &is_hit).await;
                own.metrics.verified(is_hit.get());
                Ok(found?.admit(name, now as i64)?.clone())
            }
            (AuthMethod::Jwt(_), _) => {
                let token = head.bearer(form(route, Form::Jwt))?.ok_or(Refusal::Missing)?;
                drop(material);
                verify_or_fetch(shared, &own.tokens, token, now).await
            }
            (AuthMethod::Basic(_), MaterialOf::Users(users)) => {
                let credentials = Credentials::parse(head.authorization("basic")?.ok_or(Refusal::Missing)?)?;
                let users = users.clone();
                drop(material);
                let is_cached =
                    own.passwords.borrow_mut().as_mut().is_some_and(|known| known.holds(&users, &credentials, now));
                if !is_cached {
                    let verified = self.shared.passwords().verify(users.clone(), credentials.clone()).await;
                    if !verified.ok_or(Refusal::Unavailable("too many passwords wait to be checked"))? {
                        return Err(Refusal::Invalid("name or password"));
                    }
                    if let Some(known) = own.passwords.borrow_mut().as_mut() {
                        known.insert(&users, &credentials, now);
                    }
                }
                Ok(Arc::new(Identity { consumer: Some(credentials.user.into()), ..Identity::default() }))
            }
            (AuthMethod::Mtls(mtls), _) => {
                let certificate = head.certificate.filter(|certificate| certificate.is_for(mtls));
                certificate.ok_or(Refusal::Missing)?.owner(mtls, now)
            }
            _ => Err(Refusal::Unavailable("the authenticator has nothing to compare with")),
        }
    }

    /// Appends the fields that the upstream is told by about the sender that one authenticator found.
    pub fn write_identity(&self, out: &mut Vec<u8>, by: AuthId, head: Head<'_>, who: &Identity) {
        let Some(shared) = self.shared.get(by.0) else { return };
        write_identity(out, &shared.spec.headers, who);
        if let (AuthMethod::Mtls(mtls), Some(certificate)) = (&shared.spec.method, head.certificate) {
            certificate.write_line(mtls, out);
        }
    }

    /// Appends a challenge for each scheme that the route accepts (RFC 9110, section 11.6.1).
    pub fn write_challenges(&self, out: &mut Vec<u8>, route: &RouteAuth, refusal: &Refusal) {
        let mut requested: Vec<Challenge> = Vec::new();
        for id in route.alternatives.iter().flatten() {
            let Some(shared) = self.shared.get(id.0) else { continue };
            let (challenge, realm) = match &shared.spec.method {
                AuthMethod::ApiKey(keys) if keys.places.contains(&crate::config::CredentialPlace::Bearer) => {
                    (Challenge::Bearer, "weir")
                }
                AuthMethod::ApiKey(_) => (Challenge::ApiKey, "weir"),
                AuthMethod::Jwt(_) => (Challenge::Bearer, "weir"),
                AuthMethod::Basic(basic) => (Challenge::Basic, &*basic.realm),
                AuthMethod::Mtls(_) => (Challenge::Certificate, "weir"),
                AuthMethod::Authorizer(_) => continue,
            };
            if requested.contains(&challenge) {
                continue;
            }
            requested.push(challenge);
            if let Some(value) = refusal.challenge(challenge, realm) {
                h1::encode::field(out, b"WWW-Authenticate", value.as_bytes());
            }
        }
    }
}

/// A route with one kind of bearer token takes any for it, so that a broken one is refused as such.
fn form(route: &RouteAuth, own: Form) -> Form {
    if route.separates_bearers { own } else { Form::Any }
}

/// Verifies a token; one whose key is unknown waits for the issuer's keys to be fetched again, where that may be done.
async fn verify_or_fetch(
    shared: &Shared,
    cache: &RefCell<TokenCache>,
    token: &[u8],
    now: u64,
) -> Result<Arc<Identity>, Refusal> {
    let verify = |material: &Material| verify_token(shared, material, &mut cache.borrow_mut(), token, now);
    let unknown = Refusal::Invalid("unknown key");
    let material = shared.material.load();
    let known = material.generation;
    let kid = match verify(&material) {
        Ok(identity) => return Ok(identity),
        Err(Rejected::Refused(refusal)) => return Err(refusal),
        Err(Rejected::UnknownKey(kid)) => kid,
    };
    drop(material);
    let Some(issuer) = &shared.issuer else { return Err(unknown) };
    let has_waited = issuer.wait_for_key(&kid).await;
    let material = shared.material.load();
    // A fetch for another request may have ended behind the look-up above: none is begun so soon behind it, and none is needed.
    if !has_waited && material.generation == known {
        return Err(unknown);
    }
    match verify(&material) {
        Ok(identity) => Ok(identity),
        Err(Rejected::Refused(refusal)) => Err(refusal),
        Err(Rejected::UnknownKey(kid)) => {
            issuer.still_unknown(&kid);
            Err(unknown)
        }
    }
}

/// The keys that verify tokens now.
///
/// # Errors
/// When they are not known.
pub(super) fn keys_of<'m>(shared: &Shared, material: &'m Material, jwt: &'m Jwt) -> Result<Keys<'m>, Refusal> {
    check_usable(shared)?;
    keys_in(material, jwt)
}

fn check_usable(shared: &Shared) -> Result<(), Refusal> {
    match &shared.issuer {
        Some(issuer) if !issuer.is_usable() => Err(Refusal::Unavailable("the issuer's keys could not be fetched")),
        _ => Ok(()),
    }
}

fn keys_in<'m>(material: &'m Material, jwt: &'m Jwt) -> Result<Keys<'m>, Refusal> {
    match (&material.of, &jwt.keys) {
        (MaterialOf::Tokens(set), _) => Ok(Keys::Public(&set.keys)),
        (_, TokenKeys::Secret(secret, _)) => Ok(Keys::Secret(secret)),
        _ => Err(Refusal::Unavailable("the issuer's keys were not fetched yet")),
    }
}

fn verify_token(
    shared: &Shared,
    material: &Material,
    cache: &mut TokenCache,
    token: &[u8],
    now: u64,
) -> Result<Arc<Identity>, Rejected> {
    let AuthMethod::Jwt(jwt) = &shared.spec.method else { return Err(Refusal::Missing.into()) };
    check_usable(shared)?;
    if let Some(identity) = cache.get(token, material.generation, now) {
        return Ok(identity);
    }
    let keys = keys_in(material, jwt)?;
    let (identity, expires) = jwt.verifier.verify(token, keys, now)?;
    cache.insert(token, material.generation, identity.clone(), expires, now);
    Ok(identity)
}

/// One sender who showed two credentials: what the first does not say, the second may.
pub fn merge(first: &Identity, second: &Identity) -> Arc<Identity> {
    let mut all = first.clone();
    all.consumer = all.consumer.or_else(|| second.consumer.clone());
    all.tier = all.tier.or_else(|| second.tier.clone());
    all.scopes.extend(second.scopes.iter().filter(|scope| !first.scopes.contains(scope)).cloned());
    // Each of the two says what it allows: both have to.
    all.models = match (&first.models, &second.models) {
        (Some(one), Some(_)) => Some(one.iter().filter(|name| second.may_use_model(name)).cloned().collect()),
        (one, other) => one.as_ref().or(other.as_ref()).cloned(),
    };
    for (name, value) in &second.claims {
        all.claims.entry(name.clone()).or_insert_with(|| value.clone());
    }
    for (name, value) in &second.meta {
        all.meta.entry(name.clone()).or_insert_with(|| value.clone());
    }
    Arc::new(all)
}
