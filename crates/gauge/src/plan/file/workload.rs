//! What is requested of the systems.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};
use serde_saphyr::Spanned;

use super::super::fill::DEFAULT_EVENT;
use super::super::mode::Mode;
use super::super::size;
use super::requirement::{SloFile, TreatmentFile};
use super::value::{rate, text_or_map};
use crate::load::chat::{self, Shared, Words};
use crate::load::units;
use crate::load::workload::{Arrivals, Capture, Closed, Open, Order, Phase, Source, Statuses};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkloadFile {
    pub(crate) name: Spanned<String>,
    #[serde(default)]
    pub(crate) weight: Option<f64>,
    #[serde(default)]
    pub(crate) operations: Vec<Spanned<OperationFile>>,
    /// Chat calls, in place of operations.
    #[serde(default)]
    pub(crate) llm: Option<Spanned<ChatFile>>,
    #[serde(default)]
    pub(crate) setup: Vec<Spanned<OperationFile>>,
    #[serde(default)]
    pub(crate) order: Order,
    pub(crate) load: Spanned<LoadFile>,
    #[serde(default)]
    pub(crate) warmup: Option<WarmupFile>,
    #[serde(default, with = "units::serde_duration::option")]
    pub(crate) timeout: Option<Duration>,
    #[serde(default)]
    pub(crate) generator: Option<Spanned<GeneratorFile>>,
    #[serde(default)]
    pub(crate) threads: Option<u32>,
    #[serde(default)]
    pub(crate) treatment: Option<TreatmentFile>,
}

/// Load that does not count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum WarmupFile {
    For(Duration),
    Requests(u64),
}

impl<'de> Deserialize<'de> for WarmupFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Map {
            iterations: u64,
        }
        struct Either(WarmupFile);
        impl<'de> Deserialize<'de> for Either {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Map::deserialize(deserializer).map(|map| Either(WarmupFile::Requests(map.iterations)))
            }
        }
        let text = |text: &str| units::duration(text).map(|duration| Either(WarmupFile::For(duration)));
        Ok(text_or_map(deserializer, "a time such as 2s, or {iterations: 20}", text)?.0)
    }
}

/// One kind of request: an operation of the API by its id.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OperationFile {
    /// Operation id of the API.
    pub(crate) id: Spanned<String>,
    /// Its name in reports (default: the id).
    #[serde(default)]
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) weight: Option<f64>,
    #[serde(default)]
    pub(crate) params: BTreeMap<String, Source>,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) body: Option<Spanned<BodyFile>>,
    #[serde(default)]
    pub(crate) expect: Vec<Statuses>,
    #[serde(default)]
    pub(crate) capture: Vec<Capture>,
}

/// Chat calls: an operation of the API whose body is made. What is left out is as for `gauge load --llm`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChatFile {
    /// Operation id of the API.
    pub(crate) id: Spanned<String>,
    pub(crate) model: String,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) prompt: Option<Words>,
    #[serde(default)]
    pub(crate) output: Option<Words>,
    #[serde(default)]
    pub(crate) shared: Option<Shared>,
    #[serde(default)]
    pub(crate) stream: Option<bool>,
    #[serde(default)]
    pub(crate) slo: Option<chat::Slo>,
}

/// A request's body.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BodyFile {
    /// `{name}` is replaced.
    Text(String),
    /// Written as JSON; `{name}` is replaced inside of its texts.
    Json(serde_json::Value),
    /// Sent as it is.
    File(PathBuf),
    /// Bytes in base64.
    Base64(String),
    /// A text with large parts that are made, not stored.
    Fill(FillFile),
    /// Events of this size, all different: `default`, `4k`, `8k`, `32k`, `64k`, or any other.
    Event(EventFile),
}

/// The size of events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventFile(pub(crate) usize);

impl<'de> Deserialize<'de> for EventFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = super::value::text(deserializer)?;
        let bytes = match text.strip_suffix('k').map(str::parse::<usize>) {
            _ if text == "default" => Ok(DEFAULT_EVENT),
            Some(Ok(kib)) => Ok(kib * 1024),
            _ => text.parse().map_err(|_| format!("`{text}` is not an event size; expected default, 4k, or bytes")),
        };
        bytes.map(EventFile).map_err(de::Error::custom)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FillFile {
    /// The text, with `{name}` where a part goes.
    pub(crate) text: String,
    /// The parts.
    pub(crate) with: BTreeMap<String, PartFile>,
}

/// Bytes that are made: the same ones every time.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PartFile {
    /// So many bytes that begin and end as a JPEG image does, in base64.
    Jpeg(size::Size),
    /// So many bytes in base64.
    Random(size::Size),
    /// So many letters.
    Letters(size::Size),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoadFile {
    Closed(Closed),
    Open(Open),
    Phases(Vec<Phase>),
    Search(SearchFile),
    /// The phases of a mode.
    Mode(Mode),
}

/// The highest rate that meets the SLO.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchFile {
    /// Where to begin (default 100/s).
    #[serde(default, deserialize_with = "rate")]
    pub(crate) from: Option<f64>,
    /// Where to end (default 200k/s).
    #[serde(default, deserialize_with = "rate")]
    pub(crate) to: Option<f64>,
    /// Of each rate (default 5s).
    #[serde(default, with = "units::serde_duration::option")]
    pub(crate) duration: Option<Duration>,
    #[serde(default)]
    pub(crate) arrivals: Arrivals,
    #[serde(default)]
    pub(crate) connections: Option<u32>,
    /// When the search has come close enough: 0.05 is within 5 % (the default).
    #[serde(default)]
    pub(crate) precision: Option<f64>,
    /// Shares of the highest rate at which the curve is measured (default 0.25, 0.5, 0.75, 0.9).
    #[serde(default)]
    pub(crate) curve: Option<Vec<f64>>,
    /// Rounds in which it is done (default 3).
    #[serde(default)]
    pub(crate) rounds: Option<u32>,
    /// Instead of the evaluation's.
    #[serde(default)]
    pub(crate) slo: Option<SloFile>,
}

/// Who sends.
#[derive(Debug)]
pub(crate) struct GeneratorFile {
    pub(crate) name: String,
    pub(crate) script: Option<PathBuf>,
}

impl<'de> Deserialize<'de> for GeneratorFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either(GeneratorFile);
        impl<'de> Deserialize<'de> for Either {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let map = BTreeMap::<String, PathBuf>::deserialize(deserializer)?;
                let mut entries = map.into_iter();
                match (entries.next(), entries.next()) {
                    (Some((name, script)), None) => Ok(Either(GeneratorFile { name, script: Some(script) })),
                    _ => Err(de::Error::custom("name one generator with its script: {k6: script.js}")),
                }
            }
        }
        let expected = "gauge, wrk, hey, k6, jmeter, or one with a script of your own: {jmeter: plan.jmx}";
        let text = |name: &str| Ok(Either(GeneratorFile { name: name.to_owned(), script: None }));
        Ok(text_or_map(deserializer, expected, text)?.0)
    }
}
