//! Balancing between replicas of an inference engine.

use std::sync::Arc;
use std::time::Duration;

use llm::balance::{Engine, Settings};

use super::Resolver;
use crate::raw;
use crate::raw::InferenceEngine;
use crate::raw::shape::Spanned;
use crate::raw::target::check_path;
use crate::{EngineNames, Inference};

/// Scraping more often costs the engines more than it tells, and what is older than minutes tells nothing.
const SCRAPE: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(60);

impl Resolver<'_> {
    pub(super) fn inference(&mut self, raw: &raw::Inference, upstream: &raw::Upstream) -> Inference {
        let engine = match raw.engine {
            InferenceEngine::Vllm => Engine::Vllm,
            InferenceEngine::Sglang => Engine::Sglang,
            InferenceEngine::Tgi => Engine::Tgi,
            InferenceEngine::Llamacpp => Engine::LlamaCpp,
            InferenceEngine::Trtllm => Engine::TrtLlm,
        };
        if let Some(path) = &raw.path {
            self.check(path.origin, check_path(path));
        }
        if !SCRAPE.contains(&raw.scrape.0) {
            self.problem(raw.scrape.origin, "`scrape` is from `100ms` to `60s`");
        }
        if upstream.protocol != raw::UpstreamProtocol::Http1 {
            let message = "`balance: inference` needs `protocol: http1`: metrics of engines are read over HTTP/1.1";
            self.problem(upstream.targets.origin, message);
        }
        let names = raw.metrics.clone().unwrap_or_default();
        Inference {
            engine,
            path: raw.path.as_ref().map_or(engine.path(), |path| path.as_str()).into(),
            names: EngineNames {
                waiting: self.metric_name(names.waiting),
                running: self.metric_name(names.running),
                kv: self.metric_name(names.kv),
            },
            scrape: raw.scrape.0,
            isolate: raw.isolate,
            settings: Settings {
                prefix: raw.prefix.fraction(),
                waiting: f64::from(raw.waiting),
                kv: raw.kv.fraction(),
                uneven_by: f64::from(raw.max_imbalance.get()),
                ..Settings::default()
            },
        }
    }

    fn metric_name(&mut self, name: Option<Spanned<String>>) -> Option<Arc<str>> {
        let name = name?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':');
        if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) || !name.bytes().all(is_name) {
            self.problem(name.origin, format!("`{}` cannot be the name of a metric", name.value));
        }
        Some(name.as_str().into())
    }
}
