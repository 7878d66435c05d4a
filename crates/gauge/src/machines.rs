//! Machines that are made for a campaign by OpenTofu or Terraform, and destroyed after it.
//!
//! # Life cycle
//!
//! Each run has a folder of its own in this user's state directory ([`record`]): the record says what is made by whom, `terraform.tfstate` what was made. Both
//! are on the disk before the first `apply` begins, and the folder is removed only after the program has said that all is destroyed and the state says
//! the same. Between the two, whatever ends this program leaves a folder that `gauge machines` lists and destroys.
//!
//! The program runs in a process group of its own, with its output in a file: neither Ctrl-C on a terminal nor the end of this program ends it in the middle of
//! a resource, which no state would then have. It is told to end in order (SIGINT), and finishes what it has begun.

mod record;
mod tool;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::plan::{Fleet, Host, Plan, Terraform};

use record::Run;
pub use record::{Left, Record, State, left};
use tool::Tool;

/// Why machines could not be made or destroyed.
#[derive(Debug, thiserror::Error)]
pub enum MachinesError {
    /// The program is not here.
    #[error("{0}")]
    Missing(String),
    /// A file of Gauge's could not be read or written.
    #[error("{}: {error}", .file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Neither XDG_STATE_HOME nor HOME says where it belongs.
    #[error("there is no folder for the state of machines: neither XDG_STATE_HOME nor HOME is set")]
    NoHome,
    /// A step of the program failed.
    #[error("`{step}` failed in {}:\n{said}", .module.display())]
    Step {
        /// `tofu apply`.
        step: String,
        /// Folder of the module.
        module: PathBuf,
        /// Its last lines.
        said: String,
    },
    /// The module cannot be used.
    #[error("{}: {why}", .module.display())]
    Module {
        /// Its folder.
        module: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Somebody stopped it.
    #[error("stopped while machines were made")]
    Stopped,
    /// There is no such run.
    #[error("no run `{0}` has left machines; `gauge machines` lists those that have")]
    Unknown(String),
    /// A gauge that runs needs the machines, or destroys them.
    #[error("the machines of {0} are in use by a gauge that runs; end it with Ctrl-C, and it destroys them")]
    Busy(String),
    /// What was made cannot be said.
    #[error(
        "what {run} has made is not known, and may cost money: {why}\nto destroy it, in the module of the evaluation: tofu destroy -state={} \
         -var-file={}\nthen remove {}",
        .state.display(),
        .variables.display(),
        .folder.display()
    )]
    Unreadable {
        /// Name of the run.
        run: String,
        /// What is wrong with its record.
        why: String,
        /// Its state.
        state: PathBuf,
        /// Values of the module's variables.
        variables: PathBuf,
        /// Its folder.
        folder: PathBuf,
    },
    /// They may still exist.
    #[error(
        "the machines of {run} are not destroyed, and may cost money: {why}\nto try again: gauge machines destroy {run}\ntheir state is in {}",
        .folder.display()
    )]
    Left {
        /// Name of the run.
        run: String,
        /// What failed.
        why: String,
        /// Its folder.
        folder: PathBuf,
    },
}

impl MachinesError {
    fn file(file: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let file = file.into();
        move |error| MachinesError::File { file, error }
    }
}

/// What is told while machines are made and destroyed, line by line.
pub type Say<'s> = &'s mut dyn FnMut(&str);

/// The machines of one campaign, if any were made.
#[derive(Debug, Default)]
pub struct Machines(Mutex<Option<Current>>);

#[derive(Debug)]
struct Current {
    run: Run,
    keep: bool,
    /// They are all there.
    complete: bool,
    /// The program at work on them.
    at_work: Option<u32>,
}

