//! Authentication: files are read and checked here, so that a configuration is put in force with them or not at all.

use std::path::Path;
use std::sync::Arc;

use auth::address_list::AddressList;
use auth::allow::Allow;
use auth::api_key::{Store, sha256};
use auth::basic::Htpasswd;
use auth::jwks::KeySet;
use auth::jwt::{Algorithm, Expected, SecretKeys, Verifier};

use tls::client::{Options, Roots};

use super::Resolver;
use super::headers::may_edit;
use crate::config::problem::Origin;
use crate::config::raw;
use crate::config::raw::shape::{At, Map, OneOrMany, OrNone};
use crate::config::{
    ApiKeys, AuthId, AuthMethod, Authenticator, Basic, CredentialPlace, IdentitySource, IssuerKeys, Jwt, RouteAllow,
    RouteAuth, TokenKeys,
};

impl Resolver<'_> {
    pub(super) fn auth(&mut self) -> Vec<Authenticator> {
        let file = self.file;
        file.auth.iter().filter_map(|(name, raw)| self.authenticator(name, raw)).collect()
    }

    fn authenticator(&mut self, name: &At<String>, raw: &raw::Authenticator) -> Option<Authenticator> {
        self.check_name(name);
        let authorizer = (&raw.forward, &raw.ext_authz);
        let (method, forward, headers) = match (&raw.api_key, &raw.jwt, &raw.basic, authorizer) {
            (Some(keys), None, None, (None, None)) => {
                let headers = self.identity_headers(&keys.headers, |part| part.0.clone());
                (AuthMethod::ApiKey(self.api_keys(keys)?), keys.forward, headers)
            }
            (None, Some(jwt), None, (None, None)) => {
                let headers = self.identity_headers(&jwt.headers, |path| IdentitySource::Claim(path.as_str().into()));
                (AuthMethod::Jwt(Box::new(self.jwt(jwt)?)), jwt.forward, headers)
            }
            (None, None, Some(basic), (None, None)) => {
                let headers = self.identity_headers(&basic.headers, |part| part.0.clone());
                (AuthMethod::Basic(self.basic(basic)?), basic.forward, headers)
            }
            (None, None, None, (Some(forward), None)) => {
                let authorizer = Box::new(self.forward_auth(name, forward)?);
                (AuthMethod::Authorizer(authorizer), raw::ForwardCredential::Token, Vec::new())
            }
            (None, None, None, (None, Some(ext_authz))) => {
                let authorizer = Box::new(self.ext_authz(name, ext_authz)?);
                (AuthMethod::Authorizer(authorizer), raw::ForwardCredential::Token, Vec::new())
            }
            _ => {
                let message = format!(
                    "`{}` needs exactly one of `api_key`, `jwt`, `basic`, `forward` and `ext_authz`",
                    name.value
                );
                self.problem(name.origin, message);
                return None;
            }
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
                    format!("`{}` cannot hold a part of the identity: it has another meaning", name.value),
                );
            }
            if raw.iter().take(index).any(|(earlier, _)| earlier.eq_ignore_ascii_case(name)) {
                self.problem(name.origin, format!("`{}` is given twice; case does not count", name.value));
            }
        }
        raw.iter().map(|(name, value)| (name.as_str().into(), source(value))).collect()
    }

    fn api_keys(&mut self, raw: &At<raw::ApiKey>) -> Option<ApiKeys> {
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
        let text = self.text_file(&raw.store.file)?;
        match Store::read(&text, pepper.as_deref().map(str::as_bytes)) {
            Ok(store) => Some(ApiKeys {
                places: raw.places.iter().map(|place| place.0.clone()).collect(),
                file: raw.store.file.as_str().into(),
                pepper,
                store: Arc::new(store),
            }),
            Err(error) => {
                self.problem(raw.store.file.origin, format!("{}: {error}", raw.store.file.value));
                None
            }
        }
    }

    fn jwt(&mut self, raw: &At<raw::Jwt>) -> Option<Jwt> {
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

    fn algorithms(&mut self, raw: &At<raw::Jwt>) -> Vec<Algorithm> {
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

    fn key_set(&mut self, raw: &At<raw::Jwks>, algorithms: &[Algorithm]) -> Option<TokenKeys> {
        let file = match (&raw.file, &raw.url) {
            (Some(file), None) => file.clone(),
            (None, Some(url)) => return self.issuer_keys(raw, url),
            _ => {
                self.problem(raw.origin, "`jwks` needs `file` or `url`");
                return None;
            }
        };
        if raw.roots.is_some() {
            self.problem(raw.origin, "`roots` belongs to a `url`");
        }
        let text = self.text_file(&At::new(file.clone(), raw.origin))?;
        match KeySet::parse(text.as_bytes(), algorithms) {
            Ok(set) => Some(TokenKeys::File(file.into(), Arc::new(set))),
            Err(error) => {
                self.problem(raw.origin, format!("{file}: {error}"));
                None
            }
        }
    }

    fn issuer_keys(&mut self, raw: &At<raw::Jwks>, url: &str) -> Option<TokenKeys> {
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

    fn basic(&mut self, raw: &At<raw::Basic>) -> Option<Basic> {
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

    fn text_file(&mut self, path: &At<String>) -> Option<String> {
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
    pub(super) fn route_auth(&mut self, own: Option<&At<raw::RouteAuth>>) -> RouteAuth {
        let file = self.file;
        let names = own.map_or(&file.defaults.auth, |own| &own.value);
        let Some(OneOrMany(alternatives)) = names.as_option() else {
            return RouteAuth::default();
        };
        if alternatives.is_empty() || alternatives.iter().any(|all| all.is_empty()) {
            let origin = own.map_or(Origin::Nowhere, |own| own.origin);
            self.problem(origin, "`auth` names at least one authenticator; `auth: none` opens a route");
        }
        let resolve = |this: &mut Self, name: &At<String>| AuthId(this.position(&file.auth, name, "authenticator"));
        let alternatives = alternatives.iter();
        let alternatives: Vec<Vec<AuthId>> =
            alternatives.map(|all| all.iter().map(|name| resolve(self, name)).collect()).collect();
        let raws = || alternatives.iter().flatten().filter_map(|id| file.auth.iter().nth(id.0)).map(|(_, raw)| raw);
        let has_bearer_key = |raw: &raw::Authenticator| {
            raw.api_key.as_ref().is_some_and(|keys| keys.places.iter().any(|place| place.0 == CredentialPlace::Bearer))
        };
        let tells_bearers_apart = raws().any(has_bearer_key) && raws().any(|raw| raw.jwt.is_some());
        RouteAuth { alternatives, tells_bearers_apart }
    }

    pub(super) fn allow(&mut self, raw: Option<&At<raw::Allow>>, auth: &RouteAuth) -> RouteAllow {
        let Some(raw) = raw else {
            return RouteAllow::default();
        };
        let asks_identity =
            !raw.scopes.is_empty() || !raw.claims.is_empty() || raw.consumers.is_some() || raw.tiers.is_some();
        if asks_identity && auth.is_open() {
            self.problem(raw.origin, "`allow` needs to know who sends a request, and the route has no `auth`");
        }
        for scope in &raw.scopes {
            // RFC 6749, section 3.3; it is also sent in quotes.
            if scope.0.is_empty() || !scope.0.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e)) {
                self.problem(scope.origin, format!("`{}` is not one scope", scope.0));
            }
        }
        let names = |list: &At<OneOrMany<String>>| list.iter().map(|name| name.as_str().into()).collect();
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
