//! The table of docs/scores.md: the smallest difference that a number of rounds finds in four of five campaigns, simulated.
//!
//! Trials have independent normal noise on the logarithmic scale. A score needs no more: what is common to a round falls out of its ratios.
//!
//!     cargo run --release -p gauge --example power

use gauge::stats::{Comparison, Random, SCORES, declare, rounds_to_declare_scores};

/// Campaigns for each point.
const CAMPAIGNS: usize = 4_000;
/// How often a difference is to be found.
const POWER: f64 = 0.8;

/// The share of campaigns in which the last of so many gateways is declared worse than the first, when it is dearer by `difference` standard deviations of a
/// trial.
fn found(gateways: usize, rounds: usize, difference: f64) -> f64 {
    let mut random = Random::new(29);
    let mut found = 0;
    for _ in 0..CAMPAIGNS {
        let mut costs = vec![Vec::new(); gateways];
        for _ in 0..rounds {
            for cost in &mut costs {
                cost.push(random.normal());
            }
        }
        costs[gateways - 1].iter_mut().for_each(|cost| *cost += difference);
        let mut pairs = Vec::new();
        for a in 0..gateways {
            for b in a + 1..gateways {
                let differences: Vec<f64> = costs[a].iter().zip(&costs[b]).map(|(a, b)| a - b).collect();
                pairs.extend(Comparison::of(&differences));
            }
        }
        declare(&mut pairs, SCORES);
        // The pairs of the first are the first ones.
        found += usize::from(pairs[gateways - 2].declared);
    }
    found as f64 / CAMPAIGNS as f64
}

/// The smallest difference, in standard deviations of a trial, that is found often enough.
fn smallest(gateways: usize, rounds: usize) -> Option<f64> {
    (rounds >= rounds_to_declare_scores(gateways)).then(|| {
        let (mut low, mut high) = (0.0, 8.0);
        for _ in 0..10 {
            let middle = (low + high) / 2.0;
            if found(gateways, rounds, middle) < POWER { low = middle } else { high = middle }
        }
        high
    })
}

fn main() {
    println!("| rounds | two gateways, spread 1 % | 2 % | 3 % | 6 % | three gateways, spread 1 % | 2 % | 3 % | 6 % |");
    println!("|---|---|---|---|---|---|---|---|---|");
    for rounds in [6, 8, 10, 12, 16, 20, 26, 30, 42] {
        let cells = [2, 3].map(|gateways| {
            let smallest = smallest(gateways, rounds);
            [0.01, 0.02, 0.03, 0.06].map(|spread| {
                let cell = |difference: f64| format!("{:.1} %", ((difference * spread).exp() - 1.0) * 100.0);
                smallest.map_or("—".to_owned(), cell)
            })
        });
        println!("| {rounds} | {} |", cells.as_flattened().join(" | "));
    }
}
