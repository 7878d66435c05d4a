//! Terms as a store keeps them.

use super::reuse::{Reuse, assess, may_replace_error};
use super::*;
use proptest::prelude::*;

#[test]
fn a_soft_purge_makes_stale_and_leaves_the_allowances() {
    let mut purged = freshness("Cache-Control: max-age=600, stale-while-revalidate=30, stale-if-error=60\r\n");
    purged.expire(NOW + seconds(100));
    assert_eq!(assess(&purged, &request_with(""), NOW + seconds(100)), Reuse::WhileRevalidating);
    assert_eq!(assess(&purged, &request_with(""), NOW + seconds(129)), Reuse::WhileRevalidating);
    assert_eq!(assess(&purged, &request_with(""), NOW + seconds(130)), Reuse::Validate(Fwd::Stale));
    assert!(may_replace_error(&purged, &request_with(""), NOW + seconds(159)));
    let mut fixed = Response::new(200, "Age: 50\r\n").consider(&ttl(), &get("").wanted(&ttl())).unwrap();
    fixed.expire(NOW + seconds(100));
    assert!(!fixed.is_fresh(NOW + seconds(100)) && fixed.staleness_ms(NOW + seconds(101)) == 1000);
    let mut stale = freshness("Cache-Control: max-age=10, stale-if-error=60\r\n");
    stale.expire(NOW + seconds(30));
    assert_eq!(stale.staleness_ms(NOW + seconds(30)), seconds(20), "what was stale before stays as stale");
}

#[test]
fn what_is_invalid_needs_validation() {
    let mut invalid = freshness("Cache-Control: max-age=600, stale-if-error=60\r\n");
    invalid.invalidate();
    assert_eq!(assess(&invalid, &request_with("Cache-Control: max-stale\r\n"), NOW), Reuse::Validate(Fwd::Stale));
    assert!(!may_replace_error(&invalid, &request_with(""), NOW));
}

#[test]
fn a_store_may_forget_what_is_of_no_use() {
    let useless_s = |fields: &str, keep_s: u64| (freshness(fields).useless_at_ms(seconds(keep_s)) - NOW) / 1000;
    assert_eq!(useless_s("Cache-Control: max-age=60\r\n", 900), 60);
    assert_eq!(useless_s("Cache-Control: max-age=60\r\nAge: 20\r\n", 900), 40);
    assert_eq!(useless_s("Cache-Control: max-age=60, stale-if-error=30, stale-while-revalidate=20\r\n", 0), 90);
    assert_eq!(useless_s("Cache-Control: max-age=60\r\nETag: \"a\"\r\n", 900), 960);
    assert_eq!(useless_s("Cache-Control: s-maxage=60, stale-if-error=30\r\n", 0), 60);
    let fixed = Response::new(200, "Age: 50\r\n").consider(&ttl(), &get("").wanted(&ttl())).unwrap();
    assert_eq!(fixed.useless_at_ms(0), NOW + seconds(300));
}

proptest! {
    #[test]
    fn packed_terms_unpack_to_the_same(
        status in any::<u16>(),
        numbers in any::<[u64; 6]>(),
        source in 0..6usize,
        flags in any::<[bool; 6]>(),
    ) {
        let sources = [LifetimeSource::Fixed, LifetimeSource::SharedMaxAge, LifetimeSource::MaxAge, LifetimeSource::Expires,
            LifetimeSource::Heuristic, LifetimeSource::None];
        let freshness = Freshness {
            status,
            received_ms: numbers[0],
            initial_age_ms: numbers[1],
            lifetime_ms: numbers[2],
            source: sources[source],
            stale_while_revalidate_ms: numbers[3],
            stale_if_error_ms: numbers[4],
            date_ms: numbers[5],
            always_validate: flags[0],
            never_stale: flags[1],
            for_authorized: flags[2],
            for_all: flags[3],
            has_validator: flags[4],
            has_age: flags[5],
        };
        prop_assert_eq!(Freshness::unpack(&freshness.pack()), Some(freshness));
        // Nothing overflows, however odd what another program wrote.
        let _ = (freshness.age_ms(u64::MAX), freshness.ttl_ms(0), freshness.useless_at_ms(u64::MAX), freshness.staleness_ms(u64::MAX));
        prop_assert_eq!(Freshness::unpack(&freshness.pack()[1..]), None);
    }
}
