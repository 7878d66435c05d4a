//! From a file, or from the environment alone, to a checked configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::problem::Problems;
use super::yaml::{self, Environment};
use super::{Config, Mode, env, raw, resolve};

/// A configuration in both of its forms.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What was said, for showing it again.
    pub file: raw::File,
    /// What it means, for running.
    pub config: Config,
}

/// Why a file could not be loaded.
#[derive(Debug)]
pub enum LoadError {
    /// It could not be read.
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is wrong.
    Invalid(Problems),
}

impl std::error::Error for LoadError {}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Unreadable { path, error } => {
                write!(f, "cannot read {}: {error}", path.display())
            }
            LoadError::Invalid(problems) => problems.fmt(f),
        }
    }
}

/// Reads the environment of this process. A variable that is not UTF-8 is as good as not set.
pub fn process_environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Loads a file.
///
/// # Errors
/// If it cannot be read, or with everything that is wrong with it.
pub fn load_file(path: &Path, environment: Environment<'_>) -> Result<Loaded, LoadError> {
    let bytes = std::fs::read(path).map_err(|error| LoadError::Unreadable { path: path.to_owned(), error })?;
    let text = String::from_utf8(bytes).map_err(|_| LoadError::Unreadable {
        path: path.to_owned(),
        error: io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"),
    })?;
    load_text(&path.display().to_string(), &text, environment).map_err(LoadError::Invalid)
}

/// Loads the text of a file named `source`; descriptions that it names lie beside it.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load_text(source: &str, text: &str, environment: Environment<'_>) -> Result<Loaded, Problems> {
    let folder = Path::new(source).parent().unwrap_or(Path::new(""));
    let loaded = || {
        let file: raw::File = yaml::parse(text, environment)?;
        let config = resolve::resolve(&file, Mode::File, folder, &|path| std::fs::read(path), environment)?;
        Ok(Loaded { file, config })
    };
    loaded().map_err(|problems| Problems::in_file(source, text, problems))
}

/// Loads what a controller made; `files` are those that it names and that are not on the disk.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load_managed(
    source: &str,
    text: &str,
    environment: Environment<'_>,
    files: &BTreeMap<String, Vec<u8>>,
) -> Result<Loaded, Problems> {
    let read = |path: &Path| match path.to_str().and_then(|path| files.get(path)) {
        Some(bytes) => Ok(bytes.clone()),
        None => std::fs::read(path),
    };
    let loaded = || {
        let file: raw::File = yaml::parse(text, environment)?;
        let config = resolve::resolve(&file, Mode::Managed, Path::new(""), &read, environment)?;
        Ok(Loaded { file, config })
    };
    loaded().map_err(|problems| Problems::in_file(source, text, problems))
}

/// Makes the configuration of the environment-only mode.
///
/// # Errors
/// Every variable that cannot be understood.
pub fn load_environment(environment: Environment<'_>) -> Result<Loaded, Problems> {
    let loaded = || {
        let file = env::file(environment)?;
        let config =
            resolve::resolve(&file, Mode::Environment, Path::new(""), &|path| std::fs::read(path), environment)?;
        Ok(Loaded { file, config })
    };
    loaded().map_err(Problems::in_environment)
}
