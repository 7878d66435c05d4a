//! Replicas on a manual clock: what the policy is told, and what stays over reloads.

use llm::request::scan;

use super::*;
use crate::config::{self, Balance, UpstreamId};
use crate::upstream::tests::{Rig, inference, ip, number, spec, target};
use crate::upstream::view::{Pick, Request, Views};
use crate::upstream::{Lease, Upstream, View};

fn replicas(weights: &[u32]) -> config::Upstream {
    spec(Balance::Inference(inference().into()), weights)
}

/// The hashes of a prompt of about 2 KiB.
fn prompt(text: &str) -> PrefixHashes {
    let body =
        format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{}"}}]}}"#, text.repeat(2048 / text.len()));
    PrefixHashes::of(&scan(body.as_bytes()).unwrap(), body.as_bytes(), None, 0)
}

fn pick(view: &View, prompt: &PrefixHashes, now: Moment) -> Lease {
    let Pick::Target(lease) = view.pick(&Request { prompt: Some(prompt), ..Request::default() }, now) else {
        panic!("a target is there")
    };
    lease.carries_prompt(prompt);
    lease
}

fn tell(upstream: &Upstream, position: usize, waiting: f64, running: f64, at: Moment) {
    let set = upstream.published.load_full();
    let state = &set.targets[position].state;
    let metrics = EngineMetrics { waiting, running, ..EngineMetrics::default() };
    state.engine.succeed(Scrape { at, metrics, in_flight: state.in_flight() });
}

#[test]
fn a_prompt_stays_at_its_replica_in_every_worker_and_over_reloads() {
    let mut rig = Rig::new(replicas(&[1, 1, 1, 1]));
    let other = Views::new(rig.upstreams.clone(), 99);
    let homes: Vec<(PrefixHashes, u8)> = (0..20)
        .map(|n| {
            let prompt = prompt(&format!("{n:04} "));
            let home = number(&pick(rig.view(), &prompt, rig.now()));
            (prompt, home)
        })
        .collect();
    for (prompt, home) in &homes {
        assert_eq!(number(&pick(other.get(UpstreamId(0)), prompt, rig.now())), *home);
    }
    // The first target goes, so that all positions change, and a new one comes.
    let mut changed = replicas(&[]);
    changed.targets = [2, 3, 4, 5].map(|n| target(ip(n), 1)).into();
    rig.reload(changed);
    for (prompt, home) in homes.iter().filter(|(_, home)| *home != 1) {
        assert_eq!(number(&pick(rig.view(), prompt, rig.now())), *home);
    }
    // The new one took over the place of the one that went, not its prompts.
    let set = rig.upstream().published.load_full();
    for (prompt, _) in homes.iter().filter(|(_, home)| *home == 1) {
        assert_eq!(set.shared.replicas().longest(prompt, &set.targets, u128::MAX).blocks, 0);
    }
}

#[test]
fn what_an_engine_told_counts_for_three_intervals() {
    let rig = Rig::new(replicas(&[1, 1]));
    rig.advance(Duration::from_secs(10));
    tell(rig.upstream(), 0, 6.0, 0.0, rig.now());
    tell(rig.upstream(), 1, 0.0, 9.0, rig.now());
    let counts = |rig: &Rig| {
        let mut counts = [0; 2];
        for _ in 0..20 {
            counts[usize::from(number(&rig.lease()) - 1)] += 1;
        }
        counts
    };
    assert_eq!(counts(&rig), [0, 20], "it is full");
    rig.advance(Duration::from_millis(2999));
    assert_eq!(counts(&rig), [0, 20]);
    assert_eq!(rig.upstream().snapshot().targets[0].engine.unwrap().waiting, Some(6.0));
    rig.advance(Duration::from_millis(1));
    assert!(counts(&rig)[0] > 0, "nothing is known of it any more");
    assert_eq!(rig.upstream().snapshot().targets[0].engine.unwrap().waiting, None);
    let [prefix, load, in_flight] = rig.upstream().shared.replicas().picks();
    assert_eq!((prefix, load, in_flight), (0, 40, 20));
}

#[test]
fn requests_since_the_scrape_count_and_those_that_ended_do_not() {
    let rig = Rig::new(replicas(&[1, 1]));
    rig.advance(Duration::from_secs(10));
    let before: Vec<Lease> = (0..8).map(|_| rig.lease()).collect();
    // Both engines have four of them; then those of the first end.
    tell(rig.upstream(), 0, 0.0, 4.0, rig.now());
    tell(rig.upstream(), 1, 0.0, 4.0, rig.now());
    let (first, second): (Vec<Lease>, Vec<Lease>) = before.into_iter().partition(|lease| number(lease) == 1);
    assert_eq!((first.len(), second.len()), (4, 4));
    drop(first);
    let since: Vec<Lease> = (0..4).map(|_| rig.lease()).collect();
    assert!(since.iter().all(|lease| number(lease) == 1), "{since:?}");
    drop(second);
}

#[test]
fn more_replicas_than_have_indices_share_by_requests_in_flight() {
    let rig = Rig::new(replicas(&[1; 200]));
    let held: Vec<Lease> = (0..2000).map(|_| rig.lease()).collect();
    assert_eq!(held.len(), 2000);
    let most = rig.upstream().snapshot().targets.iter().map(|target| target.in_flight).max();
    assert!(most <= Some(13), "{most:?} of 10 on average");
}

#[test]
fn a_balance_without_engines_shows_none() {
    let rig = Rig::new(spec(Balance::LeastRequest, &[1]));
    let snapshot = rig.upstream().snapshot();
    assert_eq!((snapshot.replicas, snapshot.targets[0].engine), (None, None));
}
