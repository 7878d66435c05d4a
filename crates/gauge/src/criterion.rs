//! The criteria by which systems are compared: one table. Rows, comparisons, the score, reports and CSV go by it; a criterion more is an entry more.

use crate::results::report::{Chat, Latency, Streams};
use crate::results::{DIRECT, Price, Results, Search, Trial, Usage, WorkloadPlan};
use crate::stats;
use crate::verdict::words::{number, size, time};
use crate::verdict::{self, LEAST_CPU_S};

/// Something that is measured of a system in a round, and by which systems are compared.
#[derive(Debug)]
pub struct Criterion {
    /// Fixed: evaluations, scripts and reports go by it.
    pub name: &'static str,
    /// As it is printed.
    pub title: &'static str,
    /// What it is, where it is measured, and which direction is better, in a sentence.
    pub about: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Which direction is better.
    pub better: Better,
    /// Whether a workload has it, and where it is measured.
    pub source: Source,
    /// What the score divides it by: a criterion of the reference.
    pub reference: Reference,
    /// Its weight in the score, unless the evaluation sets its own.
    pub weight: f64,
}

/// Units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Requests per second.
    PerSecond,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Bytes.
    Bytes,
    /// A number.
    Count,
    /// Money, of the currency of the evaluation's `price`.
    Money,
}

/// Directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
}

