//! What must not be shown: passwords in URLs, and values of header fields that carry credentials.

use super::File;
use super::shape::{Map, OrNone};
use super::text::FieldValue;

/// Stands for what is not shown.
const BLANK: &str = "***";

/// Fields that carry credentials by definition.
const NAMES: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "set-cookie"];
/// Parts of names that people give to fields with credentials.
const PARTS: [&str; 6] = ["token", "secret", "password", "api-key", "apikey", "credential"];

impl File {
    /// As YAML, with every default filled in. Read again it means the same.
    pub fn to_yaml(&self) -> String {
        crate::config::yaml::to_string(self)
    }

    /// As YAML, with `***` for passwords and for the values of header fields that carry credentials.
    pub fn to_yaml_without_secrets(&self) -> String {
        let mut file = self.clone();
        if let Some(redis) = &mut file.redis {
            let url = &mut redis.value.url.value;
            *url = without_password(url);
            if let Some(secret) = &mut redis.value.secret {
                secret.value = BLANK.to_owned();
            }
        }
        for (_, authenticator) in &mut file.auth.0 {
            let pepper = authenticator.api_key.as_mut().and_then(|keys| keys.value.pepper.as_mut());
            let secret = authenticator.jwt.as_mut().and_then(|jwt| jwt.value.secret.as_mut());
            for secret in pepper.into_iter().chain(secret) {
                secret.value.0 = BLANK.to_owned();
            }
        }
        if let OrNone::Some(traces) = &mut file.telemetry.traces {
            traces.value.headers.0.iter_mut().for_each(|(_, value)| value.0 = BLANK.to_owned());
        }
        for (_, provider) in &mut file.providers.0 {
            for key in &mut provider.keys {
                key.value.key = key.value.key.take().map(|_| BLANK.to_owned());
            }
            blank(&mut provider.headers);
        }
        for route in &mut file.routes.value {
            let route = &mut route.value;
            blank(&mut route.matcher.headers);
            for edits in [&mut route.headers.request, &mut route.headers.response] {
                blank(&mut edits.set);
                blank(&mut edits.add);
            }
        }
        file.to_yaml()
    }
}

fn blank(fields: &mut Map<FieldValue>) {
    for (name, value) in &mut fields.0 {
        let name = name.to_ascii_lowercase();
        if NAMES.contains(&name.as_str()) || PARTS.iter().any(|part| name.contains(part)) {
            value.0 = BLANK.to_owned();
        }
    }
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
