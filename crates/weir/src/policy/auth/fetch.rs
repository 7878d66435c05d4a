//! Documents of an issuer over HTTP: its description and its key set.

use std::time::Duration;

use auth::jwks::LARGEST;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, StatusCode, header};

use crate::config::IssuerKeys;
use crate::upstream::{Resolver, client};

/// A fetch ends after this, all of it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The text of a key set, and how long its response says that it may be kept.
pub(super) struct Fetched {
    pub(super) text: Bytes,
    pub(super) max_age: Option<Duration>,
}

/// Fetches the key set of an issuer: from its URL, or from the one that the issuer's description names (OpenID Connect Discovery 1.0,
/// RFC 8414).
pub(super) async fn key_set(keys: &IssuerKeys, issuer: &str, resolver: &Resolver) -> Result<Fetched, String> {
    let both = async {
        let Some(url) = &keys.url else {
            let [openid, oauth] = descriptions(issuer);
            let described = match get(&openid, keys, resolver).await {
                Ok(described) => described,
                Err(first) => get(&oauth, keys, resolver).await.map_err(|second| format!("{first}; {second}"))?,
            };
            return get(&keys_of(&described.text, issuer)?, keys, resolver).await;
        };
        get(url, keys, resolver).await
    };
    tokio::time::timeout(TIMEOUT, both).await.unwrap_or_else(|_| Err("no complete response within 5 s".to_owned()))
}

/// Where an issuer describes itself: as OpenID Connect Discovery says, behind its path; as RFC 8414, section 3.1, says, before it.
fn descriptions(issuer: &str) -> [String; 2] {
    let issuer = issuer.trim_end_matches('/');
    let host = issuer.find("://").map_or(0, |scheme| scheme + 3);
    let (origin, path) = issuer.split_at(issuer[host..].find('/').map_or(issuer.len(), |slash| host + slash));
    [
        format!("{issuer}/.well-known/openid-configuration"),
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
    ]
}

/// `jwks_uri` of a description that is this issuer's own (RFC 8414, section 3.3).
fn keys_of(description: &[u8], issuer: &str) -> Result<String, String> {
    let document: serde_json::Value =
        serde_json::from_slice(description).map_err(|_| "the description is not JSON".to_owned())?;
    if document.get("issuer").and_then(serde_json::Value::as_str) != Some(issuer) {
        return Err(format!("the description is of another issuer than `{issuer}`"));
    }
    let url =
        document.get("jwks_uri").and_then(serde_json::Value::as_str).ok_or("the description has no `jwks_uri`")?;
    IssuerKeys::check_url(url)?;
    Ok(url.to_owned())
}

async fn get(url: &str, keys: &IssuerKeys, resolver: &Resolver) -> Result<Fetched, String> {
    IssuerKeys::check_url(url)?;
    let request = Request::get(url)
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, "weir")
        .header(header::CONNECTION, "close")
        .body(Full::default())
        .map_err(|error| format!("{url}: {error}"))?;
    let response = client::send(request, &keys.tls, resolver, LARGEST).await?;
    // A redirect could lead to anybody's keys.
    if response.head.status != StatusCode::OK {
        return Err(format!("{url}: status {}", response.head.status.as_u16()));
    }
    Ok(Fetched { text: response.body, max_age: max_age(&response.head.headers) })
}

fn max_age(fields: &header::HeaderMap) -> Option<Duration> {
    let directives = fields.get_all(header::CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let mut directives = directives.flat_map(|value| value.split(','));
    let seconds =
        directives.find_map(|one| one.trim().to_ascii_lowercase().strip_prefix("max-age=").map(str::to_owned))?;
    seconds.parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_with_a_path_has_two_places_for_its_description() {
        let of = |issuer: &str| descriptions(issuer).map(|url| url.replace("https://a.example", ""));
        let root = ["/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"];
        assert_eq!(of("https://a.example/"), root);
        assert_eq!(of("https://a.example"), root);
        let below = ["/r/1/.well-known/openid-configuration", "/.well-known/oauth-authorization-server/r/1"];
        assert_eq!(of("https://a.example/r/1/"), below);
    }

    #[test]
    fn a_description_must_be_the_issuers_own() {
        let of = |text: &str| keys_of(text.as_bytes(), "https://a.example/");
        assert_eq!(
            of(r#"{"issuer":"https://a.example/","jwks_uri":"https://a.example/k"}"#).as_deref(),
            Ok("https://a.example/k")
        );
        for wrong in [
            r#"{"issuer":"https://b.example/","jwks_uri":"https://a.example/k"}"#,
            r#"{"issuer":"https://a.example/","jwks_uri":"http://a.example/k"}"#,
            r#"{"issuer":"https://a.example/"}"#,
            "[]",
            "",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