/// Where a criterion is measured.
#[derive(Debug, Clone, Copy)]
pub enum Source {
    /// In each trial of a workload for which the first function says so.
    Trial(fn(&WorkloadPlan) -> bool, fn(&Measured<'_>) -> Option<f64>),
    /// In each trial of a workload with a limit: by the rate that is allowed.
    Limit(fn(f64, &Measured<'_>) -> Option<f64>),
    /// In each search for a rate.
    Search(fn(&Search) -> Option<f64>),
}

/// What the score divides by.
#[derive(Debug, Clone, Copy)]
pub enum Reference {
    /// The same criterion of the reference.
    Same,
    /// With the baseline as reference, which has no gateway to measure: this figure of its upstream; else the same.
    Upstream(fn(&Measured<'_>) -> Option<f64>),
}

/// A trial as criteria see it.
#[derive(Debug, Clone, Copy)]
pub struct Measured<'r> {
    /// The trial.
    pub trial: &'r Trial,
    /// The percentile that the workload is compared by.
    pub percentile: Option<f64>,
    /// What processors and memory cost.
    pub price: Option<Price>,
}

impl Measured<'_> {
    fn system(&self) -> Option<&Usage> {
        self.trial.observed.as_ref()?.system.as_ref()
    }

    fn upstream(&self) -> Option<&Usage> {
        self.trial.observed.as_ref()?.upstream.as_ref()
    }

    fn streams(&self) -> Option<&Streams> {
        self.trial.report.as_ref()?.total.grpc.as_ref()?.streams.as_ref()
    }

    fn chat(&self) -> Option<&Chat> {
        self.trial.report.as_ref()?.total.chat.as_ref()
    }

    fn responses(&self) -> Option<f64> {
        let responses = self.trial.report.as_ref()?.total.requests.responses?;
        (responses > 0).then_some(responses as f64)
    }

    /// Handshakes of TLS, full and resumed; none where connections were kept, and so handshakes are few and not what is measured.
    fn handshakes(&self) -> Option<f64> {
        let tls = self.trial.report.as_ref()?.total.tls.as_ref()?;
        let handshakes = (tls.full + tls.resumed) as f64;
        (handshakes >= self.responses()?).then_some(handshakes)
    }

    fn cpu_us(&self, usage: Option<&Usage>) -> Option<f64> {
        Some(verdict::cpu_s(usage?)? * 1e6 / self.responses()?)
    }
}

/// What a million requests cost, which has the CPU time in it.
const COST: &str = "cost";

/// Time to the first token of chat calls.
const TTFT: &str = "ttft";
/// Time between tokens of chat calls.
const INTER_TOKEN: &str = "inter-token";

/// Time to the first message of streams of gRPC, and round trips in them.
const FIRST_MESSAGE: &str = "first-message";
const ROUND_TRIP: &str = "round-trip";

/// Time to the first byte of event streams.
const FIRST_BYTE: &str = "first-byte";

/// CPU time per request, which takes a least amount of CPU time.
const CPU: &str = "cpu-per-request";
/// CPU time per handshake of TLS.
const CPU_HANDSHAKE: &str = "cpu-per-handshake";

/// All of them, in the order in which they are shown.
///
/// The weights: rate, latency and CPU time are what a gateway or a service is chosen for, and none of them is worth more than another. Memory is cheap, and much of it
/// is a runtime's start-up, so it is shown beside the score. [`crate::results::Judgement::sensitivity`] shows what other weights give.
pub const CRITERIA: &[Criterion] = &[
    Criterion {
        name: "slo-rate",
        title: "rate within objective",
        about: "The highest rate that met the objective in a search, confirmed; higher is better.",
        unit: Unit::PerSecond,
        better: Better::Higher,
        source: Source::Search(|search| search.highest),
        reference: Reference::Same,
        weight: 0.3,
    },
    Criterion {
        name: "latency",
        title: "latency at equal rate",
        about: "Latency at the percentile for which the samples suffice, at the same rate for all; lower is better.",
        unit: Unit::Milliseconds,
        better: Better::Lower,
        source: Source::Trial(is_open, tail),
        reference: Reference::Same,
        weight: 0.3,
    },
    Criterion {
        name: CPU,
        title: "CPU/request",
        about: "CPU time, user and system, of all processes of the system over its responses; lower is better. It repeats better than any time that a \
                clock on the wall shows.",
        unit: Unit::Microseconds,
        better: Better::Lower,
        source: Source::Trial(always, |measured| measured.cpu_us(measured.system())),
        reference: Reference::Upstream(|measured| measured.cpu_us(measured.upstream())),
        weight: 0.3,
    },
    Criterion {
        name: "rate",
        title: "requests/s",
        about: "Responses per second in a closed loop; higher is better. At saturation it, the latency and the CPU time say the same, so it is not scored.",
        unit: Unit::PerSecond,
        better: Better::Higher,
        source: Source::Trial(
            |workload| !is_open(workload),
            |measured| measured.trial.report.as_ref()?.total.rate.achieved,
        ),
        reference: Reference::Same,
        weight: 0.0,
    },
    Criterion {
        name: "closed-latency",
        title: "latency, closed loop",
        about: "Latency at the percentile for which the samples suffice, each system at its own rate; lower is better.",
        unit: Unit::Milliseconds,
        better: Better::Lower,
        source: Source::Trial(|workload| !is_open(workload), tail),
        reference: Reference::Same,
        weight: 0.0,
    },
    Criterion {
        name: "handshakes",
        title: "TLS handshakes/s",
        about: "Where each request has a connection of its own, in a closed loop: complete TLS handshakes, full and resumed, per second; higher is better.",
        unit: Unit::PerSecond,
        better: Better::Higher,
        source: Source::Trial(
            |workload| !is_open(workload),
            |measured| Some(measured.handshakes()? / measured.trial.report.as_ref()?.total.duration_s?),
        ),
        reference: Reference::Same,
        weight: 0.0,
    },
    Criterion {
        name: CPU_HANDSHAKE,
        title: "CPU/TLS handshake",
        about: "Where each request has a connection of its own: CPU time of all processes of the system over the TLS handshakes, with the request that \
                follows each; lower is better.",
        unit: Unit::Microseconds,
        better: Better::Lower,
        source: Source::Trial(always, |measured| {
            Some(verdict::cpu_s(measured.system()?)? * 1e6 / measured.handshakes()?)
        }),
        reference: Reference::Same,
        weight: 0.0,
    },
    Criterion {
        name: FIRST_BYTE,
        title: "time to first byte",
        about: "Of event streams: time from when a request was due to the first byte of the response's body, at the same percentile as the latency; lower \
                is better.",
        unit: Unit::Milliseconds,
        better: Better::Lower,
        source: Source::Trial(always, |measured| {
            percentile(measured.trial.report.as_ref()?.total.first_byte.as_ref()?, measured.percentile?)
        }),
        reference: Reference::Same,
        weight: 0.0,
    },
    Criterion {
        name: "separate-events",
        title: "events that arrive by themselves",
        about: "Of event streams: reads of the generator in which an event ended, over the events: 1 when each event arrived by itself, less when events were \
                merged; higher is better.",
        unit: Unit::Count,
        better: Better::Higher,
        source: Source::Trial(always, |measured| {
            let events = measured.trial.report.as_ref()?.total.events?;
            (events.received > 0).then(|| events.arrivals as f64 / events.received as f64)
        }),
        reference: Reference::Same,
        weight: 0.0,
    },
    Criterion {
        name: FIRST_MESSAGE,
        title: "time to first message",
        about: "Of gRPC methods that return a stream: time from when a call was due to the end of the first message, at the same percentile as the \
                latency; lower is better.",
        unit: Unit::Milliseconds,
        better: Better::Lower,
        source: Source::Trial(always, |measured| {
            percentile(measured.streams()?.first_message.as_ref()?, measured.percentile?)
        }),
        reference: Reference::Same,
        weight: 0.0,
    },
    Criterion {
        name: ROUND_TRIP,
        title: "round trip of messages",
        about: "Of gRPC methods with streams in both directions: time from the send of a message until as many have come back, at the same percentile as \
                the latency; lower is better.",
        unit: Unit::Milliseconds,
        better: Better::Lower,
        source: Source::Trial(always, |measured| {
            percentile(measured.streams()?.round_trip.as_ref()?, measured.percentile?)
        }),
        reference: Reference::Same,
        weight: 0.0,
    },
    Criterion {
        name: TTFT,
        title: "time to first token",
        about: "Of streamed chat calls that were complete: time from when a call was due to its first content, at the same percentile as the latency; lower \
                is better.",
        unit: Unit::Milliseconds,
        better: Better::Lower,
        source: Source::Trial(always, |measured| percentile(measured.chat()?.ttft.as_ref()?, measured.percentile?)),
        reference: Reference::Same,
        weight: 0.0,
    },
    Criterion {
        name: INTER_TOKEN,
        title: "time between tokens",
        about: "Of streamed chat calls that were complete: time between one event with content and the next, at the same percentile as the latency; lower is \
                better.",
        unit: Unit::Milliseconds,
        better: Better::Lower,
        source: Source::Trial(always, |measured| {
            percentile(measured.chat()?.inter_token.as_ref()?, measured.percentile?)
        }),
        reference: Reference::Same,
        weight: 0.0,
    },
    Criterion {
        name: "tokens",
        title: "tokens/s",
        about: "Output tokens of complete chat calls per second; higher is better.",
        unit: Unit::PerSecond,
        better: Better::Higher,
        source: Source::Trial(always, |measured| measured.trial.report.as_ref()?.total.tokens_per_second()),
        reference: Reference::Same,
        weight: 0.0,
    },
    Criterion {
        name: "goodput",
        title: "goodput",
        about: "Complete chat calls within the objective of tokens (`slo` of `llm`) per second; higher is better.",
        unit: Unit::PerSecond,
        better: Better::Higher,
        source: Source::Trial(always, |measured| measured.trial.report.as_ref()?.total.goodput()),
        reference: Reference::Same,
        weight: 0.0,
    },
    Criterion {
        name: "limit-deviation",
        title: "deviation from the limit",
        about: "Requests that passed over those that the limit allows, or the other way round, whichever is more, in the whole trial: 1 is exact; lower is \
                better. Measured where the load offers twice what is allowed.",
        unit: Unit::Count,
        better: Better::Lower,
        source: Source::Limit(|allowed, measured| Some(deviation(measured.passed_a_second(allowed)?, allowed))),
        reference: Reference::Same,
        weight: 0.0,
    },
    Criterion {
        name: "limit-worst-second",
        title: "deviation from the limit, worst second",
        about: "The same in the worst of the whole seconds of the trial; lower is better.",
        unit: Unit::Count,
        better: Better::Lower,
        source: Source::Limit(worst_second),
        reference: Reference::Same,
        weight: 0.0,
    },
    Criterion {
        name: "memory",
        title: "memory",
        about: "Memory of all processes of the system at its highest (PSS; campaigns of earlier versions: RSS, in which shared pages count for each \
                process); lower is better.",
        unit: Unit::Bytes,
        better: Better::Lower,
        source: Source::Trial(always, |measured| memory(measured.system())),
        reference: Reference::Upstream(|measured| memory(measured.upstream())),
        weight: 0.0,
    },
    Criterion {
        name: COST,
        title: "cost per million requests",
        about: "CPU time at the price of a processor, and mean memory (PSS) for the time of the load at the price of memory, over the responses, times a \
                million; lower is better. It is of what was used: a machine that is half idle costs more.",
        unit: Unit::Money,
        better: Better::Lower,
        source: Source::Trial(always, cost),
        reference: Reference::Same,
        weight: 0.0,
    },
    Criterion {
        name: "context-switches",
        title: "context switches/request",
        about: "Voluntary and involuntary context switches of the system over its responses; lower is better.",
        unit: Unit::Count,
        better: Better::Lower,
        source: Source::Trial(always, |measured| switches(measured, measured.system())),
        reference: Reference::Upstream(|measured| switches(measured, measured.upstream())),
        weight: 0.0,
    },
];

impl Measured<'_> {
    /// Responses with 2xx a second; none where the load did not offer twice what is allowed, and so did not try the limit.
    fn passed_a_second(&self, allowed: f64) -> Option<f64> {
        let total = &self.trial.report.as_ref()?.total;
        let duration = total.duration_s.filter(|duration| *duration > 0.0)?;
        let passed = total.statuses.as_ref()?.iter().filter(|(status, _)| **status / 100 == 2).map(|(_, count)| *count);
        let offered = self.responses()? / duration;
        (offered >= 2.0 * allowed).then(|| passed.sum::<u64>() as f64 / duration)
    }
}

/// How many times more, or less, something is than it should be.
fn deviation(found: f64, expected: f64) -> f64 {
    (found / expected).max(expected / found)
}

fn worst_second(allowed: f64, measured: &Measured<'_>) -> Option<f64> {
    measured.passed_a_second(allowed)?;
    let report = measured.trial.report.as_ref()?;
    // The last second is cut short, and in the first that counts the warm-up may end.
    let whole = (report.total.duration_s? as usize).checked_sub(1)?;
    let seconds = report.seconds.iter().rev().skip(1).take(whole);
    let deviations: Option<Vec<f64>> =
        seconds.map(|second| Some(deviation(second.succeeded? as f64, allowed))).collect();
    deviations?.into_iter().reduce(f64::max)
}

fn always(_: &WorkloadPlan) -> bool {
    true
}

/// Whether all systems get the same rate.
fn is_open(workload: &WorkloadPlan) -> bool {
    workload.planned.rate.is_some() || workload.load.starts_with("open")
}

fn tail(measured: &Measured<'_>) -> Option<f64> {
    let latency = measured.trial.report.as_ref()?.total.latency.as_ref()?;
    percentile(latency, measured.percentile?)
}

fn memory(usage: Option<&Usage>) -> Option<f64> {
    let usage = usage?;
    usage.pss_peak_bytes.or(usage.rss_peak_bytes).map(|bytes| bytes as f64)
}

/// Per million responses.
fn cost(measured: &Measured<'_>) -> Option<f64> {
    let (price, usage) = (measured.price?, measured.system()?);
    let seconds = measured.trial.report.as_ref()?.total.duration_s?;
    // Memory that has no price need not be known.
    let memory = if price.gib_hour > 0.0 { usage.memory_mean()? } else { 0.0 };
    Some(price.of(verdict::cpu_s(usage)?, memory, seconds) / measured.responses()? * 1e6)
}

fn switches(measured: &Measured<'_>, usage: Option<&Usage>) -> Option<f64> {
    let usage = usage?;
    Some((usage.voluntary_switches? + usage.involuntary_switches?) as f64 / measured.responses()?)
}

/// A percentile of a distribution, if it has the samples.
pub fn percentile(latency: &Latency, percentile: f64) -> Option<f64> {
    if latency.count? < verdict::needed(percentile) {
        return None;
    }
    match percentile {
        99.0 => latency.p99_ms,
        95.0 => latency.p95_ms,
        90.0 => latency.p90_ms,
        _ => latency.p50_ms,
    }
}

impl Criterion {
    /// The criterion of a name; `added-latency` is what earlier versions called `latency`.
    pub fn named(name: &str) -> Option<&'static Criterion> {
        let name = if name == "added-latency" { "latency" } else { name };
        CRITERIA.iter().find(|criterion| criterion.name == name)
    }

    /// Its weight in a campaign's score.
    pub fn weight_in(&self, results: &Results) -> f64 {
        let own = |name: &str| results.weights.get(name).copied();
        let earlier = || own("added-latency").filter(|_| self.name == "latency");
        own(self.name).or_else(earlier).unwrap_or(self.weight)
    }

    /// Its value in a trial of a workload; none where it makes no sense there.
    pub fn of_trial(&self, workload: &WorkloadPlan, measured: &Measured<'_>) -> Option<f64> {
        match self.source {
            Source::Trial(applies, value) if applies(workload) => positive(value(measured)),
            Source::Limit(value) if measured.trial.system != DIRECT => {
                positive(value(workload.planned.allowed_rate?, measured))
            }
            _ => None,
        }
    }

    /// Whether the trials of a system under a workload, all together, suffice for it: CPU time takes [`LEAST_CPU_S`] in the median, of the gateway or of its
    /// upstream.
    pub fn suffices(&self, trials: &[Measured<'_>], of_upstream: bool) -> bool {
        if ![CPU, CPU_HANDSHAKE, COST].contains(&self.name) {
            return true;
        }
        let usage = |measured: &Measured<'_>| {
            let usage = if of_upstream { measured.upstream() } else { measured.system() };
            usage.and_then(verdict::cpu_s)
        };
        let used: Vec<f64> = trials.iter().filter_map(usage).collect();
        stats::median(&used).is_some_and(|median| median >= LEAST_CPU_S)
    }

    /// Whether it is a percentile: that of its workload.
    pub fn is_percentile(&self) -> bool {
        matches!(self.name, "latency" | "closed-latency" | FIRST_BYTE | FIRST_MESSAGE | ROUND_TRIP | TTFT | INTER_TOKEN)
    }

    /// Its value in a search.
    pub fn of_search(&self, search: &Search) -> Option<f64> {
        match self.source {
            Source::Search(value) => positive(value(search)),
            Source::Trial(..) | Source::Limit(_) => None,
        }
    }

    /// Whether it is measured in searches.
    pub fn is_searched(&self) -> bool {
        matches!(self.source, Source::Search(_))
    }

    /// The logarithm of the cost of a value: less is better, whatever the direction.
    pub fn cost(&self, value: f64) -> f64 {
        match self.better {
            Better::Lower => value.ln(),
            Better::Higher => -value.ln(),
        }
    }

    /// The value of a cost.
    pub fn value(&self, cost: f64) -> f64 {
        match self.better {
            Better::Lower => cost.exp(),
            Better::Higher => (-cost).exp(),
        }
    }

    /// A value in words.
    pub fn words(&self, value: f64) -> String {
        match self.unit {
            Unit::PerSecond | Unit::Count => number(value),
            Unit::Milliseconds => time(value),
            Unit::Microseconds => time(value / 1e3),
            Unit::Bytes => size(value),
            Unit::Money => money(value),
        }
    }

    /// The column of `results.csv`.
    pub fn column(&self) -> String {
        let unit = match self.unit {
            Unit::PerSecond => "_per_s",
            Unit::Milliseconds => "_ms",
            Unit::Microseconds => "_us",
            Unit::Bytes => "_bytes",
            Unit::Count | Unit::Money => "",
        };
        format!("{}{unit}", self.name.replace('-', "_"))
    }
}

/// Three digits that matter: a million requests may cost a thousandth.
fn money(value: f64) -> String {
    let digits = (2.0 - value.abs().max(1e-9).log10().floor()).clamp(2.0, 9.0) as usize;
    format!("{value:.digits$}")
}

fn positive(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite() && *value > 0.0)
}

#[cfg(test)]
mod tests;
