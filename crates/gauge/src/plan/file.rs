//! What an evaluation file says. Unknown keys are refused; what is said is checked against the API in the files beside this one.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::{self, MapAccess, SeqAccess, value::MapAccessDeserializer, value::SeqAccessDeserializer};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

use super::size;
use crate::load::units;
use crate::load::workload::{Arrivals, Capture, Closed, Open, Order, Phase, Source, Statuses, Text};

/// A whole evaluation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) name: Spanned<String>,
    #[serde(default)]
    pub(crate) description: Option<String>,
    pub(crate) api: Spanned<PathBuf>,
    pub(crate) gateways: Vec<Spanned<GatewayFile>>,
    #[serde(default = "yes")]
    pub(crate) baseline: bool,
    #[serde(default)]
    pub(crate) twin: Option<Spanned<TwinFile>>,
    #[serde(default)]
    pub(crate) build: Vec<BuildFile>,
    #[serde(default)]
    pub(crate) backend: OneOrMore<BackendFile>,
    #[serde(default)]
    pub(crate) hardware: HardwareFile,
    #[serde(default)]
    pub(crate) deploy: DeployFile,
    pub(crate) workloads: Vec<Spanned<WorkloadFile>>,
    #[serde(default)]
    pub(crate) attest: AttestFile,
    #[serde(default)]
    pub(crate) repeats: Option<Spanned<u32>>,
    #[serde(default, with = "units::serde_duration::option")]
    pub(crate) warmup: Option<Duration>,
    #[serde(default)]
    pub(crate) slo: Option<SloFile>,
    #[serde(default)]
    pub(crate) reference: Option<Spanned<String>>,
    #[serde(default)]
    pub(crate) weights: BTreeMap<String, f64>,
}

fn yes() -> bool {
    true
}

/// A gateway: its name, or a mapping for a variant of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GatewayMap {
    /// What it is called here (default: the gateway's name).
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// The adapter.
    pub(crate) gateway: String,
    /// Files that replace or join what the adapter writes, by their path there. In them `{listen}`, `{port}`, `{address}`, `{cpus}` and
    /// the addresses of upstreams are filled in.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, PathBuf>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// What must be seen of this variant.
    #[serde(default)]
    pub(crate) treatment: Option<TreatmentFile>,
}

#[derive(Debug)]
pub(crate) struct GatewayFile(pub(crate) GatewayMap);

impl<'de> Deserialize<'de> for GatewayFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_or_map(deserializer, "the name of a gateway, or {name: NAME, gateway: GATEWAY, files: {...}}", |gateway| {
            let gateway = gateway.to_owned();
            Ok(GatewayMap { name: None, gateway, files: BTreeMap::new(), env: BTreeMap::new(), treatment: None })
        })
        .map(GatewayFile)
    }
}

/// Which system is entered twice.
#[derive(Debug)]
pub(crate) enum TwinFile {
    Off,
    Of(String),
}

impl<'de> Deserialize<'de> for TwinFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = TwinFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of the system that is entered twice, or false")
            }

            fn visit_bool<E: de::Error>(self, on: bool) -> Result<TwinFile, E> {
                if on {
                    Err(E::custom("name the system that is entered twice; without `twin` it is the first gateway"))
                } else {
                    Ok(TwinFile::Off)
                }
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<TwinFile, E> {
                Ok(TwinFile::Of(name.to_owned()))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

/// A program behind the gateways.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackendFile {
    /// For logs (default: the program's name).
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// Program and arguments.
    pub(crate) command: Spanned<Vec<String>>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Working directory (default: the evaluation's).
    #[serde(default)]
    pub(crate) cwd: Option<PathBuf>,
    /// Made once, before anything is started.
    #[serde(default)]
    pub(crate) build: Option<BuildFile>,
    /// Free ports by name, each with the origin in the API description that it stands for.
    #[serde(default)]
    pub(crate) ports: BTreeMap<String, Spanned<String>>,
    /// URLs that must answer 2xx before it is used.
    #[serde(default)]
    pub(crate) ready: OneOrMore<String>,
    /// When it is started anew.
    #[serde(default)]
    pub(crate) restart: Restart,
    /// Run before each turn of a system, when it is not started anew.
    #[serde(default)]
    pub(crate) reset: Option<Vec<String>>,
}

/// A command that makes a program.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BuildFile {
    pub(crate) command: Spanned<Vec<String>>,
    #[serde(default)]
    pub(crate) cwd: Option<PathBuf>,
}

/// When the backend is started anew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    /// For each system in each round, with an empty `{data}`.
    #[default]
    Turn,
    /// For each round.
    Round,
    /// Once.
    Never,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HardwareFile {
    pub(crate) cpus: Option<Spanned<u32>>,
    #[serde(deserialize_with = "size::option")]
    pub(crate) memory: Option<u64>,
    pub(crate) pin: Option<Spanned<PinFile>>,
}

/// Processors by part.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PinFile {
    pub(crate) system: Vec<u32>,
    pub(crate) upstream: Vec<u32>,
    pub(crate) generator: Vec<u32>,
}

/// Where systems run.
#[derive(Debug, Default)]
pub(crate) enum DeployFile {
    #[default]
    Local,
    Ssh(SshFile),
}

