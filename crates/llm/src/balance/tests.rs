use super::*;

fn metrics(engine: Engine, text: &str) -> Option<EngineMetrics> {
    EngineMetrics::parse(text.as_bytes(), &engine.names())
}

fn counts(engine: Engine, text: &str) -> Option<(f64, f64, Option<f64>)> {
    metrics(engine, text).map(|found| (found.waiting, found.running, found.kv))
}

#[test]
fn metrics_of_each_engine() {
    let vllm = "# HELP vllm:num_requests_waiting x\n# TYPE vllm:num_requests_waiting gauge\n\
        vllm:num_requests_waiting{engine=\"0\",model_name=\"a}b\\\"\"} 2.0\nvllm:num_requests_waiting{engine=\"1\"} 3 1700000000\n\
        vllm:num_requests_running{engine=\"0\"} 4.0\nvllm:num_requests_running{engine=\"1\"} 1e1\n\
        vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.5\n\
        vllm:cache_config_info{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"7000\"} 1.0\n\
        vllm:prefix_cache_hits_total{engine=\"0\"} 10\nvllm:prefix_cache_queries_total{engine=\"0\"} 40\n\
        vllm:num_requests_waiting_by_reason{reason=\"x\"} 50\n";
    assert_eq!(
        metrics(Engine::Vllm, vllm),
        Some(EngineMetrics {
            waiting: 5.0,
            running: 14.0,
            kv: Some(0.5),
            block_size: Some(16),
            blocks: Some(7000),
            prefix_hits: Some(10.0),
            prefix_queries: Some(40.0),
        })
    );
    let old = "vllm:num_requests_waiting 1\nvllm:num_requests_running 2\nvllm:gpu_cache_usage_perc 0.75\n";
    assert_eq!(counts(Engine::Vllm, old), Some((1.0, 2.0, Some(0.75))));
    let sglang = "sglang:num_queue_reqs{pool=\"a\"} 1\nsglang:num_queue_reqs{pool=\"b\"} 4\nsglang:num_running_reqs 2\nsglang:token_usage 0.1\nsglang:token_usage 0.9\n";
    assert_eq!(counts(Engine::Sglang, sglang), Some((4.0, 2.0, Some(0.9))), "the worst of its pools");
    assert_eq!(counts(Engine::Tgi, "tgi_queue_size 1\r\ntgi_batch_current_size 2\r\n"), Some((1.0, 2.0, None)));
    let llama = "llamacpp:requests_deferred 1\nllamacpp:requests_processing 2\n";
    assert_eq!(counts(Engine::LlamaCpp, llama), Some((1.0, 2.0, None)));
    let trt = "trtllm_num_requests_waiting 1\ntrtllm_num_requests_running 2\ntrtllm_kv_cache_utilization 1.5\n";
    assert_eq!(counts(Engine::TrtLlm, trt), Some((1.0, 2.0, Some(1.0))));
    assert_eq!(Engine::TrtLlm.path(), "/prometheus/metrics");
    for (name, engine) in [
        ("vllm", Engine::Vllm),
        ("sglang", Engine::Sglang),
        ("tgi", Engine::Tgi),
        ("llamacpp", Engine::LlamaCpp),
        ("trtllm", Engine::TrtLlm),
    ] {
        assert_eq!(Engine::of_name(name), Some(engine));
    }
    assert_eq!(Engine::of_name("ollama"), None);
}

#[test]
fn other_names_and_broken_scrapes() {
    let names = MetricNames { waiting: "w", running: "r", kv: ["k", ""], add: true };
    assert!(EngineMetrics::parse(b"w 1\nr 2\nk 0.5", &names).is_some());
    for text in ["", "w 1", "w NaN\nr 1", "w -1\nr 1", "w +Inf\nr 1", "w{a=\"} 1\nr 1", "w\nr", "\u{fe}w 1"] {
        assert_eq!(EngineMetrics::parse(text.as_bytes(), &names), None, "{text}");
    }
}

