//! OpenTofu or Terraform: its steps, each with its output in a file of the run's folder.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;

use super::record::write_private;
use super::{MachinesError, Say, absolute};
use crate::deploy::registry::write_atomically;
use crate::foreign::{first, shown};
use crate::launch::tail;
use crate::plan::{Host, TerraformProgram};

/// What was made.
pub(super) const STATE: &str = "terraform.tfstate";
/// Where the program writes the state, in the module, when it cannot write it where it belongs.
const ERRORED: &str = "errored.tfstate";
/// Values of the module's variables.
pub(super) const VARIABLES: &str = "gauge.tfvars.json";
/// Name of the output.
const OUTPUT: &str = "gauge_hosts";
/// How often its output and the wish to stop are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long another program's work on the same state is waited for: an `apply` whose gauge was killed goes on to its end.
const LOCK_TIMEOUT: &str = "-lock-timeout=900s";
/// Longest wait for a program that still works on the state.
const LOCKED: Duration = Duration::from_secs(900);
/// Characters of a line that are shown; all is in the file.
const LINE: usize = 1000;
/// Last lines of a step in a message.
const LINES: usize = 15;

/// The program, on `PATH`.
pub(super) fn find(wanted: TerraformProgram) -> Result<PathBuf, MachinesError> {
    let names: &[&str] = match wanted {
        TerraformProgram::Auto => &["tofu", "terraform"],
        TerraformProgram::Tofu => &["tofu"],
        TerraformProgram::Terraform => &["terraform"],
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
    let all = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let mut programs = all.filter(|file| is_program(file));
    programs.next().ok_or_else(|| {
        let what = match wanted {
            TerraformProgram::Auto => "neither `tofu` nor `terraform` is on PATH",
            TerraformProgram::Tofu => "`tofu` is not on PATH",
            TerraformProgram::Terraform => "`terraform` is not on PATH",
        };
        MachinesError::Missing(format!(
            "{what}, which makes the machines of `deploy`; install OpenTofu (https://opentofu.org/docs/intro/install/) or Terraform"
        ))
    })
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// A state, as far as it matters here.
#[derive(Deserialize)]
struct Written {
    resources: Vec<Value>,
    #[serde(default)]
    lineage: String,
    #[serde(default)]
    serial: u64,
}

/// Reads a state; none where there is no file, or one without content: the program makes that to lock it.
fn state_in(file: &Path) -> Result<Option<Written>, MachinesError> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(MachinesError::file(file)(error)),
    };
    let empty = text.trim().is_empty() || text.trim() == "{}";
    if empty {
        return Ok(None);
    }
    serde_json::from_str(&text).map(Some).map_err(|error| MachinesError::file(file)(error.into()))
}

/// Whether the state says that nothing is left. `made`: machines may have been made, so that there has to be a state.
pub(super) fn nothing_left(folder: &Path, made: bool) -> Result<(), MachinesError> {
    let file = folder.join(STATE);
    let Some(written) = state_in(&file)? else {
        return if made && !made_nothing(folder) { Err(lost(file)) } else { Ok(()) };
    };
    let managed = |one: &&Value| one.get("mode").and_then(Value::as_str) != Some("data");
    match written.resources.iter().filter(managed).count() {
        0 => Ok(()),
        count => Err(MachinesError::Module { module: file, why: format!("it still has {count} resources") }),
    }
}

fn lost(state: PathBuf) -> MachinesError {
    let why = "the state is missing or empty, so that nothing can destroy what was made; look for the machines where the module makes them, delete them \
               there, and then remove the folder of the run";
    MachinesError::Module { module: state, why: why.to_owned() }
}

/// Whether the output of `apply` shows that it ended before it made anything: bad credentials, or a mistake in the module. Without that proof the missing
/// state is a lost one.
fn made_nothing(folder: &Path) -> bool {
    let log = fs::read_to_string(folder.join("apply.log")).unwrap_or_default();
    let ended = log.contains("Error") || log.contains("Interrupt received");
    ended && !log.contains(": Creating...") && !log.contains(ERRORED)
}

