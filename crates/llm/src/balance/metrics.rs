//! Metrics of model servers, in the Prometheus text format.

/// A model server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Engine {
    /// vLLM.
    Vllm,
    /// SGLang, started with `--enable-metrics`.
    Sglang,
    /// Text Generation Inference.
    Tgi,
    /// llama.cpp, started with `--metrics`.
    LlamaCpp,
    /// TensorRT-LLM.
    TrtLlm,
}

/// Names of the metrics that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricNames<'a> {
    /// Requests that wait.
    pub waiting: &'a str,
    /// Requests that run.
    pub running: &'a str,
    /// Share of the KV cache in use, 0 to 1; the first name that occurs counts.
    pub kv: [&'a str; 2],
    /// Counts of several series are added; otherwise the largest counts.
    pub add: bool,
}

impl Engine {
    /// The engine of a configured name.
    pub fn of_name(name: &str) -> Option<Engine> {
        Some(match name {
            "vllm" => Engine::Vllm,
            "sglang" => Engine::Sglang,
            "tgi" => Engine::Tgi,
            "llamacpp" => Engine::LlamaCpp,
            "trtllm" => Engine::TrtLlm,
            _ => return None,
        })
    }

    /// The path of its metrics.
    pub fn path(self) -> &'static str {
        match self {
            Engine::TrtLlm => "/prometheus/metrics",
            _ => "/metrics",
        }
    }

    /// The names that it uses.
    pub fn names(self) -> MetricNames<'static> {
        let names = |waiting, running, kv, add| MetricNames { waiting, running, kv, add };
        match self {
            Engine::Vllm => names(
                "vllm:num_requests_waiting",
                "vllm:num_requests_running",
                // the second one until 0.9
                ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"],
                true,
            ),
            Engine::Sglang => {
                names("sglang:num_queue_reqs", "sglang:num_running_reqs", ["sglang:token_usage", ""], false)
            }
            Engine::Tgi => names("tgi_queue_size", "tgi_batch_current_size", ["", ""], true),
            Engine::LlamaCpp => names(
                "llamacpp:requests_deferred",
                "llamacpp:requests_processing",
                ["llamacpp:kv_cache_usage_ratio", ""],
                true,
            ),
            Engine::TrtLlm => names(
                "trtllm_num_requests_waiting",
                "trtllm_num_requests_running",
                ["trtllm_kv_cache_utilization", ""],
                true,
            ),
        }
    }
}

/// What an engine says about itself.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EngineMetrics {
    /// Requests that wait.
    pub waiting: f64,
    /// Requests that run.
    pub running: f64,
    /// Share of the KV cache in use, 0 to 1.
    pub kv: Option<f64>,
    /// Tokens of a block of the KV cache.
    pub block_size: Option<u64>,
    /// Blocks of the KV cache.
    pub blocks: Option<u64>,
    /// Prefix cache: tokens or blocks found so far.
    pub prefix_hits: Option<f64>,
    /// Prefix cache: tokens or blocks looked for so far.
    pub prefix_queries: Option<f64>,
}

impl EngineMetrics {
    /// Reads a scrape; `None` if it does not say how many requests wait and run. Lines that are not understood are skipped.
    pub fn parse(text: &[u8], names: &MetricNames<'_>) -> Option<EngineMetrics> {
        let (mut waiting, mut running, mut kv) = (None, None, [None; 2]);
        let mut found = EngineMetrics::default();
        for line in text.split(|byte| *byte == b'\n') {
            let Some((name, labels, value)) = std::str::from_utf8(line).ok().and_then(sample) else { continue };
            let count = |slot: &mut Option<f64>| {
                *slot = Some(match *slot {
                    Some(before) if names.add => before + value,
                    Some(before) => before.max(value),
                    None => value,
                });
            };
            match name {
                _ if name == names.waiting => count(&mut waiting),
                _ if name == names.running => count(&mut running),
                _ if !name.is_empty() && names.kv.contains(&name) => {
                    let slot = &mut kv[usize::from(name != names.kv[0])];
                    *slot = Some(slot.map_or(value, |before: f64| before.max(value)));
                }
                "vllm:cache_config_info" => {
                    found.block_size = label(labels, "block_size").and_then(|text| text.parse().ok());
                    found.blocks = label(labels, "num_gpu_blocks").and_then(|text| text.parse().ok());
                }
                "vllm:prefix_cache_hits_total" => *found.prefix_hits.get_or_insert(0.0) += value,
                "vllm:prefix_cache_queries_total" => *found.prefix_queries.get_or_insert(0.0) += value,
                _ => {}
            }
        }
        found.waiting = waiting?;
        found.running = running?;
        found.kv = kv[0].or(kv[1]).map(|kv| kv.min(1.0));
        Some(found)
    }
}

/// Name, labels and value of a line. Values that are negative or not finite are not read.
fn sample(line: &str) -> Option<(&str, &str, f64)> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let name_end = line.find(|c: char| c == '{' || c.is_ascii_whitespace())?;
    let (name, rest) = line.split_at(name_end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => rest.split_at(labels_end(rest)?),
        None => ("", rest),
    };
    let value = rest.trim_start_matches('}').split_ascii_whitespace().next()?.parse::<f64>().ok()?;
    (value.is_finite() && value >= 0.0).then_some((name, labels, value))
}

/// The index of the closing brace, outside quotes.
fn labels_end(labels: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    labels.bytes().position(|byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'}' => return !quoted,
            _ => {}
        }
        false
    })
}

fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    labels.split(',').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (key.trim() == name).then(|| value.trim().trim_matches('"'))
    })
}
