//! What a cache has for a request, for people who look at it. The request is read as one that comes from a client, and is never sent.

use h1::{BodyKind, RequestHead, encode};
use message::validate::is_token;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::super::find::values;
use super::super::forged::strip_forged_headers;
use super::get_into;
use crate::config::{Action, CacheId, Condition};
use crate::policy::cache::Cache;
use crate::policy::cache::entry::Entry;
use crate::policy::cache::lookup::{CacheLookup, KeyScratch};
use crate::policy::cache::rules::key::url_of;
use crate::policy::cache::rules::request::{Incoming, admit};
use crate::policy::cache::rules::reuse::{Reuse, assess};
use crate::policy::cache::rules::{Admission, Bypass, Class, LifetimeSource, LiveLines};
use crate::route::path::{self, Target};
use crate::route::{Lookup, Table};
use crate::runtime::clock;
use crate::worker::snapshot::Snapshot;

/// Variants that are listed.
const VARIANTS: usize = 50;

/// A request to look up.
#[derive(Debug, Clone)]
pub struct CacheQuestion {
    /// Method.
    pub method: String,
    /// `http://host/path?query`.
    pub url: String,
    /// `Name: value`.
    pub fields: Vec<String>,
    /// Name of the consumer that sends it, for caches that keep consumers apart.
    pub consumer: Option<String>,
    /// Name of the listener that it comes by; the empty one stands for listeners without a name.
    pub listener: String,
}

/// What a cache has, and where to look for other variants of the URL.
pub struct CacheExplanation {
    /// For people and programs.
    pub value: Value,
    /// The cache and the URL as its keys begin with it.
    pub place: Option<(CacheId, Vec<u8>)>,
}

impl From<Value> for CacheExplanation {
    fn from(value: Value) -> Self {
        CacheExplanation { value, place: None }
    }
}

/// Reads a request as text.
fn text_of(question: &CacheQuestion) -> Result<(&str, Vec<u8>), String> {
    let url = &question.url;
    let (scheme, rest) =
        url.split_once("://").ok_or_else(|| format!("`{url}` is not a URL; write http://host/path"))?;
    if !["http", "https"].contains(&scheme) {
        return Err(format!("`{url}`: expected http:// or https://"));
    }
    let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let slash = if target.starts_with('/') { "" } else { "/" };
    let lines = [&question.method, &question.url].into_iter().chain(&question.fields);
    if lines.into_iter().any(|line| line.contains(|c: char| c.is_control())) {
        return Err("a line break or another control character in the request".to_owned());
    }
    if !is_token(question.method.as_bytes()) {
        return Err(format!("`{}` is not a method", question.method));
    }
    let mut text = Vec::new();
    encode::begin_request_line(&mut text, question.method.as_bytes());
    text.extend_from_slice(slash.as_bytes());
    text.extend_from_slice(target.as_bytes());
    encode::end_request_line(&mut text, authority.as_bytes());
    for field in question.fields.iter().map(|field| field.trim()).filter(|field| !field.is_empty()) {
        let parts = field.split_once(':').filter(|(name, _)| is_token(name.as_bytes()));
        let (name, value) = parts.ok_or_else(|| format!("`{field}` is not a header field; write 'X-Tier: gold'"))?;
        encode::field(&mut text, name.as_bytes(), value.trim().as_bytes());
    }
    encode::end_head(&mut text);
    Ok((scheme, text))
}

