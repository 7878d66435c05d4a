//! Freshness against a plain model: the formulas of RFC 9111 section 4.2 in whole numbers of 128 bits.

use super::reuse::{Reuse, assess};
use super::*;
use proptest::prelude::*;

/// An HTTP date.
fn http_date(unix_s: u64) -> String {
    let line = h1::encode::date_of_second(unix_s);
    text(&line[6..line.len() - 2]).to_owned()
}

#[derive(Debug, Clone)]
struct Case {
    max_age: Option<u32>,
    s_maxage: Option<u32>,
    expires_s: Option<i32>,
    age: Option<u32>,
    date_s: Option<i32>,
    delay_ms: u32,
    resident_ms: u64,
    swr: Option<u32>,
    request_max_age: Option<u32>,
    request_min_fresh: Option<u32>,
    request_max_stale: Option<Option<u32>>,
}

/// Small enough to meet often, and sometimes as large as can be.
fn span() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..120u32, 1 => any::<u32>()]
}

fn case() -> impl Strategy<Value = Case> {
    let response = (
        prop::option::of(span()),
        prop::option::weighted(0.2, span()),
        prop::option::of(-100..200i32),
        prop::option::of(span()),
        prop::option::of(-100..100i32),
    );
    let time = (0..5_000u32, prop_oneof![9 => 0..200_000u64, 1 => 0..1u64 << 50]);
    let rest = (
        prop::option::weighted(0.3, span()),
        prop::option::weighted(0.3, span()),
        prop::option::weighted(0.3, span()),
        prop::option::weighted(0.3, prop::option::of(span())),
    );
    (response, time, rest).prop_map(
        |(
            (max_age, s_maxage, expires_s, age, date_s),
            (delay_ms, resident_ms),
            (swr, request_max_age, request_min_fresh, request_max_stale),
        )| Case {
            max_age,
            s_maxage,
            expires_s,
            age,
            date_s,
            delay_ms,
            resident_ms,
            swr,
            request_max_age,
            request_min_fresh,
            request_max_stale,
        },
    )
}

fn capped(seconds: u32) -> i128 {
    i128::from(seconds.min(1 << 31))
}

/// What the RFC says, by the letter: lifetime and current age in milliseconds.
fn model(case: &Case) -> (Option<i128>, i128) {
    let response_time = i128::from(NOW);
    let request_time = response_time - i128::from(case.delay_ms);
    let date_value = i128::from(NOW / 1000) + i128::from(case.date_s.unwrap_or(0));
    let lifetime = match (case.s_maxage, case.max_age, case.expires_s) {
        (Some(seconds), _, _) | (None, Some(seconds), _) => Some(capped(seconds) * 1000),
        (None, None, Some(expires)) => {
            Some(((i128::from(NOW / 1000) + i128::from(expires) - date_value) * 1000).max(0))
        }
        (None, None, None) => None,
    };
    let apparent_age = ((response_time / 1000 - date_value) * 1000).max(0);
    let response_delay = response_time - request_time;
    let corrected_age_value = case.age.map_or(0, capped) * 1000 + response_delay;
    (lifetime, apparent_age.max(corrected_age_value) + i128::from(case.resident_ms))
}

fn expected(case: &Case, lifetime: i128, age: i128) -> Reuse {
    let is_fresh = lifetime > age;
    let young = case.request_max_age.is_none_or(|seconds| age <= capped(seconds) * 1000);
    let lasting = case.request_min_fresh.is_none_or(|seconds| lifetime >= age + capped(seconds) * 1000);
    if is_fresh {
        return if young && lasting { Reuse::Fresh } else { Reuse::Validate(Fwd::Request) };
    }
    let stale = age - lifetime;
    let tolerated = match case.request_max_stale {
        None => false,
        Some(None) => true,
        Some(Some(seconds)) => stale <= capped(seconds) * 1000,
    };
    if case.s_maxage.is_some() || case.request_min_fresh.is_some() || !young {
        Reuse::Validate(Fwd::Stale)
    } else if tolerated {
        Reuse::StaleAllowed
    } else if case.request_max_age.is_none() && stale < capped(case.swr.unwrap_or(0)) * 1000 {
        Reuse::WhileRevalidating
    } else {
        Reuse::Validate(Fwd::Stale)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn freshness_is_what_the_formulas_say(case in case()) {
        let mut fields = String::from("ETag: \"a\"\r\n");
        let mut line = |name: &str, value: String| fields.push_str(&format!("{name}: {value}\r\n"));
        for (name, seconds) in [("max-age", case.max_age), ("s-maxage", case.s_maxage), ("stale-while-revalidate", case.swr)] {
            if let Some(seconds) = seconds {
                line("Cache-Control", format!("{name}={seconds}"));
            }
        }
        let at = |offset_s: i32| http_date((NOW / 1000).saturating_add_signed(i64::from(offset_s)));
        case.date_s.into_iter().for_each(|offset_s| line("Date", at(offset_s)));
        case.expires_s.into_iter().for_each(|offset_s| line("Expires", at(offset_s)));
        case.age.into_iter().for_each(|seconds| line("Age", seconds.to_string()));
        let mut requesting = vec![];
        case.request_max_age.into_iter().for_each(|seconds| requesting.push(format!("max-age={seconds}")));
        case.request_min_fresh.into_iter().for_each(|seconds| requesting.push(format!("min-fresh={seconds}")));
        case.request_max_stale.into_iter().for_each(|seconds| requesting.push(match seconds {
            Some(seconds) => format!("max-stale={seconds}"),
            None => "max-stale".to_owned(),
        }));
        let wanted = request_with(&format!("Cache-Control: {}\r\n", requesting.join(", ")));

        let times = Times { sent_ms: NOW - u64::from(case.delay_ms), received_ms: NOW };
        let response = Response::new(200, &fields);
        let considered = consider(&http(), &wanted, 200, response.lines(), &Effective::read(response.lines()), times);
        let (lifetime, age) = model(&case);
        let Some(lifetime) = lifetime else {
            prop_assert_eq!(considered, Err(NotStored::NoFreshness));
            return Ok(());
        };
        let freshness = considered.unwrap();
        let now = NOW + case.resident_ms;
        prop_assert_eq!(i128::from(freshness.lifetime_ms), lifetime);
        prop_assert_eq!(i128::from(freshness.age_ms(now)), age);
        prop_assert_eq!(i128::from(freshness.ttl_ms(now)), lifetime - age);
        prop_assert_eq!(freshness.is_fresh(now), lifetime > age);
        prop_assert_eq!(i128::from(freshness.staleness_ms(now)), (age - lifetime).max(0));
        prop_assert_eq!(assess(&freshness, &wanted, now), expected(&case, lifetime, age));
    }

    /// What is fresh was fresh before; what is usable at all was usable before.
    #[test]
    fn nothing_becomes_fresher_by_waiting(case in case(), wait_ms in 0..300_000u64) {
        let fields = format!("Cache-Control: max-age={}, stale-while-revalidate={}\r\nETag: \"a\"\r\n",
            case.max_age.unwrap_or(60), case.swr.unwrap_or(0));
        let freshness = freshness(&fields);
        let rank = |now: u64| match assess(&freshness, &request_with(""), now) {
            Reuse::Fresh => 2,
            Reuse::WhileRevalidating => 1,
            _ => 0,
        };
        let now = NOW + case.resident_ms;
        prop_assert!(rank(now) >= rank(now + wait_ms));
        prop_assert!(freshness.age_ms(now) <= freshness.age_ms(now + wait_ms));
    }
}
