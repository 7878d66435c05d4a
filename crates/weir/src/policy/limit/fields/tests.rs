//! How fields are written.

use super::*;
use crate::config::{Config, LimitId, load_text};
use crate::observe::Metrics;
use crate::policy::limit::{Key, Limits};

fn limits(limits: &str, count: usize) -> (WorkerLimits, RouteLimits) {
    let yaml =
        format!("listen: 127.0.0.1:0\nlimits:\n{limits}routes: [{{match: {{path: /}}, respond: {{body: x}}}}]\n");
    let config: Config = load_text("test", &yaml, &|_| None).unwrap_or_else(|problems| panic!("{problems}")).config;
    let limits = WorkerLimits::new(Limits::new(&config, None).into(), count, &Metrics::new().shard(0), 1, None);
    let route = limits.of_route(&(0..count).map(LimitId).collect::<Vec<_>>());
    (limits, route)
}

fn check(limit: usize, decision: Decision) -> LimitCheck {
    LimitCheck { limit, key: Key(0), cost: 1, decision }
}

fn left(limit: u64, remaining: u64, reset_ns: u64) -> Decision {
    Decision { allowed: true, limit, remaining, reset_ns, retry_ns: 0 }
}

#[test]
fn a_response_names_every_limit_that_shows_itself() {
    let (limits, route) = limits(
        "  a: {rate: 3/s, burst: 4, headers: [ietf, legacy]}\n  hidden: {rate: 1/s, headers: []}\n  \
           c: {algorithm: concurrency, quota: 7}\n  d: {algorithm: fixed_window, quota: 9, window: 1500ms, headers: [ietf, legacy]}\n",
        4,
    );
    let checks = [
        check(0, left(4, 3, 333_333_334)),
        check(1, left(40, 0, 1)),
        check(2, left(7, 6, 0)),
        check(3, left(9, 1, 1_000_000_001)),
    ];
    let mut out = Vec::new();
    write_allowed(&mut out, &limits, &route, &checks);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "RateLimit-Policy: \"a\";q=4;w=2, \"c\";q=7;qu=\"concurrent-requests\", \"d\";q=9;w=2\r\n\
         RateLimit: \"a\";r=3;t=1, \"c\";r=6, \"d\";r=1;t=2\r\n\
         RateLimit-Limit: 9\r\nRateLimit-Remaining: 1\r\nRateLimit-Reset: 2\r\n"
    );
    // A limit that was not checked has no fields.
    let mut out = Vec::new();
    write_allowed(&mut out, &limits, &route, &[check(0, Decision::unlimited())]);
    let text = String::from_utf8(out).unwrap();
    assert!(
        text.starts_with("RateLimit-Policy: ") && !text.contains("RateLimit: ") && !text.contains("Remaining"),
        "{text}"
    );
}

#[test]
fn a_refusal_is_no_earlier_than_it_says() {
    let (limits, _) = limits("  a: {rate: 20/s, burst: 40, headers: [ietf, legacy, scope]}\n", 1);
    let texts = &limits.get(0).unwrap().texts;
    for (retry_ns, seconds) in [(0, 1), (1, 1), (1_000_000_000, 1), (1_000_000_001, 2)] {
        let decision = Decision { allowed: false, limit: 40, remaining: 0, reset_ns: 1, retry_ns };
        let mut out = Vec::new();
        texts.write_refusal(&mut out, &decision);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            format!(
                "RateLimit-Policy: \"a\";q=40;w=2\r\nRateLimit: \"a\";r=0;t={seconds}\r\nRateLimit-Limit: 40\r\n\
                 RateLimit-Remaining: 0\r\nRateLimit-Reset: {seconds}\r\nRateLimit-Scope: a\r\n"
            )
        );
        assert_eq!(decision.retry_after(), seconds);
    }
}
