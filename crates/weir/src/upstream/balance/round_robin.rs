//! Smooth weighted round robin (nginx's): weights {5, 1, 1} give a a b a c a a, not five in a row.
//!
//! Each worker goes its own round. A target that is left out takes no part, so that its share goes to all others alike, and comes back where it was.

use super::{Choice, SCALE};
use crate::upstream::rng::Rng;
use crate::upstream::target::Target;

/// This worker's round: how much each target is owed.
#[derive(Debug)]
pub(in crate::upstream) struct RoundRobin {
    owed: Vec<i64>,
}

impl RoundRobin {
    /// Begins somewhere within a round, so that the workers do not all begin with the first target.
    pub(in crate::upstream) fn new(targets: &[Target], rng: &mut Rng) -> RoundRobin {
        let mut round = RoundRobin { owed: vec![0; targets.len()] };
        let weights: Vec<i64> = targets.iter().map(|target| i64::from(target.weight) * SCALE as i64).collect();
        for _ in 0..rng.below(targets.len().max(1) as u64) {
            round.step(|index| Some(weights[index]));
        }
        round
    }

    pub(in crate::upstream) fn choose<F: Fn(usize) -> bool>(&mut self, choice: &Choice<'_, F>) -> Option<usize> {
        self.step(|index| (choice.admits)(index).then(|| choice.weight(index) as i64))
    }

    /// Credits each target that takes part with its weight, and charges the sum to the one that is owed most.
    fn step(&mut self, weight: impl Fn(usize) -> Option<i64>) -> Option<usize> {
        let mut best: Option<(i64, usize)> = None;
        let mut sum = 0;
        for (index, owed) in self.owed.iter_mut().enumerate() {
            let Some(weight) = weight(index) else {
                continue;
            };
            *owed += weight;
            sum += weight;
            if best.is_none_or(|(most, _)| *owed > most) {
                best = Some((*owed, index));
            }
        }
        let (_, index) = best?;
        self.owed[index] -= sum;
        Some(index)
    }
}