/// The program with a module and the folder of a run.
#[derive(Debug, Clone)]
pub(super) struct Tool {
    program: PathBuf,
    module: PathBuf,
    folder: PathBuf,
}

impl Tool {
    pub(super) fn new(program: PathBuf, module: &Path, folder: &Path) -> Self {
        Tool { program, module: absolute(module), folder: folder.to_owned() }
    }

    /// `tofu` or `terraform`.
    pub(super) fn name(&self) -> &str {
        self.program.file_name().and_then(|name| name.to_str()).unwrap_or("tofu")
    }

    pub(super) fn init(&self, stop: Option<&AtomicBool>, pid: Pid<'_>, say: Say<'_>) -> Result<(), MachinesError> {
        self.step("init", &["-input=false", "-no-color"], stop, pid, say)
    }

    pub(super) fn apply(&self, stop: Option<&AtomicBool>, pid: Pid<'_>, say: Say<'_>) -> Result<(), MachinesError> {
        self.on_state("apply", stop, pid, say)
    }

    /// Destroys what the state has. Where nothing was made, there is nothing to do: an `init` that failed needs no second one. `made`: machines may have
    /// been made, so that a state without content is a lost one: the program would write a new one that says that nothing is left.
    pub(super) fn destroy(&self, made: bool, pid: Pid<'_>, say: Say<'_>) -> Result<(), MachinesError> {
        let state = self.folder.join(STATE);
        if !made && !state.exists() {
            return Ok(());
        }
        self.wait_for_lock(&state, say);
        self.take_errored(&state, say)?;
        if state_in(&state)?.is_none() {
            return nothing_left(&self.folder, made);
        }
        if !self.folder.join("data").is_dir() {
            self.init(None, pid, say)?;
        }
        self.on_state("destroy", None, pid, say)
    }

    /// Refuses a module in which an earlier run has left the only record of its machines.
    pub(super) fn refuse_errored(&self) -> Result<(), MachinesError> {
        let file = self.module.join(ERRORED);
        if file.exists() { Err(unknown_errored(file)) } else { Ok(()) }
    }

