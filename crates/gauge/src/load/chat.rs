//! Chat calls to a model server or an AI gateway (OpenAI's chat API): what is sent, and what the calls must keep to.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::payload;
use super::units;
use super::workload::{Body, Operation, Pick, Source};

/// Chat calls, in place of operations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chat {
    /// The model that calls name.
    pub model: String,
    /// Path of the API.
    #[serde(default = "default_path")]
    pub path: String,
    /// Header fields of each call, such as `Authorization`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Words of a prompt, without those of a shared prefix. Every prompt begins with a number of its own, so that no prefix cache knows it.
    #[serde(default = "default_prompt")]
    pub prompt: Words,
    /// `max_tokens` of a call.
    #[serde(default = "default_output")]
    pub output: Words,
    /// Some calls begin with the same words (a system prompt), in front of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<Shared>,
    /// Responses come as streams; if not, as a whole.
    #[serde(default = "yes")]
    pub stream: bool,
    /// A complete call within it counts as good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo: Option<Slo>,
}

/// A number, or a range of which each number is equally likely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Words {
    /// Always so many.
    Fixed(u32),
    /// From the first to the second, both included.
    Range(u32, u32),
}

impl Words {
    fn ends(self) -> (u32, u32) {
        match self {
            Words::Fixed(number) => (number, number),
            Words::Range(from, to) => (from, to),
        }
    }
}

impl std::str::FromStr for Words {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().map_err(|_| format!("`{text}` is not a number; write 200, or 100..400"));
        match text.split_once("..") {
            Some((from, to)) => Ok(Words::Range(number(from)?, number(to)?)),
            None => Ok(Words::Fixed(number(text)?)),
        }
    }
}

/// A prefix that calls share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    /// Share of the calls that begin with it, from 0 to 1.
    pub share: f64,
    /// Its words.
    pub words: u32,
}

/// What a call must keep to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slo {
    /// Longest time to the first token.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units::serde_duration::option")]
    pub ttft: Option<Duration>,
    /// Longest mean time between two tokens of the call.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units::serde_duration::option")]
    pub inter_token: Option<Duration>,
}

fn default_path() -> String {
    "/v1/chat/completions".to_owned()
}

/// 100 words.
pub fn default_prompt() -> Words {
    Words::Fixed(100)
}

/// 64 tokens.
pub fn default_output() -> Words {
    Words::Fixed(64)
}

fn yes() -> bool {
    true
}

/// Prompts that are written; each call sends one of them behind a number of its own.
const PROMPTS: u64 = 64;

/// Most words of a prompt: more than any model's context.
const MOST_WORDS: u32 = 1_000_000;

impl Chat {
    /// Calls of a model, with the defaults.
    pub fn of(model: &str) -> Self {
        Chat {
            model: model.to_owned(),
            path: default_path(),
            headers: BTreeMap::new(),
            prompt: default_prompt(),
            output: default_output(),
            shared: None,
            stream: true,
            slo: None,
        }
    }

    /// What is sent: one operation, or two where calls share a prefix.
    ///
    /// # Errors
    /// What is wrong, and what to write.
    pub fn operations(&self, seed: u64) -> Result<Vec<Operation>, String> {
        self.check()?;
        let (from, to) = self.prompt.ends();
        let mut random = Rng::with_seed(seed);
        // Evenly spread over the range, so that few calls already have its mean.
        let length =
            |number: u64| u64::from(from) + (u64::from(to - from) * number + (PROMPTS - 1) / 2) / (PROMPTS - 1);
        let prompts = (0..PROMPTS).map(|number| payload::words(&mut random, length(number) as usize)).collect();
        let mut plain = self.operation("chat", "", prompts);
        let Some(shared) = self.shared else { return Ok(vec![plain]) };
        let prefix = payload::words(&mut Rng::with_seed(seed ^ 0x70_72_65_66_69_78), shared.words as usize) + " ";
        let Some(Source::List { values, .. }) = plain.params.get("prompt") else { return Ok(vec![plain]) };
        let mut other = self.operation("chat with the shared prefix", &prefix, values.clone());
        (plain.weight, other.weight) = (1.0 - shared.share, shared.share);
        Ok(vec![plain, other])
    }

    fn operation(&self, id: &str, prefix: &str, prompts: Vec<String>) -> Operation {
        let usage =
            if self.stream { r#""stream":true,"stream_options":{"include_usage":true}"# } else { r#""stream":false"# };
        let text = format!(
            r#"{{"model":{},{usage},"max_tokens":{{output}},"messages":[{{"role":"user","content":"{prefix}{{number}} {{prompt}}"}}]}}"#,
            json!(self.model)
        );
        let (from, to) = self.output.ends();
        let mut headers = self.headers.clone();
        headers.insert("Content-Type".to_owned(), "application/json".to_owned());
        let params = BTreeMap::from([
            ("output".to_owned(), Source::Int { from: from.into(), to: to.into(), pick: Pick::Random }),
            ("number".to_owned(), Source::Counter(1)),
            ("prompt".to_owned(), Source::List { values: prompts, pick: Pick::Random }),
        ]);
        let body = Some(Body::Text(text));
        Operation { method: "POST".to_owned(), headers, params, body, ..Operation::get(id, &self.path) }
    }

    fn check(&self) -> Result<(), String> {
        for (name, words) in [("prompt", self.prompt), ("output", self.output)] {
            let (from, to) = words.ends();
            if from == 0 || from > to || to > MOST_WORDS {
                return Err(format!(
                    "`{name}` is {from} to {to}; write a number or a range between 1 and {MOST_WORDS}, the smaller first"
                ));
            }
        }
        if self.model.is_empty() || self.model.contains(['{', '}']) {
            return Err(format!("`{}` is not the name of a model", self.model));
        }
        if !self.stream && self.slo.is_some() {
            return Err("`slo` is about tokens that arrive one by one; leave it out, or `stream: false`".to_owned());
        }
        match self.shared {
            Some(shared) if !(0.0..=1.0).contains(&shared.share) => {
                Err(format!("`shared` has a share of {}; it is between 0 and 1", shared.share))
            }
            Some(shared) if shared.words == 0 || shared.words > MOST_WORDS => {
                Err(format!("`shared` has {} words; write a number between 1 and {MOST_WORDS}", shared.words))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
