//! The key of a call in a cache. Two calls share a response only if everything that it can depend on is the same: the tenant, what the provider is
//! sent, and who may serve the model.

use std::borrow::Cow;

use auth::Identity;
use h1::{Known, RequestHead};

use super::super::{Exchange, changed};
use super::Call;
use super::request::{PRIVATE, write_query};
use crate::config::{CallCache, Config, LimitKey, Model};
use crate::policy::cache::RouteCache;
use crate::policy::cache::rules::cache_control::RequestControl;
use crate::policy::cache::rules::key::sized;
use crate::policy::limit::identity_value;

/// The key; `None` if the call is none that is looked up.
pub(super) fn key_of(x: &Exchange<'_>, call: &Call<'_>, cache: &RouteCache) -> Option<Vec<u8>> {
    let settings = &cache.cache.settings;
    let calls = settings.calls()?;
    let (head, buf) = (&x.scratch.request, x.down.buffer.whole());
    // It counts tokens, and generates nothing; or its response is none that is stored.
    if call.counts || call.api.is_opaque() || forbids_storing(head, buf) {
        return None;
    }
    if llm::cache_key::bypass(call.api, call.scan, call.body, calls.any_temperature).is_some() {
        return None;
    }
    let by_field = settings.partition_by.iter().map(|name| &**name);
    let route = &call.snapshot.config().routes[call.route.0];
    // What a template writes is known only when it is written; the id of the request may be among it.
    if !route.headers.request.templates.is_empty() {
        return None;
    }
    let mut partition = partition(by_field, (head, buf), settings.by_consumer, calls, x.identity.as_deref())?;
    // A name that another authenticator gave is another name.
    let by = call.snapshot.auth.choose(&route.auth, x.credentials()).ok().flatten().unwrap_or_default();
    for id in by {
        sized(&mut partition, call.snapshot.config().auth[id.0].name.as_bytes());
    }
    // What the provider is told of the sender.
    sized(&mut partition, &x.scratch.identity_lines);
    let mut path = x.scratch.path.clone();
    write_query(&mut path, changed::query(x.changed.as_deref(), head, buf));
    write_fields(head, buf, &mut path);
    let served = served_by(call.snapshot.config(), call.model, &cache.matched_by);
    let key = llm::cache_key::cache_key(call.api, &partition, &path, &served, call.body)?;
    // Before the zero stands what purges take for a URL.
    Some([&b"llm\0"[..], &key].concat())
}

fn forbids_storing(head: &RequestHead, buf: &[u8]) -> bool {
    let mut control = RequestControl::default();
    let values = head.fields.iter().filter(|field| field.known == Known::CacheControl);
    values.for_each(|field| control.add(field.value.of_buf(buf)));
    control.no_store
}

/// The tenant: each part with its name, so that a value never stands for another part. `None` if the request lacks a part that separates tenants.
fn partition<'n>(
    fields: impl Iterator<Item = &'n str>,
    (head, buf): (&RequestHead, &[u8]),
    by_consumer: bool,
    calls: &CallCache,
    identity: Option<&Identity>,
) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for name in fields {
        sized(&mut out, name.as_bytes());
        let is_it = |field: &&h1::Field| field.name.of_buf(buf).eq_ignore_ascii_case(name.as_bytes());
        let values = || head.fields.iter().filter(is_it);
        // A field that comes twice is as good as none: which of them counts is not known.
        let only = values().next().filter(|field| !field.value.of_buf(buf).is_empty() && values().count() == 1)?;
        sized(&mut out, only.value.of_buf(buf));
    }
    let consumer = LimitKey::Consumer;
    for part in by_consumer.then_some(&consumer).into_iter().chain(&calls.identities) {
        let value: Cow<'_, str> = identity_value(part, identity?)?;
        sized(&mut out, format!("{part:?}").as_bytes());
        sized(&mut out, value.as_bytes());
        // The number 1 is not the text "1".
        if let LimitKey::Claim(path) = part {
            out.push(u8::from(identity?.claim(path).is_some_and(serde_json::Value::is_string)));
        }
    }
    Some(out)
}

/// Appends the fields by which clients choose versions and features of an API.
fn write_fields(head: &RequestHead, buf: &[u8], out: &mut Vec<u8>) {
    let mut fields: Vec<(Vec<u8>, &[u8])> = Vec::new();
    for field in head.fields.iter().filter(|field| field.known == Known::Other && !field.is_hop_by_hop()) {
        let name = field.name.of_buf(buf).to_ascii_lowercase();
        let chooses = name.starts_with(b"anthropic-") || name.starts_with(b"openai-");
        if chooses && !PRIVATE.iter().any(|private| private.as_bytes() == name) {
            fields.push((name, field.value.of_buf(buf)));
        }
    }
    fields.sort();
    for (name, value) in fields {
        // No path and no query has such a byte.
        out.push(0);
        sized(out, &name);
        sized(out, value);
    }
}

/// What the configuration says of who serves the model, and how.
fn served_by(config: &Config, model: &Model, route: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    sized(&mut out, route);
    sized(&mut out, model.name.as_bytes());
    for candidate in &model.candidates {
        let provider = &config.providers[candidate.provider.0];
        sized(&mut out, provider.name.as_bytes());
        sized(&mut out, config.upstreams[provider.upstream.0].name.as_bytes());
        sized(&mut out, format!("{:?} {} {:?}", provider.family, provider.base, provider.headers).as_bytes());
        sized(&mut out, candidate.model.as_bytes());
        out.extend_from_slice(&candidate.max_output.unwrap_or(0).to_be_bytes());
    }
    out
}

#[cfg(test)]
mod tests;
