//! A draft: a description and what was chosen, in a folder of its own, and the evaluation that is made of them.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use apidoc::{Api, Operation};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::derived::{self, ServiceChoices};
use super::source::Source;
use crate::plan::Plan;

/// Drafts are in this folder of the folder.
pub(super) const FOLDER: &str = "drafts";
/// Files of a draft.
const DESCRIPTION: &str = "description";
const CHOICES: &str = "choices.json";
const EVALUATION: &str = "evaluation.yaml";

/// The draft that an evaluation of the folder is of.
pub(crate) fn draft_of(file: &str) -> Option<&str> {
    file.strip_prefix(FOLDER)?.strip_prefix('/')?.strip_suffix(EVALUATION)?.strip_suffix('/')
}

/// What was chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Choices {
    pub(super) name: String,
    pub(super) gateways: Vec<String>,
    /// Ids of operations.
    pub(super) operations: Vec<String>,
    /// `servers` or `demo`.
    pub(super) upstream: String,
    /// `closed` or `open`.
    pub(super) load: String,
    pub(super) users: u32,
    pub(super) rate: u32,
    pub(super) seconds: u32,
    pub(super) rounds: u32,
    /// `local` or `ssh`.
    pub(super) place: String,
    pub(super) host: String,
    pub(super) user: String,
    pub(super) port: String,
    pub(super) address: String,
    /// What was chosen of an evaluation of services, where that was done.
    pub(super) services: Option<ServiceChoices>,
}

impl Default for Choices {
    fn default() -> Self {
        Choices {
            name: String::new(),
            gateways: Vec::new(),
            operations: Vec::new(),
            upstream: "servers".to_owned(),
            load: "closed".to_owned(),
            users: 32,
            rate: 1000,
            seconds: 5,
            rounds: 10,
            place: "local".to_owned(),
            host: String::new(),
            user: String::new(),
            port: String::new(),
            address: String::new(),
            services: None,
        }
    }
}

/// Why there is no draft.
pub(super) enum CreateError {
    Description(String),
    System(io::Error),
}

impl From<io::Error> for CreateError {
    fn from(error: io::Error) -> Self {
        CreateError::System(error)
    }
}

/// Why no evaluation was made of a source.
pub(super) enum DeriveError {
    /// Of what was chosen.
    Choice(String),
    System(io::Error),
}

impl From<io::Error> for DeriveError {
    fn from(error: io::Error) -> Self {
        DeriveError::System(error)
    }
}

/// A description with what was chosen.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) key: String,
    pub(crate) name: String,
    folder: PathBuf,
    pub(crate) api: Api,
    pub(crate) warnings: Vec<String>,
}

impl Draft {
    /// Reads a description and keeps it in a new folder; one that cannot be used leaves nothing behind.
    pub(super) fn create(folder: &Path, name: &str, description: &[u8]) -> Result<Self, CreateError> {
        let drafts = folder.join(FOLDER);
        fs::create_dir_all(&drafts)?;
        // Unpacked beside the drafts first, so that one that is there is complete.
        let made = tempfile::Builder::new().prefix(".new-").tempdir_in(&drafts)?;
        fs::write(made.path().join(DESCRIPTION), description)?;
        read(made.path()).map_err(CreateError::Description)?;
        let choices = Choices { name: name.to_owned(), ..Choices::default() };
        fs::write(made.path().join(CHOICES), serde_json::to_string(&choices).map_err(io::Error::from)?)?;
        for number in 1_u32.. {
            let key = match number {
                1 => crate::plan::file_name(name),
                _ => format!("{}-{number}", crate::plan::file_name(name)),
            };
            let place = drafts.join(&key);
            // A folder that is there and has files is not replaced.
            match fs::rename(made.path(), &place) {
                Ok(()) => {
                    // Moved: nothing is left to remove.
                    let _ = made.keep();
                    return Draft::open(&key, &place).map_err(CreateError::Description);
                }
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists).into())
    }

    /// One that is there.
    pub(super) fn open(key: &str, folder: &Path) -> Result<Self, String> {
        let read = read(folder)?;
        let mut draft = Draft {
            key: key.to_owned(),
            name: String::new(),
            folder: folder.to_owned(),
            api: read.api,
            warnings: read.warnings.iter().map(ToString::to_string).collect(),
        };
        draft.name = draft.choices().name;
        Ok(draft)
    }

