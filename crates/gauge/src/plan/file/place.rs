//! Where systems run, and what they are given.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

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
            other => Err(format!("`{other}` is not a place to run; write local, or {{ssh: {{host: HOST}}}}")),
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
