//! What must not be shown: passwords and tokens in URLs, and values of header fields that carry credentials.

use super::File;
use super::condition::Condition;
use super::route::HeaderEdits;
use super::shape::{Map, OrNone, Spanned};
use super::targets::Targets;
use super::text::FieldValue;
use super::upstream::{Affinity, Balance};
use crate::redact::Redaction;

/// Stands for what is not shown.
const BLANK: &str = "***";

/// Fields that carry credentials by definition.
pub(crate) const SECRET_FIELDS: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "set-cookie"];
/// Parts of names that people give to fields with credentials: `X-Functions-Key`, `X-Origin-Auth`.
const PARTS: [&str; 7] = ["token", "secret", "passw", "key", "auth", "credential", "signature"];

impl File {
    /// As YAML, with every default filled in. Read again it means the same.
    pub fn to_yaml(&self) -> String {
        crate::yaml::to_string(self)
    }

    /// Names whose values are not shown.
    pub(crate) fn redaction(&self) -> Redaction {
        Redaction::new(self.redact.iter().map(|name| name.as_str()))
    }

    /// As YAML, with `***` for passwords and for the values of header fields that carry credentials.
    pub fn to_yaml_without_secrets(&self) -> String {
        let mut file = self.clone();
        let redaction = &self.redaction();
        if let Some(redis) = &mut file.redis {
            let url = &mut redis.value.url.value;
            *url = without_password(url);
            if let Some(secret) = &mut redis.value.secret {
                secret.value = BLANK.to_owned();
            }
        }
        if let Some(token) = file.console.as_mut().and_then(|console| console.value.token.as_mut()) {
            token.value = BLANK.to_owned();
        }
        for (_, authenticator) in &mut file.auth.0 {
            let pepper = authenticator.api_key.as_mut().and_then(|keys| keys.value.pepper.as_mut());
            let secret = authenticator.jwt.as_mut().and_then(|jwt| jwt.value.secret.as_mut());
            for secret in pepper.into_iter().chain(secret) {
                secret.value.0 = BLANK.to_owned();
            }
            let forward = authenticator.forward.as_mut().map(|forward| &mut forward.value);
            let forward = forward.into_iter().flat_map(|forward| forward.url.iter_mut().chain(&mut forward.path));
            let ext_authz = authenticator.ext_authz.as_mut().and_then(|ext_authz| ext_authz.value.url.as_mut());
            for url in forward.chain(ext_authz) {
                url.value = without_tokens(redaction, &url.value);
            }
            let jwks = authenticator.jwt.as_mut().and_then(|jwt| jwt.value.jwks.as_mut());
            if let Some(url) = jwks.and_then(|jwks| jwks.value.url.as_mut()) {
                *url = without_tokens(redaction, url);
            }
        }
        if let OrNone::Some(Spanned { value: traces, .. }) = &mut file.telemetry.traces {
            blank_collector(redaction, &mut traces.endpoint, &mut traces.headers);
        }
        if let OrNone::Some(Spanned { value: metrics, .. }) = &mut file.telemetry.metrics {
            blank_collector(redaction, &mut metrics.endpoint, &mut metrics.headers);
        }
        for (name, value) in &mut file.telemetry.resource.0 {
            if redaction.adds(name) {
                *value = BLANK.to_owned();
            }
        }
        for (_, upstream) in &mut file.upstreams.0 {
            if let OrNone::Some(health) = &mut upstream.health {
                health.value.path.value = without_tokens(redaction, &health.value.path.value);
            }
            if let Targets::Source(source) = &mut upstream.targets.value
                && let Some(token) = &mut source.token
            {
                token.value.0 = BLANK.to_owned();
            }
            if let Balance::Cookie(Affinity { secret: Some(secret), .. }) = &mut upstream.balance {
                secret.value = BLANK.to_owned();
            }
        }
        for (_, provider) in &mut file.providers.0 {
            for key in &mut provider.keys {
                key.value.key = key.value.key.take().map(|_| BLANK.to_owned());
            }
            blank(redaction, &mut provider.headers);
        }
        for route in &mut file.routes.value {
            let route = &mut route.value;
            blank_conditions(redaction, &mut route.matcher.headers);
            blank_conditions(redaction, &mut route.matcher.query);
            blank_edits(redaction, &mut route.headers);
            if let Some(OrNone::Some(guard)) = route.ai.as_mut().map(|ai| &mut ai.value.guard) {
                for url in guard.value.url.iter_mut().chain(&mut guard.value.path) {
                    url.value = without_tokens(redaction, &url.value);
                }
            }
        }
        for (_, api) in &mut file.apis.0 {
            blank_edits(redaction, &mut api.headers);
        }
        file.to_yaml()
    }
}

/// What is shown of the value of a header field, or of a parameter of a query.
pub fn shown<'v>(redaction: &Redaction, name: &str, value: &'v str) -> &'v str {
    let name = name.to_ascii_lowercase();
    let is_secret = SECRET_FIELDS.contains(&name.as_str())
        || PARTS.iter().any(|part| name.contains(part))
        || redaction.is_secret(name.as_bytes());
    if is_secret { BLANK } else { value }
}

fn blank_collector(
    redaction: &Redaction,
    endpoint: &mut Option<Spanned<String>>,
    headers: &mut Option<Map<FieldValue>>,
) {
    for (_, value) in headers.iter_mut().flat_map(|headers| &mut headers.0) {
        value.0 = BLANK.to_owned();
    }
    if let Some(url) = endpoint {
        url.value = without_tokens(redaction, &url.value);
    }
}

fn blank(redaction: &Redaction, fields: &mut Map<FieldValue>) {
    for (name, value) in &mut fields.0 {
        value.0 = shown(redaction, name, &value.0).to_owned();
    }
}

fn blank_conditions(redaction: &Redaction, conditions: &mut Map<Condition>) {
    for (name, condition) in &mut conditions.0 {
        if let Condition::Is(value) = condition {
            value.0 = shown(redaction, name, &value.0).to_owned();
        }
    }
}

fn blank_edits(redaction: &Redaction, edits: &mut HeaderEdits) {
    for edits in [&mut edits.request, &mut edits.response] {
        blank(redaction, &mut edits.set);
        blank(redaction, &mut edits.add);
    }
}

/// A URL or path without the values of query parameters that carry credentials.
pub fn without_tokens(redaction: &Redaction, url: &str) -> String {
    let Some((start, query)) = url.split_once('?') else { return url.to_owned() };
    let mut shown = Vec::new();
    redaction.query(&mut shown, query.as_bytes());
    format!("{start}?{}", String::from_utf8_lossy(&shown))
}

/// A URL without what stands between the user and the host.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return BLANK.to_owned() };
    // The last `@`: one in a password that was not escaped must not let the rest of it through.
    match rest.rsplit_once('@') {
        None => url.to_owned(),
        Some((user, host)) => {
            let user = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}:{BLANK}@{host}")
        }
    }
}

#[cfg(test)]
mod tests;
