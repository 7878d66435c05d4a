//! From a file, or from the environment alone, to a checked configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::problem::{Problem, Problems};
use super::yaml::{self, Environment};
use super::{Config, Mode, env, otel_variables, raw, resolve};

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
        finish(file, Mode::File, folder, &|path| std::fs::read(path), environment)
    };
    loaded().map_err(|problems| Problems::in_file(source, text, problems))
}

/// Loads the settings of a file and what a controller made behind them, which `text` writes as the whole, should something be wrong: a text is slow to
/// read, and says where. `files` are those that it names and that are not on the disk.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load_managed(
    source: &str,
    (settings, made): (&str, &serde_json::Value),
    text: impl FnOnce() -> String,
    environment: Environment<'_>,
    files: &BTreeMap<String, Vec<u8>>,
) -> Result<Loaded, Problems> {
    let read = |path: &Path| match path.to_str().and_then(|path| files.get(path)) {
        Some(bytes) => Ok(bytes.clone()),
        None => std::fs::read(path),
    };
    let load = |file: raw::File| finish(file, Mode::Managed, Path::new(""), &read, environment);
    if let Some(Ok(loaded)) = yaml::parse_with(settings, environment, made).map(load) {
        return Ok(loaded);
    }
    let text = text();
    yaml::parse(&text, environment).and_then(load).map_err(|problems| Problems::in_file(source, &text, problems))
}

/// Makes the configuration of the environment-only mode.
///
/// # Errors
/// Every variable that cannot be understood.
pub fn load_environment(environment: Environment<'_>) -> Result<Loaded, Problems> {
    let loaded = || {
        let file = env::file(environment)?;
        finish(file, Mode::Environment, Path::new(""), &|path| std::fs::read(path), environment)
    };
    loaded().map_err(Problems::in_environment)
}

/// Fills what the file leaves to variables of OpenTelemetry, and determines what it means.
fn finish(
    mut file: raw::File,
    mode: Mode,
    folder: &Path,
    read: resolve::ReadFile<'_>,
    environment: Environment<'_>,
) -> Result<Loaded, Vec<Problem>> {
    let mut problems = otel_variables::fill(&mut file.telemetry, environment);
    match resolve::resolve(&file, mode, folder, read, environment) {
        Ok(config) if problems.is_empty() => Ok(Loaded { file, config }),
        Ok(_) => Err(problems),
        Err(more) => {
            problems.extend(more);
            Err(problems)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::{Value, json};

    use super::*;

    const SETTINGS: &str = "# Comments, `${variables}` and all.\nadmin: \"${ADMIN}\"\nserver: {drain: 7s}\n";

    fn made() -> Value {
        json!({
            "listen": [{"bind": "127.0.0.1:8080", "name": "a/b/80", "http2": "prior_knowledge"}],
            "upstreams": {"null": {"targets": ["endpoints:null"]}, "x": {"targets": ["endpoints:x"], "protocol": "http2"}},
            "routes": [
                {"name": "one", "match": {"listener": "a/b/80", "path": "/**", "headers": {"X": "true", "Y": {"regex": "1.5"}}},
                 "headers": {"response": {"set": {"A": "{{host} ${HOME} ~ null: # 'x' \"y\""}}}, "upstream": "null",
                 "timeouts": {"total": "1500ms", "first_byte": "none"}},
                {"name": "two", "match": {"listener": "a/b/80", "path": "/two", "methods": ["GET"]},
                 "split": {"upstreams": {"null": 3, "x": 1}}, "upgrade": ["websocket"]},
                {"name": "three", "match": {"listener": "a/b/80", "path": "/3"}, "respond": {"status": 500}},
            ],
        })
    }

    fn environment(name: &str) -> Option<String> {
        (name == "ADMIN").then(|| "127.0.0.1:9901".to_owned())
    }

    /// JSON is YAML, but for variables.
    fn whole(settings: &str, made: &Value) -> String {
        let entries = made.as_object().unwrap().iter();
        let lines = entries.map(|(key, value)| format!("{key}: {}\n", value.to_string().replace("${", "$${")));
        format!("{settings}\n{}", lines.collect::<String>())
    }

    /// And whether the text was written.
    fn load(settings: &str, made: &Value) -> (Result<Loaded, Problems>, bool) {
        let was_written = Cell::new(false);
        let text = || {
            was_written.set(true);
            whole(settings, made)
        };
        let loaded = load_managed("objects", (settings, made), text, &environment, &BTreeMap::new());
        (loaded, was_written.get())
    }

    #[test]
    fn what_a_controller_made_means_the_same_as_its_text() {
        for settings in [SETTINGS, "", "# nothing\n"] {
            let (direct, was_written) = load(settings, &made());
            let direct = direct.expect("a good configuration");
            assert!(!was_written, "a text is for what is wrong");
            let file: raw::File = yaml::parse(&whole(settings, &made()), &environment).expect("a good text");
            assert_eq!(direct.file.to_yaml_without_secrets(), file.to_yaml_without_secrets());
            let read = |path: &Path| std::fs::read(path);
            let config =
                resolve::resolve(&file, Mode::Managed, Path::new(""), &read, &environment).expect("a good one");
            assert_eq!(direct.config, config);
        }
    }

    #[test]
    fn what_is_wrong_has_the_place_that_it_has_in_the_text() {
        let mut wrong = made();
        wrong["routes"][1]["match"]["path"] = "~(".into();
        for (settings, made) in [(SETTINGS, wrong), ("listen: []\n", made()), ("admin: [\n", made())] {
            let (loaded, was_written) = load(settings, &made);
            let Err(problems) = loaded else { panic!("it is wrong") };
            assert!(was_written);
            assert!(problems.lines().all(|(line, _)| line >= 1) && problems.lines().count() > 0, "{problems}");
        }
    }
}
