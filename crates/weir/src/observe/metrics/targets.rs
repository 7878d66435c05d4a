//! The state of upstreams and their targets, which lives outside of the workers' cells.

use std::collections::BTreeSet;
use std::fmt;

use super::exposition::{Exposition, Samples};
use super::replicas::of_replicas;
use crate::upstream::{
    BreakerState, FailureKind, Health, QUEUE_BOUNDS, SourceSnapshot, TargetCondition, TargetSnapshot, UpstreamSnapshot,
};

/// Writes what the snapshots say; to be called by a [`Source`](super::Source) that has them.
///
/// # Errors
/// Only those of `out`.
pub fn collect_upstreams(upstreams: &[UpstreamSnapshot], out: &mut Exposition<'_>) -> fmt::Result {
    let mut seen = BTreeSet::new();
    let targets: Vec<(&str, &TargetSnapshot)> = upstreams
        .iter()
        .flat_map(|upstream| upstream.targets.iter().map(|target| (&*upstream.name, target)))
        // Two names or paths may lead to one address; a set of labels may occur once, so the first stands for both.
        .filter(|(upstream, target)| seen.insert((*upstream, &*target.address)))
        .collect();
    of_targets(&targets, out)?;
    of_breakers(&targets, out)?;
    of_replicas(upstreams, &targets, out)?;
    of_sources(upstreams, out)?;
    of_upstreams(upstreams, out)
}

