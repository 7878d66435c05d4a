//! The generator was the limit: its own figures, its users' thinking, or the baseline say so.

use super::rate_not_achieved::{DROPPED, REACHED};
use super::words::{number, percent, time};
use super::{Context, concurrency, processors_used, requested_rate};
use crate::results::Report;
use crate::results::report::{Latency, Requests};
use crate::results::{Observed, Usage};

/// The system without a gateway must carry this many times a gateway's rate. Else generator and upstream, which both systems share, take most of the time, and two
/// gateways that differ by a quarter look alike.
pub const HEADROOM: f64 = 1.3;

/// Latest that the generator may be with 1 % of its requests: beyond, its own lateness is as large as what is measured on a local machine.
const LAG_P99_MS: f64 = 1.0;

/// A part that uses this share of its processors had none left when it mattered: the rest is lost to the scheduler and to sampling.
pub(super) const BUSY: f64 = 0.9;

/// Share of a user's time that may be thinking. With more, throughput follows from the number of users and the think time, whatever the server
/// does: an infinitely fast one would be less than twice as fast.
const THINKING: f64 = 0.5;

/// Share of the generator's workers that wait for a response at any moment from which on it has none left to keep a rate that was requested.
const WORKERS_BUSY: f64 = 0.9;

pub(super) fn look(report: &Report, context: &Context<'_>) -> Option<String> {
    one_cpu(context)
        .or_else(|| own_cpu(context))
        .or_else(|| shared_cpu(report, context))
        .or_else(|| thinking(report, context))
        .or_else(|| out_of_workers(report, context))
        .or_else(|| no_headroom(report, context))
}

/// Its own lag: it sent late, or not at all, though a connection was free. While all connections wait, the server decides when the next request can be sent.
/// Each of several generators is judged by itself: merged, a late one disappears among those that are not.
pub(super) fn late(report: &Report, context: &Context<'_>) -> Option<String> {
    let parts = context.observed.map_or(&[][..], |observed| &observed.generators);
    let one = parts.iter().find_map(|part| own_lag(&part.name, part.lag.as_ref(), &part.requests));
    let all = if parts.len() > 1 { "the generators together" } else { "the generator" };
    one.or_else(|| own_lag(all, report.total.generator_lag.as_ref(), &report.total.requests))
}

fn own_lag(name: &str, lag: Option<&Latency>, requests: &Requests) -> Option<String> {
    let p99 = lag.and_then(|lag| lag.p99_ms.filter(|p99| lag.p99_suffices() && *p99 > LAG_P99_MS));
    if let Some(p99) = p99 {
        return Some(format!(
            "{name} sent 1 % of its requests {} or more too late, by itself (p99 of its lag; at most {} is allowed)",
            time(p99),
            time(LAG_P99_MS)
        ));
    }
    let (dropped, scheduled) = (requests.dropped_free?, requests.scheduled.filter(|scheduled| *scheduled > 0)?);
    let share = dropped as f64 / scheduled as f64;
    (share > DROPPED).then(|| {
        format!(
            "{name} did not send {} of its requests though a connection was free for them (at most {} is allowed)",
            percent(share),
            percent(DROPPED)
        )
    })
}

/// The processors of each of several generators.
fn one_cpu(context: &Context<'_>) -> Option<String> {
    let observed = context.observed.filter(|observed| observed.duration_s > 0.0)?;
    observed.generators.iter().find_map(|part| {
        let (cpus, used) = (f64::from(part.cpus), part.cpu_s? / observed.duration_s);
        (cpus > 0.0 && used >= BUSY * cpus).then(|| {
            format!(
                "{} used {} of the {} processors that it had ({})",
                part.name,
                number(used),
                number(cpus),
                percent(used / cpus)
            )
        })
    })
}

/// Its processors.
fn own_cpu(context: &Context<'_>) -> Option<String> {
    let observed = context.observed?;
    let cpus = cpus(observed.generator.as_ref())?;
    let used = processors_used(observed.generator.as_ref(), observed)?;
    (cpus > 0.0 && used >= BUSY * cpus).then(|| {
        format!(
            "the generator used {} of the {} processors that it had ({})",
            number(used),
            number(cpus),
            percent(used / cpus)
        )
    })
}

/// The processors that it shares with the upstream, in an open loop: requests then waited for one of the two, and not for the gateway. In a closed
/// loop the baseline says so (`no_headroom`).
fn shared_cpu(report: &Report, context: &Context<'_>) -> Option<String> {
    requested_rate(report, context)?;
    let observed = context.observed?;
    // Null for the baseline, where the two are all that there is.
    observed.system.as_ref()?;
    let cpus = cpus(observed.generator.as_ref())?.max(cpus(observed.upstream.as_ref())?);
    let generator = processors_used(observed.generator.as_ref(), observed)?;
    let upstream = processors_used(observed.upstream.as_ref(), observed)?;
    // An upstream that fills them alone is the limit by itself.
    let filled = cpus > 0.0 && upstream < BUSY * cpus && generator + upstream >= BUSY * cpus;
    (filled && shares(context) == Some(true)).then(|| {
        format!(
            "the generator used {} and the upstream {} of the {} processors that they share ({})",
            number(generator),
            number(upstream),
            number(cpus),
            percent((generator + upstream) / cpus)
        )
    })
}

/// Processors that a part could use.
fn cpus(usage: Option<&Usage>) -> Option<f64> {
    usage?.cpus.map(f64::from)
}

