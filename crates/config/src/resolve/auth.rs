//! Authentication: files are read and checked here, so that a configuration is put in force with them or not at all.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use auth::address_list::AddressList;
use auth::allow::Allow;
use auth::api_key::{Store, sha256};
use auth::basic::Htpasswd;
use auth::jwks::KeySet;
use auth::jwt::{Algorithm, Expected, SecretKeys, Verifier};

use tls::client::{Options, Roots};

use super::Resolver;
use super::headers::may_edit;
use crate::forged::is_same_folded;
use crate::problem::Origin;
use crate::raw;
use crate::raw::shape::{Map, OneOrMany, OrNone, Spanned};
use crate::{
    ApiKeys, AuthId, AuthMethod, Authenticator, Basic, CredentialPlace, IdentitySource, IssuerKeys, Jwt, KeyStore,
    RedisKeys, RouteAllow, RouteAuth, TokenKeys,
};

impl Resolver<'_> {
    pub(super) fn auth(&mut self) -> Vec<Authenticator> {
        let file = self.file;
        for all in file.defaults.auth.as_option().into_iter().flat_map(|lists| lists.iter()) {
            self.contradictions(all);
        }
        file.auth.iter().filter_map(|(name, raw)| self.authenticator(name, raw)).collect()
    }

    fn authenticator(&mut self, name: &Spanned<String>, raw: &raw::Authenticator) -> Option<Authenticator> {
        self.check_name(name);
        let kinds = [
            raw.api_key.is_some(),
            raw.jwt.is_some(),
            raw.basic.is_some(),
            raw.mtls.is_some(),
            raw.forward.is_some(),
            raw.ext_authz.is_some(),
        ];
        if kinds.into_iter().filter(|is_given| *is_given).count() != 1 {
            let message = format!(
                "`{}` needs exactly one of `api_key`, `jwt`, `basic`, `mtls`, `forward` and `ext_authz`",
                name.value
            );
            self.problem(name.origin, message);
            return None;
        }
        let (method, forward, headers) = if let Some(keys) = &raw.api_key {
            let headers = self.identity_headers(&keys.headers, |part| part.0.clone());
            (AuthMethod::ApiKey(self.api_keys(keys)?), keys.forward, headers)
        } else if let Some(jwt) = &raw.jwt {
            let headers = self.identity_headers(&jwt.headers, |path| IdentitySource::Claim(path.as_str().into()));
            (AuthMethod::Jwt(Box::new(self.jwt(jwt)?)), jwt.forward, headers)
        } else if let Some(basic) = &raw.basic {
            let headers = self.identity_headers(&basic.headers, |part| part.0.clone());
            (AuthMethod::Basic(self.basic(basic)?), basic.forward, headers)
        } else if let Some(mtls) = &raw.mtls {
            let headers = self.identity_headers(&mtls.headers, |part| part.0.clone());
            (AuthMethod::Mtls(self.mtls(name, mtls)), raw::ForwardCredential::None, headers)
        } else {
            let authorizer = match (&raw.forward, &raw.ext_authz) {
                (Some(forward), _) => self.forward_auth(name, forward)?,
                (None, ext_authz) => self.ext_authz(name, ext_authz.as_ref()?)?,
            };
            (AuthMethod::Authorizer(Box::new(authorizer)), raw::ForwardCredential::Token, Vec::new())
        };
        let forwards = forward == raw::ForwardCredential::Token;
        Some(Authenticator { name: name.as_str().into(), method, forwards, headers })
    }

    fn identity_headers<T>(
        &mut self,
        raw: &Map<T>,
        source: impl Fn(&T) -> IdentitySource,
    ) -> Vec<(Arc<str>, IdentitySource)> {
        for (index, (name, _)) in raw.iter().enumerate() {
            self.check(name.origin, raw::field_name(name).and_then(|()| may_edit(name)));
            let is_known = ["authorization", "cookie"].iter().any(|known| name.eq_ignore_ascii_case(known));
            if is_known || name.eq_ignore_ascii_case(&self.file.request_id.0) {
                self.problem(
                    name.origin,
                    format!("`{}` cannot be used for the identity: it has another meaning", name.value),
                );
            }
            if raw.iter().take(index).any(|(earlier, _)| earlier.eq_ignore_ascii_case(name)) {
                self.problem(name.origin, format!("`{}` occurs twice; names ignore case", name.value));
            }
        }
        raw.iter().map(|(name, value)| (name.as_str().into(), source(value))).collect()
    }

    fn api_keys(&mut self, raw: &Spanned<raw::ApiKey>) -> Option<ApiKeys> {
        if raw.places.is_empty() {
            self.problem(raw.origin, "`in` needs a place, such as `header:X-API-Key`");
        }
        for (index, place) in raw.places.iter().enumerate() {
            if raw.places[..index].contains(place) {
                self.problem(place.origin, format!("`{}` is named twice", place.value));
            }
            if let CredentialPlace::Header(name) = &place.0 {
                self.check(place.origin, may_edit(name));
                if &**name == "authorization" {
                    self.problem(place.origin, "a key in `Authorization` has a scheme: write `bearer`");
                }
            }
        }
        let pepper = raw.pepper.as_ref().map(|pepper| Arc::from(pepper.0.as_str()));
        let store = self.key_store(&raw.store, pepper.as_deref().map(str::as_bytes))?;
        Some(ApiKeys { places: raw.places.iter().map(|place| place.0.clone()).collect(), store, pepper })
    }

    fn key_store(&mut self, raw: &Spanned<raw::KeyStore>, pepper: Option<&[u8]>) -> Option<KeyStore> {
        let raw::KeyStores { file, env, redis } = &raw.0;
        match (file, env, redis) {
            (Some(file), None, None) => {
                let text = self.text_file(file)?;
                let store = self.key_table(&text, pepper, file.origin, &file.value)?;
                Some(KeyStore::File(file.as_str().into(), store))
            }
            (None, Some(name), None) => {
                let Some(text) = (self.environment)(name).filter(|text| !text.is_empty()) else {
                    let message = format!("the environment variable `{}` is not set or is empty", name.value);
                    self.problem(name.origin, message);
                    return None;
                };
                let store = self.key_table(&text, pepper, name.origin, &format!("${}", name.value))?;
                Some(KeyStore::Variable(name.as_str().into(), store))
            }
            (None, None, Some(redis)) => {
                self.needs_redis(raw.origin);
                Some(KeyStore::Redis(RedisKeys {
                    stale: redis.stale.as_option().map_or(Duration::ZERO, |stale| stale.0),
                }))
            }
            _ => {
                self.problem(raw.origin, "`store` needs exactly one of `file`, `env` and `redis`");
                None
            }
        }
    }

    fn key_table(&mut self, text: &str, pepper: Option<&[u8]>, origin: Origin, source: &str) -> Option<Arc<Store>> {
        match Store::read(text, pepper) {
            Ok(store) => Some(Arc::new(store)),
            Err(error) => {
                self.problem(origin, format!("{source}: {error}"));
                None
            }
        }
    }

    fn jwt(&mut self, raw: &Spanned<raw::Jwt>) -> Option<Jwt> {
        if raw.issuer.is_empty() {
            self.problem(raw.issuer.origin, "`issuer` must not be empty");
        }
        let audience = match &*raw.audience.0 {
            [] => {
                self.problem(raw.origin, "`audience` needs a name, or `any` for tokens of every audience");
                None
            }
            [any] if any.value == "any" => None,
            names => Some(names.iter().map(|name| name.as_str().into()).collect()),
        };
        let algorithms = self.algorithms(raw);
        if raw.jwks.as_ref().is_some_and(|jwks| jwks.url.as_deref() == Some("discover")) {
            self.check(
                raw.issuer.origin,
                IssuerKeys::check_url(&raw.issuer)
                    .map_err(|why| format!("`discover` sends a request to the issuer: {why}")),
            );
        }
        let keys = match (&raw.jwks, &raw.secret) {
            (Some(jwks), None) => self.key_set(jwks, &algorithms)?,
            (None, Some(secret)) => match SecretKeys::new(secret.0.as_bytes(), &algorithms) {
                Ok(keys) => TokenKeys::Secret(Arc::new(keys), sha256(secret.0.as_bytes())),
                Err(problem) => {
                    self.problem(secret.origin, problem.to_string());
                    return None;
                }
            },
            (None, None) => {
                self.problem(raw.origin, "`jwt` needs `jwks` or `secret`");
                return None;
            }
            // A token could be made with the public key as the secret (RFC 8725, section 2.1).
            (Some(_), Some(secret)) => {
                self.problem(secret.origin, "an issuer has `jwks` or `secret`, not both");
                return None;
            }
        };
        let claim = |name: &OrNone<String>| name.as_option().map(|name| name.as_str().into());
        Some(Jwt {
            verifier: Verifier {
                algorithms,
                expected: Expected {
                    issuer: raw.issuer.as_str().into(),
                    audience,
                    types: raw.typ.iter().map(|name| name.as_str().into()).collect(),
                    skew: raw.skew.0.as_secs(),
                    consumer: claim(&raw.consumer),
                    tier: claim(&raw.tier),
                },
            },
            keys,
        })
    }

    fn algorithms(&mut self, raw: &Spanned<raw::Jwt>) -> Vec<Algorithm> {
        let is_secret = raw.secret.is_some();
        let mut algorithms = Vec::new();
        for name in &raw.algorithms {
            match Algorithm::named(name) {
                Some(algorithm) if algorithm.is_symmetric() == is_secret => algorithms.push(algorithm),
                Some(_) if is_secret => {
                    self.problem(name.origin, format!("`{}` needs `jwks`, not `secret`", name.value));
                }
                Some(_) => self.problem(name.origin, format!("`{}` needs `secret`, not `jwks`", name.value)),
                None => {
                    let known: Vec<&str> = Algorithm::ALL.iter().map(|one| one.name()).collect();
                    let message = format!("`{}` is not accepted; expected {}", name.value, known.join(", "));
                    self.problem(name.origin, message);
                }
            }
        }
        match (algorithms.is_empty(), is_secret) {
            (false, _) => algorithms,
            (true, true) => vec![Algorithm::Hs256],
            (true, false) => vec![Algorithm::Rs256, Algorithm::Es256],
        }
    }

    fn key_set(&mut self, raw: &Spanned<raw::Jwks>, algorithms: &[Algorithm]) -> Option<TokenKeys> {
        let file = match (&raw.file, &raw.url) {
            (Some(file), None) => file.clone(),
            (None, Some(url)) => return self.issuer_keys(raw, url),
            _ => {
                self.problem(raw.origin, "`jwks` needs `file` or `url`");
                return None;
            }
        };
        if raw.roots.is_some() {
            self.problem(raw.origin, "`roots` needs a `url`");
        }
        let text = self.text_file(&Spanned::new(file.clone(), raw.origin))?;
        match KeySet::parse(text.as_bytes(), algorithms) {
            Ok(set) => Some(TokenKeys::File(file.into(), Arc::new(set))),
            Err(error) => {
                self.problem(raw.origin, format!("{file}: {error}"));
                None
            }
        }
    }

    fn issuer_keys(&mut self, raw: &Spanned<raw::Jwks>, url: &str) -> Option<TokenKeys> {
        let url = (url != "discover").then_some(url);
        if let Some(url) = url {
            self.check(raw.origin, IssuerKeys::check_url(url));
        }
        let roots = raw.roots.as_ref().map(|path| self.authorities(path, raw.origin));
        Some(TokenKeys::Issuer(IssuerKeys {
            url: url.map(Into::into),
            roots: raw.roots.as_ref().map(Into::into),
            tls: Arc::new(Options { roots: roots.map_or(Roots::System, Roots::These), ..Options::default() }),
        }))
    }

    fn basic(&mut self, raw: &Spanned<raw::Basic>) -> Option<Basic> {
        let text = self.text_file(&raw.file)?;
        match Htpasswd::read(&text) {
            Ok(users) => Some(Basic {
                file: raw.file.as_str().into(),
                realm: raw.realm.0.as_str().into(),
                users: Arc::new(users),
            }),
            Err(error) => {
                self.problem(raw.file.origin, format!("{}: {error}", raw.file.value));
                None
            }
        }
    }

    fn text_file(&mut self, path: &Spanned<String>) -> Option<String> {
        let read = (self.read_file)(Path::new(&path.value)).map_err(|error| error.to_string());
        match read.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "not valid UTF-8".to_owned())) {
            Ok(text) => Some(text),
            Err(why) => {
                self.problem(path.origin, format!("cannot read {}: {why}", path.value));
                None
            }
        }
    }

    /// What a route demands, its own `auth` in place of that of `defaults`.
    pub(super) fn route_auth(&mut self, own: Option<&Spanned<raw::RouteAuth>>) -> RouteAuth {
        let file = self.file;
        let lists = own.map_or(&file.defaults.auth, |own| &own.value);
        let Some(OneOrMany(lists)) = lists.as_option() else {
            return RouteAuth::default();
        };
        if lists.is_empty() || lists.iter().any(|all| all.is_empty()) {
            let origin = own.map_or(Origin::Nowhere, |own| own.origin);
            self.problem(origin, "`auth` names at least one authenticator; `auth: none` opens a route");
        }
        if own.is_some() {
            lists.iter().for_each(|all| self.contradictions(all));
        }
        let resolve =
            |this: &mut Self, name: &Spanned<String>| AuthId(this.position(&file.auth, name, "authenticator"));
        let alternatives: Vec<Vec<AuthId>> =
            lists.iter().map(|all| all.iter().map(|name| resolve(self, name)).collect()).collect();
        let raws = || alternatives.iter().flatten().filter_map(|id| file.auth.iter().nth(id.0)).map(|(_, raw)| raw);
        let has_bearer_key = |raw: &raw::Authenticator| {
            raw.api_key.as_ref().is_some_and(|keys| keys.places.iter().any(|place| place.0 == CredentialPlace::Bearer))
        };
        let separates_bearers = raws().any(has_bearer_key) && raws().any(|raw| raw.jwt.is_some());
        RouteAuth { alternatives, separates_bearers }
    }

    /// Authenticators that are needed together write fields side by side: one name has one writer.
    fn contradictions(&mut self, all: &[Spanned<String>]) {
        let known =
            |name: &&Spanned<String>| self.file.auth.position(name).map(|position| &self.file.auth.0[position].1);
        let written: Vec<(&Spanned<String>, Vec<&str>)> =
            all.iter().filter_map(|name| Some((name, known(&name)?.written_fields()))).collect();
        let mut messages = Vec::new();
        for (index, (name, fields)) in written.iter().enumerate() {
            for (earlier, others) in &written[..index] {
                let both = fields.iter().find(|field| others.iter().any(|other| is_same_folded(field, other)));
                if let Some(field) = both.filter(|_| earlier.value != name.value) {
                    let message = format!(
                        "`{}` and `{}` are needed together and both write `{field}`: the upstream could not tell which says it",
                        earlier.value, name.value
                    );
                    messages.push((name.origin, message));
                }
            }
        }
        messages.into_iter().for_each(|(origin, message)| self.problem(origin, message));
    }

    pub(super) fn allow(&mut self, raw: Option<&Spanned<raw::Allow>>, auth: &RouteAuth) -> RouteAllow {
        let Some(raw) = raw else {
            return RouteAllow::default();
        };
        let needs_identity =
            !raw.scopes.is_empty() || !raw.claims.is_empty() || raw.consumers.is_some() || raw.tiers.is_some();
        if needs_identity && auth.is_open() {
            self.problem(raw.origin, "`allow` needs to know who sends a request, and the route has no `auth`");
        }
        for scope in &raw.scopes {
            // RFC 6749, section 3.3; it is also sent in quotes.
            if scope.0.is_empty() || !scope.0.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e)) {
                self.problem(scope.origin, format!("`{}` is not one scope", scope.0));
            }
        }
        let names = |list: &Spanned<OneOrMany<String>>| list.iter().map(|name| name.as_str().into()).collect();
        let networks = |list: &[raw::text::Network]| list.iter().map(|network| network.0).collect::<Vec<_>>();
        let ips = raw.ips.as_ref().map(|list| networks(list));
        let not_ips = networks(&raw.not_ips);
        RouteAllow {
            rules: Allow {
                scopes: raw.scopes.iter().map(|scope| scope.0.as_str().into()).collect(),
                claims: claims(&raw.claims),
                consumers: raw.consumers.as_ref().map(names),
                tiers: raw.tiers.as_ref().map(names),
                ips: ips.as_ref().map(|list| AddressList::new(list)),
                not_ips: AddressList::new(&not_ips),
            },
            ips,
            not_ips,
        }
    }
}

fn claims(raw: &Map<OneOrMany<raw::ClaimValue>>) -> std::collections::BTreeMap<Box<str>, Vec<serde_json::Value>> {
    raw.iter()
        .map(|(path, values)| (path.as_str().into(), values.iter().map(|value| value.0.clone()).collect()))
        .collect()
}
