//! The order in which a model's candidates are tried.

use crate::config::Model;

/// Indices of the candidates, tier by tier; within a tier at random by weight, so that each is first as often as its share says.
/// `random` gives numbers that are spread over all of `u64`.
pub fn order(model: &Model, mut random: impl FnMut() -> u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..model.candidates.len()).collect();
    let mut start = 0;
    while start < order.len() {
        let tier = model.candidates[order[start]].tier;
        let end = start + order[start..].iter().take_while(|&&index| model.candidates[index].tier == tier).count();
        for place in start..end {
            let weights = order[place..end].iter().map(|&index| u64::from(model.candidates[index].weight));
            let mut draw = random() % weights.clone().sum::<u64>().max(1);
            let chosen = weights
                .enumerate()
                .find(|(_, weight)| {
                    let is_here = draw < *weight;
                    draw = draw.saturating_sub(*weight);
                    is_here
                })
                .map_or(0, |(offset, _)| offset);
            // Those that were not drawn keep their order.
            order[place..=place + chosen].rotate_right(1);
        }
        start = end;
    }
    order
}
