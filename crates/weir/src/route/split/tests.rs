use std::sync::Arc;

use proptest::prelude::*;

use super::{Sender, cookie, point};
use crate::config::{Split, SplitKey, UpstreamId};

fn split(weights: &[u32]) -> Split {
    Split { members: weights.iter().enumerate().map(|(id, weight)| (UpstreamId(id), *weight)).collect(), by: None }
}

fn of(by: &SplitKey, address: &str, consumer: Option<&str>, fields: &[(&str, &'static str)]) -> u64 {
    let sender = Sender { address: address.parse().unwrap(), consumer };
    point(by, sender, |name| fields.iter().filter(move |(known, _)| *known == name).map(|(_, value)| value.as_bytes()))
}

#[test]
fn the_range_is_shared_by_weight() {
    let shares = |weights: &[u32]| {
        let split = split(weights);
        let mut counts = vec![0; weights.len()];
        (0..10_000_u64).for_each(|step| counts[split.member_at((2 * step + 1) * (u64::MAX / 20_000))] += 1);
        counts
    };
    assert_eq!(shares(&[95, 5]), [9_500, 500]);
    assert_eq!(shares(&[0, 1]), [0, 10_000]);
    assert_eq!(shares(&[1, 0, 1]), [5_000, 0, 5_000]);
    assert_eq!(split(&[2, 1]).rounded_percent(1), 33.33);
}

#[test]
fn values_decide_and_the_address_where_there_is_none() {
    let cookie_key = SplitKey::Cookie(Arc::from("side"));
    let header_key = SplitKey::Header(Arc::from("x-user"));
    let (one, two) = ("192.0.2.1", "198.51.100.7");
    assert_eq!(
        of(&cookie_key, one, None, &[("cookie", "a=1; side=b")]),
        of(&cookie_key, two, None, &[("cookie", "side=b")])
    );
    assert_eq!(of(&header_key, one, None, &[("x-user", "b")]), of(&cookie_key, two, None, &[("cookie", "side=b")]));
    assert_eq!(of(&SplitKey::Consumer, one, Some("b"), &[]), of(&header_key, two, None, &[("x-user", "b")]));
    for (by, fields) in [
        (&cookie_key, &[("cookie", "side=; other=b")][..]),
        (&cookie_key, &[("x-user", "side=b")]),
        (&header_key, &[("x-user", "")]),
        (&SplitKey::Consumer, &[]),
    ] {
        assert_eq!(of(by, one, None, fields), of(&SplitKey::ClientIp, one, None, &[]), "{by}");
    }
    assert_ne!(of(&SplitKey::ClientIp, one, None, &[]), of(&SplitKey::ClientIp, two, None, &[]));
}

#[test]
fn clients_cannot_choose_by_changing_addresses_of_their_network() {
    let at = |address| of(&SplitKey::ClientIp, address, None, &[]);
    assert_eq!(at("2001:db8:1:2::1"), at("2001:db8:1:2:ffff::9"));
    assert_ne!(at("2001:db8:1:2::1"), at("2001:db8:1:3::1"));
    assert_eq!(at("::ffff:192.0.2.1"), at("192.0.2.1"));
}

#[test]
fn cookies_are_found_among_others() {
    for (line, value) in [
        ("side=a", Some("a")),
        ("b=1; side = a ;c", Some("a")),
        ("xside=a; side", None),
        ("side=a=b", Some("a=b")),
        ("side=; side=c", Some("c")),
        ("", None),
    ] {
        assert_eq!(cookie(line.as_bytes(), b"side"), value.map(str::as_bytes), "{line}");
    }
}

/// Values lie where they lay in every earlier release: a client that is moved sees another version.
#[test]
fn points_do_not_move_between_releases() {
    assert_eq!(of(&SplitKey::ClientIp, "192.0.2.1", None, &[]), 3691133820895083113);
    assert_eq!(of(&SplitKey::Consumer, "192.0.2.1", Some("acme"), &[]), 4752325627358556841);
}

proptest! {
    #[test]
    fn every_point_has_a_member_with_a_weight(weights in prop::collection::vec(0_u32..=1_000_000, 1..8), at: u64) {
        prop_assume!(weights.iter().any(|weight| *weight > 0));
        prop_assert!(weights[split(&weights).member_at(at)] > 0);
    }

    #[test]
    fn a_larger_share_keeps_those_who_had_it(at: u64, less in 0_u32..=100, more in 0_u32..=100) {
        let (less, more) = (less.min(more), less.max(more));
        if split(&[100 - less, less]).member_at(at) == 1 {
            prop_assert_eq!(split(&[100 - more, more]).member_at(at), 1);
        }
    }
}
