//! What the console shows of authenticators, and what they say about a token that somebody pastes there. No credential is in any of it, nor
//! logged or kept.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use auth::api_key::{Record, Store};
use auth::jwks::KeySet;
use auth::jwt::{Rejected, Unverified};
use auth::{Identity, Refusal, field};
use serde_json::{Map, Value, json};

use super::shared::{Authenticators, MaterialOf, Shared};
use super::worker::{WorkerAuth, keys_of};
use crate::config::raw::secrets::without_tokens;
use crate::config::redact::Redaction;
use crate::config::{
    AuthId, AuthMethod, AuthorizerForm, Config, CredentialPlace, Jwt, KeyStore, Route, RouteAllow, TokenKeys,
};

/// API keys and routes that are listed; the rest is counted.
const LISTED: usize = 100;

impl Authenticators {
    /// Each authenticator in the order of the file.
    pub fn describe(&self, config: &Config) -> Value {
        let now = seconds();
        let list = (0..).map_while(|index| Some((index, self.get(index)?)));
        list.map(|(index, shared)| describe(config, AuthId(index), shared, now)).collect()
    }
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn describe(config: &Config, id: AuthId, shared: &Shared, now: u64) -> Value {
    let material = shared.material.load();
    let mut entry = match &shared.spec.method {
        AuthMethod::ApiKey(keys) => {
            let places: Vec<String> = keys.places.iter().map(place).collect();
            let (source, listed, lookups) = match (&keys.store, &material.of) {
                (KeyStore::File(path, _), MaterialOf::Keys(store)) => {
                    (path.display().to_string(), Some(listed(store, now)), None)
                }
                (KeyStore::Variable(name, _), MaterialOf::Keys(store)) => {
                    (format!("variable {name}"), Some(listed(store, now)), None)
                }
                (_, MaterialOf::RemoteKeys(remote)) => {
                    let counts = remote.outcomes().map(|(name, count)| (name.to_owned(), Value::from(count)));
                    ("Redis".to_owned(), None, Some(counts.collect::<Map<_, _>>()))
                }
                _ => (String::new(), None, None),
            };
            json!({ "method": "api_key", "source": source, "places": places, "keys": listed, "lookups": lookups })
        }
        AuthMethod::Jwt(jwt) => {
            let source = match &jwt.keys {
                TokenKeys::File(path, _) => path.display().to_string(),
                TokenKeys::Secret(..) => "a shared secret".to_owned(),
                TokenKeys::Issuer(keys) => keys.url.as_deref().map_or_else(
                    || "the URL that the issuer\u{2019}s description names".to_owned(),
                    |url| without_tokens(&config.redaction, url),
                ),
            };
            let key_set = match &material.of {
                MaterialOf::Tokens(set) => Some(key_set(set)),
                _ => None,
            };
            let fetches = shared.issuer.as_ref().map(|issuer| {
                let [(_, ok), (_, failed)] = issuer.outcomes();
                let failure = issuer.last_failure();
                let failure = failure.map(|(ago, why)| json!({ "ago": ago, "error": without_queries(&config.redaction, &why) }));
                json!({ "age": issuer.age(), "usable": issuer.is_usable(), "ok": ok, "failed": failed, "last_failure": failure })
            });
            json!({ "method": "jwt", "source": source, "expects": expected(jwt), "key_set": key_set, "fetches": fetches })
        }
        AuthMethod::Basic(basic) => {
            let users = match &material.of {
                MaterialOf::Users(users) => Some(users.len()),
                _ => None,
            };
            json!({ "method": "basic", "source": basic.file.display().to_string(), "users": users })
        }
        AuthMethod::Mtls(mtls) => {
            let names: Vec<&str> = mtls.names.iter().map(|name| name.name()).collect();
            json!({ "method": "mtls", "source": mtls.authorities.join(", "), "expects": format!("name {}", names.join(" or ")) })
        }
        AuthMethod::Authorizer(authorizer) => {
            let method = match authorizer.form {
                AuthorizerForm::Traefik => "forward",
                AuthorizerForm::Nginx => "forward (nginx)",
                AuthorizerForm::Envoy => "ext_authz (HTTP)",
                AuthorizerForm::EnvoyGrpc => "ext_authz (gRPC)",
            };
            let upstream = &config.upstreams[authorizer.action.upstream.0].name;
            let cached = authorizer.cache.as_ref().map(|cache| cache.ttl.as_secs_f64());
            json!({
                "method": method,
                "source": format!("upstream {upstream}, {}", without_tokens(&config.redaction, &authorizer.path)),
                "fails_open": authorizer.fails_open,
                "cached_seconds": cached,
            })
        }
    };
    entry["name"] = (*shared.spec.name).into();
    entry["routes"] = routes_with(config, id);
    entry
}

fn place(place: &CredentialPlace) -> String {
    match place {
        CredentialPlace::Header(name) => format!("header {name}"),
        CredentialPlace::Bearer => "Authorization: Bearer".to_owned(),
    }
}

fn expected(jwt: &Jwt) -> String {
    let expected = &jwt.verifier.expected;
    let audience = expected.audience.as_ref().map_or_else(|| "any".to_owned(), |names| names.join(" or "));
    let algorithms: Vec<&str> = jwt.verifier.algorithms.iter().map(|algorithm| algorithm.name()).collect();
    let (issuer, types) = (&expected.issuer, expected.types.join(" or "));
    format!("issuer {issuer}, audience {audience}, algorithm {}, type {types}", algorithms.join(" or "))
}

fn routes_with(config: &Config, id: AuthId) -> Value {
    let uses = config.routes.iter().filter(|route| route.auth.alternatives.iter().flatten().any(|one| *one == id));
    let names: Vec<&str> = uses.map(|route| &*route.name).collect();
    json!({ "count": names.len(), "names": names.iter().take(LISTED).collect::<Vec<_>>() })
}

/// Those that end first.
fn listed(store: &Store, now: u64) -> Value {
    let mut records: Vec<&Record> = store.records().collect();
    let end = |record: &Record| record.expires().unwrap_or(i64::MAX);
    if records.len() > LISTED {
        records.select_nth_unstable_by_key(LISTED, |record| end(record));
        records.truncate(LISTED);
    }
    records.sort_by(|one, other| (end(one), one.id()).cmp(&(end(other), other.id())));
    let key = |record: &&Record| {
        let state = record.check(now as i64).err().map_or_else(|| "valid".to_owned(), |refusal| words(&refusal));
        json!({ "id": record.id(), "consumer": record.identity().consumer.as_deref(), "expires": record.expires(), "state": state })
    };
    json!({ "count": store.len(), "listed": records.iter().map(key).collect::<Vec<_>>() })
}

fn key_set(set: &KeySet) -> Value {
    let keys = set.keys.iter().map(|key| {
        let algorithms: Vec<&str> = key.algorithms().map(|algorithm| algorithm.name()).collect();
        json!({ "kid": key.kid(), "algorithms": algorithms, "problem": null })
    });
    let skipped = set.skipped.iter();
    let skipped =
        skipped.map(|(name, problem)| json!({ "kid": name, "algorithms": [], "problem": problem.to_string() }));
    keys.chain(skipped).collect()
}

/// URLs within a text may have a token in their query.
fn without_queries(redaction: &Redaction, text: &str) -> String {
    text.split(' ').map(|word| without_tokens(redaction, word)).collect::<Vec<_>>().join(" ")
}

/// What an authenticator says of a token.
enum Judged {
    /// It holds, on these routes if some are named.
    Holds(Arc<Identity>, Vec<Box<str>>),
    /// It does not.
    Refused(String),
    /// A token alone does not decide.
    Undecided(&'static str),
}

impl WorkerAuth {
    /// What a token says, and how requests with it are treated, by each authenticator and each route that a token can open. Nothing is
    /// counted as a request, and no issuer and no authorizer is called.
    pub async fn judge(&self, config: &Config, token: &[u8]) -> Value {
        let now = seconds();
        let mut judged = Vec::new();
        for shared in (0..).map_while(|index| self.shared().get(index)) {
            judged.push(self.judge_one(shared, token, now).await);
        }
        let policies = config.auth.iter().zip(&judged).map(|(spec, judged)| {
            let expects = match &spec.method {
                AuthMethod::Jwt(jwt) => Some(expected(jwt)),
                _ => None,
            };
            let (passes, why, who) = match judged {
                Judged::Holds(who, _) => (Some(true), "", Some(who)),
                Judged::Refused(why) => (Some(false), &**why, None),
                Judged::Undecided(why) => (None, *why, None),
            };
            let who = who.map(|who| json!({ "consumer": who.consumer.as_deref(), "tier": who.tier.as_deref(), "key": who.key_id.as_deref(), "scopes": who.scopes }));
            json!({ "name": &*spec.name, "passes": passes, "why": why, "expects": expects, "who": who })
        });
        let verdict = |route: &Route| {
            let alone = |all: &Vec<AuthId>| if let [only] = all[..] { judged.get(only.0) } else { None };
            let held = route.auth.alternatives.iter().filter_map(alone).find_map(|judged| match judged {
                Judged::Holds(who, routes) => Some((who, routes)),
                Judged::Refused(_) | Judged::Undecided(_) => None,
            });
            let (who, opened) = held?;
            let why = opens(&route.allow, who, opened, &route.name).err().map(|refusal| words(&refusal));
            Some(json!({ "route": &*route.name, "passes": why.is_none(), "why": why }))
        };
        let is_jwt = field::is_jwt(token);
        let Unverified { header, claims } =
            Some(token).filter(|_| is_jwt).and_then(Unverified::read).unwrap_or_default();
        json!({
            "is_jwt": is_jwt,
            "header": header,
            "claims": claims,
            "policies": policies.collect::<Vec<_>>(),
            "routes": config.routes.iter().filter_map(verdict).take(LISTED).collect::<Vec<_>>(),
        })
    }