#[test]
fn the_index_finds_the_longest_prefix_of_eligible_replicas() {
    let index = PrefixIndex::new();
    let hashes: Vec<u64> = (1..=10_u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
    assert_eq!(index.longest(&hashes, u128::MAX), PrefixMatch::default());
    index.insert(&hashes[..4], 1);
    index.insert(&hashes[..7], 100);
    assert_eq!(index.longest(&hashes, u128::MAX), PrefixMatch { replicas: 1 << 100, blocks: 7 });
    assert_eq!(index.longest(&hashes[..3], u128::MAX), PrefixMatch { replicas: 1 << 100 | 1 << 1, blocks: 3 });
    assert_eq!(index.longest(&hashes, 0b10), PrefixMatch { replicas: 0b10, blocks: 4 });
    assert_eq!(index.longest(&hashes, 0b1), PrefixMatch::default());
    index.remove(&hashes[..7], 100);
    assert_eq!(index.longest(&hashes, u128::MAX), PrefixMatch { replicas: 0b10, blocks: 4 });
    index.insert(&hashes[..7], 100);
    index.forget(100);
    assert_eq!(index.longest(&hashes, u128::MAX).blocks, 4);
    index.remove(&hashes, MAX_REPLICAS);
    index.insert(&hashes, MAX_REPLICAS);
    index.insert(&[0], 0);
    assert_eq!(index.longest(&[0], u128::MAX), PrefixMatch::default());
}

#[test]
fn the_least_recently_used_entry_makes_room() {
    let index = PrefixIndex::new();
    // all in one set: the set is chosen by the low bits
    let hash = |i: u64| i << 32 | 5;
    for i in 1..=8 {
        index.insert(&[hash(i)], 0);
    }
    index.insert(&[hash(1)], 0);
    index.insert(&[hash(9)], 3);
    assert_eq!(index.longest(&[hash(1)], u128::MAX).blocks, 1, "used again");
    assert_eq!(index.longest(&[hash(2)], u128::MAX).blocks, 0, "the oldest");
    assert_eq!(index.longest(&[hash(9)], u128::MAX).replicas, 1 << 3, "nothing stays of the entry before");
}

#[test]
fn workers_share_the_index() {
    let index = PrefixIndex::new();
    std::thread::scope(|scope| {
        for worker in 0..4_usize {
            let index = &index;
            scope.spawn(move || {
                for i in 1..2000_u64 {
                    index.insert(&[i.wrapping_mul(0x9E37_79B9_7F4A_7C15)], worker);
                }
            });
        }
    });
    let found = (1..2000_u64)
        .filter(|i| index.longest(&[i.wrapping_mul(0x9E37_79B9_7F4A_7C15)], u128::MAX).blocks == 1)
        .count();
    assert!(found > 1900, "{found} of 1999");
}

fn load(waiting: f64, running: f64, kv: f64) -> Load {
    let metrics = EngineMetrics { waiting, running, kv: Some(kv), ..EngineMetrics::default() };
    Load { metrics: Some(metrics), available: true, ..Load::default() }
}

fn pick(replicas: &[Load], found: PrefixMatch, prompt_blocks: f64) -> Vec<(usize, Reason)> {
    let mut seen: Vec<(usize, Reason)> = (0..64_u64)
        .filter_map(|i| {
            let random = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let masked = |eligible| PrefixMatch { replicas: found.replicas & eligible, ..found };
            choose(replicas, &Settings::default(), prompt_blocks, masked, random)
        })
        .map(|choice| (choice.replica, choice.reason))
        .collect();
    seen.sort_by_key(|(replica, _)| *replica);
    seen.dedup();
    seen
}

#[test]
fn the_rules_of_the_choice_in_their_order() {
    use Reason::{Load as ByLoad, Prefix};
    let none = PrefixMatch::default();
    let on = |replicas, blocks| PrefixMatch { replicas, blocks };
    // 1: busy replicas are avoided, unless all are
    assert_eq!(pick(&[load(6.0, 0.0, 0.0), load(5.0, 9.0, 0.0)], none, 10.0), [(1, ByLoad)]);
    assert_eq!(pick(&[load(0.0, 0.0, 0.96), load(0.0, 9.0, 0.1)], none, 10.0), [(1, ByLoad)]);
    assert_eq!(pick(&[load(9.0, 0.0, 0.1), load(6.0, 0.0, 0.1)], none, 10.0), [(1, ByLoad)]);
    assert_eq!(
        pick(&[load(6.0, 0.0, 0.0), load(0.0, 9.0, 0.0)], on(1, 10), 10.0),
        [(1, ByLoad)],
        "a busy replica's prefix does not count"
    );
    // 3: the longest prefix, from 30 % of the prompt on
    assert_eq!(pick(&[load(0.0, 9.0, 0.0), load(0.0, 0.0, 0.0)], on(1, 3), 10.0), [(0, Prefix)]);
    assert_eq!(pick(&[load(0.0, 9.0, 0.0), load(0.0, 0.0, 0.0)], on(1, 2), 10.0), [(1, ByLoad)]);
    assert_eq!(
        pick(&[load(0.0, 9.0, 0.0), load(0.0, 1.0, 0.0)], on(0b11, 5), 10.0),
        [(1, Prefix)],
        "the lower load of two equals"
    );
    assert_eq!(
        pick(&[load(0.0, 70.0, 0.0), load(0.0, 1.0, 0.0)], on(1, 9), 10.0),
        [(1, ByLoad)],
        "not if load is uneven"
    );
    assert_eq!(pick(&[load(0.0, 65.0, 0.0), load(0.0, 1.0, 0.0)], on(1, 9), 10.0), [(0, Prefix)]);
    assert_eq!(
        pick(&[load(0.0, 200.0, 0.0), load(0.0, 134.0, 0.0)], on(1, 9), 10.0),
        [(0, Prefix)],
        "by more than the factor too"
    );
    // 4: the lower of two
    assert_eq!(pick(&[load(1.0, 0.0, 0.0), load(0.0, 2.0, 0.0)], none, 10.0), [(1, ByLoad)]);
    assert_eq!(pick(&[load(0.0, 0.0, 0.9), load(0.0, 5.0, 0.5)], none, 10.0), [(1, ByLoad)]);
    assert_eq!(pick(&[load(0.0, 1.0, 0.0); 3], none, 10.0).len(), 3, "each is chosen at times");
    let recent = Load { since_scrape: 3, ..load(0.0, 0.0, 0.0) };
    assert_eq!(pick(&[recent, load(0.0, 2.0, 0.0)], none, 10.0), [(1, ByLoad)]);
    let finished = Load { since_scrape: -3, ..load(0.0, 4.0, 0.0) };
    assert_eq!(pick(&[finished, load(0.0, 2.0, 0.0)], none, 10.0), [(0, ByLoad)], "they have finished since");
    // own counts decide where one engine does not tell: it would look idle beside one that does
    let silent = Load { in_flight: 3, available: true, ..Load::default() };
    let told = Load { in_flight: 1, ..load(4.0, 9.0, 0.0) };
    assert_eq!(pick(&[silent, told], none, 10.0), [(1, ByLoad)]);
    let hot = Load { in_flight: 70, available: true, ..Load::default() };
    assert_eq!(pick(&[hot, told], on(1, 9), 10.0), [(1, ByLoad)], "uneven by own counts");
    // without metrics own counts decide; who is not available gets nothing
    let own = |in_flight, available| Load { in_flight, available, ..Load::default() };
    assert_eq!(pick(&[own(3, true), own(1, true)], none, 10.0), [(1, ByLoad)]);
    assert_eq!(pick(&[own(3, true), own(1, false)], on(0b10, 9), 10.0), [(0, ByLoad)]);
    assert_eq!(pick(&[own(3, true)], none, 0.0), [(0, ByLoad)]);
    assert_eq!(pick(&[own(0, false)], none, 10.0), []);
    assert_eq!(pick(&[], none, 10.0), []);
}
