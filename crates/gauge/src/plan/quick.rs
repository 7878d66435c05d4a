//! A first look at an evaluation: the same systems and operations, fewer rounds, less of everything.

use std::time::Duration;

use super::{Plan, PlannedLoad, Warmup};
use crate::load::workload::{Closed, Load};

/// Rounds of a first look: the least from which an interval can be made.
const ROUNDS: u32 = 3;
const MEASURED: Duration = Duration::from_secs(2);
const WARMUP: Duration = Duration::from_millis(500);
/// A quarter of the requests, but so many at least.
const REQUESTS: u64 = 20;

impl Plan {
    /// Makes it a first look.
    #[must_use]
    pub fn quick(mut self) -> Self {
        self.quick = true;
        self.repeats = self.repeats.min(ROUNDS);
        for workload in &mut self.workloads {
            workload.mode = None;
            match &mut workload.load {
                PlannedLoad::Fixed(Load::Closed(load)) => closed(load),
                PlannedLoad::Fixed(Load::Open(open)) => open.duration = open.duration.min(MEASURED),
                PlannedLoad::Fixed(Load::Phases(phases)) => {
                    for phase in phases {
                        if let Some(load) = &mut phase.closed {
                            closed(load);
                        }
                        if let Some(load) = &mut phase.open {
                            load.duration = load.duration.min(MEASURED);
                        }
                    }
                }
                PlannedLoad::Search(search) => {
                    search.duration = search.duration.min(MEASURED);
                    search.precision = search.precision.max(0.1);
                    search.rounds = 1;
                    search.curve.retain(|share| *share == 0.5);
                }
            }
            match &mut workload.warmup {
                Warmup::For(duration) => *duration = (*duration).min(WARMUP),
                Warmup::Requests(requests) => *requests = (*requests).div_ceil(4),
                Warmup::None => {}
            }
        }
        self
    }
}

fn closed(load: &mut Closed) {
    if let Some(duration) = &mut load.duration {
        *duration = (*duration).min(MEASURED);
    }
    if let Some(iterations) = &mut load.iterations {
        *iterations = (*iterations).min(REQUESTS.max(iterations.div_ceil(4)));
    }
}
