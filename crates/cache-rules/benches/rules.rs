//! Cost of the cache's rules for one request. `cargo bench -p cache-rules`
//!
//! The allocation counts of the steps of a hit have to be zero.

use std::hint::black_box;
use std::time::Duration;

use cache_rules::key::Url;
use cache_rules::request::{Incoming, admit};
use cache_rules::status::{self, Outcome};
use cache_rules::targeted::Effective;
use cache_rules::{
    Admission, CacheRequest, Class, Freshness, LiveLines, Policy, StoredLines, Times, delivery, head, reuse, storable,
    vary,
};
use config::{Cache, CacheHeaders, CacheMode, CacheQuery, CacheStore, LimitKey};
use divan::{AllocProfiler, Bencher};
use h1::{Limits, Method, RequestHead, ResponseHead};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

const NOW: u64 = 784_111_777_000;

const REQUEST: &[u8] = b"GET /api/v1/items/42?page=2 HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n\
    Accept: application/json, text/plain, */*\r\nAccept-Language: en-GB,en;q=0.9\r\nAccept-Encoding: gzip, deflate, br\r\n\
    Connection: keep-alive\r\nReferer: https://example.com/\r\nCache-Control: max-age=30\r\n\r\n";

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Type: application/json\r\nContent-Length: 200\r\n\
    Cache-Control: public, max-age=60, stale-while-revalidate=30\r\nETag: \"33a64df551425fcc55e4d42a148795d9f25f89d4\"\r\n\
    Vary: Accept-Encoding\r\nX-Request-Id: 0123456789abcdef\r\nServer: origin\r\n\r\n";

struct Case {
    policy: Policy,
    request: RequestHead,
    response: ResponseHead,
    wanted: CacheRequest,
    freshness: Freshness,
    stored: Vec<u8>,
    names: Vec<u8>,
    secondary: Vec<u8>,
}

const URL: Url<'static> =
    Url { scheme: b"http", authority: b"api.example.com", path: b"/api/v1/items/42", query: Some(b"page=2") };

impl Case {
    fn new() -> Self {
        let cache = Cache {
            name: "answers".into(),
            mode: CacheMode::Http { default_ttl: None },
            stores: vec![CacheStore::Memory],
            max_bytes: 1 << 28,
            max_entries: 10_000,
            max_body_bytes: 1 << 20,
            query: CacheQuery::All,
            partition_by: Vec::new(),
            by_consumer: false,
            post_json: false,
            strips_set_cookie: false,
            stale_if_error: Some(Duration::from_secs(60)),
            stale_while_revalidate: None,
            tags: Vec::new(),
            headers: CacheHeaders { age: true, x_cache: true, cache_status: true },
        };
        let policy = Policy::new(&cache, [&LimitKey::Header("x-api-key".into())], "");
        let mut request = RequestHead::default();
        request.parse(REQUEST, 0, REQUEST.len(), &Limits::default()).unwrap();
        let mut response = ResponseHead::default();
        response.parse(RESPONSE, 0, RESPONSE.len(), Method::Get, &Limits::default()).unwrap();
        let Admission::Use(wanted) = admit(&policy, incoming(&request)) else { panic!("not cached") };
        let lines = LiveLines::new(&response.fields, RESPONSE);
        let times = Times { sent_ms: NOW, received_ms: NOW };
        let effective = Effective::read(lines);
        let freshness = storable::consider(&policy, &wanted, 200, lines, &effective, times).unwrap();
        let (mut stored, mut names, mut secondary) = (Vec::new(), Vec::new(), Vec::new());
        head::store(&policy, lines, &effective, NOW, &mut stored);
        vary::write_names(lines, &mut names).unwrap();
        vary::write_secondary(&names, LiveLines::new(&request.fields, REQUEST), &mut secondary);
        Case { policy, request, response, wanted, freshness, stored, names, secondary }
    }
}

fn incoming(request: &RequestHead) -> Incoming<'_, LiveLines<'_>> {
    Incoming {
        method: request.method,
        query: request.query.map(|query| query.of_buf(REQUEST)),
        has_content: false,
        is_upgrade: request.upgrade,
        lines: LiveLines::new(&request.fields, REQUEST),
    }
}

/// Reads the request.
#[divan::bench]
fn hit_1_admit(bencher: Bencher<'_, '_>) {
    let case = Case::new();
    bencher.bench_local(|| admit(&case.policy, incoming(black_box(&case.request))));
}

/// Writes the key.
#[divan::bench]
fn hit_2_key(bencher: Bencher<'_, '_>) {
    let case = Case::new();
    let lines = LiveLines::new(&case.request.fields, REQUEST);
    let mut out = Vec::with_capacity(512);
    bencher.bench_local(|| {
        out.clear();
        case.policy.write_key(Class::Get, black_box(&URL), false, lines, None, &mut out);
        out.len()
    });
}

/// Compares the fields that `Vary` names.
#[divan::bench]
fn hit_3_vary(bencher: Bencher<'_, '_>) {
    let case = Case::new();
    let lines = LiveLines::new(&case.request.fields, REQUEST);
    let mut scratch = Vec::with_capacity(512);
    bencher.bench_local(|| {
        scratch.clear();
        vary::write_secondary(&case.names, black_box(lines), &mut scratch);
        scratch == case.secondary
    });
}

/// Decides and writes the head.
#[divan::bench]
fn hit_4_response(bencher: Bencher<'_, '_>) {
    let case = Case::new();
    let lines = LiveLines::new(&case.request.fields, REQUEST);
    let mut out = Vec::with_capacity(2048);
    bencher.bench_local(|| {
        out.clear();
        let now = black_box(NOW + 5_000);
        let verdict = reuse::assess(&case.freshness, &case.wanted, now);
        let delivery = delivery::choose(&case.wanted, lines, &case.freshness, StoredLines(&case.stored), 200);
        head::write_fields(&case.stored, delivery, 200, &mut out);
        status::write(case.policy.headers, Outcome::Hit, Some(&case.freshness), now, b"weir", &mut out);
        verdict
    });
}

/// What a miss adds: the decision to store, and the head to store.
#[divan::bench]
fn miss_store(bencher: Bencher<'_, '_>) {
    let case = Case::new();
    let lines = LiveLines::new(&case.response.fields, RESPONSE);
    let times = Times { sent_ms: NOW, received_ms: NOW };
    let mut out = Vec::with_capacity(2048);
    bencher.bench_local(|| {
        out.clear();
        let effective = Effective::read(black_box(lines));
        let freshness = storable::consider(&case.policy, &case.wanted, 200, lines, &effective, times);
        head::store(&case.policy, lines, &effective, NOW, &mut out);
        freshness
    });
}
