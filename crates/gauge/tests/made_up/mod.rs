//! A made-up campaign: drawn, not measured, and the same every time.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use gauge::results::Report;
use gauge::results::Results;
use gauge::results::report::{Cpu, Errors, Histogram, Latency, LatencyFrom, Measurement, Operation};
use gauge::results::*;
use gauge::stats::Random;

/// What a system is like.
struct Kind {
    name: &'static str,
    gateway: Option<&'static str>,
    version: &'static str,
    /// Added to every answer, milliseconds.
    added_ms: f64,
    cpu_us: f64,
    rss_mib: f64,
    /// Highest rate that it carries.
    most: f64,
}

const fn kind(name: &'static str, version: &'static str, added_ms: f64, cpu_us: f64, rss_mib: f64, most: f64) -> Kind {
    Kind { name, gateway: Some(name), version, added_ms, cpu_us, rss_mib, most }
}

const KINDS: [Kind; 9] = [
    Kind { name: "direct", gateway: None, version: "", added_ms: 0.0, cpu_us: 0.0, rss_mib: 0.0, most: 52_000.0 },
    kind("weir", "0.1.0", 0.055, 10.4, 9.5, 38_000.0),
    kind("nginx", "1.22.1", 0.060, 12.1, 11.0, 33_000.0),
    kind("haproxy", "2.6.12", 0.072, 15.4, 17.0, 27_500.0),
    kind("envoy", "1.40.0", 0.19, 42.0, 61.0, 11_800.0),
    kind("fiber", "2.52.12", 0.075, 13.5, 24.0, 29_000.0),
    kind("traefik", "3.7.0", 0.26, 52.0, 88.0, 9_400.0),
    kind("caddy", "2.11.1", 0.31, 76.0, 71.0, 6_700.0),
    Kind {
        name: "weir-control",
        gateway: Some("weir"),
        version: "0.1.0",
        added_ms: 0.055,
        cpu_us: 10.4,
        rss_mib: 9.5,
        most: 38_000.0,
    },
];

/// Rounds of the campaign.
pub(crate) const ROUNDS: u32 = 12;

/// Samples for each that is drawn.
const EACH: u64 = 20;

fn gauss(random: &mut Random) -> f64 {
    random.normal()
}

/// Response times: a base, what the gateway adds, a tail.
fn latency(random: &mut Random, count: u64, base_ms: f64, added_ms: f64, noise: f64) -> Latency {
    let mut histogram = Histogram::default();
    for _ in 0..count.div_ceil(EACH) {
        let work = base_ms * (0.18 * gauss(random)).exp();
        let own = added_ms * (0.35 * gauss(random)).exp();
        let slow = if random.share() < 0.03 { (base_ms + added_ms * 3.0) * (1.0 + 3.0 * random.share()) } else { 0.0 };
        histogram.record_n(((work + own + slow) * noise * 1e6) as u64, EACH);
    }
    Latency::of(histogram).expect("samples")
}

fn measurement(
    latency: Latency,
    duration_s: f64,
    concurrency: f64,
    requested: Option<f64>,
    errors: u64,
) -> Measurement {
    let count = latency.count.unwrap_or(0);
    let mut total =
        Measurement { duration_s: Some(duration_s), concurrency: Some(concurrency), ..Measurement::default() };
    total.requests.scheduled = requested.map(|_| count);
    total.requests.sent = Some(count);
    total.requests.responses = Some(count);
    total.requests.dropped = requested.map(|_| 0);
    total.rate.requested = requested;
    total.rate.achieved = Some(count as f64 / duration_s);
    total.statuses =
        Some(BTreeMap::from([(200, count - errors), (502, errors)].map(|(status, count)| (status, count))));
    if errors == 0 {
        total.statuses = Some(BTreeMap::from([(200, count)]));
    }
    total.errors = Errors { status: Some(errors), total: Some(errors), ..Errors::none() };
    total.bytes.sent = Some(count * 120);
    total.bytes.received = Some(count * 410);
    total.latency = Some(latency);
    if requested.is_some() {
        let mut lag = Histogram::default();
        (0..1_000).for_each(|index| lag.record(20_000 + index * 40));
        total.lag = Latency::of(lag.clone());
        total.generator_lag = Latency::of(lag);
    }
    total
}

