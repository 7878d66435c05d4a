//! Consistent hash with bounded load: weighted rendezvous hashing (Thaler and Ravishankar 1998; weights after Schindelhauer and Schomaker 2005)
//! under the bound of Mirrokni, Thorup and Zadimoghaddam (Consistent hashing with bounded loads, 2018).
//!
//! Every key ranks all targets; it goes to the first that may be used and has room under the bound. Chosen over a ring and over Maglev's table because
//! the share of each target is exactly its weight, a target that leaves or comes moves only its own keys, those of a target that is out or full
//! spread over all others rather than on one neighbour, and there is no table to build, to publish or to keep per worker. The price is one
//! multiplication chain per target and pick: right for the tens of targets that an upstream has; at hundreds a table would be faster.
//!
//! The bound: no target has more than 125 % of its share of the requests in flight (rounded up). A key that is requested much overflows to the next of its
//! ranking. Targets are ranked by their addresses, so that replicas of the gateway, and the same gateway after a restart, agree.

use super::{Choice, SCALE};
use crate::runtime::hash::{hash_key, mix};
use crate::upstream::target::Address;

/// How far a target may lie above its fair share of the requests in flight: 5/4.
const BOUND: (u128, u128) = (5, 4);

/// Identity of a target among the others.
pub(in crate::upstream) fn hash_seed(address: &Address, base_path: &str) -> u64 {
    hash_key(format!("{address}{base_path}").as_bytes())
}

pub(in crate::upstream) fn choose<F: Fn(usize) -> bool>(choice: &Choice<'_, F>, key: u64) -> Option<usize> {
    let mut best: Option<(f64, usize)> = None;
    let mut in_flight = 0;
    let mut weights = 0;
    for (index, target) in choice.targets.iter().enumerate() {
        if (choice.admits)(index) {
            in_flight += u64::from(target.state.in_flight());
            weights += choice.weight(index);
            best = higher(best, (score(choice, index, key), index));
        }
    }
    let (_, first) = best?;
    // Fewer than the bound rounded up, in whole numbers: n < ceil(a / b) is n * b < a.
    let has_room = |index: usize| {
        let allowed = BOUND.0 * u128::from(in_flight + 1) * u128::from(choice.weight(index));
        let taken = u128::from(choice.targets[index].state.in_flight());
        taken * BOUND.1 * u128::from(weights) < allowed
    };
    if has_room(first) {
        return Some(first);
    }
    let next = (0..choice.targets.len())
        .filter(|&index| (choice.admits)(index) && has_room(index))
        .fold(None, |best, index| higher(best, (score(choice, index, key), index)));
    // Some target is always below its bound, unless the counts moved between the two looks.
    Some(next.map_or(first, |(_, index)| index))
}

fn higher(best: Option<(f64, usize)>, candidate: (f64, usize)) -> Option<(f64, usize)> {
    match best {
        Some(best) if best.0 >= candidate.0 => Some(best),
        _ => Some(candidate),
    }
}

/// Place of a target in the ranking of a key. With u uniform in (0, 1), the largest of w / -ln(u) is target i with probability w_i / sum of w,
/// and a change of one weight moves keys only to or from that target. Where all weights are the same, the order of u itself is that order.
fn score<F: Fn(usize) -> bool>(choice: &Choice<'_, F>, index: usize, key: u64) -> f64 {
    let hash = mix(key ^ choice.targets[index].hash_seed);
    let uniform = ((hash >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    if choice.is_even {
        return uniform;
    }
    (choice.weight(index) as f64 / SCALE as f64) / -uniform.ln()
}