/// What the cache of the request's route has for it.
///
/// # Errors
/// What is wrong with the request.
pub async fn explain(snapshot: &Snapshot, question: &CacheQuestion) -> Result<CacheExplanation, String> {
    let config = snapshot.config();
    let (scheme, buf) = text_of(question)?;
    let mut head = RequestHead::default();
    head.parse(&buf, 0, buf.len(), &snapshot.head_limits).map_err(|error| error.to_string())?;
    let mut scratch = Vec::new();
    let target = path::normalise_by(config.server.path, head.path.of_buf(&buf), &mut scratch);
    let target = Target {
        path: target.map_err(|refusal| format!("{refusal} ({})", refusal.reason()))?.path,
        query: head.query.map(|query| query.of_buf(&buf)),
    };
    let forged = &snapshot.auth.shared().forged;
    let decisive = &snapshot.generation.decisive_fields;
    strip_forged_headers(
        &mut head.fields,
        &buf,
        false,
        &config.request_id,
        &config.untrusted_headers,
        forged,
        decisive,
    );
    let (head, buf) = (&head, &buf[..]);
    let table: &Table = snapshot.generation.named_table(&question.listener);
    let host = head.authority.map_or(&b""[..], |authority| authority.of_buf(buf));
    let holds = |name: &str, condition: &Condition| condition.holds(values(head, buf, name));
    let Lookup::RouteMatch(found) = table.lookup(host, target, head.method_name.of_buf(buf), holds) else {
        return Ok(json!({ "note": "No route takes this request." }).into());
    };
    let route = &config.routes[found.route.0];
    let name = &*route.name;
    let state = &snapshot.routes[found.route.0];
    let (Some(cache), Some(id)) = (&state.cache, route.cache) else {
        return Ok(json!({ "route": name, "note": "The route has no cache." }).into());
    };
    let cache_name = &*cache.cache.settings.name;
    let note = |note: &str| Ok(json!({ "route": name, "cache": cache_name, "note": note }).into());
    if matches!(route.action, Action::Ai(_)) {
        return note("Calls of AI models are stored by their body, which a look-up does not have.");
    }
    let incoming = Incoming {
        method: head.method,
        query: target.query,
        has_content: head.body != BodyKind::None,
        is_upgrade: head.upgrade && matches!(&route.action, Action::Proxy(proxy) if !proxy.upgrade.is_empty()),
        lines: LiveLines::new(&head.fields, buf),
    };
    let wanted = match admit(&cache.policy, incoming) {
        Admission::Bypass(why) => return note(around(why)),
        Admission::Use(wanted) if wanted.class == Class::Post => {
            return note("A POST is stored by its body, which a look-up does not have.");
        }
        Admission::Use(wanted) => wanted,
    };
    let consumer = question.consumer.as_deref();
    if cache.policy.by_consumer && consumer.is_none() && !route.auth.is_open() {
        return note("The cache keeps consumers apart: name the one that sends the request.");
    }
    let mut keys = KeyScratch::default();
    let request = (head, buf, target.query);
    cache.write_key(&mut keys, &wanted, request, target.path, (false, scheme), (None, consumer));
    let url = url_of(keys.primary()).to_vec();
    let mut level = "memory";
    let mut found = cache.cache.look_up(&mut keys, &wanted, head, buf);
    if !matches!(found, CacheLookup::Response(_))
        && let Some(remote) = &cache.remote
    {
        let l2_hit = get_into(cache, &mut keys, &wanted, head, buf);
        match tokio::time::timeout(remote.timeout(), l2_hit).await {
            Ok(Some(entry)) => (found, level) = (CacheLookup::Response(entry), "Redis"),
            Ok(None) => {}
            Err(_) => return note("Not in memory, and Redis does not respond."),
        }
    }
    let digest = Sha256::digest(&*keys.whole());
    let mut value = json!({
        "route": name,
        "cache": cache_name,
        "url": String::from_utf8_lossy(&url),
        "class": class_name(wanted.class),
        "key": digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>(),
    });
    match found {
        CacheLookup::Response(entry) => {
            let freshness = cache.cache.freshness(&entry);
            value["stored"] = stored(&cache.cache, &entry);
            value["stored"]["level"] = level.into();
            value["stored"]["use"] = use_of(assess(&freshness, &wanted, clock::unix_ms())).into();
        }
        CacheLookup::HitForMiss => {
            value["note"] =
                "Nothing is stored, and requests do not wait for one another: the last response could not be stored."
                    .into();
        }
        CacheLookup::Nothing if keys.is_variant() => {
            value["note"] = "Other variants of this URL are stored, this one is not.".into();
        }
        CacheLookup::Nothing => value["note"] = "Nothing is stored.".into(),
    }
    Ok(CacheExplanation { value, place: Some((id, url)) })
}

/// What is stored of a URL, in memory. Looks at every entry of the cache.
pub fn variants(cache: &Cache, url: &[u8]) -> Value {
    let entries = cache.state.memory.entries_of(url, VARIANTS);
    entries.iter().map(|entry| stored(cache, entry)).collect()
}

fn stored(cache: &Cache, entry: &Entry) -> Value {
    let now = clock::unix_ms();
    let (freshness, head) = (cache.freshness(entry), &entry.head);
    let seconds = |ms: u64| ms as f64 / 1e3;
    let varies = head.varies.as_ref().map(|varies| String::from_utf8_lossy(&varies.names).into_owned());
    let tags = head.tags.iter().map(|tag| String::from_utf8_lossy(tag).into_owned());
    json!({
        "status": freshness.status,
        "class": class_name(head.class),
        "bytes": entry.size(),
        "age": seconds(freshness.age_ms(now)),
        "lifetime": seconds(freshness.lifetime_ms),
        "source": source(freshness.source),
        "fresh": freshness.is_fresh(now) && !freshness.always_validate,
        "fresh_for": freshness.ttl_ms(now) as f64 / 1e3,
        "must_validate": freshness.always_validate,
        "stale_while_revalidate": seconds(freshness.stale_while_revalidate_ms),
        "stale_if_error": seconds(freshness.stale_if_error_ms),
        "varies": varies,
        "tags": tags.collect::<Vec<_>>(),
    })
}

fn class_name(class: Class) -> &'static str {
    match class {
        Class::Get => "GET",
        Class::Head => "HEAD",
        Class::Post => "POST",
    }
}

fn source(source: LifetimeSource) -> &'static str {
    match source {
        LifetimeSource::Fixed => "ttl of the cache",
        LifetimeSource::SharedMaxAge => "s-maxage",
        LifetimeSource::MaxAge => "max-age",
        LifetimeSource::Expires => "Expires",
        LifetimeSource::Heuristic => "default_ttl",
        LifetimeSource::None => "nothing says that it is fresh",
    }
}

fn use_of(reuse: Reuse) -> &'static str {
    match reuse {
        Reuse::Fresh => "is served from the cache",
        Reuse::WhileRevalidating => "is served stale, and fetched again meanwhile",
        Reuse::StaleAllowed => "is served stale, as the request accepts",
        Reuse::Validate(_) => "is validated by the upstream first",
        Reuse::NotForThisClient => "is not served: the request has credentials, and the response is not for all",
    }
}

fn around(why: Bypass) -> &'static str {
    match why {
        Bypass::Method => "The cache does not serve this method.",
        Bypass::Content => "The request has a body that the key does not cover.",
        Bypass::Upgrade => "The request upgrades to another protocol.",
        Bypass::Credentials => "The request has credentials or a cookie, which this cache does not serve.",
        Bypass::NoStore => "The request says no-store.",
        Bypass::OriginPrecondition => "The request has a precondition that only the upstream can evaluate.",
        Bypass::NotJson => "The body is not plain JSON.",
    }
}