    /// What was chosen so far: at first all operations that need nothing more, and gateways that are on this machine.
    pub(super) fn choices(&self) -> Choices {
        let text = fs::read_to_string(self.folder.join(CHOICES)).unwrap_or_default();
        let mut choices: Choices = serde_json::from_str(&text).unwrap_or_default();
        if choices.operations.is_empty() {
            let usable = self.api.operations.iter().filter(|operation| lacks(operation).is_none());
            choices.operations = usable.map(|operation| operation.id.clone()).collect();
        }
        if choices.gateways.is_empty() {
            let here = crate::gateway::all().iter().filter(|gateway| gateway.locate().is_some());
            choices.gateways = here.map(|gateway| gateway.name().to_owned()).collect();
        }
        choices
    }

    /// The path of its evaluation in the folder.
    pub(super) fn evaluation_path(&self) -> String {
        format!("{FOLDER}/{}/{EVALUATION}", self.key)
    }

    /// Keeps what was chosen.
    pub(super) fn write(&self, choices: &Choices, evaluation: &str) -> io::Result<()> {
        let services = self.choices().services;
        let choices = Choices { name: self.name.clone(), services, ..choices.clone() };
        fs::write(self.folder.join(CHOICES), serde_json::to_string(&choices)?)?;
        fs::write(self.folder.join(EVALUATION), evaluation)
    }

    /// Makes an evaluation of what was chosen of a source, and keeps both. One that is refused leaves what was there.
    pub(super) fn derive(&self, source: &Source, services: &ServiceChoices) -> Result<(), DeriveError> {
        source.fits(&self.api).map_err(|why| DeriveError::Choice(format!("It does not fit: {why}.")))?;
        let description = self.folder.join(DESCRIPTION);
        let evaluation = derived::evaluation(source, services, &self.name, &self.folder, &description);
        let evaluation = evaluation.map_err(DeriveError::Choice)?;
        // Variables of programs may be secrets: only this user may read the file.
        let mut made = tempfile::Builder::new().prefix(".new-").suffix(".yaml").tempfile_in(&self.folder)?;
        made.write_all(evaluation.as_bytes())?;
        let plan = Plan::read(made.path()).map_err(|error| {
            let text = error.to_string().replace(&*made.path().to_string_lossy(), EVALUATION);
            DeriveError::Choice(crate::plan::redact(&text, &source.plan.secrets))
        })?;
        if !derived::starts_the_same(&source.plan, &plan) {
            let why = format!("`{}` is written in a way that cannot be copied; start it as it is.", source.file);
            return Err(DeriveError::Choice(why));
        }
        made.persist(self.folder.join(EVALUATION)).map_err(|error| error.error)?;
        let choices = Choices { services: Some(services.clone()), ..self.choices() };
        fs::write(self.folder.join(CHOICES), serde_json::to_string(&choices).map_err(io::Error::from)?)?;
        Ok(())
    }

    /// The evaluation as YAML. Whatever the visitor wrote is in it as a JSON text, which is YAML too, and nothing of it is a command.
    pub(super) fn evaluation(&self, choices: &Choices) -> Result<String, String> {
        let known = |name: &&String| crate::gateway::by_name(name).is_some();
        let gateways: Vec<&String> = choices.gateways.iter().filter(known).collect();
        if gateways.is_empty() {
            return Err("Choose a gateway at least.".to_owned());
        }
        let operations: Vec<&Operation> =
            self.api.operations.iter().filter(|operation| choices.operations.contains(&operation.id)).collect();
        if operations.is_empty() {
            return Err("Choose an operation at least.".to_owned());
        }
        let mut out = format!("# Made by gauge ui\nname: {}\napi: {DESCRIPTION}\n", json!(self.name));
        let _ = writeln!(out, "gateways: {}", json!(gateways));
        if choices.upstream == "demo" {
            let origins: Vec<&str> = self.api.operations.iter().filter_map(Operation::origin).collect();
            let origin = origins.first().copied().unwrap_or_default();
            if origins.iter().any(|other| *other != origin) {
                return Err("The description has several servers, and the demonstration is one service.".to_owned());
            }
            let _ = writeln!(
                out,
                "backend:\n  command: [\"{{gauge}}\", demo, --listen, \"{{address}}:{{http}}\"]\n  ports: {{http: {}}}\n  ready: \"http://{{address}}:{{http}}/healthz\"",
                json!(origin)
            );
        }
        let _ = writeln!(out, "repeats: {}", choices.rounds.clamp(1, 100));
        if let Some(deploy) = deploy(choices)? {
            let _ = writeln!(out, "deploy: {deploy}");
        }
        let (users, seconds) = (choices.users.clamp(1, 10_000), choices.seconds.clamp(1, 3600));
        let load = match choices.load.as_str() {
            "open" => {
                json!({"open": {"rate": format!("{}/s", choices.rate.clamp(1, 1_000_000)), "duration": format!("{seconds}s"), "connections": users}})
            }
            _ => json!({"closed": {"users": users, "duration": format!("{seconds}s")}}),
        };
        let list: Vec<Value> = operations.iter().map(|operation| operation_of(operation)).collect();
        let _ = writeln!(out, "workloads:\n  - name: load\n    operations: {}\n    load: {load}", json!(list));
        Ok(out)
    }
}