fn report(total: Measurement, operations: Vec<Operation>) -> Report {
    let mut report = Report::of("gauge");
    report.generator.version = Some("0.1.0".to_owned());
    report.generator.protocol = Some("HTTP/1.1".to_owned());
    report.generator.threads = Some(1);
    report.generator.latency_from = Some(LatencyFrom::Due);
    report.generator.cpu = Some(Cpu { user_s: 0.4, system_s: 0.9 });
    report.total = total;
    report.operations = operations;
    report
}

fn usage(cpu_s: f64, rss_mib: f64) -> Usage {
    Usage {
        user_s: Some(cpu_s * 0.3),
        system_s: Some(cpu_s * 0.7),
        rss_peak_bytes: Some((rss_mib * 1024.0 * 1024.0) as u64),
        rss_mean_bytes: Some((rss_mib * 1000.0 * 1024.0) as u64),
        cpus: Some(1),
        processes: Some(1),
        ..Usage::default()
    }
}

/// At an equal rate: 20,000 requests a second for 2 s, two operations. Closed: one user, 20,000 requests.
fn run(random: &mut Random, kind: &Kind, workload: &str, round: u32, machine: f64) -> (Report, Observed) {
    let noise = machine * (0.02 * gauss(random)).exp();
    let (report, count, duration) = if workload == "browse" {
        let mut parts: Vec<Operation> = [("list", 30_000, 0.34), ("item", 10_000, 0.22)]
            .into_iter()
            .map(|(name, count, base)| {
                let errors = if kind.name == "traefik" && name == "item" && round == 4 { 3 } else { 0 };
                let own = latency(random, count, base, kind.added_ms, noise);
                let rate = Some(count as f64 / 2.0);
                Operation { name: name.to_owned(), total: measurement(own, 2.0, 64.0, rate, errors) }
            })
            .collect();
        let mut total = parts[0].total.clone();
        total.merge(&parts[1].total);
        total.concurrency = Some(64.0);
        parts.iter_mut().for_each(|part| part.total.concurrency = None);
        (report(total, parts), 40_000_u64, 2.0)
    } else {
        let own = latency(random, 20_000, 1.9, kind.added_ms, noise);
        let duration = own.mean_ms.unwrap_or(0.0) * 20.0;
        (report(measurement(own, duration, 1.0, None, 0), Vec::new()), 20_000, duration)
    };
    let cpu = |us: f64, random: &mut Random| count as f64 * us * 1e-6 * noise * (0.02 * gauss(random)).exp();
    let system = (kind.gateway.is_some()).then(|| usage(cpu(kind.cpu_us, random), kind.rss_mib + 0.2 * random.share()));
    let observed = Observed {
        reached: None,
        generators: Vec::new(),
        duration_s: duration,
        system,
        upstream: Some(usage(cpu(23.0, random), 14.0 + 0.1 * random.share())),
        generator: Some(usage(cpu(14.0, random), 12.0)),
        machine: Machine {
            steal: Some(if round == 9 && kind.name == "envoy" { 0.034 } else { 0.001 }),
            busy: Some(0.35),
            load1: Some(1.1),
            ..Machine::default()
        },
    };
    (report, observed)
}

