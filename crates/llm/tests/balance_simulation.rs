//! A simulation of eight replicas with a prefix cache, to show what the choice by prefix and load is worth.
//!
//! Model. A replica computes prompts one after another (`PREFILL` tokens/s for what its prefix cache does not hold; the last block is always
//! computed) and decodes any number of responses beside that. Its cache holds `CACHE_BLOCKS` blocks of 128 tokens, least recently used ones
//! leave first. Conversations arrive by a Poisson process; each starts with one of `SYSTEMS` system prompts and has several turns, whose
//! prompt is everything said before. The gateway sees metrics that are up to 1 s old, and counts its own requests in flight, as the balance
//! `inference` of the gateway does (docs/ai.md).
//!
//! Not modelled: batching of prompts, decode speed under load, network, evictions of running requests. Times are simulated, so the results
//! are the same on every machine.

use llm::balance::{EngineMetrics, Load, PrefixIndex, Settings, choose};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

const BLOCK_TOKENS: f64 = 128.0;
const PREFILL: f64 = 4000.0;
const CACHE_BLOCKS: usize = 2000;
const SYSTEMS: u64 = 24;
const DECODE: f64 = 4.0;
const THINK: f64 = 12.0;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// A prefix cache: block hash to the time of its last use.
#[derive(Default)]
struct Cache {
    used: HashMap<u64, u64>,
    order: BinaryHeap<Reverse<(u64, u64)>>,
    clock: u64,
}

impl Cache {
    fn matched(&self, blocks: &[u64]) -> usize {
        blocks.iter().take_while(|block| self.used.contains_key(block)).count()
    }

    fn insert(&mut self, blocks: &[u64], capacity: usize) {
        self.clock += 1;
        for block in blocks {
            self.used.insert(*block, self.clock);
            self.order.push(Reverse((self.clock, *block)));
        }
        while self.used.len() > capacity {
            let Some(Reverse((time, block))) = self.order.pop() else { break };
            if self.used.get(&block) == Some(&time) {
                self.used.remove(&block);
            }
        }
    }
}

#[derive(Default)]
struct Replica {
    cache: Cache,
    /// When it is done with the prompts that it has.
    free_at: f64,
    /// Starts and ends of prompts and the ends of responses, for the metrics.
    requests: VecDeque<(f64, f64, f64)>,
    scraped: EngineMetrics,
    /// Requests in flight when it was scraped.
    scraped_in_flight: usize,
}

impl Replica {
    fn scrape(&mut self, now: f64) {
        self.requests.retain(|(_, _, end)| *end > now);
        let waiting = self.requests.iter().filter(|(start, _, _)| *start > now).count();
        self.scraped = EngineMetrics {
            waiting: waiting as f64,
            running: (self.requests.len() - waiting) as f64,
            kv: Some(0.5),
            ..EngineMetrics::default()
        };
        self.scraped_in_flight = self.requests.len();
    }