/// Whether generator and upstream have a processor in common; null when they were not pinned.
fn shares(context: &Context<'_>) -> Option<bool> {
    let elsewhere = |observed: Option<&Observed>| observed.is_some_and(|observed| !observed.generators.is_empty());
    if elsewhere(context.observed) || elsewhere(context.direct_observed) {
        return Some(false);
    }
    let part = |name: &str| context.pinned?.get(name);
    let (own, other) = (part("generator")?, part("upstream")?);
    Some(own.iter().any(|cpu| other.contains(cpu)))
}

/// Its users spent their time thinking.
fn thinking(report: &Report, context: &Context<'_>) -> Option<String> {
    let think_ms = context.planned.think_s.filter(|think| *think > 0.0)? * 1e3;
    let mean_ms = report.total.latency.as_ref()?.mean_ms?;
    let share = think_ms / (think_ms + mean_ms);
    (share > THINKING).then(|| {
        format!(
            "users think {} and wait {}: {} of their time is thinking, so a server that responds at once would carry only {} times as much; users and think \
             time set the rate",
            time(think_ms),
            time(mean_ms),
            percent(share),
            number((think_ms + mean_ms) / think_ms),
        )
    })
}

/// It was to keep a rate and had no more workers (connections) to do so.
fn out_of_workers(report: &Report, context: &Context<'_>) -> Option<String> {
    let (rate, requested) = (report.total.rate.achieved?, requested_rate(report, context)?);
    let workers = concurrency(report, context)?;
    let mean_ms = report.total.latency.as_ref()?.mean_ms?;
    let waiting = rate * mean_ms / 1e3;
    if rate >= requested * REACHED || waiting < workers * WORKERS_BUSY {
        return None;
    }
    Some(format!(
        "{} requests/s were requested, and with {} workers that wait {} for each response no more than {} can be sent; {} were",
        number(requested),
        number(workers),
        time(mean_ms),
        number(workers / mean_ms * 1e3),
        number(rate),
    ))
}

/// The system without a gateway is hardly faster, or it cannot keep the rate either.
fn no_headroom(report: &Report, context: &Context<'_>) -> Option<String> {
    let direct = context.direct?;
    let (rate, direct_rate) = (report.total.rate.achieved?, direct.rate.achieved?);
    if let Some(requested) = requested_rate(report, context) {
        // At an equal rate both systems have it by design; what counts is whether the baseline can keep it.
        if let Some(dropped) = direct.drop_rate().filter(|dropped| *dropped > DROPPED) {
            return Some(format!(
                "the baseline dropped {} of its requests at {}/s: generator or upstream do not carry that rate",
                percent(dropped),
                number(requested)
            ));
        }
        return None;
    }
    if rate <= 0.0 || direct_rate >= rate * HEADROOM {
        return None;
    }
    // Hardly slower than without a gateway, because there was nothing to wait for but the upstream: then nobody was the limit.
    match context.direct_observed.map(|observed| (observed, limit(observed, context))) {
        Some((_, Limit::Nobody | Limit::Upstream(_))) => None,
        Some((_, Limit::Generator(words))) => Some(format!("{}; {words}", headroom(rate, direct_rate))),
        None | Some((_, Limit::Unknown)) => Some(headroom(rate, direct_rate)),
    }
}

/// The rates of both systems in words.
pub(super) fn headroom(rate: f64, direct_rate: f64) -> String {
    format!(
        "the baseline carries {} requests/s, {} times the {} here; {HEADROOM} times are needed to tell what a gateway costs",
        number(direct_rate),
        number(direct_rate / rate),
        number(rate),
    )
}

/// What the baseline was limited by.
pub(super) enum Limit {
    /// The generator, or it and the upstream together, used their processors up.
    Generator(String),
    /// The upstream did, and the generator did not.
    Upstream(String),
    /// All had time left: response times were of waiting, not of working.
    Nobody,
    /// Not observed.
    Unknown,
}

pub(super) fn limit(direct: &Observed, context: &Context<'_>) -> Limit {
    let generator = processors_used(direct.generator.as_ref(), direct);
    let upstream = processors_used(direct.upstream.as_ref(), direct);
    let (Some(generator), Some(upstream)) = (generator, upstream) else {
        return Limit::Unknown;
    };
    let (Some(generator_cpus), Some(upstream_cpus)) = (cpus(direct.generator.as_ref()), cpus(direct.upstream.as_ref()))
    else {
        return Limit::Unknown;
    };
    // What is not pinned may run anywhere.
    let shared = shares(context).unwrap_or(true);
    if upstream >= BUSY * upstream_cpus && generator < BUSY * generator_cpus * 0.5 {
        return Limit::Upstream(format!(
            "there the upstream used {} of its {} processors",
            number(upstream),
            number(upstream_cpus)
        ));
    }
    if generator >= BUSY * generator_cpus {
        return Limit::Generator(format!(
            "there the generator used {} of its {} processors",
            number(generator),
            number(generator_cpus)
        ));
    }
    if shared && generator + upstream >= BUSY * generator_cpus.max(upstream_cpus) {
        return Limit::Generator(format!(
            "there generator and upstream used {} of the {} processors that they share",
            number(generator + upstream),
            number(generator_cpus.max(upstream_cpus))
        ));
    }
    if upstream >= BUSY * upstream_cpus {
        return Limit::Upstream(format!(
            "there the upstream used {} of its {} processors",
            number(upstream),
            number(upstream_cpus)
        ));
    }
    Limit::Nobody
}
