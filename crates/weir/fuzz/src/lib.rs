//! What the targets do with their bytes, and what must hold whatever they are.

pub mod exchange;

use std::time::Duration;

use h1::Method;
use weir::config::{Cache, CacheHeaders, CacheMode, CacheQuery, CacheStore, Edits, LimitKey};
use weir::policy::cache::rules::cache_control::{RequestControl, ResponseControl};
use weir::policy::cache::rules::delivery::{self, Delivery};
use weir::policy::cache::rules::key::{self, Url};
use weir::policy::cache::rules::precondition::EntityTag;
use weir::policy::cache::rules::request::{Incoming, admit};
use weir::policy::cache::rules::reuse::{self, Reuse};
use weir::policy::cache::rules::status::{self, Outcome};
use weir::policy::cache::rules::targeted::Effective;
use weir::policy::cache::rules::{
    Admission, Class, Freshness, Lines, Policy, StoredLines, Times, date, head, invalidate, json, list, query, range,
    sf, storable, update, vary,
};
use weir::policy::cache::wire::{self, Stored};

/// Sun, 06 Nov 1994 08:49:37 GMT.
const NOW: u64 = 784_111_777_000;

/// Every parser of one value.
pub fn values(bytes: &[u8]) {
    let mut response = ResponseControl::default();
    response.add(bytes);
    let mut request = RequestControl::default();
    request.add(bytes);
    // What comes before a value is never undone by it.
    let mut restricted = ResponseControl::default();
    restricted.add(b"no-store, private, no-cache");
    restricted.add(bytes);
    assert!(restricted.no_store && restricted.private && restricted.no_cache);

    let mut count = 0;
    if sf::dictionary(bytes, |key, _| count += key.len().min(1)).is_ok() && count > 0 {
        assert!(bytes.is_ascii());
    }
    if let Some(seconds) = date::parse(bytes, (NOW / 1000) as i64) {
        assert!((-62_167_219_200..=253_402_300_799).contains(&seconds));
    }
    assert!(list::delta_seconds(bytes).is_none_or(|seconds| seconds <= 1 << 31));
    assert!(EntityTag::parse(bytes).is_none_or(|tag| tag.opaque.len() >= 2));
    for length in [0, 1, 10, u64::MAX] {
        if let range::Ranged::Part { first, last } = range::parse(bytes, length) {
            assert!(first <= last && last < length);
        }
    }
    let mut canonical = Vec::new();
    if json::write_canonical(bytes, &mut canonical).is_ok() {
        let mut again = Vec::new();
        json::write_canonical(&canonical, &mut again).expect("a canonical form is JSON");
        assert_eq!(canonical, again);
    }
    for which in [CacheQuery::Sorted, CacheQuery::Only(vec!["a".into()])] {
        let (mut once, mut twice) = (Vec::new(), Vec::new());
        query::write(&which, Some(bytes), &mut once);
        query::write(&which, once.strip_prefix(b"?"), &mut twice);
        assert_eq!(once, twice);
    }
    let _ = Freshness::unpack(bytes);
    let _ = StoredLines(bytes).all().count();
}

