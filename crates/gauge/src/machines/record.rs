//! The folder of a run whose machines exist, or may exist.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::tool::{self, STATE, Tool, VARIABLES};
use super::{MachinesError, Say, absolute};
use crate::deploy::registry::write_atomically;
use crate::plan::{Host, Plan, TerraformProgram, file_name};

const RECORD: &str = "record.json";
const LOCK: &str = "lock";

/// What a run does with its machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nothing was made yet.
    Preparing,
    /// `apply` runs, or was cut short.
    Creating,
    /// They were all there.
    Running,
    /// The evaluation said `keep`.
    Kept,
    /// `destroy` runs, or was cut short.
    Destroying,
    /// `destroy` failed.
    NotDestroyed,
}

impl State {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            State::Preparing => "nothing made",
            State::Creating => "creating",
            State::Running => "running",
            State::Kept => "kept",
            State::Destroying => "destroying",
            State::NotDestroyed => "destroy failed",
        }
    }
}

/// What is known of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// 1.
    pub format: u32,
    /// The evaluation's file.
    pub evaluation: PathBuf,
    /// Folder of the module.
    pub module: PathBuf,
    /// The program that made the machines.
    pub program: PathBuf,
    /// Since when.
    pub since_unix_ms: u64,
    /// What is done with them.
    pub state: State,
    /// Those that are known, without keys.
    pub hosts: Vec<String>,
}

/// A run that has left its folder.
#[derive(Debug)]
pub struct Left {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Its record, or why that cannot be read.
    pub record: Result<Record, String>,
    /// A gauge that runs uses it.
    pub busy: bool,
}

/// The folder of all runs.
fn folder() -> Result<PathBuf, MachinesError> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")));
    Ok(state.ok_or(MachinesError::NoHome)?.join("gauge/machines"))
}

/// What runs have left, oldest first.
///
/// # Errors
/// When the folder cannot be read.
pub fn left() -> Result<Vec<Left>, MachinesError> {
    let folder = folder()?;
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(MachinesError::file(folder)(error)),
    };
    let mut all = Vec::new();
    for entry in entries.flatten() {
        let folder = entry.path();
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
        // A dot: what a gauge is preparing, in which nothing was made.
        if name.starts_with('.') || !folder.is_dir() {
            continue;
        }
        let busy = matches!(lock(&folder), Err(TryLockError::WouldBlock));
        all.push(Left { record: read(&folder), name, folder, busy });
    }
    all.sort_by_key(|left| left.record.as_ref().map_or(0, |record| record.since_unix_ms));
    Ok(all)
}

fn read(folder: &Path) -> Result<Record, String> {
    let text = fs::read_to_string(folder.join(RECORD)).map_err(|error| format!("{RECORD}: {error}"))?;
    serde_json::from_str(&text).map_err(|error| format!("{RECORD} is not what gauge writes: {error}"))
}

/// Held by the gauge that uses a folder; the system lets it go when that ends, however it ends.
fn lock(folder: &Path) -> Result<File, TryLockError> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(folder.join(LOCK));
    let file = file.map_err(TryLockError::Error)?;
    file.try_lock()?;
    Ok(file)
}

/// Makes what was written or renamed in a folder survive a crash of the machine.
fn sync(folder: &Path) -> Result<(), MachinesError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(MachinesError::file(folder))
}

/// Writes a file for this user alone.
pub(super) fn write_private(file: &Path, bytes: &[u8]) -> Result<(), MachinesError> {
    let open = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(file);
    let written = open.and_then(|mut open| {
        open.write_all(bytes)?;
        open.sync_all()
    });
    written.map_err(MachinesError::file(file))
}

/// A run, held by this program alone.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    record: Record,
    _lock: File,
}

