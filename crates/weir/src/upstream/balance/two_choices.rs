//! The better of two random targets (Mitzenmacher: The power of two choices in randomized load balancing): near the best choice at the cost of two
//! looks, and, other than "the least loaded of all", without every worker running to the same target at once.
//!
//! The two are drawn by weight, and compared by cost divided by weight; on a tie the first wins, so that idle targets share by weight.

use super::{Choice, SCALE};
use crate::upstream::rng::Rng;
use crate::upstream::target::Target;

/// What is compared.
#[derive(Debug, Clone, Copy)]
pub(in crate::upstream) enum Cost {
    /// Requests in flight over the whole process.
    InFlight,
    /// Peak EWMA of latency times requests in flight, this one included.
    PeakEwma,
}

/// Cost of a request in flight at a target whose latency is not known, in microseconds: the first request goes there at once, and no second one
/// before a response, unless the others are worse than a second. (Finagle does the same.)
const UNKNOWN_PENALTY_US: f64 = 1_000_000.0;

#[derive(Debug)]
pub(in crate::upstream) struct TwoChoices {
    cost: Cost,
    /// Sums of the weights up to and including each target; empty when all weights are the same.
    sums: Vec<u64>,
    /// Admitted targets with their weights, for the careful draw; kept for its memory.
    admitted: Vec<(usize, u64)>,
}

impl TwoChoices {
    pub(in crate::upstream) fn new(targets: &[Target], is_even: bool, cost: Cost) -> TwoChoices {
        let sums = if is_even {
            Vec::new()
        } else {
            let sum = |sum: &mut u64, target: &Target| {
                *sum += u64::from(target.weight) * SCALE;
                Some(*sum)
            };
            targets.iter().scan(0, sum).collect()
        };
        TwoChoices { cost, sums, admitted: Vec::with_capacity(targets.len()) }
    }

    pub(in crate::upstream) fn choose<F: Fn(usize) -> bool>(
        &mut self,
        choice: &Choice<'_, F>,
        rng: &mut Rng,
    ) -> Option<usize> {
        let count = choice.targets.len();
        // Many upstreams have one target, and most of its requests find it usable.
        if count < 2 {
            return (count == 1 && (choice.admits)(0)).then_some(0);
        }
        if choice.ramp.is_some() {
            return self.choose_carefully(choice, None, rng);
        }
        // Two draws that both hit: the ordinary case, whatever the number of targets.
        let first = self.draw(count, rng);
        if !(choice.admits)(first) {
            return self.choose_carefully(choice, None, rng);
        }
        let mut second = self.draw(count - usize::from(self.sums.is_empty()), rng);
        if self.sums.is_empty() && second >= first {
            second += 1; // distinct, and still uniform
        }
        if first == second || !(choice.admits)(second) {
            return self.choose_carefully(choice, Some(first), rng);
        }
        Some(self.cheaper(choice, first, second))
    }

    /// Draws among the admitted alone: when a draw hit a target that is out, or one twice, and in slow start. A `first` that was drawn stays: to draw it
    /// again would bend the shares.
    fn choose_carefully<F: Fn(usize) -> bool>(
        &mut self,
        choice: &Choice<'_, F>,
        first: Option<usize>,
        rng: &mut Rng,
    ) -> Option<usize> {
        self.admitted.clear();
        let admitted = (0..choice.targets.len()).filter(|&index| Some(index) != first && (choice.admits)(index));
        self.admitted.extend(admitted.map(|index| (index, choice.weight(index))));
        let first = match first {
            Some(first) => first,
            None => take_by_weight(&mut self.admitted, rng)?,
        };
        Some(match take_by_weight(&mut self.admitted, rng) {
            Some(second) => self.cheaper(choice, first, second),
            None => first,
        })
    }

    /// An index below `count`, by weight where weights differ.
    fn draw(&self, count: usize, rng: &mut Rng) -> usize {
        match self.sums.last() {
            None => rng.below(count as u64) as usize,
            Some(&whole) => {
                let point = rng.below(whole);
                self.sums.partition_point(|&sum| sum <= point)
            }
        }
    }

    fn cheaper<F: Fn(usize) -> bool>(&self, choice: &Choice<'_, F>, first: usize, second: usize) -> usize {
        let cost = |index: usize| {
            let state = &choice.targets[index].state;
            let in_flight = f64::from(state.in_flight());
            let load = match self.cost {
                Cost::InFlight => in_flight,
                Cost::PeakEwma => match state.load.ewma.read_us(choice.now) {
                    Some(latency_us) => f64::from(latency_us) * (in_flight + 1.0),
                    None => UNKNOWN_PENALTY_US * in_flight,
                },
            };
            load / choice.weight(index) as f64
        };
        if cost(second) < cost(first) { second } else { first }
    }
}

/// Removes one entry, drawn by weight.
fn take_by_weight(entries: &mut Vec<(usize, u64)>, rng: &mut Rng) -> Option<usize> {
    let whole: u64 = entries.iter().map(|(_, weight)| weight).sum();
    if whole == 0 {
        return None;
    }
    let mut point = rng.below(whole);
    let position = entries.iter().position(|&(_, weight)| {
        let hit = point < weight;
        point = point.saturating_sub(weight);
        hit
    })?;
    Some(entries.swap_remove(position).0)
}
