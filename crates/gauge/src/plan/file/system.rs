//! What is compared, and what stands behind it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer, de};
use serde_saphyr::Spanned;

use super::requirement::TreatmentFile;
use super::value::{OneOrMore, some_text, text_or_map};

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

/// Which gateways have an A/A control.
#[derive(Debug)]
pub(crate) enum ControlFile {
    Off,
    All,
    Of(String),
}

impl<'de> Deserialize<'de> for ControlFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = ControlFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of the gateway that has an A/A control, `all`, or false")
            }

            fn visit_bool<E: de::Error>(self, on: bool) -> Result<ControlFile, E> {
                if on {
                    Err(E::custom(
                        "name the gateway that has an A/A control, or write `all`; without `control` it is the first gateway",
                    ))
                } else {
                    Ok(ControlFile::Off)
                }
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<ControlFile, E> {
                Ok(if name == "all" { ControlFile::All } else { ControlFile::Of(name.to_owned()) })
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

/// A program that is started: a backend, or a service under test.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProgramFile {
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
    /// What shows that it can be used: URLs that get 2xx, or `tcp://` and an address that accepts connections.
    #[serde(default)]
    pub(crate) ready: OneOrMore<String>,
    /// Of a backend: when it is started anew.
    #[serde(default)]
    pub(crate) restart: Option<Restart>,
    /// Of a backend: run before the trials of each system in each round, when it is not started anew.
    #[serde(default)]
    pub(crate) reset: Option<Vec<String>>,
    /// Of a backend: URLs that say how many requests and bytes of bodies have reached it.
    #[serde(default)]
    pub(crate) counts: OneOrMore<String>,
    /// Of a service: what must be seen of it.
    #[serde(default)]
    pub(crate) treatment: Option<TreatmentFile>,
    /// Of a service: the language that it is written in, for the report.
    #[serde(default)]
    pub(crate) language: Option<String>,
    /// Of a service: it is called over gRPC.
    #[serde(default)]
    pub(crate) grpc: Option<Spanned<GrpcFile>>,
}

/// How a service is called over gRPC.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrpcFile {
    /// The file that describes the methods (default: the service's reflection).
    #[serde(default)]
    pub(crate) proto: Option<PathBuf>,
    /// `package.Service/Method` by the id of the operation that it does.
    pub(crate) methods: BTreeMap<String, String>,
    /// Calls that share a connection (default 16).
    #[serde(default)]
    pub(crate) streams: Option<u32>,
    /// Messages of a call whose method takes a stream (default 1).
    #[serde(default)]
    pub(crate) messages: Option<u32>,
    /// Fewer messages of a method that returns a stream are an error (default 0).
    #[serde(default)]
    pub(crate) responses: Option<u32>,
}

/// A step before each trial: either `run` or `send`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepFile {
    #[serde(default)]
    pub(crate) run: Option<Vec<String>>,
    /// What `run` must print.
    #[serde(default, deserialize_with = "some_text")]
    pub(crate) prints: Option<String>,
    /// Where `run` runs (default: the evaluation's folder).
    #[serde(default)]
    pub(crate) cwd: Option<PathBuf>,
    /// Id of an operation.
    #[serde(default)]
    pub(crate) send: Option<String>,
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
    #[serde(alias = "turn")]
    System,
    /// For each round.
    Round,
    /// Once.
    Never,
}