/// Writes one sample for each target for which there is a value.
pub(super) fn each<'a, V: Into<super::Value>>(
    targets: &'a [(&str, &TargetSnapshot)],
    value: impl Fn(&TargetSnapshot) -> Option<V> + 'a,
) -> impl FnOnce(&mut Samples<'_>) -> fmt::Result + 'a {
    move |s| {
        targets.iter().try_for_each(|(upstream, target)| match value(target) {
            Some(value) => s.add(&[("upstream", upstream), ("target", &target.address)], value),
            None => Ok(()),
        })
    }
}

fn of_targets(targets: &[(&str, &TargetSnapshot)], out: &mut Exposition<'_>) -> fmt::Result {
    out.gauge(
        "upstream_target_ready",
        "1 when the target gets requests; 0 when it is full, unhealthy, ejected, drained or behind an open breaker",
        each(targets, |t| Some(t.state == TargetCondition::Ready)),
    )?;
    out.gauge(
        "upstream_target_healthy",
        "1 if the active health checks succeed; absent without health checks",
        each(targets, |t| (t.health != Health::Unknown).then_some(t.health == Health::Healthy)),
    )?;
    out.gauge(
        "upstream_target_ejected",
        "1 while the target is ejected",
        each(targets, |t| Some(t.ejected_for_ms.is_some())),
    )?;
    out.gauge(
        "upstream_target_drained",
        "1 while an operator keeps requests away from the target",
        each(targets, |t| Some(t.drained_ms.is_some())),
    )?;
    out.gauge("upstream_target_in_flight", "Requests in flight", each(targets, |t| Some(u64::from(t.in_flight))))?;
    out.gauge(
        "upstream_target_ewma_seconds",
        "Peak EWMA of the latency, as of the last response; absent unless the balance is ewma",
        each(targets, |t| t.ewma_ms.map(|ms| ms / 1e3)),
    )?;
    out.counter("upstream_target_attempts", "Attempts, retries included", each(targets, |t| Some(t.requests)))?;
    out.counter("upstream_target_failures", "Failed attempts, by kind", |s| {
        for (upstream, target) in targets {
            for kind in FailureKind::ALL {
                let n = target.failures.of(kind);
                if n > 0 {
                    s.add(&[("upstream", upstream), ("target", &target.address), ("kind", kind.label())], n)?;
                }
            }
        }
        Ok(())
    })?;
    out.counter("upstream_target_ejections", "Ejections after failures", each(targets, |t| Some(t.ejections)))
}

fn of_breakers(targets: &[(&str, &TargetSnapshot)], out: &mut Exposition<'_>) -> fmt::Result {
    out.gauge("upstream_breaker_state", "1 for the state that the breaker of the target is in", |s| {
        for (upstream, target) in targets {
            let Some(now) = target.breaker else { continue };
            let states =
                [("closed", BreakerState::Closed), ("open", BreakerState::Open), ("half_open", BreakerState::HalfOpen)];
            for (label, state) in states {
                s.add(&[("upstream", upstream), ("target", &target.address), ("state", label)], now == state)?;
            }
        }
        Ok(())
    })?;
    out.counter(
        "upstream_breaker_opened",
        "How often the breaker of the target opened",
        each(targets, |t| t.breaker.map(|_| t.breaker_opened)),
    )
}

fn of_sources(upstreams: &[UpstreamSnapshot], out: &mut Exposition<'_>) -> fmt::Result {
    // A list may name a service twice, with different paths.
    let mut seen = BTreeSet::new();
    let sources: Vec<(&str, &SourceSnapshot)> = upstreams
        .iter()
        .flat_map(|upstream| upstream.sources.iter().map(|source| (&*upstream.name, source)))
        .filter(|(upstream, source)| seen.insert((*upstream, &*source.source)))
        .collect();
    out.gauge("upstream_source_targets", "Targets that a file, a service in DNS or a registry names", |s| {
        sources.iter().try_for_each(|(upstream, source)| {
            s.add(&[("upstream", upstream), ("source", &source.source)], source.targets as u64)
        })
    })?;
    out.gauge(
        "upstream_source_failing",
        "1 while a file, a service or a registry cannot be read and its last good targets stay",
        |s| {
            sources.iter().try_for_each(|(upstream, source)| {
                s.add(&[("upstream", upstream), ("source", &source.source)], source.error.is_some())
            })
        },
    )?;
    out.counter(
        "upstream_source_reads",
        "Readings of files of targets and of registries, and look-ups of services, by result",
        |s| {
            sources.iter().try_for_each(|(upstream, source)| {
                for (result, count) in [("ok", source.successes), ("error", source.failures)] {
                    s.add(&[("upstream", upstream), ("source", &source.source), ("result", result)], count)?;
                }
                Ok(())
            })
        },
    )
}

fn of_upstreams(upstreams: &[UpstreamSnapshot], out: &mut Exposition<'_>) -> fmt::Result {
    let queues = |value: fn(&crate::upstream::QueueSnapshot) -> u64| {
        move |s: &mut Samples<'_>| {
            upstreams.iter().try_for_each(|upstream| match &upstream.queue {
                Some(queue) => s.add(&[("upstream", &upstream.name)], value(queue)),
                None => Ok(()),
            })
        }
    };
    out.counter("upstream_retries_denied", "Attempts not made because the retry budget was spent", |s| {
        upstreams.iter().try_for_each(|u| s.add(&[("upstream", &u.name)], u.retries_over_budget))
    })?;
    out.gauge("upstream_queue_waiting", "Requests in the queue", queues(|q| q.waiting as u64))?;
    out.counter("upstream_queue_waited", "Requests that entered the queue", queues(|q| q.waited))?;
    out.counter(
        "upstream_queue_refused",
        "Requests that found the queue full, or left it for others when it was",
        queues(|q| q.refused),
    )?;
    out.counter(
        "upstream_queue_too_long",
        "Requests refused because the queue would have served them too late",
        queues(|q| q.too_long),
    )?;
    out.counter("upstream_queue_timed_out", "Requests whose wait in the queue timed out", queues(|q| q.timed_out))?;
    out.histogram("upstream_queue_seconds", "Time in the queue of requests that were served, by class", |s| {
        for upstream in upstreams {
            for class in upstream.queue.iter().flat_map(|queue| &queue.waits) {
                let labels = [("upstream", &*upstream.name), ("class", class.priority.name())];
                s.add_buckets(&labels, &QUEUE_BOUNDS, &class.counts, class.sum)?;
            }
        }
        Ok(())
    })
}
