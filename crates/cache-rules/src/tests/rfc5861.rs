//! RFC 5861: stale-while-revalidate and stale-if-error.

use super::reuse::{Reuse, is_error, may_replace_error};
use super::*;

/// RFC 5861 section 3. MAY serve a response stale for the number of seconds while it is revalidated.
#[test]
fn stale_while_revalidate_has_a_window() {
    let response = "Cache-Control: max-age=60, stale-while-revalidate=30\r\n";
    assert_eq!(reuse(response, "", 59), Reuse::Fresh);
    assert_eq!(reuse(response, "", 60), Reuse::WhileRevalidating);
    assert_eq!(reuse(response, "", 89), Reuse::WhileRevalidating);
    assert_eq!(reuse(response, "", 90), Reuse::Validate(Fwd::Stale));
    assert_eq!(reuse("Cache-Control: max-age=60, stale-while-revalidate=x\r\n", "", 60), Reuse::Validate(Fwd::Stale));
    assert_eq!(reuse("Cache-Control: max-age=60, stale-while-revalidate\r\n", "", 60), Reuse::Validate(Fwd::Stale));
}

/// RFC 5861 section 4. MAY use a stale response on an error, for the number of seconds after it became stale.
#[test]
fn stale_if_error_has_a_window() {
    let freshness = freshness("Cache-Control: max-age=60, stale-if-error=30\r\n");
    assert!(may_replace_error(&freshness, &request_with(""), NOW + seconds(60)));
    assert!(may_replace_error(&freshness, &request_with(""), NOW + seconds(89)));
    assert!(!may_replace_error(&freshness, &request_with(""), NOW + seconds(90)));
}

/// RFC 5861 section 4. An error is a status of 500, 502, 503 or 504, or none at all.
#[test]
fn errors_are_four_statuses() {
    let errors: Vec<u16> = (100..=999).filter(|&status| is_error(status)).collect();
    assert_eq!(errors, [500, 502, 503, 504]);
}

/// RFC 5861 section 4. stale-if-error in a request allows it too.
#[test]
fn requests_may_take_stale_on_error() {
    let freshness = freshness("Cache-Control: max-age=60\r\n");
    let wanted = request_with("Cache-Control: stale-if-error=30\r\n");
    assert!(may_replace_error(&freshness, &wanted, NOW + seconds(89)));
    assert!(!may_replace_error(&freshness, &wanted, NOW + seconds(90)));
    assert!(!may_replace_error(&freshness, &request_with("Cache-Control: stale-if-error=x\r\n"), NOW + seconds(60)));
}

/// RFC 5861 section 4. The allowance holds regardless of other freshness information.
#[test]
fn an_error_weighs_more_than_wishes_for_freshness() {
    let freshness = freshness("Cache-Control: max-age=60, stale-if-error=30\r\n");
    for fields in ["Cache-Control: max-age=0\r\n", "Cache-Control: min-fresh=9\r\n"] {
        assert!(may_replace_error(&freshness, &request_with(fields), NOW + seconds(70)), "{fields}");
    }
}

/// RFC 9111 section 4.2.4. By configuration where the origin says nothing; what it says counts.
#[test]
fn configured_allowances_are_defaults() {
    let policy = http_with(|cache| {
        cache.stale_if_error = Some(Duration::from_secs(10));
        cache.stale_while_revalidate = Some(Duration::from_secs(20));
    });
    let freshness = |control: &str| {
        Response::new(200, &format!("{DATE}Cache-Control: {control}\r\n")).consider(&policy, &request_with("")).unwrap()
    };
    let silent = freshness("max-age=60");
    assert_eq!((silent.stale_if_error_ms, silent.stale_while_revalidate_ms), (seconds(10), seconds(20)));
    let said = freshness("max-age=60, stale-if-error=0, stale-while-revalidate=0");
    assert_eq!((said.stale_if_error_ms, said.stale_while_revalidate_ms), (0, 0));
}