impl Run {
    /// Makes the folder of a new run, complete and on the disk.
    pub(super) fn create(
        plan: &Plan,
        module: &Path,
        program: &Path,
        variables: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<Self, MachinesError> {
        let parent = folder()?;
        let make = |folder: &Path| DirBuilder::new().recursive(true).mode(0o700).create(folder);
        make(&parent).map_err(MachinesError::file(&parent))?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut name = format!("{}-{}", file_name(&plan.name), since.as_secs());
        while parent.join(&name).exists() || parent.join(format!(".{name}")).exists() {
            name.push_str("-2");
        }
        let (part, folder) = (parent.join(format!(".{name}")), parent.join(&name));
        DirBuilder::new().mode(0o700).create(&part).map_err(MachinesError::file(&part))?;
        let lock = lock(&part).map_err(|error| MachinesError::file(&part)(error.into()))?;
        let text =
            serde_json::to_vec_pretty(variables).map_err(|error| MachinesError::file(VARIABLES)(error.into()))?;
        write_private(&part.join(VARIABLES), &text)?;
        let record = Record {
            format: 1,
            evaluation: plan.file.clone(),
            module: absolute(module),
            program: program.to_owned(),
            since_unix_ms: since.as_millis() as u64,
            state: State::Preparing,
            hosts: Vec::new(),
        };
        let mut run = Run { name, folder: part.clone(), record, _lock: lock };
        run.save()?;
        fs::rename(&part, &folder).map_err(MachinesError::file(&folder))?;
        run.folder = folder;
        sync(&parent)?;
        Ok(run)
    }

    /// Takes the folder of a run that has left one.
    pub(super) fn open(name: &str) -> Result<Self, MachinesError> {
        let folder = folder()?.join(name);
        let plain = !name.is_empty() && !name.starts_with('.') && !name.contains('/');
        if !plain || !folder.is_dir() {
            return Err(MachinesError::Unknown(name.to_owned()));
        }
        let lock = lock(&folder).map_err(|error| match error {
            TryLockError::WouldBlock => MachinesError::Busy(name.to_owned()),
            TryLockError::Error(error) => MachinesError::file(&folder)(error),
        })?;
        let record = read(&folder).map_err(|why| MachinesError::Unreadable {
            run: name.to_owned(),
            why,
            state: folder.join(STATE),
            variables: folder.join(VARIABLES),
            folder: folder.clone(),
        })?;
        Ok(Run { name: name.to_owned(), folder, record, _lock: lock })
    }

    fn save(&self) -> Result<(), MachinesError> {
        let file = self.folder.join(RECORD);
        let text = serde_json::to_vec_pretty(&self.record).map_err(|error| MachinesError::file(&file)(error.into()))?;
        write_atomically(&file, &text).map_err(MachinesError::file(&file))?;
        sync(&self.folder)
    }

    /// Writes down what is done, and which machines there are now; none: those that were known.
    pub(super) fn note(&mut self, state: State, hosts: &[Host]) -> Result<(), MachinesError> {
        self.record.state = state;
        if !hosts.is_empty() {
            self.record.hosts = hosts.iter().map(Host::words).collect();
        }
        self.save()
    }

    pub(super) fn hosts(&self) -> &[String] {
        &self.record.hosts
    }

    /// The program that made the machines, or the one that is here now.
    pub(super) fn tool(&self) -> Tool {
        let made = self.record.program.clone();
        let program = if made.is_file() { made } else { tool::find(TerraformProgram::Auto).unwrap_or(made) };
        Tool::new(program, &self.record.module, &self.folder)
    }

    /// Notes that all is to be destroyed, and gives whether there may be something to destroy.
    pub(super) fn begin_destroy(&mut self, say: Say<'_>) -> bool {
        let made = self.record.state != State::Preparing || !self.record.hosts.is_empty();
        // Machines cost money also where the disk is full.
        if made && let Err(error) = self.note(State::Destroying, &[]) {
            say(&format!("the record of {} is not up to date: {error}", self.name));
        }
        made
    }

    /// Removes the folder when all is destroyed; else it stays, and says so.
    pub(super) fn settle(&mut self, made: bool, destroyed: Result<(), MachinesError>) -> Result<(), MachinesError> {
        let why = match destroyed.and_then(|()| tool::nothing_left(&self.folder, made)) {
            Ok(()) => {
                return fs::remove_dir_all(&self.folder).map_err(MachinesError::file(&self.folder));
            }
            Err(error) if self.record.hosts.is_empty() => error.to_string(),
            Err(error) => format!("{error}\nknown machines: {}", self.record.hosts.join(", ")),
        };
        // That it could not be noted changes nothing: what is there is still a left-over.
        let _ = self.note(State::NotDestroyed, &[]);
        Err(MachinesError::Left { run: self.name.clone(), why, folder: self.folder.clone() })
    }
}