fn system(kind: &Kind) -> System {
    let role = match kind.name {
        "direct" => Role::Direct,
        "weir-control" => Role::ControlOf("weir".to_owned()),
        _ => Role::Gateway,
    };
    let configuration = match kind.gateway {
        None => Vec::new(),
        Some(gateway) => vec![ConfigurationFile {
            path: format!("{gateway}.conf"),
            text: format!(
                "# made from the description, for {gateway}\nlisten 127.0.0.1:8080\nroute \"/active/{{auctionID}}\" -> <http://127.0.0.1:14000>\n"
            ),
        }],
    };
    System {
        name: kind.name.to_owned(),
        gateway: kind.gateway.map(str::to_owned),
        language: None,
        version: (!kind.version.is_empty()).then(|| kind.version.to_owned()),
        state: SystemState::Ready,
        command: kind.gateway.iter().map(|gateway| format!("{gateway} --config {gateway}.conf")).collect(),
        conformance: (role != Role::Direct)
            .then(|| Conformance { operations: vec!["list".to_owned(), "item".to_owned()], differences: Vec::new() }),
        configuration,
        role,
    }
}

/// The campaign.
pub(crate) fn campaign() -> Results {
    let mut random = Random::new(2026);
    let mut systems: Vec<System> = KINDS.iter().map(system).collect();
    let caddy = systems.iter_mut().find(|system| system.name == "caddy").expect("caddy");
    caddy.state = SystemState::NotConforming;
    caddy.conformance.as_mut().expect("compared").differences = vec![Difference {
        operation: "unknown path".to_owned(),
        what: "status".to_owned(),
        expected: "404".to_owned(),
        found: "200".to_owned(),
    }];
    let mut kong = system(&kind("kong", "", 0.0, 0.0, 0.0, 0.0));
    kong.state = SystemState::NotHere("the program `kong` is not on PATH".to_owned());
    kong.version = None;
    kong.conformance = None;
    systems.push(kong);
    let workload = |name: &str, load: &str, operations: &[&str], weight, planned| WorkloadPlan {
        name: name.to_owned(),
        operations: operations.iter().map(|name| (*name).to_owned()).collect(),
        generator: "gauge".to_owned(),
        load: load.to_owned(),
        weight,
        planned,
        phases: Vec::new(),
        payload: None,
        mode: None,
        treatment: None,
    };
    let open = Planned { concurrency: Some(64.0), rate: Some(20_000.0), duration_s: Some(2.0), ..Planned::default() };
    let closed = Planned { concurrency: Some(1.0), requests: Some(20_000), ..Planned::default() };
    let workloads = vec![
        workload("browse", "open loop: 20,000 requests/s for 2 s over 64 connections", &["list", "item"], 2.0, open),
        workload("retrieve", "closed loop: 1 user, 20,000 requests", &["item"], 1.0, closed),
    ];
    let mut trials = Vec::new();
    let measured: Vec<&Kind> = KINDS.iter().filter(|kind| kind.name != "caddy").collect();
    for round in 1..=ROUNDS {
        // One round on a machine that was busy with something else.
        let machine = if round == 7 { 1.24 } else { (0.02 * gauss(&mut random)).exp() };
        let mut place = 0;
        for offset in 0..measured.len() {
            let kind = measured[(offset + round as usize) % measured.len()];
            for workload in &workloads {
                let (report, observed) = run(&mut random, kind, &workload.name, round, machine);
                let failed = kind.name == "fiber" && round == 2 && workload.name == "retrieve";
                trials.push(Trial {
                    id: format!("r{round:02}-{}-{}", kind.name, workload.name),
                    round,
                    place,
                    system: kind.name.to_owned(),
                    workload: workload.name.clone(),
                    state: if failed {
                        TrialState::Failed("it ended with exit code 2 while it was measured".to_owned())
                    } else {
                        TrialState::Done
                    },
                    started_unix_ms: Some(1_795_000_000_000 + u64::from(round) * 60_000 + u64::from(place) * 3_000),
                    report: (!failed).then_some(report),
                    observed: (!failed).then_some(observed),
                    treatment: None,
                    treated: None,
                    repeated: Vec::new(),
                    payload: None,
                    mode: None,
                });
                place += 1;
            }
        }
    }
    let searches = searches(&mut random, &measured);
    Results {
        profile: "pass-through".to_owned(),
        life: Vec::new(),
        format: FORMAT,
        name: "A made-up campaign".to_owned(),
        description: Some("Figures drawn from distributions to show what a report looks like. Nothing here was measured.".to_owned()),
        gauge: "0.1.0".to_owned(),
        command: "gauge run examples/evaluations/made-up.yaml --out made-up".to_owned(),
        evaluation: "name: A made-up campaign\napi: auction.openapi.yaml\ngateways: [weir, nginx, haproxy, envoy, fiber, traefik, caddy, kong]\nbaseline: true\nrepeats: 12\nslo: {p99: 5ms, errors: 0}\n".to_owned(),
        started_unix_ms: 1_795_000_000_000,
        ended_unix_ms: Some(1_795_000_660_000),
        quick: false,
        rounds: ROUNDS,
        slo: Some(Slo { p99_ms: Some(5.0), errors: Some(0.0), ..Slo::default() }),
        fail: Vec::new(),
        reference: None,
        price: None,
        weights: BTreeMap::new(),
        inputs: BTreeMap::new(),
        environment: Environment {
            host: Some("example".to_owned()),
            system: Some("Linux 6.1".to_owned()),
            processor: Some("a processor of two cores".to_owned()),
            cpus: Some(2),
            memory_bytes: Some(8 << 30),
            congestion_control: Some("cubic".to_owned()),
            pinned: BTreeMap::from([("system".to_owned(), vec![0]), ("upstream".to_owned(), vec![1]), ("generator".to_owned(), vec![1])]),
            caps: Some("affinity".to_owned()),
            hardware_cpus: Some(1),
            hardware_memory_bytes: Some(4 << 30),
            deploy: "local".to_owned(),
            generators: Vec::new(),
            versions: BTreeMap::from([("nginx (upstream)".to_owned(), "1.22.1".to_owned())]),
            commit: None,
        },
        systems,
        workloads,
        trials,
        continued: Vec::new(),
        searches,
    }
}

