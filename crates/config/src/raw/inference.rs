//! Balancing between replicas of an inference engine.

use std::num::NonZeroU32;
use std::time::Duration;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::shape::Spanned;
use super::units::{Share, Time};

/// How replicas of an inference engine share requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping")]
pub struct Inference {
    /// What serves the model; its metrics are scraped.
    pub engine: InferenceEngine,
    /// Path of its metrics; absent: that of the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Spanned<String>>,
    /// Names of metrics in place of the engine's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<EngineMetricNames>,
    /// Time between two scrapes of one replica. A scrape that is three times as old does not count.
    pub scrape: Spanned<Time>,
    /// Share of a prompt from which on the replica that has seen its start gets the request.
    pub prefix: Share,
    /// Requests waiting in a replica above which others are preferred.
    pub waiting: u32,
    /// Share of the KV cache in use above which other replicas are preferred.
    pub kv: Share,
    /// Prefixes do not decide while a replica has so many more requests than another, and 1.5 times as many.
    pub max_imbalance: NonZeroU32,
    /// Consumers do not share prefixes, so that the time to the first token tells nobody of the prompts of others.
    pub isolate: bool,
}

impl Default for Inference {
    fn default() -> Self {
        Inference {
            engine: InferenceEngine::default(),
            path: None,
            metrics: None,
            scrape: Time(Duration::from_secs(1)).into(),
            prefix: Share { percent: 30.0 },
            waiting: 5,
            kv: Share { percent: 95.0 },
            max_imbalance: NonZeroU32::new(64).unwrap_or(NonZeroU32::MIN),
            isolate: false,
        }
    }
}

/// A model server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InferenceEngine {
    /// vLLM.
    #[default]
    Vllm,
    /// SGLang, started with `--enable-metrics`.
    Sglang,
    /// Text Generation Inference.
    Tgi,
    /// llama.cpp, started with `--metrics`.
    Llamacpp,
    /// TensorRT-LLM.
    Trtllm,
}

/// Names of metrics of a model server.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping of `waiting`, `running` and `kv`")]
pub struct EngineMetricNames {
    /// Requests that wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Spanned<String>>,
    /// Requests that run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Spanned<String>>,
    /// Share of the KV cache in use, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv: Option<Spanned<String>>,
}

/// The word alone means its defaults, which the derived schema cannot know.
pub(super) fn allow_word(schema: &mut Schema) {
    let word = json!({"const": "inference", "description": "As the mapping, with its defaults."});
    if let Some(Value::Array(forms)) = schema.get_mut("oneOf") {
        forms.push(word);
    }
}
