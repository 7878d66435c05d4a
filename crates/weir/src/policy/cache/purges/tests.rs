use super::super::entry::tests::entry;
use super::super::lead::tests::cache;
use super::*;

fn url(path: &str) -> Target {
    Target { which: Which::Url(format!("http://h/{path}")), soft: false }
}

/// A response of this path, whose fetch began at this generation.
fn response(path: &str, generation: u64) -> Entry {
    let mut entry = entry("body");
    let head = Arc::get_mut(&mut entry.head).unwrap();
    head.key = super::super::key::Key::from(format!("http://h/{path}\0").as_bytes());
    head.generation = generation;
    (head.freshness.received_ms, head.freshness.lifetime_ms) = (clock::wall_ms(), 1_000_000);
    entry
}

fn note(cache: &Cache, target: &Target) -> Ticket {
    let chosen = Arc::new(cache.chosen(&target.which).unwrap());
    cache.state.purges.note(target, chosen)
}

fn read(number: u64, purges: &[(&Target, u64)]) -> ReadPurges {
    let purges = purges.iter().map(|(target, number)| (target.to_text(), *number)).collect();
    ReadPurges { version: format!("{number}-word").into_bytes(), number, purges }
}

#[test]
fn the_url_of_a_key_is_what_purges_are_compared_with() {
    assert_eq!(url_of(&response("x", 0).head.key), b"http://h/x");
}

/// The number of the first must not stand for the second, which Redis may never get.
#[tokio::test]
async fn a_second_purge_of_the_same_target_waits_for_a_number_of_its_own() {
    let cache = cache();
    let purges = &cache.state.purges;
    let target = url("x");
    let (first, second) = (note(&cache, &target), note(&cache, &target));
    purges.told(&target.to_text(), first, 5);
    assert!(purges.has_unwritten());
    assert!(purges.allows(response("x", 5)).is_none(), "fetched between the two");
    // Another gateway's purge of the same target does not stand for it either.
    let unwritten = cache.merge_purges(&read(6, &[(&target, 6)])).await;
    assert_eq!(unwritten, [Unwritten { text: target.to_text(), number: None, ticket: second }]);
    assert!(!purges.is_current(b"6-word"));
    assert!(purges.allows(response("x", 5)).is_none());
    purges.told(&target.to_text(), second, 7);
    assert!(!purges.has_unwritten());
    assert!(purges.allows(response("x", 6)).is_none() && purges.allows(response("x", 7)).is_some());
    assert!(cache.merge_purges(&read(7, &[(&target, 7)])).await.is_empty());
    assert!(purges.is_current(b"7-word"));
}

/// Redis lost data, and a gateway that had not read the last purges made one with a number that responses already carry.
#[tokio::test]
async fn a_purge_with_a_number_that_was_lost_reaches_newer_responses() {
    let cache = cache();
    let purges = &cache.state.purges;
    cache.merge_purges(&read(10, &[(&url("other"), 10)])).await;
    let stored = response("x", 10);
    cache.state.memory.put(stored.head.key.clone(), super::super::store::Slot::Response(stored));
    let unwritten = cache.merge_purges(&read(8, &[(&url("x"), 8)])).await;
    assert_eq!(cache.state.memory.entries(), 0, "what is in memory is purged though its number is higher");
    assert!(purges.allows(response("x", 10)).is_none(), "and so is what is in Redis");
    let mut expected = [(url("other").to_text(), Some(10)), (url("x").to_text(), None)];
    let mut written: Vec<_> = unwritten.into_iter().map(|purge| (purge.text, purge.number)).collect();
    written.sort();
    expected.sort();
    assert_eq!(written, expected);
    assert!(purges.allows(response("y", 11)).is_none(), "of a generation that Redis does not have");
    assert!(purges.allows(response("y", 10)).is_some());
}

/// Even if nothing is left to write, numbers must go on above those that responses carry.
#[tokio::test]
async fn a_lost_number_is_noticed_when_there_is_no_purge_to_write() {
    let cache = cache();
    cache.state.purges.told(b"", 0, 10);
    assert!(cache.merge_purges(&read(0, &[])).await.is_empty());
    assert!(!cache.state.purges.is_current(b"0-word"));
}

/// 10,000 purges, read again after each of them, and 10,000 responses: what is compared does not grow with the product.
#[tokio::test]
async fn many_purges_are_compared_with_what_they_concern_only() {
    let cache = cache();
    let targets: Vec<Target> = (0..10_000).map(|number| url(&number.to_string())).collect();
    let pairs: Vec<(&Target, u64)> = targets.iter().zip(1..).collect();
    let all = read(10_000, &pairs);
    assert!(cache.merge_purges(&all).await.is_empty());
    let purges = &cache.state.purges;
    {
        let list = lock(&purges.list);
        let compared = |path: &str| {
            let response = response(path, 0);
            list.index.each(&response.head.key, &response).count()
        };
        assert_eq!((compared("77"), compared("none")), (1, 0));
    }
    assert!(purges.allows(response("77", 77)).is_none() && purges.allows(response("77", 78)).is_some());
    assert!(cache.merge_purges(&all).await.is_empty());
    assert_eq!(purges.count(), 10_000, "each was applied once");
}

#[tokio::test]
async fn every_kind_of_purge_concerns_what_it_names() {
    for (which, concerned) in [
        (Which::Url("http://h/x".into()), true),
        (Which::Url("http://h/y".into()), false),
        (Which::Prefix("http://h/".into()), true),
        (Which::Prefix("http://h/xx".into()), false),
        (Which::Tag("a".into()), true),
        (Which::Tag("c".into()), false),
        (Which::All, true),
    ] {
        for soft in [false, true] {
            let cache = cache();
            let target = Target { which: which.clone(), soft };
            let stored = response("x", 0);
            cache.state.memory.put(stored.head.key.clone(), super::super::store::Slot::Response(stored.clone()));
            cache.merge_purges(&read(1, &[(&target, 1)])).await;
            let is_kept = cache.state.memory.entries() == 1;
            assert_eq!(is_kept, !concerned || soft, "{target:?}");
            assert_eq!(stored.freshness() != stored.head.freshness, concerned && soft, "{target:?}");
            let from_redis = cache.state.purges.allows(response("x", 0));
            assert_eq!(from_redis.is_some(), !concerned || soft, "{target:?}");
            let is_stale = from_redis.is_some_and(|entry| entry.freshness() != entry.head.freshness);
            assert_eq!(is_stale, concerned && soft, "{target:?}");
        }
    }
}

/// Of a soft and a hard purge the hard one prevails, in whichever order they came.
#[tokio::test]
async fn a_hard_purge_prevails() {
    let cache = cache();
    let soft = Target { soft: true, ..url("x") };
    let stored = response("x", 0);
    cache.state.memory.put(stored.head.key.clone(), super::super::store::Slot::Response(stored));
    cache.merge_purges(&read(2, &[(&soft, 2), (&url("x"), 1)])).await;
    assert_eq!(cache.state.memory.entries(), 0);
    assert!(cache.state.purges.allows(response("x", 0)).is_none());
    assert!(cache.state.purges.allows(response("x", 1)).is_some_and(|entry| entry.freshness() != entry.head.freshness));
}