/// The description of a draft; it may refer to nothing outside of its folder.
fn read(folder: &Path) -> Result<apidoc::Read, String> {
    let file = folder.join(DESCRIPTION);
    let files = apidoc::Files::under(folder).map_err(|error| error.to_string())?;
    let read = apidoc::read(&files, &file.to_string_lossy(), &limits()).map_err(|problems| {
        // The visitor need not know where it is kept.
        problems.to_string().replace(&*file.to_string_lossy(), "line")
    })?;
    if read.api.operations.is_empty() {
        return Err("it has no operations".to_owned());
    }
    Ok(read)
}

/// Of a description from a form.
fn limits() -> apidoc::Limits {
    let mut limits = apidoc::Limits::default();
    (limits.document_bytes, limits.total_bytes) = (super::DESCRIPTION, super::DESCRIPTION);
    limits.operations = 2_000;
    limits
}

/// What an operation needs that the description does not give.
pub(super) fn lacks(operation: &Operation) -> Option<&'static str> {
    let given = |parameter: &apidoc::Parameter| {
        parameter.example.is_some()
            || parameter.default.is_some()
            || !parameter.values.is_empty()
            || parameter.kind == apidoc::Type::Integer
    };
    if operation.security.is_required() {
        return Some("needs credentials");
    }
    if operation.body.as_ref().is_some_and(|body| body.required && body.example.is_none()) {
        return Some("needs a body without an example");
    }
    (!operation.path_params.values().all(given)).then_some("needs a value in its path without an example")
}

fn operation_of(operation: &Operation) -> Value {
    let mut params = serde_json::Map::new();
    for (name, parameter) in &operation.path_params {
        let has_value = parameter.example.is_some() || parameter.default.is_some() || !parameter.values.is_empty();
        if !has_value && parameter.kind == apidoc::Type::Integer {
            let bound = |number: &Option<serde_json::Number>| number.as_ref().and_then(serde_json::Number::as_i64);
            let from = bound(&parameter.min).unwrap_or(1);
            let to = bound(&parameter.max).unwrap_or(from.saturating_add(99)).max(from);
            params.insert(name.clone(), json!({"int": [from, to]}));
        }
    }
    if params.is_empty() { json!({"id": operation.id}) } else { json!({"id": operation.id, "params": params}) }
}

/// Where it runs; none for this machine. Names are words of letters, digits, dots, dashes and underscores that do not begin with a dash: none can be an
/// option of ssh, or anything to a shell.
fn deploy(choices: &Choices) -> Result<Option<Value>, String> {
    if choices.place != "ssh" {
        return Ok(None);
    }
    let plain = |text: &str| {
        let first = text.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
        first && text.len() < 254 && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    let is_address = choices.host.parse::<IpAddr>().is_ok();
    if !plain(&choices.host) && !is_address {
        return Err("The host is a name of letters, digits, dots and dashes, or an IP address.".to_owned());
    }
    let mut ssh = json!({"host": choices.host});
    if !choices.user.is_empty() {
        if !plain(&choices.user) {
            return Err("The user is a name of letters, digits, dots and dashes.".to_owned());
        }
        ssh["user"] = json!(choices.user);
    }
    if !choices.port.is_empty() {
        let port = choices.port.parse::<u16>().ok().filter(|port| *port > 0);
        ssh["port"] = json!(port.ok_or("The port is a number from 1 to 65535.")?);
    }
    if !choices.address.is_empty() {
        let address =
            choices.address.parse::<IpAddr>().map_err(|_| "The address of the generator is an IP address.")?;
        ssh["address"] = json!(address);
    }
    Ok(Some(json!({"ssh": ssh})))
}

#[cfg(test)]
mod tests;
