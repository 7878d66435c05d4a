//! Whatever comes, nothing panics, and nothing becomes more cacheable by being malformed.

use proptest::prelude::*;

use super::cache_control::{ResponseControl, directives};
use super::lines::Lines;
use super::precondition::EntityTag;
use super::*;

/// Bytes of the kind that these grammars are made of.
fn fragments() -> impl Strategy<Value = String> {
    let fragment = prop::sample::select(vec![
        "max-age",
        "s-maxage",
        "no-store",
        "no-cache",
        "private",
        "public",
        "=",
        "\"",
        ",",
        ";",
        " ",
        "\\",
        "60",
        "-1",
        "99999999999999999999",
        "x",
        "*",
        "W/",
        "?1",
        "?0",
        ":",
        "(",
        ")",
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "bytes",
        "-",
        "/",
        "0",
        "q=0.5",
        "gzip",
        "\u{fc}",
        "{",
        "}",
        "[",
        "]",
        "\\u",
        "d800",
        "true",
    ]);
    prop::collection::vec(fragment, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn no_value_makes_any_parser_panic(value in fragments(), bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        for value in [value.as_bytes(), &bytes] {
            let _ = directives(value).count();
            let _ = date::parse(value, (NOW / 1000) as i64);
            let _ = sf::dictionary(value, |_, _| {});
            let _ = EntityTag::parse(value);
            let _ = range::parse(value, 10);
            let _ = json::write_canonical(value, &mut Vec::new());
            let mut out = Vec::new();
            query::write(&CacheQuery::Only(vec!["a".into()]), Some(value), &mut out);
            query::write(&CacheQuery::Sorted, Some(value), &mut out);
            let _ = StoredLines(value).all().count();
            let _ = Freshness::unpack(value);
        }
    }

    #[test]
    fn no_head_makes_the_rules_panic(
        names in prop::collection::vec(0..17usize, 0..8),
        values in prop::collection::vec(fragments(), 8),
        status in 100..999u16,
        sent_ms in any::<u64>(),
        received_ms in 0..u64::MAX / 2,
        now_ms in any::<u64>(),
    ) {
        let known = ["Cache-Control", "CDN-Cache-Control", "Age", "Date", "Expires", "ETag", "Last-Modified", "Vary", "Set-Cookie", "Content-Range",
            "Location", "Range", "If-Range", "If-None-Match", "If-Modified-Since", "Accept-Encoding", "Accept"];
        let fields: String = names.iter().zip(&values).map(|(&name, value)| format!("{}: {value}\r\n", known[name])).collect();
        let stored = fields.as_bytes();
        let lines = StoredLines(stored);
        let times = Times { sent_ms, received_ms };
        for policy in [http(), ttl(), guessing()] {
            let Admission::Use(wanted) = admit(&policy, Incoming { method: Method::Get, query: None, has_content: false, is_upgrade: false, lines }) else { continue };
            let effective = Effective::read(lines);
            let Ok(freshness) = consider(&policy, &wanted, status, lines, &effective, times) else { continue };
            let _ = reuse::assess(&freshness, &wanted, now_ms);
            let _ = reuse::may_replace_error(&freshness, &wanted, now_ms);
            let _ = freshness.useless_at_ms(now_ms);
            let mut out = Vec::new();
            head::store(&policy, lines, &effective, received_ms, &mut out);
            for length in [0, 1, u64::MAX] {
                let delivery = delivery::choose(&wanted, lines, &freshness, StoredLines(&out), length);
                let mut sent = Vec::new();
                head::write_fields(&out, delivery, length, &mut sent);
                let _ = delivery.content_length(&freshness, length);
            }
            let _ = update::confirms(&freshness, StoredLines(&out), lines);
            let mut merged = Vec::new();
            let _ = update::freshen(&policy, &wanted, &freshness, &out, lines, times, &mut merged);
            let mut names = Vec::new();
            let mut secondary = Vec::new();
            if vary::write_names(lines, &mut names).is_ok() {
                vary::write_secondary(&names, lines, &mut secondary);
                prop_assert_eq!(secondary.is_empty(), names.is_empty());
            }
            let url = key::Url { scheme: b"http", authority: b"a", path: b"/", query: None };
            invalidate::each_url(&policy, &url, 200, lines, |url| assert!(url.starts_with(b"http://a/")));
            let mut said = Vec::new();
            status::write(policy.headers, status::Outcome::Hit, Some(&freshness), now_ms, b"weir", &mut said);
        }
    }

    /// A restriction in front is seen, whatever follows it; one behind is seen, unless it is in a string that ends.
    #[test]
    fn restrictions_survive_what_stands_around_them(noise in fragments()) {
        let mut control = ResponseControl::default();
        control.add(format!("no-store,{noise}").as_bytes());
        prop_assert!(control.no_store);
        let mut control = ResponseControl::default();
        control.add(format!("{},private", noise.replace('"', "")).as_bytes());
        prop_assert!(control.private);
        let mut control = ResponseControl::default();
        // One quote opens a string that never ends.
        control.add(format!("x=\"{},no-store", noise.replace('"', "")).as_bytes());
        prop_assert!(control.no_store && control.malformed);
    }
}