    /// An `apply` whose gauge was killed goes on, and its state is complete when it has ended. What it holds is a lock of the whole file (fcntl).
    fn wait_for_lock(&self, state: &Path, say: Say<'_>) {
        let Ok(file) = fs::OpenOptions::new().read(true).write(true).open(state) else { return };
        let begun = Instant::now();
        let mut told = false;
        while rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err()
            && begun.elapsed() < LOCKED
        {
            if !std::mem::replace(&mut told, true) {
                say(&format!("{} still works on the state; waiting until it has ended", self.name()));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Moves the state that the program could not write to where it belongs. Another step of the program would overwrite it.
    fn take_errored(&self, state: &Path, say: Say<'_>) -> Result<(), MachinesError> {
        let errored = self.module.join(ERRORED);
        if !errored.exists() {
            return Ok(());
        }
        // Runs of the same module share its folder.
        let is_own = ["apply.log", "destroy.log"].iter().any(|log| {
            let log = fs::read(self.folder.join(log)).unwrap_or_default();
            String::from_utf8_lossy(&log).contains(ERRORED)
        });
        let refuse = |why: String| MachinesError::Module { module: errored.clone(), why };
        let found = match state_in(&errored) {
            Ok(Some(found)) => found,
            Ok(None) => return Err(refuse("it is the state of machines, and has no content".to_owned())),
            Err(error) => return Err(refuse(format!("it is the state of machines, and cannot be read ({error})"))),
        };
        let known = state_in(state)?;
        let of_another = |known: &Written| known.lineage != found.lineage || known.serial > found.serial;
        if !is_own || known.as_ref().is_some_and(of_another) {
            return Err(unknown_errored(errored));
        }
        let text = fs::read(&errored).map_err(MachinesError::file(&errored))?;
        write_atomically(state, &text).map_err(MachinesError::file(state))?;
        fs::remove_file(&errored).map_err(MachinesError::file(&errored))?;
        say(&format!("{} could not write the state of the run; it was in {}", self.name(), errored.display()));
        Ok(())
    }

    fn on_state(&self, step: &str, stop: Option<&AtomicBool>, pid: Pid<'_>, say: Say<'_>) -> Result<(), MachinesError> {
        let state = format!("-state={}", self.folder.join(STATE).display());
        let variables = format!("-var-file={}", self.folder.join(VARIABLES).display());
        let arguments = ["-input=false", "-no-color", "-auto-approve", LOCK_TIMEOUT, &state, &variables];
        self.step(step, &arguments, stop, pid, say)
    }

    /// A module that keeps its state elsewhere would share it between runs, and outlive this one's folder.
    pub(super) fn refuse_backend(&self) -> Result<(), MachinesError> {
        let file = self.folder.join("data").join(STATE);
        let Ok(text) = fs::read_to_string(file) else { return Ok(()) };
        let chosen: Value = serde_json::from_str(&text).unwrap_or_default();
        if chosen.get("backend").is_none_or(Value::is_null) {
            return Ok(());
        }
        let why = "it has a `backend` or a `cloud` block; remove it: Gauge keeps a state for each run".to_owned();
        Err(MachinesError::Module { module: self.module.clone(), why })
    }

    /// The machines that the module says it has made. Keys in it become files.
    pub(super) fn hosts(&self) -> Result<Vec<Host>, MachinesError> {
        let state = format!("-state={}", self.folder.join(STATE).display());
        let mut command = self.command("output", &["-json", "-no-color", &state]);
        let failed = |said: String| MachinesError::Step {
            step: format!("{} output", self.name()),
            module: self.module.clone(),
            said,
        };
        let output = command.stderr(Stdio::piped()).stdout(Stdio::piped()).output();
        let output = output.map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(failed(tail(&String::from_utf8_lossy(&output.stderr), LINES)));
        }
        let wrong = |why: String| MachinesError::Module { module: self.module.clone(), why };
        let all = json_of(&output.stdout).ok_or_else(|| failed(shown(&String::from_utf8_lossy(&output.stdout))))?;
        let Some(found) = all.get(OUTPUT).and_then(|output| output.get("value")) else {
            return Err(wrong(no_output()));
        };
        let mut hosts: Vec<Host> = serde_json::from_value(found.clone()).map_err(|error| {
            wrong(format!("its output `{OUTPUT}` is not a list of machines: {}", shown(&error.to_string())))
        })?;
        for (number, host) in hosts.iter_mut().enumerate() {
            if !host.options.is_empty() {
                return Err(wrong(format!("its output `{OUTPUT}` has `options`, which only an evaluation may set")));
            }
            match &host.key {
                Some(key) if key.starts_with("-----BEGIN ") => {
                    let file = self.folder.join(format!("key-{number}"));
                    write_private(&file, format!("{}\n", key.trim_end()).as_bytes())?;
                    host.key = Some(file.to_string_lossy().into_owned());
                }
                _ => host.key_from(&self.module),
            }
        }
        Ok(hosts)
    }

    /// Whether the program takes the module, and it has the output.
    pub(super) fn validate(&self) -> Result<(), MachinesError> {
        let quiet = &mut |_: &str| {};
        self.step("init", &["-input=false", "-no-color", "-backend=false"], None, &|_| {}, quiet)?;
        self.step("validate", &["-no-color"], None, &|_| {}, quiet)?;
        let files = fs::read_dir(&self.module).into_iter().flatten().flatten().map(|entry| entry.path());
        let has = |file: PathBuf| fs::read_to_string(file).is_ok_and(|text| text.contains(OUTPUT));
        let is_module = |file: &PathBuf| {
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            [".tf", ".tofu", ".tf.json", ".tofu.json"].iter().any(|ending| name.ends_with(ending))
        };
        if files.filter(is_module).any(has) {
            return Ok(());
        }
        Err(MachinesError::Module { module: self.module.clone(), why: no_output() })
    }

    fn command(&self, step: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(format!("-chdir={}", self.module.display())).arg(step).args(arguments);
        command.env("TF_DATA_DIR", self.folder.join("data")).env("TF_IN_AUTOMATION", "1").env("TF_INPUT", "0");
        // Options of these variables could put the state elsewhere.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("TF_CLI_ARGS") || name == "TF_WORKSPACE" {
                command.env_remove(&*name);
            }
        }
        command.stdin(Stdio::null()).process_group(0);
        command
    }