    /// What a gateway knows that sends all requests.
    fn load(&mut self, now: f64) -> Load {
        self.requests.retain(|(_, _, end)| *end > now);
        let in_flight = self.requests.len();
        Load {
            metrics: Some(self.scraped),
            since_scrape: in_flight as i32 - self.scraped_in_flight as i32,
            in_flight: in_flight as u32,
            available: true,
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Policy {
    RoundRobin,
    Random,
    /// Fewer requests in flight of two random replicas.
    LeastRequest,
    /// Knows every cache and queue, and picks the replica whose first token comes first: the optimum for each request.
    Oracle,
    Inference,
}

#[derive(Debug)]
struct Result {
    mean_ttft: f64,
    p95_ttft: f64,
    /// Blocks found in a cache, over those that one cache of all replicas without a limit would have found.
    hits: f64,
}

fn simulate(policy: Policy, replicas: usize, conversations_per_second: f64, seconds: f64) -> Result {
    let mut random = Random(42);
    let mut fleet: Vec<Replica> = (0..replicas).map(|_| Replica::default()).collect();
    let index = PrefixIndex::new();
    let mut ideal = Cache::default();
    let (mut found, mut possible, mut ttfts) = (0, 0, Vec::new());
    // time in microseconds, so that it has an order; conversation, turn
    let mut events = BinaryHeap::new();
    let micros = |time: f64| (time * 1e6) as u64;
    let mut arrival = 0.0;
    let mut id = 0_u64;
    while arrival < seconds {
        arrival += random.exponential(1.0 / conversations_per_second);
        events.push(Reverse((micros(arrival), id, 0_u64, 2 + random.next() % 6)));
        id += 1;
    }
    let (mut scraped, mut sent) = (0.0, 0_usize);
    while let Some(Reverse((time, conversation, turn, turns))) = events.pop() {
        let now = time as f64 / 1e6;
        if now - scraped >= 1.0 {
            fleet.iter_mut().for_each(|replica| replica.scrape(now));
            scraped = now;
        }
        // 16 blocks of system prompt, then 6 blocks for each message
        let mut chain = 1_u64;
        let blocks: Vec<u64> = (0..16 + 6 * (turn + 1))
            .map(|i| {
                let owner = if i < 16 { conversation % SYSTEMS } else { 1_000_000 + conversation };
                chain = Random(chain ^ owner.wrapping_mul(0x9E37_79B9) ^ i).next();
                chain
            })
            .collect();
        let chosen = match policy {
            Policy::RoundRobin => sent % replicas,
            Policy::Random => random.next() as usize % replicas,
            Policy::LeastRequest => {
                let two = [random.next() as usize % replicas, random.next() as usize % replicas];
                let [first, second] = two.map(|index| fleet[index].load(now).in_flight);
                two[usize::from(second < first)]
            }
            Policy::Oracle => {
                let first_token = |replica: &Replica| {
                    let missing = (blocks.len() - replica.cache.matched(&blocks)).max(1) as f64;
                    replica.free_at.max(now) + missing * BLOCK_TOKENS / PREFILL
                };
                (0..replicas)
                    .min_by(|a, b| first_token(&fleet[*a]).total_cmp(&first_token(&fleet[*b])))
                    .expect("a replica")
            }
            Policy::Inference => {
                let loads: Vec<Load> = fleet.iter_mut().map(|replica| replica.load(now)).collect();
                let longest = |eligible| index.longest(&blocks, eligible);
                let choice = choose(&loads, &Settings::default(), blocks.len() as f64, longest, random.next());
                choice.expect("a replica").replica
            }
        };
        sent += 1;
        index.insert(&blocks, chosen);
        let replica = &mut fleet[chosen];
        let matched = replica.cache.matched(&blocks);
        found += matched;
        possible += ideal.matched(&blocks);
        ideal.insert(&blocks, usize::MAX);
        replica.cache.insert(&blocks, CACHE_BLOCKS);
        let start = replica.free_at.max(now);
        let first_token = start + (blocks.len() - matched).max(1) as f64 * BLOCK_TOKENS / PREFILL;
        replica.free_at = first_token;
        let end = first_token + random.exponential(DECODE);
        replica.requests.push_back((start, first_token, end));
        ttfts.push(first_token - now);
        if turn + 1 < turns {
            events.push(Reverse((micros(end + random.exponential(THINK)), conversation, turn + 1, turns)));
        }
    }
    ttfts.sort_by(f64::total_cmp);
    Result {
        mean_ttft: ttfts.iter().sum::<f64>() / ttfts.len() as f64,
        p95_ttft: ttfts[ttfts.len() * 95 / 100],
        hits: f64::from(found as u32) / f64::from(possible as u32),
    }
}

#[test]
fn eight_replicas_respond_in_half_the_time_of_round_robin() {
    let even = simulate(Policy::RoundRobin, 8, 2.4, 600.0);
    let least = simulate(Policy::LeastRequest, 8, 2.4, 600.0);
    let own = simulate(Policy::Inference, 8, 2.4, 600.0);
    println!("round robin {even:?}\nleast request {least:?}\ninference {own:?}");
    assert!(own.mean_ttft <= 0.5 * even.mean_ttft, "{own:?} against {even:?}");
    assert!(own.mean_ttft <= 0.5 * least.mean_ttft, "{own:?} against {least:?}");
    assert!(own.hits >= 0.9, "{own:?}");
}

#[test]
fn two_replicas_find_90_percent_of_what_one_cache_of_both_would() {
    let chance = simulate(Policy::Random, 2, 0.6, 1200.0);
    let optimum = simulate(Policy::Oracle, 2, 0.6, 1200.0);
    let own = simulate(Policy::Inference, 2, 0.6, 1200.0);
    println!("random {chance:?}\noptimum {optimum:?}\ninference {own:?}");
    assert!(own.hits >= 0.9, "{own:?}");
    assert!(own.p95_ttft <= 1.1 * optimum.p95_ttft, "{own:?} against {optimum:?}");
    assert!(own.p95_ttft <= chance.p95_ttft, "{own:?} against {chance:?}");
}
