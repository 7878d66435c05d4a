//! Readings become usages.

use std::time::{Duration, Instant};

use super::Reading;
use super::machine::{self, Ticks};
use crate::results::{Machine, Observed, Sample, Usage};

/// The parts of a measurement, each at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usages {
    /// The system under test; `None` for the baseline.
    pub system: Option<Reading>,
    /// The upstreams; `None` when Gauge did not start them.
    pub upstream: Option<Reading>,
    /// The generator.
    pub generator: Option<Reading>,
    /// Processor time of the machine that the system runs on.
    pub ticks: Option<Ticks>,
}

/// How often the parts are looked at between begin and end.
const INTERVAL: Duration = Duration::from_millis(500);

/// Collects readings from the begin of the measured load to its end.
#[derive(Debug)]
pub struct Watcher {
    begun: Instant,
    readings: Vec<(f64, Usages)>,
}

impl Watcher {
    /// Begins with a first reading.
    pub fn begin(first: Usages) -> Self {
        Watcher { begun: Instant::now(), readings: vec![(0.0, first)] }
    }

    /// When the next reading is due.
    pub fn next(&self) -> Instant {
        let last = self.readings.last().map_or(0.0, |(at, _)| *at);
        self.begun + Duration::from_secs_f64(last) + INTERVAL
    }

    /// Takes in a reading.
    pub fn take(&mut self, reading: Usages) {
        self.readings.push((self.begun.elapsed().as_secs_f64(), reading));
    }

    /// What system, upstream and generator used between the last two readings.
    pub fn latest(&self) -> [Option<Sample>; 3] {
        let last = &self.readings[self.readings.len().saturating_sub(2)..];
        let part = |of: fn(&Usages) -> Option<Reading>| {
            let two: Vec<(f64, Reading)> = last.iter().filter_map(|(at, usages)| Some((*at, of(usages)?))).collect();
            usage(&two, None)?.samples.pop()
        };
        [part(|usages| usages.system), part(|usages| usages.upstream), part(|usages| usages.generator)]
    }

    /// What was used from the first to the last reading. `cpus` are the processors of system, upstream and generator.
    pub fn finish(&self, cpus: [Option<u32>; 3], load1: Option<f64>) -> Observed {
        let part = |of: fn(&Usages) -> Option<Reading>, cpus: Option<u32>| {
            let readings: Vec<(f64, Reading)> =
                self.readings.iter().filter_map(|(at, usages)| Some((*at, of(usages)?))).collect();
            usage(&readings, cpus)
        };
        let (first, last) = (self.readings.first(), self.readings.last());
        let machine: Machine = machine::between(
            first.and_then(|(_, usages)| usages.ticks.as_ref()),
            last.and_then(|(_, usages)| usages.ticks.as_ref()),
            load1,
        );
        Observed {
            duration_s: last.map_or(0.0, |(at, _)| *at),
            system: part(|usages| usages.system, cpus[0]),
            upstream: part(|usages| usages.upstream, cpus[1]),
            generator: part(|usages| usages.generator, cpus[2]),
            machine,
            reached: None,
            generators: Vec::new(),
        }
    }
}

/// `None` without two readings to compare.
fn usage(readings: &[(f64, Reading)], cpus: Option<u32>) -> Option<Usage> {
    let (_, first) = readings.first()?;
    if readings.len() < 2 {
        return None;
    }
    // A process that has ended is in the last reading no more: what it had counted until then is the most that was seen.
    let since = |of: fn(&Reading) -> Option<f64>| {
        let most = readings.iter().filter_map(|(_, reading)| of(reading)).fold(of(first)?, f64::max);
        Some(most - of(first)?)
    };
    let coarse = (since(|reading| reading.user_s), since(|reading| reading.system_s));
    let (user_s, system_s) = cpu(coarse, since(|reading| reading.on_cpu_s));
    let count = |of: fn(&Reading) -> Option<u64>| {
        let most = readings.iter().filter_map(|(_, reading)| of(reading)).max()?;
        Some(most - of(first)?.min(most))
    };
    let memory: Vec<u64> = readings.iter().filter_map(|(_, reading)| reading.rss_bytes).collect();
    let mean = memory.iter().sum::<u64>().checked_div(memory.len() as u64);
    let samples = readings.windows(2).filter_map(|pair| {
        let ((before, then), (at, now)) = (pair[0], pair[1]);
        let of = |reading: &Reading| reading.on_cpu_s.or_else(|| Some(reading.user_s? + reading.system_s?));
        let cpu = (of(&now)? - of(&then)?).max(0.0) / (at - before).max(1e-6);
        let switches = |reading: &Reading| Some(reading.voluntary? + reading.involuntary?);
        Some(Sample {
            at_s: at,
            cpu,
            rss_bytes: now.rss_bytes?,
            pss_bytes: now.pss_bytes,
            // Those of threads that have ended are not counted any more.
            context_switches: switches(&now).zip(switches(&then)).map(|(now, then)| now.saturating_sub(then)),
            throttled_s: now.throttled_s.zip(then.throttled_s).map(|(now, then)| (now - then).max(0.0)),
        })
    });
    Some(Usage {
        user_s,
        system_s,
        pss_peak_bytes: readings.iter().filter_map(|(_, reading)| reading.pss_bytes).max(),
        rss_peak_bytes: memory.iter().max().copied(),
        rss_mean_bytes: mean,
        voluntary_switches: count(|reading| reading.voluntary),
        involuntary_switches: count(|reading| reading.involuntary),
        processes: readings.iter().map(|(_, reading)| reading.processes).max(),
        threads: readings.iter().filter_map(|(_, reading)| reading.threads).max(),
        descriptors: readings.iter().filter_map(|(_, reading)| reading.descriptors).max(),
        cpus,
        samples: samples.collect(),
    })
}

/// How far the coarse clock may be ahead of the fine one before it is taken to know of threads that have ended.
const ENDED_S: f64 = 0.05;

/// User and kernel time. The coarse clock tells them apart in steps of a tick, which is much of a short run; the fine one gives their sum,
/// unless threads have ended meanwhile, of which it knows nothing.
fn cpu(coarse: (Option<f64>, Option<f64>), fine: Option<f64>) -> (Option<f64>, Option<f64>) {
    match (coarse, fine) {
        ((Some(user), Some(system)), Some(fine)) if user + system <= fine + ENDED_S => {
            let share = if user + system > 0.0 { user / (user + system) } else { 0.5 };
            (Some(fine * share), Some(fine * (1.0 - share)))
        }
        (coarse, _) => coarse,
    }
}