/// All rules on the fields of a request and of a response.
pub fn heads(bytes: &[u8]) {
    let Some((&[selector, method, ..], rest)) = bytes.split_at_checked(2) else { return };
    // A head that was parsed holds neither.
    if rest.iter().any(|byte| matches!(byte, b'\r' | 0)) {
        return;
    }
    let middle = rest.windows(2).position(|pair| pair == b"\n\n").unwrap_or(rest.len());
    let (request, response) = rest.split_at(middle);
    let (request, response) = (StoredLines(request), StoredLines(response));
    let method = [Method::Get, Method::Head, Method::Post][usize::from(method % 3)];
    let status = [200, 206, 304, 404, 301, 500][usize::from(selector >> 2) % 6];
    let policy = policy(selector);

    let url = Url { scheme: b"http", authority: b"a.example", path: b"/a", query: Some(b"b=1&a=2") };
    invalidate::each_url(&policy, &url, status, response, |url| assert!(url.starts_with(b"http://a.example/")));
    let has_content = method == Method::Post;
    let incoming = Incoming { method, query: url.query, has_content, is_upgrade: false, lines: request };
    let Admission::Use(wanted) = admit(&policy, incoming) else { return };
    let mut key = Vec::new();
    policy.write_key(wanted.class, &url, true, request, None, &mut key);
    assert!(key::url_of(&key).starts_with(b"http://a.example/a?"));

    let times = Times { sent_ms: NOW, received_ms: NOW + 50 };
    let effective = Effective::read(response);
    let Ok(freshness) = storable::consider(&policy, &wanted, status, response, &effective, times) else { return };
    assert_eq!(Freshness::unpack(&freshness.pack()), Some(freshness));
    let mut stored = Vec::new();
    head::store(&policy, response, &effective, times.received_ms, &mut stored);
    let mut stored_again = Vec::new();
    let again = StoredLines(&stored);
    head::store(&policy, again, &Effective::read(again), times.received_ms, &mut stored_again);
    assert_eq!(stored, stored_again);

    let mut names = Vec::new();
    vary::write_names(response, &mut names).expect("what never matches is not stored");
    let mut secondary = Vec::new();
    vary::write_secondary(&names, request, &mut secondary);
    assert_eq!(secondary.is_empty(), names.is_empty());

    for now_ms in [0, NOW, NOW + 60_000, u64::MAX] {
        let verdict = reuse::assess(&freshness, &wanted, now_ms);
        assert!(verdict != Reuse::Fresh || freshness.is_fresh(now_ms));
        assert!(verdict != Reuse::WhileRevalidating || !freshness.never_stale);
        let mut said = Vec::new();
        status::write(policy.headers, Outcome::Hit, Some(&freshness), now_ms, b"weir", &mut said);
        for length in [0, 1, 1_000] {
            let delivery = delivery::choose(&wanted, request, &freshness, StoredLines(&stored), length);
            assert!(wanted.class == Class::Get || !matches!(delivery, Delivery::Part { .. } | Delivery::Unsatisfiable));
            head::write_fields(&stored, delivery, length, &mut said);
        }
    }
    let mut conditions = Vec::new();
    update::write_conditions(StoredLines(&stored), &mut conditions);
    assert_eq!(freshness.has_validator, !conditions.is_empty());
    let _ = update::confirms(&freshness, StoredLines(&stored), request);
    let mut merged = Vec::new();
    update::freshen(&policy, &wanted, &freshness, &stored, request, times, &mut merged);
    let _ = update::head_effect(&freshness, StoredLines(&stored), 10, status, request);
}

/// A value of the level in Redis: what is read is what would be written.
pub fn wire(bytes: &[u8]) {
    const DIGEST: [u8; 32] = *b"0123456789abcdef0123456789abcdef";
    // What any reader checks first, so that the rest is reached: version, kind, two times, the digest of the key.
    let mut value = vec![2];
    value.extend_from_slice(&bytes[..bytes.len().min(1)]);
    value.extend_from_slice(&[0; 16]);
    value.extend_from_slice(&DIGEST);
    value.extend_from_slice(bytes.get(1..).unwrap_or_default());
    let tags = ["cache-tag".into()];
    if let Some(Stored::Response(entry)) = wire::read(value, b"key", &DIGEST, &Edits::default(), &tags) {
        let mut out = Vec::new();
        head::write_fields(entry.head.lines(), Delivery::NotModified, 0, &mut out);
        let again = wire::response(&DIGEST, &entry);
        assert!(matches!(wire::read(again, b"key", &DIGEST, &Edits::default(), &[]), Some(Stored::Response(_))));
    }
}

fn policy(selector: u8) -> Policy {
    let cache = Cache {
        name: "answers".into(),
        mode: match selector & 3 {
            0 => CacheMode::Ttl(Duration::from_secs(300)),
            1 => CacheMode::Http { default_ttl: None },
            _ => CacheMode::Http { default_ttl: Some(Duration::from_secs(60)) },
        },
        stores: vec![CacheStore::Memory],
        max_bytes: 1 << 28,
        max_entries: 10_000,
        max_body_bytes: 1 << 20,
        query: CacheQuery::Sorted,
        partition_by: vec!["x-tenant".into()],
        by_consumer: false,
        post_json: true,
        strips_set_cookie: selector & 4 == 4,
        stale_if_error: Some(Duration::from_secs(60)),
        stale_while_revalidate: Some(Duration::from_secs(30)),
        tags: Vec::new(),
        headers: CacheHeaders { age: true, x_cache: true, cache_status: true },
    };
    Policy::new(&cache, [&LimitKey::Header("x-api-key".into()), &LimitKey::Query("key".into())], "")
}
