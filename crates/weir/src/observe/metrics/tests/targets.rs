//! What is shown of upstreams, from real ones.

use super::super::*;
use super::read;
use crate::config::{UpstreamId, load_text};
use crate::upstream::{Clock, FailureKind, Lease, Pick, Request, Upstreams, Views};

/// The upstreams of a configuration file that has these lines under `upstreams`.
pub(crate) fn upstreams(lines: &str, clock: Clock) -> Upstreams {
    let routes = "routes: [{match: {path: /}, respond: {status: 200}}]";
    let text = format!("listen: 127.0.0.1:0\nupstreams:\n{lines}{routes}\n");
    Upstreams::new(&load_text("test", &text, &|_| None).unwrap().config, clock)
}

#[test]
fn targets_breakers_and_queues_are_shown() {
    let clock = Clock::manual();
    let upstreams = Arc::new(upstreams(
        concat!(
            "  guarded:\n",
            "    targets: [http://127.0.0.1:1]\n",
            "    breaker: {failures: 50%, of_last: 2, open_for: 5s}\n",
            "    max_in_flight: 10\n",
            "    queue: {size: 3, timeout: 1s}\n",
            "  plain: {targets: [http://127.0.0.1:2, http://127.0.0.1:3/a, http://127.0.0.1:3/b]}\n",
        ),
        clock.clone(),
    ));
    let views = Views::new(upstreams.clone(), 7);
    let pick = |upstream| -> Lease {
        match views.get(UpstreamId(upstream)).pick(&Request::default(), clock.now()) {
            Pick::Target(lease) => lease,
            other => panic!("{other:?}"),
        }
    };
    for _ in 0..2 {
        pick(0).failure(FailureKind::Reset, clock.now());
    }
    let _held = pick(1);

    let metrics = Metrics::new();
    metrics.add_source(Arc::new(move |out: &mut Exposition<'_>| collect_upstreams(&upstreams.snapshot(), out)));
    let m = read(&metrics);
    let guarded = r#"target="127.0.0.1:1",upstream="guarded""#;
    for (sample, value) in [
        (format!("upstream_target_ready{{{guarded}}}"), 0.0),
        (format!("upstream_target_ejected{{{guarded}}}"), 0.0),
        (format!("upstream_target_attempts_total{{{guarded}}}"), 2.0),
        (format!("upstream_target_failures_total{{kind=\"reset\",{guarded}}}"), 2.0),
        (format!("upstream_target_ejections_total{{{guarded}}}"), 0.0),
        (r#"upstream_breaker_state{state="open",target="127.0.0.1:1",upstream="guarded"}"#.into(), 1.0),
        (r#"upstream_breaker_state{state="closed",target="127.0.0.1:1",upstream="guarded"}"#.into(), 0.0),
        (r#"upstream_breaker_state{state="half_open",target="127.0.0.1:1",upstream="guarded"}"#.into(), 0.0),
        (format!("upstream_breaker_opened_total{{{guarded}}}"), 1.0),
        (r#"upstream_queue_waiting{upstream="guarded"}"#.into(), 0.0),
        (r#"upstream_queue_refused_total{upstream="guarded"}"#.into(), 0.0),
        (r#"upstream_retries_denied_total{upstream="plain"}"#.into(), 0.0),
        (r#"upstream_target_ready{target="127.0.0.1:2",upstream="plain"}"#.into(), 1.0),
    ] {
        assert_eq!(m.get(&sample), Some(value), "{sample}");
    }
    let in_flight: f64 =
        m.samples.iter().filter(|(k, _)| k.starts_with("upstream_target_in_flight")).map(|(_, v)| v).sum();
    assert_eq!(in_flight, 1.0);
    for absent in
        ["upstream_target_healthy{", "upstream_target_ewma_seconds{", r#"upstream_queue_waiting{upstream="plain"}"#]
    {
        assert!(!m.samples.keys().any(|k| k.starts_with(absent)), "{absent}: nothing is known");
    }
}
