//! Gauge's score: what a gateway costs, in units of a reference that ran in the same rounds.
//!
//! Each part is a cost c and its figure the ratio to the reference's. With the lane without a gateway as the reference:
//!
//! | part | cost of the gateway | of the reference | weight |
//! |---|---|---|---|
//! | slo-rate | 1 / highest rate that met the SLO | the same, without the gateway | 0.3 |
//! | added-latency | p99 (else the highest percentile that the samples allow) | the same: the ratio is 1 + added / direct | 0.3 |
//! | cpu-per-request | CPU time of the gateway per request | CPU time of the upstream per request, without the gateway | 0.3 |
//! | memory | peak RSS of the gateway | peak RSS of the upstream, without the gateway | 0.1 |
//!
//! score = 100 x exp(- sum of weight x median over rounds of ln(c / c of the reference)): a weighted geometric mean. Parts that the reference was not measured
//! in are left out and the others' weights grow to 1, workload by workload; workloads weigh as the evaluation says.
//!
//! Nothing in a gateway's score depends on another gateway: adding one changes no score, and the ratio of two scores is how much dearer one is than the
//! other. (The unit itself, what 100 is, means little, as the reference is not a gateway.)

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::stats::{self, Draws, Estimate};

/// A part of the score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Highest rate that met the SLO.
    SloRate,
    /// What the gateway adds to the response time.
    AddedLatency,
    /// CPU time per request.
    CpuPerRequest,
    /// Resident memory.
    Memory,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 4] = [Part::SloRate, Part::AddedLatency, Part::CpuPerRequest, Part::Memory];

    /// Its share of the score when all were measured. Rate, latency and processors are what a gateway is bought for, and none of them is worth more than
    /// another; memory is cheap, and much of it is a runtime's start-up. [`crate::judgement::Judgement::sensitivity`] shows what other weights would give.
    pub fn weight(self) -> f64 {
        match self {
            Part::SloRate | Part::AddedLatency | Part::CpuPerRequest => 0.3,
            Part::Memory => 0.1,
        }
    }

    /// As it is printed: `cpu-per-request`.
    pub fn as_str(self) -> &'static str {
        match self {
            Part::SloRate => "slo-rate",
            Part::AddedLatency => "added-latency",
            Part::CpuPerRequest => "cpu-per-request",
            Part::Memory => "memory",
        }
    }
}

/// A part's weight.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Weight {
    /// Which part.
    pub part: Part,
    /// As it is when every part was measured; all together are 1.
    pub planned: f64,
    /// As it was used, all workloads together.
    pub used: f64,
}

/// One part of one workload of one gateway, round by round.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Which workload.
    pub workload: String,
    /// Which part.
    pub part: Part,
    /// Its share of the score; all cells together are 1.
    pub weight: f64,
    /// Logarithm of the cost over the reference's, by round.
    pub logs: BTreeMap<u32, f64>,
}

/// Share of the score that must have been measured in a round for two gateways to be compared by it.
const KNOWN: f64 = 0.5;

/// All parts of a gateway.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Costs {
    /// Part by part, workload by workload.
    pub cells: Vec<Cell>,
}

impl Costs {
    /// The weighted sum of the logarithms, each the median over its rounds. Null when a part has no round at all.
    fn log_cost(&self, weight: impl Fn(&Cell) -> f64) -> Option<f64> {
        let of = |cell: &Cell| Some(weight(cell) * stats::median(&cell.logs.values().copied().collect::<Vec<_>>())?);
        if self.cells.is_empty() { None } else { self.cells.iter().map(of).sum() }
    }

    /// The score, with its interval by drawing the rounds 1 to `rounds` again; null when a part has no figure.
    pub fn score(&self, rounds: u32) -> Option<Estimate> {
        let middle = self.log_cost(|cell| cell.weight)?;
        let mut drawn = self.drawn(rounds);
        let (low, high) = stats::interval(&mut drawn)?;
        let fewest = self.cells.iter().map(|cell| cell.logs.len()).min().unwrap_or(0);
        let estimate = Estimate { median: middle, low, high, rounds: u32::try_from(fewest).unwrap_or(u32::MAX) };
        Some(estimate.map(score_of))
    }

    /// The score with other weights; they need not add up to 1.
    pub fn score_with(&self, weight: impl Fn(&Cell) -> f64) -> Option<f64> {
        let sum: f64 = self.cells.iter().map(&weight).sum();
        (sum > 0.0).then(|| self.log_cost(|cell| weight(cell) / sum)).flatten().map(score_of)
    }

