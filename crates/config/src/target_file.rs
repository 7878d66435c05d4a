//! Files that list the targets of an upstream: read with the configuration, and again whenever they change.
//!
//! A file is data that other programs write. Variables of the environment are not replaced in it: whoever writes targets need not be trusted with
//! what the environment holds.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::problem::{Origin, Problem, Problems};
use crate::raw;
use crate::raw::shape::Spanned;
use crate::resolve::targets::{Rules, resolve_targets};
use crate::{Balance, MAX_TARGETS, Target, TargetAddress, Upstream, yaml};

/// More than `MAX_TARGETS` of the longest usual URLs, and far below what hurts.
const MAX_BYTES: u64 = 8 << 20;

impl Upstream {
    /// Whether it has no targets, and no source of any.
    pub fn has_no_backend(&self) -> bool {
        self.targets.is_empty() && self.targets_file.is_none()
    }

    /// What names its targets besides the configuration: `file:PATH`, `srv:NAME`, `kubernetes:NAMESPACE/SERVICE:PORT`, `consul:NAME`.
    pub fn sources(&self) -> Vec<String> {
        let file = self.targets_file.iter().map(|path| format!("file:{}", path.display()));
        let services = self.targets.iter().filter_map(|target| match &target.address {
            TargetAddress::Service(name) => Some(format!("srv:{name}")),
            TargetAddress::Registry(registry) => Some(registry.label()),
            _ => None,
        });
        file.chain(services).collect()
    }

    /// The targets of the file that names them, by the other rules of this upstream.
    ///
    /// # Errors
    /// Everything that is wrong with the file.
    pub fn targets_of(&self, file: &TargetFile) -> Result<Vec<Target>, Problems> {
        let is_inference = matches!(self.balance, Balance::Inference(_));
        file.targets(&Rules { tls: self.tls.as_deref(), is_inference, is_managed: false })
    }
}

/// A file of targets as it was read.
#[derive(Debug)]
pub struct TargetFile {
    path: PathBuf,
    text: io::Result<String>,
}

impl TargetFile {
    /// Reads a file; it may be on a slow disk.
    pub fn read(path: &Path) -> Self {
        TargetFile { path: path.to_owned(), text: read(path) }
    }

    /// Its targets, all or none.
    pub(crate) fn targets(&self, rules: &Rules<'_>) -> Result<Vec<Target>, Problems> {
        let source = self.path.display().to_string();
        match &self.text {
            Ok(text) => parse(text, rules).map_err(|problems| Problems::in_file(&source, text, problems)),
            Err(error) => {
                let message = format!(
                    "cannot read the file of targets: {error}; create it (`[]` for no targets), or correct `targets.file` of the upstream"
                );
                Err(Problems::in_file(&source, "", vec![Problem::new(Origin::Nowhere, message)]))
            }
        }
    }
}

fn parse(text: &str, rules: &Rules<'_>) -> Result<Vec<Target>, Vec<Problem>> {
    // Most often a file that is being written.
    let is_blank = |line: &str| line.trim_start().is_empty() || line.trim_start().starts_with('#');
    if text.lines().all(is_blank) {
        let message = "the file of targets is empty; write a list of URLs, or `[]` for an upstream without targets";
        return Err(vec![Problem::new(Origin::File { line: 1, column: 1 }, message)]);
    }
    let list: Vec<Spanned<raw::Target>> = yaml::parse(text, &|_| None)?;
    resolve_targets(&list, rules)
}

/// The text of a regular file; reading anything else might never end.
fn read(path: &Path) -> io::Result<String> {
    let other = |message: String| io::Error::new(io::ErrorKind::InvalidData, message);
    // Looked at before it is opened: opening a FIFO waits for a writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(other("it is not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(other(format!("it has more than {} MiB; {MAX_TARGETS} targets need less", MAX_BYTES >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| other("it is not UTF-8 text".to_owned()))
}

#[cfg(test)]
mod tests;
