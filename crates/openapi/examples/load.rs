//! Loads a description as `weir` does, and prints how long that takes, how much memory stays, and what is not checked:
//! `cargo run -p openapi --example load -- FILE [skip-patterns]`.

use std::time::Instant;

use openapi::{Options, Patterns};

fn main() {
    let file = std::env::args().nth(1).expect("a description");
    let patterns = if std::env::args().nth(2).is_some() { Patterns::Skip } else { Patterns::Refuse };
    let options = Options { validates: true, patterns, ..Options::default() };
    let before = resident_kib();
    let start = Instant::now();
    let loaded = openapi::load(&apidoc::Files::anywhere(), &file, &options);
    let took = start.elapsed();
    match loaded {
        Ok(api) => {
            let contracts = api.operations.iter().filter_map(|operation| operation.contract.as_ref());
            let bodies = contracts.clone().filter(|contract| contract.checks_bodies()).count();
            println!(
                "{file}: {} operations, {} with a contract, {bodies} with a checked body; {} ms, {} KiB more resident, {} notes",
                api.operations.len(),
                contracts.count(),
                took.as_millis(),
                resident_kib().saturating_sub(before),
                api.notes.len()
            );
            api.notes.iter().take(20).for_each(|note| println!("  {note}"));
        }
        Err(problems) => {
            println!("{file}: {} problems after {} ms", problems.len(), took.as_millis());
            problems.iter().take(20).for_each(|problem| println!("  {problem}"));
            std::process::exit(1);
        }
    }
}

/// Resident memory of this process; 0 where the system does not say.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