    /// Runs a step to its end; `stop` makes it end in order.
    fn step(
        &self,
        step: &str,
        arguments: &[&str],
        stop: Option<&AtomicBool>,
        pid: Pid<'_>,
        say: Say<'_>,
    ) -> Result<(), MachinesError> {
        let log = self.folder.join(format!("{step}.log"));
        write_private(&log, b"")?;
        let file = || fs::OpenOptions::new().append(true).open(&log).map_err(MachinesError::file(&log));
        let mut command = self.command(step, arguments);
        // A file, and no pipe: when this program has ended, a write to a pipe would end that one in the middle of its work.
        command.stdout(file()?).stderr(file()?);
        let name = format!("{} {step}", self.name());
        let failed = |said: String| MachinesError::Step { step: name.clone(), module: self.module.clone(), said };
        let mut child = command.spawn().map_err(|error| failed(format!("{}: {error}", self.program.display())))?;
        pid(Some(child.id()));
        let mut lines = Lines::of(&log)?;
        let mut told = false;
        let status = loop {
            let status = child.try_wait();
            lines.read(&mut |line| say(&format!("{}: {}", self.name(), first(line, LINE))));
            match status {
                Ok(Some(status)) => break status,
                Ok(None) => {}
                Err(error) => return Err(failed(error.to_string())),
            }
            if !told && stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                told = true;
                say(&format!("{name} is told to stop; it finishes what it has begun"));
                let child = rustix::process::Pid::from_child(&child);
                // One that has ended meanwhile is found to have.
                let _ = rustix::process::kill_process(child, rustix::process::Signal::INT);
            }
            std::thread::sleep(LOOK);
        };
        pid(None);
        lines.read(&mut |line| say(&format!("{}: {}", self.name(), first(line, LINE))));
        if told || stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(MachinesError::Stopped);
        }
        if status.success() {
            return Ok(());
        }
        let said = fs::read_to_string(&log).unwrap_or_default();
        Err(failed(format!("{}\n({status})", tail(&said, LINES))))
    }
}

fn unknown_errored(file: PathBuf) -> MachinesError {
    let why = format!(
        "it is the state of machines that another run has made, and the only record of them; `gauge machines` lists that run, or \
         destroy them (`tofu destroy -state={ERRORED}` in the module) and remove the file"
    );
    MachinesError::Module { module: file, why }
}

/// The first line on which a JSON object begins, and what follows: warnings may stand before and behind it.
fn json_of(output: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(output);
    let begins = text.match_indices('{').map(|(at, _)| at).filter(|at| *at == 0 || text.as_bytes()[at - 1] == b'\n');
    begins
        .filter_map(|at| serde_json::Deserializer::from_str(&text[at..]).into_iter().next()?.ok())
        .find(Value::is_object)
}

/// Told which process works now.
type Pid<'p> = &'p dyn Fn(Option<u32>);

fn no_output() -> String {
    format!(
        "it has no output `{OUTPUT}`: a list of {{role, address, user, key}}, one for each machine; docs/cloud.md shows it"
    )
}

/// The lines of a file that grows.
struct Lines {
    file: File,
    at: u64,
    rest: Vec<u8>,
}

impl Lines {
    fn of(log: &Path) -> Result<Self, MachinesError> {
        Ok(Lines { file: File::open(log).map_err(MachinesError::file(log))?, at: 0, rest: Vec::new() })
    }

    /// The complete lines that came since the last time, without empty ones. What cannot be read is not shown, and is in the file.
    fn read(&mut self, say: Say<'_>) {
        if self.file.seek(SeekFrom::Start(self.at)).is_err() {
            return;
        }
        self.at += self.file.read_to_end(&mut self.rest).unwrap_or(0) as u64;
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            if !line.trim().is_empty() {
                say(line.trim_end());
            }
        }
    }
}

#[cfg(test)]
mod tests;