impl Machines {
    fn current(&self) -> MutexGuard<'_, Option<Current>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes them. Whatever comes of it, [`Machines::end`] is to be called.
    ///
    /// # Errors
    /// When the program is missing, or one of its steps fails, or its output is not a list of machines.
    pub fn make(
        &self,
        terraform: &Terraform,
        plan: &Plan,
        stop: &AtomicBool,
        say: Say<'_>,
    ) -> Result<Fleet, MachinesError> {
        let program = tool::find(terraform.program)?;
        let run = Run::create(plan, &terraform.folder, &program, &terraform.vars)?;
        let tool = Tool::new(program, &terraform.folder, &run.folder);
        say(&format!("machines of {}: {} in {}", run.name, tool.name(), terraform.folder.display()));
        let folder = run.folder.clone();
        *self.current() = Some(Current { run, keep: terraform.keep, complete: false, at_work: None });
        let at_work = |pid| {
            if let Some(current) = self.current().as_mut() {
                current.at_work = pid;
            }
        };
        tool.refuse_errored()?;
        tool.init(Some(stop), &at_work, say)?;
        tool.refuse_backend()?;
        self.note(State::Creating, &[])?;
        tool.apply(Some(stop), &at_work, say)?;
        let hosts = tool.hosts()?;
        self.note(State::Running, &hosts)?;
        let fleet =
            Fleet::new(&hosts, Some(&folder.join("known_hosts"))).map_err(|problems| MachinesError::Module {
                module: terraform.folder.clone(),
                why: format!("its output `gauge_hosts`: {}", problems.join("; ")),
            })?;
        if let Some(current) = self.current().as_mut() {
            current.complete = true;
        }
        Ok(fleet)
    }

    fn note(&self, state: State, hosts: &[Host]) -> Result<(), MachinesError> {
        self.current().as_mut().map_or(Ok(()), |current| current.run.note(state, hosts))
    }

    /// Destroys them, unless they are to be kept; nothing where none were made.
    ///
    /// # Errors
    /// When they may still exist.
    pub fn end(&self, say: Say<'_>) -> Result<(), MachinesError> {
        let kept = self.current().as_ref().is_some_and(|current| current.keep && current.complete);
        if kept {
            self.note(State::Kept, &[])?;
            if let Some(current) = self.current().take() {
                say(&format!("machines are kept: {}", current.run.hosts().join(", ")));
                say(&format!("to destroy them: gauge machines destroy {}", current.run.name));
            }
            return Ok(());
        }
        let Some((tool, name, made)) = self
            .current()
            .as_mut()
            .map(|current| (current.run.tool(), current.run.name.clone(), current.run.begin_destroy(say)))
        else {
            return Ok(());
        };
        say(&format!("destroying the machines of {name}"));
        let at_work = |pid| {
            if let Some(current) = self.current().as_mut() {
                current.at_work = pid;
            }
        };
        let destroyed = tool.destroy(made, &at_work, say);
        // From here on it is a left-over or nothing, and no longer of this program.
        let Some(mut current) = self.current().take() else { return Ok(()) };
        current.run.settle(made, destroyed)
    }

    /// What is left when this program ends at once, and what to do about it.
    pub fn abandoned(&self) -> Option<String> {
        let current = self.current();
        let current = current.as_ref()?;
        let name = &current.run.name;
        let mut text = match current.run.hosts() {
            [] => format!("machines of {name} may be left"),
            hosts => format!("machines of {name} are left: {}", hosts.join(", ")),
        };
        if let Some(pid) = current.at_work {
            let tool = current.run.tool();
            text.push_str(&format!("; {} (process {pid}) still works on them, and ends by itself", tool.name()));
        }
        text.push_str(&format!("; to destroy them: gauge machines destroy {name}"));
        Some(text)
    }
}

/// Destroys what a run has left.
///
/// # Errors
/// When there is no such run, another gauge uses it, or the machines may still exist.
pub fn destroy(name: &str, say: Say<'_>) -> Result<(), MachinesError> {
    let mut run = Run::open(name)?;
    let made = run.begin_destroy(say);
    let destroyed = run.tool().destroy(made, &|_| {}, say);
    run.settle(made, destroyed)
}

/// Checks a module without making anything: it is read with its providers, in a folder that is removed again.
///
/// # Errors
/// When the program is missing, or refuses it, or it has no output `gauge_hosts`.
pub fn check(terraform: &Terraform) -> Result<String, MachinesError> {
    let program = tool::find(terraform.program)?;
    let folder = tempfile::Builder::new().prefix("gauge-machines-").tempdir();
    let folder = folder.map_err(MachinesError::file(std::env::temp_dir()))?;
    let tool = Tool::new(program, &terraform.folder, folder.path());
    tool.validate()?;
    Ok(tool.name().to_owned())
}

/// The folder of a module, absolute.
fn absolute(folder: &Path) -> PathBuf {
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
}
