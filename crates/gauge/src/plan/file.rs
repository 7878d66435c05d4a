//! The format of an evaluation file. Unknown keys are refused; values are checked against the API in the files beside this one.

mod place;
mod requirement;
mod system;
mod value;
mod workload;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_saphyr::Spanned;

use crate::load::units;
use crate::profile::Profile;
use crate::results::Price;
pub(crate) use place::{DeployFile, HardwareFile};
pub use place::{SshFile, TerraformProgram};
pub(crate) use requirement::{ConformanceFile, SloFile, TreatmentFile};
pub use system::Restart;
pub(crate) use system::{BuildFile, ControlFile, GatewayFile, GrpcFile, ProgramFile, StepFile};
pub(crate) use value::{OneOrMore, share_of, text};
pub(crate) use workload::{
    BodyFile, ChatFile, EventFile, FillFile, LoadFile, OperationFile, PartFile, SearchFile, WarmupFile, WorkloadFile,
};

/// In which order workloads run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WorkloadOrder {
    /// Another one in each round, so that none always comes first.
    #[default]
    Varied,
    /// As written: they build on each other.
    Fixed,
}

/// A whole evaluation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) name: Spanned<String>,
    #[serde(default)]
    pub(crate) description: Option<String>,
    pub(crate) api: Spanned<PathBuf>,
    /// The folder that relative paths count from, itself relative to the file (default: the file's own).
    #[serde(default)]
    pub(crate) folder: Option<Spanned<PathBuf>>,
    #[serde(default)]
    pub(crate) gateways: Vec<Spanned<GatewayFile>>,
    /// Services, where those are compared instead of gateways.
    #[serde(default)]
    pub(crate) systems: Vec<Spanned<ProgramFile>>,
    #[serde(default)]
    pub(crate) before_each: Vec<Spanned<StepFile>>,
    #[serde(default, deserialize_with = "crate::profile::file::profile")]
    pub(crate) profile: Profile,
    /// Default: where there are gateways.
    #[serde(default)]
    pub(crate) baseline: Option<Spanned<bool>>,
    #[serde(default)]
    #[serde(alias = "twin")]
    pub(crate) control: Option<Spanned<ControlFile>>,
    #[serde(default)]
    pub(crate) workload_order: WorkloadOrder,
    #[serde(default)]
    pub(crate) build: Vec<BuildFile>,
    #[serde(default)]
    pub(crate) backend: OneOrMore<ProgramFile>,
    #[serde(default)]
    pub(crate) hardware: HardwareFile,
    #[serde(default)]
    pub(crate) deploy: DeployFile,
    pub(crate) workloads: Vec<Spanned<WorkloadFile>>,
    /// Evaluations of earlier versions say `attest`.
    #[serde(default, alias = "attest")]
    pub(crate) conformance: ConformanceFile,
    #[serde(default)]
    pub(crate) repeats: Option<Spanned<u32>>,
    /// Of the events that are made as bodies.
    #[serde(default)]
    pub(crate) seed: Option<u64>,
    #[serde(default, with = "units::serde_duration::option")]
    pub(crate) warmup: Option<Duration>,
    #[serde(default)]
    pub(crate) slo: Option<SloFile>,
    #[serde(default)]
    pub(crate) fail: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    pub(crate) reference: Option<Spanned<String>>,
    #[serde(default)]
    pub(crate) price: Option<Spanned<Price>>,
    #[serde(default)]
    pub(crate) weights: BTreeMap<String, f64>,
}
