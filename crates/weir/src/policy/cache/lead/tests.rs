use std::sync::atomic::AtomicBool;

use super::*;
use crate::config::{Cache as Settings, CacheHeaders, CacheMode, CacheQuery, CacheStore};
use crate::policy::cache::entry::tests::entry;
use crate::policy::cache::purge::Chosen;
use crate::policy::cache::rules::cache_control::RequestControl;

pub(in crate::policy::cache) fn cache() -> Arc<Cache> {
    let settings = Settings {
        name: "c".into(),
        mode: CacheMode::Http { default_ttl: None },
        stores: vec![CacheStore::Memory],
        max_bytes: 1 << 20,
        max_entries: 100,
        max_body_bytes: 1000,
        query: CacheQuery::All,
        partition_by: Vec::new(),
        by_consumer: false,
        post_json: false,
        strips_set_cookie: false,
        stale_if_error: None,
        stale_while_revalidate: None,
        tags: Vec::new(),
        headers: CacheHeaders::default(),
    };
    let state = Arc::new(State::new(&settings));
    Arc::new(Cache { settings, path: crate::route::path::Policy::default(), state })
}

pub(in crate::policy::cache) fn wanted() -> CacheRequest {
    CacheRequest {
        class: Class::Get,
        control: RequestControl::default(),
        is_authorized: false,
        is_guarded: false,
        has_range: false,
        is_conditional: false,
    }
}

/// The key of [`entry`].
pub(in crate::policy::cache) fn keys() -> KeyScratch {
    let mut keys = KeyScratch::default();
    keys.set_primary(&Key::from(&b"key"[..]));
    keys
}

fn lead(cache: &Arc<Cache>) -> Box<Lead> {
    Lead::join(cache, &keys(), wanted(), Fwd::UriMiss).expect("nobody leads")
}

/// The purge may come before, between or after the steps of storing.
#[test]
fn a_purge_at_any_moment_of_storing_leaves_nothing_behind() {
    let cache = cache();
    let response = entry("body");
    for round in 0..2_000 {
        let lead = lead(&cache);
        let (is_ready, go) = (AtomicBool::new(false), AtomicBool::new(false));
        let wait_for = |flag: &AtomicBool| {
            while !flag.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                is_ready.store(true, Ordering::Release);
                wait_for(&go);
                cache.take_out(&Arc::new(Chosen::All), false)
            });
            wait_for(&is_ready);
            go.store(true, Ordering::Release);
            (0..round % 50).for_each(|_| std::hint::spin_loop());
            lead.store(&response);
        });
        assert_eq!(cache.state.memory.entries(), 0);
    }
}

#[test]
fn a_response_that_replaced_another_is_not_removed_for_it() {
    let cache = cache();
    let (first, second) = (entry("1"), entry("2"));
    let memory = &cache.state.memory;
    memory.put(first.head.key.clone(), Slot::Response(second.clone()));
    assert!(!memory.remove_response(&first.head.key, &first));
    assert!(memory.remove_response(&second.head.key, &second));
}
