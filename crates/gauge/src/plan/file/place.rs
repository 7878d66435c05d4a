//! Where systems run, and what they are given.

use std::path::PathBuf;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use super::super::hosts::Host;
use super::super::size;
use super::value::text_or_map;

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
    Hosts(Vec<Host>),
    Terraform(TerraformFile),
}

/// Machines that are made for the evaluation.
#[derive(Debug)]
pub(crate) struct TerraformFile {
    pub(crate) terraform: PathBuf,
    pub(crate) program: TerraformProgram,
    pub(crate) vars: Map<String, Value>,
    pub(crate) keep: bool,
}

/// The program that makes machines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TerraformProgram {
    /// OpenTofu, else Terraform.
    #[default]
    Auto,
    /// OpenTofu.
    Tofu,
    /// Terraform.
    Terraform,
}

const PLACES: &str = "local, {ssh: {host: HOST}}, {hosts: [..]} or {terraform: FOLDER}";

/// `deploy` as a mapping. Which of the keys go together is checked behind it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeployMap {
    ssh: Option<SshFile>,
    hosts: Option<Vec<Host>>,
    terraform: Option<PathBuf>,
    program: Option<TerraformProgram>,
    vars: Option<Map<String, Value>>,
    keep: Option<bool>,
}

impl DeployMap {
    fn place(self) -> Result<DeployFile, String> {
        let of_terraform = self.program.is_some() || self.vars.is_some() || self.keep.is_some();
        match (self.ssh, self.hosts, self.terraform) {
            (None, None, Some(terraform)) => Ok(DeployFile::Terraform(TerraformFile {
                terraform,
                program: self.program.unwrap_or_default(),
                vars: self.vars.unwrap_or_default(),
                keep: self.keep.unwrap_or_default(),
            })),
            _ if of_terraform => Err("`program`, `vars` and `keep` go with `terraform`".to_owned()),
            (Some(ssh), None, None) => Ok(DeployFile::Ssh(ssh)),
            (None, Some(hosts), None) => Ok(DeployFile::Hosts(hosts)),
            _ => Err(format!("one place to run is needed: {PLACES}")),
        }
    }
}

impl<'de> Deserialize<'de> for DeployFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let local = |name: &str| match name {
            "local" => Ok(Wrapper(None)),
            other => Err(format!("`{other}` is not a place to run; write {PLACES}")),
        };
        struct Wrapper(Option<DeployMap>);
        impl<'de> Deserialize<'de> for Wrapper {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                DeployMap::deserialize(deserializer).map(|map| Wrapper(Some(map)))
            }
        }
        let found = text_or_map(deserializer, PLACES, local)?;
        found.0.map_or(Ok(DeployFile::Local), |map| map.place().map_err(D::Error::custom))
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
    /// Generators are other machines: this program itself reaches the systems through a tunnel of ssh, also at `address`.
    #[serde(skip)]
    pub tunnel: bool,
}