impl<'de> Deserialize<'de> for DeployFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Map {
            ssh: SshFile,
        }
        let local = |name: &str| match name {
            "local" => Ok(None),
            other => Err(format!("`{other}` is no place to run; write local, or {{ssh: {{host: HOST}}}}")),
        };
        struct Wrapper(Option<Map>);
        impl<'de> Deserialize<'de> for Wrapper {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Map::deserialize(deserializer).map(|map| Wrapper(Some(map)))
            }
        }
        let found = text_or_map(deserializer, "local, or {ssh: {host: HOST}}", |name| local(name).map(Wrapper))?;
        Ok(found.0.map_or(DeployFile::Local, |map| DeployFile::Ssh(map.ssh)))
    }
}

/// A machine that is reached over OpenSSH.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SshFile {
    /// Host name, address, or an alias of `~/.ssh/config`.
    pub host: String,
    /// Port, when it is not what the configuration of ssh says.
    #[serde(default)]
    pub port: Option<u16>,
    /// User, likewise.
    #[serde(default)]
    pub user: Option<String>,
    /// File with the private key, likewise.
    #[serde(default)]
    pub identity: Option<PathBuf>,
    /// Further options as after `-o`: `StrictHostKeyChecking=accept-new`.
    #[serde(default)]
    pub options: Vec<String>,
    /// Address at which the generator reaches the machine. Without it requests go through a tunnel of ssh, whose cost is then in every
    /// figure, that of `direct` included.
    #[serde(default)]
    pub address: Option<std::net::IpAddr>,
    /// Directory there (default `/tmp/gauge-` and a number); emptied at the end.
    #[serde(default)]
    pub directory: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkloadFile {
    pub(crate) name: Spanned<String>,
    #[serde(default)]
    pub(crate) weight: Option<f64>,
    pub(crate) operations: Vec<Spanned<OperationFile>>,
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

fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    text(deserializer).and_then(|text| units::rate(&text).map(Some).map_err(de::Error::custom))
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

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TreatmentFile {
    pub(crate) name: String,
    pub(crate) header: String,
    #[serde(default)]
    pub(crate) value: Option<String>,
    #[serde(default, deserialize_with = "share")]
    pub(crate) at_least: Option<f64>,
    #[serde(default, deserialize_with = "share")]
    pub(crate) at_most: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AttestFile {
    /// Headers of answers that must be those of `direct` (default: content-type).
    pub(crate) headers: Option<Vec<String>>,
    /// JSON pointers of values that differ by nature, by operation; `*` for all of them.
    pub(crate) differs: BTreeMap<String, Spanned<Vec<String>>>,
    /// Request headers that a gateway must add or pass on, each with the JSON pointer at which the operation's answer shows it.
    pub(crate) forwarded: Option<Spanned<ForwardedFile>>,
    /// Whether an unknown path must be refused (default yes).
    pub(crate) unknown_path: Option<bool>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForwardedFile {
    /// The operation that echoes.
    pub(crate) operation: String,
    /// Header to JSON pointer.
    pub(crate) headers: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SloFile {
    #[serde(with = "units::serde_duration::option")]
    pub(crate) p50: Option<Duration>,
    #[serde(with = "units::serde_duration::option")]
    pub(crate) p95: Option<Duration>,
    #[serde(with = "units::serde_duration::option")]
    pub(crate) p99: Option<Duration>,
    #[serde(deserialize_with = "share")]
    pub(crate) errors: Option<f64>,
}

/// `0.1%` or `0.001`.
fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let text = text(deserializer)?;
    let wrong = || de::Error::custom(format!("`{text}` is no share; write 0.1% or 0.001"));
    let share = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map_err(|_| wrong())? / 100.0,
        None => text.trim().parse().map_err(|_| wrong())?,
    };
    if (0.0..=1.0).contains(&share) { Ok(Some(share)) } else { Err(wrong()) }
}

/// A number or a text, as text.
pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Text::deserialize(deserializer).map(|text| text.0)
}

/// A text that stands for something, or the thing itself as a mapping. (Serde's untagged enums would lose the place of a mistake.)
fn text_or_map<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
    expected: &'static str,
    of_text: impl Fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    struct Visitor<T, F>(&'static str, F, PhantomData<T>);

    impl<'de, T: Deserialize<'de>, F: Fn(&str) -> Result<T, String>> de::Visitor<'de> for Visitor<T, F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            (self.1)(text).map_err(E::custom)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }

    deserializer.deserialize_any(Visitor(expected, of_text, PhantomData))
}

/// A thing, or a list of them.
#[derive(Debug)]
pub(crate) struct OneOrMore<T>(pub(crate) Vec<T>);

impl<T> Default for OneOrMore<T> {
    fn default() -> Self {
        OneOrMore(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
            type Value = OneOrMore<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one, or a list")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                let one = de::value::StrDeserializer::new(text);
                T::deserialize(one).map(|one| OneOrMore(vec![one]))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|one| OneOrMore(vec![one]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(OneOrMore)
            }
        }

        deserializer.deserialize_any(Visitor(PhantomData))
    }
}