    async fn judge_one(&self, shared: &Shared, token: &[u8], now: u64) -> Judged {
        let material = shared.material.load_full();
        let refused = |refusal: &Refusal| Judged::Refused(words(refusal));
        match (&shared.spec.method, &material.of) {
            (AuthMethod::ApiKey(_), MaterialOf::Keys(store)) => match store.record(token) {
                Ok(record) => of_record(record, now),
                Err(refusal) => refused(&refusal),
            },
            (AuthMethod::ApiKey(_), MaterialOf::RemoteKeys(remote)) => {
                let found = match (remote.digest(token), self.keys_client()) {
                    (Ok(digest), Some(client)) => remote.find(client, digest, &Cell::new(false)).await,
                    (Ok(_), None) => Err(Refusal::Unavailable("there is no way to the key store")),
                    (Err(refusal), _) => Err(refusal),
                };
                match found {
                    Ok(record) => of_record(&record, now),
                    Err(refusal) => refused(&refusal),
                }
            }
            (AuthMethod::Jwt(jwt), _) => {
                let keys = keys_of(shared, &material, jwt).map_err(Rejected::from);
                match keys.and_then(|keys| jwt.verifier.verify(token, keys, now)) {
                    Ok((who, _)) => Judged::Holds(who, Vec::new()),
                    Err(Rejected::Refused(refusal)) => refused(&refusal),
                    Err(Rejected::UnknownKey(_)) => {
                        let fetched = match &shared.issuer {
                            Some(_) => "; for a request, the issuer\u{2019}s keys are fetched again",
                            None => "",
                        };
                        Judged::Refused(format!("invalid: unknown key{fetched}"))
                    }
                }
            }
            (AuthMethod::Basic(_), _) => Judged::Undecided("it takes a name and a password"),
            (AuthMethod::Mtls(_), _) => Judged::Undecided("it takes a client certificate"),
            (AuthMethod::Authorizer(_), _) => Judged::Undecided("its service decides; it was not called"),
            _ => Judged::Undecided("the authenticator has nothing to compare with"),
        }
    }
}

fn of_record(record: &Record, now: u64) -> Judged {
    match record.check(now as i64) {
        Ok(()) => Judged::Holds(record.identity().clone(), record.routes().to_vec()),
        Err(refusal) => Judged::Refused(format!("{} (key {})", words(&refusal), record.id())),
    }
}

/// Whether a credential that holds opens a route.
fn opens(allow: &RouteAllow, who: &Identity, opened: &[Box<str>], route: &str) -> Result<(), Refusal> {
    if !opened.is_empty() && !opened.iter().any(|one| **one == *route) {
        return Err(Refusal::Forbidden("route"));
    }
    allow.rules.admits(who)
}

/// A refusal for people.
fn words(refusal: &Refusal) -> String {
    match (refusal, refusal.detail()) {
        (Refusal::ScopeMissing(scopes), _) => format!("forbidden: it needs the scopes {scopes}"),
        (_, Some(detail)) => format!("{}: {detail}", refusal.name()),
        (_, None) => refusal.name().to_owned(),
    }
}