    /// Logarithms of the cost when the rounds 1 to `rounds` are drawn again: the same draws for every gateway. A part of which a draw has no round takes
    /// the median over all of its own. None when a part has no figure.
    pub fn drawn(&self, rounds: u32) -> Vec<f64> {
        let mut parts = Vec::with_capacity(self.cells.len());
        for cell in &self.cells {
            let mut sorted: Vec<(f64, u32)> = cell.logs.iter().map(|(round, log)| (*log, *round)).collect();
            sorted.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
            let Some(own) = stats::median_of_counted(sorted.iter().map(|(log, _)| (*log, 1))) else {
                return Vec::new();
            };
            parts.push((cell.weight, own, sorted));
        }
        let mut times = vec![0; rounds as usize + 1];
        Draws::new(rounds as usize, stats::DRAWS, stats::SEED)
            .map(|draw| {
                times.fill(0);
                draw.into_iter().for_each(|index| times[index + 1] += 1);
                let of = |round: u32| times.get(round as usize).copied().unwrap_or(0);
                parts
                    .iter()
                    .map(|(weight, own, sorted)| {
                        let drawn = stats::median_of_counted(sorted.iter().map(|(log, round)| (*log, of(*round))));
                        weight * drawn.unwrap_or(*own)
                    })
                    .sum()
            })
            .collect()
    }

    /// What this gateway and `other` cost in the same rounds, as multiples of the reference's: each round by the parts that both have in it, if those are
    /// at least half of the score. Some parts are measured in few rounds, and of a round in which the machine moved the times do not count: what
    /// is left of it still tells two gateways apart, and as both are taken by the same parts it favours neither.
    pub fn in_common(&self, other: &Costs) -> Vec<(f64, f64)> {
        let mut rounds: BTreeMap<u32, (f64, f64, f64)> = BTreeMap::new();
        for own in &self.cells {
            let same = |cell: &&Cell| (&cell.workload, cell.part) == (&own.workload, own.part);
            let Some(other) = other.cells.iter().find(same) else { continue };
            for (round, log) in &own.logs {
                if let Some(other_log) = other.logs.get(round) {
                    let (weight, a, b) = rounds.entry(*round).or_default();
                    *weight += own.weight;
                    *a += own.weight * log;
                    *b += own.weight * other_log;
                }
            }
        }
        let all: f64 = self.cells.iter().map(|cell| cell.weight).sum();
        let known = rounds.into_values().filter(|(weight, ..)| *weight >= all * KNOWN);
        known.map(|(weight, a, b)| ((a / weight).exp(), (b / weight).exp())).collect()
    }

    /// The cost of one part over all workloads (by their weights), as a multiple of the reference's, with its share of the score.
    pub fn part(&self, part: Part, workload: Option<&str>, rounds: u32) -> Option<(f64, Estimate)> {
        let cells: Vec<Cell> = self
            .cells
            .iter()
            .filter(|cell| cell.part == part && workload.is_none_or(|workload| cell.workload == workload))
            .cloned()
            .collect();
        let share: f64 = cells.iter().map(|cell| cell.weight).sum();
        let cells = cells.into_iter().map(|cell| Cell { weight: cell.weight / share, ..cell }).collect();
        // A score of 100 is a cost of 1.
        let score = Costs { cells }.score(rounds)?;
        Some((share, score.map(|score| 100.0 / score)))
    }
}

fn score_of(log_cost: f64) -> f64 {
    100.0 * (-log_cost).exp()
}

/// How often each gateway is first when the rounds are drawn again, from 0 to 1.
pub fn probability_of_first(gateways: &[&Costs], rounds: u32) -> Vec<f64> {
    let drawn: Vec<Vec<f64>> = gateways.iter().map(|costs| costs.drawn(rounds)).collect();
    let draws = drawn.iter().map(Vec::len).min().unwrap_or(0);
    let mut first = vec![0_u32; gateways.len()];
    for draw in 0..draws {
        let costs = drawn.iter().map(|costs| costs[draw]).enumerate();
        if let Some((best, _)) = costs.min_by(|(_, a), (_, b)| a.total_cmp(b)) {
            first[best] += 1;
        }
    }
    first.into_iter().map(|count| f64::from(count) / draws.max(1) as f64).collect()
}
