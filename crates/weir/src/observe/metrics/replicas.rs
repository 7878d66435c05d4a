//! Replicas of inference engines: what they tell of themselves, and how they were picked.

use std::fmt;

use super::exposition::Exposition;
use super::targets::each;
use crate::upstream::{MATCH_BOUNDS, PickReason, ReplicasSnapshot, TargetSnapshot, UpstreamSnapshot};

/// Writes the families; without an upstream that is balanced so they have no samples.
pub(super) fn of_replicas(
    upstreams: &[UpstreamSnapshot],
    targets: &[(&str, &TargetSnapshot)],
    out: &mut Exposition<'_>,
) -> fmt::Result {
    let picks = |replicas: &ReplicasSnapshot, reason: PickReason| match reason {
        PickReason::Prefix => replicas.by_prefix,
        PickReason::Load => replicas.by_load,
        PickReason::InFlight => replicas.by_in_flight,
    };
    out.gauge(
        "weir_ai_replica_waiting",
        "Requests that wait in the replica, as its engine tells; absent while its metrics are too old",
        each(targets, |t| t.engine.and_then(|engine| engine.waiting)),
    )?;
    out.gauge(
        "weir_ai_replica_running",
        "Requests that the replica works on, as its engine tells; absent while its metrics are too old",
        each(targets, |t| t.engine.and_then(|engine| engine.running)),
    )?;
    out.gauge(
        "weir_ai_replica_kv",
        "Share of the KV cache of the replica in use, 0 to 1; absent while its metrics are too old",
        each(targets, |t| t.engine.and_then(|engine| engine.kv)),
    )?;
    out.counter("weir_ai_replica_scrapes", "Scrapes of the metrics of replicas, by result", |s| {
        for (upstream, target) in targets {
            let Some(engine) = target.engine else { continue };
            for (result, n) in [("ok", engine.scraped), ("failed", engine.failed)] {
                s.add(&[("upstream", upstream), ("target", &target.address), ("result", result)], n)?;
            }
        }
        Ok(())
    })?;
    let with = || upstreams.iter().filter_map(|upstream| Some((&*upstream.name, upstream.replicas.as_ref()?)));
    out.counter("weir_ai_replica_picks", "Picks of a replica, by what decided", |s| {
        with().try_for_each(|(upstream, replicas)| {
            PickReason::ALL.into_iter().try_for_each(|reason| {
                s.add(&[("upstream", upstream), ("by", reason.label())], picks(replicas, reason))
            })
        })
    })?;
    out.histogram("weir_ai_prefix_match_ratio", "Share of a prompt that its replica had seen before", |s| {
        with().try_for_each(|(upstream, replicas)| {
            let (counts, sum) = &replicas.matches;
            s.add_buckets(&[("upstream", upstream)], &MATCH_BOUNDS, counts, *sum)
        })
    })
}