fn searches(random: &mut Random, kinds: &[&Kind]) -> Vec<Search> {
    let mut searches = Vec::new();
    for round in 1..=ROUNDS {
        for kind in kinds {
            let most = kind.most * (0.03 * gauss(random)).exp();
            let rates: &[f64] = if round == 1 { &[0.2, 0.4, 0.6, 0.75, 0.85, 0.93, 0.98, 1.02, 1.08] } else { &[0.98] };
            let points = rates
                .iter()
                .map(|share| {
                    // A queue: the nearer to the most, the longer.
                    let wait = 0.12 / (1.06 - share.min(1.045)) * 0.4;
                    let own = latency(random, 8_000, 0.3 + wait, kind.added_ms, 1.0);
                    let rate = (kind.most * share / 50.0).round() * 50.0;
                    let mut report = report(measurement(own, 8_000.0 / rate, 64.0, Some(rate), 0), Vec::new());
                    report.total.lag = None;
                    let met =
                        report.total.latency.as_ref().and_then(|latency| latency.p99_ms).is_some_and(|p99| p99 <= 5.0);
                    Point {
                        invalid: None,
                        rate,
                        met,
                        confirmation: false,
                        report,
                        cpu_per_request_s: Some(kind.cpu_us * 1e-6).filter(|cpu| *cpu > 0.0),
                    }
                })
                .collect();
            searches.push(Search {
                system: kind.name.to_owned(),
                workload: "browse".to_owned(),
                round,
                points,
                highest: Some(most),
                failed: None,
                invalid: None,
            });
        }
    }
    searches
}

/// Writes it as a campaign does: `raw/campaign.json` and a file for each run.
///
/// # Errors
/// What the system says.
pub(crate) fn write_raw(dir: &Path, results: &Results) -> io::Result<()> {
    let raw = dir.join("raw");
    fs::create_dir_all(&raw)?;
    let text = |value: serde_json::Result<String>| value.map_err(io::Error::other);
    for run in &results.trials {
        fs::write(raw.join(format!("{}.json", run.id)), text(serde_json::to_string(run))?)?;
    }
    let campaign = Results { trials: Vec::new(), ..results.clone() };
    fs::write(raw.join("campaign.json"), text(serde_json::to_string(&campaign))?)
}
